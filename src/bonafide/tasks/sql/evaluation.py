"""Whether an aggregate of a column over a set of rows gives the answer: all sets, columns and aggregates at once.

Each test reads sums over the rows of a set: how many rows and cells there are, how many cells equal the
answer or lie above or below it, what they add up to. :class:`Target` lays these quantities out as a
matrix (rows, quantities) once for an answer on a table. Whoever has the sums of these quantities over a
row set can then tell every select column and aggregate that gives the answer. SUM and AVG hits are
confirmed with the exact executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from bonafide.examples import Answer
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, aggregate_cells, same_answer, same_in_any_order
from bonafide.tasks.sql.tables import Column, Mask, Table, reach, same_number

Sums = npt.NDArray[np.float64]
RowsOf = Callable[[int], npt.NDArray[np.intp]]
"""The rows of the n-th row set."""

_ROWS = 0  # the first quantity is how many rows there are


class Target:
    """An answer on a table: which (select column, aggregate) pairs could give it, and how to tell.

    ``quantities`` is (rows, quantities). ``empty_hits``: the empty row set gives the answer. ``must_contain``:
    every row set that gives the answer has one of these rows (None: no such rule). Where not ``in_order``, a list is
    given by the same values in any order.
    """

    def __init__(self, answers: Sequence[Answer], table: Table, language: Language, in_order: bool = True) -> None:
        self._table = table
        self._same = same_answer if in_order else same_in_any_order
        self._answers = [answer.lower() if isinstance(answer, str) else answer for answer in answers]
        self._columns: list[npt.NDArray[np.float64] | Mask] = [np.ones(len(table.rows), dtype=bool)]
        self._tests: dict[Aggregate, list[tuple[int, int, int]]] = {}  # (column, first quantity, second quantity)
        self.must_contain: Mask | None = None
        self.empty_hits = False
        if len(answers) == 1:
            self._single(language)
        else:
            self._several()
        self.quantities = np.stack(self._columns, axis=1, dtype=np.float64)
        self._slack = 1e-12 * np.abs(self.quantities).sum(axis=0)
        pairs = [(column, aggregate) for aggregate, tests in self._tests.items() for column, _, _ in tests]
        self.pair_columns = np.array([column for column, _ in pairs], dtype=np.int64)
        self.pair_aggregates = np.array([aggregate for _, aggregate in pairs], dtype=np.int64)
        self._reads = {aggregate: np.array(tests).T for aggregate, tests in self._tests.items()}

    def _single(self, language: Language) -> None:
        answer = self._answers[0]
        number = None if answer is None or isinstance(answer, str) else float(answer)
        contains = np.zeros(len(self._table.rows), dtype=bool)
        for index, (kind, column) in enumerate(zip(self._table.types, self._table.columns, strict=True)):
            cells = _ROWS if column.full else self._quantity(column.codes >= 0)

            def test(aggregate: Aggregate, first: int, second: int, kind=kind, index=index) -> None:  # type: ignore[no-untyped-def]
                if language.allows(aggregate, kind):
                    self._tests.setdefault(aggregate, []).append((index, first, second))

            if answer is None:
                if not column.full:
                    test(Aggregate.NONE, _ROWS, cells)
                for aggregate in (Aggregate.MAX, Aggregate.MIN, Aggregate.SUM, Aggregate.MEAN):
                    test(aggregate, cells, cells)
                continue
            low, high = column.band(answer if isinstance(answer, str) else float(answer))
            if high > low:
                same = (column.codes >= low) & (column.codes < high)
                contains |= same
                equal = self._quantity(same)
                test(Aggregate.NONE, _ROWS, equal)
                if language.allows(Aggregate.MAX, kind):
                    above, below = column.codes >= high, (column.codes >= 0) & (column.codes < low)
                    test(Aggregate.MAX, equal, self._quantity(above))
                    test(Aggregate.MIN, equal, self._quantity(below))
            if number is not None:
                if 0 <= number <= len(self._table.rows) and same_number(number, round(number)):
                    test(Aggregate.COUNT, cells, cells)
                possible = _possible_totals(number, column) if language.allows(Aggregate.SUM, kind) else []
                if possible:
                    total = self._quantity(np.clip(column.summands, -1e300, 1e300))
                    for aggregate in possible:
                        test(aggregate, cells, total)
        self.empty_hits = answer is None or number == 0
        if isinstance(answer, str):
            self.must_contain = contains

    def _several(self) -> None:
        contains = np.zeros(len(self._table.rows), dtype=bool)
        for index, column in enumerate(self._table.columns):
            member = np.zeros(len(self._table.rows), dtype=bool)
            for answer in set(self._answers):
                if answer is None:
                    same = column.codes == -1
                else:
                    low, high = column.band(answer if isinstance(answer, str) else float(answer))
                    same = (column.codes >= low) & (column.codes < high)
                if not same.any():
                    break
                member |= same
            else:
                contains |= member
                self._tests.setdefault(Aggregate.NONE, []).append((index, _ROWS, self._quantity(member)))
        self.empty_hits = not self._answers
        self.must_contain = contains

    def _quantity(self, values: npt.NDArray[np.float64] | Mask) -> int:
        self._columns.append(values)
        return len(self._columns) - 1

    @property
    def possible(self) -> bool:
        """Whether any pair could give the answer."""
        return bool(self._tests)

    def hits(self, sums: Sums, rows_of: RowsOf) -> Mask:
        """(row sets, pairs): whether the pair gives the answer, by the sums (row sets, quantities)."""
        return np.concatenate(
            [self._hits_of(aggregate, sums, rows_of) for aggregate in self._tests], axis=1, dtype=np.bool_
        )

    def _hits_of(self, aggregate: Aggregate, sums: Sums, rows_of: RowsOf) -> Mask:
        columns, firsts, seconds = self._reads[aggregate]
        first, second = sums[:, firsts], sums[:, seconds]
        if len(self._answers) != 1:
            wanted = len(self._answers)
            return self._confirmed(aggregate, columns, (first == wanted) & (second == wanted), rows_of)
        answer = self._answers[0]
        if answer is None:
            return (first == 1) & (second == 0) if aggregate is Aggregate.NONE else np.equal(first, 0)
        if aggregate is Aggregate.NONE:
            return np.asarray((first == 1) & (second == 1), dtype=np.bool_)
        if aggregate in (Aggregate.MAX, Aggregate.MIN):
            return np.asarray((first > 0) & (second == 0), dtype=np.bool_)
        assert not isinstance(answer, str)
        if aggregate is Aggregate.COUNT:
            return np.equal(first, round(answer))
        number, times = float(answer), np.ones_like(first) if aggregate is Aggregate.SUM else first
        near = np.abs(second - number * times) <= reach(number) * times + self._slack[seconds]
        return self._confirmed(aggregate, columns, (first > 0) & near, rows_of)

    def _confirmed(self, aggregate: Aggregate, columns: npt.NDArray[np.int64], hits: Mask, rows_of: RowsOf) -> Mask:
        """The hits that the exact executor confirms."""
        for row, place in zip(*(axis.tolist() for axis in np.nonzero(hits)), strict=True):
            result = aggregate_cells(aggregate, int(columns[place]), rows_of(row), self._table)
            hits[row, place] = result is not None and self._same(result, self._answers)
        return hits


def _possible_totals(number: float, column: Column) -> list[Aggregate]:
    """SUM and AVG, as far as some rows of this column could give ``number``."""
    slack = reach(number)
    lowest, highest, least, most, whole = column.summand_bounds
    possible = []
    if least - slack <= number <= most + slack and not (whole and abs(number - round(number)) > slack):
        possible.append(Aggregate.SUM)
    if lowest - slack <= number <= highest + slack:
        possible.append(Aggregate.MEAN)
    return possible
