"""Faults in ``bonafide train`` with ``--resume``, by one process or by two."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import tiny_runs
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.saved import load
from faults.damage import DAMAGES, Damage, Given, called, judged, tried
from faults.hits import HITS, Hit
from faults.processes import forked, seconds_of, until, wait_for_moment
from faults.record import IDENTICAL, WRONG, Area, Fault, MissedError

METHODS = ("mimax", "hard-em-thres")
UNREAD = {
    "environment.json": "versions and command line, for people: the model card shows them",
    "metrics.sums": "cut short: what is left of it still vouches for the log",
    "selections.sums": "cut short: what is left of it still vouches for the log",
    "timings.jsonl": "what the search took",
}
"""Files of a run in which damage may go unseen, and why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A method's recipe, what a whole run of it leaves, how long that takes, and a run that was killed on the way."""

    method: str
    recipe: Path
    result: dict[str, bytes]
    seconds: float
    killed: Path

    @property
    def out(self) -> Path:
        """Where runs that are hit write."""
        return self.recipe.with_name("hit")

    def arguments(self, out: Path | None = None) -> list[str]:
        """The command line; it begins a run too."""
        return ["train", str(self.recipe), "--out", str(out or self.out), "--resume"]


def left(run: Path) -> dict[str, bytes]:
    """What is the result of a run, to the bit."""
    return {**tiny_runs.weights(run), "selections.jsonl": (run / "selections.jsonl").read_bytes()}


def settings(data: Path, method: str, **train: Any) -> dict[str, dict[str, Any]]:
    """A small recipe, with some values of its [train]."""
    values = tiny_runs.settings(data, method)
    return {**values, "train": {**values["train"], **train}}


def prepare(data: Path, folder: Path, method: str) -> Prepared:
    """A whole run, and one that was killed after half of its steps."""
    folder.mkdir(parents=True)
    short = {"epochs": 2.0, "checkpoint_every": 3, "patience": 2}
    recipe = tiny_runs.write_recipe(folder / "recipe.toml", settings(data, method, **short))
    made = Prepared(method, recipe, {}, 0.0, folder / "killed")
    seconds = seconds_of(lambda: forked(*made.arguments(folder / "whole")))
    running = forked(*made.arguments(made.killed))
    until(lambda: (made.killed / "checkpoints" / "step-00000006").exists() or running.code() is not None)
    running.signal(signal.SIGKILL)
    running.end()
    return Prepared(method, recipe, left(folder / "whole"), seconds, made.killed)


def training(folder: Path, methods: Sequence[str] = METHODS) -> Area:
    """Faults in small runs."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True)
    data = tiny_runs.write_data(folder / "data")
    made = [prepare(data, folder / method, method) for method in methods]
    return {
        **{name: (weight / 2, partial(_hit, made, name, hit)) for name, (weight, hit) in HITS.items()},
        **{name: (5, partial(_damaged, made, name, damage)) for name, damage in DAMAGES.items()},
        **{f"{name}, input": (2, partial(_input, made, data, name, damage)) for name, damage in DAMAGES.items()},
    }


def _hit(made: list[Prepared], kind: str, hit: Hit, chance: random.Random) -> Fault:
    """Hit a run at a random moment, again and again if it likes; then let it go on to its end."""
    prepared = chance.choice(made)
    shutil.rmtree(prepared.out, ignore_errors=True)
    moment = chance.uniform(0, prepared.seconds)
    running = forked(*prepared.arguments())
    try:
        wait_for_moment(running, moment)
        target = hit(running, chance, 600_000)
        done = running.end()
    except MissedError:
        running.end()
        raise
    steps = [each.name for each in checkpoints(prepared.out / "checkpoints")]
    when = f"after {moment:.2f} s of {prepared.seconds:.2f}; checkpoints {', '.join(steps) or 'none'}"
    fault = partial(Fault, f"train {prepared.method}", kind, target, when)
    if "Traceback" in done.stderr:
        return fault(WRONG, done.stderr)
    if done.code:
        again = forked(*prepared.arguments()).end()
        if again.code:
            return fault(WRONG, again.stderr)
    return fault(IDENTICAL if left(prepared.out) == prepared.result else WRONG, f"it ended with {done.code}")


def _damaged(made: list[Prepared], kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage a file of a run that was killed, and let it go on; a model that nobody has read since is then read."""
    prepared = chance.choice(made)
    run = prepared.out
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(prepared.killed, run)
    last = checkpoints(run / "checkpoints")[-1]
    read = [*run.glob("*.*"), *(run / "model").rglob("*"), *last.iterdir()]
    path = chance.choice(sorted(each for each in read if each.is_file() and each.stat().st_size))
    where = damage(path, chance)
    fault = partial(Fault, f"train {prepared.method}, resumed", kind, str(path.relative_to(run)), where)
    given = called(*prepared.arguments())
    if (run / "model") in path.parents and given == Given(given.said):
        given = tried(lambda: str(load(run).about["step"]))
    whole = prepared.recipe.parent / "whole" / path.relative_to(run)
    return judged(
        fault, path, UNREAD, given, lambda _: left(run) == prepared.result,
        lambda: not path.exists() or (whole.exists() and path.read_bytes() == whole.read_bytes()),
        (last,),
    )  # fmt: skip


def _input(made: list[Prepared], data: Path, kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage the solution store or what was searched for it, and begin a run."""
    prepared = chance.choice(made)
    shutil.rmtree(prepared.out, ignore_errors=True)
    files = [*(data / "solutions").iterdir(), data / "train" / "examples.jsonl", data / "train" / "tables.jsonl"]
    path = chance.choice(sorted(files))
    whole = path.read_bytes()
    where = damage(path, chance)
    try:
        fault = partial(Fault, f"train {prepared.method}", f"{kind} of the input", path.name, where)
        return judged(
            fault, path, UNREAD, called(*prepared.arguments()), lambda _: left(prepared.out) == prepared.result
        )
    finally:
        path.write_bytes(whole)
