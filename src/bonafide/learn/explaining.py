"""What the reconstructor scores of a micro-batch: all of Z, or some of each example.

Scores to decide by need no gradient, so all of Z is scored in chunks, and no activation grows with it. What grows are
the solutions put together in tokens, some kilobytes each: where that is too much, it is done a part of Z at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bonafide.arrays import offsets
from bonafide.learn import draws, parts
from bonafide.learn.learnable import Integers
from bonafide.learn.memory import Room
from bonafide.learn.objective import Moment
from bonafide.reconstruct.batches import TOKENS_PER_CHUNK, Batch
from bonafide.reconstruct.layout import Layout
from bonafide.reconstruct.model import Reconstructor

if TYPE_CHECKING:
    from bonafide.learn.microbatch import Models, Prepared

_EXPLAINED_AT_ONCE = {"cuda": 1 << 24, "cpu": 1 << 18}
"""Tokens of solutions and questions that are put together for the reconstructor before any is scored."""


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


def explained(
    items: Sequence[Prepared], models: Models, most: int, moment: Moment, seed: int, room: Room
) -> Explained | None:
    """At most so many solutions of each example, 0 for all; None where all are too many to be put together at once."""
    layouts = layouts_of(items)
    if not most:
        if sum(int(_tokens_of(layout).sum()) for layout in layouts) > _at_once(models.device):
            return None
        everything = [np.arange(len(layout)) for layout in layouts]
        return Explained(put_together(layouts, everything, models, room), None, None)
    sizes = [item.size for item in items]
    kept = np.concatenate(
        [
            draws.some(seed, "candidates", moment.step, item.id, item.size, most) + first
            for item, first in zip(items, offsets(sizes)[:-1].tolist(), strict=True)
        ]
    )
    starts = offsets([len(layout) for layout in layouts])
    inside = np.split(kept, np.searchsorted(kept, starts[1:-1])) if layouts else []
    chosen = [part - start for part, start in zip(inside, starts[:-1].tolist(), strict=True)]
    back = np.zeros(sum(sizes), np.int64)
    back[kept] = np.arange(len(kept))
    return Explained(
        put_together(layouts, chosen, models, room),
        sent(torch.from_numpy(kept), models.device),
        sent(torch.from_numpy(back), models.device),
    )


def scores_in_parts(items: Sequence[Prepared], models: Models, room: Room) -> Tensor:
    """(solutions,): all of Z, a part put together and scored after the other."""
    layouts = layouts_of(items)
    starts = offsets([len(layout) for layout in layouts])
    costs = np.concatenate([_tokens_of(layout) for layout in layouts])
    scores = []
    for first, stop in parts.cut(costs, _at_once(models.device)):
        low, high = np.searchsorted(starts, [first, stop - 1], side="right")
        chosen = [
            np.arange(max(first, start) - start, min(stop, end) - start)
            for start, end in pairwise(starts[low - 1 : high + 1].tolist())
        ]
        batch = put_together(layouts[low - 1 : high], chosen, models, room)
        scores.append(reconstructor_of(models).log_prob(batch, full_precision=True).float())
    return torch.cat(scores)


def put_together(layouts: Sequence[Layout], chosen: Sequence[npt.ArrayLike], models: Models, room: Room) -> Batch:
    """The chosen solutions of these layouts, in chunks within the room."""
    return reconstructor_of(models).batch(layouts, chosen, chunk_tokens(models.device, room))


def chunk_tokens(device: torch.device, room: Room) -> int:
    """Tokens that the reconstructor scores at a time: as is fastest, unless memory ran out."""
    fastest = TOKENS_PER_CHUNK.get(device.type, TOKENS_PER_CHUNK["cuda"])
    return min(fastest, room.budget) if room.reduced else fastest


def reconstructor_of(models: Models) -> Reconstructor:
    """The one that an objective asks for."""
    assert models.reconstructor is not None, "this objective needs a reconstructor"
    return models.reconstructor


def layouts_of(items: Sequence[Prepared]) -> list[Layout]:
    """Those of all examples, one after the other."""
    return [layout for item in items for layout in item.layouts]


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """On the device, or on its way there: the copy to a GPU is not waited for."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _tokens_of(layout: Layout) -> Integers:
    """(solutions,): tokens of each solution, and of the question that is said from it."""
    lengths = np.append(np.diff(layout.starts), 0)  # −1 is no segment
    tokens: Integers = lengths[layout.composition].sum(axis=1) + len(layout.question)
    return tokens


def _at_once(device: torch.device) -> int:
    return _EXPLAINED_AT_ONCE.get(device.type, _EXPLAINED_AT_ONCE["cuda"])
