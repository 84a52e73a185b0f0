"""How solutions are shown to the reconstructor: operation words, literal text, and references into the context.

The solutions of one example share most of what they say (the same columns, the same conditions), so a
solution set is rendered as a few *segments* and, for each solution, which segments it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Word:
    """An operation word: select, max, where, =."""

    text: str


@dataclass(frozen=True, slots=True)
class Literal:
    """Literal text: a value that stands in the question, a constant."""

    text: str


@dataclass(frozen=True, slots=True)
class SpanReference:
    """Characters [start, end) of the context's text; the reconstructor sees a placeholder that attends to them."""

    start: int
    end: int


Rendering = tuple[Word | Literal | SpanReference, ...]


@dataclass(frozen=True, eq=False)
class RenderedSet:
    """All solutions of one example, without repeating what they share."""

    context: str
    segments: tuple[Rendering, ...]
    composition: npt.NDArray[np.int32]  # (solutions, most segments): which segments, in order; −1 where fewer
    running: bool = False  # whether the context is running text, where what stands around a reference goes with it

    def __len__(self) -> int:
        return len(self.composition)

    def __getitem__(self, index: int) -> Rendering:
        return tuple(
            piece for place in self.composition[index].tolist() if place >= 0 for piece in self.segments[place]
        )


def together(sets: Sequence[RenderedSet]) -> list[RenderedSet]:
    """Sets as one where they have the same context, so that all is read through the same windows of it."""
    same = all(each.context == sets[0].context for each in sets)
    return [joined(sets)] if sets and same else list(sets)


def joined(sets: Sequence[RenderedSet]) -> RenderedSet:
    """Sets with the same context as one, in order; what they share is said once."""
    places: dict[Rendering, int] = {}
    rows = []
    for each in sets:
        assert each.context == sets[0].context, "a set has one context"
        own = np.array([places.setdefault(segment, len(places)) for segment in each.segments], np.int32)
        rows.append(np.where(each.composition >= 0, own[each.composition], -1))
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1])), constant_values=-1) for row in rows]
    return RenderedSet(sets[0].context, tuple(places), np.concatenate(padded).astype(np.int32), sets[0].running)
