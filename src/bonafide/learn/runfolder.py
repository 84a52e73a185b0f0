"""A run's folder: everything that a person, or a later command, wants to know about a training run.

runs/a/
  README.md           what this is, with the result, for people
  card.md             the model card: task, data, method, figures, licence, what it is not for
  recipe.json         every setting
  environment.json    versions, machine, git state
  metrics.jsonl       one line a log entry; evaluations have the dev figures
  learned-from.json   hashes of the data that it learns from
  kept.parquet        which solutions of the store it trains on
  selections.jsonl    one line an evaluation: which solution trained the solver, for each example
  metrics.sums, …     checksums of their lines
  checkpoints/        to go on from: the last, and the best
  tensorboard/        the metrics as curves, where TensorBoard is installed
  model/              the best model: bonafide.load("runs/a")
  solutions/          the solution store, where the run made it
  data/               what it learned from, where that was written for this run
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.files import explained, held_alone, made_folder, read_json, write_json, write_whole
from bonafide.learn.card import cut_down, model_card
from bonafide.learn.kept import KEPT
from bonafide.learn.learned_from import NOTE
from bonafide.learn.recipe import Recipe
from bonafide.sealed import read_log, read_sealed, vouch_for, vouched, write_sealed

OF_NO_CONSEQUENCE = ("checkpoint_every", "log_every")
"""What of [train] may be another when a run goes on. One process comes to the same weights; of several, those after the
first draw their dropout anew at each checkpoint."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run, held by one process at a time."""

    path: Path
    recipe: Recipe

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    @classmethod
    @contextmanager
    def open(cls, path: Path, recipe: Recipe, resume: bool) -> Iterator[RunFolder]:
        """Make the folder, or with ``resume`` take up the run that is in it."""
        known = path / "recipe.json"
        if known.exists() and not resume:
            raise BonafideError(f"{path} already holds a run. Add --resume to go on with it, or name another folder.")
        with explained(path, "write"):
            there = list(path.iterdir()) if path.exists() else []
            others = [each for each in there if each.suffix != ".part" and each.name != "data"]
        if not known.exists() and others:
            raise BonafideError(f"{path} is not empty and holds no run. Name another folder.")
        with made_folder(path), held_alone(path, f"Another process is training in {path} right now."):
            folder = cls(path, recipe)
            if known.exists():
                saved = read_sealed(known)
                check_same(path, saved, recipe)
                folder._write_recipe(known, saved)
                folder._write_environment()
                yield folder
            else:
                with folder._begun():
                    yield folder

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """Write what the run is; on an error before it has anything to show, such as of its input, take it back."""
        begun = [self.path / name for name in ("recipe.json", "environment.json", KEPT, NOTE)]
        try:
            self._write_recipe(begun[0], {})
            self._write_environment()
            yield
        except BonafideError:
            others = {each for each in self.path.iterdir() if each.suffix != ".part" and each.name != "data"}
            if others <= set(begun):
                for each in begun:
                    each.unlink(missing_ok=True)
            raise

    def _write_recipe(self, path: Path, saved: dict[str, Any]) -> None:
        recipe = json.loads(json.dumps(self.recipe.to_json()))
        content = {"tool": f"bonafide {__version__}", **recipe, **saved, "train": recipe["train"]}
        if content != saved:
            write_sealed(path, content)

    def _write_environment(self) -> None:
        """Where the run began; a kill may come before it is known, and then where it went on."""
        path = self.path / "environment.json"
        if not path.exists():
            write_json(path, _environment())

    def log(self, entry: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        self._append("metrics.jsonl", entry)

    def log_selections(self, epoch: float, selections: dict[str, list[int]]) -> None:
        """Add a line to the selections."""
        self._append("selections.jsonl", {"epoch": epoch, **selections})

    def metrics(self) -> list[dict[str, Any]]:
        """What was logged."""
        path = self.path / "metrics.jsonl"
        return read_log(path) if path.exists() else []

    def evaluated_steps(self) -> list[int]:
        """Steps at which the dev figures were taken."""
        return [entry["step"] for entry in self.metrics() if "evaluation" in entry]

    def forget_after(self, step: int) -> None:
        """Drop what was logged after a checkpoint: it will be logged again."""
        kept = [entry for entry in self.metrics() if entry["step"] <= step]
        evaluations = sum("evaluation" in entry for entry in kept)
        selections = self.path / "selections.jsonl"
        selected = read_log(selections) if selections.exists() else []
        for name, entries in (("metrics.jsonl", kept), ("selections.jsonl", selected[:evaluations])):
            with vouched(self.path / name), write_whole(self.path / name) as stream:
                stream.writelines(json.dumps(entry).encode() + b"\n" for entry in entries)

    def finish(self, best: dict[str, Any], data: dict[str, Any]) -> None:
        """Write the model card, and the page that a person reads."""
        write_sealed(self.path / "result.json", {"best": best, "data": data})
        store = Path(self.recipe.data.solutions or self.path / "solutions")
        card = model_card(self.recipe, read_json(self.path / "environment.json"), best, data, store)
        with write_whole(self.path / "card.md") as stream:
            stream.write(card.encode())
        method, task = self.recipe.objective.method, self.recipe.data.task
        lines = [
            f"# A bonafide run: {method}",
            "",
            f"Trained on {data['used']:,} examples with {data['solutions']:,} solutions (task {task}).",
        ]
        if data["gold"]:
            lines.append("**Trained on gold solutions**: the upper bound, not a result of learning from answers.")
        if data["capped"]:
            lines.append(f"{data['capped']:,} solution sets were {cut_down(self.recipe)}.")
        if data["unreachable"]:
            lines.append(f"{data['unreachable']:,} solutions are beyond the solver, which reads or writes less.")
        lines += ["", "| figure of the best checkpoint | value |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in best.items()]
        options = {"sql": "--table your.csv", "discrete": "--passage your.txt", "reading": "--document your.txt"}
        ask = f'bonafide.load("{self.path}").predict(context, "your question")'
        if task in options:
            ask = f'bonafide predict {shlex.quote(str(self.path))} {options[task]} "your question"'
        lines += ["", f"Ask it: `{ask}`", "", "What it is, and is not for: [card.md](card.md).", ""]
        with write_whole(self.path / "README.md") as stream:
            stream.write("\n".join(lines).encode())

    def write_failure(self, what: dict[str, Any]) -> None:
        """Keep the batch that made training stop."""
        write_json(self.path / "failed-batch.json", what)

    def _append(self, name: str, entry: dict[str, Any]) -> None:
        line = json.dumps(entry).encode() + b"\n"
        with explained(self.path / name, "write"), (self.path / name).open("ab") as stream:
            stream.write(line)
        vouch_for(self.path / name, line)


def _environment() -> dict[str, Any]:
    return {
        "bonafide": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": sys.argv,
        "git": _git(),
    }


def _git() -> str | None:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],  # noqa: S607
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def check_same(path: Path, saved: dict[str, Any], recipe: Recipe) -> None:
    """Refuse to go on with the run at ``path``, whose recipe was ``saved``, by other settings."""
    for section, content in json.loads(json.dumps(recipe.to_json())).items():
        before = saved.get(section, {})
        changed = sorted(key for key in {*content, *before} if before.get(key) != content.get(key))
        if section == "train":
            changed = [key for key in changed if key not in OF_NO_CONSEQUENCE]
        if changed:
            raise BonafideError(
                f"{path} was started with other settings in [{section}]: {', '.join(changed)}. Resume with the "
                "settings it was started with, or name another folder."
            )
