"""The benchmark of a training step: what it measures of each task, and how it counts."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from by_path import ROOT, module_at
from tiny_runs import settings, write_data, write_recipe

BENCHMARK = ROOT / "benchmarks" / "train_step.py"

torch.set_num_threads(1)


train_step = module_at("benchmarks/train_step.py")


def write_task(root: Path, task: str) -> Path:
    """A recipe of a second, with the data it names; the solutions are searched when it is opened."""
    if task == "sql":
        write_data(root)
    elif task == "discrete":
        write_discrete_benchmark(root / "train", seed=1, passages=4, questions=6, scenes=("games",))
    else:
        write_reading_benchmark(root / "train", seed=1, documents=4, questions=5, topics=("ships",))
    solver = {"window": 64, "stride": 32} if task == "reading" else {}
    values = settings(root, "mimax", data={"task": task, "solutions": ""}, solver=solver)
    return write_recipe(root / "tiny.toml", values)


@pytest.mark.parametrize("task", ["sql", "discrete"])
def test_a_recipe_of_any_task_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    recipe = write_task(tmp_path, task)
    (measured,) = train_step.main([str(recipe), "--device", "cpu", "--steps", "2", "--warm", "1"])
    assert measured.method == "mimax"
    assert measured.candidates_per_second > measured.examples_per_second > 0
    assert measured.windows_per_second is None
    assert measured.busy is None
    check(json.loads(json.dumps(train_step.asdict(measured))))


def test_the_command_line_sets_training_beside_another_objective_and_the_encoder_alone(tmp_path: Path) -> None:
    recipe = write_task(tmp_path, "reading")
    out = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARK), str(recipe), "--set", "train.batch=6", "--also", "hard-em"]
    done = subprocess.run(
        [*command, "--device", "cpu", "--steps", "2", "--warm", "1", "--json", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "training, of the encoder alone" in done.stdout
    written = json.loads(out.read_text())
    assert written["set"] == ["train.batch=6"]
    assert [each["method"] for each in written["measured"]] == ["mimax", "hard-em"]
    for each in written["measured"]:
        assert each["steps_per_epoch"] == 4  # 20 examples
        check(each)
        windows = each["windows_per_second"] * each["ms_a_step"]
        assert windows == pytest.approx(each["encoder"]["windows_per_second"] * each["encoder"]["ms_a_step"])
        assert windows > each["examples_per_second"] * each["ms_a_step"]


def check(measured: dict[str, Any]) -> None:
    """The figures are of the same steps."""
    alone = measured["encoder"]
    seen = measured["examples_per_second"] * measured["ms_a_step"]
    assert seen == pytest.approx(alone["examples_per_second"] * alone["ms_a_step"])
    assert alone["training_share"] == pytest.approx(measured["examples_per_second"] / alone["examples_per_second"])
    assert 0.3 < measured["tokens_against_epoch"] < 3


def test_bad_input_is_one_line() -> None:
    with pytest.raises(SystemExit, match=r"data\.root must be a folder"):
        train_step.main(["wikisql-hard-mimax", "--steps", "1"])


@given(st.integers(1, 1000), st.integers(1, 60), st.integers(1, 10))
def test_measured_steps_are_as_many_as_asked_and_spread_over_the_epoch(epoch: int, steps: int, warm: int) -> None:
    runs = train_step.spread(epoch, steps, warm)
    assert sum(map(len, runs)) == steps
    assert runs[0].start == warm
    apart = [after.start - before.start for before, after in pairwise(runs)]
    assert all(abs(each - epoch / len(runs)) < 1 for each in apart)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30))
def test_time_in_which_kernels_overlap_counts_once(begins_and_lengths: list[tuple[int, int]]) -> None:
    intervals = [(begin, begin + length) for begin, length in begins_and_lengths]
    moments = {moment for begin, end in intervals for moment in range(begin, end)}
    assert train_step.covered(intervals) == len(moments)


def test_kernels_and_copies_are_counted_and_what_is_written_over_them_is_not() -> None:
    events = [
        {"cat": "kernel", "ts": 1.0, "dur": 2.0},
        {"cat": "gpu_memcpy", "ts": 5.0, "dur": 1.0},
        {"cat": "gpu_user_annotation", "ts": 0.0, "dur": 100.0},
        {"cat": "cuda_runtime", "ts": 0.0, "dur": 100.0},
        {"ph": "M", "name": "process_name"},
    ]
    assert train_step.device_intervals(events) == [(1.0, 3.0), (5.0, 6.0)]
