"""Options: everything that a decoder of programs can choose from, as one row of numbers for each example.

An action (``program.py``) is a kind and an index; here it is one number, its place in the row::

    16 operators | CLOSE | dates | numbers | numbers of the question | constants | starts | ends

Starts and ends count the tokens of the *text*: those of the passage, then those of the question. So the order of
arguments is the order of options, and what may come next is nearly always one run of options (``grammar.py``).

A solver that reads only the beginning of a passage has the options of that beginning alone: they are those of a
shorter text, and a program that needs more has no place in the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bonafide.tasks.discrete.checking import ARITHMETIC, needs_met
from bonafide.tasks.discrete.dates import DateMention
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import SIGNATURES, ActionKind, Operator

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

CLOSE = len(Operator)
FIRST_DATE = CLOSE + 1
ANY, WHOLE, YEARS, MONTHS, DAYS, DISJOINT = range(6)
"""Kinds of dates; DISJOINT + p are those that say nothing of the parts p (bits: day, month, year)."""
DATE_KINDS = DISJOINT + 8
_DIFFERENCES = {YEARS: Operator.YEARS, MONTHS: Operator.MONTHS, DAYS: Operator.DAYS}


@dataclass(frozen=True, eq=False)
class Options:
    """The options of some examples, one row each: how many there are of everything."""

    dates: Integers
    numbers: Integers
    question_numbers: Integers
    constants: Integers
    passage: Integers  # tokens
    question: Integers  # tokens
    date_bits: Integers  # (rows, most dates): which parts a date says (day, month, year), then its kinds, ANY to DAYS
    last_date: Integers  # (rows, 5): the last date of a kind, −1 for none
    most_values: Integers  # the larger of the numbers and the whole dates
    operators: Booleans  # (rows, operators): which ones some program has
    max_items: int
    max_span_tokens: int

    def __len__(self) -> int:
        return len(self.dates)

    @cached_property
    def first_number(self) -> Integers:
        """Its option."""
        return FIRST_DATE + self.dates

    @cached_property
    def first_other(self) -> Integers:
        """The first operand that is no number of the passage."""
        return self.first_number + self.numbers

    @cached_property
    def first_constant(self) -> Integers:
        """Its option."""
        return self.first_other + self.question_numbers

    @cached_property
    def first_start(self) -> Integers:
        """The option to start at the first token."""
        return self.first_constant + self.constants

    @cached_property
    def first_end(self) -> Integers:
        """The option to end at the first token."""
        return self.first_start + self.text

    @cached_property
    def total(self) -> Integers:
        """How many options there are."""
        return self.first_end + self.text

    @cached_property
    def text(self) -> Integers:
        """Tokens of passage and question."""
        return self.passage + self.question

    def take(self, rows: Integers) -> Options:
        """Some rows; a single row stands for all."""
        if len(self) == 1:
            return self
        return self._each(lambda array: array[rows])

    def _each(self, change: object) -> Options:
        assert callable(change)
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Options(**{
            name: change(value) if isinstance(value, np.ndarray) else value for name, value in values.items()
        })  # fmt: skip

    def parts_of(self, option: Integers) -> Integers:
        """The parts that the date of this option says; anything for other options."""
        row = np.zeros(1, dtype=np.int64) if len(self) == 1 else np.arange(len(self))
        return self.date_bits[row, np.clip(option - FIRST_DATE, 0, self.date_bits.shape[1] - 1)] & 7

    @cached_property
    def bases(self) -> Integers:
        """(kinds of actions, rows): the option of the first action of each kind."""
        zero = np.zeros_like(self.dates)
        by_kind = {
            ActionKind.OPERATOR: zero,
            ActionKind.CLOSE: zero + CLOSE,
            ActionKind.NUMBER: self.first_number,
            ActionKind.QUESTION_NUMBER: self.first_other,
            ActionKind.CONSTANT: self.first_constant,
            ActionKind.DATE_MENTION: zero + FIRST_DATE,
            ActionKind.START: self.first_start,
            ActionKind.END: self.first_end,
            ActionKind.QUESTION_START: self.first_start + self.passage,
            ActionKind.QUESTION_END: self.first_end + self.passage,
        }
        return np.stack([by_kind[kind] for kind in ActionKind])

    @cached_property
    def counts(self) -> Integers:
        """(kinds of actions, rows): how many actions there are of each kind."""
        zero = np.zeros_like(self.dates)
        by_kind = {
            ActionKind.OPERATOR: zero + len(Operator),
            ActionKind.CLOSE: zero + 1,
            ActionKind.NUMBER: self.numbers,
            ActionKind.QUESTION_NUMBER: self.question_numbers,
            ActionKind.CONSTANT: self.constants,
            ActionKind.DATE_MENTION: self.dates,
            ActionKind.START: self.passage,
            ActionKind.END: self.passage,
            ActionKind.QUESTION_START: self.question,
            ActionKind.QUESTION_END: self.question,
        }
        return np.stack([by_kind[kind] for kind in ActionKind])

    def of_actions(self, kinds: npt.NDArray[np.integer], indices: npt.NDArray[np.integer], row: int = 0) -> Integers:
        """The options of actions of one row; −1 for what it does not have."""
        bases, counts = self.bases[:, row], self.counts[:, row]
        there = (indices >= 0) & (indices < counts[kinds])
        return np.where(there, bases[kinds] + indices, -1)

    def actions(self, options: Sequence[int], row: int = 0) -> list[tuple[int, int]]:
        """The actions of options of one row."""
        bases, counts = self.bases[:, row].tolist(), self.counts[:, row].tolist()
        return [
            next((kind, option - base) for kind, base in enumerate(bases) if base <= option < base + counts[kind])
            for option in options
        ]

    def date_table(self, row: int = 0) -> Booleans:
        """(kinds of dates, options): False for dates that are not of the kind, and for operators without programs."""
        table = np.ones((DATE_KINDS, int(self.total[row])), dtype=np.bool_)
        table[:, : len(Operator)] = self.operators[row]
        dates = slice(FIRST_DATE, FIRST_DATE + int(self.dates[row]))
        bits = self.date_bits[row, : int(self.dates[row])]
        table[:DISJOINT, dates] = _of_kinds(bits)
        table[DISJOINT:, dates] = (bits & np.arange(8)[:, None]) == 0
        return table


@dataclass(frozen=True, slots=True)
class Readable:
    """How much of the question and of the passage is read, in tokens from their beginnings."""

    question: int
    passage: int


def options_of(reading: Reading, language: Language, readable: Readable | None = None) -> Options:
    """The options of one example."""
    question, passage = reading.question, reading.passage
    readable = readable or Readable(len(question), len(passage))
    dates = passage.dates[: _fitting([date.last for date in passage.dates], readable.passage)]
    numbers = _fitting([number.last for number in passage.numbers], readable.passage)
    others = _fitting([number.last for number in question.numbers], readable.question)
    bits = np.array([_bits(date) for date in dates], dtype=np.int64)
    of_kinds = _of_kinds(bits)
    last = np.where(of_kinds, np.arange(len(dates)), -1).max(axis=1, initial=-1)
    of_kind = of_kinds.sum(axis=1).tolist()
    counts = {
        "dates": len(dates),
        "numbers": numbers,
        "question_numbers": others if language.question_numbers else 0,
        "constants": len(language.constants),
        "passage": readable.passage,
        "question": readable.question,
    }
    most_values = max(numbers, of_kind[WHOLE])
    return Options(
        **{name: np.array([count]) for name, count in counts.items()},
        date_bits=(bits if len(bits) else np.zeros(1, dtype=np.int64))[None],
        last_date=last[None],
        most_values=np.array([most_values]),
        operators=_operators(counts, of_kind, most_values, language)[None],
        max_items=language.max_items,
        max_span_tokens=language.max_span_tokens,
    )


def stacked(rows: Sequence[Options]) -> Options:
    """Several examples of the same language."""
    most = max(each.date_bits.shape[1] for each in rows)
    padded = [np.pad(each.date_bits, ((0, 0), (0, most - each.date_bits.shape[1]))) for each in rows]
    arrays = {
        field.name: np.concatenate([getattr(each, field.name) for each in rows])
        for field in fields(Options)
        if field.name not in ("date_bits", "max_items", "max_span_tokens")
    }
    return Options(
        **arrays,
        date_bits=np.concatenate(padded),
        max_items=rows[0].max_items,
        max_span_tokens=rows[0].max_span_tokens,
    )


def _fitting(lasts: Sequence[int], tokens: int) -> int:
    """How many mentions come before the first that is not read whole."""
    return next((place for place, last in enumerate(lasts) if last >= tokens), len(lasts))


def _of_kinds(bits: Integers) -> Booleans:
    """(kinds, dates): ANY to DAYS."""
    return ((bits >> np.arange(3, 3 + DISJOINT)[:, None]) & 1).astype(np.bool_)


def _bits(date: DateMention) -> int:
    said = [date.day is not None, date.month is not None, date.year is not None, True, date.whole]
    said += [needs_met(operator, date) for operator in _DIFFERENCES.values()]
    return sum(bit << place for place, bit in enumerate(said))


def _operators(counts: dict[str, int], of_kind: list[int], most_values: int, language: Language) -> Booleans:
    """Which operators have a program."""
    numbers, text = counts["numbers"], counts["passage"] + counts["question"]
    operands = numbers + counts["question_numbers"] + counts["constants"]
    possible = np.zeros(len(Operator), dtype=np.bool_)
    for operator in ARITHMETIC:
        size = sum(SIGNATURES[operator].groups)  # of these, at most one is no number
        possible[operator] = size <= language.max_operands and numbers >= max(1, size - 1) and operands >= size
    possible[[Operator.MAX, Operator.MIN]] = numbers >= 2
    possible[Operator.COUNT] = True
    possible[Operator.SPANS] = text >= 1
    possible[[Operator.ARGMAX, Operator.ARGMIN]] = most_values >= 1 and text >= 1 and max(text, most_values) >= 2
    for kind, operator in _DIFFERENCES.items():
        possible[operator] = of_kind[kind] >= 2
    possible[Operator.DATE] = of_kind[ANY] >= 1
    return possible
