"""What a run leaves to look at and to go on from: curves for TensorBoard, the best checkpoint beside the last."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bonafide.errors import BonafideError
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.saved import load
from bonafide.learn.steps import Progress
from bonafide.learn.track import Board
from bonafide.learn.trainer import train
from tiny_runs import recipe, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def curves(run: Path) -> dict[str, dict[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read: Any = EventAccumulator(str(run / "tensorboard"))
    read.Reload()
    return {tag: {each.step: each.value for each in read.Scalars(tag)} for tag in read.Tags()["scalars"]}


def record(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_tensorboard_shows_every_figure_of_the_record_also_after_a_crash(data: Path, tmp_path: Path) -> None:
    settings = recipe(data, "mimax")

    def crash(progress: Progress) -> None:
        if progress.step == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "run", watcher=crash)
    train(settings, tmp_path / "run", resume=True)
    shown, logged = curves(tmp_path / "run"), record(tmp_path / "run")
    losses = {entry["step"]: entry["loss"] for entry in logged if "loss" in entry}
    assert shown["train/loss"] == pytest.approx(losses)
    agreement = {
        entry["step"]: entry["evaluation"]["agreement"]
        for entry in logged
        if "agreement" in entry.get("evaluation", {})
    }
    assert agreement
    assert shown["evaluation/agreement"] == pytest.approx(agreement)


def test_figures_that_are_no_numbers_are_shown_as_such(tmp_path: Path) -> None:
    board = Board(tmp_path / "tensorboard")
    board.log({"step": 1, "loss": 2.0, "evaluation": {"worst": -math.inf, "none": math.nan, "large": 1e300}})
    shown = curves(tmp_path)
    assert shown["train/loss"] == {1: 2.0}
    assert shown["evaluation/worst"] == {1: -math.inf}
    assert math.isnan(shown["evaluation/none"][1])
    assert shown["evaluation/large"] == {1: math.inf}


def test_curves_that_cannot_be_written_are_an_error_that_names_their_folder(data: Path, tmp_path: Path) -> None:
    def block(progress: Progress) -> None:
        (tmp_path / "run" / "tensorboard").write_text("in the way")

    with pytest.raises(BonafideError, match=r"Cannot write .*tensorboard"):
        train(recipe(data, "hard-em", train={"log_every": 2}), tmp_path / "run", watcher=block)


def test_the_best_checkpoint_is_kept_beside_the_last(data: Path, tmp_path: Path) -> None:
    train(recipe(data, "mimax", train={"select_by": "reconstruction"}), tmp_path / "run")
    evaluations = {
        entry["step"]: entry["evaluation"]["dev_reconstruction"]
        for entry in record(tmp_path / "run")
        if "evaluation" in entry
    }
    best = max(evaluations, key=lambda step: (evaluations[step], step))
    kept = {int(path.name.removeprefix("step-")) for path in checkpoints(tmp_path / "run" / "checkpoints")}
    assert kept == {best, max(evaluations)}


def test_a_model_whose_weights_changed_on_disk_is_refused(data: Path, tmp_path: Path) -> None:
    train(recipe(data, "hard-em", train={"epochs": 1.0}), tmp_path / "run")
    path = tmp_path / "run" / "model" / "solver.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(BonafideError, match=r"solver\.safetensors is damaged or cut short"):
        load(tmp_path / "run")
