"""A batch made of numbers, on which an objective can be worked by hand; what was chosen, lost and drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from bonafide import ragged
from bonafide.learn import draws
from bonafide.learn.objective import Moment, Outcome, scores_of

START = Moment(0, 10)


class Numbers:
    """A batch made of numbers: the scores are parameters, so that gradients can be looked at."""

    def __init__(
        self,
        solver: Sequence[Sequence[float]],
        reconstructor: Sequence[Sequence[float]] | None = None,
        operations: Sequence[Sequence[int]] | None = None,
        allowed: Sequence[bool] | None = None,
        ids: Sequence[str] | None = None,
        step: int = 0,
        seed: int = 0,
        training: Sequence[Sequence[float]] | None = None,
        words: Sequence[Sequence[float]] | None = None,
    ) -> None:
        sizes = [len(each) for each in solver]
        self.offsets = ragged.offsets_of(sizes)
        self.operations = flat(operations or [[0] * size for size in sizes])
        self.words = flat(words or [[0.0] * size for size in sizes])
        self.allowed = torch.tensor(allowed if allowed is not None else [True] * len(sizes))
        self._ids = ids or [f"q{number}" for number in range(len(sizes))]
        self._seed, self._step = seed, step
        self._solver = flat(solver)
        self.theta = flat(training or solver).requires_grad_()
        self.phi = flat(reconstructor or [[-1.0] * size for size in sizes]).requires_grad_()

    def uniform(self, purpose: str) -> Tensor:
        return draws.uniform(self._seed, purpose, self._step, self._ids)

    def common(self, purpose: str) -> float:
        return draws.number(self._seed, purpose, self._step)

    def solver_scores(self) -> Tensor:
        return self._solver

    def solver_training_scores(self) -> Tensor:
        return self.theta

    def solver_training_scores_of(self, chosen: Tensor) -> Tensor:
        return scores_of(self.theta, chosen)

    def reconstructor_scores(self, most: int = 0) -> Tensor:
        scores = self.phi.detach().clone()
        for first, last in pairwise(self.offsets.tolist()):
            scores[first + (most or last - first) : last] = -torch.inf  # "drawn": the first ones
        return scores

    def reconstructor_training_scores(self, solutions: Tensor) -> Tensor:
        return self.phi[solutions]


def flat(rows: Sequence[Sequence[float]]) -> Tensor:
    return torch.tensor([each for row in rows for each in row], dtype=torch.float32)


def chosen(outcome: Outcome) -> list[int]:
    assert outcome.selected is not None
    return outcome.selected.tolist()


def loss_of(outcome: Outcome) -> float:
    assert outcome.solver_loss is not None
    return float(outcome.solver_loss.detach())


def gradient(loss: Tensor | None, scores: Tensor) -> list[float]:
    assert loss is not None
    (found,) = torch.autograd.grad(loss, scores, allow_unused=True, retain_graph=True)
    return [0.0] * len(scores) if found is None else found.tolist()


LOGS = [[math.log(0.1), math.log(0.3), math.log(0.2)], [math.log(0.05), math.log(0.01)]]
PHI = [[-3.0, -9.0, -1.0], [-2.0, -5.0]]


def drawn(batch: Numbers, outcome: Outcome) -> list[int]:
    """The solutions that train the reconstructor."""
    return [place for place, each in enumerate(gradient(outcome.reconstructor_loss, batch.phi)) if each]
