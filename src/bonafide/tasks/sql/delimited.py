"""CSV and its relatives into a table: encoding, delimiter and quotes are found out, types are inferred."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, product
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.files import decoded
from bonafide.tasks.sql.cells import Tally, read_column
from bonafide.tasks.sql.columns import FIELD_LIMIT, FILE, empty, header_of, table_of, wanted_types
from bonafide.tasks.sql.tables import ColumnType, Table

_SNIFFED_RECORDS = 200
_SNIFFED_CHARACTERS = 1 << 20
# From the one that text holds most rarely: on a tie it is the better sign.
_DELIMITERS = ("\t", "|", ";", ",")
_DELIMITER_OF_SUFFIX = {".tsv": "\t", ".psv": "|"}
_FOR_EXCEL = re.compile(r"sep=[,;|\t]?", re.IGNORECASE).fullmatch
_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"')
_CONTROLS = re.compile(r"[^\t\n\v\f\r -~\x85\xa0-\U0010ffff]")


def read_csv(path: Path, data: bytes, types: Mapping[str, ColumnType], name: str) -> Table:
    """A table of this name from the bytes of a CSV file; errors call it ``path``."""
    notes = Tally(FILE)
    text = _decode(path, data, notes)
    with _long_fields():
        delimiter, skip_spaces = _sniff(text, path)
        if skip_spaces:
            notes.changed("space before quotes", f'{delimiter} "', f'{delimiter}"')
        records = _records(path, text, delimiter, skip_spaces)
        _, titles = next(records, (1, None))
        if titles is None:
            raise empty(path, "found nothing in the file")
        header, renamed = header_of(path, titles)
        rows = _rectangle(path, records, len(header), notes)
    if not rows:
        raise empty(path, "found a header and no row")
    wanted = wanted_types(header, types)
    columns = [
        read_column(title, cells, wanted.get(title))
        for title, cells in zip(header, zip(*rows, strict=True), strict=True)
    ]
    return table_of(name, titles, header, columns, [*notes.coercions(), *renamed])


def widest_header(data: bytes) -> int:
    """At most so many columns the header of a CSV file has, whatever its delimiter turns out to be."""
    text, _ = decoded(data)
    widest = 0
    with _long_fields():
        for delimiter, skip_spaces in product(_DELIMITERS, (False, True)):
            with suppress(BonafideError):  # under this delimiter it cannot be read at all
                widest = max(widest, len(next(_records(Path(), text, delimiter, skip_spaces), (1, []))[1]))
    return widest


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
    if _JSON.match(text):
        raise BonafideError(
            f"Cannot read {path}: expected a table as text (CSV), found JSON. Export the table as CSV, or give a "
            "Parquet or SQLite file; a tables.jsonl is what --tables takes."
        )
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
            if record and not (len(record) == 1 and not record[0].strip()) and (records or not _is_for_excel(record)):
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
        if record and (begun or not (_is_for_excel(record) or (len(record) == 1 and record[0].isspace()))):
            begun = True
            yield line, record


def _is_for_excel(record: list[str]) -> bool:
    """Whether this is the line ``sep=;``, by which some files tell Excel their delimiter: we find it out ourselves."""
    return _FOR_EXCEL(";".join(record)) is not None


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
