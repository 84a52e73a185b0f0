"""What a number counts, as far as the words around it say: its class and its unit."""

from __future__ import annotations

from bonafide.tasks.discrete.numbers import NumberKind, NumberMention
from bonafide.tasks.discrete.passage import Passage

_CLASSES = {
    NumberKind.YEAR: "year",
    NumberKind.DECADE: "year",
    NumberKind.PERCENT: "percent",
    NumberKind.ORDINAL: "ordinal",
}
_CURRENCY = frozenset("$€£¥")
_DASHES = frozenset("-–")
_IN_A_ROW = frozenset(("and", "or", "to", "then", ",", "-", "–", "&"))
FUNCTION_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "the",
            "of",
            "in",
            "and",
            "to",
            "for",
            "with",
            "by",
            "from",
            "at",
            "on",
            "or",
            "as",
            "into",
            "after",
        ),
        *("was", "were", "is", "are", "be", "been", "had", "has", "have", "did", "does", "do", "than", "then", "over"),
        *("who", "whom", "whose", "that", "which", "what", "when", "where", "how", "why", "while", "before", "during"),
        *("their", "his", "her", "its", "he", "she", "it", "they", "them", "this", "these", "those", "there", "s", "t"),
        *("many", "much", "more", "less", "fewer", "most", "least", "first", "last", "not", "no", "but", "if", "so"),
        *("between", "against", "up", "down", "out", "only", "also", "would", "will", "could", "all", "any", "each"),
    )
)
"""Words that name nothing."""


def stem(word: str) -> str:
    """A lower-case word without the ending of its plural; the same for *yard* and *yards*, *city* and *cities*."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def number_class(number: NumberMention) -> str:
    """year, percent, ordinal, or plain."""
    return _CLASSES.get(number.kind, "plain")


def number_units(passage: Passage) -> list[str]:
    """The unit of each number: its class where that is not plain, else its currency or the stem of the word after it.

    Numbers in a row share the unit of the last: in *47 and 48 yards* both are yards. Nothing: there is no such word.
    """
    numbers = passage.numbers
    starts = {number.first: index for index, number in reversed(list(enumerate(numbers)))}
    units = [""] * len(numbers)
    for index in reversed(range(len(numbers))):
        units[index] = _unit(passage, numbers[index], starts, units)
    return units


def _unit(passage: Passage, number: NumberMention, starts: dict[int, int], units: list[str]) -> str:
    if (kind := number_class(number)) != "plain":
        return kind
    tokens = passage.tokens
    if number.first and tokens.words[number.first - 1] in _CURRENCY:
        return tokens.words[number.first - 1]
    after = number.last + 1
    if after < len(tokens) and tokens.words[after].startswith("&"):  # an entity for a space
        after += 1
    joint = after
    while joint < len(tokens) and joint - after < 2 and tokens.lower[joint] in _IN_A_ROW:
        joint += 1
    if joint > after and joint in starts and number_class(passage.numbers[starts[joint]]) == "plain":
        return units[starts[joint]]
    if after < len(tokens) and tokens.words[after] in _DASHES:
        after += 1
    if after < len(tokens) and tokens.lower[after].isalpha() and tokens.lower[after] not in FUNCTION_WORDS:
        return stem(tokens.lower[after])
    return ""
