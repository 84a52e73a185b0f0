"""Programs in readable syntax, and back.

``subtract(n3 "1653", n1 "1648")``, ``count(p12-13 "Ann Lee", p40-41 "Bo Ray")``,
``argmax(p3-3 "Ghent": n0 "41", p9-9 "Bruges": n2 "38")``. Each argument is written as what it points at (``n`` a
number of the passage, ``m`` one of the question, ``c`` a constant, ``d`` a date, ``p`` a passage span and ``q`` a
question span by their first and last tokens) followed by its text, which is checked when it is read back.
:func:`formula` is for display alone.
"""

from __future__ import annotations

import json
import re

from bonafide.errors import BonafideError, shortened
from bonafide.tasks.discrete.checking import check
from bonafide.tasks.discrete.execution import number_text
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.numbers import plain_number
from bonafide.tasks.discrete.passage import Passage, Reading
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
    Span,
    canonical,
)

_SIGNS = {
    Operator.VALUE: ("",),
    Operator.ADD: ("", " + "),
    Operator.SUBTRACT: ("", " − "),
    Operator.ADD_ADD: ("", " + ", " + "),
    Operator.ADD_SUBTRACT: ("", " + ", " − "),
    Operator.SUBTRACT_SUBTRACT: ("", " − ", " − "),
}
_LETTERS: dict[str, type[Number] | type[QuestionNumber] | type[Constant] | type[Date]] = {
    "n": Number,
    "m": QuestionNumber,
    "c": Constant,
    "d": Date,
}
_HEAD = re.compile(r"\s*([a-z_]+)\s*\(")
_POINTER = re.compile(r"\s*(?:([nmcd])([0-9]{1,9})|([pq])([0-9]{1,9})-([0-9]{1,9}))\s*")
_SIGN = re.compile(r"\s*([,:)])")
_CLOSED = re.compile(r"\s*\)")


def program_text(program: Program, reading: Reading, language: Language) -> str:
    """The program in readable syntax, with the text of all that it points at."""
    inner = ", ".join(_written(argument, reading, language) for argument in program.arguments)
    return f"{program.operator.name.lower()}({inner})"


def formula(program: Program, reading: Reading, language: Language) -> str:
    """The program as a person would write it: ``1653 − 1648``."""
    texts = [_shown(argument, reading, language) for argument in program.arguments]
    if program.operator in _SIGNS:
        return "".join(sign + text for sign, text in zip(_SIGNS[program.operator], texts, strict=True))
    if program.operator in (Operator.SPANS, Operator.DATE):
        return " and ".join(texts) if program.operator is Operator.SPANS else " ".join(texts)
    return f"{program.operator.name.lower()}({', '.join(texts)})"


def parse_program(text: str, reading: Reading, language: Language) -> Program:
    """The program that a text in readable syntax stands for, checked against the reading."""
    head = _HEAD.match(text)
    if head is None or head.group(1).upper() not in Operator.__members__:
        names = ", ".join(operator.name.lower() for operator in Operator)
        raise BonafideError(
            f"A program begins with an operator and an opening bracket, one of {names}: {shortened(text)}."
        )
    arguments: list[Argument] = []
    closed = _CLOSED.match(text, head.end())
    sign, at = (",", head.end()) if closed is None else (")", closed.end())
    while sign == ",":
        argument, at = _read_argument(text, at, reading, language)
        sign, at = _read_sign(text, at)
        if sign == ":":
            value, at = _read_argument(text, at, reading, language)
            argument = _pair(argument, value, text)
            sign, at = _read_sign(text, at)
        arguments.append(argument)
        if sign == ":":
            raise BonafideError(f"A pair has one key and one value: {shortened(text)}.")
    if text[at:].strip():
        raise BonafideError(f"Nothing may follow the closing bracket; found {shortened(text[at:].strip())}.")
    program = canonical(Program(Operator[head.group(1).upper()], tuple(arguments)))
    check(program, reading, language)
    return program


def argument_text(argument: Argument, reading: Reading, language: Language) -> str:
    """The text that an argument points at."""
    match argument:
        case Number(index):
            return _number_text(reading.passage, index)
        case QuestionNumber(index):
            return _number_text(reading.question, index)
        case Constant(index):
            return str(language.constants[index])
        case Date(index):
            return " ".join(reading.passage.span_text(*piece) for piece in reading.passage.dates[index].pieces)
        case PassageSpan(first, last):
            return reading.passage.span_text(first, last)
        case QuestionSpan(first, last):
            return reading.question.span_text(first, last)
        case Pair(key, value):
            return f"{argument_text(key, reading, language)}: {argument_text(value, reading, language)}"


def _shown(argument: Argument, reading: Reading, language: Language) -> str:
    """The text of an argument; where a number in digits is read as another (the 18 of 1914–18), both."""
    if isinstance(argument, Pair):
        return f"{_shown(argument.key, reading, language)}: {_shown(argument.value, reading, language)}"
    text = argument_text(argument, reading, language)
    if isinstance(argument, (Number, QuestionNumber)):
        source = reading.passage if isinstance(argument, Number) else reading.question
        value = source.numbers[argument.index].value
        if plain_number(text) not in (None, value):
            return f"{text} ({number_text(value)})"
    return text


def _number_text(passage: Passage, index: int) -> str:
    mention = passage.numbers[index]
    return passage.text[mention.start : mention.end]


def _written(argument: Argument, reading: Reading, language: Language) -> str:
    if isinstance(argument, Pair):
        return f"{_written(argument.key, reading, language)}: {_written(argument.value, reading, language)}"
    quoted = json.dumps(argument_text(argument, reading, language), ensure_ascii=False)
    return f"{_pointer(argument)} {quoted}"


def _pointer(argument: Number | QuestionNumber | Constant | Date | Span) -> str:
    if isinstance(argument, (PassageSpan, QuestionSpan)):
        return f"{'p' if isinstance(argument, PassageSpan) else 'q'}{argument.first}-{argument.last}"
    letter = next(letter for letter, kind in _LETTERS.items() if isinstance(argument, kind))
    return f"{letter}{argument.index}"


def _read_argument(text: str, at: int, reading: Reading, language: Language) -> tuple[Argument, int]:
    found = _POINTER.match(text, at)
    if found is None:
        raise BonafideError(f'Expected an argument such as n3 "1653" or p12-13 "Ann Lee" at {text[at : at + 20]!r}.')
    letter, index, source, first, last = found.groups()
    argument: Argument
    if letter is not None:
        argument = _LETTERS[letter](int(index))
    else:
        argument = (PassageSpan if source == "p" else QuestionSpan)(int(first), int(last))
    try:
        quoted, at = json.JSONDecoder().raw_decode(text, found.end())
    except ValueError:
        raise BonafideError(f"Expected the text of {found.group().strip()} in quotes after it.") from None
    try:
        really = argument_text(argument, reading, language)
    except IndexError:
        raise BonafideError(f"{found.group().strip()} does not exist in this reading.") from None
    if quoted != really:
        raise BonafideError(
            f"{found.group().strip()} is {shortened(really)} in this reading; the program says {shortened(quoted)}."
        )
    return argument, at


def _read_sign(text: str, at: int) -> tuple[str, int]:
    found = _SIGN.match(text, at)
    if found is None:
        raise BonafideError(f"Expected a comma, a colon or the closing bracket at {text[at : at + 20]!r}.")
    return found.group(1), found.end()


def _pair(key: Argument, value: Argument, text: str) -> Pair:
    if not isinstance(key, (PassageSpan, QuestionSpan)) or not isinstance(value, (Number, Date)):
        raise BonafideError(f"A pair is a span and a number or date of the passage: {shortened(text)}.")
    return Pair(key, value)
