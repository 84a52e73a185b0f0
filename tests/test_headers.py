"""Questions about headers alone: a query is right where it is gold's, whatever type the column would have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.evaluate.headers import _predicted, right_by_headers
from bonafide.learn.saved import Model, load
from bonafide.learn.trainer import train
from bonafide.tasks.sql.solver import SqlSolver
from bonafide.tasks.sql.tables import Table
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
        for (name, question), gold in zip(QUESTIONS, golds, strict=True)
    ]
    paths = folder / "questions.jsonl", folder / "headers.jsonl"
    for path, objects in zip(paths, (lines, headers), strict=True):
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return paths


def test_a_query_is_right_where_it_is_golds(model: Model, tmp_path: Path) -> None:
    assert isinstance(model.solver, SqlSolver)
    tables = {
        each["id"]: Table(each["id"], tuple(each["header"]), ("text",) * len(each["header"]), ()) for each in HEADERS
    }
    found = _predicted(model.solver, [(tables[name], question) for name, question in QUESTIONS])
    golds: list[dict[str, Any]] = []
    for query in found:
        assert query is not None
        conditions = [[each.column, int(each.operator), each.value] for each in query.conditions]
        golds.append({"sel": query.select, "agg": int(query.aggregate), "conds": conditions})
    assert right_by_headers(model, *write(tmp_path, golds)).tolist() == [True, True, True]
    golds[1]["agg"] = (golds[1]["agg"] + 1) % 6
    assert right_by_headers(model, *write(tmp_path, golds)).tolist() == [True, False, True]


def test_files_that_do_not_fit_are_refused(model: Model, tmp_path: Path) -> None:
    gold = [{"sel": 0, "agg": 0, "conds": []}] * 3
    with pytest.raises(BonafideError, match="Line 1 of the headers: expected an id and a header"):
        right_by_headers(model, *write(tmp_path, gold, [{"id": "a"}]))
    with pytest.raises(BonafideError, match="a question about one of the headers"):
        right_by_headers(model, *write(tmp_path, gold, HEADERS[:1]))
