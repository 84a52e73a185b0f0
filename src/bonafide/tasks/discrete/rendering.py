"""Programs as the reconstructor sees them: ``<span> - <span>``, ``count ( <span> , <span> )``.

The context is the passage; every number, date and span of it is a reference into it, constants and spans of the
question are literal text. Solutions of one example share operands, so each operand (with the sign or comma before
it) is a segment, and a solution is a row of segments.
"""

from __future__ import annotations

import numpy as np

from bonafide.rendering import Literal, RenderedSet, Rendering, SpanReference, Word
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import argument_text
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import Argument, Date, Number, Operator, Pair, PassageSpan, Program
from bonafide.tasks.discrete.programset import ProgramSet

_SIGNS: dict[Operator, tuple[str, ...]] = {
    Operator.VALUE: ("",),
    Operator.ADD: ("", "+"),
    Operator.SUBTRACT: ("", "-"),
    Operator.ADD_ADD: ("", "+", "+"),
    Operator.ADD_SUBTRACT: ("", "+", "-"),
    Operator.SUBTRACT_SUBTRACT: ("", "-", "-"),
}
_WORDS: dict[Operator, str] = {
    Operator.VALUE: "number",
    Operator.MAX: "maximum",
    Operator.MIN: "minimum",
    Operator.COUNT: "count",
    Operator.SPANS: "span",
    Operator.ARGMAX: "most",
    Operator.ARGMIN: "least",
    Operator.YEARS: "years",
    Operator.MONTHS: "months",
    Operator.DAYS: "days",
    Operator.DATE: "date",
}


def rendered(programs: ProgramSet, reading: Reading, language: Language) -> RenderedSet:
    """All programs of a set over a reading."""
    segments: dict[Rendering, int] = {}
    rows = [
        [segments.setdefault(segment, len(segments)) for segment in _segments(program, reading, language)]
        for program in programs
    ]
    composition = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int32)
    for place, row in enumerate(rows):
        composition[place, : len(row)] = row
    return RenderedSet(reading.passage.text, tuple(segments), composition, running=True)


def rendered_program(program: Program, reading: Reading, language: Language) -> RenderedSet:
    """The set of one program, such as a predicted one."""
    segments = tuple(_segments(program, reading, language))
    return RenderedSet(reading.passage.text, segments, np.arange(len(segments), dtype=np.int32)[None], running=True)


def _segments(program: Program, reading: Reading, language: Language) -> list[Rendering]:
    operands = [_operand(argument, reading, language) for argument in program.arguments]
    signs = _SIGNS.get(program.operator)
    if signs is not None and len(signs) > 1:
        return [(Word(sign), *operand) if sign else operand for sign, operand in zip(signs, operands, strict=True)]
    head: Rendering = (Word(_WORDS[program.operator]), Word("("))
    inner = [(Word(","), *operand) if place else operand for place, operand in enumerate(operands)]
    return [head, *inner, (Word(")"),)]


def _operand(argument: Argument, reading: Reading, language: Language) -> Rendering:
    passage = reading.passage
    match argument:
        case Number(index):
            return (SpanReference(passage.numbers[index].start, passage.numbers[index].end),)
        case Date(index):
            return tuple(_reference(reading, *piece) for piece in passage.dates[index].pieces)
        case PassageSpan(first, last):
            return (_reference(reading, first, last),)
        case Pair(key, value):
            return *_operand(key, reading, language), Word(":"), *_operand(value, reading, language)
        case _:
            return (Literal(argument_text(argument, reading, language)),)


def _reference(reading: Reading, first: int, last: int) -> SpanReference:
    tokens = reading.passage.tokens
    return SpanReference(tokens.starts[first], tokens.ends[last])
