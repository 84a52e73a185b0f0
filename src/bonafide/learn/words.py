"""A reconstructor of single words, which needs no training: how likely a question's words are, given a solution's.

    P(w | z) = (1 − s · n) · (c · copied(w | z) + (1 − c) · P(w)) + s · Σ_{operations o of z} said(w | o)

``copied`` is uniform over the words of the solution's literals and of what it points at, ``said`` over the words
that the rendering has for one of its n operations ("highest most largest maximum greatest"), and P(w) is how often w
stands in the training questions. Operations that all solutions of an example have tell nothing and are left out. A
longer solution spreads its share over more words, and each operation that is not asked for takes its share from all
other words: what explains nothing costs something, so that no price of operations is needed. In running text each
reference stands for what is around it too, as for ``AROUND`` more words: the nearer, the more, and for a third of it
wherever it stands.

What this knows and a reconstructor from scratch has to find out is that questions repeat the words of tables, and which
English words go with an operation (where the rendering says it in such words: ``reconstructor.verbalised``). Where one
row matches, MAX, MIN, SUM and AVG return the same cell, and nothing else in the data could tell it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bonafide.rendering import Literal, RenderedSet, Word

COPIED = 0.5
"""c: how likely a word of the question is one of the solution's."""
SAID = 1 / 12
"""s: how likely it is one for a certain operation. Questions have about a dozen words."""
MOST_SAID = 0.5
"""s · n is at most this: of more than six operations, each has less."""
AROUND = 10.0
"""Words that the surroundings of a reference in running text are worth, and how many words away they fade to 1/e."""
_ANYWHERE = 1 / 3
_AT_ONCE = 1 << 14
"""Solutions that are scored together."""
_WORDS = re.compile(r"[^\W\d_]+|\d+(?:[.,]\d+)*|[^\w\s]")

Floats = npt.NDArray[np.float64]


def words_in(text: str) -> list[str]:
    """Lower-cased words, numbers and signs."""
    return _WORDS.findall(text.lower())


class WordModel:
    """P(question given solution), word by word, for examples like those whose questions it was made from."""

    def __init__(self, questions: Iterable[str]) -> None:
        self._counts = Counter(word for question in questions for word in words_in(question))
        self._total = sum(self._counts.values()) + len(self._counts) + 1

    def log_prob(self, question: str, shown: RenderedSet) -> Floats:
        """(solutions,)."""
        asked = words_in(question)
        if not asked or not len(shown):
            return np.zeros(len(shown))
        common = np.array([(self._counts[word] + 1) / self._total for word in asked])
        told = _told(shown)
        # One row for each segment, and an empty one for what a solution has not.
        empty = len(shown.segments)
        copied, said = np.zeros((empty + 1, len(asked))), np.zeros((empty + 1, len(asked)))
        length, operations = np.zeros(empty + 1), np.zeros(empty + 1)
        for place, segment in enumerate(shown.segments):
            for piece in segment:
                if isinstance(piece, Word):
                    if piece.text in told:
                        said[place] += _shares(asked, piece.text.lower().split())
                        operations[place] += 1
                else:
                    text = piece.text if isinstance(piece, Literal) else shown.context[piece.start : piece.end]
                    own = words_in(text)
                    copied[place] += _shares(asked, own) * len(own)
                    length[place] += len(own)
                    if shown.running and not isinstance(piece, Literal):
                        copied[place] += AROUND * _around(asked, shown.context, piece.start, piece.end)
                        length[place] += AROUND
        parts = [
            _log_prob(np.where(part >= 0, part, empty), common, copied, length, said, operations)
            for part in np.split(shown.composition, range(_AT_ONCE, len(shown), _AT_ONCE))
        ]
        return np.concatenate(parts)


def _log_prob(
    made: npt.NDArray[np.int32], common: Floats, copied: Floats, length: Floats, said: Floats, operations: Floats
) -> Floats:
    """(solutions,): of what each is made of, given each segment's words."""
    count = operations[made].sum(1)[:, None]
    share = np.minimum(SAID * count, MOST_SAID)
    copying = copied[made].sum(1) / np.maximum(1, length[made].sum(1))[:, None]
    saying = said[made].sum(1) / np.maximum(1, count)
    likely = (1 - share) * (COPIED * copying + (1 - COPIED) * common) + share * saying
    scores: Floats = np.log(likely).sum(1)
    return scores


def _shares(asked: list[str], said: list[str]) -> Floats:
    """(words of the question,): the share of each in these words."""
    counts = Counter(said)
    return np.array([counts[word] / max(1, len(said)) for word in asked])


def _around(asked: list[str], text: str, start: int, end: int) -> Floats:
    """(words of the question,): the share of each in what stands around the characters [start, end) of a text."""
    starts, where = _spread(text)
    first, stop = np.searchsorted(starts, [start, end])
    place = np.arange(len(starts))
    away = np.where(place < first, first - place, np.where(place >= stop, place - stop + 1, np.inf))
    near = np.exp(-away / AROUND)
    near /= max(near.sum(), 1e-9)
    shares = np.zeros(len(asked))
    for number, word in enumerate(asked):
        there = where.get(word)
        if there is not None:
            shares[number] = (1 - _ANYWHERE) * near[there].sum() + _ANYWHERE * len(there) / len(starts)
    return shares


@lru_cache(maxsize=1024)
def _spread(text: str) -> tuple[npt.NDArray[np.int64], dict[str, npt.NDArray[np.int64]]]:
    """Where the words of a text begin, and in which places each of them stands."""
    found = list(_WORDS.finditer(text))
    places: dict[str, list[int]] = {}
    for number, each in enumerate(found):
        lowered = each.group().lower()
        for word in [lowered] if len(lowered) == len(each.group()) else words_in(lowered):  # "İ" becomes two signs
            places.setdefault(word, []).append(number)
    return np.array([each.start() for each in found]), {word: np.array(each) for word, each in places.items()}


def _told(shown: RenderedSet) -> set[str]:
    """The operation words that are words, and that some solutions have and others have not."""
    holders: dict[str, list[int]] = {}
    for place, segment in enumerate(shown.segments):
        for piece in segment:
            if isinstance(piece, Word) and any(map(str.isalpha, piece.text)):
                holders.setdefault(piece.text, []).append(place)
    return {text for text, places in holders.items() if not _in_all(places, shown)}


def _in_all(places: list[int], shown: RenderedSet) -> bool:
    """Whether each solution has one of these segments."""
    held = np.zeros(len(shown.segments) + 1, dtype=bool)  # the last one is of what a solution has not: −1
    held[places] = True
    return bool(held[shown.composition].any(1).all())
