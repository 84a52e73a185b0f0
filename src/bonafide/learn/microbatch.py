"""One micro-batch as an objective sees it: scores of the solver and the reconstructor over all of Z."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bonafide.arrays import offsets
from bonafide.learn import draws
from bonafide.learn.learnable import Features, Narrowing, SolverBatch, SolverModule
from bonafide.learn.objective import Moment
from bonafide.reconstruct.batches import Batch
from bonafide.reconstruct.layout import Layout
from bonafide.reconstruct.model import Reconstructor


@dataclass(frozen=True)
class Prepared:
    """A training example, tokenised for both models."""

    id: str
    features: Features
    layouts: tuple[Layout, ...]  # its solutions, one layout after the other; none without a reconstructor
    operations: np.ndarray[Any, np.dtype[np.int64]]  # (solutions,)

    @classmethod
    def of_another(cls, name: str) -> Prepared:
        """An example that another process trains (:mod:`bonafide.learn.together`)."""
        return cls(name, cast(Features, None), (), np.zeros(0, np.int64))

    @property
    def size(self) -> int:
        """Its solutions."""
        return len(self.operations)

    @cached_property
    def tokens(self) -> int:
        """What training on it takes: the tokens that are read, and a score for each solution.

        The reconstructor scores all of Z without a gradient and a few solutions at a time, so Z's tokens do not count.
        """
        read = sum(len(layout.context) + 2 * len(layout.question) for layout in self.layouts)
        return self.features.cost + read + self.size


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a run, and how they compute."""

    solver: SolverModule
    reconstructor: Reconstructor | None
    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]]

    @contextmanager
    def deciding(self, model: nn.Module) -> Iterator[None]:
        """Dropout off for a while, by the modules' switches alone: ``eval()`` and ``train()`` take milliseconds."""
        switched = [module for module in model.modules() if module.training]
        for module in switched:
            module.__dict__["training"] = False
        try:
            yield
        finally:
            for module in switched:
                module.__dict__["training"] = True


@dataclass(frozen=True, slots=True)
class Ready:
    """What the device needs of a micro-batch, there or on its way."""

    solver: SolverBatch
    operations: Tensor  # (solutions,)
    deciding: SolverBatch | None  # what the solver's scores to decide by are computed from, where they were asked for
    explained: Explained | None  # what the reconstructor scores, where it was asked for


@dataclass(frozen=True, slots=True)
class Explained:
    """Solutions that the reconstructor scores: all, or some of each example."""

    batch: Batch
    places: Tensor | None  # (scored,): which solutions these are; None: all
    back: Tensor | None  # (solutions,): which of the scored ones a solution is, 0 for none

    def spread(self, scores: Tensor) -> Tensor:
        """(scored,) → (solutions,): −inf for those that are not scored."""
        if self.places is None or self.back is None:
            return scores
        return scores.new_full((len(self.back),), -torch.inf).index_copy(0, self.places, scores)


@dataclass(frozen=True, slots=True)
class Asked:
    """What an objective asked of a micro-batch, and so will ask of the next one."""

    decides: bool = False  # the solver's scores to decide by
    explains: int | None = None  # the reconstructor's scores: of at most so many solutions of an example, 0 for all


def make_ready(items: Sequence[Prepared], models: Models, asked: Asked, moment: Moment, seed: int) -> Ready:
    """Put a micro-batch together."""
    solver = _moved(models.solver.collate([item.features for item in items], draw=moment.epoch), models.device)
    operations = np.concatenate([item.operations for item in items]).astype(np.float32)
    return Ready(
        solver,
        _sent(torch.from_numpy(operations), models.device),
        _deciding(items, models, solver) if asked.decides else None,
        _explained(items, models, asked.explains, moment, seed) if asked.explains is not None else None,
    )


class Ahead:
    """Puts the next micro-batch together on a GPU's host while the GPU still trains on this one.

    In the same thread: Python runs one thread at a time, and one that puts arrays together keeps the one that launches
    kernels waiting for longer than it takes.
    """

    def __init__(self, models: Models, seed: int) -> None:
        self._models = models
        self._seed = seed
        self._coming: tuple[list[str], Ready] | None = None

    def prepare(self, items: Sequence[Prepared], asked: Asked, moment: Moment) -> None:
        """These will be taken next; call it when this micro-batch is on its way."""
        if self._models.device.type == "cuda":
            self._coming = [item.id for item in items], make_ready(items, self._models, asked, moment, self._seed)

    def forget(self) -> None:
        """What was prepared is no longer as it was."""
        self._coming = None

    def take(self, items: Sequence[Prepared], moment: Moment) -> Ready:
        """What was prepared, or made now."""
        coming, self._coming = self._coming, None
        if coming is not None and coming[0] == [item.id for item in items]:
            return coming[1]
        return make_ready(items, self._models, Asked(), moment, self._seed)


class MicroBatch:
    """Implements :class:`bonafide.learn.objective.Batch`."""

    def __init__(
        self,
        items: Sequence[Prepared],
        models: Models,
        moment: Moment,
        seed: int,
        allowed: Sequence[bool] | None = None,
        ready: Ready | None = None,
    ) -> None:
        self._items = items
        self._models = models
        self._moment = moment
        self._seed = seed
        self._allowed = allowed
        ready = ready or make_ready(items, models, Asked(), moment, seed)
        self._batch = ready.solver
        self.operations = ready.operations
        self._deciding = ready.deciding
        self._explained = ready.explained
        self.asked = Asked()

    @property
    def offsets(self) -> Tensor:
        """(examples + 1,)."""
        return self._batch.offsets

    @cached_property
    def allowed(self) -> Tensor:
        """(examples,)."""
        allowed = self._allowed if self._allowed is not None else [True] * len(self._items)
        return _sent(torch.tensor(allowed), self._models.device)

    def uniform(self, purpose: str) -> Tensor:
        """(examples,): keyed draws."""
        ids = [item.id for item in self._items]
        return _sent(draws.uniform(self._seed, purpose, self._moment.step, ids), self._models.device)

    def common(self, purpose: str) -> float:
        """One keyed draw for the step."""
        return draws.number(self._seed, purpose, self._moment.step)

    def solver_scores(self) -> Tensor:
        """(solutions,): to decide by."""
        return self._deciding_scores

    @cached_property
    def _deciding_scores(self) -> Tensor:
        solver = self._models.solver
        self.asked = replace(self.asked, decides=True)
        batch = self._deciding or _deciding(self._items, self._models, self._batch)
        with torch.no_grad(), torch.autocast(self._models.device.type, enabled=False), self._models.deciding(solver):
            scores: Tensor = solver.log_prob(solver(batch), batch).float()
        return scores

    def solver_training_scores(self) -> Tensor:
        """(solutions,): to train on."""
        return self._training_scores

    @cached_property
    def _training_scores(self) -> Tensor:
        solver = self._models.solver
        with self._models.autocast():
            output = solver(self._batch)
        scores: Tensor = solver.log_prob(output, self._batch)
        return scores

    def reconstructor_scores(self, most: int = 0) -> Tensor:
        """(solutions,): to decide by."""
        reconstructor = self._reconstructor
        self.asked = replace(self.asked, explains=most)
        if self._explained is None or (self._explained.places is None) != (most == 0):
            self._explained = _explained(self._items, self._models, most, self._moment, self._seed)
        with torch.no_grad(), self._models.deciding(reconstructor):
            scores = reconstructor.log_prob(self._explained.batch, full_precision=True).float()
        return self._explained.spread(scores)

    def reconstructor_training_scores(self, solutions: Tensor) -> Tensor:
        """(chosen,): to train on, in the order of ``solutions``."""
        with self._models.autocast():
            explained = self._explained
            if explained is not None and solutions.is_cuda:  # padding is cheaper than waiting for the GPU
                places = solutions if explained.back is None else explained.back[solutions]
                return self._reconstructor.log_prob_of(explained.batch, places)
            return self._reconstructor.log_prob(self._only(solutions))

    @property
    def _reconstructor(self) -> Reconstructor:
        assert self._models.reconstructor is not None, "this objective needs a reconstructor"
        return self._models.reconstructor

    def _only(self, solutions: Tensor) -> Batch:
        """The reconstructor's batch for these (indices into the flat solutions), for which the device is waited for."""
        flat = solutions.cpu().numpy()
        layouts = _layouts(self._items)
        starts = offsets([len(layout) for layout in layouts])
        owner = np.searchsorted(starts, flat, side="right") - 1
        return self._reconstructor.batch(
            [layouts[each] for each in owner.tolist()],
            [np.array([index]) for index in (flat - starts[owner]).tolist()],
        )


def _deciding(items: Sequence[Prepared], models: Models, batch: SolverBatch) -> SolverBatch:
    """What the solver needs to compare solutions; ``batch`` is what it needs to train on them."""
    if not isinstance(models.solver, Narrowing):
        return batch
    return _moved(models.solver.collate_posterior([item.features for item in items]), models.device)


def _moved(batch: SolverBatch, device: torch.device) -> SolverBatch:
    if device.type == "cuda":
        batch = batch.pin_memory()
    return batch.to(device, non_blocking=True)


def _explained(items: Sequence[Prepared], models: Models, most: int, moment: Moment, seed: int) -> Explained:
    assert models.reconstructor is not None, "this objective needs a reconstructor"
    layouts = _layouts(items)
    if not most:
        everything = [np.arange(len(layout)) for layout in layouts]
        return Explained(models.reconstructor.batch(layouts, everything), None, None)
    sizes = [item.size for item in items]
    kept = np.concatenate(
        [
            draws.some(seed, "candidates", moment.step, item.id, item.size, most) + first
            for item, first in zip(items, offsets(sizes)[:-1].tolist(), strict=True)
        ]
    )
    starts = offsets([len(layout) for layout in layouts])
    inside = np.split(kept, np.searchsorted(kept, starts[1:-1]))
    chosen = [part - start for part, start in zip(inside, starts[:-1].tolist(), strict=True)]
    back = np.zeros(sum(sizes), np.int64)
    back[kept] = np.arange(len(kept))
    return Explained(
        models.reconstructor.batch(layouts, chosen),
        _sent(torch.from_numpy(kept), models.device),
        _sent(torch.from_numpy(back), models.device),
    )


def _layouts(items: Sequence[Prepared]) -> list[Layout]:
    return [layout for item in items for layout in item.layouts]


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """On the device, or on its way there: the copy to a GPU is not waited for."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
