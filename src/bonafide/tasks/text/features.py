"""What the text solver reads of an example, and a batch of it.

The encoder reads question and context once an example. The candidates of all examples lie end to end, sorted into
*chunks* of like length, so that little is padded; nothing here is done once a candidate in Python on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Integers = npt.NDArray[np.int64]
_CHUNK_TOKENS = 1 << 13
"""Tokens of candidates, padding included, that are decoded at once."""


@dataclass(frozen=True, eq=False)
class Features:
    """One example in pieces: the input, and each candidate with the end token."""

    pieces: Integers  # start, question, separator, context, separator
    question_pieces: int
    targets: tuple[Integers, ...]
    reachable: npt.NDArray[np.bool_]  # (solutions,): whether the decoder has positions for all of it
    unread: int = 0  # pieces of question and context that the encoder has no positions for

    @property
    def cost(self) -> int:
        """How many pieces are read and written."""
        return len(self.pieces) + sum(map(len, self.targets))

    @property
    def unreachable(self) -> int:
        """How many candidates are too long to be produced."""
        return int((~self.reachable).sum())

    @property
    def shortened(self) -> bool:
        """Whether something of it is not read."""
        return self.unread > 0

    def written(self) -> Integers:
        """(solutions,): tokens of each candidate."""
        return np.array([len(target) for target in self.targets], np.int64)

    def only(self, first: int, stop: int) -> Features:
        """The same with the candidates from ``first`` to before ``stop`` alone."""
        return replace(self, targets=self.targets[first:stop], reachable=self.reachable[first:stop])


@dataclass(frozen=True, eq=False)
class Chunk:
    """Candidates of like length, decoded together."""

    rows: Tensor  # (candidates,): their places among all of the batch
    example: Tensor  # (candidates,)
    inputs: Tensor  # (candidates, tokens): what the decoder reads, the start token first
    targets: Tensor  # (candidates, tokens)
    mask: Tensor  # (candidates, tokens): where there is a token to say


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Padded inputs, and all candidates in chunks; ``offsets`` groups these by example."""

    pieces: Tensor  # (examples, pieces)
    piece_counts: Tensor  # (examples,)
    question_pieces: Tensor  # (examples,)
    chunks: tuple[Chunk, ...]
    tokens: Tensor  # (tokens of all candidates,): one after the other
    starts: Tensor  # (solutions + 1,): where each begins in them
    reachable: Tensor  # (solutions,)
    offsets: Tensor  # (examples + 1,)

    def __len__(self) -> int:
        return len(self.pieces)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same in memory from which a copy to a GPU need not be waited for."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Any) -> Self:
        chunks = tuple(_changed(chunk, change) for chunk in self.chunks)
        changed: Self = _changed(self, change)
        return replace(changed, chunks=chunks)


def collate(features: Sequence[Features], padding: int, start: int, chunk_tokens: int = _CHUNK_TOKENS) -> TextBatch:
    """A batch on the CPU."""
    sizes = [len(each.targets) for each in features]
    example = np.repeat(np.arange(len(features)), sizes)
    targets = [target for each in features for target in each.targets]
    lengths = np.array([len(target) for target in targets], np.int64)
    order = np.argsort(lengths, kind="stable")
    chunks, first = [], 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * lengths[order[last]] <= chunk_tokens:
            last += 1
        chunks.append(_chunk(order[first:last], example, targets, padding, start))
        first = last
    return TextBatch(
        pieces=torch.from_numpy(_padded([each.pieces for each in features], padding)),
        piece_counts=torch.tensor([len(each.pieces) for each in features]),
        question_pieces=torch.tensor([each.question_pieces for each in features]),
        chunks=tuple(chunks),
        tokens=torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *targets])),
        starts=torch.from_numpy(np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])),
        reachable=torch.from_numpy(np.concatenate([np.zeros(0, bool), *(each.reachable for each in features)])),
        offsets=torch.tensor([0, *sizes]).cumsum(0),
    )


def _chunk(rows: Integers, example: Integers, targets: Sequence[Integers], padding: int, start: int) -> Chunk:
    held = [targets[row] for row in rows.tolist()]
    said = _padded(held, padding)
    read = np.concatenate([np.full((len(rows), 1), start), said[:, :-1]], axis=1)
    mask = np.arange(said.shape[1]) < np.array([len(each) for each in held])[:, None]
    tensors = (torch.from_numpy(np.ascontiguousarray(each)) for each in (rows, example[rows], read, said, mask))
    return Chunk(*tensors)


def _padded(rows: Sequence[Integers], padding: int) -> Integers:
    width = max((len(row) for row in rows), default=0)
    made = np.full((len(rows), width), padding, np.int64)
    for place, row in enumerate(rows):
        made[place, : len(row)] = row
    return made


def _changed(value: Any, change: Any) -> Any:
    held = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{name: change(each) for name, each in held.items() if isinstance(each, Tensor)})
