"""A document in a tokenizer's pieces, and windows over it that fit an encoder.

A document is encoded once, whatever is asked about it; a window is a run of pieces of one paragraph. Windows of a
paragraph begin ``stride`` pieces apart and overlap if they are longer than that, so that every piece is in at least
one of them and a mention near an edge of one stands well inside another. As in the reference code a window has at
most 300 pieces with the question and the markers, the question at most 64, and windows begin 128 pieces apart.

Characters and pieces translate into each other exactly: a mention becomes the shortest run of pieces that covers
it, and a run of pieces becomes the characters from where its first piece begins to where its last one ends. Pieces
that are part of a character (bytes of an emoji) all cover that character. A piece covers the combining marks behind
it too where no later one does: many tokenizers drop accents, and *Zoë*, whose accent may be a character of its own, is
to come back whole.

Each piece also knows its word (``matching.py``: lower case, without signs and articles) by a key of 32 bits, so that a
solver can be told which words question and document share.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from bonafide.arrays import Indices
from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.tasks.reading.matching import Matching, forms_of, past_marks, token_bounds
from bonafide.tasks.reading.span import Mention

Integers = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint32]

WINDOW_PIECES = 300
QUESTION_PIECES = 64
STRIDE = 128
_PARTED = re.compile(r"\S+")


@dataclass(frozen=True, eq=False)
class EncodedDocument:
    """The pieces of all paragraphs end to end, and the characters of its paragraph that each covers.

    ``begin`` and ``end`` never decrease within a paragraph, so that both can be searched by halving.
    """

    pieces: Integers  # (pieces,)
    begin: Integers  # (pieces,)
    end: Integers  # (pieces,)
    offsets: Integers  # (paragraphs + 1,): where each paragraph's pieces begin
    words: Keys  # (pieces,): the key of the word it is of; 0 for none
    parted: Integers  # (pieces,): the number of the word, as white space parts its paragraph, in which it ends

    def runs_of(self, paragraph: npt.ArrayLike, start: npt.ArrayLike, end: npt.ArrayLike) -> Integers:
        """The pieces [first, stop) that cover each mention: (mentions, 2); −1 twice where no piece covers any of it."""
        paragraphs, starts, ends = (np.atleast_1d(np.asarray(each)) for each in (paragraph, start, end))
        runs = np.full((len(paragraphs), 2), -1, np.int32)
        for each in np.unique(paragraphs).tolist():
            low, high = int(self.offsets[each]), int(self.offsets[each + 1])
            here = np.flatnonzero(paragraphs == each)
            after = np.searchsorted(self.end[low:high], starts[here], side="right")
            before = np.searchsorted(self.begin[low:high], ends[here], side="left")
            first, last = self._next_real[low + after], self._last_real[low + before]  # what covers nothing is no edge
            covered = (first <= last) & (starts[here] < ends[here])
            runs[here[covered]] = np.stack([first, last + 1], axis=1)[covered]
        return runs

    def run_of(self, mention: Mention) -> tuple[int, int] | None:
        """The pieces [first, stop) that cover a mention; None if no piece covers any of it."""
        first, stop = self.runs_of(mention.paragraph, mention.start, mention.end)[0].tolist()
        return (first, stop) if first >= 0 else None

    def mentions_of(self, first: npt.ArrayLike, stop: npt.ArrayLike) -> tuple[Integers, Integers, Integers]:
        """Paragraphs, and the characters from where each piece ``first`` begins to where piece ``stop − 1`` ends."""
        first, stop = np.asarray(first), np.asarray(stop)
        paragraph = np.searchsorted(self.offsets, first, side="right").astype(np.int32) - 1
        if not ((first < stop) & (stop <= self.offsets[paragraph + 1])).all():
            raise ValueError(f"pieces {first} to {stop} are not runs of one paragraph each")
        return paragraph, self.begin[first], self.end[stop - 1]

    @cached_property
    def known_words(self) -> frozenset[int]:
        """The keys of its words."""
        return frozenset(self.words.tolist()) - {0}

    @cached_property
    def _next_real(self) -> Integers:
        """(pieces + 1,): the first piece from here on that covers something."""
        place = np.arange(len(self.pieces) + 1)
        real = np.append(self.begin < self.end, True)
        return np.minimum.accumulate(np.where(real, place, len(place))[::-1])[::-1].astype(np.int32)

    @cached_property
    def _last_real(self) -> Integers:
        """(pieces + 1,): the last piece before here that covers something; −1 if there is none."""
        place = np.arange(-1, len(self.pieces))
        real = np.insert(self.begin < self.end, 0, True)
        return np.maximum.accumulate(np.where(real, place, -1)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class EncodedQuestion:
    """The pieces of a question that are read, and the key of the word that each is of; 0 for none."""

    pieces: Integers  # (pieces,)
    words: Keys  # (pieces,)

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True, eq=False)
class Windows:
    """Runs [first, stop) of a document's pieces, each in one paragraph, in the order of the document."""

    paragraph: Integers  # (windows,)
    first: Integers  # (windows,)
    stop: Integers  # (windows,)
    begin: Integers  # (windows,): the characters of the paragraph that it covers
    end: Integers  # (windows,)

    def __len__(self) -> int:
        return len(self.first)

    def holding(self, first: npt.ArrayLike, stop: npt.ArrayLike) -> tuple[Indices, Indices]:
        """The first of the windows that hold each run [first, stop) whole, and how many there are, one after another.

        None hold a run from −1 on, which is none. Both ends of windows never decrease.
        """
        earliest = np.searchsorted(self.stop, stop, side="left")
        after = np.searchsorted(self.first, first, side="right")
        return earliest, np.maximum(0, after - earliest)

    def around(self, mention: Mention) -> int | None:
        """The window with the most text on the shorter side of a mention, the earlier of equals.

        A mention that is longer than any window gets the one that shows most of it; None if none shows any.
        """
        low, high = np.searchsorted(self.paragraph, [mention.paragraph, mention.paragraph + 1])
        begin, end = self.begin[low:high], self.end[low:high]
        shared = np.minimum(end, mention.end) - np.maximum(begin, mention.start)
        if not len(shared) or shared.max() <= 0:
            return None
        margin = np.minimum(mention.start - begin, end - mention.end)
        return int(low + np.lexsort((-margin, -shared))[0])


def encode_document(document: Document, tokenizer: PreTrainedTokenizerBase) -> EncodedDocument:
    """Cut every paragraph into pieces, without markers; a marker written out in the text is text."""
    if not tokenizer.is_fast:
        raise BonafideError(
            f"{type(tokenizer).__name__} does not say which characters a piece covers. Use a fast tokenizer "
            "(a checkpoint with tokenizer.json)."
        )
    encoded: Any = tokenizer(
        list(document.paragraphs),
        add_special_tokens=False,
        split_special_tokens=True,
        return_attention_mask=False,
        padding=False,
        truncation=False,
        verbose=False,
    )
    pieces, begin, end, words, parted = [], [], [], [], []
    for text, each in zip(document.paragraphs, encoded.encodings, strict=True):
        spans = np.array(each.offsets, np.int32).reshape(-1, 2)
        pieces.append(np.array(each.ids, np.int32))
        real = spans[:, 0] < spans[:, 1]
        covered = _over_marks(text, spans[real, 0], np.maximum.accumulate(np.where(real, spans[:, 1], 0)))
        # A piece may be said to cover nothing, anywhere (white space by itself): it stands where the text before it
        # ends. A tokenizer that reorders marks may go back a character: both must be in order to be searched.
        starts = np.where(real, spans[:, 0], covered)
        begin.append(np.minimum.accumulate(starts[::-1])[::-1])
        end.append(covered)
        words.append(_words_at(text, begin[-1], end[-1]))
        starts = np.array([word.start() for word in _PARTED.finditer(text)], np.int64)
        parted.append(np.searchsorted(starts, end[-1]).astype(np.int32))
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in pieces])])
    return EncodedDocument(
        np.concatenate(pieces),
        np.concatenate(begin),
        np.concatenate(end),
        offsets.astype(np.int32),
        np.concatenate(words),
        np.concatenate(parted),
    )


def encode_question(question: str, tokenizer: PreTrainedTokenizerBase, most: int = QUESTION_PIECES) -> EncodedQuestion:
    """The first ``most`` pieces of a question, without markers."""
    whole = encode_document(Document("", None, (question,)), tokenizer)
    return EncodedQuestion(whole.pieces[:most], whole.words[:most])


def room_for_text(question_pieces: int, tokenizer: PreTrainedTokenizerBase, window: int = WINDOW_PIECES) -> int:
    """How many pieces of text a window has beside the question and the markers around both."""
    markers = tokenizer.num_special_tokens_to_add(pair=True)
    room = window - question_pieces - markers
    if room < 1:
        raise BonafideError(
            f"A window of {window} pieces has no room for text beside a question of {question_pieces} pieces and "
            f"{markers} markers. Make the window longer, or cut the question shorter."
        )
    return room


def cut_windows(document: EncodedDocument, room: int, stride: int = STRIDE) -> Windows:
    """Windows of at most ``room`` pieces that begin ``stride`` pieces apart (or ``room``, if that is less)."""
    if room < 1 or stride < 1:
        raise BonafideError(f"Windows need room and a stride of at least one piece; found {room} and {stride}.")
    step = min(stride, room)
    lengths = np.diff(document.offsets)  # (paragraphs,)
    counts = np.where(lengths > 0, 1 + np.maximum(0, -(-(lengths - room) // step)), 0)
    paragraph = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(paragraph)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = document.offsets[paragraph] + number * step
    stop = np.minimum(first + room, document.offsets[paragraph + 1])
    return Windows(
        paragraph.astype(np.int32),
        first.astype(np.int32),
        stop.astype(np.int32),
        document.begin[first],
        document.end[stop - 1],
    )


@lru_cache(maxsize=1 << 18)
def word_key(word: str) -> int:
    """By this two words are compared; 0 for what is none (a sign, an article)."""
    form = forms_of(Matching())[word]
    return zlib.crc32(form.encode("utf-8", "surrogatepass")) if form else 0


def _over_marks(text: str, starts: Integers, ends: Integers) -> Integers:
    """Ends of pieces, moved behind the marks that follow up to where a later piece begins."""
    if text.isascii():
        return ends
    in_order = np.minimum.accumulate(np.append(starts, len(text))[::-1])[::-1]
    limits = in_order[np.searchsorted(in_order, ends)]
    return np.maximum(ends, np.minimum(past_marks(text)[ends], limits)).astype(np.int32)


def _words_at(text: str, begin: Integers, end: Integers) -> Keys:
    """(pieces,): the key of the token in which a piece ends: it may begin with a space."""
    starts, ends = token_bounds(text)
    keys = [0, *(word_key(text[low:high]) for low, high in zip(starts.tolist(), ends.tolist(), strict=True))]
    token = np.searchsorted(starts, end, side="left")  # counted from 1
    inside = (begin < end) & (end <= np.insert(ends, 0, 0)[token])
    return np.array(keys, np.uint32)[np.where(inside, token, 0)]
