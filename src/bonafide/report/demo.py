"""The demo: synthetic tables, every query that reaches each answer, two ways of learning, and a page to look at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import open_examples, read_gold
from bonafide.files import write_whole
from bonafide.learn.saved import load
from bonafide.report.learning import Learned, choose_examples, write_learning_page
from bonafide.report.runs import evaluate_run, selections_over_time
from bonafide.search.sql import search_sql
from bonafide.synth.sql import write_benchmark
from bonafide.tasks.sql.sources import open_tables

Report = Callable[[str, float], None]
"""Told the name of a part and how much of it is done, 0 to 1."""

_RECIPE = """
[data]
root = "{root}"
solutions = "{solutions}"
max_solutions = 40
dev_examples = 120

[solver]
encoder = "scratch"
layers = 2
width = 96
heads = 4

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
reconstructor_rate = 2e-3
seed = {seed}
select_by = "last"
checkpoint_every = 100000
"""
_METHODS = {"HardEM": ("hard-em", ""), "MIMAX": ("mimax", "switch = {switch}")}


def demo_sql(
    out: Path,
    seed: int = 0,
    tables: int = 120,
    spuriousness: float = 0.5,
    epochs: float = 12.0,
    switch: float = 10.5,
    report: Report = lambda name, share: None,
) -> dict[str, Any]:
    """Run the demo into ``out`` and return the figures of both methods; the page is ``out/report.html``.

    The two methods train side by side, one core each, from the same answers.
    """
    if (out / "data").exists():
        raise BonafideError(f"{out} already holds a demo. Delete it, or name another folder.")
    domains = ("orders",)  # one domain, so that a small model learns enough of it within minutes
    train = write_benchmark(out / "data/train", seed, tables, 12, spuriousness, domains=domains)
    dev = write_benchmark(out / "data/dev", seed, tables // 4, 12, spuriousness, split="dev", domains=domains)
    found = 0

    def searched(examples: int, solutions: int) -> None:
        nonlocal found
        found += examples
        report("search", found / (tables * 12))

    search_sql(train.examples, out / "solutions", progress=searched)
    runs = _train_side_by_side(out, epochs, switch, seed, report)
    learned = []
    for name, run in runs.items():
        evaluation = evaluate_run(run, dev.examples, gold=dev.gold)
        learned.append(Learned(name, run, evaluation, selections_over_time(run, train.gold)))
        report("evaluate", len(learned) / len(runs))
    source = open_tables(dev.tables)
    examples = list(open_examples(dev.examples))
    shown = choose_examples(learned, examples, source.table_of, read_gold(dev.gold))
    about = (
        f"{tables * 12:,} training questions on {tables} synthetic tables of orders (seed {seed}); figures on "
        f"{len(examples):,} questions about tables, values and some phrasings that were held out."
    )
    write_learning_page(out / "report.html", learned, shown, load(runs["MIMAX"]), about)
    return {method.name: method.row for method in learned}


def _train_side_by_side(out: Path, epochs: float, switch: float, seed: int, report: Report) -> dict[str, Path]:
    runs: dict[str, Path] = {}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    for name, (method, options) in _METHODS.items():
        recipe = out / f"{method}.toml"
        with write_whole(recipe) as stream:
            text = _RECIPE.format(
                root=(out / "data").resolve().as_posix(),
                solutions=(out / "solutions").resolve().as_posix(),
                method=method,
                options=options.format(switch=switch),
                epochs=epochs,
                seed=seed,
            )
            stream.write(text.encode())
        runs[name] = out / "runs" / method
        command = [sys.executable, "-m", "bonafide", "train", str(recipe), "--out", str(runs[name])]
        log = (out / f"{method}.log").open("wb")
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603
        log.close()
    try:
        while any(process.poll() is None for process in processes.values()):
            for name, run in runs.items():
                report(name, _share_done(run, epochs))
            time.sleep(0.5)
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
            process.wait()
    for name, process in processes.items():
        if process.returncode:
            raise BonafideError(f"Training with {name} failed: see {out / _METHODS[name][0]}.log.")
        report(name, 1.0)
    return runs


def _share_done(run: Path, epochs: float) -> float:
    try:
        last = (run / "metrics.jsonl").read_bytes().splitlines()[-1]
        entry: Mapping[str, Any] = json.loads(last)
        return min(1.0, float(entry.get("epoch", 0.0)) / epochs)
    except (OSError, IndexError, ValueError):
        return 0.0
