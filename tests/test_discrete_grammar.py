"""The grammar mask admits exactly the programs of the language."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.tasks.discrete.execution import execute
from bonafide.tasks.discrete.grammar import Allowed, advance, allowed, beginning
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.options import Options, Readable, options_of, stacked
from bonafide.tasks.discrete.passage import Reading, read
from bonafide.tasks.discrete.program import Operator, Program, from_actions
from discrete_programs import every_program

SMALL = Language(constants=(100,), max_span_tokens=1, max_items=2)
PASSAGES = [
    "",
    "a b",
    "7",
    "7 b",
    "7 9",
    "7 8 9",
    "7 8 9 4",
    "May 1648",
    "3 May 1648",
    "1648 or 1653",
    "3 May , 4 June",
    "1 May to 3 June",
    "4 – 6 May 1596",
    "June 7 in 1648",
]


def admitted(options: Options) -> Iterator[tuple[int, ...]]:
    """Every sequence of options that the mask lets through, by walking all of them, one level at a time."""
    table = options.date_table()
    states, paths = beginning(1), [()]
    while paths:
        sets = allowed(options, states)
        columns = Allowed(*(array[:, None] for array in sets.array.T))
        mask = columns.has(np.arange(int(options.total[0]))[None], table)  # (states, options)
        assert mask.any(axis=1).all(), f"nothing can follow {options.actions(paths[int(mask.any(axis=1).argmin())])}"
        rows, chosen = np.nonzero(mask)
        states = advance(options, states.take(rows), chosen)
        paths = [(*paths[row], option) for row, option in zip(rows.tolist(), chosen.tolist(), strict=True)]
        yield from (path for path, done in zip(paths, states.done, strict=True) if done)
        going = np.flatnonzero(~states.done)
        states, paths = states.take(going), [paths[row] for row in going]


def whole_language(reading: Reading, language: Language) -> set[Program]:
    return {program for operator in Operator for program in every_program(operator, reading, language)}


def assert_same(reading: Reading, language: Language) -> None:
    options = options_of(reading, language)
    found = [from_actions(options.actions(path)) for path in admitted(options)]
    wanted = whole_language(reading, language)
    assert len(found) == len(set(found)), "a program has two sequences"
    assert set(found) - wanted == set(), "the mask admits what is no program"
    assert wanted - set(found) == set(), "the mask leaves out a program"


@pytest.mark.parametrize("passage", PASSAGES)
@pytest.mark.parametrize("question", ["who", "5 or"])
def test_the_mask_admits_exactly_the_programs_of_the_language(passage: str, question: str) -> None:
    assert_same(read(question, passage), SMALL)
    if len(read(question, passage).passage) < 4:
        assert_same(read(question, passage), Language((), question_numbers=False, max_span_tokens=2, max_items=2))


@settings(max_examples=60, deadline=None)
@given(
    passage=st.lists(st.sampled_from(["7", "8", "1648", "May", "3 May", "x", "June 1653"]), max_size=3).map(" ".join),
    question=st.sampled_from(["who", "who is", "5", "5 6"]),
    constants=st.sampled_from([(), (100,), (100, 1)]),
    operands=st.integers(1, 3),
    others=st.booleans(),
    tokens=st.integers(1, 2),
)
def test_on_any_reading_and_language_the_mask_admits_exactly_the_programs(
    passage: str, question: str, constants: tuple[int, ...], operands: int, others: bool, tokens: int
) -> None:
    assert_same(
        read(question, passage),
        Language(constants, operands, question_numbers=others, max_span_tokens=tokens, max_items=2),
    )


def test_sets_of_three_are_admitted_exactly() -> None:
    assert_same(read("who", "7 8"), Language((), max_span_tokens=2, max_items=3))


def test_every_admitted_program_can_be_executed() -> None:
    reading = read("in 5 or", "3 May 1648 , 7 in June 1653")
    options = options_of(reading, SMALL)
    for path in admitted(options):
        execute(from_actions(options.actions(path)), reading, SMALL)


def test_the_options_of_a_cut_text_are_those_of_a_shorter_text() -> None:
    whole, cut = read("5 or 6", "7 8 of May 9"), read("5", "7 8")
    seen = options_of(whole, SMALL, Readable(1, 2))
    programs = {from_actions(seen.actions(path)) for path in admitted(seen)}
    assert programs == whole_language(cut, SMALL)


def test_states_of_several_examples_advance_together_as_they_do_alone() -> None:
    readings = [read("who", "7 8 9"), read("5 or 6", "3 May 1648 to 4 June 1653"), read("who", "")]
    rows = [options_of(reading, SMALL) for reading in readings]
    together = stacked(rows)
    states = beginning(len(rows))
    alone = [beginning(1) for _ in rows]
    chance = np.random.default_rng(0)
    for _ in range(4):
        sets = allowed(together, states).array
        chosen = []
        for place, (options, state) in enumerate(zip(rows, alone, strict=True)):
            mine = allowed(options, state)
            assert mine.array.tolist() == [sets[place].tolist()]
            everything = np.arange(int(options.total[0]))
            chosen.append(int(chance.choice(everything[mine.has(everything, options.date_table())])))
        going = [not state.done[0] for state in alone]
        alone = [
            advance(options, state, np.array([option])) if on else state
            for options, state, option, on in zip(rows, alone, chosen, going, strict=True)
        ]
        moved = advance(together, states, np.array(chosen))
        states = type(states)(
            *(np.where(going, getattr(moved, name), getattr(states, name)) for name in states.__dataclass_fields__)
        )


@pytest.mark.parametrize("passage", PASSAGES)
def test_options_and_actions_are_one_to_one(passage: str) -> None:
    options = options_of(read("5 or 6", passage), SMALL)
    everything = list(range(int(options.total[0])))
    kinds, indices = np.array(options.actions(everything)).T
    assert options.of_actions(kinds, indices).tolist() == everything
    assert options.of_actions(kinds, indices + 1000).tolist() == [-1] * len(everything)
