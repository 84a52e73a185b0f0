"""Training runs that take about a second: small synthetic data, models of one narrow layer."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path
from typing import Any

import torch

from bonafide.examples import example_to_json, write_jsonl
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.steps import Progress
from bonafide.learn.trainer import train
from bonafide.search.sql import search_sql
from bonafide.synth.sql import generate
from bonafide.tasks.sql.tables import table_to_json

OPTIONS: dict[str, dict[str, Any]] = {
    "hard-em": {"anneal": 20},
    "mimax": {"switch": 2.0},
    "mimax+": {"switch": 2.0},
    "vae": {"first_stage": 1, "second_stage": 1, "samples": 2},
}
"""So that every stage of a method has its turn within four epochs."""

STEPS = 24
"""Of a run by :func:`settings`: 48 examples, 6 steps an epoch, 4 epochs."""


def write_data(folder: Path) -> Path:
    """``train`` with 48 examples and its solution store, and ``dev`` with 6 examples."""
    for split, tables, questions in (("train", 4, 12), ("dev", 1, 6)):
        made, pairs = generate(tables, questions, seed=3, split="train" if split == "train" else "dev")
        write_jsonl(folder / split / "tables.jsonl", map(table_to_json, made))
        write_jsonl(folder / split / "examples.jsonl", (example_to_json(example) for example, _ in pairs))
        write_jsonl(folder / split / "gold.jsonl", ({"id": gold.id, "solution": gold.solution} for _, gold in pairs))
    search_sql(folder / "train" / "examples.jsonl", folder / "solutions")
    return folder


def settings(root: Path, method: str, **changed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A recipe as plain values; ``changed`` overrides values of its sections."""
    values: dict[str, dict[str, Any]] = {
        "data": {"root": str(root), "solutions": str(root / "solutions"), "max_solutions": 40},
        "solver": {"encoder": "scratch", "layers": 1, "width": 32, "heads": 2, "head_width": 16},
        "reconstructor": {"kind": "t-scratch", "layers": 1, "width": 32, "heads": 2},
        "objective": {"method": method, "options": OPTIONS.get(method, {})},
        "train": {
            "epochs": 4.0,
            "batch": 8,
            "checkpoint_every": 4,
            "log_every": 1,
            "budget": 2000,
            "seed": 5,
            "encoder_rate": 1e-2,
            "head_rate": 2e-2,  # much moves in few steps, so that little goes unseen
        },
    }
    return {section: {**content, **changed.get(section, {})} for section, content in values.items()}


def recipe(root: Path, method: str, **changed: dict[str, Any]) -> Recipe:
    return recipe_from(settings(root, method, **changed), "a test")


def write_recipe(path: Path, values: dict[str, dict[str, Any]]) -> Path:
    """The same as a file."""
    lines = []
    for section, content in values.items():
        options = content.get("options", {})
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in content.items() if key != "options"]
        if options:
            lines += [f"[{section}.options]", *(f"{key} = {_toml(value)}" for key, value in options.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def weights(run: Path) -> dict[str, bytes]:
    """Every tensor that a run leaves, of the best model and of the last checkpoint, to the bit."""
    found = {path.name: path.read_bytes() for path in sorted((run / "model").glob("*.safetensors"))}
    last = checkpoints(run / "checkpoints")[-1]
    return {**found, last.name: (last / "tensors.safetensors").read_bytes()}


def train_and_be_killed(made: Recipe, out: Path, step: int, resume: bool = False) -> None:
    """For a process of its own: train, and die by SIGKILL after a step, before its checkpoint is written."""
    torch.set_num_threads(1)
    train(made, out, resume, functools.partial(_die, step))


def _die(step: int, progress: Progress) -> None:
    if progress.step >= step:
        os.kill(os.getpid(), signal.SIGKILL)
