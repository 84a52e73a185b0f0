"""The query language: one select column, one aggregate, a set of conditions; its execution and its SQL text.

A query is a value: conditions are a set, text is lower-cased, a value on a real column is a number.
Two queries that differ only in the order or the spelling of such things are equal and hash alike.

Execution has the semantics of WikiSQL's SQLite engine. :func:`execute` is the fast in-memory executor;
``engine.py`` runs the same query as SQL text in real SQLite, and tests hold the two together. Where
this differs from WikiSQL's own engine is listed in ``docs/sql.md``: each condition binds its own value
(theirs gives two conditions on one column the same value), and a minus sign in front of a whole number
is kept.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError, shortened
from bonafide.examples import Answer
from bonafide.tasks.sql.tables import Mask, Table, Value, engine_value, same_number
from bonafide.unspaced import UNSPACED_CLASS


class Aggregate(IntEnum):
    """What is done with the selected cells; the numbers are WikiSQL's."""

    NONE = 0
    MAX = 1
    MIN = 2
    COUNT = 3
    SUM = 4
    MEAN = 5

    @property
    def sql(self) -> str:
        """SQLite's name of the function."""
        return "AVG" if self is Aggregate.MEAN else self.name


class Operator(IntEnum):
    """How a cell compares with a condition's value; the numbers are WikiSQL's."""

    EQUAL = 0
    ABOVE = 1
    BELOW = 2

    @property
    def sql(self) -> str:
        """SQLite's name of the operator."""
        return "=><"[self]


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """A cell of ``column`` compares so with ``value``: lower-cased text, or a number on a real column."""

    column: int
    operator: Operator
    value: str | float


@dataclass(frozen=True, slots=True)
class Query:
    """``SELECT aggregate(select) FROM table WHERE every condition holds``."""

    select: int
    aggregate: Aggregate
    conditions: frozenset[Condition]

    @property
    def operations(self) -> int:
        """How much the query does: its conditions, and its aggregate if it has one."""
        return len(self.conditions) + (self.aggregate is not Aggregate.NONE)

    def to_sql(self, table: Table) -> tuple[str, list[str | float]]:
        """SQL text with quoted identifiers, and the values to bind.

        Text compares without regard to (ASCII) case, so the statement also runs on the original data; there texts with
        other letters are to be bound as :meth:`values_as_written`.
        """
        conditions = sorted(self.conditions, key=written_order)
        clauses = " AND ".join(condition_sql(condition, table) for condition in conditions)
        where = f" WHERE {clauses}" if clauses else ""
        return select_sql(self.select, self.aggregate, table) + where, [bound(each) for each in conditions]

    def values_as_written(self, table: Table) -> list[str | float]:
        """The values to bind where the statement is to run on the user's own table."""
        return [bound_as_written(each, table) for each in sorted(self.conditions, key=written_order)]


def written_order(condition: Condition) -> tuple[int, int, str]:
    """The order in which conditions are written."""
    return condition.column, condition.operator, str(condition.value)


def condition_sql(condition: Condition, table: Table, value: str = "?") -> str:
    """The SQL of a condition; its value is to be bound, or is said."""
    fold = " COLLATE NOCASE" if isinstance(condition.value, str) else ""
    return f"{quoted(table.sql_names[condition.column])} {condition.operator.sql} {value}{fold}"


def select_sql(select: int, aggregate: Aggregate, table: Table) -> str:
    """The SQL of a query up to its conditions."""
    cell = quoted(table.sql_names[select])
    if aggregate in (Aggregate.MAX, Aggregate.MIN) and table.types[select] == "text":
        cell += " COLLATE NOCASE"
    if aggregate is not Aggregate.NONE:
        cell = f"{aggregate.sql}({cell})"
    return f"SELECT {cell} FROM {quoted(table.id)}"


def bound(condition: Condition) -> str | float:
    """The value to bind for a condition; whole numbers as integers."""
    value = condition.value
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def bound_as_written(condition: Condition, table: Table) -> str | float:
    """The value to bind in SQL that is to run on the user's own table, where cells are not in lower case.

    SQLite folds the case of ASCII letters alone; a text with others is bound as its cells write it, if all do alike.
    """
    value = bound(condition)
    if not isinstance(value, str) or value.isascii() or condition.operator is not Operator.EQUAL:
        return value
    rows = np.flatnonzero(table.columns[condition.column].equal(value)).tolist()
    cells = {str(table.rows[row][condition.column]) for row in rows}
    folded = {cell.encode(errors="surrogatepass").lower() for cell in cells}
    return min(cells) if len(folded) == 1 else value


def parse_query(solution: dict[str, Any], table: Table) -> Query:
    """Read WikiSQL's dictionary ``{"sel", "agg", "conds": [[column, operator, value], …]}``."""

    def fail(expected: str, found: object) -> BonafideError:
        return BonafideError(
            f"Cannot read the query {shortened(solution, 300)} on table {table.id!r}: expected {expected}, found "
            f"{shortened(found)}."
        )

    def column(index: object) -> int:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(table.header):
            raise fail(f"a column number from 0 to {len(table.header) - 1}", index)
        return index

    select, aggregate, listed = (solution.get(key) for key in ("sel", "agg", "conds"))
    if aggregate not in tuple(Aggregate) or isinstance(aggregate, bool):
        raise fail("an aggregate from 0 to 5", aggregate)
    if not isinstance(listed, list):
        raise fail("a list of conditions", listed)
    conditions = set()
    for item in listed:
        if not isinstance(item, (list, tuple)) or len(item) != 3:
            raise fail("conditions of [column, operator, value]", item)
        index, operator, value = item
        if operator not in tuple(Operator) or isinstance(operator, bool):
            raise fail("an operator from 0 to 2", operator)
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise fail("a value that is text or a number", value)
        if not isinstance(value, str) and not -_LARGEST <= value <= _LARGEST:  # NaN fails this too
            raise fail("a number that is finite", value)
        conditions.add(Condition(column(index), Operator(operator), bound_value(value, table, column(index))))
    return Query(column(select), Aggregate(aggregate), frozenset(conditions))


_LARGEST = sys.float_info.max
SIGN = rf"(?:(?<![^\W{UNSPACED_CLASS}])(?<!\.)[-+−])?"
"""A sign in running text: it counts where no dot stands before it, and no word of a script with spaces."""
NUMBER = re.compile(rf"{SIGN}(?:[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+)")
"""A number in running text."""


def bound_value(value: str | int | float, table: Table, column: int) -> str | float:
    """What is bound for ``value`` in a condition on ``column``.

    A text column compares with lower-cased text. On a real column the whole text is read as a number
    with commas as group separators, else the first number in it, else it stays text.
    """
    if table.types[column] == "text":
        return (value if isinstance(value, str) else repr(value)).lower().replace("\0", "")
    if not isinstance(value, str):
        return float(value) + 0.0
    text = value.lower().replace("\0", "")
    number = engine_value(text.replace(",", ""), "real")
    if isinstance(number, float):
        return number
    match = NUMBER.search(text)
    return read_digits(match.group()) if match else text


def read_digits(text: str) -> float:
    """A number written in digits with commas as group separators, and perhaps a sign; at most the largest float."""
    number = float(text.replace(",", "").replace("−", "-")) + 0.0
    return number if math.isfinite(number) else math.copysign(_LARGEST, number)


_LARGE_SUM = 2.0**46  # from here on, adding up in any order may be off by almost as much as whole numbers differ
_WHOLE = re.compile(r"\s*([+-]?)0*([0-9]*)(?<=[0-9])\s*", re.ASCII)


def selected_rows(query: Query, table: Table) -> Mask:
    """The rows for which every condition holds."""
    mask = np.ones(len(table.rows), dtype=bool)
    for condition in query.conditions:
        column = table.columns[condition.column]
        compare = (column.equal, column.above, column.below)[condition.operator]
        mask &= compare(condition.value)
    return mask


def execute(query: Query, table: Table) -> list[Value] | None:
    """The result of the query, as a list of values in row order; None where SQLite raises an error."""
    return aggregate_cells(query.aggregate, query.select, np.flatnonzero(selected_rows(query, table)), table)


def answer_as_written(query: Query, table: Table) -> list[Answer] | None:
    """What the query returns, its cells as the table writes them: ``Łódź``, where the engine has ``łódź``.

    A cell that is something else to the engine is shown as the engine has it: a 5 in a text column is ``'5'``. None
    where SQLite raises an error.
    """
    rows = np.flatnonzero(selected_rows(query, table))
    result = aggregate_cells(query.aggregate, query.select, rows, table)
    if result is None or query.aggregate in (Aggregate.COUNT, Aggregate.SUM, Aggregate.MEAN):
        return None if result is None else list(result)
    if query.aggregate is not Aggregate.NONE:  # the first row with the cell; over no rows the result is NULL
        column, (value,) = table.columns[query.select], result
        rows = rows[column.codes[rows] == (-1 if value is None else column.rank[value])][:1]
    written = [table.rows[row][query.select] for row in rows.tolist()] or result
    return [cell if _same_value(cell, value) else value for cell, value in zip(written, result, strict=True)]


def aggregate_cells(aggregate: Aggregate, select: int, rows: npt.NDArray[np.intp], table: Table) -> list[Value] | None:
    """The result of an aggregate over the cells of a column in ``rows``; None where SQLite raises an error."""
    column = table.columns[select]
    if aggregate is Aggregate.NONE:
        return [column.cells[row] for row in rows.tolist()]
    ranks = column.codes[rows]
    present = ranks[ranks >= 0]
    if aggregate is Aggregate.COUNT:
        return [float(len(present))]
    if not len(present):
        return [None]
    if aggregate in (Aggregate.MAX, Aggregate.MIN):
        return [column.values[int(present.max() if aggregate is Aggregate.MAX else present.min())]]
    if (
        aggregate is Aggregate.SUM
        and column.numbers == 0
        and _overflows(column.values[rank] for rank in present.tolist())
    ):
        return None
    total = _total(column.summands[rows])
    if math.isnan(total):
        return [None]
    return [total if aggregate is Aggregate.SUM else total / len(present)]


def _total(summands: npt.NDArray[np.float64]) -> float:
    """The sum to well within the tolerance: exact where summands cancel out or are large; NaN of both infinities."""
    with np.errstate(over="ignore", invalid="ignore"):
        total, weight = float(summands.sum()), float(np.abs(summands).sum())
        if not math.isfinite(weight):
            return float(summands.cumsum()[-1])  # in the order of the rows, as SQLite adds up
    return total if abs(total) > 1e-3 * weight and weight < _LARGE_SUM else math.fsum(summands.tolist())


def same_answer(left: Sequence[Answer], right: Sequence[Answer]) -> bool:
    """Whether two results are the same answer: in order, by type, text without case, numbers by ``same_number``."""
    return len(left) == len(right) and all(map(_same_value, left, right))


def same_in_any_order(left: Sequence[Answer], right: Sequence[Answer]) -> bool:
    """Whether two results are the same answer once both are sorted."""
    return len(left) == len(right) and all(map(_same_value, sorted(left, key=sorting), sorted(right, key=sorting)))


def sorting(value: Answer) -> tuple[int, str | float]:
    """What values are sorted by: NULL, numbers, texts without case."""
    return (2, value.lower()) if isinstance(value, str) else (0, 0) if value is None else (1, value)


def _same_value(left: Answer, right: Answer) -> bool:
    if left is None or right is None:
        return left is right
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left.lower() == right.lower()
    return same_number(float(left), float(right))


def _overflows(cells: Iterable[str | float]) -> bool:
    """SQLite adds texts that read as whole numbers in 64 bits, and raises an error where that is too narrow.

    From the first cell on that reads as anything else, or is itself too wide, it adds real numbers.
    """
    total = 0
    for cell in cells:
        found = _WHOLE.fullmatch(cell) if isinstance(cell, str) else None
        if found is None or len(found[2]) > 19:
            return False
        number = int(found[1] + (found[2] or "0"))
        if not -(2**63) <= number < 2**63:
            return False
        total += number
        if not -(2**63) <= total < 2**63:
            return True
    return False


def quoted(identifier: str) -> str:
    """An identifier as SQL writes it."""
    return '"' + identifier.replace('"', '""') + '"'
