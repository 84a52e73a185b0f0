"""A run goes on with the data that it was started with, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.learn.learned_from import NOTE
from bonafide.learn.steps import Progress
from bonafide.learn.trainer import train
from bonafide.select import select
from bonafide.synth.candidates import generate_candidates
from command_line import contents
from tiny_runs import recipe, write_data

torch.set_num_threads(1)


def stopped(progress: Progress) -> None:
    if progress.step == 6:
        raise KeyboardInterrupt


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_does_not_go_on_with_other_data(tmp_path: Path, finished: bool) -> None:
    data, run = write_data(tmp_path / "data"), tmp_path / "run"
    made = recipe(data, "mimax", data={"solutions": ""}, train={"epochs": 1.0})
    if finished:
        train(made, run)
    else:
        with pytest.raises(KeyboardInterrupt):
            train(made, run, watcher=stopped)
    path = data / "train/examples.jsonl"
    whole = path.read_text()
    path.write_text("".join(reversed(whole.splitlines(keepends=True))))
    shutil.rmtree(run / "solutions")
    before = contents(run)
    with pytest.raises(BonafideError, match=r"other data: examples\.jsonl in .*train changed\. Resume with the files"):
        train(made, run, resume=True)
    assert contents(run) == before
    path.write_text(whole)
    (run / NOTE).unlink()  # an older run goes on as before
    train(made, run, resume=True)
    assert not (run / NOTE).exists()


def test_a_model_makes_no_picks_of_another_file(tmp_path: Path) -> None:
    few = ["train.epochs=1", "train.batch=8", "reconstructor.layers=1", "reconstructor.width=16"]
    for name, seed in (("one", 1), ("other", 2)):
        write_jsonl(tmp_path / f"{name}.jsonl", generate_candidates(8, seed, 0.5, 4))
    select(tmp_path / "one.jsonl", tmp_path / "picked.jsonl", overrides=few)
    with pytest.raises(BonafideError, match=r"picked\.work already holds the candidates of another file"):
        select(tmp_path / "other.jsonl", tmp_path / "picked.jsonl", overrides=few)
    shutil.rmtree(tmp_path / "picked.work/data")
    before = contents(tmp_path / "picked.work")
    with pytest.raises(BonafideError, match=r"run was started with other data: candidates\.jsonl, examples\.jsonl"):
        select(tmp_path / "other.jsonl", tmp_path / "picked.jsonl", overrides=few)
    assert {name: each for name, each in contents(tmp_path / "picked.work").items() if name in before} == before
