"""Your own files into tables: CSV and its relatives, Parquet and SQLite.

What a file is, its first bytes say; its name only breaks ties between delimiters. CSV declares no types, so
:mod:`bonafide.tasks.sql.cells` infers them; Parquet and SQLite declare theirs, so text stays exactly as it
is stored. Nothing is changed silently: each table lists in ``coercions`` what reading it changed, under the
column's name or, for the file as a whole, under ``(file)``.

A file comes from anywhere. Whatever is wrong with it is a :class:`BonafideError`, and a SQLite file is
opened so that nothing in it can write, attach, load code or run on for ever.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from bonafide.errors import BonafideError
from bonafide.files import open_bytes
from bonafide.tasks.sql.cells import Tally, Undecoded, shortest, stored_column
from bonafide.tasks.sql.columns import (
    FIELD_LIMIT,
    FILE,
    ReadColumn,
    damaged,
    empty,
    file_id,
    header_of,
    table_of,
    wanted_types,
)
from bonafide.tasks.sql.delimited import read_csv
from bonafide.tasks.sql.tables import ColumnType, Table

VIEW_SECONDS = 20.0
"""How long one view of a SQLite file may work."""
VIEW_ROWS = 5_000_000
"""How many rows one view of a SQLite file may give."""

_SQLITE = b"SQLite format 3\0"
_PARQUET = re.compile(rb"PAR1(?![\w\s,;|\"'])")  # a CSV file may well have a column PAR1


def read_tables(path: Path, types: Mapping[str, ColumnType] = {}) -> dict[str, Table]:
    """The tables of one file by id, in order; ``types`` overrides the types of columns, by name."""
    return {table.id: table for _, table in read_files([path], types)}


def read_files(
    paths: Sequence[Path], types: Mapping[str, ColumnType], names: Sequence[str] = ()
) -> list[tuple[int, Table]]:
    """The tables of several files, each with its file's place; every override is of a column of one of them at least.

    ``names`` are those of tables that have no name of their own; they are else called as their files are.
    """
    for column, kind in types.items():
        if kind not in ("text", "real"):
            raise BonafideError(f"Column {column!r} cannot have the type {kind!r}: expected 'text' or 'real'.")
    named = enumerate(zip(paths, names or map(file_id, paths), strict=True))
    found = [(place, table) for place, (path, name) in named for table in _read_file(path, types, name)]
    _check_overrides(paths, [column for _, table in found for column in table.header], types)
    return found


def _read_file(path: Path, types: Mapping[str, ColumnType], name: str) -> list[Table]:
    with open_bytes(path) as stream:
        data = stream.read(len(_SQLITE))
        if data != _SQLITE:
            data += stream.read()
    kind = kind_of(data)
    if kind == "SQLite":
        return _read_sqlite(path, types, name)
    return [(_read_parquet if kind == "Parquet" else read_csv)(path, data, types, name)]


def kind_of(data: bytes) -> Literal["SQLite", "Parquet"] | None:
    """What a file is by its first bytes; None: text."""
    return "SQLite" if data.startswith(_SQLITE) else "Parquet" if _PARQUET.match(data) else None


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


# --- Parquet -----------------------------------------------------------------------------------------------


def _read_parquet(path: Path, data: bytes, types: Mapping[str, ColumnType], name: str) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            content = file.read()
            content.validate(full=True)
        titles = [str(title) for title in content.column_names]
    except Exception as error:  # a damaged file makes pyarrow raise errors of almost any type
        raise damaged(path, "Parquet", error) from None
    if not titles or not content.num_rows:
        raise empty(path, "found no row" if titles else "found no column")
    header, renamed = header_of(path, titles)
    wanted = wanted_types(header, types)
    columns: list[ReadColumn] = []
    for title, column in zip(header, content.columns, strict=True):
        tally = Tally(title)
        try:
            numeric, values = _arrow_values(column, tally)
        except Exception as error:
            raise damaged(path, "Parquet", error) from None
        if values is None:
            raise BonafideError(
                f"Cannot read {path}: the column {title!r} has the type {column.type}; expected numbers, "
                f"text, truth values, dates or times. Leave the column out, or unfold it into plain ones."
            )
        columns.append(stored_column(title, values, numeric, wanted.get(title), tally))
    return table_of(name, titles, header, columns, renamed)


def _arrow_values(column: Any, tally: Tally) -> tuple[bool, list[Any] | None]:
    """(is it declared as numbers, its values as Python numbers and texts), or no values for other types."""
    import pyarrow as pa

    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, is_a = column.type, pa.types
    if is_a.is_integer(kind) or is_a.is_float64(kind) or is_a.is_decimal(kind):
        return True, column.to_pylist()
    if is_a.is_floating(kind):
        return True, [None if value is None else shortest(value, kind, tally) for value in column.to_pylist()]
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


def _read_sqlite(path: Path, types: Mapping[str, ColumnType], unnamed: str) -> list[Table]:
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
                except sqlite3.OperationalError as error:
                    if entry != "view" and "no such module" not in str(error):
                        raise
                    broken.append(str(name))  # it selects from what is not there, or needs an extension of SQLite
                    continue
                found.append((str(name), titles, numeric, rows))
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError, OverflowError, MemoryError) as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BonafideError(
                f"Cannot read {path}: another program is writing to it and has locked it. Close that program, or wait "
                "until it is done."
            ) from None
        raise damaged(path, "SQLite", error) from None

    notes = Tally(FILE)
    for name in broken:
        notes.noted("view or table that cannot be read left out", name)
    for name, _, _, rows in found:
        if not rows:
            notes.noted("empty table left out", name)
    full = [entry for entry in found if entry[3]]
    if not full:
        no_table = (
            f"found views or tables that cannot be read ({', '.join(broken)})"
            if broken
            else "found no table in the file"
        )
        raise empty(path, f"found {len(found)} tables and no row" if found else no_table)
    headers = [header_of(path, titles) for _, titles, _, _ in full]
    tables: list[Table] = []
    for (name, titles, numeric, rows), (header, renamed) in zip(full, headers, strict=True):
        wanted = wanted_types(header, types)
        columns = [
            stored_column(column, cells, title in numeric, wanted.get(column), Tally(column))
            for column, title, cells in zip(header, titles, zip(*rows, strict=True), strict=True)
        ]
        extra = renamed if tables else [*notes.coercions(), *renamed]
        table = table_of(name or unnamed, titles, header, columns, extra)
        tables.append(replace(table, stored=tuple(titles)))  # names that SQLite gave it knows, blank ones too
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
