"""Your own files into tables: CSV and its relatives, Parquet and SQLite.

What a file is, its first bytes say; its name only breaks ties between delimiters. CSV declares no types, so
:mod:`bonafide.tasks.sql.cells` infers them; Parquet and SQLite declare theirs, so text stays exactly as it
is stored. Nothing is changed silently: each table lists in ``coercions`` what reading it changed, under the
column's name or, for the file as a whole, under ``(file)``.

A file comes from anywhere. Whatever is wrong with it is a :class:`BonafideError`, and a SQLite file is
opened so that nothing in it can write, attach, load code or run on for ever.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.files import bare_name, decoded, open_bytes
from bonafide.tasks.sql.cells import Tally, Undecoded, from_decimal, read_column, shortest, stored_column
from bonafide.tasks.sql.tables import Cell, Coercion, ColumnType, Table, unique_names

FIELD_LIMIT = 10_000_000
"""Characters of the longest cell."""
COLUMN_LIMIT = 2000
"""Columns of the widest table: SQLite's own limit."""
VIEW_SECONDS = 20.0
"""How long one view of a SQLite file may work."""
VIEW_ROWS = 5_000_000
"""How many rows one view of a SQLite file may give."""

_SNIFFED_RECORDS = 200
_SNIFFED_CHARACTERS = 1 << 20
# From the one that text holds most rarely: on a tie it is the better sign.
_DELIMITERS = ("\t", "|", ";", ",")
_DELIMITER_OF_SUFFIX = {".tsv": "\t", ".psv": "|"}
_CONTROLS = re.compile(r"[^\t\n\v\f\r -~\x85\xa0-\U0010ffff]")
_SQLITE = b"SQLite format 3\0"
_PARQUET = re.compile(rb"PAR1(?![\w\s,;|\"'])")  # a CSV file may well have a column PAR1
_FILE = "(file)"

ReadColumn = tuple[ColumnType, list[Cell], list[Coercion]]


def read_tables(path: Path, types: Mapping[str, ColumnType] = {}) -> dict[str, Table]:
    """The tables of one file by id, in order; ``types`` overrides the types of columns, by name."""
    return {table.id: table for _, table in read_files([path], types)}


def read_files(paths: Sequence[Path], types: Mapping[str, ColumnType]) -> list[tuple[Path, Table]]:
    """The tables of several files, each with its file; every override is of a column of one of them at least."""
    for column, kind in types.items():
        if kind not in ("text", "real"):
            raise BonafideError(f"Column {column!r} cannot have the type {kind!r}: expected 'text' or 'real'.")
    found = [(path, table) for path in paths for table in _read_file(path, types).values()]
    _check_overrides(paths, [column for _, table in found for column in table.header], types)
    return found


def _read_file(path: Path, types: Mapping[str, ColumnType]) -> dict[str, Table]:
    with open_bytes(path) as stream:
        data = stream.read(len(_SQLITE))
        if data != _SQLITE:
            data += stream.read()
    if data == _SQLITE:
        return _read_sqlite(path, types)
    table = _read_parquet(path, data, types) if _PARQUET.match(data) else read_csv(path, data, types)
    return {table.id: table}


# --- CSV ---------------------------------------------------------------------------------------------------


def read_csv(path: Path, data: bytes, types: Mapping[str, ColumnType]) -> Table:
    """A table from the bytes of a CSV file; ``path`` names it."""
    notes = Tally(_FILE)
    text = _decode(path, data, notes)
    with _long_fields():
        delimiter, skip_spaces = _sniff(text, path)
        if skip_spaces:
            notes.changed("space before quotes", f'{delimiter} "', f'{delimiter}"')
        records = _records(path, text, delimiter, skip_spaces)
        _, titles = next(records, (1, None))
        if titles is None:
            raise _empty(path, "found nothing in the file")
        header, renamed = _header(path, titles)
        rows = _rectangle(path, records, len(header), notes)
    if not rows:
        raise _empty(path, "found a header and no row")
    wanted = _wanted(header, types)
    columns = [
        read_column(name, cells, wanted.get(name)) for name, cells in zip(header, zip(*rows, strict=True), strict=True)
    ]
    return _table(_file_id(path), header, columns, [*notes.coercions(), *renamed])


def _decode(path: Path, data: bytes, notes: Tally) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError as error:
            raise BonafideError(
                f"Cannot read {path}: it begins as UTF-16 text and byte {error.start:,} is no such text "
                f"({error.reason}). The file is damaged or cut short; save it again as UTF-8."
            ) from None
    elif b"\0" in data:
        raise _binary(path, "NUL bytes")
    else:
        text, encoding = decoded(data)
        if encoding != "utf-8-sig":
            notes.noted("encoding", f"read as {encoding}")
    sample = text[:_SNIFFED_CHARACTERS]
    if "\0" in text or 10 * len(_CONTROLS.findall(sample)) > len(sample):
        raise _binary(path, "control characters")
    return text


def _binary(path: Path, found: str) -> BonafideError:
    return BonafideError(
        f"Cannot read {path}: expected a table as text (CSV), found {found}: this is a binary file, or text "
        f"in an unmarked encoding. Export the table as CSV in UTF-8, or give a Parquet or SQLite file."
    )


def _sniff(text: str, path: Path) -> tuple[str, bool]:
    """The delimiter, and whether spaces after it are to be skipped because quotes follow them.

    The header sets the number of fields, and the delimiter wins under which most of the first records have
    that number. One that does not split the header is none; a file where none does has one column.
    """
    suffix = Path(path.name.removesuffix(".gz").removesuffix(".xz")).suffix.lower()
    own = _DELIMITER_OF_SUFFIX.get(suffix)
    best, choice = (0.0, False), own or ","
    for delimiter in _DELIMITERS:
        share, records = _consistency(text, delimiter, False)
        if len(records[0]) > 1 and (share, delimiter == own) > best:
            best, choice = (share, delimiter == own), delimiter
    if f'{choice} "' not in text[:_SNIFFED_CHARACTERS]:
        return choice, False
    share, records = _consistency(text, choice, False)
    share_skipping, skipping = _consistency(text, choice, True)
    pairs = zip(chain.from_iterable(records), chain.from_iterable(skipping), strict=False)
    quotes_follow_spaces = any(field.lstrip(" ") != other.lstrip(" ") for field, other in pairs)
    return choice, share_skipping > share or (share_skipping == share and quotes_follow_spaces)


def _consistency(text: str, delimiter: str, skip_spaces: bool) -> tuple[float, list[list[str]]]:
    """The share of the first records that have as many fields as the header, and those records."""
    records: list[list[str]] = []
    broken = 0
    try:
        for record in _reader(text[:_SNIFFED_CHARACTERS], delimiter, skip_spaces):
            if record and not (len(record) == 1 and not record[0].strip()):
                records.append(record)
            if len(records) > _SNIFFED_RECORDS:
                break
    except csv.Error:
        # the sample ends anywhere, also between quotes: an error in a cut sample proves nothing
        broken = len(text) <= _SNIFFED_CHARACTERS
    if not records:
        return 0.0, [[]]
    fit = sum(len(record) == len(records[0]) for record in records)
    return fit / (len(records) + broken), records


def _reader(text: str, delimiter: str, skip_spaces: bool) -> Any:
    lines = io.StringIO(text, newline="")
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=skip_spaces, strict=True)


@contextmanager
def _long_fields() -> Iterator[None]:
    """The module csv keeps its limit for the whole process: leave it as it was."""
    before = csv.field_size_limit(FIELD_LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _records(path: Path, text: str, delimiter: str, skip_spaces: bool) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of each record that is not blank."""
    reader = _reader(text, delimiter, skip_spaces)
    begun = False
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _broken_record(path, line, delimiter, str(error)) from None
        if record and (begun or len(record) > 1 or not record[0].isspace()):
            begun = True
            yield line, record


def _broken_record(path: Path, line: int, delimiter: str, reason: str) -> BonafideError:
    if "field limit" in reason:
        problem = f"has a field of more than {FIELD_LIMIT:,} characters"
    elif "unexpected end" in reason:
        problem = "opens a quote that is never closed"
    else:
        problem = f"goes on after a closing quote, where the delimiter {delimiter!r} was expected"
    return BonafideError(
        f"Cannot read {path}: the record that begins on line {line:,} {problem} ({reason}). Put the whole "
        f"field between quotes, close them, and double each quote that belongs to the text."
    )


def _rectangle(
    path: Path, records: Iterable[tuple[int, list[str]]], width: int, notes: Tally
) -> list[list[str | None]]:
    """The rows, each as wide as the header: short ones are padded, long ones cut where nothing is lost."""
    rows: list[Any] = []
    for line, record in records:
        found = len(record)
        if found != width:
            if found == 1 and record[0].isspace():
                continue  # a blank line with spaces in it
            if found < width:
                notes.noted("short row", f"line {line}: {found} of {width} fields")
                record += [None] * (width - found)  # type: ignore[list-item]
            elif not any(map(str.strip, record[width:])):
                notes.noted("long row", f"line {line}: {found - width} empty fields cut")
                del record[width:]
            else:
                raise BonafideError(
                    f"Cannot read {path}, line {line:,}: expected {width:,} field{'s' * (width > 1)} as in "
                    f"the header, found {found:,}. Put a field that holds the delimiter between quotes, or "
                    f"name the missing columns in the header."
                )
        rows.append(record)
    return rows


# --- Parquet -----------------------------------------------------------------------------------------------


def _read_parquet(path: Path, data: bytes, types: Mapping[str, ColumnType]) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            content = file.read()
            content.validate(full=True)
        titles = [str(title) for title in content.column_names]
    except Exception as error:  # a damaged file makes pyarrow raise errors of almost any type
        raise _damaged(path, "Parquet", error) from None
    if not titles or not content.num_rows:
        raise _empty(path, "found no row" if titles else "found no column")
    header, renamed = _header(path, titles)
    wanted = _wanted(header, types)
    columns: list[ReadColumn] = []
    for name, column in zip(header, content.columns, strict=True):
        tally = Tally(name)
        try:
            numeric, values = _arrow_values(column, tally)
        except Exception as error:
            raise _damaged(path, "Parquet", error) from None
        if values is None:
            raise BonafideError(
                f"Cannot read {path}: the column {name!r} has the type {column.type}; expected numbers, "
                f"text, truth values, dates or times. Leave the column out, or unfold it into plain ones."
            )
        columns.append(stored_column(name, values, numeric, wanted.get(name), tally))
    return _table(_file_id(path), header, columns, renamed)


def _arrow_values(column: Any, tally: Tally) -> tuple[bool, list[Any] | None]:
    """(is it declared as numbers, its values as Python numbers and texts), or no values for other types."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, is_a = column.type, pa.types
    if is_a.is_integer(kind) or is_a.is_float64(kind):
        return True, column.to_pylist()
    if is_a.is_floating(kind):
        return True, [None if value is None else shortest(value, kind, tally) for value in column.to_pylist()]
    if is_a.is_decimal(kind):
        return True, [None if value is None else from_decimal(value, tally) for value in column.to_pylist()]
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind) or is_a.is_null(kind):
        return False, column.to_pylist()
    if is_a.is_boolean(kind):
        values = [None if value is None else str(value).lower() for value in column.to_pylist()]
        tally.kept_all("truth value", values)
        return False, values
    if is_a.is_date(kind) or is_a.is_time(kind) or is_a.is_timestamp(kind):
        texts = column.cast(pa.string()).to_pylist()
        values = [text and _iso(text) for text in texts]
        tally.kept_all("date or time", values)
        return False, values
    return False, None


def _iso(text: str) -> str:
    """Arrow's own text of a date or time in ISO 8601: a T, a colon in the offset, no fraction of zeros."""
    text = re.sub(r"\.0+(?![0-9])", "", text.replace(" ", "T", 1))
    return re.sub(r"([+-][0-9]{2})([0-9]{2})\Z", r"\1:\2", text) if "T" in text else text


# --- SQLite ------------------------------------------------------------------------------------------------


def _read_sqlite(path: Path, types: Mapping[str, ColumnType]) -> dict[str, Table]:
    found: list[tuple[str, list[str], set[str], list[tuple[Any, ...]]]] = []
    broken: list[str] = []
    try:
        with _unpacked(path) as plain, closing(_connect(plain)) as connection:
            entries = connection.execute(
                "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
            ).fetchall()
            for name, entry in entries:
                try:
                    declared = connection.execute("SELECT name, type FROM pragma_table_info(?)", (name,))
                    numeric = {str(column) for column, kind in declared if _is_numeric(str(kind))}
                    titles, rows = _fetch(path, connection, str(name), entry == "view")
                except sqlite3.OperationalError:
                    if entry != "view":
                        raise
                    broken.append(str(name))  # it selects from what is not there
                    continue
                found.append((str(name), titles, numeric, rows))
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError, OverflowError, MemoryError) as error:
        raise _damaged(path, "SQLite", error) from None

    notes = Tally(_FILE)
    for name in broken:
        notes.noted("broken view left out", name)
    for name, _, _, rows in found:
        if not rows:
            notes.noted("empty table left out", name)
    full = [entry for entry in found if entry[3]]
    if not full:
        no_table = f"found views that cannot be read ({', '.join(broken)})" if broken else "found no table in the file"
        raise _empty(path, f"found {len(found)} tables and no row" if found else no_table)
    headers = [_header(path, titles) for _, titles, _, _ in full]
    tables: dict[str, Table] = {}
    for (name, titles, numeric, rows), (header, renamed) in zip(full, headers, strict=True):
        wanted = _wanted(header, types)
        columns = [
            stored_column(column, cells, title in numeric, wanted.get(column), Tally(column))
            for column, title, cells in zip(header, titles, zip(*rows, strict=True), strict=True)
        ]
        extra = renamed if tables else [*notes.coercions(), *renamed]
        tables[name or _file_id(path)] = _table(name or _file_id(path), header, columns, extra)
    return tables


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The file itself or, where it is compressed, a copy that SQLite can open."""
    if path.suffix not in (".gz", ".xz"):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "unpacked.db"
        with open_bytes(path) as stream, copy.open("wb") as target:
            while block := stream.read(1 << 20):
                target.write(block)
        yield copy


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file that nobody vouches for; Python leaves the loading of extensions off by itself."""
    with open_bytes(path) as stream:
        keeps_log = stream.read(20)[18:] == b"\x02\x02"
    # Even a reader leaves two files beside a database with a write-ahead log, unless told that nobody writes.
    unwritten = keeps_log and not path.with_name(path.name + "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if unwritten else ''}"
    connection = sqlite3.connect(uri, uri=True)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, FIELD_LIMIT)
        for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Undecoded(raw.decode("latin-1"))


def _fetch(
    path: Path, connection: sqlite3.Connection, name: str, is_view: bool
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The column names and rows of one table or view; a view that works too long is stopped."""
    deadline = time.monotonic() + VIEW_SECONDS
    too_long = BonafideError(
        f"Cannot read {path}: the view {name!r} was stopped after {VIEW_SECONDS:g} seconds or {VIEW_ROWS:,} "
        f"rows; it may never end. Drop the view, or store what it selects as a table."
    )
    connection.set_progress_handler((lambda: time.monotonic() > deadline) if is_view else None, 10_000)
    rows: list[tuple[Any, ...]] = []
    try:
        quoted = name.replace('"', '""')
        cursor = connection.execute(f'SELECT * FROM "{quoted}"')
        titles = [str(column[0]) for column in cursor.description]
        while batch := cursor.fetchmany(10_000):
            rows += batch
            if is_view and len(rows) > VIEW_ROWS:
                raise too_long
    except sqlite3.OperationalError as error:
        if str(error) == "interrupted":
            raise too_long from None
        raise
    finally:
        connection.set_progress_handler(None, 0)
    return titles, rows


def _is_numeric(declared: str) -> bool:
    """SQLite's own rules of affinity."""
    declared = declared.upper()
    if "INT" in declared:
        return True
    return bool(declared) and not any(word in declared for word in ("CHAR", "CLOB", "TEXT", "BLOB"))


# --- All three ---------------------------------------------------------------------------------------------


def _header(path: Path, titles: Sequence[str]) -> tuple[tuple[str, ...], list[Coercion]]:
    """Column names that SQLite accepts, and what was changed in them."""
    if len(titles) > COLUMN_LIMIT:
        raise BonafideError(
            f"Cannot read {path}: it has {len(titles):,} columns; expected at most {COLUMN_LIMIT:,}, as in "
            f"SQLite. Keep the columns that the questions ask about, or turn the table so that they are rows."
        )
    names, coercions = unique_names(titles)
    trimmed = [
        Coercion(name, "white space in name", 1, f"{title!r} → {name!r}")
        for name, title in zip(names, titles, strict=True)
        if title != title.strip()
    ]
    return names, [*trimmed, *coercions]


def _check_overrides(paths: Sequence[Path], columns: Sequence[str], types: Mapping[str, ColumnType]) -> None:
    known = {column.lower(): column for column in columns}
    for column in types:
        if column.lower() not in known:
            nearest = known[difflib.get_close_matches(column.lower(), known, 1, 0.0)[0]]
            more = f" and {len(columns) - 40} more" if columns[40:] else ""
            listed = ", ".join(map(repr, columns[:40])) + more
            raise BonafideError(
                f"{', '.join(map(str, paths))}: no column {column!r} to give a type to; expected one of {listed}. "
                f"Did you mean {nearest!r}?"
            )


def _wanted(header: Sequence[str], types: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The overrides of one table, by the exact name first and else without regard to case."""
    folded = {column.lower(): kind for column, kind in types.items()}
    return {name: types.get(name, folded[name.lower()]) for name in header if name.lower() in folded}


def _table(name: str, header: tuple[str, ...], columns: Sequence[ReadColumn], coercions: Sequence[Coercion]) -> Table:
    rows = list(zip(*(cells for _, cells, _ in columns), strict=True))
    changed = [coercion for _, _, column in columns for coercion in column]
    return Table(name, header, tuple(kind for kind, _, _ in columns), rows, (*coercions, *changed))


def _file_id(path: Path) -> str:
    return bare_name(path) or path.name


def _empty(path: Path, found: str) -> BonafideError:
    return BonafideError(
        f"Cannot read {path}: the table is empty: expected a header and at least one row, {found}. "
        f"Check that this is the right file."
    )


def _damaged(path: Path, kind: str, error: BaseException) -> BonafideError:
    reason = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return BonafideError(
        f"Cannot read {path} as a {kind} file: {reason}. The file may be damaged or cut short: copy it again."
    )
