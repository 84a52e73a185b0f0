"""Several starts of a recipe: ordinary runs, of which the best is named without gold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.learn import starts
from bonafide.learn.data import open_dev
from bonafide.learn.monitor import dev_figures
from bonafide.learn.saved import load
from bonafide.learn.starts import train_starts
from bonafide.learn.trainer import train
from tiny_runs import recipe, settings, weights, write_data, write_recipe

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def test_the_start_with_the_shortest_description_of_all_dev_questions_is_the_best(data: Path, tmp_path: Path) -> None:
    wanted = recipe(data, "mimax", data={"dev_examples": 1}, train={"epochs": 1.0})
    found = train_starts(wanted, tmp_path / "runs", 3)
    assert {start.run.name for start in found} == {"seed-5", "seed-6", "seed-7"}
    dev = open_dev(recipe(data, "mimax"))
    assert dev is not None
    assert len(dev.examples) == 6
    described = {start.run: dev_figures(load(start.run), dev, wanted)["dev_description"] for start in found}
    assert [start.figure for start in found] == sorted(described.values(), reverse=True)
    assert len(set(described.values())) > 1
    assert {start.by for start in found} == {"dev_description"}
    written = json.loads((tmp_path / "runs" / "starts.json").read_text())
    assert written["best"] == max(described, key=lambda run: described[run]).name
    assert [each["run"] for each in written["starts"]] == [start.run.name for start in found]


def test_a_start_is_the_run_of_its_seed_and_the_search_is_made_once(data: Path, tmp_path: Path) -> None:
    one = {"train": {"epochs": 0.5}, "data": {"solutions": ""}}
    train_starts(recipe(data, "hard-em", **one), tmp_path / "runs", 2)
    train(recipe(data, "hard-em", train={"epochs": 0.5, "seed": 6}, data={"solutions": ""}), tmp_path / "alone")
    assert weights(tmp_path / "runs" / "seed-6") == weights(tmp_path / "alone")
    assert (tmp_path / "runs" / "seed-5" / "solutions").is_dir()
    assert not (tmp_path / "runs" / "seed-6" / "solutions").exists()


def test_starts_that_were_stopped_go_on_and_those_that_ended_are_left_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_recipe(tmp_path / "recipe.toml", settings(data, "hard-em", train={"epochs": 0.5}))
    command = ["train", str(path), "--starts", "2", "--out", str(tmp_path / "runs")]
    trained: list[str] = []

    def noted(wanted: object, run: Path, *more: object) -> object:
        trained.append(run.name)
        if run.name == "seed-6" and trained.count("seed-6") == 1:
            raise BonafideError("stopped")
        return train(wanted, run, *more)

    monkeypatch.setattr(starts, "train", noted)
    assert str(CliRunner().invoke(app, command).exception) == "stopped"
    done = CliRunner().invoke(app, [*command, "--resume"])
    assert done.exit_code == 0, done.output
    assert trained == ["seed-5", "seed-6", "seed-6"]
    other = ["--set", "train.epochs=0.6", "--resume"]
    assert "other settings in [train]: epochs" in str(CliRunner().invoke(app, [*command, *other]).exception)
    best = json.loads((tmp_path / "runs" / "starts.json").read_text())["best"]
    said = str(CliRunner().invoke(app, ["predict", str(tmp_path / "runs"), "how many?", "--table", "x.csv"]).exception)
    assert f"several starts. Name one of them, such as {tmp_path / 'runs' / best}." in said
    assert f"needs no gold: {tmp_path / 'runs' / best}".replace(" ", "") in "".join(done.output.split())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--set", "data.dev="), "compared by their dev questions"),
        (("--table", "a.csv", "--examples", "b.jsonl"), "--starts goes with a recipe"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(
    data: Path, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    path = write_recipe(tmp_path / "recipe.toml", settings(data, "hard-em"))
    done = CliRunner().invoke(app, ["train", str(path), "--starts", "2", "--out", str(tmp_path / "runs"), *more])
    assert done.exit_code != 0
    assert said in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_holds_a_run_is_none_for_several(data: Path, tmp_path: Path) -> None:
    wanted = recipe(data, "hard-em", train={"epochs": 0.5})
    train(wanted, tmp_path / "run")
    with pytest.raises(BonafideError, match="several starts are a folder of runs"):
        train_starts(wanted, tmp_path / "run", 2, resume=True)
