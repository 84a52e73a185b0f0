"""Programs: the solutions of discrete reasoning, as typed values and as sequences of actions.

A program is an operator and its arguments. Arguments point at what stands in the reading: numbers, dates and spans
of the passage, spans and numbers of the question, constants of the language. The operators, with R for number
operands, N for numbers of the passage, D for dates, S for spans of passage or question::

    VALUE(N)   ADD(R, R)   SUBTRACT(R, R)   ADD_ADD(R, R, R)   ADD_SUBTRACT(R, R, R)   SUBTRACT_SUBTRACT(R, R, R)
    MAX(N …)   MIN(N …)    COUNT(passage span …)   SPANS(S …)  ARGMAX(S:N …)   ARGMIN(S:N …)   (or all S:D)
    YEARS(D, D)   MONTHS(D, D)   DAYS(D, D)   DATE(D …)

Of the operands of an arithmetic program, at most one is a constant or a number of the question.

**Linear form.** Each program is one sequence of actions, each a kind and an index::

    program  := OPERATOR argument* CLOSE?       CLOSE ends exactly the operators that take sets: MAX, MIN, COUNT,
                                                SPANS, ARGMAX, ARGMIN and DATE
    R        := NUMBER i | QUESTION_NUMBER i | CONSTANT i       i counts the passage's numbers, the question's, S
    N        := NUMBER i
    D        := DATE_MENTION i                                  i counts the passage's dates
    S        := START i END j | QUESTION_START i QUESTION_END j     tokens i ≤ j, both included
    S:N, S:D := S, then N or D

**Canonical form.** Arguments whose order does not matter (a *group*) stand in strictly rising order of their
actions, compared as tuples of (kind, index): both of ADD, all three of ADD_ADD, the first two of ADD_SUBTRACT, the
last two of SUBTRACT_SUBTRACT, both dates of a difference, and every set. A program that differs only in such an
order is the same program; :func:`canonical` sorts it. No argument stands in a program twice.

**Bounds and conditions** (``checking.py`` reports those that do not hold):

* sets have at most ``language.max_items`` members, at least 2 (MAX, MIN, ARGMAX, ARGMIN), 1 (SPANS, DATE) or
  0 (COUNT); DATE has at most 2, and no part of a date is said by both;
* spans have at most ``language.max_span_tokens`` tokens;
* arithmetic has at most ``language.max_operands`` operands, QUESTION_NUMBER needs ``language.question_numbers``;
* the dates of a difference are ``whole``, and say what is needed: YEARS year and month, MONTHS the month, DAYS
  month and day; the dates in pairs are ``whole``;
* in ARGMAX and ARGMIN, the values are all numbers or all dates.

Every program that fulfils these can be executed (``execution.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from bonafide.errors import BonafideError


class Operator(IntEnum):
    """The operators. The numbers are part of the store's format."""

    VALUE = 0
    ADD = 1
    SUBTRACT = 2
    ADD_ADD = 3
    ADD_SUBTRACT = 4
    SUBTRACT_SUBTRACT = 5
    MAX = 6
    MIN = 7
    COUNT = 8
    SPANS = 9
    ARGMAX = 10
    ARGMIN = 11
    YEARS = 12
    MONTHS = 13
    DAYS = 14
    DATE = 15


class ActionKind(IntEnum):
    """The kinds of actions. Their order is the order of arguments; the numbers are part of the store's format."""

    OPERATOR = 0
    CLOSE = 1
    NUMBER = 2
    QUESTION_NUMBER = 3
    CONSTANT = 4
    DATE_MENTION = 5
    START = 6
    END = 7
    QUESTION_START = 8
    QUESTION_END = 9


Action = tuple[ActionKind, int]
"""A kind, and an index in what the kind counts; 0 for CLOSE."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the passage."""

    index: int

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return ((ActionKind.NUMBER, self.index),)


@dataclass(frozen=True, slots=True)
class QuestionNumber:
    """A number of the question."""

    index: int

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return ((ActionKind.QUESTION_NUMBER, self.index),)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the language."""

    index: int

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return ((ActionKind.CONSTANT, self.index),)


@dataclass(frozen=True, slots=True)
class Date:
    """A date of the passage."""

    index: int

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return ((ActionKind.DATE_MENTION, self.index),)


@dataclass(frozen=True, slots=True)
class PassageSpan:
    """Tokens ``first`` to ``last`` of the passage, both included."""

    first: int
    last: int

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return (ActionKind.START, self.first), (ActionKind.END, self.last)


@dataclass(frozen=True, slots=True)
class QuestionSpan:
    """Tokens ``first`` to ``last`` of the question, both included."""

    first: int
    last: int

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return (ActionKind.QUESTION_START, self.first), (ActionKind.QUESTION_END, self.last)


Span = PassageSpan | QuestionSpan


@dataclass(frozen=True, slots=True)
class Pair:
    """A span with the number or date that belongs to it."""

    key: Span
    value: Number | Date

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        return *self.key.actions, *self.value.actions


Argument = Number | QuestionNumber | Constant | Date | PassageSpan | QuestionSpan | Pair


@dataclass(frozen=True, slots=True)
class Signature:
    """What an operator takes: groups of arguments without an order, or (``groups`` is empty) a set."""

    takes: tuple[type, ...]
    groups: tuple[int, ...] = ()
    least: int = 0

    @property
    def is_set(self) -> bool:
        """Whether CLOSE ends its arguments."""
        return not self.groups


_OPERANDS = (Number, QuestionNumber, Constant)
SIGNATURES: dict[Operator, Signature] = {
    Operator.VALUE: Signature((Number,), (1,)),
    Operator.ADD: Signature(_OPERANDS, (2,)),
    Operator.SUBTRACT: Signature(_OPERANDS, (1, 1)),
    Operator.ADD_ADD: Signature(_OPERANDS, (3,)),
    Operator.ADD_SUBTRACT: Signature(_OPERANDS, (2, 1)),
    Operator.SUBTRACT_SUBTRACT: Signature(_OPERANDS, (1, 2)),
    Operator.MAX: Signature((Number,), least=2),
    Operator.MIN: Signature((Number,), least=2),
    Operator.COUNT: Signature((PassageSpan,), least=0),
    Operator.SPANS: Signature((PassageSpan, QuestionSpan), least=1),
    Operator.ARGMAX: Signature((Pair,), least=2),
    Operator.ARGMIN: Signature((Pair,), least=2),
    Operator.YEARS: Signature((Date,), (2,)),
    Operator.MONTHS: Signature((Date,), (2,)),
    Operator.DAYS: Signature((Date,), (2,)),
    Operator.DATE: Signature((Date,), least=1),
}
MOST_DATES = 2
"""The most members of DATE's set."""
PLAIN = frozenset((Operator.VALUE, Operator.SPANS, Operator.DATE))
"""Operators that only point at what stands there."""


@dataclass(frozen=True, slots=True)
class Program:
    """An operator and its arguments."""

    operator: Operator
    arguments: tuple[Argument, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """Its linear form."""
        close: tuple[Action, ...] = ((ActionKind.CLOSE, 0),) if SIGNATURES[self.operator].is_set else ()
        inner = (action for argument in self.arguments for action in argument.actions)
        return (ActionKind.OPERATOR, int(self.operator)), *inner, *close

    @property
    def operands(self) -> int:
        """How many things it points at; a pair is two."""
        return sum(2 if isinstance(argument, Pair) else 1 for argument in self.arguments)

    @property
    def operations(self) -> int:
        """How much it does: its operands, and one more for an operator that does something with them."""
        return self.operands + (self.operator not in PLAIN)


def canonical(program: Program) -> Program:
    """The same program with its groups in order and nothing twice in a set."""
    signature = SIGNATURES[program.operator]
    if signature.is_set:
        return Program(program.operator, tuple(_ordered(set(program.arguments))))
    arguments: list[Argument] = []
    for size in signature.groups:
        arguments += _ordered(program.arguments[len(arguments) : len(arguments) + size])
    return Program(program.operator, tuple(arguments))


def _ordered(arguments: Iterable[Argument]) -> list[Argument]:
    return sorted(arguments, key=lambda argument: argument.actions)


def from_actions(actions: Sequence[tuple[int, int]]) -> Program:
    """The program of a linear form; the inverse of ``Program.actions``."""
    reader = _Reader(actions)
    operator = Operator(reader.next(ActionKind.OPERATOR))
    signature = SIGNATURES[operator]
    arguments: list[Argument] = []
    if signature.is_set:
        while reader.peek() != ActionKind.CLOSE:
            arguments.append(reader.argument(Pair in signature.takes))
        reader.next(ActionKind.CLOSE)
    else:
        for _ in range(sum(signature.groups)):
            arguments.append(reader.argument(False))
    if reader.place != len(actions):
        raise BonafideError(f"Actions go on after the end of the program: {actions[reader.place :]}.")
    return Program(operator, tuple(arguments))


class _Reader:
    def __init__(self, actions: Sequence[tuple[int, int]]) -> None:
        self._actions = actions
        self.place = 0

    def peek(self) -> int:
        if self.place >= len(self._actions):
            raise BonafideError(f"The program breaks off after {self.place} actions.")
        return int(self._actions[self.place][0])

    def next(self, kind: ActionKind) -> int:
        if (found := self.peek()) != kind:
            raise BonafideError(f"Action {self.place + 1}: expected {kind.name}, found {ActionKind(found).name}.")
        self.place += 1
        return int(self._actions[self.place - 1][1])

    def argument(self, pair: bool) -> Argument:
        kind = self.peek()
        if kind == ActionKind.START or kind == ActionKind.QUESTION_START:
            span = self._span(kind == ActionKind.START)
            if not pair:
                return span
            kind = self.peek()
            if kind == ActionKind.DATE_MENTION:
                return Pair(span, Date(self.next(ActionKind.DATE_MENTION)))
            return Pair(span, Number(self.next(ActionKind.NUMBER)))
        for wanted, made in _LEAVES.items():
            if kind == wanted:
                return made(self.next(wanted))
        raise BonafideError(f"Action {self.place + 1}: expected an argument, found {ActionKind(kind).name}.")

    def _span(self, passage: bool) -> Span:
        if passage:
            return PassageSpan(self.next(ActionKind.START), self.next(ActionKind.END))
        return QuestionSpan(self.next(ActionKind.QUESTION_START), self.next(ActionKind.QUESTION_END))


_LEAVES: dict[ActionKind, type[Number] | type[QuestionNumber] | type[Constant] | type[Date]] = {
    ActionKind.NUMBER: Number,
    ActionKind.QUESTION_NUMBER: QuestionNumber,
    ActionKind.CONSTANT: Constant,
    ActionKind.DATE_MENTION: Date,
}
