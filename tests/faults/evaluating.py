"""Faults in ``bonafide evaluate``, and in what a run leaves to ``compare``, ``audit`` and the explorer."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

import tiny_runs
from bonafide.explore.methods import Methods
from bonafide.explore.workspace import Workspace
from bonafide.learn.kept import KEPT
from bonafide.learn.trainer import train
from bonafide.report.runs import selections_over_time
from bonafide.sealed import sums_of
from faults.damage import DAMAGES, Damage, called, judged, tried
from faults.hits import HITS, Hit
from faults.processes import forked, seconds_of, wait_for_moment
from faults.record import IDENTICAL, WRONG, Area, Fault, MissedError

UNREAD = {
    "predictions.sums": "cut short: what is left of it still vouches for the predictions",
    "metrics.sums": "cut short: what is left of it still vouches for the log",
    "selections.sums": "cut short: what is left of it still vouches for the log",
}
"""Files in which damage may go unseen, and why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Two runs with their data, and what the commands say of them."""

    data: Path
    runs: tuple[Path, Path]
    said: dict[str, str]
    predictions: bytes
    seconds: float

    def evaluate(self, run: Path, out: Path) -> list[str]:
        """The command line."""
        split = self.data / "train"
        files = ["--examples", str(split / "examples.jsonl"), "--gold", str(split / "gold.jsonl"), "--out", str(out)]
        return ["evaluate", str(run), *files, "--json"]

    def compare(self, run: Path) -> list[str]:
        """The same."""
        split = self.data / "train"
        files = ["--examples", str(split / "examples.jsonl"), "--gold", str(split / "gold.jsonl")]
        return ["compare", str(self.runs[1]), str(run), *files, "--solutions", str(self.data / "solutions"), "--json"]

    def audit(self, run: Path) -> list[str]:
        """The same."""
        files = ["--solutions", str(self.data / "solutions"), "--gold", str(self.data / "train" / "gold.jsonl")]
        return ["audit", str(run / "predictions.jsonl"), *files, "--json"]


def prepare(folder: Path) -> Prepared:
    """Two methods, trained for a second each."""
    data = tiny_runs.write_data(folder / "data")
    runs = (folder / "runs" / "mimax", folder / "runs" / "hard-em")
    made = Prepared(data, runs, {}, b"", 0.0)
    for run in runs:
        train(tiny_runs.recipe(data, run.name, train={"epochs": 1.0}), run)
        assert called(*made.evaluate(run, run / "predictions.jsonl")).said
    seconds = seconds_of(lambda: forked(*made.evaluate(runs[0], folder / "whole.jsonl")))
    said = {
        "evaluate": called(*made.evaluate(runs[0], folder / "whole.jsonl")).said,
        "compare": called(*made.compare(runs[0])).said,
        "audit": called(*made.audit(runs[0])).said,
        "explore": looked(runs[0], data),
    }
    assert all(said.values())
    return Prepared(data, runs, said, (folder / "whole.jsonl").read_bytes(), seconds)


def looked(run: Path, data: Path) -> str:
    """What the explorer and the report read of a run."""
    shutil.rmtree(run / "explore", ignore_errors=True)
    workspace = Workspace(run)
    try:
        row = Methods(workspace).rows[0]
        chosen = workspace.index.query("SELECT id, size, trained, solver, reconstructor FROM examples ORDER BY place")
        shown = [workspace.text(opened, 0) for opened in map(workspace.open, range(8)) if len(opened.solutions)]
        over_time = selections_over_time(run, data / "train" / "gold.jsonl")
        return json.dumps([row.recipe, list(map(dict, row.metrics)), row.dev, chosen, shown, over_time])
    finally:
        workspace.close()


def evaluating(folder: Path) -> Area:
    """Faults in evaluation and in what is read afterwards."""
    torch.set_num_threads(1)
    made = prepare(folder)
    return {
        **{name: (weight / 2, partial(_hit, made, name, hit)) for name, (weight, hit) in HITS.items()},
        **{f"{name}, model": (4, partial(_model, made, name, damage)) for name, damage in DAMAGES.items()},
        **{f"{name}, predictions": (3, partial(_predictions, made, name, damage)) for name, damage in DAMAGES.items()},
        **{f"{name}, run": (3, partial(_run, made, name, damage)) for name, damage in DAMAGES.items()},
    }


def _hit(made: Prepared, kind: str, hit: Hit, chance: random.Random) -> Fault:
    """Hit an evaluation at a random moment: the predictions are whole or not there, and whole after the next one."""
    out = made.data.parent / "hit.jsonl"
    for path in (out, sums_of(out)):
        path.unlink(missing_ok=True)
    moment = chance.uniform(0, made.seconds)
    running = forked(*made.evaluate(made.runs[0], out))
    try:
        wait_for_moment(running, moment)
        target = hit(running, chance, len(made.predictions))
        done = running.end()
    except MissedError:
        running.end()
        raise
    fault = partial(Fault, "evaluate", kind, target, f"after {moment:.2f} s of {made.seconds:.2f}")
    if "Traceback" in done.stderr:
        return fault(WRONG, done.stderr)
    if out.exists() and out.read_bytes() != made.predictions:
        return fault(WRONG, "half of the predictions, or others")
    if done.code:
        again = forked(*made.evaluate(made.runs[0], out)).end()
        if again.code:
            return fault(WRONG, again.stderr)
    return fault(IDENTICAL if out.read_bytes() == made.predictions else WRONG, f"it ended with {done.code}")


def _copied(made: Prepared) -> Path:
    run = made.runs[0].with_name("hit")
    shutil.rmtree(run, ignore_errors=True)
    return Path(shutil.copytree(made.runs[0], run))


def _damaged(files: list[Path], damage: Damage, chance: random.Random) -> tuple[Path, str]:
    path = chance.choice(sorted(each for each in files if each.is_file() and each.stat().st_size))
    return path, damage(path, chance)


def _model(made: Prepared, kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage a file of the model, and evaluate."""
    run = _copied(made)
    path, where = _damaged(list((run / "model").rglob("*")), damage, chance)
    out = made.data.parent / "hit.jsonl"
    given = called(*made.evaluate(run, out))
    fault = partial(Fault, "evaluate", kind, str(path.relative_to(run)), where)
    return judged(fault, path, {}, given, _same_figures(made.said["evaluate"]))


def _same_figures(expected: str) -> Callable[[str], bool]:
    """Whether the figures are the same; the run's name is another."""

    def same(said: str) -> bool:
        found, wanted = json.loads(said), json.loads(expected)
        return {**found, "run": ""} == {**wanted, "run": ""} if isinstance(found, dict) else bool(found == wanted)

    return same


def _predictions(made: Prepared, kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage predictions, and compare or audit them."""
    run = _copied(made)
    path, where = _damaged([run / "predictions.jsonl", sums_of(run / "predictions.jsonl")], damage, chance)
    command, arguments = chance.choice([("compare", made.compare(run)), ("audit", made.audit(run))])
    given = called(*arguments)
    expected = made.said[command].replace(str(made.runs[0]), str(run))
    fault = partial(Fault, command, kind, path.name, where)
    return judged(fault, path, UNREAD, given, lambda said: said == expected, names=(run / "predictions.jsonl",))


def _run(made: Prepared, kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage what a finished run says of itself, and look at it."""
    run = _copied(made)
    logs = ("metrics.jsonl", "metrics.sums", "selections.jsonl", "selections.sums")
    names = ("recipe.json", "result.json", KEPT, *logs)
    path, where = _damaged([run / name for name in names], damage, chance)
    given = tried(lambda: looked(run, made.data))
    fault = partial(Fault, "explore", kind, path.name, where)
    return judged(
        fault, path, UNREAD, given, lambda said: said == made.said["explore"], names=(path.with_suffix(".jsonl"),)
    )
