"""What the explorer says a run chose is what the run chose, however training cut the sets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")

from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.explore.chosen import gold_chosen
from bonafide.explore.workspace import Workspace, kept_by
from bonafide.learn.data import likeliest_sets, load_training_data
from bonafide.learn.kept import KEPT
from bonafide.learn.learnable import learnable
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.trainer import train
from bonafide.report.runs import selections_over_time
from bonafide.report.subset import write_part
from bonafide.sealed import read_sealed, vouched
from explored import opened_app
from tiny_runs import recipe, write_data

torch.set_num_threads(1)
FEW = {"max_solutions": 4}
CUTS: dict[str, dict[str, Any]] = {
    "sampled": FEW,
    "likeliest": {**FEW, "likeliest": True},
    "simplest": {**FEW, "simplest": 0.5},
    "largest": {**FEW, "largest": 0.01},
}
"""Ways of cutting the sets, and the examples."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def trained(data: Path) -> Callable[[str], Path]:
    """A run that cut its sets in one of the ways, made when it is first asked for."""

    def folder(cut: str) -> Path:
        out = data / "runs" / cut
        if not out.exists():
            train(recipe(data, "mimax", data=CUTS[cut], train={"epochs": 2.0}), out)
        return out

    return folder


@pytest.fixture(scope="module")
def stored(data: Path) -> Path:
    """A run on a store whose sets are cut already, though it says how large they were."""
    made = recipe(data, "mimax", data=CUTS["likeliest"], train={"epochs": 2.0})
    whole = learnable("sql").open_store(data / "solutions")
    write_part(whole, data / "cut", {"likeliest": 4}, likeliest_sets(made, whole), len(whole))
    train(replace(made, data=replace(made.data, solutions=str(data / "cut"))), data / "runs" / "stored")
    return data / "runs" / "stored"


def before_it_was_written(run: Path, out: Path) -> Path:
    """The run as an older version left it."""
    shutil.copytree(run, out, ignore=shutil.ignore_patterns("explore", "checkpoints", KEPT))
    return out


def recipe_of_run(run: Path) -> Recipe:
    return recipe_from({key: each for key, each in read_sealed(run / "recipe.json").items() if key != "tool"}, "a test")


def shown(run: Path) -> tuple[int, int]:
    """How many choices the explorer shows, all of them right, and how many it leaves out."""
    items = load_training_data(recipe_of_run(run), run).items
    last = json.loads((run / "selections.jsonl").read_text().splitlines()[-1])
    workspace = Workspace(run)
    known = hidden = 0
    for item, *chosen in zip(items, last["selected"], last["solver"], last["reconstructor"], strict=True):
        (row,) = workspace.index.rows("WHERE id = ?", [item.example.id])
        solutions = workspace.open(row.place).solutions
        for each, place in zip(chosen, (row.trained, row.solver, row.reconstructor), strict=True):
            assert place is None or solutions[place] == item.solutions[each]
            known += place is not None
            hidden += place is None and each >= 0
    assert workspace.index.value("SELECT count(*) FROM examples WHERE trained >= 0") <= len(items)
    workspace.close()
    return known, hidden


@pytest.mark.parametrize("cut", CUTS)
def test_choices_are_those_that_trained_the_solver(trained: Callable[[str], Path], data: Path, cut: str) -> None:
    run = trained(cut)
    items = load_training_data(recipe_of_run(run), run).items
    assert any(item.solutions.size > len(item.solutions) for item in items)  # or nothing was cut
    assert shown(run) == (3 * len(items), 0)


def test_choices_from_a_store_that_was_cut_are_right_and_can_be_judged(stored: Path) -> None:
    known, hidden = shown(stored)
    assert (known, hidden) == (3 * 48, 0)
    with opened_app(Workspace(stored), in_passing=False) as client:
        assert client.get("/judge").status_code == 200


@pytest.mark.parametrize("cut", CUTS)
def test_of_an_older_run_what_cannot_be_known_is_not_shown(
    trained: Callable[[str], Path], tmp_path: Path, cut: str
) -> None:
    run = before_it_was_written(trained(cut), tmp_path / "run")
    items = load_training_data(recipe_of_run(run), run).items
    whole = sum(item.solutions.size == len(item.solutions) for item in items)
    known, hidden = shown(run)
    assert known + hidden == 3 * len(items)
    assert hidden == (3 * (len(items) - whole) if cut in ("likeliest", "simplest") else 0)


def test_an_older_run_on_a_store_that_was_cut_points_at_what_is_there(stored: Path, tmp_path: Path) -> None:
    assert shown(before_it_was_written(stored, tmp_path / "run")) == (3 * 48, 0)


@pytest.mark.parametrize("cut", CUTS)
def test_the_share_of_gold_is_that_of_the_report(trained: Callable[[str], Path], data: Path, cut: str) -> None:
    run, gold = trained(cut), data / "train/gold.jsonl"
    workspace = Workspace(run, gold=gold)
    places = {place: workspace.gold_places(workspace.open(place)) or [] for place in range(workspace.index.count)}
    sets = workspace.index.query("SELECT id, size, stored FROM examples ORDER BY place")
    found = gold_chosen(run / "selections.jsonl", sets, kept_by(run, read_sealed(run / "recipe.json")), places)
    workspace.close()
    told = selections_over_time(run, gold)
    assert [epoch for epoch, _, _ in found] == [row["epoch"] for row in told]
    assert [right / of for _, right, of in found if of] == [row["selected"] for row in told if "selected" in row]


def test_what_the_model_proposed_itself_is_no_solution_of_the_store(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    """Proposed solutions come after those that were kept of a set."""
    run = tmp_path / "run"
    shutil.copytree(trained("likeliest"), run, ignore=shutil.ignore_patterns("explore", "checkpoints"))
    items = load_training_data(recipe_of_run(run), run).items
    assert min(len(item.solutions) for item in items) < 4 < max(item.solutions.size for item in items)
    counts = [len(item.solutions) for item in items]
    chosen = {"selected": counts, "solver": [each - 1 for each in counts], "reconstructor": [-1] * len(counts)}
    with vouched(run / "selections.jsonl"):
        write_jsonl(run / "selections.jsonl", [{"epoch": 1.0, **chosen}])
    for each in (run, before_it_was_written(run, tmp_path / "before")):
        workspace = Workspace(each)
        assert workspace.index.value("SELECT count(trained) + count(reconstructor) FROM examples") == 0
        assert workspace.index.value("SELECT count(solver) FROM examples") > 0
        workspace.close()


def test_gold_in_place_of_the_sets_has_no_choices(data: Path, tmp_path: Path) -> None:
    train(recipe(data, "supervised", train={"epochs": 1.0}), tmp_path / "run")
    assert not (tmp_path / "run" / KEPT).exists()
    workspace = Workspace(tmp_path / "run")
    assert workspace.index.value("SELECT count(trained) FROM examples") == 0
    workspace.close()


def test_choices_from_another_store_and_a_damaged_file_are_refused(
    trained: Callable[[str], Path], stored: Path, tmp_path: Path
) -> None:
    for name in ("other", "damaged"):
        shutil.copytree(trained("likeliest"), tmp_path / name, ignore=shutil.ignore_patterns("explore", "checkpoints"))
    shutil.copy(stored / KEPT, tmp_path / "other" / KEPT)
    with pytest.raises(BonafideError, match="another store"):
        Workspace(tmp_path / "other")
    path = tmp_path / "damaged" / KEPT
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BonafideError, match=f"{KEPT} is damaged.*--resume"):
        Workspace(tmp_path / "damaged")


def test_a_run_is_opened_without_torch(trained: Callable[[str], Path], tmp_path: Path) -> None:
    for cut in ("sampled", "likeliest"):
        shutil.copytree(trained(cut), tmp_path / cut, ignore=shutil.ignore_patterns("explore", "checkpoints"))
        code = (
            "import sys; from pathlib import Path; from bonafide.explore.workspace import Workspace\n"
            f"Workspace(Path({str(tmp_path / cut)!r})).close(); assert 'torch' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
