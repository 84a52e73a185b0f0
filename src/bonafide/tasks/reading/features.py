"""What the span reader reads of an example, and a batch of it.

A document is encoded once and shared by its questions; an example keeps which of its windows hold a mention, and where.
Training reads all windows with a mention and as many others, drawn anew each epoch; prediction reads every window.

Words that stand in the question too are numbered (``shared_words.py``), the same in all windows of the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bonafide.arrays import offsets, ranges
from bonafide.tasks.reading.span import MentionSet
from bonafide.tasks.reading.windows import EncodedDocument, EncodedQuestion, Keys, Windows
from bonafide.tasks.shared_words import SHARED_WORDS, numbered

Integers = npt.NDArray[np.int64]

MARKERS = 3
"""Pieces around question and window."""
_ROWS_PIECES = 1 << 15
"""Pieces that the encoder reads at once."""


@dataclass(frozen=True, eq=False)
class Features:
    """One example: its question, its document's windows, and the places of its mentions in them."""

    name: str
    question: EncodedQuestion
    shared: Keys  # (1 + words that question and document share,): 0, and these in the order of the question
    document: EncodedDocument
    windows: Windows
    holding: Integers  # (windows that hold a mention,), in order
    place_offsets: Integers  # (solutions + 1,): the places of each solution; none where no window holds it whole
    place_window: Integers  # (places,): index into ``holding``
    place_start: Integers  # (places,): first piece, in the window
    place_end: Integers  # (places,): last piece, in the window
    read: int  # windows without a mention that training reads

    @property
    def cost(self) -> int:
        """How many pieces training reads."""
        lengths = self.windows.stop - self.windows.first + len(self.question) + MARKERS
        others = self.read * float(lengths.mean()) if len(lengths) else 0.0
        return int(lengths[self.holding].sum() + others)

    @property
    def unreachable(self) -> int:
        """How many solutions no window holds whole."""
        return int((np.diff(self.place_offsets) == 0).sum())

    def numbers(self, words: Keys) -> Integers:
        """(pieces,): the number among the shared words of the word that each is of (``shared_words.py``), or 0."""
        number: Integers = (words[:, None] == self.shared).argmax(axis=1)  # 0 where none is the same
        return number.clip(max=SHARED_WORDS - 1)

    def chosen(self, draw: int) -> Integers:
        """The windows that training reads in draw ``draw``: those with a mention first, then some of the others."""
        empty = np.ones(len(self.windows), bool)
        empty[self.holding] = False
        others = np.flatnonzero(empty)
        if len(others) > self.read:
            chance = np.random.default_rng([draw, *self.name.encode()])
            others = np.sort(chance.choice(others, self.read, replace=False))
        return np.concatenate([self.holding, others])


def make_features(
    name: str,
    question: EncodedQuestion,
    document: EncodedDocument,
    windows: Windows,
    mentions: MentionSet | None,
    others: float,
) -> Features:
    """Places of all mentions; ``others`` is how many windows without a mention are read for each with one."""
    spans = ((), (), ()) if mentions is None else (mentions.paragraph, mentions.start, mentions.end)
    runs: Integers = document.runs_of(*spans).astype(np.int64)
    first, stop = runs[:, 0], runs[:, 1]
    earliest, counts = windows.holding(first, stop)
    window = ranges(earliest, counts)
    shared = np.array([0, *numbered(question.words.tolist(), document.known_words)], np.uint32)
    holding, place = np.unique(window, return_inverse=True)
    return Features(
        name,
        question,
        shared,
        document,
        windows,
        holding,
        offsets(counts),
        place,
        np.repeat(first, counts) - windows.first[window],
        np.repeat(stop, counts) - 1 - windows.first[window],
        max(1, round(others * len(holding))),
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """Windows that the encoder reads at once."""

    pieces: Tensor  # (rows, pieces)
    shared: Tensor  # (rows, pieces): the number of the piece's word among those that question and document share, or 0
    counts: Tensor  # (rows,)
    question: Tensor  # (rows,): question pieces
    places: Tensor  # (rows,): which of the batch's rows these are

    def to(self, device: Any, non_blocking: bool = False) -> Rows:
        """The same on a device."""
        return Rows(*(getattr(self, each.name).to(device, non_blocking=non_blocking) for each in fields(self)))

    def pin_memory(self) -> Rows:
        """The same in pinned memory."""
        return Rows(*(getattr(self, each.name).pin_memory() for each in fields(self)))


@dataclass(frozen=True, eq=False)
class SolverBatch:
    """Windows of some examples, row by row, and where their solutions stand in them."""

    features: tuple[Features, ...]
    chosen: tuple[Integers, ...]  # which windows of each example are read, in the order of the rows
    width: int  # the longest window's pieces
    rows: tuple[Rows, ...]
    row_offsets: Tensor  # (examples + 1,): the rows of each example
    lengths: Tensor  # (rows,): pieces of the window
    empty: Tensor  # (rows,): holds no mention
    offsets: Tensor  # (examples + 1,): the solutions of each example
    place_offsets: Tensor  # (solutions + 1,)
    place_row: Tensor  # (places,)
    place_start: Tensor  # (places,)
    place_end: Tensor  # (places,)

    def __len__(self) -> int:
        return len(self.features)

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """The same on a device."""
        return self._each(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same in memory from which a copy to a GPU need not be waited for."""
        return self._each(lambda part: part.pin_memory())

    def _each(self, change: Any) -> Self:
        moved = {
            each.name: change(getattr(self, each.name))
            for each in fields(self)
            if isinstance(getattr(self, each.name), Tensor)
        }
        return replace(self, rows=tuple(map(change, self.rows)), **moved)


@dataclass(frozen=True, slots=True)
class Markers:
    """The pieces before the question, after it, and after the window; and padding."""

    begin: int
    between: int
    end: int
    padding: int


def collate(
    features: Sequence[Features], chosen: Sequence[Integers], markers: Markers, multiple: int = 8
) -> SolverBatch:
    """Rows of like length together; ``chosen`` windows of each example, those that hold a mention first."""
    row_counts = [len(windows) for windows in chosen]
    row_base = offsets(row_counts)
    owner = np.repeat(np.arange(len(features)), row_counts)
    lengths = np.zeros(len(owner), np.int64)
    inside: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]  # windows, one after the other
    inside_numbers = [np.zeros(0, np.int64)]
    for number, (each, windows) in enumerate(zip(features, chosen, strict=True)):
        first = each.windows.first[windows].astype(np.int64)
        own = each.windows.stop[windows] - first
        lengths[row_base[number] : row_base[number + 1]] = own
        run = ranges(first, own)
        inside.append(each.document.pieces[run])
        inside_numbers.append(each.numbers(each.document.words[run]))
    asked = np.array([len(each.question) for each in features], np.int64)
    questions = np.concatenate([np.zeros(0, np.int64), *(each.question.pieces for each in features)])
    question_numbers = np.concatenate(
        [np.zeros(0, np.int64), *(each.numbers(each.question.words) for each in features)]
    )
    question_base, window_base = offsets(asked), offsets(lengths)
    windows_joined, numbers_joined = np.concatenate(inside), np.concatenate(inside_numbers)
    total = asked[owner] + lengths + MARKERS
    rows = []
    for part in _groups(total):
        width = -(-int(total[part].max()) // multiple) * multiple
        pieces = np.full((len(part), width), markers.padding, np.int64)
        both = np.zeros((len(part), width), np.int64)
        line, heads = np.arange(len(part)), asked[owner[part]]
        pieces[:, 0] = markers.begin
        pieces[line, heads + 1] = markers.between
        pieces[line, total[part] - 1] = markers.end
        for source, numbers, start, count, column in (
            (questions, question_numbers, question_base[owner[part]], heads, np.ones_like(heads)),
            (windows_joined, numbers_joined, window_base[part], lengths[part], heads + 2),
        ):
            read, place = ranges(start, count), ranges(line * width + column, count)
            pieces.reshape(-1)[place] = source[read]
            both.reshape(-1)[place] = numbers[read]
        rows.append(Rows(*map(torch.from_numpy, (pieces, both, total[part], heads, part))))
    place_counts = np.concatenate([np.zeros(0, np.int64), *[np.diff(each.place_offsets) for each in features]])
    empty = np.concatenate(
        [np.zeros(0, bool), *[np.arange(n) >= len(f.holding) for n, f in zip(row_counts, features, strict=True)]]
    )
    return SolverBatch(
        tuple(features),
        tuple(chosen),
        int(lengths.max(initial=1)),
        tuple(rows),
        torch.from_numpy(row_base),
        torch.from_numpy(lengths),
        torch.from_numpy(empty),
        torch.from_numpy(offsets([len(each.place_offsets) - 1 for each in features])),
        torch.from_numpy(offsets(place_counts)),
        torch.from_numpy(_joined_at([each.place_window for each in features], row_base)),
        torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *[each.place_start for each in features]])),
        torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *[each.place_end for each in features]])),
    )


def _groups(lengths: Integers) -> list[Integers]:
    """Rows by length, cut where a group would be too much to read at once or mostly padding.

    Groups of one width have as many rows, but for the last: on a GPU few shapes are read (:mod:`bonafide.replay`).
    """
    groups: list[Integers] = []
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        fitting = _ROWS_PIECES // (-(-longest // 32) * 32)
        stop = min(len(order), start + max(1, fitting // 8 * 8 if fitting >= 8 else fitting))
        short = np.flatnonzero(lengths[order[start:stop]] < 0.6 * longest)
        if len(short) >= 16:  # a group of its own pays from about here on
            stop = start + int(short[0])
        groups.append(order[start:stop])
        start = stop
    return groups


def _joined_at(windows: Sequence[Integers], base: Integers) -> Integers:
    moved = [window + first for window, first in zip(windows, base[:-1].tolist(), strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *moved])
