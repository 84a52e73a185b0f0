"""What a question asks for, as far as its words show: what to count, of whom, beyond which bound, which extreme."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bonafide.tasks.discrete.outline import Place, outline, root
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.discrete.units import FUNCTION_WORDS, stem

_SKIPPED = frozenset(("more", "total", "different", "other", "combined", "of", "the", "separate", "individual", "all"))
_MEASURES = frozenset(
    root(word)
    for word in (
        *("yard", "point", "year", "day", "month", "week", "hour", "minute", "second", "decade", "century", "percent"),
        *("percentage", "mile", "kilometre", "kilometer", "km", "metre", "meter", "foot", "feet", "dollar", "pound"),
        *("million", "billion", "thousand", "hundred", "people", "inhabitant", "resident", "degree", "ton", "acre"),
    )
)
_MOST = frozenset(
    (
        *("most", "longest", "largest", "highest", "biggest", "greatest", "latest", "last", "oldest", "farthest"),
        *(
            "more",
            "longer",
            "larger",
            "higher",
            "bigger",
            "greater",
            "later",
            "older",
            "farther",
            "furthest",
            "maximum",
        ),
        *("better", "best", "stronger", "strongest", "taller", "tallest", "heavier", "after", "recent", "top"),
    )
)
_LEAST = frozenset(
    (
        *("least", "shortest", "smallest", "lowest", "fewest", "earliest", "first", "youngest", "closest", "nearest"),
        *("less", "shorter", "smaller", "lower", "fewer", "earlier", "younger", "closer", "worse", "worst", "minimum"),
        *("weaker", "weakest", "lighter", "before", "slowest", "slower"),
    )
)
_PERCENT = frozenset(("percent",))
_ABOVE = (("more", "than"), ("longer", "than"), ("over",), ("at", "least"), ("above",), ("greater", "than"))
_ABOVE_MORE = (("larger", "than"), ("higher", "than"), ("or", "more"), ("or", "longer"), ("or", "higher"))
_BELOW = (("less", "than"), ("shorter", "than"), ("under",), ("at", "most"), ("below",), ("fewer", "than"))
_BELOW_MORE = (("smaller", "than"), ("lower", "than"), ("or", "less"), ("or", "fewer"), ("or", "lower"))


@dataclass(frozen=True)
class Asked:
    """The question, taken apart."""

    counts: bool  # it asks how many, not how many more, of something that is no measure
    head: tuple[str, ...]  # the roots of what is counted
    topics: frozenset[str]  # the roots of all its other words
    phrases: tuple[tuple[str, ...], ...]  # its runs of words that name something, as roots
    names: tuple[frozenset[str], ...]  # the words of each name in it
    above: Fraction | None
    below: Fraction | None
    units: frozenset[str]  # what its bounds may be counted in
    most: bool
    least: bool

    @property
    def sorts(self) -> bool:
        """Whether it asks for an extreme, or compares."""
        return self.most or self.least


def asked(question: Passage) -> Asked:
    """What this question asks for."""
    lower = question.tokens.lower
    words = set(lower)
    head, counted = _head(lower)
    shape = outline(question)
    names = tuple(frozenset(lower[first : last + 1]) - FUNCTION_WORDS for first, last in _names_after(question))
    topics = frozenset(each for each in shape.roots if each) - set(head)
    above, below = _bounds(question)
    return Asked(
        counted and bool(head) and not (set(head) & _MEASURES),
        head,
        topics,
        _phrases(lower),
        tuple(name for name in names if name),
        above,
        below,
        frozenset(map(stem, words)) | (_PERCENT if "%" in words else frozenset()),
        bool(words & _MOST),
        bool(words & _LEAST),
    )


def _head(lower: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The roots of the words after *how many*, up to the first that names nothing; and whether it is not *more*."""
    for token in range(len(lower) - 1):
        if lower[token] == "how" and lower[token + 1] == "many":
            head: list[str] = []
            for word in lower[token + 2 :]:
                if word in _SKIPPED and not head:
                    continue
                if word == "-":
                    continue
                if word in FUNCTION_WORDS or not word.isalpha():
                    break
                head.append(root(word))
                if len(head) == 3:
                    break
            if not head:  # Of the eight goals, how many were from afar?
                head = [root(word) for word in lower[:token] if word.isalpha() and word not in FUNCTION_WORDS][-1:]
            return tuple(head), "more" not in lower[token + 2 : token + 4]
    return (), False


def _phrases(lower: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Runs of words that name something; measures and words of comparison part them."""
    found: list[list[str]] = [[]]
    for word in lower:
        named = word.isalpha() and word not in FUNCTION_WORDS and word not in _MOST and word not in _LEAST
        if named and root(word) not in _MEASURES:
            found[-1].append(root(word))
        elif word != "-":
            found.append([])
    return tuple(dict.fromkeys(tuple(run) for run in found if run))


def _names_after(question: Passage) -> list[Place]:
    """Names but for a capital that only begins the question."""
    return [name for name in outline(question).names if name != (0, 0)]


def _bounds(question: Passage) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of *over 40*, *40 or more*, *between 20 and 40*: what lies above, what lies below."""
    lower, numbers = question.tokens.lower, question.numbers
    above = below = None
    for number in numbers:
        before = lower[max(0, number.first - 2) : number.first]
        behind = lower[number.last + 1 : number.last + 6]
        if _ends_with(before, _ABOVE + _ABOVE_MORE) or _holds(behind, _ABOVE_MORE):
            above = number.value
        elif _ends_with(before, _BELOW + _BELOW_MORE) or _holds(behind, _BELOW_MORE):
            below = number.value
    if "between" in lower and len(numbers) >= 2 and above is None and below is None:
        low, high = sorted(number.value for number in numbers[:2])
        return low, high
    return above, below


def _ends_with(words: tuple[str, ...], phrases: tuple[tuple[str, ...], ...]) -> bool:
    return any(words[-len(phrase) :] == phrase for phrase in phrases)


def _holds(words: tuple[str, ...], phrases: tuple[tuple[str, ...], ...]) -> bool:
    return any(words[at : at + len(phrase)] == phrase for phrase in phrases for at in range(len(words)))
