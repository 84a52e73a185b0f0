"""Mentions as the reconstructor sees them: ``passage span ( <span> )``, and a window of the text as the context.

The words are the released code's. The context of a mention is its window, a stretch of its paragraph (``windows.py``);
mentions in one window share a context, which is then encoded once. So an example has one :class:`RenderedSet` a window
that holds a mention; which set a mention is in, and where in it, is kept beside them. Mentions of the same words differ
by where they stand alone, and nothing outside its window changes how a mention is rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bonafide.documents import Document
from bonafide.rendering import RenderedSet, Rendering, SpanReference, Word
from bonafide.tasks.reading.span import Mention
from bonafide.tasks.reading.windows import Windows


@dataclass(frozen=True, eq=False)
class RenderedMentions:
    """The mentions of one example, by window.

    Mention ``i`` is solution ``place[i]`` of ``sets[which[i]]``; sets come in the order of the document. Both are −1
    for a mention that no window shows, which a tokenizer can bring about that drops its characters.
    """

    sets: tuple[RenderedSet, ...]
    which: npt.NDArray[np.int32]  # (mentions,)
    place: npt.NDArray[np.int32]  # (mentions,)

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, index: int) -> tuple[str, Rendering]:
        """The context of a mention, and how it is said in it."""
        chosen = self.sets[self.which[index]]
        return chosen.context, chosen[int(self.place[index])]


def rendered(mentions: Sequence[Mention], document: Document, windows: Windows) -> RenderedMentions:
    """Each mention in the window that shows most around it; what sticks out of a window is cut off."""
    chosen = [windows.around(mention) for mention in mentions]
    used = sorted({window for window in chosen if window is not None})
    segments: dict[int, list[Rendering]] = {window: [] for window in used}
    place = np.full(len(mentions), -1, np.int32)
    for index, (mention, window) in enumerate(zip(mentions, chosen, strict=True)):
        if window is None:
            continue
        begin, end = int(windows.begin[window]), int(windows.end[window])
        start, stop = max(mention.start, begin), min(mention.end, end)
        place[index] = len(segments[window])
        segments[window].append(
            (Word("passage"), Word("span"), Word("("), SpanReference(start - begin, stop - begin), Word(")"))
        )
    number = {window: position for position, window in enumerate(used)}
    sets = tuple(
        RenderedSet(
            document.paragraphs[int(windows.paragraph[window])][int(windows.begin[window]) : int(windows.end[window])],
            tuple(segments[window]),
            np.arange(len(segments[window]), dtype=np.int32)[:, None],
            running=True,
        )
        for window in used
    )
    which = np.array([-1 if window is None else number[window] for window in chosen], np.int32)
    return RenderedMentions(sets, which, place)
