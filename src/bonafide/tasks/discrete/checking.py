"""The static type check: is this a program of the language, over this reading? In words for people."""

from __future__ import annotations

from collections.abc import Iterator

from bonafide.errors import BonafideError
from bonafide.tasks.discrete.dates import DateMention
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import (
    MOST_DATES,
    SIGNATURES,
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
    canonical,
)

ARITHMETIC = frozenset(
    (
        Operator.VALUE,
        Operator.ADD,
        Operator.SUBTRACT,
        Operator.ADD_ADD,
        Operator.ADD_SUBTRACT,
        Operator.SUBTRACT_SUBTRACT,
    )
)
"""The operators that the language's ``max_operands`` bounds."""
_NEEDED = {Operator.YEARS: ("month", "year"), Operator.MONTHS: ("month",), Operator.DAYS: ("day", "month")}


def check(program: Program, reading: Reading, language: Language) -> None:
    """Raise an error that names everything which keeps this from being a program of the language."""
    if found := problems(program, reading, language):
        raise BonafideError(f"{program.operator.name} is not a program of the language: {'; '.join(found)}.")


def problems(program: Program, reading: Reading, language: Language) -> list[str]:
    """What keeps this from being a program of the language, each in a few words; empty for a program."""
    found = [*_shape(program, language)]
    found += [problem for argument in program.arguments for problem in _reference(argument, reading, language)]
    if found:
        return found  # the rest looks at what the arguments point to
    found += _conditions(program, reading, language)
    if not found and canonical(program) != program:
        found.append("its arguments are not in canonical order")
    return found


def needs_met(operator: Operator, date: DateMention) -> bool:
    """Whether a difference of this kind can take this date."""
    return date.whole and all(getattr(date, part) is not None for part in _NEEDED[operator])


def disjoint(one: DateMention, other: DateMention) -> bool:
    """Whether no part of a date is said by both, so that together they are one date."""
    pairs = ((one.day, other.day), (one.month, other.month), (one.year, other.year))
    return not any(left is not None and right is not None for left, right in pairs)


def _shape(program: Program, language: Language) -> Iterator[str]:
    signature = SIGNATURES[program.operator]
    count = len(program.arguments)
    for argument in program.arguments:
        if not isinstance(argument, signature.takes):
            names = " or ".join(each.__name__ for each in signature.takes)
            yield f"expected {names}, found {type(argument).__name__}"
    if not signature.is_set:
        if count != sum(signature.groups):
            yield f"expected {sum(signature.groups)} arguments, found {count}"
        elif program.operator in ARITHMETIC and count > language.max_operands:
            yield f"the language has at most {language.max_operands} operands, found {count}"
    else:
        most = MOST_DATES if program.operator is Operator.DATE else language.max_items
        if not signature.least <= count <= most:
            yield f"expected {signature.least} to {most} members, found {count}"
    if len(set(program.arguments)) != count:
        yield "an argument stands in it twice"


def _reference(argument: Argument, reading: Reading, language: Language) -> Iterator[str]:
    if isinstance(argument, Pair):
        yield from _reference(argument.key, reading, language)
        yield from _reference(argument.value, reading, language)
    elif isinstance(argument, (PassageSpan, QuestionSpan)):
        where = "passage" if isinstance(argument, PassageSpan) else "question"
        tokens = len(reading.passage if isinstance(argument, PassageSpan) else reading.question)
        if not 0 <= argument.first <= argument.last < tokens:
            yield f"tokens {argument.first} to {argument.last} are no span of the {where}, which has {tokens} tokens"
        elif argument.last - argument.first >= language.max_span_tokens:
            yield f"a span of {argument.last - argument.first + 1} tokens; the longest has {language.max_span_tokens}"
    else:
        name, count = _counted(argument, reading, language)
        if not 0 <= argument.index < count:
            yield f"{name} {argument.index} does not exist; there are {count}"
        if isinstance(argument, QuestionNumber) and not language.question_numbers:
            yield "this language takes no numbers of the question"


def _counted(
    argument: Number | QuestionNumber | Constant | Date, reading: Reading, language: Language
) -> tuple[str, int]:
    if isinstance(argument, Number):
        return "number", len(reading.passage.numbers)
    if isinstance(argument, QuestionNumber):
        return "number of the question", len(reading.question.numbers)
    if isinstance(argument, Constant):
        return "constant", len(language.constants)
    return "date", len(reading.passage.dates)


def _conditions(program: Program, reading: Reading, language: Language) -> Iterator[str]:
    dates = [reading.passage.dates[each.index] for each in program.arguments if isinstance(each, Date)]
    if program.operator in ARITHMETIC:
        if sum(not isinstance(argument, Number) for argument in program.arguments) > 1:
            yield "at most one operand is a constant or a number of the question"
    elif program.operator in _NEEDED:
        if not all(needs_met(program.operator, date) for date in dates):
            yield f"both dates must be whole and say their {' and '.join(_NEEDED[program.operator])}"
    elif program.operator is Operator.DATE:
        if len(dates) == 2 and not disjoint(*dates):
            yield "the second date must say only what the first does not"
    elif program.operator in (Operator.ARGMAX, Operator.ARGMIN):
        values = [argument.value for argument in program.arguments if isinstance(argument, Pair)]
        if len({type(value) for value in values}) > 1:
            yield "the values must be all numbers or all dates"
        elif any(isinstance(value, Date) and not reading.passage.dates[value.index].whole for value in values):
            yield "the dates must be whole"
