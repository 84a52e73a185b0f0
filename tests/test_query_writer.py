"""The SQL solver that writes: queries as text and back, the text solver's own probabilities, a run like any other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.examples import read_gold
from bonafide.learn.data import load_training_data, thinned
from bonafide.learn.recipe import Recipe
from bonafide.learn.saved import load
from bonafide.learn.sql import SqlLearning
from bonafide.learn.trainer import train
from bonafide.learn.writer import QueryWriter, WriterSpec, build_query_writer
from bonafide.rendering import SpanReference
from bonafide.report.runs import evaluate_run
from bonafide.report.selection_task import draw_questions, select
from bonafide.synth.sql import generate
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.rendering import rendered
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.written import header_text, query_texts, read_query
from bonafide.tasks.text.solver import TextSpec
from tiny_bart import write_bart
from tiny_runs import recipe, weights, write_data

torch.set_num_threads(1)
TASK = SqlLearning()
TABLE = Table(
    "t",
    ("City", "Order price", "where", "a ( b )", "City and country", "CITY"),
    ("text", "real", "text", "real", "text", "text"),
    [("Oslo", 12, "here", 2.5, "Oslo, Norway", "x")],
)


def set_of(*queries: Query) -> QuerySet:
    """A set of these queries, all on conditions of their own."""
    conditions = [sorted(query.conditions, key=lambda each: (each.column, each.operator)) for query in queries]
    flat = [each for listed in conditions for each in listed]
    where = np.full((len(queries), max(map(len, conditions))), -1, np.int32)
    place = 0
    for row, listed in enumerate(conditions):
        where[row, : len(listed)] = np.arange(place, place + len(listed))
        place += len(listed)
    return QuerySet(
        tuple(GroundedCondition(each, ()) for each in flat),
        np.array([query.select for query in queries], np.int32),
        np.array([query.aggregate for query in queries], np.int8),
        where,
        len(queries),
        True,
    )


# --- Text -----------------------------------------------------------------------------------------------------


def test_a_query_is_written_in_plain_words_and_lower_case() -> None:
    mean = Query(
        1, Aggregate.MEAN, frozenset({Condition(3, Operator.BELOW, 2.5), Condition(0, Operator.EQUAL, "oslo")})
    )
    assert query_texts(set_of(mean, Query(0, Aggregate.NONE, frozenset())), TABLE) == [
        "select average ( order price ) where city = oslo and a ( b ) < 2.5",
        "select none ( city ) where",
    ]
    assert header_text(TABLE) == "city ; order price ; where ; a ( b ) ; city and country ; city"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_every_solution_of_a_search_is_read_back_from_what_is_written(seed: int) -> None:
    tables, pairs = generate(1, 3, seed=seed, split="train")
    for example, _ in pairs:
        table = next(each for each in tables if each.id == example.context)
        found = search(example.question, example.values, table, Language(max_conditions=2), cap=200, seed="x")
        texts, shown = query_texts(found, table), rendered(found, table)
        assert [read_query(text, table) for text in texts] == list(found)
        assert len(set(texts)) == len(texts)
        pieces = [
            shown.context[each.start : each.end] if isinstance(each, SpanReference) else each.text for each in shown[0]
        ]
        assert texts[0] == " ".join(pieces).lower()  # what the reconstructor reads, by name


NAMES = st.sampled_from([0, 1, 2, 3, 4])
WORDS = st.text(st.sampled_from("abc1 -.,()=<>"), min_size=1).map(str.strip).filter(bool)


@settings(max_examples=200, deadline=None)
@given(NAMES, st.sampled_from(Aggregate), st.lists(st.tuples(NAMES, st.sampled_from(Operator), WORDS), max_size=3))
def test_names_that_look_like_words_of_the_language_are_read_as_names(
    select: int, aggregate: Aggregate, parts: list[tuple[int, Operator, str]]
) -> None:
    conditions = frozenset(
        Condition(column, operator, 7.5 if TABLE.types[column] == "real" else value)
        for column, operator, value in parts
    )
    query = Query(select, aggregate, conditions)
    (text,) = query_texts(set_of(query), TABLE)
    assert read_query(text, TABLE) == query


@pytest.mark.parametrize(
    "text",
    [
        "",
        "select",
        "select max ( city )",
        "select most ( city ) where",
        "select max ( country ) where",
        "select max ( city ) where oslo",
        "select max ( city ) where city = ",
        "select max ( city ) where city ~ oslo",
        "select max ( city ) where x and city = oslo",
        "select max ( city ) where city = oslo and city > ",
    ],
)
def test_a_text_that_is_no_query_is_none(text: str) -> None:
    assert read_query(text, TABLE) is None


def test_of_columns_that_are_written_the_same_the_first_is_read() -> None:
    both = set_of(Query(0, Aggregate.NONE, frozenset()), Query(5, Aggregate.NONE, frozenset()))
    first, second = query_texts(both, TABLE)
    assert first == second
    assert read_query(second, TABLE) == both[0]


# --- Solver ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def bart(data: Path) -> Path:
    lines = (data / "train" / "examples.jsonl").read_text().splitlines()
    return write_bart(data / "tiny-bart", [json.loads(line)["question"].lower() for line in lines])


def writing(data: Path, bart: Path, method: str, epochs: float, **changed: object) -> Recipe:
    solver = {"kind": "text", "encoder": str(bart)}
    rates = {"epochs": epochs, "encoder_rate": 5e-3, "head_rate": 5e-3, "select_by": "last", "evaluate_every": epochs}
    return recipe(data, method, solver=solver, data={"max_solutions": 12, "simplest": 0.5, **changed}, train=rates)


@pytest.fixture(scope="module")
def taught(data: Path, bart: Path) -> Path:
    """On gold: the other tests want a solver that knows something."""
    train(writing(data, bart, "supervised", 30.0), data / "taught")
    return data / "taught"


def test_log_p_of_a_query_is_that_of_its_text() -> None:
    question, table = "Which price in Oslo?", TABLE
    queries = set_of(
        Query(1, Aggregate.MAX, frozenset({Condition(0, Operator.EQUAL, "oslo")})),
        Query(0, Aggregate.NONE, frozenset()),
    )
    spec = WriterSpec(TextSpec(layers=1, width=16, heads=2, vocabulary=300), Language(max_conditions=2))
    writer = build_query_writer(spec, [question, *table.header], seed=1).eval()
    assert writer.spec.language.max_conditions == 2
    batch = writer.collate([writer.features(question, table, queries)])
    said = writer.text.collate(
        [writer.text.features(question.lower(), header_text(table), query_texts(queries, table))]
    )
    with torch.no_grad():
        found = writer.log_prob(writer(batch), batch)
        torch.testing.assert_close(found, writer.text.log_prob(writer.text(said), said), rtol=0, atol=0)
    assert torch.isfinite(found).all()
    assert found[0] != found[1]


def test_a_solver_that_was_taught_gold_writes_queries_that_run_and_finds_gold(data: Path, taught: Path) -> None:
    model = load(taught)
    assert isinstance(model.solver, QueryWriter)
    examples, gold = data / "train" / "examples.jsonl", data / "train" / "gold.jsonl"
    whole = evaluate_run(taught, examples, gold=gold, out=data / "predictions.jsonl", model=model)
    assert whole.figures["execution"]["share"] > 0.5
    assert whole.figures["logical_form"]["share"] > 0.5
    split = TASK.open_split(data / "train")
    questions, _ = draw_questions(
        TASK, split, read_gold(gold), TASK.open_store(data / "solutions"), recipe(data, "mimax")
    )
    chosen = select(model, questions)
    untaught = build_query_writer(model.solver.spec, seed=0).eval()
    chance = select(type(model)(untaught, None, None, model.about), questions)
    assert np.mean([each.solver for each in chosen.choices]) > 0.7 > np.mean([each.solver for each in chance.choices])
    assert chosen.confidence > chance.confidence


def test_what_is_written_is_what_is_scored(data: Path, taught: Path) -> None:
    model, split = load(taught), TASK.open_split(data / "train")
    example = next(iter(split.file))
    table = split.context_of(example)
    found = model.predict(table, example.question, top=4, beam=4)
    assert [each.log_probability for each in found] == sorted((each.log_probability for each in found), reverse=True)
    batch = model.solver.collate([model.solver.features(example.question, table, set_of(found[0].query))])
    with torch.no_grad():
        exact = float(model.solver.log_prob(model.solver(batch), batch))
    assert found[0].log_probability == pytest.approx(exact, abs=1e-3)
    guided = model.predict(table, example.question, top=4, beam=4, execution_guided=True)
    kept = [each for each in found if each.answer not in (None, [], [None])]
    assert [each.query for each in guided] == [each.query for each in kept or found]


def test_a_solver_that_writes_no_query_predicts_nothing_and_is_wrong(data: Path, taught: Path) -> None:
    model = load(taught)
    for parameter in model.solver.parameters():
        torch.nn.init.zeros_(parameter)
    split = TASK.open_split(data / "train")
    example = next(iter(split.file))
    assert model.predict(split.context_of(example), example.question) == []
    examples = data / "dev" / "examples.jsonl"
    whole = evaluate_run(taught, examples, gold=data / "dev" / "gold.jsonl", out=data / "nothing.jsonl", model=model)
    assert whole.figures["execution"]["share"] == 0


def test_hard_em_trains_it_and_a_run_goes_on_to_the_same_weights(data: Path, bart: Path, tmp_path: Path) -> None:
    wanted = writing(data, bart, "hard-em", 2.0)
    train(wanted, tmp_path / "whole")
    seen: list[int] = []

    def stop(progress: object) -> None:
        seen.append(1)
        if len(seen) == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(wanted, tmp_path / "parts", watcher=stop)
    train(wanted, tmp_path / "parts", resume=True)
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["data"]["unreachable"] == 0


# --- Candidates -----------------------------------------------------------------------------------------------


def test_a_sampled_set_keeps_the_simplest_and_draws_the_rest(data: Path, bart: Path) -> None:
    store = TASK.open_store(data / "solutions")
    name, solutions = max(store, key=lambda pair: len(pair[1]))
    assert len(solutions) > 60
    kept = thinned(TASK, solutions, 20, name, seed=0, simplest=0.5)
    assert len(set(kept)) == len(kept) == 20
    assert not kept.complete
    operations = np.sort(TASK.operations(solutions))
    assert np.sort(TASK.operations(kept))[:10].tolist() == operations[:10].tolist()
    assert TASK.operations(kept).max() > operations[10]
    again, other = (thinned(TASK, solutions, 20, name, seed, 0.5) for seed in (0, 1))
    assert list(again) == list(kept) != list(other)
    everything = thinned(TASK, solutions, 20, name, 0, 1.0)
    assert np.sort(TASK.operations(everything)).tolist() == operations[:20].tolist()


def test_the_draw_of_candidates_does_not_look_at_gold(data: Path, bart: Path, tmp_path: Path) -> None:
    wanted = writing(data, bart, "hard-em", 1.0)
    before = [list(item.solutions) for item in load_training_data(wanted, tmp_path).items]
    gold = data / "train" / "gold.jsonl"
    kept = gold.read_bytes()
    try:
        gold.unlink()
        assert [list(item.solutions) for item in load_training_data(wanted, tmp_path).items] == before
    finally:
        gold.write_bytes(kept)
    assert max(map(len, before)) == 12


def test_settings_that_make_no_sense_are_refused(data: Path) -> None:
    with pytest.raises(BonafideError, match=r"data.simplest is a share, from 0 to 1; found 30.0"):
        recipe(data, "hard-em", data={"simplest": 30})
    with pytest.raises(BonafideError, match=r"solver.kind: expected one of slots, text, found 'bart'"):
        recipe(data, "hard-em", solver={"kind": "bart"})
    with pytest.raises(BonafideError, match=r"solver.kind is for the task sql"):
        recipe(data, "hard-em", data={"task": "text"}, solver={"kind": "text"})


def test_an_encoder_that_cannot_write_is_refused() -> None:
    with pytest.raises(BonafideError, match="a BART is needed"):
        build_query_writer(WriterSpec(TextSpec(encoder="minilm")))
