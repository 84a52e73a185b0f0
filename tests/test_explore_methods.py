"""Methods compared: which runs belong together, and figures that are those of the commands that count them alone."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("fastapi")

from bonafide.errors import BonafideError
from bonafide.explore.methods import Methods
from bonafide.explore.workspace import Workspace
from bonafide.learn.trainer import train
from bonafide.report.compare import compare_runs
from bonafide.report.runs import evaluate_run, selections_over_time
from bonafide.search.sql import search_sql
from explored import opened_app, text_of
from tiny_runs import recipe, write_data

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``runs`` with three methods on the same examples; two are evaluated on them."""
    folder = write_data(tmp_path_factory.mktemp("data"))
    for method in ("mimax", "hard-em", "mml"):
        train(recipe(folder, method, data={"max_solutions": 10}), folder / "runs" / method)
    for method in ("mimax", "hard-em"):
        evaluate_run(folder / "runs" / method, folder / "train/examples.jsonl")
    return folder


def counted(methods: Methods) -> Methods:
    methods.start()
    methods._thread.join(60)
    assert not methods.counting
    return methods


def test_figures_are_those_of_compare_and_of_the_runs_own_selections(root: Path) -> None:
    workspace = Workspace(root / "runs/mimax", gold=root / "train/gold.jsonl")
    rows = {each.name: each for each in counted(Methods(workspace)).rows}
    assert list(rows) == ["mimax", "hard-em", "mml"]
    gold = root / "train/gold.jsonl"
    runs = [root / "runs" / name for name in ("hard-em", "mimax")]
    for method in compare_runs(runs, root / "train/examples.jsonl", gold, root / "solutions").methods:
        (predicted,) = method.predicted.values()
        row = rows[method.name]
        assert row.answers is not None
        assert row.solutions is not None
        assert (row.answers.right, row.answers.of) == (sum(each.right for each in predicted), 48)
        assert (row.solutions.right, row.solutions.of) == (sum(bool(each.genuine) for each in predicted), 48)
    assert rows["mml"].answers is None
    for name, row in rows.items():
        over_time = selections_over_time(root / "runs" / name, gold)
        assert [epoch for epoch, _, _ in row.chosen] == [each["epoch"] for each in over_time]
        for (_, right, of), known in zip(row.chosen, over_time, strict=True):
            assert (right / of if of else None) == known.get("selected"), name
        best = json.loads((root / "runs" / name / "result.json").read_text())["best"]
        assert row.dev == best["dev_execution"]
    workspace.close()


def test_the_overview_shows_them_and_their_curves_together(root: Path) -> None:
    workspace = Workspace(root / "runs/mimax", gold=root / "train/gold.jsonl")
    with opened_app(workspace, in_passing=False) as client:
        methods = client.app.state.methods  # type: ignore[attr-defined]
        end = time.monotonic() + 60
        while methods.counting and time.monotonic() < end:
            methods._thread.join(1)
        page = client.get("/").text
        section = page.partition('id="methods"')[2].partition("While it learned")[0]
        shown = text_of(section)
        for each in methods.rows:
            assert each.name in shown
            assert each.trained is None or each.trained.text in shown
        assert shown.count("this one") == 1
        for heading in (
            "dev answers right, while training",
            "answers right",
            "solutions right",
            "gold chosen in training",
        ):
            assert f">{heading}</th>" in section
        first = section.partition("<figure>")[2].partition("</figure>")[0]
        assert "Solutions that trained the solver and are gold" in first
        assert len(re.findall("<polyline", first)) == sum(bool(each.chosen[-1][2]) for each in methods.rows)


def test_without_gold_nothing_is_said_of_solutions(root: Path) -> None:
    workspace = Workspace(root / "runs/mimax")
    methods = counted(Methods(workspace))
    assert methods.known == {"answers"}
    assert {chart.title for chart in methods.charts} >= {"Right answers on dev"}
    workspace.close()


def test_runs_on_other_examples_are_no_company(root: Path, tmp_path: Path) -> None:
    other = write_data(tmp_path / "other")
    lines = (other / "train/examples.jsonl").read_text().splitlines()
    (other / "train/examples.jsonl").write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    shutil.rmtree(other / "solutions")
    search_sql(other / "train/examples.jsonl", other / "solutions")
    train(recipe(other, "mml", train={"epochs": 1.0}), tmp_path / "mml")
    shutil.copytree(root / "runs/mimax", tmp_path / "mimax", ignore=shutil.ignore_patterns("explore", "checkpoints"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/result.json").write_text("no JSON")
    (tmp_path / "broken/recipe.json").write_text("{}")
    workspace = Workspace(tmp_path / "mimax")
    assert [each.here for each in Methods(workspace).rows] == [True]
    named = Methods(workspace, [root / "runs/hard-em", root / "runs/mimax"]).rows
    assert [each.name for each in named] == [
        f"mimax ({tmp_path / 'mimax'})", "hard-em", f"mimax ({root / 'runs/mimax'})",
    ]  # fmt: skip
    assert len({each.name for each in Methods(workspace, [root / "runs/mimax"]).rows}) == 2
    with pytest.raises(BonafideError, match="other examples"):
        Methods(workspace, [tmp_path / "mml"])
    with pytest.raises(BonafideError, match=r"neither recipe\.json nor manifest\.json"):
        Methods(workspace, [tmp_path])
    workspace.close()
    store = Workspace(root / "solutions")
    assert Methods(store).rows == []
    with pytest.raises(BonafideError, match="is a solution store"):
        Methods(store, [root / "runs/mimax"])
    store.close()


def test_choices_of_another_store_are_left_out_with_a_warning(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(
        root / "runs/mml", tmp_path / "mml", ignore=shutil.ignore_patterns("explore", "checkpoints", "*.sums")
    )
    (tmp_path / "mml/selections.jsonl").write_text('{"epoch": 1.0, "selected": [0], "solver": [0]}\n')
    workspace = Workspace(root / "runs/mimax", gold=root / "train/gold.jsonl")
    rows = counted(Methods(workspace, [tmp_path / "mml"])).rows
    assert rows[0].trained is not None
    assert rows[1].trained is None
    assert "has choices for" in caplog.text
    workspace.close()
