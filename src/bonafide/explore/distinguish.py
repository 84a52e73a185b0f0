"""A distinguishing table: a small change of a table on which two queries give different answers.

Two queries that return the same on the table at hand may mean different things. The search tries the smallest changes
first: one row left out, one cell changed, one row added that differs from another in one cell; then two of these at
once, at random. It runs both queries on each changed table, with the fast executor, and has real SQLite confirm what it
shows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.query import Query, bound, execute, same_answer, selected_rows
from bonafide.tasks.sql.tables import Cell, Table, Value

SECONDS = 0.4
_ROWS_TRIED = 24
_VALUES_TRIED = 8
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Change:
    """One small change: what is done to a row, said for people."""

    kind: str  # removed, changed or added
    row: int
    column: int | None = None
    value: Cell = None


@dataclass(frozen=True, slots=True)
class Distinction:
    """A changed table, what was changed, and what each query returns on it."""

    table: Table
    changes: tuple[Change, ...]
    sentences: tuple[str, ...]
    left: list[Value]
    right: list[Value]
    shown: tuple[int, ...]  # rows of the changed table worth looking at
    touched: tuple[tuple[int, int], ...]  # changed cells; a column of −1 is the whole row


def distinguish(left: Query, right: Query, table: Table, seconds: float = SECONDS) -> Distinction | None:
    """A small change on which the two differ; None where none was found in the time."""
    until = time.monotonic() + seconds
    fallback: tuple[Change, ...] | None = None
    for changes in _candidates(left, right, table):
        changed = _changed(table, changes)
        results = execute(left, changed), execute(right, changed)
        if not _same(*results):
            if all(result and None not in result for result in results):  # plainer than a difference from nothing
                return _confirmed(left, right, table, changes)
            fallback = fallback or changes
        if time.monotonic() > until:
            break
    return _confirmed(left, right, table, fallback) if fallback is not None else None


def _candidates(left: Query, right: Query, table: Table) -> Iterator[tuple[Change, ...]]:
    singles = list(islice(_singles(left, right, table), 3000))
    yield from ((each,) for each in singles)
    chance = random.Random(0)  # noqa: S311 (a search, not a secret)
    while len(singles) > 1:
        first, second = chance.sample(singles, 2)
        if first.row != second.row or "removed" not in (first.kind, second.kind):
            yield first, second


def _singles(left: Query, right: Query, table: Table) -> Iterator[Change]:
    one, other = selected_rows(left, table), selected_rows(right, table)
    interest = (one ^ other).astype(int) * 2 + (one & other)
    rows = np.argsort(-interest, kind="stable")[:_ROWS_TRIED].tolist()
    columns = sorted({each for query in (left, right) for each in (query.select, *_asked(query))})
    values = {column: _values(column, left, right, table) for column in columns}
    for kind in ("changed", "added"):
        for row in rows:
            for column in columns:
                for value in values[column]:
                    if value != table.rows[row][column]:
                        yield Change(kind, row, column, value)
    if len(table.rows) > 1:
        yield from (Change("removed", row) for row in rows)


def _asked(query: Query) -> set[int]:
    return {condition.column for condition in query.conditions}


def _values(column: int, left: Query, right: Query, table: Table) -> list[Cell]:
    """Values to try: those of conditions and their neighbours, numbers beyond all others, cells of the column, none."""
    named: list[Cell] = []
    for condition in (each for query in (left, right) for each in query.conditions if each.column == column):
        value = bound(condition)
        named += [value] if isinstance(value, str) else [value, value + 1, value - 1]
    cells = list(dict.fromkeys(row[column] for row in table.rows if row[column] is not None))
    numbers = [cell for cell in cells if isinstance(cell, (int, float))]
    beyond: list[Cell] = [max(numbers) + 1, min(numbers) - 1] if numbers and table.types[column] == "real" else []
    return list(dict.fromkeys([*named, *beyond, *cells[:_VALUES_TRIED], None]))


def _changed(table: Table, changes: tuple[Change, ...]) -> Table:
    rows = list(table.rows)
    for change in changes:
        if change.kind == "changed":
            rows[change.row] = _with(rows[change.row], change)
        elif change.kind == "added":
            rows.append(_with(table.rows[change.row], change))
    gone = {change.row for change in changes if change.kind == "removed"}
    return replace(table, rows=[row for place, row in enumerate(rows) if place not in gone])


def _with(row: tuple[Cell, ...], change: Change) -> tuple[Cell, ...]:
    return tuple(change.value if column == change.column else cell for column, cell in enumerate(row))


def _confirmed(left: Query, right: Query, table: Table, changes: tuple[Change, ...]) -> Distinction | None:
    """The distinction, as real SQLite sees it; None where SQLite sees none."""
    changed = _changed(table, changes)
    named = replace(changed, id="t")  # SQLite keeps some names to itself
    with Engine(named) as engine:
        results = engine.run(*left.to_sql(named)), engine.run(*right.to_sql(named))
    if _same(*results):
        return None
    gone = sorted(change.row for change in changes if change.kind == "removed")
    touched, added = [], len(table.rows) - len(gone)
    for change in changes:
        if change.kind == "changed":
            touched.append((change.row - sum(row < change.row for row in gone), change.column or 0))
        elif change.kind == "added":
            touched.append((added, -1))
            added += 1
    chosen = np.flatnonzero(selected_rows(left, changed) | selected_rows(right, changed)).tolist()
    worth = list(dict.fromkeys([*(row for row, _ in touched), *chosen, *range(len(changed.rows))]))[:_SHOWN]
    sentences = tuple(_sentence(change, table) for change in changes)
    return Distinction(changed, changes, sentences, *results, tuple(sorted(worth)), tuple(touched))


def _sentence(change: Change, table: Table) -> str:
    if change.kind == "removed":
        return f"Row {change.row + 1} is left out."
    name, before = table.header[change.column or 0], table.rows[change.row][change.column or 0]
    value = "nothing" if change.value is None else change.value
    if change.kind == "added":
        return f"A row is added: row {change.row + 1} again, with {value} as {name}."
    return f"In row {change.row + 1}, {name} is {value} instead of {'nothing' if before is None else before}."


def _same(left: list[Value] | None, right: list[Value] | None) -> bool:
    if left is None or right is None:
        return left is right
    return same_answer(left, right)
