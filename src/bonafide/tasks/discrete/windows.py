"""Question and passage as pieces of an encoder, however long the passage is.

The encoder reads ``[CLS] question [SEP] passage [SEP]``. A passage that does not fit is read in windows that overlap,
each after the whole question; the state of a piece is then taken from the window in which it has most context. So
every number stays within reach, up to :data:`MOST_WINDOWS`. What goes beyond is cut, and said (:class:`Cut`).

Words that stand in both texts are numbered, so that a model can tell that two mentions say the same without having
seen the word before.

A token points at its first and last piece. One that has no piece of its own (a control character that the encoder's
tokenizer drops) points at the piece before it, so that the solver's options do not depend on the tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.tasks.discrete.options import Integers, Readable
from bonafide.tasks.discrete.tokens import Tokens
from bonafide.tasks.shared_words import numbered

MOST_WINDOWS = 32
"""About 12,000 pieces with an encoder of 512."""
_OVERLAP = 4
"""Neighbouring windows share one part in this many."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What did not fit: pieces of the question, pieces of the passage."""

    question_pieces: int = 0
    passage_pieces: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Pieced:
    """A text in pieces: their ids, and the first and last piece of each token."""

    ids: Integers
    tokens: Integers  # (tokens, 2)
    words: tuple[str, ...]  # (tokens,): in lower case


@dataclass(frozen=True, eq=False, slots=True)
class Windows:
    """What the encoder reads of an example, and the text that its states make.

    The *text* is ``[CLS] question [SEP] passage [SEP]`` as if it were read at once; piece i of it is piece
    ``places[i]`` of the windows laid side by side in rows of ``width``.
    """

    rows: tuple[Integers, ...]
    shared: tuple[Integers, ...]  # for each piece of the rows, the number of its word among those in both texts, or 0
    places: Integers  # (pieces of the text, 2): window, and place in it
    question_pieces: int
    question: Integers  # (tokens that are read, 2): first and last piece of the text
    passage: Integers  # (tokens that are read, 2)
    cut: Cut

    @property
    def readable(self) -> Readable:
        """How many tokens are read."""
        return Readable(len(self.question), len(self.passage))


def pieced(tokens: Tokens, tokenizer: Any) -> Pieced:
    """The pieces of a text, and where its tokens lie in them."""
    encoded = tokenizer(
        tokens.text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False
    )
    offsets = np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    starts, ends = (np.array(each, dtype=np.int64) for each in (tokens.starts, tokens.ends))
    first = np.searchsorted(np.maximum.accumulate(offsets[:, 1]), starts, "right")
    last = np.searchsorted(np.maximum.accumulate(offsets[:, 0]), ends, "left") - 1
    first = np.minimum(first, last)  # no piece of its own
    places = np.stack([first, last], axis=1).clip(0, max(0, len(offsets) - 1))
    return Pieced(np.array(encoded["input_ids"], dtype=np.int64), places, tokens.lower)


def make_windows(question: Pieced, passage: Pieced, special: tuple[int, int, int], max_pieces: int) -> Windows:
    """Lay out the windows; ``special`` are the pieces that open the input, close the question, and the passage."""
    opening, between, closing = special
    kept = min(len(question.ids), max(0, (max_pieces - 3) // 2))
    room = max_pieces - 3 - kept
    if room < 8:
        raise BonafideError(f"The encoder reads {max_pieces} pieces at most, which is too few for a passage.")
    begins = _begins(len(passage.ids), room)
    read = min(len(passage.ids), int(begins[-1]) + room)
    head = np.concatenate([[opening], question.ids[:kept], [between]])
    rows = tuple(
        np.concatenate([head, passage.ids[begin : min(begin + room, read)], [closing]]) for begin in begins.tolist()
    )
    both = numbered(question.words, frozenset(passage.words))
    none = np.zeros(1, dtype=np.int64)
    asked, told = np.concatenate([none, _marked(question, both)[:kept], none]), _marked(passage, both)
    shared = tuple(np.concatenate([asked, told[begin : min(begin + room, read)], none]) for begin in begins.tolist())
    piece = np.arange(read)
    window = _best_window(piece, begins, np.minimum(begins + room, read))
    before = np.stack([np.zeros(kept + 2, dtype=np.int64), np.arange(kept + 2)], axis=1)
    inside = np.stack([window, kept + 2 + piece - begins[window]], axis=1)
    after = np.array([[len(rows) - 1, len(rows[-1]) - 1]])
    return Windows(
        rows,
        shared,
        np.concatenate([before, inside, after]),
        kept,
        _read_tokens(question.tokens, kept, len(question.ids)) + 1,
        _read_tokens(passage.tokens, read, len(passage.ids)) + kept + 2,
        Cut(len(question.ids) - kept, len(passage.ids) - read),
    )


def _marked(text: Pieced, numbers: dict[str, int]) -> Integers:
    """(pieces,): the number of the word that a piece is of; 0 for others."""
    marks = np.zeros(len(text.ids), dtype=np.int64)
    for (first, last), word in zip(text.tokens.tolist(), text.words, strict=True):
        if word in numbers:
            marks[first : last + 1] = numbers[word]
    return marks


def _begins(pieces: int, room: int) -> Integers:
    """Where windows begin: evenly, the last one at the end of the passage."""
    if pieces <= room:
        return np.zeros(1, dtype=np.int64)
    step = room - room // _OVERLAP
    count = -(-(pieces - room) // step) + 1
    if count > MOST_WINDOWS:
        return np.arange(MOST_WINDOWS) * step
    return np.linspace(0, pieces - room, count).round().astype(np.int64)


def _best_window(piece: Integers, begins: Integers, ends: Integers) -> Integers:
    """(pieces,): the window in which a piece stands farthest from an edge that is not an edge of the passage."""
    if len(begins) == 1:
        return np.zeros(len(piece), dtype=np.int64)
    far = len(piece)
    before = np.where(begins == 0, far, piece[:, None] - begins)
    after = np.where(ends == len(piece), far, ends - 1 - piece[:, None])
    inside = (piece[:, None] >= begins) & (piece[:, None] < ends)
    best: Integers = np.where(inside, np.minimum(before, after), -1).argmax(axis=1)
    return best


def _read_tokens(tokens: Integers, read: int, pieces: int) -> Integers:
    """The tokens before the first that is not read whole."""
    if read == pieces:
        return tokens
    beyond = np.flatnonzero(tokens[:, 1] >= read)
    return tokens[: int(beyond[0]) if len(beyond) else len(tokens)]
