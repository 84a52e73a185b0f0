"""Programs: one canonical form, one linear form, one readable form; each comes back as the same program."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.examples import DateAnswer
from bonafide.tasks.discrete.checking import check, problems
from bonafide.tasks.discrete.execution import execute, number_text
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import formula, parse_program, program_text
from bonafide.tasks.discrete.passage import read
from bonafide.tasks.discrete.program import (
    ActionKind,
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
    from_actions,
)
from discrete_programs import every_program, programs, readings

LANGUAGE = Language(max_items=4)
TOY = read(
    "How many of the 5 towns, Ghent or Bruges, lost more?",
    "Ghent lost 41 men and Bruges 38 on 24–26 October 1596, a 1.5% loss; peace came on 1 May 1598.",
)
NUMBERS = [str(each.value) for each in TOY.passage.numbers]


def number(value: str) -> Number:
    return Number(NUMBERS.index(value))


def span(text: str) -> PassageSpan:
    words = TOY.passage.tokens.words
    first = words.index(text.split()[0])
    return PassageSpan(first, first + len(text.split()) - 1)


def date(day: int | None, month: int | None, year: int | None) -> Date:
    found = [(each.day, each.month, each.year) for each in TOY.passage.dates]
    return Date(found.index((day, month, year)))


ONE_OF_EACH = [
    (Program(Operator.VALUE, (number("41"),)), Fraction(41), "41"),
    (Program(Operator.ADD, (number("41"), number("38"))), Fraction(79), "41 + 38"),
    (Program(Operator.SUBTRACT, (Constant(0), number("3/2"))), Fraction(197, 2), "100 − 1.5%"),
    (Program(Operator.ADD_ADD, (number("41"), number("38"), QuestionNumber(0))), Fraction(84), "41 + 38 + 5"),
    (Program(Operator.ADD_SUBTRACT, (number("41"), number("38"), Constant(1))), Fraction(78), "41 + 38 − 1"),
    (
        Program(Operator.SUBTRACT_SUBTRACT, (number("1598"), number("41"), number("38"))),
        Fraction(1519),
        "1598 − 41 − 38",
    ),
    (Program(Operator.MAX, (number("41"), number("38"))), Fraction(41), "max(41, 38)"),
    (Program(Operator.MIN, (number("41"), number("38"))), Fraction(38), "min(41, 38)"),
    (Program(Operator.COUNT, (span("Ghent"), span("Bruges"))), Fraction(2), "count(Ghent, Bruges)"),
    (Program(Operator.COUNT, ()), Fraction(0), "count()"),
    (
        Program(Operator.SPANS, (span("Ghent"), QuestionSpan(9, 9))),
        ("Ghent", "Bruges"),
        "Ghent and Bruges",
    ),
    (
        Program(Operator.ARGMAX, (Pair(span("Ghent"), number("41")), Pair(span("Bruges"), number("38")))),
        ("Ghent",),
        "argmax(Ghent: 41, Bruges: 38)",
    ),
    (
        Program(Operator.ARGMIN, (Pair(span("loss"), date(26, 10, 1596)), Pair(span("peace"), date(1, 5, 1598)))),
        ("loss",),
        "argmin(loss: 26 October 1596, peace: 1 May 1598)",
    ),
    (
        Program(Operator.YEARS, (date(26, 10, 1596), date(1, 5, 1598))),
        Fraction(1),
        "years(26 October 1596, 1 May 1598)",
    ),
    (
        Program(Operator.MONTHS, (date(26, 10, 1596), date(1, 5, 1598))),
        Fraction(19),
        "months(26 October 1596, 1 May 1598)",
    ),
    (
        Program(Operator.DAYS, (date(24, 10, 1596), date(26, 10, 1596))),
        Fraction(2),
        "days(24 October 1596, 26 October 1596)",
    ),
    (Program(Operator.DATE, (date(24, 10, 1596),)), DateAnswer("24", "October", "1596"), "24 October 1596"),
    (
        Program(Operator.DATE, (date(24, 10, None), date(None, None, 1598))),
        DateAnswer("24", "October", "1598"),
        "24 October 1598",
    ),
]


@pytest.mark.parametrize(("program", "value", "shown"), ONE_OF_EACH, ids=lambda each: getattr(each, "operator", ""))
def test_each_operator_returns_what_it_says(program, value, shown):
    check(program, TOY, LANGUAGE)
    assert execute(program, TOY, LANGUAGE) == value
    assert formula(program, TOY, LANGUAGE) == shown
    assert parse_program(program_text(program, TOY, LANGUAGE), TOY, LANGUAGE) == program
    assert from_actions(program.actions) == program


def test_a_number_that_is_read_as_another_is_shown_with_its_value():
    reading = read("How long?", "The war of 1914–18.")
    program = parse_program('subtract(n2 "18", n0 "1914")', reading, LANGUAGE)
    assert formula(program, reading, LANGUAGE) == "18 (1918) − 1914"


def test_every_operator_is_tried_above():
    assert {program.operator for program, _, _ in ONE_OF_EACH} == set(Operator)


@settings(deadline=None)
@given(st.data())
def test_a_program_comes_back_from_its_actions_and_from_its_text_and_can_be_executed(data):
    reading = data.draw(readings)
    program = data.draw(programs(reading, LANGUAGE))
    if program is None:
        return
    assert from_actions(program.actions) == program
    assert parse_program(program_text(program, reading, LANGUAGE), reading, LANGUAGE) == program
    execute(program, reading, LANGUAGE)
    shuffled = Program(program.operator, tuple(data.draw(st.permutations(program.arguments))))
    if canonical(shuffled) == program:
        assert as_set(execute(shuffled, reading, LANGUAGE)) == as_set(execute(program, reading, LANGUAGE))


def as_set(value: object) -> object:
    """Texts come in the order of the arguments; the answer is the same in any."""
    return sorted(value) if isinstance(value, tuple) else value


@settings(deadline=None, max_examples=25)
@given(readings)
def test_no_two_programs_share_a_linear_form(reading):
    language = Language(max_items=2, max_span_tokens=1, constants=(100,))
    for operator in set(Operator) - {Operator.ARGMAX, Operator.ARGMIN}:
        found = list(every_program(operator, reading, language))
        assert len(found) == len(set(found)) == len({program.actions for program in found})
        for program in found:
            assert program.actions[0] == (ActionKind.OPERATOR, operator)


def test_order_that_does_not_matter_makes_no_other_program():
    one, other = number("41"), number("38")
    assert canonical(Program(Operator.ADD, (other, one))) == Program(Operator.ADD, (one, other))
    subtracted = Program(Operator.SUBTRACT, (other, one))
    assert canonical(subtracted) == subtracted
    assert canonical(Program(Operator.MAX, (other, one, other))) == Program(Operator.MAX, (one, other))
    pair = Program(Operator.SUBTRACT_SUBTRACT, (number("1598"), other, one))
    assert canonical(pair).arguments == (number("1598"), one, other)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (Program(Operator.VALUE, (Constant(0),)), "expected Number, found Constant"),
        (Program(Operator.VALUE, (Number(99),)), "number 99 does not exist"),
        (Program(Operator.ADD, (number("41"), number("41"))), "stands in it twice"),
        (Program(Operator.ADD, (QuestionNumber(0), Constant(0))), "at most one operand"),
        (Program(Operator.ADD, (number("38"), number("41"))), "not in canonical order"),
        (Program(Operator.ADD, (number("41"),)), "expected 2 arguments, found 1"),
        (Program(Operator.MAX, (number("41"),)), "expected 2 to 4 members, found 1"),
        (Program(Operator.SPANS, ()), "expected 1 to 4 members, found 0"),
        (Program(Operator.SPANS, (PassageSpan(3, 2),)), "no span of the passage"),
        (Program(Operator.SPANS, (QuestionSpan(0, 99),)), "no span of the question"),
        (Program(Operator.DAYS, (date(None, None, 1596), date(1, 5, 1598))), "whole and say their day and month"),
        (Program(Operator.DATE, (date(24, 10, 1596), date(None, None, 1598))), "only what the first does not"),
        (
            Program(Operator.ARGMAX, (Pair(span("Ghent"), number("41")), Pair(span("Bruges"), date(1, 5, 1598)))),
            "all numbers or all dates",
        ),
    ],
)
def test_what_is_no_program_is_refused_in_words(program, said):
    with pytest.raises(BonafideError, match=said):
        check(program, TOY, LANGUAGE)


def test_the_language_bounds_what_is_a_program():
    three = Program(Operator.ADD_ADD, (number("41"), number("38"), QuestionNumber(0)))
    assert not problems(three, TOY, LANGUAGE)
    assert "at most 2 operands" in problems(three, TOY, Language(max_operands=2))[0]
    assert "no numbers of the question" in problems(three, TOY, Language(question_numbers=False))[0]
    long = Program(Operator.SPANS, (PassageSpan(0, 5),))
    assert "the longest has 3" in problems(long, TOY, Language(max_span_tokens=3))[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sum(n0)", "begins with an operator"),
        ("value(n0)", "in quotes"),
        ('value(n0 "42")', "is '41' in this reading"),
        ('value(n99 "1")', "does not exist"),
        ('value(n0 "41"', "closing bracket"),
        ('value(n0 "41") or so', "Nothing may follow"),
        ("value(41)", "Expected an argument"),
        ("count(,", "Expected an argument"),
        ("count(:", "Expected an argument"),
        ('argmax(n0 "41": n1 "38")', "A pair is a span"),
        ('argmax(p0-0 "Ghent": n0 "41": n1 "38")', "one key and one value"),
    ],
)
def test_a_text_that_is_no_program_is_refused_in_words(text, said):
    with pytest.raises(BonafideError, match=said):
        parse_program(text, TOY, LANGUAGE)


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ([], "breaks off"),
        ([(2, 0)], "expected OPERATOR, found NUMBER"),
        ([(0, Operator.ADD), (2, 0)], "breaks off"),
        ([(0, Operator.VALUE), (2, 0), (1, 0)], "go on after the end"),
        ([(0, Operator.SPANS), (6, 0), (2, 0)], "expected END, found NUMBER"),
        ([(0, Operator.VALUE), (7, 0)], "expected an argument, found END"),
    ],
)
def test_actions_that_are_no_program_are_refused_in_words(actions, said):
    with pytest.raises(BonafideError, match=said):
        from_actions(actions)


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=4))
def test_numbers_are_written_exactly(value):
    assert Fraction(number_text(Fraction(value))) == Fraction(value)
    assert number_text(Fraction(1, 3)) == "0.333333333333"
    assert number_text(Fraction(-1, 30_000)) == "-0.0000333333333333"
    assert number_text(Fraction(10**16, 3)) == "3333333333330000"
    assert not number_text(Fraction(value)).endswith(".")
