"""Tables: the context of the SQL task, and how the engine sees their cells.

A table has two faces. ``rows`` is what people see, in the original case. ``columns`` is what queries
see, with the semantics of WikiSQL's SQLite engine: text is lower-cased, a ``text`` column holds text, a
``real`` column holds numbers and, where a cell is no number, text that sorts above all numbers.

Column names are made unique without regard to case and never empty, because SQLite needs them so; what
was renamed or re-read on the way in is counted in ``coercions``.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from bonafide.errors import InvalidFileError, Problem
from bonafide.examples import describe
from bonafide.files import LineFile, parse_json

ColumnType = Literal["text", "real"]
Cell = str | int | float | None
"""A cell as people see it."""
Value = str | float | None
"""A cell as the engine sees it: lower-cased text, a number, or NULL."""

Mask = npt.NDArray[np.bool_]

TOLERANCE = 1e-9
"""Two numbers are the same answer when they differ by at most this share of the larger one, and by less than 0.5."""
WHOLE = 2.0**53
"""From here on floats do not hold every whole number, and the share alone counts."""

_LITERAL = re.compile(r"[ \t\n\v\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\v\f\r]*\Z")
_PREFIX = re.compile(r"[ \t\n\v\f\r]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Coercion:
    """What reading a table changed: how many cells of a column (or its name), and one of them."""

    column: str
    kind: str
    count: int
    example: str


@dataclass(frozen=True, eq=False)
class Table:
    """A named table; see the module's docstring for its two faces."""

    id: str
    header: tuple[str, ...]
    types: tuple[ColumnType, ...]
    rows: Sequence[tuple[Cell, ...]]
    coercions: tuple[Coercion, ...] = ()
    stored: tuple[str, ...] = ()  # the columns as the user's own file calls them, where that differs from the header

    @property
    def sql_names(self) -> tuple[str, ...]:
        """What SQL calls the columns: it is to run on the user's own table, where a name may begin with a space."""
        return self.stored or self.header

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns as the engine sees them."""
        cells = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.header)
        return tuple(
            Column([engine_value(cell, kind) for cell in column])
            for kind, column in zip(self.types, cells, strict=True)
        )

    @cached_property
    def codes(self) -> npt.NDArray[np.int32]:
        """(rows, columns): the rank of each cell in its column, −1 for NULL."""
        return np.stack([column.codes for column in self.columns], axis=1)

    @cached_property
    def text_cells(self) -> dict[str, list[int]]:
        """Which text columns hold this (lower-cased) text."""
        where: dict[str, list[int]] = {}
        for index, kind in enumerate(self.types):
            if kind == "text":
                for value in self.columns[index].rank:
                    where.setdefault(cast(str, value), []).append(index)
        return where


class Column:
    """One column as the engine sees it: its values, their rank in SQLite's order, and row masks by rank."""

    def __init__(self, cells: list[Value]) -> None:
        self.cells = cells
        self.values: list[str | float] = sorted(
            {cell for cell in cells if cell is not None}, key=lambda value: (isinstance(value, str), value)
        )
        self.rank: dict[str | float, int] = {value: rank for rank, value in enumerate(self.values)}
        self.numbers = sum(isinstance(value, float) for value in self.values)
        ranks = self.rank
        self.codes: npt.NDArray[np.int32] = np.fromiter(
            (-1 if cell is None else ranks[cell] for cell in cells), np.int32, len(cells)
        )
        self.full = None not in cells

    def band(self, answer: str | float) -> tuple[int, int]:
        """The ranks [low, high) of the values that are the same answer as ``answer``."""
        if isinstance(answer, str):
            rank = self.rank.get(answer)
            return (rank, rank + 1) if rank is not None else (0, 0)
        numbers = cast(list[float], self.values)
        slack = reach(answer)
        low = bisect_left(numbers, answer - slack, 0, self.numbers)
        high = bisect_right(numbers, answer + slack, low, self.numbers)
        while low < high and not same_number(numbers[low], answer):
            low += 1
        while high > low and not same_number(numbers[high - 1], answer):
            high -= 1
        return low, high

    def equal(self, value: str | float) -> Mask:
        """Rows where the cell equals ``value``, as SQLite compares."""
        rank = self.rank.get(value)
        return np.equal(self.codes, -2 if rank is None else rank)

    def below(self, value: str | float) -> Mask:
        """Rows where the cell sorts below ``value``: numbers by size, then text by code point."""
        return (self.codes >= 0) & (self.codes < self._position(value, bisect_left))

    def above(self, value: str | float) -> Mask:
        """Rows where the cell sorts above ``value``."""
        return self.codes >= self._position(value, bisect_right)

    def _position(self, value: str | float, bisect: Any) -> int:
        if isinstance(value, str):
            return int(bisect(self.values, value, self.numbers, len(self.values)))
        return int(bisect(self.values, value, 0, self.numbers))

    @cached_property
    def summands(self) -> npt.NDArray[np.float64]:
        """What SUM and AVG add up for each row: the number, or the number that a text begins with, or 0."""
        by_rank = np.array([leading_number(value) for value in self.values] + [0.0])
        return by_rank[self.codes]

    @cached_property
    def summand_bounds(self) -> tuple[float, float, float, float, bool]:
        """Of what SUM adds up: lowest, highest, least and most of any set of rows, whether all are whole."""
        summands = self.summands[self.codes >= 0]
        if not len(summands):
            return 0.0, 0.0, 0.0, 0.0, True
        margin = 1e-12 * float(np.abs(summands).sum())
        least, most = float(summands[summands < 0].sum()) - margin, float(summands[summands > 0].sum()) + margin
        return float(summands.min()), float(summands.max()), least, most, bool((summands == np.rint(summands)).all())


def engine_value(cell: Cell, kind: ColumnType) -> Value:
    """How SQLite's column affinity and WikiSQL's lower-casing see a cell; NULL: a number beyond all floats."""
    if cell is None:
        return None
    if kind == "text":
        return (cell if isinstance(cell, str) else repr(cell)).lower().replace("\0", "")
    if isinstance(cell, str):
        text = cell.replace("\0", "")
        if not _LITERAL.match(text):
            return text.lower()
        number = float(text)
        return number + 0.0 if math.isfinite(number) else None  # never −0.0
    return float(cell) + 0.0


def leading_number(value: str | float) -> float:
    """The number that SUM and AVG take from a value: SQLite reads as far as the text is a number."""
    if isinstance(value, float):
        return value
    match = _PREFIX.match(value)
    return float(match.group()) if match else 0.0


def same_number(left: float, right: float) -> bool:
    """Whether two numbers are the same answer: never two whole numbers that floats tell apart."""
    if not math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=0.0):
        return False
    return abs(left - right) < 0.5 or min(abs(left), abs(right)) >= WHOLE


def reach(number: float) -> float:
    """No number that is the same answer as this one lies farther away."""
    share = 2 * TOLERANCE * abs(number)
    return share if abs(number) >= WHOLE else min(share, 0.5)


def unique_names(header: Sequence[str]) -> tuple[tuple[str, ...], tuple[Coercion, ...]]:
    """Column names that SQLite accepts: never empty, different without regard to case."""
    names: list[str] = []
    taken: set[str] = set()
    coercions: list[Coercion] = []
    for position, original in enumerate(header, start=1):
        wanted = original.replace("\0", "").strip() or f"column {position}"
        name, copy = wanted, 1
        while name.lower() in taken:
            copy += 1
            name = f"{wanted} ({copy})"
        taken.add(name.lower())
        names.append(name)
        if name != original.strip():
            kind = "empty name" if not original.strip() else "name used twice"
            coercions.append(Coercion(name, kind, 1, f"{original!r} → {name!r}"))
    return tuple(names), tuple(coercions)


def stored_names(titles: Sequence[str], header: tuple[str, ...]) -> tuple[str, ...]:
    """The titles of a file as far as SQLite can tell them apart, and else the header's names; () for the header."""

    def folded(name: str) -> bytes:
        return name.encode(errors="surrogatepass").lower()  # ASCII alone, as SQLite does

    times = Counter(map(folded, titles))
    names = tuple(
        title if title.strip() and "\0" not in title and times[folded(title)] == 1 else name
        for title, name in zip(titles, header, strict=True)
    )
    return () if names == header or len(set(map(folded, names))) < len(names) else names


class TableFile(LineFile):
    """``tables.jsonl``: WikiSQL's own table format, one object a line, found by id without holding all in memory."""

    def __init__(self, path: Path) -> None:
        def read(line: int, raw: bytes) -> tuple[str | None, list[Problem]]:
            table, problems = _read_table(line, raw)
            return None if table is None else table.id, problems

        super().__init__(path, read, "tables")

    def __getitem__(self, name: str) -> Table:
        return table_from_line(self.raw(name))


def table_from_line(raw: bytes) -> Table:
    """The table of one line of ``tables.jsonl``."""
    table, problems = _read_table(0, raw)
    if table is None:
        raise InvalidFileError("tables.jsonl", problems)
    return table


def table_to_json(table: Table) -> dict[str, Any]:
    """The line of ``tables.jsonl`` for this table."""
    return {
        "id": table.id,
        "header": list(table.sql_names),
        "types": list(table.types),
        "rows": [list(row) for row in table.rows],
    }


def _read_table(line: int, raw: bytes) -> tuple[Table | None, list[Problem]]:
    try:
        data = parse_json(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        return None, [Problem(line, "", "(line)", "one JSON object", str(error))]
    if not isinstance(data, dict):
        return None, [Problem(line, "", "(line)", "one JSON object", describe(data))]
    name, header, types, rows = (data.get(field) for field in ("id", "header", "types", "rows"))
    label = name if isinstance(name, str) else ""

    def fail(field: str, expected: str, found: object) -> tuple[None, list[Problem]]:
        return None, [Problem(line, label, field, expected, describe(found))]

    if not isinstance(name, str) or not name:
        return fail("id", "a text that is not empty", name)
    if not isinstance(header, list) or not header or not all(isinstance(title, str) for title in header):
        return fail("header", "a list of at least one column name", header)
    if not isinstance(types, list) or len(types) != len(header) or any(kind not in ("text", "real") for kind in types):
        return fail("types", f"a list of {len(header)} of 'text' and 'real'", types)
    if not isinstance(rows, list) or not rows:
        return fail("rows", "a list of at least one row: the table is empty", rows)
    for row in rows:
        if not isinstance(row, list) or len(row) != len(header):
            return fail("rows", f"rows of {len(header)} cells", row)
        for cell in row:
            if cell.__class__ is int or cell.__class__ is float:
                if not -1e300 < cell < 1e300:  # NaN fails this too
                    return fail("rows", "numbers between -1e300 and 1e300", cell)
            elif cell is not None and cell.__class__ is not str:
                return fail("rows", "cells that are text, numbers or null", cell)
    names, coercions = unique_names(header)
    cells = [tuple(row) for row in rows]
    return Table(name, names, tuple(types), cells, coercions, stored_names(header, names)), []
