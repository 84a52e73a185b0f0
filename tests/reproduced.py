"""Small rows of tables, and the data that they learn from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bonafide.reproduce.one_run import run_job
from bonafide.reproduce.results import Result
from bonafide.reproduce.runs import Asked, planned, results_of
from bonafide.reproduce.tables import table
from bonafide.synth.sql import write_benchmark

TINY = (
    "data.max_solutions=20", "solver.layers=1", "solver.width=32", "solver.heads=2", "solver.head_width=16",
    "reconstructor.width=32", "reconstructor.heads=2", "train.epochs=4.0", "train.evaluate_every=2.0",
    "train.batch=8", "train.checkpoint_every=4", "data.dev_examples=4",
    "train.encoder_rate=1e-2", "train.head_rate=2e-2",
)  # fmt: skip
ROWS = ("hard-em", "mimax")


def write_data(folder: Path) -> Path:
    """48 questions to learn from, 24 to be judged on."""
    write_benchmark(folder / "train", 0, 4, 12, 0.5, "train", ("orders",), 2)
    write_benchmark(folder / "dev", 0, 2, 12, 0.5, "dev", ("orders",), 2)
    return folder


SMALL_TEXT = (
    "solver.encoder=scratch", "solver.layers=1", "solver.width=32", "solver.heads=2", "solver.head_width=32",
    "solver.window=64", "solver.stride=64", "reconstructor.kind=t-scratch", "reconstructor.path=",
    "reconstructor.layers=1", "reconstructor.width=32", "reconstructor.heads=2", "train.epochs=4.0", "train.batch=8",
    "train.encoder_rate=1e-2", "train.head_rate=1e-2", "data.dev_examples=4",
)  # fmt: skip


def trained(name: str, data: Path, out: Path, *settings: str, row: str = "mimax") -> tuple[Result, Path]:
    """The result of one run of a table, and its folder."""
    asked = Asked(out, data, 1, (row,), (*SMALL_TEXT, *settings))
    (job,) = planned(table(name), asked)
    run_job(job.content)
    (result,) = results_of(table(name), asked)[row]
    return result, Path(job.content["run"])


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
