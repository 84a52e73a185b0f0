"""A step in micro-batches: what is computed at a time, by the room that there is, and how much there is."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bonafide.errors import MemoryShortageError
from bonafide.learn.explaining import chunk_tokens
from bonafide.learn.memory import Room
from bonafide.learn.microbatch import Models, Prepared, divided

_PATIENCE = 50
"""Steps until a smaller budget is doubled; twice as many each time that this was too early."""
_logger = logging.getLogger(__name__)


class Budget:
    """The room of a run: smaller where memory runs out, larger again later, since others may have been using it."""

    def __init__(self, most: int) -> None:
        self.room = Room(most)
        self._most, self._patience = most, _PATIENCE
        self._changed, self._grown = 0, False  # the step of the last change, and whether it gave more

    def shrink(self, step: int, items: Sequence[Prepared], part: Sequence[int], models: Models, reason: str) -> None:
        """Memory ran out on this micro-batch: take less, so that it is cut."""
        tokens, before = sum(items[index].tokens for index in part), self.room.budget
        room = self.room.smaller(tokens, lambda room: pieces(items, part, room, models))
        if room is None:
            item = items[part[0]]
            raise MemoryShortageError(
                f"Memory ran out on one example alone: {item.id}, with {item.size:,} solutions and {tokens:,} tokens "
                f"({reason}). Use fewer of its solutions (data.max_solutions), a smaller model, or a device with more "
                "memory. The last checkpoint is unharmed."
            )
        self._patience *= 2 if self._grown else 1
        self.room, self._changed, self._grown = room, step, False
        _logger.warning(
            f"Memory ran out in step {step + 1} on {len(part)} examples of {tokens:,} tokens ({reason}). The step is "
            f"done again, and the run goes on, with micro-batches of at most {room.budget:,} tokens instead of "
            f"{before:,}."
        )

    def grow(self, step: int) -> bool:
        """Try more again, where it is time."""
        if not self.room.reduced or step - self._changed < self._patience:
            return False
        self.room, self._changed, self._grown = self.room.larger(self._most), step, True
        return True

    def limit(self, tokens: int) -> bool:
        """Take no more than another process has, or the run had when it was saved; whether that is less."""
        if tokens >= self.room.budget:
            return False
        self.room = Room(tokens, reduced=True)
        return True

    @property
    def pace(self) -> list[int]:
        """When it changed and when it may grow, for a checkpoint."""
        return [self._changed, self._patience, int(self._grown)]

    @pace.setter
    def pace(self, saved: Sequence[int]) -> None:
        self._changed, self._patience, self._grown = saved[0], saved[1], bool(saved[2])


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
