"""What a request brings, read into a context within the limits. This runs in the worker, and imports little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bonafide.examples import Example
from bonafide.serve.limits import Limits, at_most
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.sql.cells import Tally, stored_column
from bonafide.tasks.sql.delimited import read_csv, widest_header
from bonafide.tasks.sql.readers import kind_of
from bonafide.tasks.sql.tables import Table, stored_names, unique_names
from bonafide.tasks.task import Task
from bonafide.web.answers import RefusedError

_PACKED = {b"PK\x03\x04": "zip", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zX": "xz", b"(\xb5/\xfd": "zstd"}


def table_of_csv(data: bytes, limits: Limits) -> Table:
    """The table of a CSV file, checked before it is read and after."""
    kind = next((name for start, name in _PACKED.items() if data.startswith(start)), None)
    if kind is not None:
        workbook = " (an Excel workbook is one: save its sheet as CSV)" if kind == "zip" else ""
        raise RefusedError(415, f"A table must not be compressed; this is a {kind} file{workbook}. Unpack it first.")
    if (other := kind_of(data)) is not None:
        raise RefusedError(
            415, f"This is a {other} file, and a table is brought as CSV. Export it, or start the server with --table."
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RefusedError(415, "This is text in UTF-16. Save the table as CSV in UTF-8.")
    lines = data.count(b"\n") + data.count(b"\r") + 1
    at_most(lines, 4 * limits.rows, "lines")
    at_most(lines * widest_header(data), 4 * limits.cells, "cells, counting every line as long as the header")
    table = read_csv(Path("table.csv"), data, {}, "table")
    _check(table.header, len(table.rows), limits)
    for row in table.rows:
        for cell in row:
            if isinstance(cell, str):
                at_most(len(cell), limits.cell, "characters in a cell")
    return prepared(table)


def table_of_rows(rows: Sequence[Mapping[str, Any]], limits: Limits) -> Table:
    """The table of a list of objects; a column of numbers alone, and of no long ids, is one of numbers."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
        at_most(len(names), limits.columns, "columns")
    if not names:
        raise RefusedError(422, "The table is empty: expected rows with at least one column.")
    _check(tuple(names), len(rows), limits)
    columns = []
    for name in names:
        cells = [row.get(name) for row in rows]
        values = [str(each).lower() if isinstance(each, bool) else each for each in cells]
        for each in values:
            at_most(len(each) if isinstance(each, str) else 0, limits.cell, "characters in a cell")
        columns.append(stored_column(name, values, False, None, Tally(name)))
    header, renamed = unique_names(list(names))
    cells_by_row = list(zip(*(cells for _, cells, _ in columns), strict=True))
    types, stored = tuple(kind for kind, _, _ in columns), stored_names(list(names), header)
    return prepared(Table("table", header, types, cells_by_row, renamed, stored))


def passage_of(text: str) -> Passage:
    """A passage with its numbers and dates found."""
    passage = Passage(text)
    passage.dates  # noqa: B018 (found once, and kept)
    return passage


def searched(task: Task[Any], example: Example, raw: Any) -> Any:
    """Every solution of an example, or a sample under the task's cap."""
    return task.search(example, task.prepare(raw))


def prepared(table: Table) -> Table:
    """The table with its columns as queries see them, so that the model need not wait for them."""
    for column in table.columns:
        column.codes  # noqa: B018 (made once, and kept)
    return table


def _check(header: Sequence[str], rows: int, limits: Limits) -> None:
    at_most(len(header), limits.columns, "columns")
    at_most(rows, limits.rows, "rows")
    at_most(rows * len(header), limits.cells, "cells")
    for name in header:
        at_most(len(name), limits.cell, "characters in a column name")
