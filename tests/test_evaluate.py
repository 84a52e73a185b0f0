"""Metrics over predicted queries: hand-made vectors, and what must hold for any prediction."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.errors import BonafideError, InvalidFileError
from bonafide.evaluate import sql as metrics
from bonafide.evaluate.predictions import query_to_json, read_predictions, write_predictions
from bonafide.evaluate.selection import rank_of_gold, selection
from bonafide.evaluate.sql import (
    Accuracy,
    Slots,
    SqlPrediction,
    by_set_size,
    execution_right,
    judge_all,
    logical_form_equal,
    score,
)
from bonafide.examples import Example, Gold
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Query, execute, parse_query
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table

TABLE = Table(
    "orders",
    ("City", "Customer", "Price", "Units"),
    ("text", "text", "real", "real"),
    [("Oslo", "Ada", 10, 3), ("Lyon", "Ben", 20, 3), ("Oslo", "Ben", 30, 1), ("Bern", "3", 40, 2)],
)


def query(select, aggregate, *conditions) -> Query:
    return parse_query({"sel": select, "agg": aggregate, "conds": list(conditions)}, TABLE)


GOLD = query(2, 0, [0, 0, "Oslo"], [3, 1, 2])


@pytest.mark.parametrize(
    ("predicted", "equal", "column", "aggregate", "number", "columns", "operators", "values"),
    [
        (query(2, 0, [0, 0, "Oslo"], [3, 1, 2]), 1, 1, 1, 1, 1, 1, 1),
        (query(2, 0, [3, 1, "2"], [0, 0, "oslo"]), 1, 1, 1, 1, 1, 1, 1),
        (query(3, 0, [0, 0, "Oslo"], [2, 1, 2]), 0, 0, 1, 1, 0, 1, 1),
        (query(2, 1, [0, 0, "Oslo"], [3, 1, 2]), 0, 1, 0, 1, 1, 1, 1),
        (query(2, 0, [0, 0, "Oslo"]), 0, 1, 1, 0, 0, 0, 0),
        (query(2, 0, [1, 0, "Oslo"], [3, 1, 2]), 0, 1, 1, 1, 0, 1, 1),
        (query(2, 0, [0, 0, "Oslo"], [3, 2, 2]), 0, 1, 1, 1, 1, 0, 1),
        (query(2, 0, [0, 0, "Lyon"], [3, 1, 2]), 0, 1, 1, 1, 1, 1, 0),
        (query(2, 5), 0, 1, 0, 0, 0, 0, 0),
        (query(2, 0, [0, 1, "Oslo"], [3, 0, 2]), 0, 1, 1, 1, 1, 0, 1),
        (query(2, 0, [0, 0, "2"], [3, 1, 2]), 0, 1, 1, 1, 1, 1, 0),
    ],
)
def test_each_slot_is_judged_by_itself(predicted, equal, column, aggregate, number, columns, operators, values):
    assert logical_form_equal(predicted, GOLD) == equal
    assert metrics.slots(predicted, GOLD) == Slots(*map(bool, (column, aggregate, number, columns, operators, values)))


def test_a_number_and_its_text_are_the_same_value_in_another_column():
    assert metrics.values_equal(query(0, 0, [1, 0, "3"]), query(0, 0, [3, 0, 3]))
    assert not metrics.condition_columns_equal(query(0, 0, [1, 0, "3"]), query(0, 0, [3, 0, 3]))


@pytest.mark.parametrize(
    ("predicted", "answers", "right"),
    [
        (query(2, 0, [0, 0, "oslo"]), [10, 30], True),
        (query(2, 0, [0, 0, "oslo"]), [30, 10], False),  # in row order
        (query(2, 1, [0, 0, "oslo"]), [30], True),
        (query(0, 0, [2, 0, 20]), ["LYON"], True),
        (query(0, 0, [2, 0, 99]), [], True),  # empty is right where the answer is empty
        (query(2, 1, [2, 0, 99]), [None], True),
        (query(2, 1, [2, 0, 99]), [], False),
        (query(1, 0, [2, 0, 40]), [3], False),  # '3' is not 3
        (None, [], False),
        (Query(9, Aggregate.NONE, frozenset()), [], False),  # does not fit the table
    ],
)
def test_execution_is_right_when_the_result_is_the_answer(predicted, answers, right):
    assert execution_right(predicted, TABLE, answers) is right


def test_a_query_that_sqlite_refuses_is_wrong():
    wide = Table("wide", ("n",), ("text",), [("9223372036854775807",), ("1",)])
    total = Query(0, Aggregate.SUM, frozenset())
    assert execute(total, wide) is None
    assert not execution_right(total, wide, [None])


def example(name: str, gold: Query) -> Example:
    return Example(name, f"question {name}?", TABLE.id, tuple(execute(gold, TABLE)))


def gold_of(**queries: Query) -> dict[str, Gold]:
    return {name: Gold(name, query_to_json(each)) for name, each in queries.items()}


HAND = {
    "a": query(2, 0, [1, 0, "Ada"]),
    "b": query(2, 0, [1, 0, "Ada"]),
    "c": query(3, 3, [0, 0, "Oslo"]),
    "d": query(0, 0, [2, 1, 35]),
}
PREDICTED = [
    SqlPrediction("a", HAND["a"], -0.1),
    SqlPrediction("b", query(2, 1, [1, 0, "Ada"]), -0.2),  # right answer, wrong reason
    SqlPrediction("c", query(3, 3, [0, 0, "Bern"]), -0.3),
    SqlPrediction("d", None, -math.inf),
]
EXAMPLES = [example(name, each) for name, each in HAND.items()]


def test_scores_count_every_example():
    scores = score(PREDICTED, EXAMPLES, lambda _: TABLE, gold_of(**HAND))
    assert scores.to_json() == {
        "examples": 4,
        "predicted": {"share": 0.75, "right": 3, "of": 4},
        "execution": {"share": 0.5, "right": 2, "of": 4},
        "logical_form": {"share": 0.25, "right": 1, "of": 4},
        "slots": {
            "column": {"share": 0.75, "right": 3, "of": 4},
            "aggregate": {"share": 0.5, "right": 2, "of": 4},
            "number_of_conditions": {"share": 0.75, "right": 3, "of": 4},
            "condition_columns": {"share": 0.75, "right": 3, "of": 4},
            "operators": {"share": 0.75, "right": 3, "of": 4},
            "values": {"share": 0.5, "right": 2, "of": 4},
        },
    }


def test_without_gold_there_is_execution_accuracy_alone():
    scores = score(PREDICTED, EXAMPLES, lambda _: TABLE)
    assert scores.execution == Accuracy(2, 4)
    assert set(scores.to_json()) == {"examples", "predicted", "execution"}


def test_gold_of_some_examples_scores_those():
    scores = score(PREDICTED, EXAMPLES, lambda _: TABLE, gold_of(a=HAND["a"], b=HAND["b"]))
    assert scores.execution.of == 4
    assert scores.logical_form == Accuracy(1, 2)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [(PREDICTED[:3], "'d' has no prediction"), ([*PREDICTED, PREDICTED[0]], "two predictions"),
     ([*PREDICTED, SqlPrediction("e", None, 0.0)], "'e'")],
)  # fmt: skip
def test_predictions_that_do_not_belong_to_the_examples_are_refused(predictions, message):
    with pytest.raises(BonafideError, match=message):
        score(predictions, EXAMPLES, lambda _: TABLE)


def test_scores_by_the_size_of_the_solution_set():
    outcomes = judge_all(PREDICTED, EXAMPLES, lambda _: TABLE, gold_of(**HAND))
    buckets = by_set_size(outcomes, {"a": 1, "b": 2, "c": 9, "d": 1000})
    assert list(buckets) == ["1", "2–9", "1000+"]
    assert buckets["1"].logical_form == Accuracy(1, 1)
    assert buckets["2–9"].execution == Accuracy(1, 2)
    assert list(by_set_size(outcomes, dict.fromkeys(HAND, 15), edges=(10, 20))) == ["10–19"]
    with pytest.raises(BonafideError, match="'d'"):
        by_set_size(outcomes, {"a": 1, "b": 2, "c": 3})


SET = search("price for Ada?", [10], TABLE, Language())


def test_rank_of_gold_follows_the_scores_and_the_first_of_equals_wins():
    gold = query(2, 1, [1, 0, "Ada"])
    place = SET.index_of(gold)
    assert place not in (None, 0)
    scores = np.zeros(len(SET))
    assert rank_of_gold(scores, SET, gold) == place + 1
    scores[place] = 1.0
    assert rank_of_gold(scores, SET, gold) == 1
    scores[-1] = 2.0
    assert rank_of_gold(scores, SET, gold) == (1 if place == len(SET) - 1 else 2)
    for impossible in (-np.inf, -1e30):  # what the model cannot produce it does not select, even alone
        assert rank_of_gold(np.full(len(SET), impossible), SET, gold) == len(SET) + 1
    assert rank_of_gold(scores, SET, query(2, 3)) is None


def test_selection_counts_examples_whose_gold_is_in_the_set():
    gold = query(2, 1, [1, 0, "Ada"])
    right, wrong = np.zeros(len(SET)), np.zeros(len(SET))
    right[SET.index_of(gold)] = 1.0
    found = selection([right, wrong, right, right], [SET] * 4, [gold, gold, query(2, 3), None])
    assert found.accuracy == Accuracy(1, 2)
    assert found.gold_in_set == Accuracy(2, 4)
    assert found.mean_rank == (1 + SET.index_of(gold) + 1) / 2
    assert json.loads(json.dumps(found.to_json()))["accuracy"]["share"] == 0.5
    assert selection([], [], []).accuracy.share == 0.0


@pytest.mark.parametrize("scores", [np.zeros(len(SET) + 1), np.zeros((len(SET), 1)), np.full(len(SET), np.nan)])
def test_scores_that_are_not_one_number_a_solution_are_refused(scores):
    with pytest.raises(BonafideError):
        rank_of_gold(scores, SET, GOLD)
    with pytest.raises(BonafideError, match="same examples"):
        selection([scores], [], [])


conditions = st.tuples(
    st.integers(0, 3), st.integers(0, 2), st.sampled_from(["Oslo", "ada", "Ben", "3", "2.5", "-7", "40", "n/a"])
)
solutions = st.builds(
    lambda select, aggregate, conds: {"sel": select, "agg": aggregate, "conds": [list(each) for each in conds]},
    st.integers(0, 3), st.integers(0, 5), st.lists(conditions, max_size=4),
)  # fmt: skip
queries = solutions.map(lambda solution: parse_query(solution, TABLE))


@given(st.lists(solutions, min_size=1, max_size=5), st.randoms())
def test_gold_scores_one_everywhere_whatever_the_order_of_its_conditions(written, chance):
    golds = {str(place): parse_query(each, TABLE) for place, each in enumerate(written)}
    shuffled = [{**each, "conds": chance.sample(each["conds"], len(each["conds"]))} for each in written]
    predictions = [SqlPrediction(str(place), parse_query(each, TABLE), 0.0) for place, each in enumerate(shuffled)]
    scores = score(
        predictions, [example(name, each) for name, each in golds.items()], lambda _: TABLE,
        {str(place): Gold(str(place), each) for place, each in enumerate(written)},
    )  # fmt: skip
    for accuracy in (scores.execution, scores.logical_form, scores.predicted, *scores.slots.values()):
        assert accuracy == Accuracy(len(written), len(written))


@given(st.lists(st.tuples(st.none() | queries, queries), min_size=1, max_size=8))
def test_no_slot_and_no_execution_is_below_the_logical_form(pairs):
    golds = {str(place): gold for place, (_, gold) in enumerate(pairs)}
    predictions = [SqlPrediction(str(place), predicted, 0.0) for place, (predicted, _) in enumerate(pairs)]
    scores = score(
        predictions, [example(name, each) for name, each in golds.items()], lambda _: TABLE, gold_of(**golds)
    )
    for accuracy in (scores.execution, scores.predicted, *scores.slots.values()):
        assert accuracy.share >= scores.logical_form.share


log_probabilities = st.floats(max_value=0, allow_nan=False) | st.just(-math.inf)


@given(
    st.lists(
        st.builds(
            SqlPrediction, st.text(), st.none() | queries, log_probabilities,
            st.lists(st.tuples(queries, log_probabilities), max_size=3).map(tuple), st.none() | st.integers(1),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_predictions_survive_their_file(tmp_path_factory, predictions):
    path = tmp_path_factory.mktemp("predictions") / "predictions.jsonl"
    write_predictions(path, predictions, lambda _: TABLE)
    assert read_predictions(path, lambda _: TABLE) == predictions


def test_a_line_says_what_was_predicted_and_what_it_returns(tmp_path):
    path = tmp_path / "predictions.jsonl"
    write_predictions(path, [SqlPrediction("a", GOLD, -0.5, ((query(2, 1), -2.0),), 3)], lambda _: TABLE)
    assert json.loads(path.read_text()) == {
        "example": "a",
        "sql": 'SELECT "Price" FROM "orders" WHERE "City" = ? COLLATE NOCASE AND "Units" > ?',
        "parameters": ["oslo", 2],
        "query": {"sel": 2, "agg": 0, "conds": [[0, 0, "oslo"], [3, 1, 2]]},
        "answer": [10.0],
        "log_probability": -0.5,
        "alternatives": [{"query": {"sel": 2, "agg": 1, "conds": []}, "log_probability": -2.0}],
        "rank_of_gold": 3,
    }


def test_every_problem_of_a_file_of_predictions_is_reported(tmp_path):
    path = tmp_path / "predictions.jsonl"
    lines = [
        "[]", "{", '{"example": 3}', '{"example": "x"}', '{"example": "a", "query": 3}',
        '{"example": "a", "query": {"sel": 9, "agg": 0, "conds": []}}', '{"example": "a", "log_probability": "high"}',
        '{"example": "a", "rank_of_gold": 0}', '{"example": "a", "alternatives": {}}',
        '{"example": "a", "alternatives": [{}]}',
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InvalidFileError) as raised:
        read_predictions(path, {"a": TABLE}.__getitem__)
    assert len(raised.value.problems) == len(lines)
