"""Every mention of every accepted answer in a document.

A document is indexed once, in one pass, for all questions about it: its tokens in their normal forms
(``matching.py``), and where each form stands. An answer is then looked up by its rarest token, so what a question
costs depends on how often that token occurs and not on the length of the document.

A mention begins with the answer's first token that counts and ends with its last. It takes along the signs and
articles with which the answer itself begins and ends, as many of them as stand there in the same way: the answer
"$5 million" is found in "£5 million" as "5 million" and in "$5 million" as a whole.

Overlapping mentions: from left to right, of those that begin first the longest is taken, and the next one begins
after its end. So where "Lincoln" and "Abraham Lincoln" are both accepted, "Abraham Lincoln" is one mention.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from bonafide.documents import Document
from bonafide.tasks.reading.matching import Matching, forms_of, token_bounds, token_spans
from bonafide.tasks.reading.span import MentionSet

Span = tuple[int, int]
"""Characters of the document's text: its paragraphs, joined by newlines."""

_SEPARATOR = "\n"  # no token holds white space


class DocumentIndex:
    """A document's tokens under some normalisations, and where each stands."""

    def __init__(self, document: Document, matching: Matching) -> None:
        self.document, self.matching = document, matching
        self.text = document.text
        lengths = [len(paragraph) + 1 for paragraph in document.paragraphs]
        self.paragraph_starts: list[int] = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int).tolist()
        starts, ends = token_bounds(self.text)
        text = self.text
        self.tokens = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        forms = list(map(forms_of(matching).__getitem__, self.tokens))
        counting = np.fromiter(map(bool, forms), bool, len(forms))
        self._all_starts, self._all_ends = starts.astype(np.int32), ends.astype(np.int32)
        self._starts, self._ends = self._all_starts[counting], self._all_ends[counting]
        self._forms = list(filter(None, forms))
        self._codes = {form: code for code, form in enumerate(dict.fromkeys(self._forms))}
        kind = np.uint16 if len(self._codes) < 1 << 16 else np.int32  # 16 bits are sorted several times as fast
        codes = np.fromiter(map(self._codes.__getitem__, self._forms), kind, len(self._forms))
        self._order = np.argsort(codes, kind="stable").astype(np.int32)  # the places of each form, form by form
        self._bounds: list[int] = [0, *np.cumsum(np.bincount(codes, minlength=len(self._codes))).tolist()]

    def paragraph_of(self, position: int) -> int:
        """The paragraph that this character of the text belongs to."""
        return bisect_right(self.paragraph_starts, position) - 1

    def find(self, answer: str) -> list[Span]:
        """Every mention of one answer, from left to right; they may overlap."""
        matching = self.matching
        spans = token_spans(answer)
        counting = [(form, span) for span in spans if (form := forms_of(matching)[answer[span[0] : span[1]]])]
        if not counting:
            return list(self._find_whole([matching.whole_form(answer[start:end]) for start, end in spans]))
        wanted = [form for form, _ in counting]
        found = self._runs(wanted) if matching.boundaries else self._stretches(wanted)
        first, last = counting[0][1][0], counting[-1][1][1]
        if first == spans[0][0] and last == spans[-1][1]:
            return list(found)
        leads = [answer[start:first] for start, _ in spans if start < first]
        trails = [answer[last:end] for _, end in reversed(spans) if end > last]
        return [self._extended(span, leads, trails) for span in found]

    def _runs(self, wanted: list[str]) -> Iterator[Span]:
        """Runs of whole tokens."""
        codes = [self._codes.get(form, -1) for form in wanted]
        if -1 in codes:
            return
        counts = [self._bounds[code + 1] - self._bounds[code] for code in codes]
        offset = counts.index(min(counts))
        low = self._bounds[codes[offset]]
        places = self._order[low : low + counts[offset]]
        if len(codes) == 1:
            yield from zip(self._starts[places].tolist(), self._ends[places].tolist(), strict=True)
            return
        forms, length = self._forms, len(wanted)
        for place in places.tolist():
            begin = place - offset
            if begin >= 0 and forms[begin : begin + length] == wanted:
                start, end = int(self._starts[begin]), int(self._ends[begin + length - 1])
                if self.paragraph_of(start) == self.paragraph_of(end - 1):
                    yield start, end

    def _stretches(self, wanted: list[str]) -> Iterator[Span]:
        """Runs that may begin and end inside a token."""
        stream, begins = self._stream
        text = _SEPARATOR.join(wanted)
        at = stream.find(text)
        while at >= 0:
            last = at + len(text) - 1
            start, end = self._character(at, begins, False), self._character(last, begins, True)
            if self.paragraph_of(start) == self.paragraph_of(end - 1):
                yield start, end
            at = stream.find(text, at + 1)

    @cached_property
    def _stream(self) -> tuple[str, list[int]]:
        """All forms in one text, and where each begins in it."""
        lengths = np.fromiter(map(len, self._forms), np.int64, len(self._forms)) + 1
        return _SEPARATOR.join(self._forms), np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int).tolist()

    def _character(self, at: int, begins: list[int], is_last: bool) -> int:
        """Where in the text a place of the stream is; a token whose form has another length is taken whole."""
        token = bisect_right(begins, at) - 1
        start, end = int(self._starts[token]), int(self._ends[token])
        if len(self._forms[token]) != end - start:
            return end if is_last else start
        return start + at - begins[token] + is_last

    def _find_whole(self, wanted: list[str]) -> Iterator[Span]:
        """Runs of tokens of which none is left out."""
        if not wanted or not wanted[0]:
            return
        length, forms = len(wanted), self._all_forms
        place = _index(forms, wanted[0], 0)
        while place is not None:
            if forms[place : place + length] == wanted:
                start, end = int(self._all_starts[place]), int(self._all_ends[place + length - 1])
                if self.paragraph_of(start) == self.paragraph_of(end - 1):
                    yield start, end
            place = _index(forms, wanted[0], place + 1)

    @cached_property
    def _all_forms(self) -> list[str]:
        known: dict[str, str] = {token: self.matching.whole_form(token) for token in set(self.tokens)}
        return list(map(known.__getitem__, self.tokens))

    def _extended(self, span: Span, leads: list[str], trails: list[str]) -> Span:
        """The span with as much of the answer's own beginning and end as stands beside it; the longest come first."""
        start, end = span
        text, same = self.text, self.matching.same_text
        paragraph = self.paragraph_of(start)
        floor = self.paragraph_starts[paragraph]
        ceiling = floor + len(self.document.paragraphs[paragraph])
        for lead in leads:
            begin = start - len(lead)
            if begin >= floor and same(text[begin:start], lead) and not (begin > floor and _inside(text, begin)):
                start = begin
                break
        for trail in trails:
            stop = end + len(trail)
            if stop <= ceiling and same(text[end:stop], trail) and not (stop < ceiling and _inside(text, stop)):
                end = stop
                break
        return start, end


def search(answers: Iterable[object], index: DocumentIndex, cap: int | None = None, seed: int | str = 0) -> MentionSet:
    """Every mention of the accepted answers; of more than ``cap`` a uniform sample, in the order of the document."""
    found: list[tuple[int, int, int]] = []
    for number, answer in enumerate(answers):
        if isinstance(answer, str):
            found += [(start, -end, number) for start, end in index.find(answer)]
    if len(found) > 1:
        found = _without_overlaps(found)
    size = len(found)
    if cap is not None and size > cap:
        chance = random.Random(seed)  # noqa: S311 (a sample, not a secret)
        found = [found[place] for place in sorted(chance.sample(range(size), cap))]
    rows = []
    starts = index.paragraph_starts
    for start, negative, number in found:
        paragraph = bisect_right(starts, start) - 1
        base = starts[paragraph]
        rows.append((paragraph, start - base, -negative - base, number))
    table = np.array(rows, np.int32).reshape(-1, 4)
    return MentionSet(table[:, 0], table[:, 1], table[:, 2], table[:, 3], size, size == len(found))


def _without_overlaps(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Leftmost first, of these the longest, of these the one of the earlier answer."""
    found.sort()
    kept = []
    free = 0
    for each in found:
        if each[0] >= free:
            kept.append(each)
            free = -each[1]
    return kept


def _inside(text: str, position: int) -> bool:
    """Whether a word or number goes on across this position."""
    return text[position - 1].isalnum() and text[position].isalnum()


def _index(forms: Sequence[str], wanted: str, begin: int) -> int | None:
    try:
        return forms.index(wanted, begin)
    except ValueError:
        return None
