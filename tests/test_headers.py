"""Questions about headers alone: a query is right where it is gold's, whatever type the column would have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.evaluate.headers import predicted, read_by, read_headers, right_by_headers
from bonafide.learn.saved import Model, load
from bonafide.learn.trainer import train
from bonafide.tasks.sql.solver import SqlSolver
from tiny_runs import recipe, write_data

torch.set_num_threads(1)
HEADERS: list[dict[str, Any]] = [
    {"id": "a", "header": ["City", "People", "city"]},
    {"id": "b", "header": ["Player", "Points"]},
]
QUESTIONS = [
    ("a", "How many people live in Oslo?"),
    ("b", "Which player has more than 30 points?"),
    ("b", "Who has 12?"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("data")
    train(recipe(write_data(folder), "hard-em", train={"epochs": 1.0}), folder / "run")
    return load(folder / "run")


def write(folder: Path, golds: list[dict[str, Any]], headers: list[dict[str, Any]] = HEADERS) -> tuple[Path, Path]:
    lines = [
        {"table_id": name, "question": question, "sql": gold, "phase": 1}
        for (name, question), gold in zip(QUESTIONS, golds, strict=False)
    ]
    paths = folder / "questions.jsonl", folder / "headers.jsonl"
    for path, objects in zip(paths, (lines, headers), strict=True):
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return paths


def test_a_query_is_right_where_it_is_golds(model: Model, tmp_path: Path) -> None:
    assert isinstance(model.solver, SqlSolver)
    golds: list[dict[str, Any]] = [{"sel": 0, "agg": 0, "conds": []}] * 3
    found = predicted(model.solver, read_headers(*write(tmp_path, golds)))
    golds = []
    for query in found:
        assert query is not None
        conditions = [[each.column, int(each.operator), each.value] for each in query.conditions]
        golds.append({"sel": query.select, "agg": int(query.aggregate), "conds": conditions})
    assert right_by_headers(model.solver, read_headers(*write(tmp_path, golds))).tolist() == [True, True, True]
    golds[1]["agg"] = (golds[1]["agg"] + 1) % 6
    assert right_by_headers(model.solver, read_headers(*write(tmp_path, golds))).tolist() == [True, False, True]


def test_a_column_without_a_type_takes_any_value_aggregate_and_operator(model: Model, tmp_path: Path) -> None:
    assert isinstance(model.solver, SqlSolver)
    asked = read_headers(*write(tmp_path, [{"sel": 0, "agg": 0, "conds": []}] * 3))
    assert asked[0].table.header == ("City", "People", "city (2)")
    for each in read_by(model.solver, asked):
        assert each.aggregates.all()
        assert each.operators.all()
        assert not each.real.any()  # so that no value must be a number


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "found a list"),
        ('{"question": "who?", "table_id": "a"}', "expected a question with its sql"),
        ('{"question": "who?", "table_id": ["a"], "sql": {}}', "expected a question with its sql"),
        ('{"question": 3, "table_id": "a", "sql": {}}', "expected a question with its sql"),
        ('{"question": "who?", "table_id": "c", "sql": {}}', "about one of the headers"),
        (
            '{"question": "who?", "table_id": "a", "sql": {"sel": 9, "agg": 0, "conds": []}}',
            "a column number",
        ),
    ],
)
def test_questions_that_do_not_fit_are_refused_by_their_line(tmp_path: Path, line: str, said: str) -> None:
    questions, headers = write(tmp_path, [{"sel": 0, "agg": 0, "conds": []}] * 3)
    questions.write_text(questions.read_text() + line + "\n")
    with pytest.raises(BonafideError, match=r"Line 4 of .*questions.jsonl: ") as refused:
        read_headers(questions, headers)
    assert said in str(refused.value)


def test_headers_that_do_not_fit_are_refused_by_their_line(tmp_path: Path) -> None:
    with pytest.raises(BonafideError, match=r"Line 1 of .*headers.jsonl: expected an id and a header"):
        read_headers(*write(tmp_path, [], [{"id": "a", "header": []}]))
