"""A run that was killed goes on to the same weights, bit for bit; and gold does not reach what it may not reach."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from bonafide.learn import runfolder
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.kept import KEPT
from bonafide.learn.methods import METHODS
from bonafide.learn.trainer import train
from command_line import BONAFIDE, contents
from tiny_runs import STEPS, recipe, settings, train_and_be_killed, weights, write_data, write_recipe

torch.set_num_threads(1)
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}
DEADLINE = 60.0
LOOK = 0.005


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def reference(data: Path) -> Callable[[str], Path]:
    """The folder of an uninterrupted run of a method, made when it is first asked for."""

    def folder(method: str) -> Path:
        out = data / "reference" / method
        if not out.exists():
            train(recipe(data, method), out)
        return out

    return folder


def killed_at(step: int, data: Path, method: str, out: Path, resume: bool = False) -> None:
    """A run in a process of its own that dies by SIGKILL after a step."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bonafide.learn.trainer"])
    process = context.Process(target=train_and_be_killed, args=(recipe(data, method), out, step, resume))
    process.start()
    process.join(DEADLINE)
    assert process.exitcode == -signal.SIGKILL
    assert not (out / "README.md").exists()


def logged(run: Path) -> list[dict[str, object]]:
    """What a run logged, but for how fast it was."""
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "examples_per_second"} for entry in entries]


def same(run: Path, other: Path) -> None:
    assert weights(run) == weights(other)
    assert logged(run) == logged(other)
    assert (run / "selections.jsonl").read_bytes() == (other / "selections.jsonl").read_bytes()
    kept, others = ([each.read_bytes() for each in folder.glob(KEPT)] for folder in (run, other))  # not of gold
    assert kept == others
    assert json.loads((run / "result.json").read_text()) == json.loads((other / "result.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_killed_at_any_step_ends_with_the_same_weights(
    data: Path, reference: Callable[[str], Path], tmp_path: Path, method: str
) -> None:
    step = random.Random(f"kill/{method}").randrange(1, STEPS)
    killed_at(step, data, method, tmp_path / "run")
    train(recipe(data, method), tmp_path / "run", resume=True)
    same(tmp_path / "run", reference(method))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_run_killed_again_and_again_ends_with_the_same_weights(
    data: Path, reference: Callable[[str], Path], tmp_path: Path, method: str
) -> None:
    """In the middle of the second epoch, then of the third, then of the fourth: for VAE, in each of its stages."""
    for resume, step in ((False, 9), (True, 15), (True, 22)):
        killed_at(step, data, method, tmp_path / "run", resume)
        last = checkpoints(tmp_path / "run" / "checkpoints")[-1]
        assert int(last.name.removeprefix("step-")) < step
    train(recipe(data, method), tmp_path / "run", resume=True)
    same(tmp_path / "run", reference(method))


@pytest.mark.parametrize("method", ["mimax", "hard-em-thres"])
def test_a_run_killed_before_its_first_checkpoint_starts_again(
    data: Path, reference: Callable[[str], Path], tmp_path: Path, method: str
) -> None:
    killed_at(2, data, method, tmp_path / "run")
    assert not checkpoints(tmp_path / "run" / "checkpoints")
    train(recipe(data, method), tmp_path / "run", resume=True)
    same(tmp_path / "run", reference(method))


@pytest.mark.parametrize("method", ["mimax", "hard-em-thres"])
def test_resuming_a_finished_run_changes_nothing(
    data: Path, reference: Callable[[str], Path], tmp_path: Path, method: str
) -> None:
    copied = tmp_path / method
    shutil.copytree(reference(method), copied)
    page = copied / "README.md"  # it says where the run is
    page.write_text(page.read_text().replace(str(reference(method)), str(copied)))
    before = contents(copied)
    train(recipe(data, method), copied, resume=True)
    assert contents(copied) == before


def test_a_run_that_searches_for_its_solutions_learns_the_same(
    data: Path, reference: Callable[[str], Path], tmp_path: Path
) -> None:
    made = recipe(data, "mimax", data={"solutions": ""})
    train(made, tmp_path / "run")
    assert weights(tmp_path / "run") == weights(reference("mimax"))
    before = contents(tmp_path / "run")
    train(made, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before


def test_a_run_killed_while_it_wrote_its_settings_can_start_again(
    data: Path, reference: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".recipe.json.abc.part").write_bytes(b'{"tool": ')
    train(recipe(data, "mml"), tmp_path / "run", resume=True)
    same(tmp_path / "run", reference("mml"))


def test_a_run_stopped_while_it_looked_at_its_machine_goes_on_to_its_end(
    data: Path, reference: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(runfolder, "_environment", stopped)
        with pytest.raises(KeyboardInterrupt):
            train(recipe(data, "mimax"), tmp_path / "run")
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["recipe.json"]
    train(recipe(data, "mimax"), tmp_path / "run", resume=True)
    same(tmp_path / "run", reference("mimax"))
    assert {each.name for each in (tmp_path / "run").iterdir()} == {each.name for each in reference("mimax").iterdir()}


def test_resuming_a_run_that_stopped_early_changes_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling = itertools.count(0, -1)
    monkeypatch.setattr("bonafide.learn.trainer.dev_figures", lambda *_: {"dev_execution": next(falling)})
    stopping = recipe(data, "first-only", train={"patience": 2})
    train(stopping, tmp_path / "run")
    assert checkpoints(tmp_path / "run" / "checkpoints")[-1].name == f"step-{3 * STEPS // 4:08d}"
    before = contents(tmp_path / "run")
    train(stopping, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before


def test_a_model_that_predicts_nothing_yet_is_not_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rising = iter([{}, *({"dev_reconstruction": float(figure)} for figure in range(-9, 0))])
    monkeypatch.setattr("bonafide.learn.trainer.dev_figures", lambda *_: next(rising))
    train(recipe(data, "mimax", train={"select_by": "reconstruction"}), tmp_path / "run")
    best = json.loads((tmp_path / "run" / "result.json").read_text())["best"]
    assert (best["by"], best["step"]) == ("dev_reconstruction", STEPS)


# --- The same by the command line --------------------------------------------------------------------------


def start(mine: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [BONAFIDE, "train", str(mine), "--out", str(out), *more]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8", process_group=0, env=ALONE)


def until_checkpoint(out: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + DEADLINE
    while not checkpoints(out / "checkpoints"):
        assert time.monotonic() < end, "waited too long"
        assert process.poll() is None, f"it ended early: {process.communicate()}"
        time.sleep(LOOK)


@pytest.mark.slow
def test_kill_9_and_resume_by_the_command_line(data: Path, reference: Callable[[str], Path], tmp_path: Path) -> None:
    """Killed at whatever it is doing then, which no step boundary is."""
    mine = write_recipe(tmp_path / "my.toml", settings(data, "mimax"))
    out = tmp_path / "run"
    process = start(mine, out)
    until_checkpoint(out, process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(random.Random("delay").uniform(0, 0.2))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    resumed = start(mine, out, "--resume")
    stdout, stderr = resumed.communicate(timeout=DEADLINE)
    assert resumed.returncode == 0, stderr
    assert stdout == ""
    assert "# A bonafide run: mimax" in stderr
    same(out, reference("mimax"))


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(data: Path, reference: Callable[[str], Path], tmp_path: Path) -> None:
    mine = write_recipe(tmp_path / "my.toml", settings(data, "vae"))
    out = tmp_path / "run"
    process = start(mine, out)
    until_checkpoint(out, process)
    for _ in range(3):  # people press it more than once
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.03)
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, said
    assert f"Stopped. Add --resume to go on from the last checkpoint in {out}." in said
    assert "Traceback" not in said
    train(recipe(data, "vae"), out, resume=True)
    same(out, reference("vae"))


# --- Gold ---------------------------------------------------------------------------------------------------


def with_gold(data: Path, folder: Path, *, nonsense: bool) -> Path:
    """The same data with the gold of the examples of each table permuted, or with nonsense for gold."""
    for split in ("train", "dev"):
        shutil.copytree(data / split, folder / split)
        gold = [json.loads(line) for line in (data / split / "gold.jsonl").read_text().splitlines()]
        by_table: dict[str, list[dict[str, object]]] = {}
        for each in gold:
            by_table.setdefault(each["id"].rpartition("-")[0], []).append(each)
        lines = [
            "not even JSON" if nonsense else json.dumps({"id": each["id"], "solution": other["solution"]})
            for group in by_table.values()
            for each, other in zip(group, [*group[1:], group[0]], strict=True)
        ]
        (folder / split / "gold.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("method", [method for method in METHODS if method != "supervised"])
@pytest.mark.parametrize("nonsense", [True, False])
def test_gold_never_reaches_a_method_that_learns_from_answers(
    data: Path, reference: Callable[[str], Path], tmp_path: Path, method: str, nonsense: bool
) -> None:
    root = with_gold(data, tmp_path, nonsense=nonsense)
    train(recipe(root, method, data={"solutions": str(data / "solutions")}), tmp_path / "run")
    assert weights(tmp_path / "run") == weights(reference(method))


def test_gold_is_what_the_supervised_upper_bound_learns_from(
    data: Path, reference: Callable[[str], Path], tmp_path: Path
) -> None:
    root = with_gold(data, tmp_path, nonsense=False)
    train(recipe(root, "supervised", data={"solutions": str(data / "solutions")}), tmp_path / "run")
    assert weights(tmp_path / "run") != weights(reference("supervised"))
    assert "Trained on gold solutions" in (tmp_path / "run" / "README.md").read_text()
    assert "gold" not in (reference("mimax") / "README.md").read_text()


def test_methods_and_seeds_end_with_weights_of_their_own(
    data: Path, reference: Callable[[str], Path], tmp_path: Path
) -> None:
    """What the tests above compare can differ."""
    train(recipe(data, "mml", train={"seed": 6}), tmp_path / "run")
    runs = [tmp_path / "run", *map(reference, METHODS)]
    assert len({weights(run)["solver.safetensors"] for run in runs}) == len(runs)
