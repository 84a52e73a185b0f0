"""What the span reader reads of an example, and a batch of it.

A document is encoded once and shared by its questions; an example keeps which of its windows hold a mention, and where.
Training reads all windows with a mention and as many others, drawn anew each epoch; prediction reads every window.

Pieces that stand in the question too are numbered, so that a model can tell that two places say the same without having
seen the word before: a small one learns that slowly, if at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bonafide.tasks.reading.span import MentionSet
from bonafide.tasks.reading.windows import EncodedDocument, Windows

Integers = npt.NDArray[np.int64]

SHARED_PIECES = 32
"""Numbers for pieces that stand in question and window, 0 being that of the others."""
MARKERS = 3
"""Pieces around question and window."""
_ROWS_PIECES = 1 << 15
"""Pieces that the encoder reads at once."""


@dataclass(frozen=True, eq=False)
class Features:
    """One example: its question, its document's windows, and the places of its mentions in them."""

    name: str
    question: npt.NDArray[np.int32]  # (question pieces,)
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

    def chosen(self, draw: int) -> Integers:
        """The windows that training reads in draw ``draw``: those with a mention first, then some of the others."""
        others = np.setdiff1d(np.arange(len(self.windows)), self.holding)
        if len(others) > self.read:
            chance = np.random.default_rng([draw, *self.name.encode()])
            others = np.sort(chance.choice(others, self.read, replace=False))
        return np.concatenate([self.holding, others]).astype(np.int64)


def make_features(
    name: str,
    question: npt.NDArray[np.int32],
    document: EncodedDocument,
    windows: Windows,
    mentions: MentionSet | None,
    others: float,
) -> Features:
    """Places of all mentions; ``others`` is how many windows without a mention are read for each with one."""
    counts, window, start, end = [], [], [], []
    for mention in mentions if mentions is not None else ():
        run = document.run_of(mention)
        held = windows.holding(*run) if run is not None else np.zeros(0, np.int32)
        counts.append(len(held))
        if run is not None:
            window.append(held)
            start.append(run[0] - windows.first[held])
            end.append(run[1] - 1 - windows.first[held])
    joined = _joined(window)
    holding, place = np.unique(joined, return_inverse=True)
    return Features(
        name,
        question,
        document,
        windows,
        holding,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        place.astype(np.int64),
        _joined(start),
        _joined(end),
        max(1, round(others * len(holding))),
    )


def _joined(parts: Sequence[npt.NDArray[np.int32]]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Rows:
    """Windows that the encoder reads at once."""

    pieces: Tensor  # (rows, pieces)
    shared: Tensor  # (rows, pieces): the number of the piece among those of the question, or 0
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
    texts, shared, lengths, questions = [], [], [], []
    for each, windows in zip(features, chosen, strict=True):
        head = np.concatenate([[markers.begin], each.question, [markers.between]])
        for window in windows.tolist():
            inside = each.document.pieces[each.windows.first[window] : each.windows.stop[window]]
            texts.append(np.concatenate([head, inside, [markers.end]]).astype(np.int64))
            shared.append(_shared(each.question, inside))
            lengths.append(len(inside))
            questions.append(len(each.question))
    row_counts = [len(windows) for windows in chosen]
    row_base = np.concatenate([[0], np.cumsum(row_counts)]).astype(np.int64)
    total = np.array([len(text) for text in texts], np.int64)
    rows = []
    for part in _groups(total):
        width = -(-int(total[part].max()) // multiple) * multiple
        pieces = np.full((len(part), width), markers.padding, np.int64)
        both = np.zeros((len(part), width), np.int64)
        for line, index in enumerate(part.tolist()):
            pieces[line, : total[index]] = texts[index]
            both[line, : total[index]] = shared[index]
        asked = np.array([questions[index] for index in part.tolist()], np.int64)
        rows.append(Rows(*map(torch.from_numpy, (pieces, both, total[part], asked, part))))
    place_counts = np.concatenate([np.zeros(0, np.int64), *[np.diff(each.place_offsets) for each in features]])
    empty = np.concatenate(
        [np.zeros(0, bool), *[np.arange(n) >= len(f.holding) for n, f in zip(row_counts, features, strict=True)]]
    )
    return SolverBatch(
        tuple(features),
        tuple(chosen),
        max(lengths, default=1),
        tuple(rows),
        torch.from_numpy(row_base),
        torch.tensor(lengths, dtype=torch.long),
        torch.from_numpy(empty),
        _offsets([len(each.place_offsets) - 1 for each in features]),
        _offsets(place_counts.tolist()),
        torch.from_numpy(_joined_at([each.place_window for each in features], row_base)),
        torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *[each.place_start for each in features]])),
        torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *[each.place_end for each in features]])),
    )


def _shared(question: npt.NDArray[np.int32], inside: npt.NDArray[np.int32]) -> Integers:
    """(pieces with markers,): pieces of the question that the window has too, numbered as they come in the question."""
    number = {piece: place for place, piece in enumerate(dict.fromkeys(question.tolist()), start=1)}
    there = set(inside.tolist())
    none = [0]
    asked = [min(number[piece], SHARED_PIECES - 1) * (piece in there) for piece in question.tolist()]
    told = [min(number.get(piece, 0), SHARED_PIECES - 1) for piece in inside.tolist()]
    return np.array([*none, *asked, *none, *told, *none], np.int64)


def _groups(lengths: Integers) -> list[Integers]:
    """Rows by length, cut where a group would be too much to read at once or mostly padding."""
    groups: list[Integers] = []
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        stop = min(len(order), start + max(1, _ROWS_PIECES // longest))
        short = np.flatnonzero(lengths[order[start:stop]] < 0.6 * longest)
        if len(short) >= 16:  # a group of its own pays from about here on
            stop = start + int(short[0])
        groups.append(order[start:stop])
        start = stop
    return groups


def _joined_at(windows: Sequence[Integers], base: Integers) -> Integers:
    moved = [window + first for window, first in zip(windows, base[:-1].tolist(), strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *moved])


def _offsets(counts: Sequence[int]) -> Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))]).astype(np.int64))
