"""How much memory a training step takes, by the number of solutions of its one example: docs/scale.md, "Memory".

    python benchmarks/memory.py --methods mml mimax --solutions 1000 10000 100000 [--writer --budget 10000]

One question about a table of one row, which 140,000 queries answer; small models. Each line is a process of its own:
what it holds once the example is tokenised, and the peak of one step besides that, by what Linux says (VmRSS, VmHWM).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from bonafide.learn.data import load_training_data
from bonafide.learn.objective import Moment
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.trainer import Trainer
from bonafide.search.sql import search_sql

METHODS = ("mml", "hard-em", "hard-em-thres", "mimax", "vae")
OPTIONS = {"mimax": {"switch": -1.0}, "vae": {"first_stage": 0, "second_stage": 0}}


def write_data(root: Path) -> None:
    """140,000 queries select the one row."""
    values = [2, 3, 4, 5, 6, 7, "a", "b"]
    table = {"id": "t", "header": ["x", *"klmnopqr"], "types": ["real"] * 7 + ["text"] * 2, "rows": [[1, *values]]}
    example = {"id": "e", "question": " ".join(map(str, values)), "context": "t", "answers": [1]}
    (root / "train").mkdir()
    (root / "train" / "tables.jsonl").write_text(json.dumps(table) + "\n")
    (root / "train" / "examples.jsonl").write_text(json.dumps(example) + "\n")
    search_sql(root / "train" / "examples.jsonl", root / "solutions", cap=None)


def recipe(root: Path, method: str, solutions: int, writer: bool, budget: int) -> Recipe:
    """One layer, 32 wide."""
    small = {"layers": 1, "width": 32, "heads": 2}
    return recipe_from(
        {
            "data": {"root": str(root), "solutions": str(root / "solutions"), "max_solutions": solutions, "dev": ""},
            "solver": {"kind": "text" if writer else "slots", "encoder": "scratch", **small, "head_width": 16},
            "reconstructor": {"kind": "t-scratch", **small},
            "objective": {"method": method, "options": OPTIONS.get(method, {})},
            "train": {"batch": 1, "epochs": 1.0, "budget": budget},
        },
        "benchmarks/memory.py",
    )


def status(name: str) -> float:
    """MiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measure(made: Recipe, out: Path) -> None:
    """Print one line."""
    torch.set_num_threads(1)
    data = load_training_data(made, out)
    before = status("VmRSS")
    trainer = Trainer(made, data, RunFolder(out, made))
    trainer._board = None
    held = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    started = time.perf_counter()
    allowed = trainer._filter(Moment(0, 1)) if made.objective.method == "hard-em-thres" else None
    trainer._step(Moment(0, 1), allowed)
    seconds, peak = time.perf_counter() - started, status("VmHWM") - held
    size = trainer.items[0].size
    print(f"{made.objective.method:<14}{size:>9,}{held - before:>14.0f}{peak:>12.0f}{seconds:>10.1f}", flush=True)


def main() -> None:
    """Write the data, and measure each line in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--solutions", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--writer", action="store_true", help="the solver that writes queries, instead of the slots")
    parser.add_argument("--budget", type=int, default=400_000, help="train.budget")
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.data is not None:
        (method,), (solutions,) = arguments.methods, arguments.solutions
        measure(recipe(arguments.data, method, solutions, arguments.writer, arguments.budget), arguments.data / "run")
        return
    print(f"{'method':<14}{'solutions':>9}{'tokenised MiB':>14}{'step MiB':>12}{'seconds':>10}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        for method in arguments.methods:
            for solutions in arguments.solutions:
                line = ["--methods", method, "--solutions", str(solutions), "--budget", str(arguments.budget)]
                line += ["--writer"] if arguments.writer else []
                subprocess.run([sys.executable, __file__, *line, "--data", folder], check=True)


if __name__ == "__main__":
    main()
