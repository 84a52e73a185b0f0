"""One micro-batch as an objective sees it: scores of the solver and the reconstructor over all of Z."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bonafide.learn import draws
from bonafide.learn.objective import Moment
from bonafide.reconstruct.layout import Layout
from bonafide.reconstruct.model import Reconstructor
from bonafide.tasks.sql.solver import Features, SqlSolver


@dataclass(frozen=True, slots=True)
class Prepared:
    """A training example, tokenised for both models."""

    id: str
    features: Features
    layout: Layout | None
    operations: np.ndarray[Any, np.dtype[np.int64]]  # (solutions,)

    @property
    def size(self) -> int:
        """Its solutions."""
        return len(self.operations)


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a run, and how they compute."""

    solver: SqlSolver
    reconstructor: Reconstructor | None
    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]]


class MicroBatch:
    """Implements :class:`bonafide.learn.objective.Batch`."""

    def __init__(
        self,
        items: Sequence[Prepared],
        models: Models,
        moment: Moment,
        seed: int,
        allowed: Sequence[bool] | None = None,
    ) -> None:
        self._items = items
        self._models = models
        self._moment = moment
        self._seed = seed
        self._allowed = allowed
        self._batch = models.solver.collate([item.features for item in items]).to(models.device)

    @property
    def offsets(self) -> Tensor:
        """(examples + 1,)."""
        return self._batch.offsets

    @cached_property
    def operations(self) -> Tensor:
        """(solutions,)."""
        numbers = np.concatenate([item.operations for item in self._items])
        return torch.from_numpy(numbers).to(self._models.device, torch.float32)

    @cached_property
    def allowed(self) -> Tensor:
        """(examples,)."""
        allowed = self._allowed if self._allowed is not None else [True] * len(self._items)
        return torch.tensor(allowed, device=self._models.device)

    def uniform(self, purpose: str) -> Tensor:
        """(examples,): keyed draws."""
        ids = [item.id for item in self._items]
        return draws.uniform(self._seed, purpose, self._moment.step, ids, self._models.device)

    def common(self, purpose: str) -> float:
        """One keyed draw for the step."""
        return draws.number(self._seed, purpose, self._moment.step)

    def solver_scores(self) -> Tensor:
        """(solutions,): to decide by."""
        return self._deciding_scores

    @cached_property
    def _deciding_scores(self) -> Tensor:
        solver = self._models.solver
        was_training = solver.training
        solver.eval()
        with torch.no_grad(), torch.autocast(self._models.device.type, enabled=False):
            scores = solver.log_prob(solver(self._batch), self._batch).float()
        solver.train(was_training)
        return scores

    def solver_training_scores(self) -> Tensor:
        """(solutions,): to train on."""
        return self._training_scores

    @cached_property
    def _training_scores(self) -> Tensor:
        solver = self._models.solver
        with self._models.autocast():
            output = solver(self._batch)
        return solver.log_prob(output, self._batch)

    def reconstructor_scores(self, solutions: Tensor | None = None) -> Tensor:
        """(solutions,): to decide by."""
        reconstructor = self._reconstructor
        was_training = reconstructor.training
        reconstructor.eval()
        with torch.no_grad():
            scores = reconstructor.log_prob(self._layouts(solutions), full_precision=True).float()
        reconstructor.train(was_training)
        return scores

    def reconstructor_training_scores(self, solutions: Tensor) -> Tensor:
        """(chosen,): to train on, in the order of ``solutions``."""
        with self._models.autocast():
            return self._reconstructor.log_prob(self._layouts(solutions))

    @property
    def _reconstructor(self) -> Reconstructor:
        assert self._models.reconstructor is not None, "this objective needs a reconstructor"
        return self._models.reconstructor

    def _layouts(self, solutions: Tensor | None) -> Any:
        """The reconstructor's batch for all solutions, or for these (indices into the flat solutions)."""
        layouts = [item.layout for item in self._items if item.layout is not None]
        assert len(layouts) == len(self._items)
        if solutions is None:
            chosen = [np.arange(item.size) for item in self._items]
            return self._reconstructor.batch(layouts, chosen)
        flat = solutions.cpu().numpy()
        starts = np.cumsum([0, *(item.size for item in self._items)])
        owner = np.searchsorted(starts, flat, side="right") - 1
        picked = [layouts[each] for each in owner.tolist()]
        return self._reconstructor.batch(picked, [np.array([index]) for index in (flat - starts[owner]).tolist()])
