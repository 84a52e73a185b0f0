"""From tables of log-probabilities to queries: greedy and beam search over the slots.

The slots are filled in the order of the model: select column, aggregate, number of conditions, their columns, the
operator of each, the value of each. At every slot the ``beam`` best choices are kept, and what comes out is ranked
by the exact joint probability. Width 1 is greedy, as in the released code: the likeliest number of conditions, then
that many columns. A wide beam finds the likeliest query as a whole, which has fewer conditions on average, since
each condition multiplies in the doubt about its value.

Every query is in the language as far as the question, the column names and their types tell: values are runs of the
question (numbers on a real column), in the same canonical form as the search's. Whether a condition holds for a row
is for the cells to tell, which the solver does not read: ``execution_guided`` leaves out queries whose result is
empty, NULL or an error, unless all are. The result of COUNT is never empty. With ``similar_cells`` the value is
still the run's own text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.tasks.sql.features import Features, SolverBatch
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute
from bonafide.tasks.sql.slots import SolverOutput
from bonafide.tasks.sql.tables import Table

Floats = npt.NDArray[np.float64]
_Scored = tuple[float, tuple[Any, ...]]
"""A log-probability, and the choices that it belongs to."""


def decode(
    output: SolverOutput,
    batch: SolverBatch,
    tables: Sequence[Table],
    beam: int = 1,
    top_k: int | None = None,
    execution_guided: bool = False,
) -> list[list[tuple[Query, float]]]:
    """For each example its best queries with their log-probabilities, best first, equals in the order of columns."""
    if beam < 1 or (top_k is not None and top_k < 1):
        raise BonafideError(f"Decoding needs a beam and a top_k of 1 or more, found {beam} and {top_k}.")
    wanted = beam if top_k is None else top_k
    names = ("select", "aggregate", "size", "column", "column_total", "operator", "start", "end", "run_total")
    moved = {name: getattr(output, name).detach().cpu().double().numpy() for name in names}
    found = []
    for row, (features, table) in enumerate(zip(batch.features, tables, strict=True)):
        search = _Search(features, {name: array[row] for name, array in moved.items()}, beam)
        full: list[tuple[Query, float]] = []
        if execution_guided:  # no more are made and executed than are wanted
            queries = search.queries(max(wanted, beam * beam))
            full = list(islice((each for each in queries if _returns_something(each[0], table)), wanted))
        found.append(full or list(search.queries(wanted)))
    return found


class _Search:
    """The beam search of one example."""

    def __init__(self, features: Features, tables: dict[str, Floats], beam: int) -> None:
        self._features, self._tables, self._beam = features, tables, beam
        self._conditions: dict[int, list[_Scored]] = {}

    def queries(self, most: int) -> Iterator[tuple[Query, float]]:
        """The ``most`` best pairs of a head and a set of conditions; the two are independent."""
        for score, (select, aggregate, *where) in _best_sums(
            [_best(self._heads(), most), _best(self._wheres(), most)], most
        ):
            yield Query(select, Aggregate(aggregate), frozenset(Condition(*each) for each in where)), score

    def _heads(self) -> Iterable[_Scored]:
        """Select columns with aggregates."""
        select, aggregate = self._tables["select"], self._tables["aggregate"]
        allowed = self._features.aggregates  # (columns, aggregates)
        for column in self._top(select, np.logical_or.reduce(allowed, axis=1)):
            for each in self._top(aggregate[column], allowed[column]):
                yield float(select[column] + aggregate[column, each]), (column, each)

    def _wheres(self) -> Iterable[_Scored]:
        """Sets of conditions."""
        column = self._tables["column"]
        usable = np.flatnonzero(self._features.operators.any(axis=1)).tolist()
        possible = np.arange(len(self._tables["size"])) <= len(usable)
        for size in self._top(self._tables["size"], possible):
            base = float(self._tables["size"][size] - self._tables["column_total"][size])
            for score, columns in _best_subsets(column, usable, size, self._beam):
                for value, conditions in _best_sums([self._on(each) for each in columns], self._beam):
                    yield base + score + value, conditions

    def _on(self, column: int) -> list[_Scored]:
        """The best conditions on a column: operators with values."""
        if column not in self._conditions:
            operator = self._tables["operator"][column]
            self._conditions[column] = _best(
                (
                    (float(operator[each]) + score, ((column, Operator(each), value),))
                    for each in self._top(operator, self._features.operators[column])
                    for score, value in self._values(column, each)
                ),
                self._beam,
            )
        return self._conditions[column]

    def _values(self, column: int, operator: int) -> Iterable[tuple[float, str | float]]:
        """The best values of a column and operator, each summed over the places where it stands."""
        values = self._features.numbers if self._features.real[column] else self._features.texts
        start, end = (self._tables[name][column, operator] for name in ("start", "end"))
        runs = start[values.runs[:, 0]] + end[values.runs[:, 1]]
        scores = np.logaddexp.reduceat(runs, values.offsets[:-1]) - self._tables["run_total"][column, operator]
        for place in self._top(scores, np.ones(len(scores), dtype=bool)):
            yield float(scores[place]), values.values[place]

    def _top(self, scores: Floats, allowed: npt.NDArray[np.bool_]) -> list[int]:
        """The ``beam`` best of what is allowed, the first of equals first."""
        places = np.flatnonzero(allowed)
        if self._beam == 1 and len(places):
            return [int(places[scores[places].argmax()])]
        best: list[int] = places[np.argsort(-scores[places], kind="stable")[: self._beam]].tolist()
        return best


def _best(found: Iterable[_Scored], most: int) -> list[_Scored]:
    return sorted(found, key=itemgetter(0), reverse=True)[:most]  # equals stay in their order


def _best_sums(parts: Sequence[Sequence[_Scored]], most: int) -> list[_Scored]:
    """The best ways to take one choice of every part: exact, since a part's order does not depend on the others.

    Parts come best first: before the i-th sum with the j-th choice stand i · j sums that are no worse, and first.
    """
    sums: list[_Scored] = [(0.0, ())]
    for part in parts:
        pairs = (
            (score + more, chosen + choice)
            for place, (score, chosen) in enumerate(sums, start=1)
            for more, choice in part[: most // place]
        )
        sums = _best(pairs, most)
    return sums


def _best_subsets(scores: Floats, members: Sequence[int], size: int, most: int) -> list[_Scored]:
    """The best sets of ``size`` members by the sum of their scores, exactly; members in ascending order."""
    best: list[list[_Scored]] = [[(0.0, ())], *([] for _ in range(size))]  # by number of members so far
    for member in members:
        for count in range(size, 0, -1):
            longer = [(score + float(scores[member]), (*chosen, member)) for score, chosen in best[count - 1]]
            best[count] = _best(best[count] + longer, most)
    return best[size]


def _returns_something(query: Query, table: Table) -> bool:
    result = execute(query, table)
    return bool(result) and result != [None]
