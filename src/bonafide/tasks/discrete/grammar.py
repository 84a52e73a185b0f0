"""The grammar of programs, step by step: after some actions, which may come next.

It admits exactly the programs of the language in canonical form (``program.py``, ``checking.py``), each by one
sequence of options (``options.py``), and never an action after which no program can be completed. What may come next
is one run of options, less a few, and perhaps CLOSE: six integers, so that the masks of all steps of all solutions
are made on the device by comparing (:class:`Allowed`).

All functions work on many states at once, with the options of one example for all or of one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from bonafide.tasks.discrete.options import (
    CLOSE,
    DAYS,
    DISJOINT,
    FIRST_DATE,
    MONTHS,
    WHOLE,
    YEARS,
    Booleans,
    Integers,
    Options,
)
from bonafide.tasks.discrete.program import MOST_DATES, SIGNATURES, Operator

ARGUMENT, END, VALUE, NOTHING = range(4)
"""What a state awaits: an argument or CLOSE, the end of a span, the value of a pair, nothing more."""

_ARITY = np.array([sum(SIGNATURES[operator].groups) for operator in Operator])  # 0 for sets
_LEAST = np.array([SIGNATURES[operator].least for operator in Operator])
_DATE_KIND = {Operator.YEARS: YEARS, Operator.MONTHS: MONTHS, Operator.DAYS: DAYS}
_KIND_OF_DATES = np.array([_DATE_KIND.get(operator, 0) for operator in Operator])

# Of arithmetic, by operator and number of operands so far:
_RISING = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=np.bool_)
"""Whether the operand comes after the last one: a group goes on."""
_OTHERS = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 1]], dtype=np.bool_)
"""Whether it may be a constant or a number of the question: in a group, only the last can."""
_SPARED = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]])
"""How many of the last numbers are left for the rest of the group, whose last may be a constant …"""
_SPARED_ALONE = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [2, 1, 0], [1, 0, 0], [0, 1, 0]])
"""… and where there are only numbers."""


@dataclass(frozen=True, eq=False)
class States:
    """Where some programs stand."""

    operator: Integers  # −1 before it is chosen
    awaits: Integers
    members: Integers  # complete arguments
    first: Integers  # the first operand, as an option; −1 for none
    last: Integers  # the last operand
    start: Integers  # the span that was begun last, in tokens of the text
    end: Integers
    last_start: Integers  # the span of the last complete argument
    last_end: Integers
    last_value: Integers  # and its value, as an option

    def take(self, rows: Integers) -> States:
        """Some of them."""
        return States(*(getattr(self, name)[rows] for name in _STATE))

    @property
    def done(self) -> Booleans:
        """Which are whole programs."""
        done: Booleans = self.awaits == NOTHING
        return done


@dataclass(frozen=True, eq=False)
class Allowed:
    """What may come next: options in [low, high) but ``without`` and ``nor``, dates only of a kind; or CLOSE."""

    low: Integers
    high: Integers
    close: Integers
    date_kind: Integers
    without: Integers
    nor: Integers

    def has(self, option: Integers, date_table: Booleans) -> Booleans:
        """Whether an option is among them; ``date_table`` is that of the example."""
        inside = (self.low <= option) & (option < self.high) & (option != self.without) & (option != self.nor)
        inside &= date_table[self.date_kind, np.clip(option, 0, date_table.shape[1] - 1)]
        found: Booleans = inside | ((self.close > 0) & (option == CLOSE))
        return found

    @property
    def array(self) -> Integers:
        """(states, 6)."""
        return np.stack([getattr(self, name) for name in _ALLOWED], axis=1)


_STATE = tuple(field.name for field in fields(States))
_ALLOWED = tuple(field.name for field in fields(Allowed))


def joined(states: Sequence[States]) -> States:
    """All of them, in order."""
    return States(*(np.concatenate([getattr(each, name) for each in states]) for name in _STATE))


def beginning(count: int) -> States:
    """Programs of which nothing is said yet."""
    nothing = np.full(count, -1, dtype=np.int64)
    zero = np.zeros(count, dtype=np.int64)
    return States(nothing, zero, zero, nothing, nothing, nothing, nothing, nothing, nothing, nothing)


def advance(options: Options, states: States, option: Integers) -> States:
    """The states after one more option each, which must be allowed."""
    operator = np.where(states.operator < 0, option, states.operator)
    spans = (operator == Operator.COUNT) | (operator == Operator.SPANS)
    starts = (option >= options.first_start) & (option < options.first_end)
    ends = option >= options.first_end
    closes = option == CLOSE
    points = (option > CLOSE) & ~starts & ~ends
    complete = points | (ends & spans)
    members = states.members + complete
    start = np.where(starts, option - options.first_start, states.start)
    end = np.where(ends, option - options.first_end, states.end)
    whole = closes | (points & (_ARITY[operator] == members))
    awaits = np.where(starts, END, np.where(ends & ~spans, VALUE, np.where(whole, NOTHING, ARGUMENT)))
    return States(
        operator,
        awaits,
        members,
        np.where(points & (states.members == 0), option, states.first),
        np.where(points, option, states.last),
        start,
        end,
        np.where(complete, start, states.last_start),
        np.where(complete, end, states.last_end),
        np.where(points, option, states.last_value),
    )


def allowed(options: Options, states: States) -> Allowed:
    """What may come next in each state; CLOSE alone after the end of a program, so that there is always something."""
    count = len(states.operator)
    made = Allowed(*(np.full(count, value, dtype=np.int64) for value in (0, 0, 0, 0, -1, -1)))
    made.high[states.operator < 0] = CLOSE
    family = _FAMILY_OF[states.operator]
    for each in set(family.tolist()) - {-1}:
        rows = np.flatnonzero(family == each)
        here = _FAMILIES[each][1](options.take(rows), states.take(rows))
        for name in _ALLOWED:
            getattr(made, name)[rows] = getattr(here, name)
    made.high[states.done] = 0
    made.close[states.done] = 1
    return made


def _arithmetic(options: Options, states: States) -> Allowed:
    place = states.operator, states.members.clip(max=2)
    other = options.first_other
    spared = np.where(options.first_start > other, _SPARED[place], _SPARED_ALONE[place])
    second_of_two = (states.operator == Operator.SUBTRACT_SUBTRACT) & (states.members == 1)
    spared = spared + (second_of_two & (options.first_start == other) & (states.first == other - 1))
    spared = np.where(second_of_two & (states.first >= other), 1, spared)
    others = _OTHERS[place] & (states.first < other) & (states.last < other)
    low = np.where(_RISING[place], states.last + 1, options.first_number)
    high = np.where(others, options.first_start, other - spared)
    return _made(low, high, without=states.first, nor=states.last)


def _extremes(options: Options, states: States) -> Allowed:
    low = np.where(states.members > 0, states.last + 1, options.first_number)
    high = options.first_other - (states.members == 0)
    return _set(options, states, _made(low, high))


def _spans(options: Options, states: States) -> Allowed:
    tokens = np.where(states.operator == Operator.COUNT, options.passage, options.text)
    begin = np.where(states.members > 0, states.last_start + ~_longer(options, states), 0)
    starts = _made(options.first_start + begin, options.first_start + tokens)
    again = (states.members > 0) & (states.start == states.last_start)
    ends = _ends(options, states, np.where(again, states.last_end + 1, states.start))
    return _where(states.awaits == END, ends, _set(options, states, starts))


def _sorts(options: Options, states: States) -> Allowed:
    other, number = options.first_other, options.first_number
    last_date = FIRST_DATE + options.last_date[:, WHOLE]
    opening, dates = states.members == 0, states.last_value < number
    more = states.last_value < np.where(dates, last_date, other - 1)  # a larger value with the same key
    begin = np.where(opening, 0, states.last_start + ~(_longer(options, states) | more))
    spared = opening & (options.most_values < 2)  # the last key with the only value has nothing after it
    starts = _made(options.first_start + begin, options.first_start + options.text - spared)
    again = ~opening & (states.start == states.last_start)
    ends = _ends(options, states, np.where(again, states.last_end + ~more, states.start))
    again &= states.end == states.last_end
    last_key = opening & (states.end == options.text - 1) & (states.start == states.end)
    values = _made(
        np.where(again, states.last_value + 1, np.where(opening | dates, FIRST_DATE, number)),
        np.where(opening | ~dates, other, number),
        date_kind=WHOLE,
        without=np.where(last_key & (options.numbers > 0), other - 1, -1),
        nor=np.where(last_key, last_date, -1),
    )
    return _where(states.awaits == VALUE, values, _where(states.awaits == END, ends, _set(options, states, starts)))


def _differences(options: Options, states: States) -> Allowed:
    kind = _KIND_OF_DATES[states.operator]
    row = np.zeros(1, dtype=np.int64) if len(options) == 1 else np.arange(len(options))
    opening = states.members == 0
    low = np.where(opening, FIRST_DATE, states.last + 1)
    high = np.where(opening, FIRST_DATE + options.last_date[row, kind], options.first_number)
    return _made(low, high, date_kind=kind)


def _dates(options: Options, states: States) -> Allowed:
    opening = states.members == 0
    low = np.where(opening, FIRST_DATE, states.last + 1)
    high = np.where(states.members < MOST_DATES, options.first_number, 0)
    kind = np.where(opening, 0, DISJOINT + options.parts_of(states.last))
    return _made(low, high, close=~opening, date_kind=kind)


def _longer(options: Options, states: States) -> Booleans:
    """Whether a longer span begins where the last one does."""
    return states.last_end + 1 < _limit(options, states.last_start)


def _limit(options: Options, start: Integers) -> Integers:
    """Where spans from ``start`` on must have ended."""
    source = np.where(start < options.passage, options.passage, options.text)
    return np.minimum(start + options.max_span_tokens, source)


def _ends(options: Options, states: States, least: Integers) -> Allowed:
    return _made(options.first_end + least, options.first_end + _limit(options, states.start))


def _set(options: Options, states: States, made: Allowed) -> Allowed:
    """The next member of a set, if there is room for it, or CLOSE."""
    high = np.where(states.members < options.max_items, made.high, 0)
    return replace(made, high=high, close=(states.members >= _LEAST[states.operator]).astype(np.int64))


def _made(
    low: Integers,
    high: Integers,
    close: Integers | Booleans | int = 0,
    date_kind: Integers | int = 0,
    without: Integers | int = -1,
    nor: Integers | int = -1,
) -> Allowed:
    nothing = np.zeros(len(low), dtype=np.int64)
    return Allowed(*(nothing + value for value in (low, high, close, date_kind, without, nor)))


def _where(condition: Booleans, one: Allowed, other: Allowed) -> Allowed:
    return Allowed(*(np.where(condition, getattr(one, name), getattr(other, name)) for name in _ALLOWED))


_FAMILIES: tuple[tuple[tuple[Operator, ...], Callable[[Options, States], Allowed]], ...] = (
    (
        (
            Operator.VALUE,
            Operator.ADD,
            Operator.SUBTRACT,
            Operator.ADD_ADD,
            Operator.ADD_SUBTRACT,
            Operator.SUBTRACT_SUBTRACT,
        ),
        _arithmetic,
    ),
    ((Operator.MAX, Operator.MIN), _extremes),
    ((Operator.COUNT, Operator.SPANS), _spans),
    ((Operator.ARGMAX, Operator.ARGMIN), _sorts),
    ((Operator.YEARS, Operator.MONTHS, Operator.DAYS), _differences),
    ((Operator.DATE,), _dates),
)
_FAMILY_OF = np.full(len(Operator) + 1, -1)  # the last is of −1: no operator yet
for _place, (_operators, _) in enumerate(_FAMILIES):
    _FAMILY_OF[list(_operators)] = _place
