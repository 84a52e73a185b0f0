"""Random numbers that depend on what they are for, not on when they are drawn.

Every draw is keyed by (seed, purpose, step, example id), so that a resumed run, another micro-batch size or another
number of processes draws the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def uniform(seed: int, purpose: str, step: int, ids: Sequence[str], device: torch.device | str = "cpu") -> Tensor:
    """(examples,): one number in [0, 1) for each example, in double precision."""
    prefix = f"{seed}/{purpose}/{step}/"
    numbers = [key(prefix + name) / 2**64 for name in ids]
    return torch.tensor(numbers, dtype=torch.float64).clamp(max=1 - 2**-53).to(device)


def number(seed: int, purpose: str, step: int) -> float:
    """One number in [0, 1) for the whole step."""
    return float(uniform(seed, purpose, step, [""])[0])


def permutation(seed: int, epoch: int, count: int) -> list[int]:
    """The order of the examples in an epoch."""
    generator = torch.Generator().manual_seed(key(f"{seed}/order/{epoch}") >> 1)
    return torch.randperm(count, generator=generator).tolist()


def some(seed: int, purpose: str, step: int, name: str, count: int, most: int) -> npt.NDArray[np.int64]:
    """At most ``most`` of 0 … count − 1, ascending, each as likely as any other."""
    if count <= most:
        return np.arange(count)
    generator = np.random.default_rng(key(f"{seed}/{purpose}/{step}/{name}"))
    return np.sort(generator.choice(count, most, replace=False))


def key(text: str) -> int:
    """64 bits that depend on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
