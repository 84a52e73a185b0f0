"""When memory runs out: what that looks like, and how a step is cut smaller.

A micro-batch is what fits the token budget (``train.budget``). Where memory runs out all the same, the trainer drops
what the step has done so far, puts the random streams back, and does the step again with a smaller budget. A step's
loss is a sum over its examples, so the weights come out the same, but for dropout. Others may use the same memory and
give it back: after some steps the budget is doubled again, and after ever more of them where that was too early. On a
GPU, recordings (:mod:`bonafide.replay`) go first: they keep memory that nothing else can use.

Linux promises memory that it does not have, and ends the process that comes to need it. So that memory can run out
there at all, a step on the CPU may take what is free when it begins, and no more (:func:`machine_bound`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from bonafide.errors import MemoryShortageError, out_of_memory

Made = TypeVar("Made")

_LEAST = 64
"""A budget that no chunk is cut below."""
_SHARE = 0.9
"""Of the memory that is free before a step: what it may take."""
_MEMORY, _PROCESS, _GROUP = Path("/proc/meminfo"), Path("/proc/self/status"), Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Room:
    """How many tokens are computed at a time."""

    budget: int
    reduced: bool = False  # memory ran out with more: then the reconstructor's chunks are cut to it too

    def smaller(self, cost: int, cut: Callable[[Room], object]) -> Room | None:
        """Half of what was too much, or less: the most with which ``cut`` gives other pieces; None if nothing does."""
        before, budget = cut(self), min(self.budget, cost)
        while budget // 2 >= _LEAST:
            budget //= 2
            if cut(Room(budget, reduced=True)) != before:
                return Room(budget, reduced=True)
        return None

    def larger(self, most: int) -> Room:
        """Twice as much, but not more than ``most``."""
        return Room(2 * self.budget, reduced=True) if 2 * self.budget < most else Room(most)


ENDLESS = Room(sys.maxsize)


@dataclass(frozen=True, slots=True)
class RandomState:
    """Where torch's random streams stand."""

    cpu: Tensor
    cuda: Tensor | None

    @classmethod
    def now(cls, device: torch.device) -> RandomState:
        """As they are, of the CPU and of this device."""
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None)

    def put_back(self, device: torch.device) -> None:
        """Let them go on from here."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, device)


def fitting(attempt: Callable[[], Made], shrink: Callable[[str], None], device: torch.device) -> Made:
    """What ``attempt`` gives; where memory runs out, ``shrink`` is told why, and it is made again."""
    state = RandomState.now(device)
    while True:
        try:
            with machine_bound(device):
                return attempt()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            reason = said(error)
        # Here the error is gone, and with it what its traceback held.
        give_back(device)
        shrink(reason)
        state.put_back(device)


@contextmanager
def machine_bound(device: torch.device) -> Iterator[None]:
    """On the CPU of a Linux machine: more than is free now cannot be had, and says so; nothing is killed for it."""
    free = _free() if device.type == "cpu" else None
    if free is None:
        yield
        return
    import resource

    soft, hard = _limits_of_process()
    most = _kilobytes(_PROCESS, "VmData") + int(_SHARE * free)
    resource.setrlimit(resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@cache
def _limits_of_process() -> tuple[int, int]:
    """As they were before the first step."""
    import resource

    return resource.getrlimit(resource.RLIMIT_DATA)


def _free() -> int | None:
    """Bytes that this machine, and the container, can still give; None where there is no telling."""
    try:
        free = _kilobytes(_MEMORY, "MemAvailable")
    except (OSError, KeyError):
        return None
    try:
        most, used = (int((_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        counted = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        return min(free, max(0, most - used + int(counted["inactive_file"])))  # files are let go where it is needed
    except (OSError, ValueError, KeyError):  # no container, or one without a limit ("max")
        return free


def _kilobytes(path: Path, name: str) -> int:
    """A line such as ``MemAvailable:  123 kB``, in bytes."""
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return 1024 * int(lines[name].split()[0])


@contextmanager
def no_way_back() -> Iterator[None]:
    """Where what was begun cannot be done again in smaller pieces."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise MemoryShortageError(
            f"Memory ran out outside of a step's micro-batches ({said(error)}). The last checkpoint is unharmed: go on "
            "with --resume where there is more memory, or train a smaller encoder."
        ) from error


def said(error: BaseException) -> str:
    """The first line of its message."""
    return (str(error) or type(error).__name__).splitlines()[0]


def give_back(device: torch.device) -> None:
    """Free what nobody holds."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
