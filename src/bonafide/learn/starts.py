"""Several starts of a recipe, and the best of them, chosen without gold.

runs/a/
  seed-0/ seed-1/ …   ordinary runs, the first with the recipe's seed
  starts.json         the best, and what each had by the figure that chose

Where a reconstructor chooses from scratch, the seed can decide which accident it comes to believe (docs/objectives.md),
and execution accuracy does not see it; description length does (``learn/description.py``). It is taken over all dev
questions, however few of them ``data.dev_examples`` had decoded during training.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bonafide.errors import BonafideError
from bonafide.files import write_json
from bonafide.learn.data import open_dev
from bonafide.learn.monitor import chosen_by, dev_figures, standing
from bonafide.learn.recipe import Recipe
from bonafide.learn.runfolder import check_same
from bonafide.learn.saved import load
from bonafide.learn.trainer import train
from bonafide.sealed import read_sealed

Shown = Callable[[Path], AbstractContextManager[tuple[Any, Any]]]
"""What shows a run as it goes on: the watcher, and the progress of its search, as :func:`train` takes them."""


@dataclass(frozen=True, slots=True)
class Start:
    """A run, and its figure of the dev questions: the more, the better."""

    run: Path
    by: str
    figure: float


def train_starts(
    recipe: Recipe, out: Path, count: int, resume: bool = False, shown: Shown | None = None
) -> list[Start]:
    """Train ``count`` times, by the recipe's seed and those after it; the best first.

    With ``resume`` runs that ended are left as they are, and the others go on.
    """
    if (out / "recipe.json").exists():
        raise BonafideError(f"{out} already holds a run, and several starts are a folder of runs. Name another folder.")
    if open_dev(recipe) is None:
        raise BonafideError(
            f"Several starts are compared by their dev questions, and there are none: expected the folder data.dev "
            f"({recipe.data.dev or 'which is not named'}) in {recipe.data.root}."
        )
    seeds = range(recipe.train.seed, recipe.train.seed + count)
    runs = {seed: out / f"seed-{seed}" for seed in seeds}
    found = []
    for seed, run in runs.items():
        solutions = recipe.data.solutions
        if not solutions and run != runs[seeds[0]]:
            solutions = str(runs[seeds[0]] / "solutions")  # searched once for all
        made = replace(recipe, data=replace(recipe.data, solutions=solutions), train=replace(recipe.train, seed=seed))
        if resume and (run / "result.json").exists():
            check_same(run, read_sealed(run / "recipe.json"), made)
        else:
            with shown(run) if shown is not None else nullcontext((None, None)) as (watcher, searching):
                train(made, run, resume, watcher, searching)
        found.append(_start(run, recipe))
    found.sort(key=lambda start: standing(start.by, start.figure, "description"), reverse=True)
    listed = [{"run": start.run.name, "figure": start.figure} for start in found]
    write_json(out / "starts.json", {"best": found[0].run.name, "by": found[0].by, "starts": listed})
    return found


def _start(run: Path, recipe: Recipe) -> Start:
    dev = open_dev(replace(recipe, data=replace(recipe.data, dev_examples=0)))
    assert dev is not None, "it was there before"
    model = load(run, "cuda" if torch.cuda.is_available() else "cpu")
    return Start(run, *chosen_by(dev_figures(model, dev, recipe), "description", 0))
