"""The numbers of a text: where each stands and what it is worth, exactly.

Digits with separators and decimals, words (*twenty-one*, *two hundred thousand*, *a pair*), ordinals, fractions,
scale words (*2.3 million*), percentages, signs, both ends of ranges and scores (*10-14*, *21–7*), years and
decades. Where a text can be read in two ways, both readings are mentions: *2.3 million* is 2.3 and 2,300,000
(questions ask "how many million more"), *1914–18* is 18 and 1918, *−5* is 5 and −5.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from bonafide.tasks.discrete.tokens import Tokens


class NumberKind(StrEnum):
    """How a number is written, which says something of what it may count."""

    CARDINAL = "cardinal"
    ORDINAL = "ordinal"
    FRACTION = "fraction"
    PERCENT = "percent"
    RANGE = "range"
    YEAR = "year"
    DECADE = "decade"
    SIGNED = "signed"
    SCALED = "scaled"


@dataclass(frozen=True, slots=True)
class NumberMention:
    """A number at tokens ``first`` to ``last`` (both included), characters [``start``, ``end``)."""

    first: int
    last: int
    start: int
    end: int
    value: Fraction
    kind: NumberKind
    before_era: bool = False  # a year BC

    @property
    def rank(self) -> Fraction:
        """What it is ordered by: its value, and for years BC a count that rises with time; 1 BC is the year 0."""
        return 1 - self.value if self.before_era else self.value


_SMALL_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_SMALL = {word: value for value, word in enumerate(_SMALL_WORDS)}
_TENS_WORDS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_TENS = {word: 10 * value for value, word in enumerate(_TENS_WORDS, start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_MULTIPLIERS = {"hundred": 100, **_SCALES}
_TIMES = {"dozen": 12, **_MULTIPLIERS}
_BEFORE_A_SCALE: dict[str, tuple[tuple[str, ...], ...]] = {"half": (("a",), ()), "quarter": ((),)}
_SHORT_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9, "b": 10**9, "tn": 10**12}
_ORDINAL_WORDS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
)  # fmt: skip
_ORDINALS = {
    **{word: value for value, word in enumerate(_ORDINAL_WORDS, start=1)},
    **{word.removesuffix("y") + "ieth": value for word, value in _TENS.items()},
    "hundredth": 100,
}
_PARTS = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourth": 4, "fourths": 4,
    "fifth": 5, "fifths": 5, "sixth": 6, "sixths": 6, "seventh": 7, "sevenths": 7, "eighth": 8, "eighths": 8,
    "ninth": 9, "ninths": 9, "tenth": 10, "tenths": 10,
}  # fmt: skip
_SUFFIXES = frozenset(("st", "nd", "rd", "th"))
_GROUPS = {"once": 1, "twice": 2, "thrice": 3, "pair": 2, "couple": 2, "duo": 2, "trio": 3}
_DASHES = frozenset("-–—‒−")
_MINUS = frozenset("-−–")
_CURRENCY = frozenset("$€£¥")
_ERAS = {"BC": "BC", "BCE": "BC", "AD": "AD", "CE": "AD", "bc": "BC", "bce": "BC"}  # no ad: thirty ad campaigns
_DOTTED_ERAS = {("b", "c"): "BC", ("a", "d"): "AD", ("c", "e"): "AD"}
_UNTIL = frozenset((*_DASHES, "to", "and", "until", "till"))
_BEFORE_A_YEAR = frozenset(("c", "ca", ".", "circa", "about", "around", "approximately", "roughly", "the"))
_PLAIN = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?|\.[0-9]+")
_MOST_DIGITS = 30  # longer runs of digits are names or noise, and cost time without end
_LARGEST_DENOMINATOR = 10
_LONGEST_YEAR = len("100,000")
_COMMAS_OUT = str.maketrans("", "", ",")


def find_numbers(tokens: Tokens) -> tuple[NumberMention, ...]:
    """Every number of the text, by position; readings of the same place from the shortest to the longest."""
    found: dict[tuple[int, int, Fraction], NumberKind] = {}
    position = 0
    while position < len(tokens):
        after = position + 1
        for first, last, value, kind in _readings(tokens, position):
            found.setdefault((first, last, value), kind)
            if first == position and (kind is NumberKind.SCALED or not _is_digits(tokens.words[position])):
                after = max(after, last + 1)  # words within a number are no numbers of their own
        position = after
    return tuple(
        NumberMention(
            first,
            last,
            tokens.starts[first],
            tokens.ends[last],
            value,
            kind,
            kind in (NumberKind.YEAR, NumberKind.DECADE) and _era_of(tokens, first, last) == "BC",
        )
        for (first, last, value), kind in sorted(found.items(), key=lambda item: item[0])
    )


def plain_number(text: str) -> Fraction | None:
    """The number that a text in digits stands for, perhaps with commas and a sign; None where it is none."""
    sign, digits = (-1, text[1:]) if text[:1] in _MINUS else (1, text)
    return sign * _digits_value(digits) if _is_digits(digits) else None


def past_era(tokens: Tokens, position: int) -> int:
    """The token behind the AD that stands here, with dots or without; this one where none does."""
    if position < len(tokens) and _ERAS.get(tokens.words[position]) == "AD":
        return position + 1
    return position + 4 if _dotted_era(tokens, position) == "AD" else position


def _is_digits(word: str) -> bool:
    return len(word) <= _MOST_DIGITS and _PLAIN.fullmatch(word) is not None


def _is_whole(word: str) -> bool:
    return len(word) <= _MOST_DIGITS and word.isascii() and word.isdigit()


def _digits_value(word: str) -> Fraction:
    return Fraction(word.translate(_COMMAS_OUT))


_Reading = tuple[int, int, Fraction, NumberKind]


def _readings(tokens: Tokens, position: int) -> Iterator[_Reading]:
    """The numbers that begin at this token (a signed or mixed one: that have their digits here)."""
    word = tokens.lower[position]
    if _is_digits(word):
        # digits right after a letter belong to a name: B52, but not the 2 of Q3-2
        if not (tokens.joined(position) and tokens.words[position - 1][-1].isalpha()):
            yield from _digit_readings(tokens, position)
    elif (part := _sign_fraction(word)) is not None:
        yield from _fraction_readings(
            tokens, position, position, part, position > 0 and _is_digits(tokens.words[position - 1])
        )
    else:
        yield from _word_readings(tokens, position)


def _digit_readings(tokens: Tokens, position: int) -> Iterator[_Reading]:
    words, lower = tokens.words, tokens.lower
    word = words[position]
    value = _digits_value(word)
    after = position + 1
    following = lower[after] if after < len(tokens) else ""
    joined = tokens.joined(after) if after < len(tokens) else False
    if following in _SUFFIXES and joined:
        yield position, after, value, NumberKind.ORDINAL
        return
    if following == "s" and joined and value % 10 == 0 and "." not in word:
        yield position, after, value, NumberKind.DECADE
        return
    if last := _percent_end(tokens, after):
        yield position, last, value, NumberKind.PERCENT
        return
    kind = NumberKind.YEAR if _looks_like_year(tokens, position) else NumberKind.CARDINAL
    opening = _range_opening(tokens, position)
    if kind is NumberKind.CARDINAL and (opening is not None or _range_opens(tokens, position)):
        kind = NumberKind.RANGE
    yield position, position, value, kind
    if opening is not None and kind is not NumberKind.YEAR:  # 18 BC is a year as it stands
        year = _abbreviated_year(words[opening], word)
        if year is not None:
            yield position, position, Fraction(year), NumberKind.YEAR
    if following in _TIMES and _digit_fraction(tokens, position - 2) is None:  # not the 2 of 1/2 million
        yield position, after, value * _TIMES[following], NumberKind.SCALED
    elif joined and following in _SHORT_SCALES and position > 0 and words[position - 1] in _CURRENCY:
        yield position, after, value * _SHORT_SCALES[following], NumberKind.SCALED
    if (part := _digit_fraction(tokens, position)) is not None:
        mixed = position > 0 and _is_whole(words[position - 1]) and not tokens.joined(position)
        yield from _fraction_readings(tokens, position, position + 2, part, mixed)
        if mixed:
            yield from _fraction_readings(tokens, position - 1, position + 2, Fraction(words[position - 1]) + part)
    elif (joined or kind is not NumberKind.YEAR) and (part := _sign_fraction(following)) is not None:  # 2½ or 2 ½
        yield from _fraction_readings(tokens, position, after, value + part)
    elif (scale := _after(tokens, position, "and", "a", "half")) is not None and lower[scale] in _TIMES:
        yield position, scale, (value + Fraction(1, 2)) * _TIMES[lower[scale]], NumberKind.SCALED
    if position > 0 and _is_negative(tokens, position):
        yield position - 1, position, -value, NumberKind.SIGNED


def _fraction_readings(
    tokens: Tokens, first: int, last: int, value: Fraction, after_a_whole: bool = False
) -> Iterator[_Reading]:
    """A fraction, and what it is of the scale that follows it: *2½ million*, whose ½ alone is not half a million."""
    yield first, last, value, NumberKind.FRACTION
    if not after_a_whole and last + 1 < len(tokens) and tokens.lower[last + 1] in _TIMES:
        yield first, last + 1, value * _TIMES[tokens.lower[last + 1]], NumberKind.SCALED


def _sign_fraction(word: str) -> Fraction | None:
    """½ and its like."""
    if len(word) != 1 or not word.isnumeric() or word.isdigit():
        return None
    return Fraction(unicodedata.numeric(word)).limit_denominator(100)


def _word_readings(tokens: Tokens, position: int) -> Iterator[_Reading]:
    lower = tokens.lower
    word = lower[position]
    if word in _ORDINALS:
        yield position, position, Fraction(_ORDINALS[word]), NumberKind.ORDINAL
        return
    if word in _GROUPS:
        yield position, position, Fraction(_GROUPS[word]), NumberKind.CARDINAL
        return
    if word in _BEFORE_A_SCALE and (end := _scale_of_part(tokens, position)) is not None:
        yield position, end, Fraction(_TIMES[lower[end]], _PARTS[word]), NumberKind.CARDINAL
        return
    if word == "half" and position + 1 < len(tokens) and lower[position + 1] in ("of", "the", "a", "an"):
        yield position, position, Fraction(1, 2), NumberKind.FRACTION
        return
    cardinal = _cardinal(tokens, position)
    if cardinal is None:
        return
    last, value, kind = cardinal
    part, half, scale = (_after(tokens, last, *words) for words in ((), ("and", "a"), ("and", "a", "half")))
    if kind is NumberKind.ORDINAL:
        yield position, last, Fraction(value), kind
    elif part is not None and 0 < value < _PARTS.get(lower[part], 0) and (end := _scale_of_part(tokens, part)):
        yield position, end, Fraction(value * _TIMES[lower[end]], _PARTS[lower[part]]), NumberKind.CARDINAL
    elif half is not None and lower[half] == "half" and lower[last] in _TIMES:  # a million and a half
        yield position, half, value + Fraction(_TIMES[lower[last]], 2), NumberKind.CARDINAL
    elif scale is not None and lower[scale] in _TIMES:  # two and a half million
        yield position, scale, (value + Fraction(1, 2)) * _TIMES[lower[scale]], NumberKind.CARDINAL
    elif (end := _part_end(tokens, last, value)) is not None:
        yield position, end, Fraction(value, _PARTS[lower[end]]), NumberKind.FRACTION
    elif word in ("a", "an") and last == position:
        return
    elif end := _percent_end(tokens, last + 1):
        yield position, end, Fraction(value), NumberKind.PERCENT
    else:
        yield position, last, Fraction(value), kind


def _cardinal(tokens: Tokens, position: int) -> tuple[int, int, NumberKind] | None:
    """The number in words that begins here: its last token, its value, and whether it is an ordinal."""
    lower = tokens.lower
    total, current, last = 0, -1, -1  # current −1: nothing since the last scale word
    lowest_scale = 10**15
    at = position
    if lower[at] in ("a", "an"):
        current, last, at = 1, at, at + 1
        if at < len(tokens) and lower[at] not in _MULTIPLIERS and lower[at] != "dozen" and lower[at] not in _PARTS:
            return None
    while at < len(tokens):
        word = lower[at]
        if word in _SMALL:
            if current == -1 or (current >= 100 and current % 100 == 0):
                current = max(current, 0) + _SMALL[word]
            elif current % 10 == 0 and current % 100 >= 20 and 0 < _SMALL[word] < 10:
                current += _SMALL[word]
            else:
                break
        elif word in _TENS and (current == -1 or (current >= 100 and current % 100 == 0)):
            current = max(current, 0) + _TENS[word]
        elif word == "hundred" and 0 < current < 100:
            current *= 100
        elif word in _SCALES and current > 0 and _SCALES[word] < lowest_scale:
            lowest_scale = _SCALES[word]
            total, current = total + current * lowest_scale, -1
        elif word == "dozen" and current != 0 and current < 100 and total == 0:
            return at, 12 * max(current, 1), NumberKind.CARDINAL
        elif word in _ORDINALS and _ORDINALS[word] < 10 and current % 10 == 0 and current % 100 >= 20:
            return at, total + current + _ORDINALS[word], NumberKind.ORDINAL
        elif not _goes_on(tokens, at, last, position):
            break
        else:
            at += 1
            continue
        last, at = at, at + 1
    if last < 0:
        return None
    return last, total + max(current, 0), NumberKind.CARDINAL


def _goes_on(tokens: Tokens, at: int, last: int, position: int) -> bool:
    """Whether *and* or a hyphen at ``at`` joins two parts of one number: *hundred and five*, *twenty-one*."""
    lower = tokens.lower
    if last < position or at + 1 >= len(tokens) or last != at - 1:
        return False
    following = lower[at + 1]
    if lower[at] == "and":
        return lower[last] in _MULTIPLIERS and (following in _SMALL or following in _TENS)
    if lower[at] == "-" and tokens.joined(at) and tokens.joined(at + 1):
        small = following in _SMALL or following in _ORDINALS
        return (lower[last] in _TENS and small) or following in _MULTIPLIERS
    return False


def _part_end(tokens: Tokens, last: int, count: int) -> int | None:
    """Where *thirds* ends in *two thirds*, *one-third*, *a third of*; None where no such fraction goes on."""
    lower = tokens.lower
    end = last + 1
    hyphen = end < len(tokens) and lower[end] == "-"
    end += hyphen
    if end >= len(tokens) or lower[end] not in _PARTS or count == 0:
        return None
    if lower[end].endswith("s"):
        return end
    following = lower[end + 1] if end + 1 < len(tokens) else ""
    # one third-quarter touchdown is one touchdown
    return end if count == 1 and (following == "of" or (hyphen and following != "-")) else None


def _scale_of_part(tokens: Tokens, at: int) -> int | None:
    """Where *million* stands in *half a million*, *quarter of a million*, *half-dozen*, whose part stands here."""
    for between in (("of", "a"), *_BEFORE_A_SCALE.get(tokens.lower[at], ())):
        scale = _after(tokens, at, *between)
        if scale is not None and tokens.lower[scale] in _TIMES:
            return scale
    return None


def _after(tokens: Tokens, last: int, *words: str) -> int | None:
    """The token that follows these words after token ``last``, hyphens aside; None where others stand there."""
    at = last + 1
    for word in (*words, None):
        if at < len(tokens) and tokens.words[at] == "-" and tokens.joined(at):
            at += 1
        if at >= len(tokens) or (word is not None and tokens.lower[at] != word):
            return None
        at += word is not None
    return at


def _percent_end(tokens: Tokens, after: int) -> int | None:
    """The last token of a percent sign or word that stands at ``after``."""
    lower = tokens.lower
    if after >= len(tokens):
        return None
    if lower[after] in ("%", "percent"):
        return after
    if lower[after] == "per" and after + 1 < len(tokens) and lower[after + 1] == "cent":
        return after + 1
    return None


def _looks_like_year(tokens: Tokens, position: int) -> bool:
    word, lower = tokens.words[position], tokens.lower
    if position and lower[position - 1] in _CURRENCY:
        return False
    era = _era_of(tokens, position, position)
    if era == "BC":
        return True
    if not _is_whole(word) or not 1 <= len(word) <= 4 or word[0] == "0":
        return False
    if era or _is_after_era(tokens, position):
        return True
    if (opening := _range_opening(tokens, position)) is not None and _is_after_era(tokens, opening):
        return _digits_value(tokens.words[opening]) < int(word)  # AD 14–37
    following = lower[position + 1] if position + 1 < len(tokens) else ""
    if len(word) < 4:
        return position > 0 and lower[position - 1] == "year"
    return 1000 <= int(word) < 2100 and following not in _MULTIPLIERS


def _era_of(tokens: Tokens, first: int, last: int) -> str:
    """The era of the number here, or nothing; the 264 of *264–146 BC* and the 14 of *14–37 AD* have that of the end."""
    words = tokens.words
    if words[first].startswith("0") or "." in words[first] or len(words[first]) > _LONGEST_YEAR:
        return ""
    if era := _era(tokens, last + 1):
        opening = _range_opening(tokens, first)
        shortened = opening is not None and _abbreviated_year(words[opening], words[first]) is not None
        return "" if shortened and era == "AD" else era  # the 18 of 1014–18 AD is 1018
    closing = last + 2
    while closing < len(tokens) and tokens.lower[closing] in _BEFORE_A_YEAR:
        closing += 1
    if closing >= len(tokens) or tokens.lower[last + 1] not in _UNTIL or not _is_digits(words[closing]):
        return ""
    decade = tokens.lower[closing + 1 : closing + 2] == ("s",)
    era = _era(tokens, closing + 1 + decade)
    opened, closed = _digits_value(words[first]), _digits_value(words[closing])
    return era if opened != closed and (opened > closed) == (era == "BC") else ""


def _is_after_era(tokens: Tokens, position: int) -> bool:
    """Whether AD stands before this number, with dots or without."""
    return "AD" in (_era(tokens, position - 1), _dotted_era(tokens, position - 4))


def _era(tokens: Tokens, at: int) -> str:
    """BC or AD, where an era stands at this token, perhaps with dots; else nothing."""
    if not 0 <= at < len(tokens):
        return ""
    return _ERAS.get(tokens.words[at], "") or _dotted_era(tokens, at)


def _dotted_era(tokens: Tokens, at: int) -> str:
    if not 0 <= at < len(tokens) - 3 or (tokens.words[at + 1], tokens.words[at + 3]) != (".", "."):
        return ""
    together = all(map(tokens.joined, (at + 1, at + 2, at + 3)))
    return _DOTTED_ERAS.get((tokens.lower[at], tokens.lower[at + 2]), "") if together else ""


def _range_opening(tokens: Tokens, position: int) -> int | None:
    """The token of the number that opens the range or score which this one closes."""
    words = tokens.words
    if position >= 2 and words[position - 1] in _DASHES and _is_digits(words[position - 2]):
        return position - 2
    return None


def _range_opens(tokens: Tokens, position: int) -> bool:
    words = tokens.words
    return position + 2 < len(tokens) and words[position + 1] in _DASHES and _is_digits(words[position + 2])


def _abbreviated_year(opening: str, word: str) -> int | None:
    """1918 for the 18 of *1914–18*."""
    if len(opening) != 4 or not _is_whole(opening) or len(word) not in (1, 2) or not _is_whole(word):
        return None
    year = int(opening[: 4 - len(word)] + word)
    return year if int(opening) < year < 2100 and int(opening) >= 1000 else None


def _digit_fraction(tokens: Tokens, position: int) -> Fraction | None:
    """3/4; not 24/37, which counts successes and tries, and not a date such as 9/11/2001."""
    words = tokens.words
    if position + 2 >= len(tokens) or words[position + 1] != "/" or not tokens.joined(position + 1):
        return None
    above, below = words[position], words[position + 2]
    if not (_is_whole(above) and _is_whole(below) and tokens.joined(position + 2)):
        return None
    if any(at < len(tokens) and words[at] == "/" for at in (position + 3, position - 1) if at >= 0):
        return None
    if len(below) > 2 or not 0 < int(above) < int(below) <= _LARGEST_DENOMINATOR:
        return None
    return Fraction(int(above), int(below))


def _is_negative(tokens: Tokens, position: int) -> bool:
    before = tokens.words[position - 1]
    if before.lower() == "minus":
        return True
    return before in _MINUS and tokens.joined(position) and not tokens.joined(position - 1)
