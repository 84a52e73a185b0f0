"""Programs as the reconstructor sees them: what stands in the passage is a reference, all else is said."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bonafide.rendering import Literal, Rendering, SpanReference
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.passage import read
from bonafide.tasks.discrete.program import (
    Constant,
    Date,
    Number,
    Operator,
    Pair,
    PassageSpan,
    Program,
    QuestionSpan,
)
from bonafide.tasks.discrete.programset import program_set
from bonafide.tasks.discrete.rendering import rendered, rendered_program
from discrete_programs import programs, readings

LANGUAGE = Language(max_items=4)
READING = read("Ghent or Bruges?", "Ghent lost 41 men, Bruges 38, on 24–26 October 1596.")


def shown(rendering: Rendering) -> str:
    text = READING.passage.text
    return " ".join(
        f"<{text[piece.start : piece.end]}>" if isinstance(piece, SpanReference) else piece.text for piece in rendering
    )


def test_each_kind_of_program_is_said_in_few_words():
    ghent, bruges = PassageSpan(0, 0), PassageSpan(5, 5)
    said = {
        Program(Operator.VALUE, (Number(0),)): "number ( <41> )",
        Program(Operator.SUBTRACT, (Number(0), Number(1))): "<41> - <38>",
        Program(Operator.SUBTRACT, (Constant(0), Number(1))): "100 - <38>",
        Program(Operator.COUNT, (ghent, bruges)): "count ( <Ghent> , <Bruges> )",
        Program(Operator.COUNT, ()): "count ( )",
        Program(Operator.SPANS, (ghent, QuestionSpan(2, 2))): "span ( <Ghent> , Bruges )",
        Program(Operator.DATE, (Date(0),)): "date ( <24> <October 1596> )",
        Program(Operator.ARGMAX, (Pair(ghent, Number(0)), Pair(bruges, Number(1)))): (
            "most ( <Ghent> : <41> , <Bruges> : <38> )"
        ),
    }
    for program, words in said.items():
        assert shown(rendered_program(program, READING, LANGUAGE)[0]) == words


@settings(deadline=None)
@given(st.data())
def test_a_set_shows_each_program_as_it_would_be_shown_alone_and_no_segment_twice(data):
    reading = data.draw(readings)
    drawn = [program for program in data.draw(st.lists(programs(reading, LANGUAGE), max_size=6)) if program is not None]
    assume(drawn)
    solutions = program_set((program, Rule.MODEL) for program in drawn)
    together = rendered(solutions, reading, LANGUAGE)
    assert together.context == reading.passage.text
    assert len(set(together.segments)) == len(together.segments)
    assert len(together) == len(solutions)
    seen = {}
    for place, program in enumerate(solutions):
        alone = rendered_program(program, reading, LANGUAGE)[0]
        assert together[place] == alone
        seen.setdefault(alone, program)
        for piece in alone:
            if isinstance(piece, SpanReference):
                assert reading.passage.text[piece.start : piece.end].strip()
        literals = sum(isinstance(piece, Literal) for piece in alone)
        operands = [part for each in program.arguments for part in ([each.key] if isinstance(each, Pair) else [each])]
        outside = sum(type(each).__name__ in ("Constant", "QuestionSpan", "QuestionNumber") for each in operands)
        assert literals == outside
