"""Faults in ``bonafide search sql``, ``discrete`` and ``reading``, by one process or by two workers."""

from __future__ import annotations

import random
import shutil
import signal
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from bonafide.synth.sql import write_benchmark
from command_line import contents
from faults.damage import DAMAGES, Damage, called, judged
from faults.hits import HITS, Hit
from faults.processes import (
    Running,
    none_left,
    send,
    started,
    until,
    wait_for_moment,
    workers,
)
from faults.record import IDENTICAL, WRONG, Area, Fault, MissedError

Task = Literal["sql", "discrete", "reading"]
UNREAD = {"timings.jsonl": "what the shards took; no part of the result"}
"""Files in which damage may go unseen, and why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task's data, what a whole search of it gives, and how long that takes by a number of workers."""

    task: Task
    folder: Path
    result: dict[str, bytes | None]
    seconds: dict[int, float]

    @property
    def out(self) -> Path:
        """Where searches that are hit write: beside the whole one, as a manifest names its inputs from there."""
        return self.folder / "hit"

    def arguments(self, workers: int = 1, out: Path | None = None) -> list[str]:
        """The command line."""
        examples = self.folder / "examples.jsonl"
        where = out or self.out
        return ["search", self.task, "--examples", str(examples), "--out", str(where), "--workers", str(workers)]


def solutions(store: Path) -> dict[str, bytes | None]:
    """What is the result of a search."""
    return {name: content for name, content in contents(store).items() if name != "timings.jsonl"}


def prepare(folder: Path, task: Task, scale: float) -> Prepared:
    """At scale 1 some 2,000 examples, four shards; searched by one and by two."""
    if task == "sql":
        write_benchmark(folder, seed=0, tables=round(50 * scale), questions=40)
    elif task == "discrete":
        write_discrete_benchmark(folder, seed=0, passages=round(160 * scale), questions=12)
    else:
        write_reading_benchmark(folder, seed=0, documents=round(250 * scale), questions=8)
    seconds = {}
    for number in (1, 2):
        start = time.monotonic()
        done = started(*Prepared(task, folder, {}, {}).arguments(number, folder / f"by-{number}")).end()
        seconds[number] = time.monotonic() - start
        assert done.code == 0, done
    result = solutions(folder / "by-1")
    assert solutions(folder / "by-2") == result
    return Prepared(task, folder, result, seconds)


def searching(folder: Path, scale: float = 1.0) -> Area:
    """Faults in the searches of all three tasks."""
    tasks: tuple[Task, ...] = ("sql", "discrete", "reading")
    made = [prepare(folder / task, task, scale) for task in tasks]
    return {
        **{name: (weight, partial(_hit, made, name, hit)) for name, (weight, hit) in HITS.items()},
        "killed worker": (5, partial(_hit, made, "killed worker", _kill_worker)),
        **{name: (7, partial(_finished, made, name, damage)) for name, damage in DAMAGES.items()},
        **{f"{name}, unfinished": (7, partial(_unfinished, made, name, damage)) for name, damage in DAMAGES.items()},
        **{f"{name}, input": (2, partial(_input, made, name, damage)) for name, damage in DAMAGES.items()},
    }


def _hit(made: list[Prepared], kind: str, hit: Hit, chance: random.Random) -> Fault:
    """Hit a search at a random moment; if it ended early, give the same command again, perhaps to other workers."""
    prepared = chance.choice(made)
    number = 2 if hit is _kill_worker else chance.choice([1, 2])
    out = prepared.out
    shutil.rmtree(out, ignore_errors=True)
    shards = len(list(prepared.folder.glob("by-1/shard-*")))
    moment = chance.uniform(0, prepared.seconds[number])
    seen = chance.randrange(shards + 1) if chance.random() < 0.7 else None
    running = started(*prepared.arguments(number))
    try:
        if seen is None:
            wait_for_moment(running, moment)
        else:
            until(lambda: len(list(out.glob("shard-*"))) >= seen or running.code() is not None)
            wait_for_moment(running, moment / 10)
        with none_left(running):
            target = hit(running, chance, 60_000)
            done = running.end()
    except MissedError:
        running.end()
        raise
    when = f"after {moment:.2f} s" if seen is None else f"{moment / 10:.3f} s after {seen} shards"
    fault = partial(Fault, f"search {prepared.task}", kind, f"{target}, {number} at work", when)
    if "Traceback" in done.stderr:
        return fault(WRONG, done.stderr)
    if done.code:
        again = started(*prepared.arguments(chance.choice([1, 2]))).end()
        if again.code:
            return fault(WRONG, again.stderr)
    return fault(IDENTICAL if solutions(out) == prepared.result else WRONG, f"it ended with {done.code}")


def _kill_worker(running: Running, chance: random.Random, largest: int) -> str:
    until(lambda: bool(workers(running.pid)) or running.code() is not None)
    send(_one_of(workers(running.pid), chance), signal.SIGKILL)
    return "a worker"


def _one_of(pids: list[int], chance: random.Random) -> int:
    if not pids:
        raise MissedError
    return chance.choice(pids)


def _finished(made: list[Prepared], kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage a file of a finished store; look at it, or give the same search again."""
    prepared = chance.choice(made)
    store = prepared.folder / "hit"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(prepared.folder / "by-1", store)
    path = chance.choice(sorted(store.iterdir()))
    where = damage(path, chance)
    if prepared.task == "sql" and chance.random() < 0.5:
        expected = called("inspect", prepared.folder / "by-1", "--list").said
        fault = partial(Fault, "inspect", kind, path.name, where)
        return judged(fault, path, UNREAD, called("inspect", store, "--list"), lambda said: said == expected)
    fault = partial(Fault, f"search {prepared.task}", kind, path.name, where)
    return judged(
        fault, path, UNREAD, called(*prepared.arguments()), lambda _: solutions(store) == prepared.result,
        lambda: _same_file(path, prepared),
    )  # fmt: skip


def _unfinished(made: list[Prepared], kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Stop a search after some shards, damage a file of it, and give the same command again."""
    prepared = chance.choice(made)
    kept = prepared.folder / "unfinished"
    if not kept.exists():
        half = len(list(prepared.folder.glob("by-1/shard-*"))) // 2
        running = started(*prepared.arguments(1, kept))
        until(lambda: len(list(kept.glob("shard-*"))) >= half or running.code() is not None)
        if running.code() is None:
            send(running.pid, signal.SIGKILL)
        running.end()
        if (kept / "manifest.json").exists():
            shutil.rmtree(kept)
            raise MissedError
    store = prepared.folder / "hit"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(kept, store)
    path = chance.choice(sorted(each for each in store.iterdir() if each.suffix != ".part" and each.stat().st_size))
    where = damage(path, chance)
    fault = partial(Fault, f"search {prepared.task}, resumed", kind, path.name, where)
    return judged(
        fault, path, UNREAD, called(*prepared.arguments()), lambda _: solutions(store) == prepared.result,
        lambda: not path.exists() or _same_file(path, prepared), (store,),
    )  # fmt: skip


def _same_file(path: Path, prepared: Prepared) -> bool:
    return path.read_bytes() == prepared.result.get(path.name)


def _input(made: list[Prepared], kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage the examples or their contexts after they were searched; give the same search again, or look."""
    prepared = chance.choice(made)
    path = prepared.folder / chance.choice(
        ["examples.jsonl", "tables.jsonl" if prepared.task == "sql" else "documents.jsonl"]
    )
    whole = path.read_bytes()
    store = prepared.folder / "by-1"
    looks = prepared.task == "sql" and chance.random() < 0.5
    expected = called("inspect", store, "--list").said if looks else ""
    where = damage(path, chance)
    try:
        if looks:
            fault = partial(Fault, "inspect", f"{kind} of the input", path.name, where)
            return judged(fault, path, {}, called("inspect", store, "--list"), lambda said: said == expected)
        fault = partial(Fault, f"search {prepared.task}", f"{kind} of the input", path.name, where)
        given = called(*prepared.arguments(1, store))
        return judged(fault, path, {}, given, lambda _: False, names=(store,))
    finally:
        path.write_bytes(whole)
        assert solutions(store) == prepared.result
