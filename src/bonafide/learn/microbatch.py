"""One micro-batch as an objective sees it: scores of the solver and the reconstructor over all of Z.

However large Z is, what is computed at a time is bounded: by ``explaining.py`` for the reconstructor, by ``parts.py``
for solvers that write their solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bonafide import ragged
from bonafide.arrays import offsets
from bonafide.learn import draws, parts
from bonafide.learn.explaining import (
    Explained,
    explained,
    layouts_of,
    put_together,
    reconstructor_of,
    scores_in_parts,
    sent,
)
from bonafide.learn.learnable import Features, Narrowing, Selective, SolverBatch, SolverModule
from bonafide.learn.memory import ENDLESS, RandomState, Room
from bonafide.learn.objective import Moment, scores_of
from bonafide.learn.words import Floats
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
    words: Floats | None = None  # (solutions,): log P of the question's words, where the objective chooses by it

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

    solver: SolverBatch | None  # None: Z is scored in parts
    operations: Tensor  # (solutions,)
    words: Tensor | None  # (solutions,)
    deciding: SolverBatch | None  # what the solver's scores to decide by are computed from, where they were asked for
    explained: Explained | None  # what the reconstructor scores, where it was asked for


@dataclass(frozen=True, slots=True)
class Asked:
    """What an objective asked of a micro-batch, and so will ask of the next one."""

    decides: bool = False  # the solver's scores to decide by
    explains: int | None = None  # the reconstructor's scores: of at most so many solutions of an example, 0 for all


def make_ready(items: Sequence[Prepared], models: Models, asked: Asked, moment: Moment, seed: int, room: Room) -> Ready:
    """Put a micro-batch together."""
    solver = None
    if not divided(items, room):
        draw = draws.key(f"{seed}/windows/{moment.epoch}")
        solver = _moved(models.solver.collate([item.features for item in items], draw=draw), models.device)
    operations = np.concatenate([item.operations for item in items]).astype(np.float32)
    found = [item.words for item in items if item.words is not None]
    words = np.concatenate(found).astype(np.float32) if found else None
    return Ready(
        solver,
        sent(torch.from_numpy(operations), models.device),
        None if words is None else sent(torch.from_numpy(words), models.device),
        _deciding(items, models, solver) if asked.decides and solver is not None else None,
        explained(items, models, asked.explains, moment, seed, room) if asked.explains is not None else None,
    )


def divided(items: Sequence[Prepared], room: Room) -> list[tuple[int, int]]:
    """The parts of Z that the solver scores one after the other; none: it scores all at once."""
    return parts.runs(items[0].features, room.budget) if len(items) == 1 else []


class Ahead:
    """Puts the next micro-batch together on a GPU's host while the GPU still trains on this one.

    In the same thread: Python runs one thread at a time, and one that puts arrays together keeps the one that launches
    kernels waiting for longer than it takes.
    """

    def __init__(self, models: Models, seed: int) -> None:
        self._models = models
        self._seed = seed
        self._coming: tuple[list[str], Ready] | None = None

    def prepare(self, items: Sequence[Prepared], asked: Asked, moment: Moment, room: Room) -> None:
        """These will be taken next; call it when this micro-batch is on its way."""
        if self._models.device.type == "cuda":
            with suppress(torch.OutOfMemoryError):  # it is made again when it is needed, and there may be room then
                ready = make_ready(items, self._models, asked, moment, self._seed, room)
                self._coming = [item.id for item in items], ready

    def forget(self) -> None:
        """What was prepared is no longer as it was."""
        self._coming = None

    def take(self, items: Sequence[Prepared], moment: Moment, room: Room) -> Ready:
        """What was prepared, or made now."""
        coming, self._coming = self._coming, None
        if coming is not None and coming[0] == [item.id for item in items]:
            return coming[1]
        return make_ready(items, self._models, Asked(), moment, self._seed, room)


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
        room: Room = ENDLESS,
    ) -> None:
        self._items = items
        self._models = models
        self._moment = moment
        self._seed = seed
        self._room = room
        self._allowed = allowed
        ready = ready or make_ready(items, models, Asked(), moment, seed, room)
        self._batch = ready.solver
        self.operations = ready.operations
        self._words = ready.words
        self._deciding = ready.deciding
        self._explained = ready.explained
        self.asked = Asked()

    @property
    def words(self) -> Tensor:
        """(solutions,)."""
        assert self._words is not None, "the training data has a word model where the objective chooses by it"
        return self._words

    @cached_property
    def offsets(self) -> Tensor:
        """(examples + 1,)."""
        if self._batch is not None:
            return self._batch.offsets
        return sent(torch.from_numpy(offsets([item.size for item in self._items])), self._models.device)

    @cached_property
    def allowed(self) -> Tensor:
        """(examples,)."""
        allowed = self._allowed if self._allowed is not None else [True] * len(self._items)
        return sent(torch.tensor(allowed), self._models.device)

    def uniform(self, purpose: str) -> Tensor:
        """(examples,): keyed draws."""
        ids = [item.id for item in self._items]
        return sent(draws.uniform(self._seed, purpose, self._moment.step, ids), self._models.device)

    def common(self, purpose: str) -> float:
        """One keyed draw for the step."""
        return draws.number(self._seed, purpose, self._moment.step)

    def solver_scores(self) -> Tensor:
        """(solutions,): to decide by."""
        return self._deciding_scores

    @cached_property
    def _deciding_scores(self) -> Tensor:
        self.asked = replace(self.asked, decides=True)
        if self._batch is None:
            return self._decided(None)
        return self._decided(self._deciding or _deciding(self._items, self._models, self._batch))

    def solver_log_probs(self) -> Tensor:
        """(solutions,): log P_θ itself, to compare examples by; of all windows that training reads."""
        return self._decided(self._batch)

    def _decided(self, batch: SolverBatch | None) -> Tensor:
        solver = self._models.solver
        with torch.no_grad(), torch.autocast(self._models.device.type, enabled=False), self._models.deciding(solver):
            if batch is None:
                return self._in_parts(nullcontext).float()
            scores: Tensor = solver.log_prob(solver(batch), batch).float()
        return scores

    def solver_training_scores(self) -> Tensor:
        """(solutions,): to train on."""
        return self._training_scores

    def solver_training_scores_of(self, chosen: Tensor) -> Tensor:
        """(chosen,): to train on."""
        solver = self._models.solver
        if self._batch is None or not isinstance(solver, Selective):
            return scores_of(self.solver_training_scores(), chosen)
        with self._models.autocast():
            return solver.log_prob_of(self._batch, chosen)

    @cached_property
    def _training_scores(self) -> Tensor:
        solver = self._models.solver
        if self._batch is None:
            return self._in_parts(self._models.autocast)
        with self._models.autocast():
            output = solver(self._batch)
        scores: Tensor = solver.log_prob(output, self._batch)
        return scores

    def _in_parts(self, precision: Callable[[], AbstractContextManager[Any]]) -> Tensor:
        """(solutions,) of one example."""
        models, features = self._models, cast(parts.Divisible, self._items[0].features)
        draw = draws.key(f"{self._seed}/windows/{self._moment.epoch}")
        cuts = divided(self._items, self._room)
        state = RandomState.now(models.device)

        def score(place: int) -> Tensor:
            state.put_back(models.device)  # the same dropout when it is computed again, and on the context in all parts
            batch = _moved(models.solver.collate([features.only(*cuts[place])], draw=draw), models.device)
            with precision():
                output = models.solver(batch)
            scores: Tensor = models.solver.log_prob(output, batch)
            return scores

        return parts.scored(score, len(cuts))

    def reconstructor_scores(self, most: int = 0) -> Tensor:
        """(solutions,): to decide by."""
        reconstructor = reconstructor_of(self._models)
        self.asked = replace(self.asked, explains=most)
        if self._explained is None or (self._explained.places is None) != (most == 0):
            self._explained = explained(self._items, self._models, most, self._moment, self._seed, self._room)
        with torch.no_grad(), self._models.deciding(reconstructor):
            if self._explained is None:
                return scores_in_parts(self._items, self._models, self._room)
            scores = reconstructor.log_prob(self._explained.batch, full_precision=True).float()
        return self._explained.spread(scores)

    def reconstructor_training_scores(self, solutions: Tensor) -> Tensor:
        """(chosen,): to train on, in the order of ``solutions``."""
        with self._models.autocast():
            made = self._explained
            if made is not None and made.back is not None and self.asked.explains is None:
                made = None  # some were put together for a choice that was not made: others may have been drawn
            if made is not None and solutions.is_cuda:  # padding is cheaper than waiting for the GPU
                places = solutions if made.back is None else made.back[solutions]
                return reconstructor_of(self._models).log_prob_of(made.batch, places)
            batch, places = self._once(solutions)
            return reconstructor_of(self._models).log_prob(batch)[places]

    def _once(self, solutions: Tensor) -> tuple[Batch, Tensor]:
        """The reconstructor's batch of these (indices into the flat solutions), and the place of each in it.

        Each stands there once, and its context once for all that share it. The device is waited for.
        """
        flat, back = np.unique(solutions.cpu().numpy(), return_inverse=True)
        layouts = layouts_of(self._items)
        starts = offsets([len(layout) for layout in layouts])
        owner = np.searchsorted(starts, flat, side="right") - 1
        owners, first = np.unique(owner, return_index=True)
        chosen = np.split(flat - starts[owner], first)[1:]
        batch = put_together([layouts[each] for each in owners.tolist()], chosen, self._models, self._room)
        return batch, torch.from_numpy(back).to(solutions.device)


def best_scores(
    items: Sequence[Prepared], parts: Iterable[list[int]], models: Models, moment: Moment, seed: int, room: Room
) -> Tensor:
    """(items,): the solver's log P of the best solution of each that is in one of the parts, −inf for the others."""
    best = torch.full((len(items),), -torch.inf)
    for part in parts:
        batch = MicroBatch([items[place] for place in part], models, moment, seed, room=room)
        scores = batch.solver_log_probs()
        best[part] = scores[ragged.argmax(scores, batch.offsets)].float().cpu()
    return best


def _deciding(items: Sequence[Prepared], models: Models, batch: SolverBatch) -> SolverBatch:
    """What the solver needs to compare solutions; ``batch`` is what it needs to train on them."""
    if not isinstance(models.solver, Narrowing):
        return batch
    return _moved(models.solver.collate_posterior([item.features for item in items]), models.device)


def _moved(batch: SolverBatch, device: torch.device) -> SolverBatch:
    if device.type == "cuda":
        batch = batch.pin_memory()
    return batch.to(device, non_blocking=True)
