"""Wrong recipes, folders, models and data at the command line: one paragraph, exit code 2, all as it was."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Protocol

import pytest
import torch
from typer.testing import CliRunner

from bonafide.cli import app, main
from bonafide.learn.trainer import train
from bonafide.sealed import read_sealed, write_sealed
from bonafide.search.sql import search_sql
from command_line import Outcome, bonafide, refused_unchanged
from tiny_runs import recipe, settings, write_data, write_recipe

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(data: Path) -> Path:
    train(recipe(data, "mml", train={"epochs": 1.0}), data / "finished")
    return data / "finished"


@pytest.fixture
def mine(data: Path, tmp_path: Path) -> Path:
    return write_recipe(tmp_path / "my.toml", settings(data, "mml", train={"epochs": 1.0}))


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


class Refusal(Protocol):
    """What a command says that is refused and leaves the folder of the test as it is."""

    def __call__(self, *arguments: str | Path) -> str: ...


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Refusal:
    """The command line within this process, since one that imports torch takes seconds to start."""

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["bonafide", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, *capfd.readouterr())

    return lambda *arguments: refused_unchanged(tmp_path, lambda: run(*arguments))[0]


# --- Recipes ------------------------------------------------------------------------------------------------


def test_an_unknown_recipe(tmp_path: Path, refusal: Refusal) -> None:
    said = refusal("train", "wikisql-hard-mimx", "--out", tmp_path / "out")
    assert "There is no recipe 'wikisql-hard-mimx' (did you mean 'wikisql-hard-mimax'?)" in said


def test_a_recipe_file_that_is_not_there(tmp_path: Path, refusal: Refusal) -> None:
    said = refusal("train", tmp_path / "none.toml", "--out", tmp_path / "out")
    assert f"Cannot read {tmp_path / 'none.toml'}: there is no such file" in said


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.epoch=3", "train.epoch is not known (did you mean 'epochs'?)"),
        ("train.log_every=0", "train.log_every must be more than 0, found 0"),
        ("solver.heads=3", "solver.width must be a multiple of solver.heads, found 32 and 3"),
        ("reconstructor.dropout=1.5", "reconstructor.dropout is a share below 1, found 1.5"),
    ],
)
def test_a_setting_that_cannot_be(tmp_path: Path, mine: Path, override: str, message: str, refusal: Refusal) -> None:
    assert message in refusal("train", mine, "--out", tmp_path / "out", "--set", override)


# --- Data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "nowhere"])
def test_data_that_is_not_there(tmp_path: Path, mine: Path, root: str, refusal: Refusal) -> None:
    said = refusal("train", mine, "--out", tmp_path / "a" / "out", "--set", f"data.root={root}")
    assert "data.root must be a folder with train/examples.jsonl and its contexts" in said
    assert "--set data.root=FOLDER" in said


def test_a_folder_without_examples(data: Path, tmp_path: Path, mine: Path, refusal: Refusal) -> None:
    shutil.copytree(data / "train", tmp_path / "root" / "train")
    (tmp_path / "root" / "train" / "examples.jsonl").unlink()
    said = refusal("train", mine, "--out", tmp_path / "out", "--set", f"data.root={tmp_path / 'root'}")
    assert str(tmp_path / "root" / "train" / "examples.jsonl") in said


def test_a_store_of_other_examples(data: Path, tmp_path: Path, mine: Path, refusal: Refusal) -> None:
    search_sql(data / "dev" / "examples.jsonl", tmp_path / "store")
    said = refusal("train", mine, "--out", tmp_path / "out", "--set", f"data.solutions={tmp_path / 'store'}")
    assert f"The solution store {tmp_path / 'store'} does not belong to {data / 'train' / 'examples.jsonl'}" in said


def test_a_store_of_other_tables(data: Path, tmp_path: Path, mine: Path, refusal: Refusal) -> None:
    shutil.copytree(data / "train", tmp_path / "root" / "train")
    tables = tmp_path / "root" / "train" / "tables.jsonl"
    search_sql(tmp_path / "root" / "train" / "examples.jsonl", tmp_path / "store")
    tables.write_text("".join(reversed(tables.read_text().splitlines(keepends=True))))
    overrides = ("--set", f"data.root={tmp_path / 'root'}", "--set", f"data.solutions={tmp_path / 'store'}")
    said = refusal("train", mine, "--out", tmp_path / "out", *overrides)
    assert f"The solution store {tmp_path / 'store'} does not belong to {tables}: it was searched over other" in said


def test_supervised_without_gold(data: Path, tmp_path: Path, refusal: Refusal) -> None:
    shutil.copytree(data / "train", tmp_path / "root" / "train")
    (tmp_path / "root" / "train" / "gold.jsonl").unlink()
    values = settings(tmp_path / "root", "supervised", data={"solutions": str(data / "solutions")})
    mine = write_recipe(tmp_path / "my.toml", values)
    assert "gold.jsonl" in refusal("train", mine, "--out", tmp_path / "out")


def test_an_encoder_without_a_tokenizer(tmp_path: Path, mine: Path, refusal: Refusal) -> None:
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    (encoder / "config.json").write_text('{"model_type": "bert"}')
    (encoder / "model.safetensors").write_bytes(b"")
    said = refusal("train", mine, "--out", tmp_path / "out", "--set", f"solver.encoder={encoder}")
    assert f"{encoder} has no tokenizer" in said


# --- Folders of runs ----------------------------------------------------------------------------------------


def test_a_folder_that_holds_another_run(tmp_path: Path, run: Path, mine: Path, refusal: Refusal) -> None:
    said = refusal("train", mine, "--out", run)
    assert f"{run} already holds a run. Add --resume to go on with it, or name another folder." in said


def test_a_folder_that_holds_something_else(tmp_path: Path, mine: Path, refusal: Refusal) -> None:
    said = refusal("train", mine, "--out", tmp_path)
    assert f"{tmp_path} is not empty and holds no run." in said


def test_a_file_where_the_folder_should_be(tmp_path: Path, mine: Path, refusal: Refusal) -> None:
    assert "is a file, not a folder" in refusal("train", mine, "--out", mine)


def test_resuming_with_other_settings(tmp_path: Path, run: Path, mine: Path, refusal: Refusal) -> None:
    said = refusal("train", mine, "--out", run, "--resume", "--set", "train.epochs=9", "--set", "train.seed=1")
    assert f"{run} was started with other settings in [train]: epochs, seed." in said


def test_a_folder_in_which_another_process_trains(tmp_path: Path, run: Path, mine: Path, refusal: Refusal) -> None:
    handle = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        said = refusal("train", mine, "--out", run, "--resume")
    finally:
        os.close(handle)
    assert f"Another process is training in {run} right now." in said


def test_a_checkpoint_cut_short(tmp_path: Path, run: Path, mine: Path, refusal: Refusal) -> None:
    (tensors,) = (run / "checkpoints").glob("step-*/tensors.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-100])
    said = refusal("train", mine, "--out", run, "--resume")
    assert f"{tensors.parent} is damaged" in said


# --- Models -------------------------------------------------------------------------------------------------


def evaluation(run: Path, data: Path, *more: str | Path) -> list[str | Path]:
    return ["evaluate", run, "--examples", data / "dev" / "examples.jsonl", *more]


def test_a_folder_without_a_model(data: Path, tmp_path: Path, refusal: Refusal) -> None:
    assert f"{tmp_path} holds no trained model" in refusal(*evaluation(tmp_path, data))


def test_a_model_of_another_format(data: Path, tmp_path: Path, run: Path, refusal: Refusal) -> None:
    about = read_sealed(run / "model" / "model.json")
    write_sealed(run / "model" / "model.json", {**about, "format": 7, "tool": "bonafide 9.0"})
    said = refusal(*evaluation(run, data))
    assert f"{run / 'model'} was written by bonafide 9.0 in model format 7" in said


def test_weights_cut_short(tmp_path: Path, data: Path, run: Path, refusal: Refusal) -> None:
    file = run / "model" / "solver.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert f"{file} is damaged or cut short" in refusal(*evaluation(run, data))


def test_gold_of_other_examples(data: Path, tmp_path: Path, run: Path, refusal: Refusal) -> None:
    gold = data / "train" / "gold.jsonl"
    said = refusal(*evaluation(run, data, "--gold", gold))
    assert f"{gold} has gold for none of the examples in {data / 'dev' / 'examples.jsonl'}" in said


def test_a_table_that_is_not_there(tmp_path: Path, run: Path, refusal: Refusal) -> None:
    missing = tmp_path / "sales.csv"
    assert str(missing) in refusal("predict", run, "--table", missing, "how many?")


def test_no_table_at_all(tmp_path: Path, run: Path, refusal: Refusal) -> None:
    said = refusal("predict", run, "how many?")
    assert "add --table" in said
    assert "--tables" not in said  # predict has no such option


def test_a_question_that_is_not_utf_8(tmp_path: Path, run: Path, refusal: Refusal) -> None:
    assert "not UTF-8" in refusal("predict", run, "--table", tmp_path / "sales.csv", "caf\udce9?")


def test_a_table_and_a_text_at_once(tmp_path: Path, run: Path, refusal: Refusal) -> None:
    said = refusal("predict", run, "--table", tmp_path / "a.csv", "--document", tmp_path / "a.txt", "how many?")
    assert "give --table, --passage or --document" in said


def test_a_model_that_is_still_in_training_is_said_to_be(data: Path, tmp_path: Path, run: Path) -> None:
    (tmp_path / "sales.csv").write_text("City,Units\nOslo,3\nLyon,4\n")
    asked = ["predict", str(run), "--table", str(tmp_path / "sales.csv"), "how many in Oslo?"]
    last = CliRunner().invoke(app, asked)
    (run / "result.json").unlink()
    before = CliRunner().invoke(app, asked)
    assert (before.exit_code, before.stdout) == (0, last.stdout)
    assert last.stderr == ""
    assert before.stderr.startswith(f"Training in {run} has not come to its end: this is the model that is saved")
    evaluated = CliRunner().invoke(app, [*map(str, evaluation(run, data)), "--json"])
    assert "has not come to its end" in evaluated.stderr
    assert json.loads(evaluated.stdout)["execution"]["of"] > 0
    audit = ["audit", str(run / "predictions.jsonl"), "--solutions", str(tmp_path / "none"), "--run", str(run)]
    assert "has not come to its end" in CliRunner().invoke(app, audit).stderr
    # In a process of its own, which it changes for good.
    explored = bonafide("explore", run, "--solutions", tmp_path / "none").stderr
    assert "has not come to its end" in explored
    assert "UserWarning" not in explored
    shutil.rmtree(run / "model")
    none = CliRunner().invoke(app, asked)
    assert none.stderr == ""
    assert "holds no trained model" in str(none.exception)


@pytest.mark.slow
def test_the_same_in_a_process_of_its_own(data: Path, tmp_path: Path, run: Path, mine: Path) -> None:
    for arguments, message in (
        (["train", mine, "--out", run], "already holds a run"),
        (["train", mine, "--out", tmp_path / "out", "--set", "data.root=nowhere"], "data.root must be a folder"),
        (evaluation(run, data, "--gold", data / "train" / "gold.jsonl"), "has gold for none of the examples"),
    ):
        assert message in refused_unchanged(tmp_path, lambda given=arguments: bonafide(*given))[0]  # type: ignore[misc]
