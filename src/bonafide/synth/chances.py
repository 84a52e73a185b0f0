"""The numbers and dates of a synthetic passage, and how often they meet by chance: the dial at work.

At 0 a number is new and neither the sum nor the difference of two others, as far as that can be had. Turning the dial
up repeats numbers, makes differences that other pairs have too, spaces events evenly, and gives numbers that belong
to nothing the value of a likely answer.
"""

from __future__ import annotations

import calendar
import datetime
import random
from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import combinations

_TRIES = 40


class Grain(StrEnum):
    """How far the events of a passage lie apart, and so how their dates are written."""

    DAYS = "days"
    SAME_YEAR = "days of a year that is said once"
    MONTHS = "months"
    YEARS = "years"
    BARE_YEARS = "years without a month"


_GAPS = {
    Grain.DAYS: (2, 45),
    Grain.SAME_YEAR: (2, 45),
    Grain.MONTHS: (1, 14),
    Grain.YEARS: (1, 30),
    Grain.BARE_YEARS: (2, 40),
}


class Numbers:
    """Draws the numbers of one passage, and remembers them."""

    def __init__(self, chance: random.Random, coincidence: float) -> None:
        self._chance, self._dial = chance, coincidence
        self._used: list[int] = []
        self._gaps: list[int] = []

    def keep(self, value: int) -> int:
        """Remember a number that came about in another way."""
        self._used.append(value)
        return value

    def fresh(self, low: int, high: int, taken: Collection[int] = ()) -> int:
        """A number that no two others explain, where one is found soon; it is not remembered."""
        chance = self._chance
        value = low
        explained = {abs(one - other) for one, other in combinations(self._used, 2)}
        explained |= {one + other for one, other in combinations(self._used, 2)} | set(self._used)
        for attempt in range(_TRIES):
            value = chance.randint(low, high)
            careful = chance.random() >= self._dial and attempt < _TRIES // 2
            if value not in taken and not (careful and value in explained):
                return value
        return next((each for each in range(low, high + 1) if each not in taken), value)

    def draw(self, low: int, high: int, taken: Collection[int] = ()) -> int:
        """A number of the passage: by the dial one that is there already, or one that two or three others explain."""
        chance, used = self._chance, self._used
        wanted: list[int] = []
        turn = chance.random()
        if turn < 0.25 * self._dial:
            wanted = used
        elif turn < 0.45 * self._dial:  # as far from the last as two others are from each other
            wanted = [base + one - other for one in used for other in used for base in used[-1:] if one != other]
        elif turn < 0.85 * self._dial:
            wanted = [value for one, other in combinations(used, 2) for value in (one + other, abs(one - other))]
        wanted = [value for value in wanted if low <= value <= high and value not in taken]
        return self.keep(chance.choice(wanted) if wanted else self.fresh(low, high, taken))

    def planned(self, told: Sequence[tuple[object, int]], count: int) -> int:
        """A number that belongs to nothing: by the dial one that is also the answer to a likely question.

        ``told`` are the numbers of the passage with what they measure, ``count`` is how many did the deed.
        """
        chance = self._chance
        if chance.random() >= self._dial:
            return self.keep(self.fresh(3, 99))
        pairs = [(one[1], other[1]) for one, other in combinations(told, 2) if one[0] == other[0]]
        kinds = (
            [abs(one - other) for one, other in pairs],
            [one + other for one, other in pairs],
            [value for _, value in told],
            [count],
            self._gaps,
        )
        return self.keep(max(2, chance.choice(chance.choices(kinds, (4, 3, 2, 3, 2 * bool(self._gaps)))[0])))

    def dates(self, count: int, grain: Grain) -> list[datetime.date]:
        """Dates that lie apart by the grain's range, in any order; by the dial evenly spaced or as far as a number."""
        chance = self._chance
        low, high = _GAPS[grain]
        gaps: list[int] = []
        for _ in range(count - 1):
            known = [value for value in [*gaps, *self._used] if low <= value <= high]
            repeat = known and chance.random() < 0.7 * self._dial
            gaps.append(chance.choice(known) if repeat else self.fresh(low, high, gaps))
        if not count:
            return []
        day = datetime.date(chance.randint(1500, 1950), chance.randint(1, 7), chance.randint(1, 28))
        days = [day]
        for gap in gaps:
            days.append(self._later(days[-1], gap, grain))
        self._gaps = gaps
        chance.shuffle(days)
        return days

    def _later(self, day: datetime.date, gap: int, grain: Grain) -> datetime.date:
        if grain in (Grain.DAYS, Grain.SAME_YEAR):
            return day + datetime.timedelta(days=gap)
        if grain is Grain.MONTHS:
            months = day.month - 1 + gap
            return datetime.date(day.year + months // 12, months % 12 + 1, 1)
        year, month = day.year + gap, self._chance.randint(1, 12)
        return datetime.date(year, month, self._chance.randint(1, calendar.monthrange(year, month)[1]))
