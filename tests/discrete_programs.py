"""Every program of a small language over a small reading, by brute force; and random readings to try it on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations

from hypothesis import strategies as st

from bonafide.tasks.discrete.checking import problems
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.passage import Passage, Reading
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

NUMBERS = ["3", "7", "10", "4", "1.5", "2.5", "1648", "1653", "twelve", "third", "two", "20%", "2.3 million", "21–7"]
DATES = ["24 October 1596", "24–26 October 1596", "3 May", "June 1644", "1 May to 3 June 1644", "July 4, 1776", "1700"]
WORDS = ["Ann", "the siege", "Bo", "of Ghent,", "wool", "a 4-yard run.", "goals", "and", "(peace)"]

pieces = st.sampled_from(NUMBERS + DATES + WORDS)
readings = st.builds(
    lambda question, passage: Reading(Passage(" ".join(question)), Passage(" ".join(passage))),
    st.lists(pieces, min_size=1, max_size=4),
    st.lists(pieces, min_size=1, max_size=7),
)


def arguments_of(kind: type, reading: Reading, language: Language) -> list[Argument]:
    """Everything of this kind that a program over the reading could point at."""
    if kind is Number:
        return [Number(index) for index in range(len(reading.passage.numbers))]
    if kind is QuestionNumber:
        return [QuestionNumber(index) for index in range(len(reading.question.numbers))]
    if kind is Constant:
        return [Constant(index) for index in range(len(language.constants))]
    if kind is Date:
        return [Date(index) for index in range(len(reading.passage.dates))]
    if kind is Pair:
        keys = [each for kind in (PassageSpan, QuestionSpan) for each in arguments_of(kind, reading, language)]
        values = [each for kind in (Number, Date) for each in arguments_of(kind, reading, language)]
        return [Pair(key, value) for key in keys for value in values]  # type: ignore[arg-type]
    tokens = len(reading.passage if kind is PassageSpan else reading.question)
    return [
        kind(first, last)
        for first in range(tokens)
        for last in range(first, min(first + language.max_span_tokens, tokens))
    ]


def every_program(operator: Operator, reading: Reading, language: Language) -> Iterator[Program]:
    """The programs of the language with this operator, each once: try everything, keep what passes the check."""
    signature = SIGNATURES[operator]
    arguments = [each for kind in signature.takes for each in arguments_of(kind, reading, language)]
    if signature.is_set:
        most = MOST_DATES if operator is Operator.DATE else language.max_items
        chosen = (each for size in range(signature.least, most + 1) for each in combinations(arguments, size))
    else:
        chosen = permutations(arguments, sum(signature.groups))
    for each in chosen:
        program = Program(operator, tuple(each))
        if (not signature.is_set and canonical(program) != program) or problems(canonical(program), reading, language):
            continue
        yield canonical(program)


@st.composite
def programs(draw: st.DrawFn, reading: Reading, language: Language) -> Program | None:
    """A random program over the reading; None where the operator that was drawn has none."""
    operator = draw(st.sampled_from(Operator))
    signature = SIGNATURES[operator]
    pool = [each for kind in signature.takes for each in arguments_of(kind, reading, language)]
    most = MOST_DATES if operator is Operator.DATE else language.max_items
    sizes = (signature.least, most) if signature.is_set else (sum(signature.groups),) * 2
    if len(pool) < sizes[0]:
        return None
    chosen = draw(
        st.lists(st.sampled_from(pool), min_size=sizes[0], max_size=sizes[1], unique=True) if pool else st.just([])
    )
    program = canonical(Program(operator, tuple(chosen)))
    return None if problems(program, reading, language) else program
