"""Two processes train what one trains, whatever was started with how many; if one dies, the run can go on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bonafide.learn.checkpoint import checkpoints, read_tensors
from tiny_runs import settings, write_data, write_recipe

PORT = str(20000 + os.getpid() % 20000)
QUIET = {"solver": {"dropout": 0.0}, "reconstructor": {"dropout": 0.0}}


def command(processes: int, recipe: Path, out: Path, *more: str) -> list[str]:
    """As `accelerate launch` starts several processes; it does not where there is no GPU."""
    launched = ["-m", "torch.distributed.run", "--nproc_per_node", str(processes), "--master_port", PORT]
    how = [sys.executable, *(launched if processes > 1 else []), "-m", "bonafide"]
    return [*how, "train", str(recipe), "--out", str(out), *more]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}


def trained(processes: int, recipe: Path, out: Path, *more: str) -> Path:
    done = subprocess.run(
        command(processes, recipe, out, *more),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return out


def log(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_same(one: Path, other: Path) -> None:
    """Losses, figures, selections and weights."""
    ours, theirs = log(one), log(other)
    assert [entry["step"] for entry in ours] == [entry["step"] for entry in theirs]
    for first, second in zip(ours, theirs, strict=True):
        for name in ("loss", "reconstructor_loss", "candidates", "used_by_threshold"):
            near = pytest.approx(second.get(name, 0.0), rel=1e-5, abs=1e-5)
            assert first.get(name, 0.0) == near, (name, first["step"])
        if "evaluation" in first:
            assert first["evaluation"] == pytest.approx(second["evaluation"], rel=1e-4, abs=1e-4)
    assert (one / "selections.jsonl").read_text() == (other / "selections.jsonl").read_text()
    tensors = [read_tensors(checkpoints(run / "checkpoints")[-1] / "tensors.safetensors") for run in (one, other)]
    weights = [{name: each for name, each in part.items() if "optimiser" not in name} for part in tensors]
    for name, weight in weights[0].items():
        if not name.startswith("random"):
            torch.testing.assert_close(weight, weights[1][name], atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def recipe_file(data: Path, folder: Path, method: str, **train: Any) -> Path:
    rates = {"encoder_rate": 1e-3, "head_rate": 1e-3, "checkpoint_every": 5, **train}
    return write_recipe(
        folder / "recipe.toml", settings(data, method, **QUIET, train={**settings(data, method)["train"], **rates})
    )


@pytest.mark.parametrize("method", ["mimax", "hard-em-thres"])
def test_two_processes_train_what_one_trains(data: Path, tmp_path: Path, method: str) -> None:
    recipe = recipe_file(data, tmp_path, method)
    assert_same(trained(1, recipe, tmp_path / "one"), trained(2, recipe, tmp_path / "two"))


def test_a_run_of_two_goes_on_with_one_and_with_two(data: Path, tmp_path: Path) -> None:
    """One of two is killed: the other ends too, and says so; from the last checkpoint any number can go on."""
    recipe = recipe_file(data, tmp_path, "mimax")
    whole = trained(1, recipe, tmp_path / "whole")
    run = tmp_path / "run"
    with subprocess.Popen(
        command(2, recipe, run), env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as launcher:
        deadline = time.monotonic() + 120
        while len(checkpoints(run / "checkpoints")) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(_second(), signal.SIGKILL)
        _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode != 0
    assert not (run / "result.json").exists(), errors
    shutil.copytree(run, tmp_path / "again")
    assert_same(whole, trained(1, recipe, run, "--resume"))
    assert_same(whole, trained(2, recipe, tmp_path / "again", "--resume"))


def _second() -> int:
    """The process of rank 1."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"RANK=1" in variables and f"MASTER_PORT={PORT}".encode() in variables:
                return int(entry.name)
    raise AssertionError("there is no second process")
