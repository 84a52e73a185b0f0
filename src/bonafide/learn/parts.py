"""One example whose solutions are too many to be scored at once: Z in parts, exactly.

A solver that writes its solutions (the text task, the SQL writer, the programs of discrete reasoning) keeps activations
for each of them. Where those of one example are more than the token budget, they are scored a part at a time, and only
the scores are kept; on the way back each part is computed again, with the same dropout, and those that the loss does
not depend on are left out. The context is read once a part. So memory does not grow with Z, but for its stored tokens
and a few numbers a solution; values and gradients are those of all of Z at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from bonafide.learn.learnable import Integers
from bonafide.learn.memory import RandomState

Score = Callable[[int], Tensor]


@runtime_checkable
class Divisible(Protocol):
    """Features of a solver that computes something for each solution, and can be asked for a part of them."""

    def written(self) -> Integers:
        """(solutions,): how many tokens are computed for each."""
        ...

    def only(self, first: int, stop: int) -> Self:
        """The same with the solutions from ``first`` to before ``stop`` alone."""
        ...


def runs(features: Any, budget: int) -> list[tuple[int, int]]:
    """Runs [first, stop) of an example's solutions, each within the budget if one solution is; none: all at once."""
    if not isinstance(features, Divisible):
        return []
    found = cut(features.written(), budget)
    return found if len(found) > 1 else []


def cut(costs: Integers, most: int) -> list[tuple[int, int]]:
    """Runs [first, stop) that cost at most ``most`` each, or are one."""
    total = np.cumsum(costs)
    edges = [0]
    while edges[-1] < len(total):
        before = int(total[edges[-1] - 1]) if edges[-1] else 0
        fitting = int(np.searchsorted(total, before + most, side="right"))
        edges.append(max(fitting, edges[-1] + 1))
    return list(pairwise(edges))


def scored(score: Score, count: int) -> Tensor:
    """(solutions,): ``score`` of each of so many parts, end to end."""
    if not torch.is_grad_enabled():
        return torch.cat([score(place) for place in range(count)])
    anchor = torch.zeros((), requires_grad=True)  # autograd follows what it touches
    made: Tensor = _InParts.apply(anchor, score, count)  # type: ignore[no-untyped-call]
    return made


class _InParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: Tensor, score: Score, count: int) -> Tensor:
        parts = [score(place) for place in range(count)]
        ctx.score, ctx.sizes = score, [len(part) for part in parts]
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        parts: Sequence[Tensor] = torch.split(gradients[0], ctx.sizes)
        state = RandomState.now(gradients[0].device)  # ``score`` goes back in the random streams; what follows must not
        for place, gradient in enumerate(parts):
            if gradient.any():
                with torch.enable_grad():
                    scores = ctx.score(place)
                torch.autograd.backward(scores, gradient)
        state.put_back(gradients[0].device)
        return None, None, None
