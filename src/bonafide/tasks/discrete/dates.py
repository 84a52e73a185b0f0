"""The dates of a text: day, month and year in the usual orders, in ranges, and parts of them.

*24 October 1596*, *October 24, 1596*, *19 August AD 14*, *October 1596*, *24 October*, *October*, *1596-10-24*,
*1596*. In *24–26 October 1596* and *1 May to 3 June 1644* what is said once holds for both ends, so the pieces of a
mention need not stand together. Of a date that says more than a year, its parts are mentions too (``whole`` is False),
since a question may ask for the year alone; differences are taken between whole dates. A day that no calendar has is
none: of *29 February 2001* the month and the year are left, as of *30 February*.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from bonafide.tasks.discrete.numbers import NumberKind, NumberMention, past_era
from bonafide.tasks.discrete.tokens import Tokens

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = {
    **{name: number for number, name in enumerate(MONTHS, start=1)},
    **{name[:3]: number for number, name in enumerate(MONTHS, start=1)},
    "Sept": 9,
}
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DOUBTFUL = frozenset(("May", "March", *(name for name in _MONTH if len(name) == 3)))  # also words and names
_BEFORE_A_MONTH = frozenset(
    (
        *("in", "of", "on", "since", "by", "until", "till", "during", "from", "to", "through", "between"),
        *("early", "late", "mid", "next", "last", "this"),
    )
)
_SUFFIXES = frozenset(("st", "nd", "rd", "th"))
_DASHES = frozenset("-–—‒−")
_CONNECTORS = frozenset((*_DASHES, "to", "and", "or", "until", "till", "through", "/", ",", "&"))
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the Gregorian calendar repeats
_BEFORE_ALL = -(10**6)
_SOME_YEAR = 2001  # where neither date says its year; not a leap year

Piece = tuple[int, int]
"""Tokens first to last, both included."""


@dataclass(frozen=True, slots=True)
class DateMention:
    """A date, or part of one, at the tokens of its ``pieces``: they are ordered and may lie apart; 44 BC is −44."""

    pieces: tuple[Piece, ...]
    day: int | None
    month: int | None
    year: int | None
    whole: bool

    @property
    def first(self) -> int:
        """Its first token."""
        return self.pieces[0][0]

    @property
    def last(self) -> int:
        """Its last token."""
        return self.pieces[-1][1]


def find_dates(tokens: Tokens, numbers: Iterable[NumberMention]) -> tuple[DateMention, ...]:
    """Every date of the text by position, each followed by its parts; years are the numbers read as such."""
    years = {
        number.first: -int(number.value) if number.before_era else int(number.value)
        for number in numbers
        if number.kind is NumberKind.YEAR and not _begins_with_a_day(tokens, number.first)
    }
    found: list[_Date] = []
    position = 0
    while position < len(tokens):
        dates = _dates_at(tokens, position, years)
        found += dates
        position = max((date.last for date in dates), default=position) + 1
    _carry_years_back(tokens, found)
    mentions = {mention: None for date in found for mention in date.mentions()}
    return tuple(sorted(mentions, key=lambda mention: (mention.first, not mention.whole, mention.pieces)))


def _begins_with_a_day(tokens: Tokens, position: int) -> bool:
    """Whether 2 is a day, which after 2000 and a dash might be the year 2002: *1 May 2000–2 June 2001*."""
    words, after = tokens.words, position + 1
    follows = after < len(tokens) and words[after] in _MONTH
    return follows and len(words[position]) <= 2 and words[position - 1] in _DASHES


def days_between(one: DateMention, other: DateMention) -> int | None:
    """Days from one date to the other; None: a day is missing. What is told later happened later, see ``_years``."""
    if one.day is None or other.day is None:
        return None
    years = _years(one, other)
    return abs(_ordinal(one, years[0]) - _ordinal(other, years[1]))


def months_between(one: DateMention, other: DateMention) -> int | None:
    """Months of the calendar from one date to the other, whatever their days; None: a month is missing."""
    if one.month is None or other.month is None:
        return None
    years = _years(one, other)
    return abs(12 * (years[0] - years[1]) + one.month - other.month)


def years_between(one: DateMention, other: DateMention) -> int | None:
    """Whole years that passed from one date to the other; None: a month or a year is missing."""
    if None in (one.month, other.month, one.year, other.year):
        return None
    early, late = sorted((sort_key(one), sort_key(other)))
    days_known = early[2] and late[2]
    passed = late[1:] >= early[1:] if days_known else late[1] >= early[1]
    return late[0] - early[0] - (not passed)


def sort_key(date: DateMention) -> tuple[int, int, int]:
    """Orders dates; what a date does not say counts as before everything."""
    year = _BEFORE_ALL if date.year is None else _running(date.year)
    return year, date.month or 0, date.day or 0


def _running(year: int) -> int:
    """Years without a gap at the turn of the era: after 1 BC, here 0, comes 1."""
    return year + 1 if year < 0 else year


def comparable(one: DateMention, other: DateMention) -> bool:
    """Whether both dates say the same parts, so that one can be said to be the later."""
    said = [tuple(part is not None for part in (date.year, date.month, date.day)) for date in (one, other)]
    return said[0] == said[1]


@dataclass
class _Date:
    """A date on its way: the tokens of each part."""

    day: tuple[Piece, int] | None
    month: tuple[Piece, int] | None
    year: tuple[Piece, int] | None
    last: int

    def mentions(self) -> list[DateMention]:
        """The whole date, and its parts: month and year, day and month, year, month."""
        parts = [(self.day, self.month, self.year)]
        if self.day and self.year:
            parts += [(None, self.month, self.year), (self.day, self.month, None)]
        if self.month and self.year:
            parts.append((None, None, self.year))
        if self.month and (self.day or self.year):
            parts.append((None, self.month, None))
        return [_mention(*chosen, whole=not index) for index, chosen in enumerate(parts)]


_Part = tuple[Piece, int] | None


def _mention(day: _Part, month: _Part, year: _Part, whole: bool) -> DateMention:
    pieces: list[Piece] = []
    for first, last in sorted(part[0] for part in (day, month, year) if part is not None):
        if pieces and first <= pieces[-1][1] + 2:  # a comma, an *of* or a dash between them is theirs
            pieces[-1] = (pieces[-1][0], max(last, pieces[-1][1]))
        else:
            pieces.append((first, last))
    return DateMention(
        tuple(pieces), day[1] if day else None, month[1] if month else None, year[1] if year else None, whole
    )


def _dates_at(tokens: Tokens, position: int, years: dict[int, int]) -> list[_Date]:
    """The dates of the longest pattern that begins at this token; several where days are listed."""
    words = tokens.words
    if words[position] in _MONTH:
        return _month_first(tokens, position, years)
    if position in years and (date := _iso_date(tokens, position, years)) is not None:
        return [date]
    if position in years:
        return [_Date(None, None, ((position, position), years[position]), position)]
    days = _day_list(tokens, position, years)
    if not days:
        return []
    after = days[-1][0][1] + 1
    if after < len(tokens) and words[after] == "of":
        after += 1
    if after >= len(tokens) or words[after] not in _MONTH:
        return []
    month = ((after, after), _MONTH[words[after]])
    year = _year_after(tokens, after, years)
    last = year[0][1] if year else after
    return [_Date(day, month, year, last) for day in days if _exists(day, month, year)]


def _month_first(tokens: Tokens, position: int, years: dict[int, int]) -> list[_Date]:
    words = tokens.words
    month = ((position, position), _MONTH[words[position]])
    after = position + 1
    if after < len(tokens) and words[after] == "." and len(words[position]) <= 4:
        after += 1
    days = _day_list(tokens, after, years)
    if days and days[-1][0][1] + 1 < len(tokens) and words[days[-1][0][1] + 1] in _MONTH:
        days = days[:-1]  # June 3 and 5 July: the 5 is July's
    year = _year_after(tokens, days[-1][0][1], years) if days else None
    if days and all(_exists(day, month, year) for day in days):
        last = year[0][1] if year else days[-1][0][1]
        return [_Date(day, month, year, last) for day in days]
    year = _year_after(tokens, after - 1, years)
    if year is not None:
        return [_Date(None, month, year, year[0][1])]
    before = tokens.lower[position - 1] if position else ""
    if words[position] in _DOUBTFUL and before not in _BEFORE_A_MONTH:
        return []
    return [_Date(None, month, None, position)]


def _iso_date(tokens: Tokens, position: int, years: dict[int, int]) -> _Date | None:
    words = tokens.words
    if position + 4 >= len(tokens) or words[position + 1] != "-" or words[position + 3] != "-":
        return None
    month, day = words[position + 2], words[position + 4]
    if not all(len(part) == 2 and part.isascii() and part.isdigit() for part in (month, day)):
        return None
    at = [(index, index) for index in (position, position + 2, position + 4)]
    parts = (at[2], int(day)), (at[1], int(month)), (at[0], years[position])
    if not 1 <= int(month) <= 12 or not int(day) or not _exists(*parts):
        return None
    return _Date(*parts, position + 4)


def _day_list(tokens: Tokens, position: int, years: dict[int, int]) -> list[tuple[Piece, int]]:
    """Days that stand here, joined by dashes, *and*, *to* or commas: each with its tokens."""
    days: list[tuple[Piece, int]] = []
    at = position
    while len(days) < 31 and at < len(tokens) and (day := _day(tokens, at)) is not None:
        days.append(day)
        at = day[0][1] + 1
        if at < len(tokens) and tokens.lower[at] in _CONNECTORS:
            at += 1
            if tokens.words[at - 1] == "," and at in years:
                break  # September 2, 31 BC
            if at < len(tokens) and tokens.words[at - 1] == "," and tokens.lower[at] == "and":
                at += 1
        else:
            break
    return days


def _day(tokens: Tokens, at: int) -> tuple[Piece, int] | None:
    word = tokens.words[at]
    if not (len(word) <= 2 and word.isascii() and word.isdigit() and 1 <= int(word) <= 31):
        return None
    suffix = at + 1 < len(tokens) and tokens.lower[at + 1] in _SUFFIXES and tokens.joined(at + 1)
    return (at, at + suffix), int(word)


def _year_after(tokens: Tokens, last: int, years: dict[int, int]) -> tuple[Piece, int] | None:
    """The year that follows token ``last``, perhaps after a comma or *of*, with the AD before it."""
    first = last + 1
    if first < len(tokens) and tokens.lower[first] in (",", "of", "in"):
        first += 1
    at = past_era(tokens, first)
    return ((first, at), years[at]) if at in years else None


def _exists(day: tuple[Piece, int], month: tuple[Piece, int], year: tuple[Piece, int] | None) -> bool:
    """Whether some calendar has this day: a 29 February is every four years, in the Julian one without exceptions."""
    leap = year is None or _running(year[1]) % 4 == 0
    return day[1] <= _DAYS[month[1] - 1] - (month[1] == 2 and not leap)


def _carry_years_back(tokens: Tokens, dates: list[_Date]) -> None:
    """In *1 May to 3 June 1644* the first date has the year of the second."""
    for earlier, later in zip(reversed(dates[:-1]), reversed(dates[1:]), strict=True):
        if earlier.year is not None or later.year is None or later.month is None or earlier.month is None:
            continue
        if earlier.day is not None and not _exists(earlier.day, earlier.month, later.year):
            continue
        start = min(part[0][0] for part in (later.day, later.month) if part is not None)
        between = tokens.lower[earlier.last + 1 : start]
        same_list = start <= earlier.last  # days of one list share everything
        if same_list or (len(between) <= 2 and all(word in _CONNECTORS for word in between)):
            earlier.year = later.year


def _years(one: DateMention, other: DateMention) -> tuple[int, int]:
    """The running years of two dates; one not said is the nearest in which the date that is told later is the later."""
    if one.year is not None and other.year is not None:
        return _running(one.year), _running(other.year)
    if (one.first, one.last) > (other.first, other.last):  # days of one list begin with the same month
        years = _years(other, one)
        return years[1], years[0]
    turn = (one.month or 0, one.day or 0) > (other.month or 0, other.day or 0)  # of the year, between the two
    if one.month == other.month and None in (one.day, other.day):
        turn = False
    if other.year is not None:
        return _running(other.year) - turn, _running(other.year)
    year = _SOME_YEAR if one.year is None else _running(one.year)
    return year, year + turn


def _ordinal(date: DateMention, year: int) -> int:
    assert date.month is not None
    assert date.day is not None
    cycles, within = divmod(year, _CYCLE_YEARS)  # Python's calendar has neither years BC nor any after 9999
    first = datetime.date(within + _CYCLE_YEARS, date.month, 1).toordinal() + (cycles - 1) * _CYCLE_DAYS
    return first + date.day - 1
