"""Optimiser steps: which examples they take, one on its way, and what a watcher is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bonafide.errors import BonafideError
from bonafide.learn import draws
from bonafide.learn.microbatch import Asked
from bonafide.learn.objective import Outcome
from bonafide.learn.runfolder import RunFolder


@dataclass(frozen=True, slots=True)
class Progress:
    """What a watcher is told after each step."""

    step: int
    steps: int
    figures: dict[str, float]


Watcher = Callable[[Progress], None]


class Order:
    """Which examples each step takes: all of them once an epoch, each time in another order."""

    def __init__(self, seed: int, examples: int, batch: int) -> None:
        self._seed, self._examples, self._batch = seed, examples, batch
        self.steps_per_epoch = -(-examples // batch)  # the last one may be smaller
        self._epoch, self._permutation = -1, list[int]()

    def of(self, step: int) -> list[int]:
        """The places of a step's examples."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._permutation = epoch, draws.permutation(self._seed, epoch, self._examples)
        return self._permutation[place * self._batch : (place + 1) * self._batch]


@dataclass(frozen=True, slots=True)
class Launched:
    """A step that the device was asked for."""

    step: int  # optimiser steps before it
    names: list[str]
    losses: Tensor  # (losses,), there once ``arrived``
    candidates: int
    arrived: torch.cuda.Event | None


@dataclass(slots=True)
class Done:
    """What the micro-batches of a step gave, besides gradients."""

    totals: dict[str, Tensor] = field(default_factory=dict)
    candidates: int = 0
    seen: list[tuple[list[int], Tensor, Outcome]] = field(default_factory=list)
    asked: Asked | None = None


def arrival(device: torch.device) -> torch.cuda.Event | None:
    """What tells, on a GPU, when everything that was asked of it so far is there."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def stop_for_nan(folder: RunFolder, name: str, step: int, examples: list[str], first: bool) -> None:
    """Keep the batch that made a loss no number, and stop."""
    if first:
        folder.write_failure({"step": step, "loss": name, "examples": examples})
    raise BonafideError(
        f"The {name} of step {step} is not a number. Its batch is saved in {folder.path / 'failed-batch.json'}; the "
        "last checkpoint is unharmed. A lower learning rate usually helps."
    )
