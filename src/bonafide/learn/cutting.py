"""A step in micro-batches: what is computed at a time, by the room that there is."""

from __future__ import annotations

from collections.abc import Sequence

from bonafide.learn.explaining import chunk_tokens
from bonafide.learn.memory import Room
from bonafide.learn.microbatch import Models, Prepared, divided


def micro_batches(items: Sequence[Prepared], chosen: Sequence[int], room: Room) -> list[list[int]]:
    """The examples of a step in parts of like size, each within the token budget if one example allows it."""
    parts: list[list[int]] = []
    cost = 0
    for index in sorted(chosen, key=lambda each: (items[each].size, items[each].id)):
        tokens = items[index].tokens
        if not parts or cost + tokens > room.budget:
            parts.append([])
            cost = 0
        parts[-1].append(index)
        cost += tokens
    return parts


def pieces(items: Sequence[Prepared], chosen: Sequence[int], room: Room, models: Models) -> object:
    """All that these examples are computed in: micro-batches, parts of Z, and chunks where there is but one example."""
    batches = micro_batches(items, chosen, room)
    parts = [len(divided([items[index] for index in part], room)) for part in batches]
    explained = models.reconstructor is not None and len(chosen) == 1
    return batches, parts, chunk_tokens(models.device, room) if explained else 0
