"""When a stretch of text says an answer: tokens, and the normalisations under which they are compared.

Text is cut into tokens: numbers in digits with their separators (``1,200.50``), words (a letter, then letters and
digits), and single other signs. So a currency sign, a per cent sign, a unit (``10km``), a genitive (``'s``) and the
parts of a hyphenated word are tokens of their own. In scripts that are written without spaces (Han, kana, Thai, Lao,
Khmer, Burmese) each character is a token. A combining mark belongs to what stands before it.

Two texts say the same if the same tokens are left of them, in the same order, under

- ``case``: upper and lower case are the same (Unicode case folding);
- ``unicode``: compatible forms are the same (NFKC: accents composed or not, ligatures, full-width digits);
- ``punctuation``: signs that are neither letters nor digits are left out (punctuation, symbols, currency signs), and
  so are the commas inside a number;
- ``articles``: *a*, *an* and *the* are left out.

These are SQuAD's rules for a right answer but for one thing: SQuAD glues together what a sign separated
(``well-known`` is ``wellknown``); here it stays two tokens. An answer of which nothing would be left ("The", "%") is
compared with articles and punctuation kept.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from bonafide.unspaced import UNSPACED, UNSPACED_CLASS

ARTICLES = frozenset({"a", "an", "the"})
_SPACE, _SIGN, _LETTER, _DIGIT, _UNSPACED_LETTER, _MARK = range(6)

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matching:
    """Which differences do not count; ``boundaries`` demands that a mention begins and ends where a token does."""

    case: bool = True
    unicode: bool = True
    punctuation: bool = True
    articles: bool = True
    boundaries: bool = True

    def form(self, token: str) -> str:
        """What of a token is compared; empty if it is left out."""
        if self.punctuation and not token[0].isalnum():
            return ""
        form = self.whole_form(token)
        return "" if self.articles and form.lower() in ARTICLES else form

    def whole_form(self, token: str) -> str:
        """What of a token is compared where none is left out."""
        form = token
        if self.punctuation and len(form) > 1 and "," in form:
            form = form.replace(",", "")
        if form.isascii():
            return form.lower() if self.case else form
        if self.unicode:
            form = unicodedata.normalize("NFKC", form)
        if self.case:
            form = form.casefold()
            if self.unicode:  # folding may take a composed letter apart
                form = unicodedata.normalize("NFKC", form)
        return "".join(form.split())  # a few signs are compatible with a space and a mark

    def same_text(self, one: str, other: str) -> bool:
        """Whether two stretches of text are the same, signs and spaces included."""
        if self.unicode:
            one, other = unicodedata.normalize("NFKC", one), unicodedata.normalize("NFKC", other)
        return one.casefold() == other.casefold() if self.case else one == other


class Forms(dict[str, str]):
    """The form of each token, worked out when it is first asked for."""

    def __init__(self, matching: Matching) -> None:
        super().__init__()
        self._form = matching.form

    def __missing__(self, token: str) -> str:
        if len(self) > 500_000:  # a vocabulary, not a text: made-up tokens shall not fill the memory
            self.clear()
        form = self[token] = self._form(token)
        return form


@cache
def forms_of(matching: Matching) -> Forms:
    """The forms under these normalisations; one for the whole process."""
    return Forms(matching)


def token_spans(text: str) -> list[tuple[int, int]]:
    """Where each token begins and ends."""
    return [match.span() for match in _pattern().finditer(text)]


def token_bounds(text: str) -> tuple[Positions, Positions]:
    """The same as :func:`token_spans` as two arrays, by array operations: ten times as fast on a long text."""
    codes = _codes(text)
    if not len(codes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kind = _kinds()[codes]
    digit = np.zeros(len(codes) + 4, bool)  # four more, to look ahead
    digit[:-4] = kind == _DIGIT
    separators = np.flatnonzero((codes == 0x2E) | (codes == 0x2C))
    separators = separators[separators > 0]
    between = separators[digit[separators - 1] & digit[separators + 1]]
    grouping = digit[between + 2] & digit[between + 3] & ~digit[between + 4]
    kind[between[(codes[between] == 0x2E) | grouping]] = _DIGIT
    if (kind == _MARK).any():
        kind, follows = _with_marks(kind)
    else:
        follows = np.zeros(len(kind), bool)
    letter, digits = kind == _LETTER, kind == _DIGIT
    word = letter | digits
    starts = ~word & (kind != _SPACE)
    starts[0] |= word[0]
    starts[1:] |= word[1:] & ~word[:-1]
    changes = np.flatnonzero(letter[1:] & digits[:-1]) + 1  # 10km, but not the k of B2km: where a word begins in digits
    if len(changes):
        runs = np.flatnonzero(word & np.concatenate([[True], ~word[:-1]]))
        digit_runs = np.flatnonzero(digits & np.concatenate([[True], ~digits[:-1]]))
        same = digit_runs[np.searchsorted(digit_runs, changes) - 1] == runs[np.searchsorted(runs, changes) - 1]
        starts[changes[same]] = True
    starts &= ~follows
    first = np.flatnonzero(starts)
    inside = kind != _SPACE
    gaps = np.flatnonzero(inside & np.concatenate([~inside[1:], [True]])) + 1  # where a stretch without spaces ends
    following = np.concatenate([first[1:], [len(codes)]])
    return first, np.minimum(following, gaps[np.searchsorted(gaps, first, side="right")])


def past_marks(text: str) -> Positions:
    """(characters + 1,): for each place of a text the one behind the marks that belong to what stands before it."""
    places = np.arange(len(text) + 1)
    kind = _kinds()[_codes(text)]
    if not (kind == _MARK).any():
        return places
    follows = np.append(_with_marks(kind)[1], False)
    return np.minimum.accumulate(np.where(follows, len(text), places)[::-1])[::-1]


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _with_marks(kind: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Marks take the kind of what they follow; one that follows nothing is a sign. Also: what never starts a token."""
    marks = kind == _MARK
    bearer = np.maximum.accumulate(np.where(marks, -1, np.arange(len(kind))))
    carried = np.where(bearer >= 0, kind[bearer], _SPACE)
    alone = marks & (carried == _SPACE)
    first_alone = alone & np.concatenate([[True], ~alone[:-1]])
    return np.where(alone, _SIGN, carried).astype(np.uint8), marks & ~first_alone


@cache
def marks_class() -> str:
    """The combining marks, as the inside of a character class."""
    return _ranges(_marks())


@cache
def _pattern() -> re.Pattern[str]:
    marks = marks_class()
    separator = r"(?<=\d)(?:\.(?=\d)|,(?=\d{3}(?!\d)))"
    number = rf"\d(?:\d|[{marks}]|{separator})*"
    word = rf"[^\W\d_{UNSPACED_CLASS}](?:[^\W_{UNSPACED_CLASS}]|[{marks}]|{separator})*"
    return re.compile(rf"{number}|{word}|\S[{marks}]*")


@cache
def _kinds() -> npt.NDArray[np.uint8]:
    """The kind of every code point."""
    everything = "".join(map(chr, range(0x110000)))
    kinds = np.full(0x110000, _SIGN, np.uint8)
    for pattern, kind in ((r"\s+", _SPACE), (r"[^\W\d_]+", _LETTER), (r"\d+", _DIGIT)):
        for run in re.finditer(pattern, everything):
            kinds[run.start() : run.end()] = kind
    for low, high in UNSPACED:
        block = kinds[low : high + 1]
        block[block == _LETTER] = _UNSPACED_LETTER
    kinds[_marks()] = _MARK
    return kinds


@cache
def _marks() -> list[int]:
    """Combining marks, and the joiners that hold two letters together or apart."""
    planes = (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))
    return sorted([0x200C, 0x200D, *(code for code in planes if unicodedata.category(chr(code)).startswith("M"))])


def _ranges(codes: list[int]) -> str:
    """The inside of a character class for these code points."""
    starts = [code for place, code in enumerate(codes) if place == 0 or codes[place - 1] != code - 1]
    ends = [code for place, code in enumerate(codes) if place == len(codes) - 1 or codes[place + 1] != code + 1]
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in zip(starts, ends, strict=True))
