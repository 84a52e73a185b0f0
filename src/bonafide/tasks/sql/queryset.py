"""A solution set of queries, held as integer arrays and read as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from bonafide.tasks.sql.language import Span
from bonafide.tasks.sql.query import Aggregate, Condition, Query


@dataclass(frozen=True, slots=True)
class GroundedCondition:
    """A condition, and every place of the question where its value stands."""

    condition: Condition
    spans: tuple[Span, ...]


@dataclass(frozen=True, eq=False)
class QuerySet(Sequence[Query]):
    """Queries that return one example's answer: fewest operations first, then by column, aggregate, conditions.

    ``where`` names the conditions of each query by their place in ``conditions``, −1 where there are fewer
    than the most. ``size`` is the number of solutions before any cap; ``complete`` says that all are here.
    """

    conditions: tuple[GroundedCondition, ...]
    select: npt.NDArray[np.int32]  # (solutions,)
    aggregate: npt.NDArray[np.int8]  # (solutions,)
    where: npt.NDArray[np.int32]  # (solutions, most conditions)
    size: int
    complete: bool

    def __len__(self) -> int:
        return len(self.select)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> list[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | list[Query]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        chosen = [self.conditions[place].condition for place in self.where[index].tolist() if place >= 0]
        return Query(int(self.select[index]), Aggregate(int(self.aggregate[index])), frozenset(chosen))

    def __contains__(self, query: object) -> bool:
        return self.index_of(query) is not None

    def index_of(self, query: object) -> int | None:
        """Where ``query`` stands in the set; None if it is not in it. Does not build the other queries."""
        if not isinstance(query, Query) or len(query.conditions) > self.where.shape[1]:
            return None
        places = {grounded.condition: place for place, grounded in enumerate(self.conditions)}
        wanted = sorted(places.get(condition, -2) for condition in query.conditions)
        if wanted and wanted[0] == -2:
            return None
        row = np.array(wanted + [-1] * (self.where.shape[1] - len(wanted)))
        same = (self.select == query.select) & (self.aggregate == query.aggregate)
        found = np.flatnonzero(same & (self.where == row).all(axis=1))
        return int(found[0]) if len(found) else None
