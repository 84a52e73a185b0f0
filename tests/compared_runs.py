"""Small runs of two methods to compare, and predictions made by hand for them."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from bonafide.evaluate.predictions import write_predictions
from bonafide.evaluate.sql import SqlPrediction
from bonafide.examples import read_gold
from bonafide.learn.learnable import learnable
from bonafide.learn.trainer import train
from bonafide.report.compare import Comparison, compare_runs
from bonafide.report.predicted import asked_of_store
from bonafide.sealed import read_sealed, write_sealed
from tiny_runs import recipe, write_data

torch.set_num_threads(1)


def write_runs(folder: Path) -> Path:
    """Data, and runs of two methods with two seeds each: ``hard-em-5``, ``hard-em-6``, ``mimax-5``, ``mimax-6``."""
    write_data(folder)
    for method in ("hard-em", "mimax"):
        for seed in (5, 6):
            settings = recipe(folder, method, train={"seed": seed, "epochs": 1.0, "checkpoint_every": 1000})
            train(settings, folder / f"{method}-{seed}")
    return folder


def runs(data: Path) -> list[Path]:
    return [data / f"{method}-{seed}" for method in ("hard-em", "mimax") for seed in (5, 6)]


def predict(data: Path, run: Path, right: set[str], genuine: set[str]) -> None:
    """Let a run predict gold for the genuine, another solution of the set for the rest of the right, else nothing."""
    asked = asked_of_store(data / "solutions")
    gold, store = read_gold(data / "train" / "gold.jsonl"), learnable("sql").open_store(data / "solutions")
    made = []
    for name, solutions in store:
        true = asked.gold(gold[name], asked.examples[name])
        spurious = next((each for each in solutions if each != true), None)
        query = true if name in genuine else spurious if name in right else None
        made.append(SqlPrediction(name, query, -1.0))
    write_predictions(run / "predictions.jsonl", made, lambda name: asked.context_of(asked.examples[name]))


def ambiguous(data: Path) -> list[str]:
    store = learnable("sql").open_store(data / "solutions")
    return [name for name, solutions in store if len(solutions) > 1]


def known_in(data: Path) -> tuple[Comparison, list[str]]:
    """HardEM right on the first 20 of 30 examples, by spurious solutions; MIMAX on the last 20, by gold ones."""
    names = ambiguous(data)[:30]
    for run in runs(data):
        first = "hard-em" in run.name
        part = set(names[:20] if first else names[10:])
        predict(data, run, part, set() if first else part)
    gold = data / "train" / "gold.jsonl"
    found = compare_runs(runs(data), data / "train" / "examples.jsonl", gold, data / "solutions")
    return found, names


def retold(run: Path, out: Path, **changed: dict[str, object]) -> Path:
    """A copy of a run, without its predictions, whose recipe has other settings."""
    shutil.copytree(run, out, ignore=shutil.ignore_patterns("predictions*"))
    values = read_sealed(out / "recipe.json")
    write_sealed(out / "recipe.json", values | {name: values[name] | part for name, part in changed.items()})
    return out
