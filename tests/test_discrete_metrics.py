"""DROP's metric gives the official figures, flaws included, and the right ones where it is asked to mend them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.examples import DateAnswer
from bonafide.tasks.discrete.metrics import answer_texts, answer_type, exact_match_and_f1, normalised, score

spans = st.lists(st.text(alphabet="ab 1-.", min_size=1, max_size=6), min_size=1, max_size=3)


@pytest.mark.parametrize("official", [True, False])
@pytest.mark.parametrize(
    ("predicted", "gold", "exact", "f1"),
    [
        (["78"], ["78.0"], 1, 1),
        (["78-yard"], ["78 yard"], 1, 1),
        (["78"], ["78-yard"], 0, 0.67),
        (["td"], ["td", "td"], 0, 0.5),
        (["yard"], ["36 yard td"], 0, 0),
        (["23 yards"], ["43 yards"], 0, 0),
        (["56 yards"], ["56 yd"], 0, 0.5),
        (["23", "23 yard"], ["23-yard", "56 yards"], 0, 0.5),
        (["John Karman", "Joe Hardy"], ["Joe Karman", "John Hardy"], 0, 0.5),
        (["John Elton"], ["Elton John"], 0, 1),
    ],
)
def test_the_evaluator_s_own_vectors(predicted, gold, exact, f1, official):
    assert exact_match_and_f1(predicted, gold, official) == (exact, f1)


@pytest.mark.parametrize(
    ("text", "flawed", "mended"),
    [
        ("$3.14", "314.0", "3.14"),
        ("3.5%", "35.0", "3.5"),
        ("78\nyards", "78 yards", "78.0 yards"),
        ("1,000", "1000.0", "1000.0"),
        ("The U.S.", "us", "us"),
        (".75", "0.75", "0.75"),
        ("a 12–15 win", "12–15 win", "12.0 15.0 win"),
    ],
)
def test_known_flaws_of_the_normalisation_are_kept_or_mended(text, flawed, mended):
    assert (normalised(text), normalised(text, official=False)) == (flawed, mended)


@given(spans, spans, st.booleans())
def test_scores_are_bounded_and_exact_match_means_full_f1(predicted, gold, official):
    exact, f1 = exact_match_and_f1(predicted, gold, official)
    assert 0 <= f1 <= 1
    said_twice = len({normalised(span) for span in gold}) < len(gold)
    if exact and all(normalised(span, official) for span in gold) and not (official and said_twice):
        assert f1 == 1
    assert exact_match_and_f1(gold, gold, official)[0] == 1
    assert exact_match_and_f1(predicted[::-1], gold, official) == (exact, f1)


def test_how_often_a_span_is_said_counts_where_the_flaw_is_mended():
    predicted, gold = ["Ann", "Ann", "Bo"], ["Ann", "Bo", "Bo"]
    assert exact_match_and_f1(predicted, gold) == (1, 0.67)
    assert exact_match_and_f1(predicted, gold, official=False) == (0, 0.67)


def test_the_best_of_all_accepted_answers_counts_and_names_the_type():
    answers = ("Oslo", 5, ("Oslo", "Riga"), DateAnswer("", "May", "1644"))
    assert score(["Riga", "Oslo"], answers).answer_type == "spans"
    assert score(["May 1644"], answers).exact_match == 1
    assert score(["5"], answers) == score(["5.0"], answers)
    assert score(["5"], answers).answer_type == "number"
    assert score(["Bergen"], answers).f1 == 0
    assert score(["Bergen"], ("  ", None, "Bergen")).exact_match == 1
    assert score([], answers).exact_match == 0


@pytest.mark.parametrize("official", [True, False])
@given(number=st.integers(-(10**6), 10**6), places=st.integers(0, 25))
def test_a_number_is_right_where_it_is_written_out_however_small_or_large(official, number, places):
    for written, answer in (
        (f"{Decimal(number).scaleb(-places):f}", number / 10**places),
        (str(number * 10**places), float(number * 10**places)),
    ):
        assert score([written], (answer,), official).exact_match == 1
        assert "e" not in answer_texts(answer)[0]


def test_each_type_of_answer_is_told_and_written():
    answers = (3, 2.5, "a", ("a",), ("a", "b"), DateAnswer("24", "October", ""), None)
    types = [answer_type(answer) for answer in answers]
    assert types == ["number", "number", "span", "span", "spans", "date", "span"]
    assert [answer_texts(answer) for answer in answers] == [
        ("3",), ("2.5",), ("a",), ("a",), ("a", "b"), ("24 October",), (),
    ]  # fmt: skip
