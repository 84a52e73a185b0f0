"""The demos: data that bonafide makes, every solution that reaches each answer, ways of learning side by side, a page.

What a task's demo is made of is in a file of its own (``demo_sql.py``); here is what all of them do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bonafide.errors import BonafideError
from bonafide.files import write_whole
from bonafide.learn.saved import load
from bonafide.report.learning import Learned, Shown, Words, write_learning_page

Report = Callable[[str, float], None]
"""Told the name of a part and how much of it is done, 0 to 1."""

_RECIPE = """
[data]
{data}

[solver]
encoder = "scratch"
layers = 2
width = 96
heads = 4
{solver}

[reconstructor]
kind = "t-scratch"
layers = 1
width = 96
heads = 4

[objective]
method = "{method}"

[objective.options]
{options}

[train]
epochs = {epochs}
batch = 16
encoder_rate = 1e-3
head_rate = 1e-3
reconstructor_rate = 3e-3
select_by = "last"
checkpoint_every = 100000
"""


def small_recipe(method: str, epochs: float, data: str, solver: str = "", options: str = "") -> str:
    """The recipe of models that learn within minutes on a CPU; the arguments are lines of its sections."""
    return _RECIPE.format(method=method, epochs=epochs, data=data, solver=solver, options=options)


class Files(Protocol):
    """A split on disk."""

    @property
    def examples(self) -> Path: ...  # noqa: D102
    @property
    def gold(self) -> Path: ...  # noqa: D102


class Demo(Protocol):
    """One task's demo."""

    @property
    def words(self) -> Words:
        """How it speaks on the page."""
        ...

    @property
    def methods(self) -> Mapping[str, str]:
        """By name, the recipe of each; the last has a reconstructor, which judges on the page."""
        ...

    def write(self, root: Path, seed: int) -> tuple[Files, Files]:
        """Write train and dev under ``root``."""
        ...

    def search(self, examples: Path, store: Path, progress: Callable[[float], None]) -> None:
        """Every solution of the train examples."""
        ...

    def learned(self, name: str, run: Path, train: Files, dev: Files) -> Learned:
        """A run, judged on dev."""
        ...

    def shown(self, methods: Sequence[Learned], dev: Files) -> list[Shown]:
        """Ten examples for the page."""
        ...

    def about(self, seed: int, train: Files, dev: Files) -> str:
        """What was learned from, and measured on."""
        ...


def run_demo(
    demo: Demo, out: Path, seed: int = 0, report: Report = lambda name, share: None
) -> dict[str, dict[str, float]]:
    """Run a demo into ``out`` and return the figures of its methods; the page is ``out/report.html``.

    The methods train side by side, one core each, from the same answers.
    """
    if (out / "data").exists():
        raise BonafideError(f"{out} already holds a demo. Delete it, or name another folder.")
    train, dev = demo.write(out / "data", seed)
    demo.search(train.examples, out / "solutions", lambda share: report("search", share))
    runs = _train_side_by_side(demo, out, seed, report)
    learned = []
    for name, run in runs.items():
        learned.append(demo.learned(name, run, train, dev))
        report("evaluate", len(learned) / len(runs))
    judge = load(runs[list(demo.methods)[-1]])
    write_learning_page(
        out / "report.html", learned, demo.shown(learned, dev), judge, demo.words, demo.about(seed, train, dev)
    )
    return {method.name: method.row for method in learned}


def _train_side_by_side(demo: Demo, out: Path, seed: int, report: Report) -> dict[str, Path]:
    runs: dict[str, Path] = {}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    for name, recipe in demo.methods.items():
        path = out / f"{name}.toml"
        with write_whole(path) as stream:
            stream.write(recipe.encode())
        runs[name] = out / "runs" / name
        settings = {"data.root": out / "data", "data.solutions": out / "solutions", "train.seed": seed}
        command = [sys.executable, "-m", "bonafide", "train", str(path), "--out", str(runs[name])]
        for key, value in settings.items():
            command += ["--set", f"{key}={value.resolve() if isinstance(value, Path) else value}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (out / f"{name}.log").open("wb") as log:
            processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603
    try:
        while any(process.poll() is None for process in processes.values()):
            for name, run in runs.items():
                report(name, _share_done(run))
            time.sleep(0.5)
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
            process.wait()
    for name, process in processes.items():
        if process.returncode:
            raise BonafideError(f"Training with {name} failed: see {out / f'{name}.log'}.")
        report(name, 1.0)
    return runs


def _share_done(run: Path) -> float:
    try:
        epochs = json.loads((run / "recipe.json").read_bytes())["train"]["epochs"]
        last = (run / "metrics.jsonl").read_bytes().splitlines()[-1]
        entry: Mapping[str, Any] = json.loads(last)
        return min(1.0, float(entry.get("epoch", 0.0)) / float(epochs))
    except (OSError, IndexError, ValueError):
        return 0.0
