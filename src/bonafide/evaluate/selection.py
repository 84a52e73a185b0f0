"""Solution selection: is the solution of Z that a model finds most likely the gold one.

It is asked of the solver (log P_θ) and of the reconstructor (log P_φ) alike, over all of the solution set that it is
handed (``bonafide evaluate`` hands it a uniform sample of a set of more than 2,000, with or without gold). The paper's
selection task draws nine candidates beside gold; hand it sets of ten for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.evaluate.sql import Accuracy

LogProbabilities = npt.NDArray[np.floating]  # (solutions,)
_IMPOSSIBLE = -1e30  # as solvers score what they cannot produce (``learn/objective.py``)


class Searchable(Protocol):
    """A solution set in which a solution can be looked up."""

    def __len__(self) -> int: ...
    def index_of(self, solution: object, /) -> int | None:
        """Its place; None if it is not there."""
        ...


@dataclass(frozen=True, slots=True)
class Selection:
    """How often the argmax over Z is gold, among the examples whose gold is in Z.

    ``gold_in_set``: how many those are, of all. ``mean_rank`` and ``reciprocal_rank``: of gold, over them.
    """

    accuracy: Accuracy
    gold_in_set: Accuracy
    mean_rank: float
    reciprocal_rank: float

    def to_json(self) -> dict[str, object]:
        """The figures with their counts."""
        return {
            "accuracy": self.accuracy.to_json(),
            "gold_in_set": self.gold_in_set.to_json(),
            "mean_rank": self.mean_rank,
            "reciprocal_rank": self.reciprocal_rank,
        }


def rank_of_gold(scores: LogProbabilities, solutions: Searchable, gold: object) -> int | None:
    """Gold's place by score, 1 the best; None where it is not in the set.

    Of equal scores the first in the set is ahead, so that rank 1 is exactly the argmax; but a solution that the model
    cannot produce is after all others and never the first.
    """
    if scores.shape != (len(solutions),):
        raise BonafideError(f"Expected one score for each of {len(solutions)} solutions, found shape {scores.shape}.")
    if np.isnan(scores).any():
        raise BonafideError("A score is not a number.")
    place = solutions.index_of(gold)
    if place is None:
        return None
    if scores[place] <= _IMPOSSIBLE:
        return 1 + len(solutions)
    return 1 + int((scores > scores[place]).sum() + (scores[:place] == scores[place]).sum())


def selection(
    scores: Sequence[LogProbabilities], sets: Sequence[Searchable], gold: Sequence[object | None]
) -> Selection:
    """Selection accuracy over examples: their scores, their solution sets and their gold, in the same order."""
    if not len(scores) == len(sets) == len(gold):
        raise BonafideError(
            f"Expected scores, sets and gold of the same examples, found {len(scores)}, {len(sets)} and {len(gold)}."
        )
    found = [
        None if true is None else rank_of_gold(each, solutions, true)
        for each, solutions, true in zip(scores, sets, gold, strict=True)
    ]
    ranks = [rank for rank in found if rank is not None]
    return Selection(
        Accuracy(sum(rank == 1 for rank in ranks), len(ranks)),
        Accuracy(len(ranks), len(found)),
        float(np.mean(ranks)) if ranks else 0.0,
        float(np.mean(1 / np.array(ranks))) if ranks else 0.0,
    )
