"""Where an answer's text stands in a passage, under DROP's normalisation.

A span answers a text when both are the same to the official evaluator: lower case, without articles and
punctuation. Of the spans that differ only in leading and trailing articles and punctuation the shortest is taken.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from functools import lru_cache
from itertools import takewhile

from bonafide.tasks.discrete.metrics import normalised
from bonafide.tasks.discrete.passage import Passage

_ARTICLES = frozenset(("a", "an", "the"))


class _Letters:
    """The letters and digits of a text without all else, and the tokens that they come from."""

    def __init__(self, passage: Passage) -> None:
        tokens = passage.tokens
        parts: list[str] = []
        self.starts: list[int] = []  # in the letters, of each token that has some
        self.tokens: list[int] = []
        position = 0
        for token, word in enumerate(tokens.lower):
            if word in _ARTICLES and not (
                token + 1 < len(tokens) and tokens.words[token + 1] == "." and tokens.joined(token + 1)
            ):
                continue  # the A of A.J. is no article
            if bare := word if word.isalnum() else "".join(letter for letter in word if letter.isalnum()):
                parts.append(bare)
                self.starts.append(position)
                self.tokens.append(token)
                position += len(bare)
        self.text = "".join(parts)
        self.ends = [*self.starts[1:], position]


@lru_cache(maxsize=128)
def _letters(passage: Passage) -> _Letters:
    return _Letters(passage)


def find_text(passage: Passage, text: str, most_tokens: int) -> list[tuple[int, int]]:
    """Every span (first and last token) that the official evaluator takes for ``text``, by position.

    A text without letters and digits stands nowhere.
    """
    wanted = normalised(text)
    given = Passage(text)
    said = _Letters(given)
    bare = said.text
    found: list[tuple[int, int]] = []
    if not bare:
        return found
    marks = _marks_behind(given, said.tokens[-1])
    letters = _letters(passage)
    at = letters.text.find(bare)
    while at >= 0:
        first = bisect_left(letters.starts, at)
        last = bisect_left(letters.ends, at + len(bare))
        if first < len(letters.starts) and letters.starts[first] == at and letters.ends[last] == at + len(bare):
            span = _fitted(passage, letters.tokens[first], letters.tokens[last], marks, wanted)
            if span is not None and span[1] - span[0] < most_tokens:
                found.append(span)
        at = letters.text.find(bare, at + 1)
    return found


def wider(passage: Passage, place: tuple[int, int]) -> list[tuple[int, int]]:
    """Spans that add an article or punctuation to a mention, so that the official evaluator takes them for the same."""
    first, last = place
    same = normalised(passage.span_text(first, last))
    around = [(first, last + 1), (first - 1, last), (first - 1, last + 1)]
    return [
        (start, end)
        for start, end in around
        if start >= 0 and end < len(passage) and normalised(passage.span_text(start, end)) == same
    ]


def _fitted(passage: Passage, first: int, last: int, marks: int, wanted: str) -> tuple[int, int] | None:
    """The span itself, or with a sign beside it: to the official evaluator 7.2 and 7.2% are different numbers.

    Combining marks are tokens: behind the last of its letters the text may have some.
    """
    for end in (last, last + marks) if marks else (last,):
        for start, stop in ((first, end), (first, end + 1), (first - 1, end)):
            if start >= 0 and stop < len(passage) and normalised(passage.span_text(start, stop)) == wanted:
                return start, stop
    return None


def _marks_behind(passage: Passage, token: int) -> int:
    """How many combining marks stand behind this token."""
    behind = passage.tokens.words[token + 1 :]
    return len(list(takewhile(lambda word: unicodedata.category(word[0]).startswith("M"), behind)))
