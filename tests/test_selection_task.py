"""The selection task: what is drawn, who is asked, and that its figures are those of scoring all of Z."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.examples import Gold, read_gold
from bonafide.learn.learnable import Split
from bonafide.learn.saved import Model, load
from bonafide.learn.sql import SqlLearning
from bonafide.learn.trainer import train
from bonafide.report.runs import evaluate_run
from bonafide.report.selection_task import Question, draw_questions, select, selection_task
from bonafide.search.sql import search_sql
from bonafide.solutions import SolutionStore, read_manifest
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Query, parse_query
from command_line import bonafide
from tiny_runs import recipe, write_data

torch.set_num_threads(1)
TASK = SqlLearning()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    train(recipe(data, "mimax", train={"epochs": 8.0}), data / "run")
    return data / "run"


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return load(run)


@pytest.fixture(scope="module")
def split(data: Path) -> Split:
    return TASK.open_split(data / "train")


@pytest.fixture(scope="module")
def store(data: Path) -> SolutionStore:
    return TASK.open_store(data / "solutions")


@pytest.fixture(scope="module")
def gold(data: Path) -> dict[str, Gold]:
    return read_gold(data / "train" / "gold.jsonl")


def queries(question: Question) -> list[Query]:
    return [query for each in question.sets for query in each[:]]


def drawn(data: Path, split: Split, gold: dict[str, Gold], store: SolutionStore, **options: int) -> list[Question]:
    return draw_questions(TASK, split, gold, store, recipe(data, "mimax"), **options)[0]


def test_gold_is_among_at_most_ten_different_solutions_of_the_set(
    data: Path, split: Split, gold: dict[str, Gold], store: SolutionStore
) -> None:
    questions = drawn(data, split, gold, store)
    assert len(questions) == len(gold)
    for question in questions:
        listed, whole = queries(question), store[question.example.id]
        true = parse_query(gold[question.example.id].solution, question.context)
        assert listed[question.gold] == true
        assert len(set(listed)) == len(listed) == min(10, len(whole) + (true not in whole))
        assert all(query in whole or query == true for query in listed)


def test_the_draw_depends_on_the_seed_alone(
    data: Path, split: Split, gold: dict[str, Gold], store: SolutionStore
) -> None:
    first, again, other = ([queries(each) for each in drawn(data, split, gold, store, seed=seed)] for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_gold_that_the_search_missed_is_put_beside_the_set_and_gold_that_cannot_be_said_is_counted(
    data: Path, split: Split, gold: dict[str, Gold], store: SolutionStore
) -> None:
    names = [name for name, solutions in store if len(solutions) > 10][:2]
    contexts = {each.id: split.context_of(each) for each in split.file}
    examples = {each.id: each for each in split.file}
    column = contexts[names[0]].header
    word = next(word for word in examples[names[0]].question.split() if word.isalpha())
    wrong = {"sel": len(column) - 1, "agg": 3, "conds": [[0, 0, word]]}  # said, and not what returns the answer
    silent = {"sel": 0, "agg": 0, "conds": [[0, 0, "no such words in the question"]]}
    changed = {names[0]: Gold(names[0], wrong), names[1]: Gold(names[1], silent)}
    missed = parse_query(wrong, contexts[names[0]]) not in store[names[0]]
    assert missed
    questions, left_out = draw_questions(TASK, split, changed, store, recipe(data, "mimax"))
    assert left_out == 1
    (question,) = questions
    assert [len(each) for each in question.sets] == [9, 1]
    assert queries(question)[question.gold] == parse_query(wrong, contexts[names[0]])


def test_with_room_for_all_of_z_it_is_the_accuracy_of_the_argmax_over_z(
    data: Path, run: Path, model: Model, tmp_path: Path
) -> None:
    examples, gold = data / "train" / "examples.jsonl", data / "train" / "gold.jsonl"
    found = selection_task(model, examples, gold, data / "solutions", candidates=100_000)
    whole = evaluate_run(run, examples, gold=gold, out=tmp_path / "predictions.jsonl", model=model)
    inside = {name for name, (solutions, _, _) in whole.ranked.items()
              if parse_query(read_gold(gold)[name].solution, _table(data, name)) in solutions}  # fmt: skip
    chosen = [each for each in found.choices if each.example in inside]
    expected = whole.figures["selection"]
    assert sum(each.solver for each in chosen) == expected["solver"]["accuracy"]["right"]
    assert sum(bool(each.reconstructor) for each in chosen) == expected["reconstructor"]["accuracy"]["right"]
    best = [whole.ranked[each.example][1].max() for each in chosen]
    assert np.allclose([each.log_probability for each in chosen], best, atol=1e-4)


def _table(data: Path, name: str) -> object:
    split = TASK.open_split(data / "train")
    return next(split.context_of(each) for each in split.file if each.id == name)


def test_a_solver_that_knows_gold_selects_it_and_is_sure(
    data: Path, split: Split, gold: dict[str, Gold], store: SolutionStore, model: Model, tmp_path: Path
) -> None:
    train(recipe(data, "supervised", train={"epochs": 12.0, "select_by": "last"}), tmp_path / "taught")
    questions = drawn(data, split, gold, store)
    taught, found = select(load(tmp_path / "taught"), questions), select(model, questions)
    right = [sum(each.solver for each in task.choices) for task in (taught, found)]
    assert right[0] > max(right[1], 0.6 * len(questions))
    assert taught.confidence > found.confidence
    assert taught.choices[0].reconstructor is None
    figures = taught.to_json()
    assert figures["solver"]["low"] < figures["solver"]["share"] < figures["solver"]["high"]
    assert math.isclose(figures["confidence"], np.mean([each.log_probability for each in taught.choices]))


def test_a_store_of_other_examples_is_refused(data: Path, gold: dict[str, Gold], store: SolutionStore) -> None:
    dev = TASK.open_split(data / "dev")
    with pytest.raises(BonafideError, match="was searched over other examples"):
        draw_questions(TASK, dev, gold, store, recipe(data, "mimax"))


def test_gold_of_other_examples_is_called_so(data: Path, gold: dict[str, Gold], tmp_path: Path) -> None:
    search_sql(data / "dev" / "examples.jsonl", tmp_path)
    dev = TASK.open_split(data / "dev")
    with pytest.raises(BonafideError, match="There is gold for none of the examples"):
        draw_questions(TASK, dev, gold, TASK.open_store(tmp_path), recipe(data, "mimax"))


def test_what_is_chosen_from_is_searched_in_the_solvers_language(data: Path, tmp_path: Path) -> None:
    language = Language("untyped", 2, order_text=True, repeat_columns=True)
    search_sql(data / "train" / "examples.jsonl", tmp_path / "solutions", language=language)
    train(recipe(data, "hard-em", data={"solutions": str(tmp_path / "solutions")}), tmp_path / "run")
    examples, gold = data / "dev" / "examples.jsonl", data / "dev" / "gold.jsonl"
    selection_task(load(tmp_path / "run"), examples, gold, tmp_path / "selection")
    assert read_manifest(tmp_path / "selection")["options"]["language"] == asdict(language)


@pytest.mark.slow
def test_examples_that_are_not_there_are_named(data: Path, model: Model, tmp_path: Path) -> None:
    """Not the tables that would stand beside them; and a file of another name is refused."""
    gold = data / "dev" / "gold.jsonl"
    with pytest.raises(BonafideError, match=r"Cannot read \S+/missing.jsonl: there is no such file"):
        selection_task(model, tmp_path / "missing.jsonl", gold, tmp_path / "solutions")
    with pytest.raises(BonafideError, match=r"must be a file named examples.jsonl"):
        selection_task(model, gold, gold, tmp_path / "solutions")


def test_the_command_gives_the_same_figures(data: Path, run: Path, model: Model, tmp_path: Path) -> None:
    examples, gold = data / "dev" / "examples.jsonl", data / "dev" / "gold.jsonl"
    store = tmp_path / "dev-solutions"
    done = bonafide(
        "selection", run, "--examples", examples, "--gold", gold, "--solutions", store, "--candidates", "5", "--json"
    )
    assert done.code == 0, done.stderr
    said = json.loads(done.stdout)
    expected = selection_task(model, examples, gold, store, candidates=5).to_json()
    assert said["candidates"] <= 5
    assert said["solver"] == expected["solver"]
    assert said["reconstructor"] == expected["reconstructor"]
    assert math.isclose(said["confidence"], expected["confidence"], rel_tol=1e-5)
