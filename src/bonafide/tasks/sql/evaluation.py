"""Whether an aggregate of a column over a set of rows gives the answer: all sets, columns and aggregates at once.

Each test reads sums over the rows of a set: how many rows and cells there are, how many cells equal the
answer or lie above or below it, what they add up to. :class:`Target` lays these quantities out as a
matrix (rows, quantities) once for an answer on a table; a matrix product with the row sets (sets, rows)
then gives the quantities of every set. The quantities add up over rows, so rows that no condition tells
apart can be merged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bonafide.examples import Answer
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, aggregate_cells, same_answer
from bonafide.tasks.sql.tables import TOLERANCE, Mask, Table

_MERGE_ABOVE = 64
_SLICE = 1 << 22
"""How many booleans of row sets are unpacked at a time."""


class Target:
    """An answer on a table: which (select column, aggregate) pairs could give it, and how to tell."""

    def __init__(self, answers: Sequence[Answer], table: Table, language: Language) -> None:
        self._table = table
        self._answers = [answer.lower() if isinstance(answer, str) else answer for answer in answers]
        self._quantities: list[npt.NDArray[np.float64]] = []  # each (rows,)
        self._tests: list[tuple[Aggregate, int, tuple[int, ...]]] = []  # aggregate, column, quantities it reads
        self._merged: npt.NDArray[np.intp] | None = None
        self.must_contain: Mask | None = None
        self.empty_hits = False
        self.pairs_of_language = sum(
            language.allows(aggregate, kind) for kind in table.types for aggregate in Aggregate
        )
        rows = self._quantity(np.ones(len(table.rows)))
        if len(answers) == 1:
            self._single(rows, language)
        else:
            self._several(rows)
        self.pair_columns = np.array([column for _, column, _ in self._tests], dtype=np.int64)
        self.pair_aggregates = np.array([aggregate for aggregate, _, _ in self._tests], dtype=np.int64)
        self.possible = bool(self._tests)
        self.pair_bound = max(1, len(self._tests))

    def _single(self, rows: int, language: Language) -> None:
        answer = self._answers[0]
        number = None if answer is None or isinstance(answer, str) else float(answer)
        contains = np.zeros(len(self._table.rows), dtype=bool)
        for index, (kind, column) in enumerate(zip(self._table.types, self._table.columns, strict=True)):
            cells = self._quantity(column.codes >= 0)

            def test(aggregate: Aggregate, *quantities: int, kind=kind, index=index) -> None:  # type: ignore[no-untyped-def]
                if language.allows(aggregate, kind):
                    self._tests.append((aggregate, index, quantities))

            if answer is None:
                test(Aggregate.NONE, rows, cells)
                for aggregate in (Aggregate.MAX, Aggregate.MIN, Aggregate.SUM, Aggregate.MEAN):
                    test(aggregate, cells)
                continue
            low, high = column.band(answer if isinstance(answer, str) else float(answer))
            if high > low:
                same = (column.codes >= low) & (column.codes < high)
                contains |= same
                equal = self._quantity(same)
                test(Aggregate.NONE, rows, equal)
                test(Aggregate.MAX, equal, self._quantity(column.codes >= high))
                test(Aggregate.MIN, equal, self._quantity((column.codes >= 0) & (column.codes < low)))
            if number is not None:
                if number >= 0 and abs(number - round(number)) <= TOLERANCE * number:
                    test(Aggregate.COUNT, cells)
                if language.allows(Aggregate.SUM, kind):
                    total = self._quantity(np.clip(column.summands, -1e300, 1e300))
                    test(Aggregate.SUM, cells, total)
                    test(Aggregate.MEAN, cells, total)
        self.empty_hits = answer is None or number == 0
        if isinstance(answer, str):
            self.must_contain = contains

    def _several(self, rows: int) -> None:
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
                self._tests.append((Aggregate.NONE, index, (rows, self._quantity(member))))
        self.empty_hits = not self._answers
        self.must_contain = contains

    def _quantity(self, values: npt.NDArray[np.float64] | Mask) -> int:
        self._quantities.append(values.astype(np.float64))
        return len(self._quantities) - 1

    def merge_rows(self, selects: Mask) -> Mask:
        """Merge the rows that no column of ``selects`` (rows, sets) tells apart, in tables of many rows."""
        self._rows = np.stack(self._quantities, axis=1)  # (rows, quantities)
        if len(selects) <= _MERGE_ABOVE:
            return selects
        packed = np.packbits(selects, axis=1)
        signature = np.zeros((len(packed), packed.shape[1] // 8 * 8 + 8), dtype=np.uint8)
        signature[:, : packed.shape[1]] = packed
        words = signature.view(np.uint64)
        if words.shape[1] == 1:
            _, first, merged = np.unique(words[:, 0], return_index=True, return_inverse=True)
        else:
            _, first, merged = np.unique(words, axis=0, return_index=True, return_inverse=True)
        merged = merged.reshape(-1)
        self._rows = np.stack(
            [np.bincount(merged, weights=quantity, minlength=len(first)) for quantity in self._quantities],
            axis=1,
        )
        if self.must_contain is not None:
            self.must_contain = np.bincount(merged, weights=self.must_contain, minlength=len(first)) > 0
        self._merged = merged
        return selects[first]

    def evaluate(self, words: npt.NDArray[np.uint64]) -> Mask:
        """(row sets, pairs): whether the pair's aggregate over the row set gives the answer."""
        hits = np.zeros((len(words), len(self._tests)), dtype=bool)
        step = max(1, _SLICE // max(1, len(self._rows)))
        for start in range(0, len(words), step):
            bits = np.unpackbits(words[start : start + step].view(np.uint8), axis=1, bitorder="little")
            members = bits[:, : len(self._rows)]
            self._test(members, members.astype(np.float64) @ self._rows, hits[start : start + step])
        return hits

    def _test(self, members: npt.NDArray[np.uint8], sums: npt.NDArray[np.float64], hits: Mask) -> None:
        answer = self._answers[0] if len(self._answers) == 1 else None
        number = float(answer) if isinstance(answer, (int, float)) else 0.0
        for pair, (aggregate, _, quantities) in enumerate(self._tests):
            first = sums[:, quantities[0]]
            if len(self._answers) != 1:
                wanted = len(self._answers)
                hits[:, pair] = (first == wanted) & (sums[:, quantities[1]] == wanted)
                self._confirm(members, hits, pair)
            elif answer is None:
                hits[:, pair] = first == 0
                if aggregate is Aggregate.NONE:
                    hits[:, pair] = (first == 1) & (sums[:, quantities[1]] == 0)
            elif aggregate is Aggregate.NONE:
                hits[:, pair] = (first == 1) & (sums[:, quantities[1]] == 1)
            elif aggregate in (Aggregate.MAX, Aggregate.MIN):
                hits[:, pair] = (first > 0) & (sums[:, quantities[1]] == 0)
            elif aggregate is Aggregate.COUNT:
                hits[:, pair] = first == round(number)
            else:
                total = sums[:, quantities[1]]
                wanted_total = number if aggregate is Aggregate.SUM else number * first
                slack = 2 * TOLERANCE * np.abs(wanted_total) + 1e-12 * np.abs(self._rows[:, quantities[1]]).sum()
                hits[:, pair] = (first > 0) & (np.abs(total - wanted_total) <= slack)
                self._confirm(members, hits, pair)

    def _confirm(self, members: npt.NDArray[np.uint8], hits: Mask, pair: int) -> None:
        """Take back the hits of a pair that the exact executor does not confirm."""
        aggregate, column, _ = self._tests[pair]
        for row in np.flatnonzero(hits[:, pair]).tolist():
            inside = members[row] if self._merged is None else members[row][self._merged]
            result = aggregate_cells(aggregate, column, np.flatnonzero(inside), self._table)
            hits[row, pair] = result is not None and same_answer(result, self._answers)
