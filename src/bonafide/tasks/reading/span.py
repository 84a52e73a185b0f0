"""The solution of a reading question: a mention, which is a stretch of one paragraph; and sets of them.

Offsets are characters (code points) of the paragraph's own text, exactly as the document gives it. Executing a
mention is reading what stands there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from bonafide.documents import Document
from bonafide.errors import BonafideError, shortened
from bonafide.examples import describe


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """Characters [start, end) of a paragraph; mentions are ordered as they stand in the document."""

    paragraph: int
    start: int
    end: int

    def text(self, document: Document) -> str:
        """What stands there: the answer that this solution executes to."""
        return document.paragraphs[self.paragraph][self.start : self.end]

    def overlaps(self, other: Mention) -> bool:
        """Whether the two share a character."""
        return self.paragraph == other.paragraph and self.start < other.end and other.start < self.end


@dataclass(frozen=True, eq=False)
class MentionSet(Sequence[Mention]):
    """Every mention of an example's accepted answers, in the order of the document; no two overlap.

    ``answer`` says which accepted answer each one is a mention of. ``size`` is the number of mentions before any
    cap; ``complete`` says that all are here.
    """

    paragraph: npt.NDArray[np.int32]  # (mentions,)
    start: npt.NDArray[np.int32]  # (mentions,)
    end: npt.NDArray[np.int32]  # (mentions,)
    answer: npt.NDArray[np.int32]  # (mentions,)
    size: int
    complete: bool

    def __len__(self) -> int:
        return len(self.paragraph)

    @overload
    def __getitem__(self, index: int) -> Mention: ...
    @overload
    def __getitem__(self, index: slice) -> list[Mention]: ...
    def __getitem__(self, index: int | slice) -> Mention | list[Mention]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return Mention(int(self.paragraph[index]), int(self.start[index]), int(self.end[index]))

    def __contains__(self, mention: object) -> bool:
        return self.index_of(mention) is not None

    def index_of(self, mention: object) -> int | None:
        """Where ``mention`` stands in the set; None if it is not in it."""
        if not isinstance(mention, Mention):
            return None
        same = (self.paragraph == mention.paragraph) & (self.start == mention.start) & (self.end == mention.end)
        found = np.flatnonzero(same)
        return int(found[0]) if len(found) else None


@dataclass(frozen=True, slots=True)
class GoldSpans:
    """Where the answer truly stands. For evaluation only.

    ``mentions`` is empty where only the paragraph is known.
    """

    paragraph: int
    mentions: tuple[Mention, ...]

    def place_in(self, mentions: MentionSet) -> int | None:
        """The first mention of a set that overlaps a gold one; None if none does, or only the paragraph is known."""
        right = self.overlap(mentions)
        return int(right.argmax()) if right.any() else None

    def overlap(self, mentions: MentionSet) -> npt.NDArray[np.bool_]:
        """(mentions,): which of a set overlap a gold one.

        An overlap, not equality: annotators take an article or a sign along, or leave it, as they please.
        """
        right = np.zeros(len(mentions), bool)
        for gold in self.mentions:
            right |= (mentions.paragraph == gold.paragraph) & (mentions.start < gold.end) & (gold.start < mentions.end)
        return right


def parse_gold(solution: dict[str, Any], document: Document) -> GoldSpans:
    """Read ``{"paragraph": …, "spans": [{"text": …, "start": … or null}, …]}``, and hold it to its document."""
    paragraph, spans = solution.get("paragraph"), solution.get("spans")
    count = len(document.paragraphs)
    if not isinstance(paragraph, int) or isinstance(paragraph, bool) or not 0 <= paragraph < count:
        raise _wrong(document, "paragraph", f"a number from 0 to {count - 1}", paragraph)
    if not isinstance(spans, list):
        raise _wrong(document, "spans", "a list of objects with text and start", spans)
    mentions = []
    for span in spans:
        text, start = (span.get("text"), span.get("start")) if isinstance(span, dict) else (None, None)
        if not isinstance(text, str) or not text:
            raise _wrong(document, "spans", "objects with a text that is not empty", span)
        if start is None:
            continue
        if (
            not isinstance(start, int)
            or not document.paragraphs[paragraph].startswith(text, max(start, 0))
            or start < 0
        ):
            raise _wrong(document, "start", f"where {shortened(text)} begins in paragraph {paragraph}, or null", start)
        mentions.append(Mention(paragraph, start, start + len(text)))
    known = len(mentions) == len(spans)
    return GoldSpans(paragraph, tuple(mentions) if known else ())


def _wrong(document: Document, field: str, expected: str, found: object) -> BonafideError:
    return BonafideError(
        f"A gold mention in the document {document.name!r} is wrong at {field}: expected {expected}, "
        f"found {describe(found)}."
    )
