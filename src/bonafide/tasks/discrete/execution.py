"""What programs mean: each operator is a method of :class:`Operations`.

Arithmetic is exact. A result is a number, texts, or a date.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

from bonafide.examples import DateAnswer
from bonafide.tasks.discrete.dates import (
    MONTHS,
    DateMention,
    days_between,
    months_between,
    sort_key,
    years_between,
)
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.numbers import NumberMention
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import (
    Argument,
    Constant,
    Date,
    Number,
    Operator,
    Pair,
    PassageSpan,
    Program,
    QuestionNumber,
    QuestionSpan,
)

Value = Fraction | tuple[str, ...] | DateAnswer
"""What a program returns."""


class Operations:
    """The operators of the language, on what their arguments stand for."""

    def value(self, number: Fraction) -> Fraction:
        """The number itself."""
        return number

    def add(self, one: Fraction, other: Fraction) -> Fraction:
        """one + other."""
        return one + other

    def subtract(self, one: Fraction, other: Fraction) -> Fraction:
        """one − other."""
        return one - other

    def add_add(self, one: Fraction, two: Fraction, three: Fraction) -> Fraction:
        """one + two + three."""
        return one + two + three

    def add_subtract(self, one: Fraction, two: Fraction, three: Fraction) -> Fraction:
        """one + two − three."""
        return one + two - three

    def subtract_subtract(self, one: Fraction, two: Fraction, three: Fraction) -> Fraction:
        """one − two − three."""
        return one - two - three

    def max(self, *numbers: NumberMention) -> Fraction:
        """The largest; of years the latest."""
        return max(numbers, key=_order).value

    def min(self, *numbers: NumberMention) -> Fraction:
        """The smallest; of years the earliest."""
        return min(numbers, key=_order).value

    def count(self, *spans: str) -> Fraction:
        """How many spans there are; 0 for none."""
        return Fraction(len(spans))

    def spans(self, *spans: str) -> tuple[str, ...]:
        """The texts of the spans."""
        return spans

    def argmax(self, *pairs: tuple[str, NumberMention | DateMention]) -> tuple[str, ...]:
        """The key of the largest value; every such key where several values are the largest."""
        return _keys_at(max(_order(value) for _, value in pairs), pairs)

    def argmin(self, *pairs: tuple[str, NumberMention | DateMention]) -> tuple[str, ...]:
        """The key of the smallest value, or of the earliest date; every such key where there are several."""
        return _keys_at(min(_order(value) for _, value in pairs), pairs)

    def years(self, one: DateMention, other: DateMention) -> Fraction:
        """Whole years that passed between two dates."""
        return Fraction(cast(int, years_between(one, other)))

    def months(self, one: DateMention, other: DateMention) -> Fraction:
        """Months of the calendar from one date to the other; where a year is not said, what is told later is later."""
        return Fraction(cast(int, months_between(one, other)))

    def days(self, one: DateMention, other: DateMention) -> Fraction:
        """Days from one date to the other; where a year is not said, what is told later is later."""
        return Fraction(cast(int, days_between(one, other)))

    def date(self, *dates: DateMention) -> DateAnswer:
        """The date that these say together: day and year in digits, without the era; the month by its name."""
        day, month, year = (
            next((getattr(date, part) for date in dates if getattr(date, part) is not None), None)
            for part in ("day", "month", "year")
        )
        return DateAnswer(str(day or ""), MONTHS[month - 1] if month else "", str(abs(year or 0) or ""))


_OPERATIONS = Operations()
_METHODS = {operator: getattr(_OPERATIONS, operator.name.lower()) for operator in Operator}
_ORDERING = frozenset((Operator.MAX, Operator.MIN, Operator.ARGMAX, Operator.ARGMIN))


def execute(program: Program, reading: Reading, language: Language) -> Value:
    """What the program returns; it must be one of the language, see ``checking.py``."""
    ordering = program.operator in _ORDERING
    arguments = (_resolved(argument, reading, language, ordering) for argument in program.arguments)
    return cast(Value, _METHODS[program.operator](*arguments))


def number_text(number: Fraction) -> str:
    """A number written out in digits: exact where its decimals end, else to 12 significant digits."""
    if number.denominator == 1:
        return str(number.numerator)
    places, rest = 0, number.denominator
    while rest % 10 == 0:
        rest, places = rest // 10, places + 1
    while rest % 5 == 0:
        rest, places = rest // 5, places + 1
    while rest % 2 == 0:
        rest, places = rest // 2, places + 1
    if rest != 1:
        return f"{Decimal(f'{float(number):.12g}'):f}"
    digits = str(abs(number.numerator) * 10**places // number.denominator).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}".rstrip("0")


def _resolved(argument: Argument, reading: Reading, language: Language, ordering: bool) -> object:
    """What an argument stands for; a number that is to be ordered, with what says its era."""
    match argument:
        case Number(index):
            number = reading.passage.numbers[index]
            return number if ordering else number.value
        case QuestionNumber(index):
            return reading.question.numbers[index].value
        case Constant(index):
            return Fraction(language.constants[index])
        case Date(index):
            return reading.passage.dates[index]
        case PassageSpan(first, last):
            return reading.passage.span_text(first, last)
        case QuestionSpan(first, last):
            return reading.question.span_text(first, last)
        case Pair(key, value):
            return _resolved(key, reading, language, ordering), _resolved(value, reading, language, ordering)


def _order(value: NumberMention | DateMention) -> Any:
    return sort_key(value) if isinstance(value, DateMention) else value.rank


def _keys_at(best: object, pairs: tuple[tuple[str, NumberMention | DateMention], ...]) -> tuple[str, ...]:
    return tuple(key for key, value in pairs if _order(value) == best)
