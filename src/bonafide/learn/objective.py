"""What an objective is: given a batch and its solution sets, which solutions train the solver, and how strongly.

An objective sees one batch through :class:`Batch` and returns an :class:`Outcome`. It decides on scores that are
never lower than fp32, with dropout off; it trains on scores with dropout on. Losses are sums over the examples of
the batch: the trainer divides by the number of examples of the optimiser step, so that micro-batches do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bonafide import ragged

IMPOSSIBLE = -1e30
"""Log-probabilities down to this are of solutions that a model cannot produce.

What is not a number is not among them: it must reach the loss, for the trainer to stop at it. So compare by ``<=``.
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where training stands."""

    step: int  # optimiser steps done before this one
    steps_per_epoch: int

    @property
    def epoch(self) -> int:
        """Whole epochs done."""
        return self.step // self.steps_per_epoch


class Batch(Protocol):
    """A (micro-)batch of examples with their solution sets, flat, grouped by ``offsets``."""

    @property
    def offsets(self) -> Tensor:
        """(examples + 1,)."""
        ...

    @property
    def operations(self) -> Tensor:
        """(solutions,): how many operations each solution has."""
        ...

    @property
    def words(self) -> Tensor:
        """(solutions,): log P of the question's words (:mod:`bonafide.learn.words`), for one with ``words``."""
        ...

    @property
    def allowed(self) -> Tensor:
        """(examples,): which examples this epoch's filter lets through."""
        ...

    def uniform(self, purpose: str) -> Tensor:
        """(examples,): one number in [0, 1) for each example, the same for the same seed, step and example."""
        ...

    def common(self, purpose: str) -> float:
        """One number in [0, 1) for the whole optimiser step."""
        ...

    def solver_scores(self) -> Tensor:
        """(solutions,): log P_θ(z | d, q) to decide by: dropout off, fp32 or more, no gradient."""
        ...

    def solver_training_scores(self) -> Tensor:
        """(solutions,): log P_θ(z | d, q) to train on: dropout on, with gradient."""
        ...

    def solver_training_scores_of(self, chosen: Tensor) -> Tensor:
        """(chosen,): the same of these solutions, −inf for −1; a solver that writes computes no others."""
        ...

    def reconstructor_scores(self, most: int = 0) -> Tensor:
        """(solutions,): log P_φ(q | d, z) to decide by; no gradient.

        ``most`` > 0: of at most so many solutions of an example, drawn anew at each step; −inf for the others.
        """
        ...

    def reconstructor_training_scores(self, solutions: Tensor) -> Tensor:
        """(chosen,): log P_φ(q | d, z) of these solutions, which were scored, to train on, with gradient."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a batch trains: losses as sums over examples, and what was decided, for the log."""

    solver_loss: Tensor | None
    reconstructor_loss: Tensor | None = None
    selected: Tensor | None = None  # (examples,): the solution that trains the solver, −1 for none
    solver_scores: Tensor | None = None  # (solutions,)
    reconstructor_scores: Tensor | None = None  # (solutions,)


class Objective(Protocol):
    """One learning method."""

    @property
    def needs_reconstructor(self) -> bool:
        """Whether it trains a reconstructor."""
        ...

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """What this batch trains."""
        ...


def chosen_loss(batch: Batch, chosen: Tensor) -> Tensor:
    """−Σ log P over the chosen solutions; −1 and solutions that the solver cannot produce train nothing."""
    return loss_of(batch.solver_training_scores_of(chosen))


def loss_of(scores: Tensor) -> Tensor:
    """−Σ of these; of solutions that the solver cannot produce, nothing."""
    return -scores.masked_fill(scores <= IMPOSSIBLE, 0.0).sum()


def scores_of(scores: Tensor, chosen: Tensor) -> Tensor:
    """The scores of the chosen solutions, −inf for −1."""
    return torch.cat([scores, scores.new_full((1,), -torch.inf)])[chosen]  # −1 is the last


def best_solution(scores: Tensor, offsets: Tensor) -> Tensor:
    """(examples,): the solution with the highest score; −1 where there is none that is possible."""
    best = ragged.argmax(scores, offsets)
    return torch.where(scores_of(scores, best) <= IMPOSSIBLE, -1, best)
