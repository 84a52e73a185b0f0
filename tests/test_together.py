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

from bonafide.errors import BonafideError
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.kept import KEPT
from bonafide.learn.sharding import shard_encoder
from bonafide.learn.tensors import read_tensors
from bonafide.search.discrete import search_discrete
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.tasks.reading.solver import ReaderSpec, build_reader
from bonafide.tasks.text.solver import TextSpec, build_text_solver
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
    for name in ("selections.jsonl", KEPT):
        assert (one / name).read_bytes() == (other / name).read_bytes()
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


@pytest.mark.parametrize(
    ("method", "shard"),
    [
        ("mimax", False),
        ("hard-em-thres", False),
        ("mimax", True),
        pytest.param("hard-em-thres", True, marks=pytest.mark.long),
    ],
)
def test_two_processes_train_what_one_trains(data: Path, tmp_path: Path, method: str, shard: bool) -> None:
    recipe = recipe_file(data, tmp_path, method, shard=shard, budget=500)
    assert_same(trained(1, recipe, tmp_path / "one"), trained(2, recipe, tmp_path / "two"))


@pytest.mark.parametrize("shard", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_of_two_goes_on_with_one_and_with_two(data: Path, tmp_path: Path, shard: bool) -> None:
    """One of two is killed: the other ends too, and says so; from the last checkpoint any number can go on."""
    recipe = recipe_file(data, tmp_path, "mimax", shard=shard)
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


@pytest.mark.slow
def test_what_one_process_proposes_all_train_on(tmp_path: Path) -> None:
    """One program of each set is kept, so that there are others to be found; the encoder is sharded too."""
    write_discrete_benchmark(tmp_path / "train", seed=1, passages=4, questions=6, scenes=("games",))
    search_discrete(tmp_path / "train/examples.jsonl", tmp_path / "solutions")
    values = settings(tmp_path, "hard-em", solver={"dropout": 0.0, "head_width": 32})
    values["data"] |= {"task": "discrete", "max_solutions": 1, "propose": True, "dev": ""}
    values["objective"]["options"] = {}
    values["train"] |= {"epochs": 12.0, "encoder_rate": 3e-3, "head_rate": 3e-3, "shard": True}
    recipe = write_recipe(tmp_path / "recipe.toml", values)
    one, two = trained(1, recipe, tmp_path / "one"), trained(2, recipe, tmp_path / "two")
    assert (one / "proposed.jsonl").read_text()
    assert (two / "proposed.jsonl").read_text() == (one / "proposed.jsonl").read_text()
    assert_same(one, two)


HALVES = """
import torch
from torch import distributed
from bonafide.learn.sharding import shard_encoder, whole
from bonafide.learn.together import Together
from bonafide.tasks.sql.solver import SolverSpec, build_sql_solver

distributed.init_process_group("gloo")
solver = build_sql_solver(SolverSpec("scratch", dropout=0.0), ["some words"])
before = {name: weight.clone() for name, weight in solver.state_dict().items()}
shard_encoder(solver, torch.device("cpu"), 2)
held = sum(weight.to_local().numel() for weight in solver.encoder.parameters())
total = sum(weight.numel() for name, weight in before.items() if name.startswith("encoder."))
assert abs(held / total - 0.5) < 0.02, (held, total)  # of an odd number of rows one has more
for name, weight in solver.state_dict().items():
    assert torch.equal(whole(weight), before[name]), name
print("a half", flush=True)
Together(torch.device("cpu")).leave()
"""


def test_each_of_two_processes_holds_half_of_a_sharded_encoder(tmp_path: Path) -> None:
    script = tmp_path / "halves.py"
    script.write_text(HALVES)
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launched, str(script)], env=environment(), capture_output=True, text=True, check=False, timeout=180
    )
    # Not the exit status: torch's threads may abort a process as it ends, when all is done.
    assert done.stdout.count("a half") == 2, done.stderr


def test_a_solver_that_cannot_be_sharded_is_refused() -> None:
    sizes = {"layers": 1, "width": 8, "heads": 2}
    solvers = (
        build_reader(ReaderSpec("scratch", **sizes), ["some words"]),  # type: ignore[arg-type]
        build_text_solver(TextSpec("scratch", **sizes), ["some words"]),  # type: ignore[arg-type]
    )
    for solver in solvers:
        with pytest.raises(BonafideError, match=r"--set train\.shard=false"):
            shard_encoder(solver, torch.device("cpu"), 2)


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
