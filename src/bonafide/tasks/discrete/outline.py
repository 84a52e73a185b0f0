"""The outline of a text for the candidate families: its sentences, its names, and the roots of its words.

All of it is by shape, without a model: a sentence ends at a full stop before a capital, a name is a run of
capitalised words, and words with the same root differ only in common endings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.discrete.units import FUNCTION_WORDS

_SAME = {
    **{"td": "touchdown", "tds": "touchdown", "fg": "goal", "fgs": "goal", "qb": "quarterback", "won": "win"},
    **{"picked": "intercept", "pick": "intercept", "picks": "intercept"},
}
_ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "er", "ors", "or", "ed", "es", "s", "e")
_STOPS = frozenset(".!?")
_ABBREVIATIONS = frozenset(("jr", "sr", "st", "mr", "mrs", "dr", "vs", "no", "gen", "col", "lt", "capt", "sept"))
_INSIDE_NAMES = frozenset((".", "-", "'", "’"))
_LONGEST_ABBREVIATION = 3

Place = tuple[int, int]
"""First and last token, both included."""


@dataclass(frozen=True)
class Outline:
    """What the families look at."""

    roots: tuple[str, ...]  # one a token; empty for what is no word, or names nothing
    sentences: tuple[int, ...]  # one a token: the number of its sentence
    names: tuple[Place, ...]
    places: dict[str, list[int]]  # where the words of each root stand

    def same_sentence(self, one: int, other: int) -> bool:
        """Whether two tokens stand in one sentence."""
        return self.sentences[one] == self.sentences[other]


@lru_cache(maxsize=128)
def outline(passage: Passage) -> Outline:
    """The outline of a passage, made once for all of its questions."""
    tokens = passage.tokens
    roots = tuple(_root_or_nothing(word) for word in tokens.lower)
    places: dict[str, list[int]] = {}
    for token, root_ in enumerate(roots):
        if root_:
            places.setdefault(root_, []).append(token)
    return Outline(roots, _sentences(passage), _names(passage), places)


def root(word: str) -> str:
    """A lower-case word without its common ending: the same for *scored* and *scoring*, *goals* and *goal*."""
    word = _SAME.get(word, word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def _root_or_nothing(word: str) -> str:
    return root(word) if word not in FUNCTION_WORDS and word.isalpha() and len(word) > 1 else ""


def _sentences(passage: Passage) -> tuple[int, ...]:
    tokens = passage.tokens
    number, numbers = 0, []
    for token, word in enumerate(tokens.words):
        if token and "\n" in passage.text[tokens.ends[token - 1] : tokens.starts[token]]:
            number += 1
        elif token >= 2 and tokens.words[token - 1] in _STOPS and not tokens.joined(token) and not word[0].islower():
            before = tokens.words[token - 2]
            if not (len(before) == 1 and before.isupper()) and before.lower() not in _ABBREVIATIONS:
                number += 1
        numbers.append(number)
    return tuple(numbers)


def _names(passage: Passage) -> tuple[Place, ...]:
    """Runs of capitalised words; abbreviations such as QB part them, initials do not."""
    tokens = passage.tokens
    names: list[Place] = []
    first = last = -1
    for token, word in enumerate(tokens.words):
        initial = len(word) == 1 and word.isupper()
        short = len(word) <= _LONGEST_ABBREVIATION and word.isupper() and not initial
        stopped = token == last + 2 and tokens.words[last + 1] == "." and not tokens.joined(token)
        if first >= 0 and stopped and len(tokens.words[last]) > 1:  # a full stop, not the dot of an initial
            names.append((first, last))
            first = -1
        if word[0].isupper() and not short and not (first < 0 and tokens.lower[token] in FUNCTION_WORDS):
            first, last = (token, token) if first < 0 else (first, token)
        elif first >= 0 and word in _INSIDE_NAMES and tokens.joined(token):
            continue
        elif first >= 0:
            names.append((first, last))
            first = -1
    if first >= 0:
        names.append((first, last))
    return tuple(names)
