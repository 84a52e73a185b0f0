"""Run a task's search over a file of examples into a solution store.

The examples are cut into shards of consecutive lines. Each shard is searched by one process and written
whole; an interrupted run leaves finished shards behind, and the same command goes on from there. What is
in a shard depends on nothing but the inputs and the task's options, so any number of workers, with any
number of interruptions, gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.files import explained, held_alone, made_folder
from bonafide.sealed import read_sealed, write_sealed
from bonafide.search.cluster import Cluster, in_cluster
from bonafide.search.local import in_process, in_processes
from bonafide.search.places import Places, RemoteStore
from bonafide.search.shards import SHARD_EXAMPLES, Done, Inputs, Job, SearchWorkerDied, shard_jobs
from bonafide.solutions import (
    FORMAT,
    MANIFEST,
    ShardCounts,
    damaged_shards,
    read_manifest,
    shard_counts,
    shard_name,
    write_manifest,
)
from bonafide.tasks.task import Task

__all__ = ["Inputs", "Progress", "SearchWorkerDied", "run_search", "seconds_spent"]

_UNFINISHED = "search.json"
_TIMINGS = "timings.jsonl"
_TOOL = f"bonafide {__version__}"

Progress = Callable[[int, int], None]
"""Told after each shard: how many examples are done, and how many solutions were found in them."""


def run_search(
    task: Task[Any],
    inputs: Inputs,
    out: Path,
    workers: int = 1,
    progress: Progress | None = None,
    cluster: Cluster | None = None,
    places: Places | None = None,
) -> dict[str, Any]:
    """Search every example into the store at ``out``, or finish the search that was interrupted there.

    Returns the manifest. With a ``cluster`` the workers are Ray's; ``places`` is needed where the inputs or the store
    are at a URL. From your own script, call this under ``if __name__ == "__main__":`` when ``workers`` is more than 1,
    as Python's multiprocessing asks.
    """
    search = {
        "format": FORMAT,
        "task": task.name,
        "options": task.options,
        "inputs": inputs.description if places is None else places.described(inputs.description, out),
        "shard_examples": SHARD_EXAMPLES,
    }
    identity = _identity(search, _TOOL)
    remote = None if places is None else places.store
    if remote is not None:
        _fetch(remote, out, identity)
    with _claimed(out, identity, search):
        if remote is not None:
            _announce(remote, out)
        if (out / MANIFEST).exists():
            manifest = read_manifest(out)
            if progress is not None:
                progress(manifest["counts"]["examples"], manifest["counts"]["solutions"])
            return manifest
        shards = -(-inputs.examples.count // SHARD_EXAMPLES)
        counts: dict[int, ShardCounts] = {}
        for index in range(shards):
            if (found := shard_counts(out / shard_name(index), identity)) is not None:
                counts[index] = found
                if progress is not None:
                    progress(found.examples, found.solutions)
        jobs = shard_jobs(inputs, out, identity, set(range(shards)) - set(counts))
        with closing(_searched(task, jobs, workers, cluster)) as runner:
            for done in runner:
                counts[done.index] = done.counts
                _note_time(out, done)
                if remote is not None:
                    remote.push(shard_name(done.index))
                if progress is not None:
                    progress(done.counts.examples, done.counts.solutions)
        write_manifest(out, search, [counts[index] for index in range(shards)])
        (out / _UNFINISHED).unlink()
        if remote is not None:
            _finish(remote, out)
        return read_manifest(out)


def _searched(
    task: Task[Any], jobs: Iterator[Job], workers: int, cluster: Cluster | None
) -> Generator[Done, None, None]:
    if cluster is not None:
        return in_cluster(task, jobs, workers, cluster)
    return in_process(task, jobs) if workers == 1 else in_processes(task, jobs, workers)


def _fetch(remote: RemoteStore, out: Path, identity: str) -> None:
    """Bring here what an earlier run left at the URL, if it is of this search."""
    if notes := sorted(remote.names & {MANIFEST, _UNFINISHED}):
        remote.pull(notes)
        _check_same_search(out, identity)
        remote.pull(sorted(name for name in remote.names if name.startswith("shard-") or name == _TIMINGS))
    elif remote.names:
        raise BonafideError(f"{remote.url} is not empty and holds no solution store. Name another folder.")


def _announce(remote: RemoteStore, out: Path) -> None:
    """Nobody shall find a manifest beside shards that are searched anew."""
    if (out / MANIFEST).exists():
        remote.drop(_UNFINISHED)
    else:
        remote.push(_UNFINISHED)
        remote.drop(MANIFEST)


def _finish(remote: RemoteStore, out: Path) -> None:
    if (out / _TIMINGS).exists():  # it is not where the last shard was pushed, and nothing else
        remote.push(_TIMINGS)
    remote.settle()
    remote.push(MANIFEST)
    remote.drop(_UNFINISHED)


def seconds_spent(folder: Path) -> float | None:
    """Working time that the search of this store took, over all workers; None if it is not known."""
    with suppress(OSError, ValueError, KeyError):
        lines = (folder / _TIMINGS).read_text().splitlines()
        latest = {record["shard"]: record["seconds"] for record in map(json.loads, lines)}
        if len(latest) == len(read_manifest(folder)["shards"]):
            return float(sum(latest.values()))
    return None


@contextmanager
def _claimed(out: Path, identity: str, search: dict[str, Any]) -> Iterator[None]:
    """Hold the folder for this run alone; on an error of input or disk, leave it as it was."""
    busy = f"Another run is writing to {out} right now. Wait until it is finished, or name another folder."
    with made_folder(out), held_alone(out, busy):
        _check_same_search(out, identity)
        _sweep(out)
        _make_room_for_damaged(out, identity, search)
        before = {path: path.stat().st_size for path in out.iterdir()}
        try:
            if not (out / MANIFEST).exists() and not (out / _UNFINISHED).exists():
                write_sealed(out / _UNFINISHED, {**search, "identity": identity})
            yield
        except SearchWorkerDied:
            raise
        except BonafideError:
            _restore(out, before)
            raise
        finally:
            _sweep(out)


def _check_same_search(out: Path, identity: str) -> None:
    if (out / MANIFEST).exists():
        manifest = read_manifest(out)
        if _identity(manifest, manifest["tool"]) != identity:
            raise BonafideError(
                f"{out} already holds solutions of other inputs, options or version. Name another folder, or delete "
                "it first."
            )
    elif (out / _UNFINISHED).exists():
        note = read_sealed(out / _UNFINISHED)
        if note.get("identity") != identity:
            raise BonafideError(
                f"{out} holds an unfinished search of other inputs, options or version. Finish that one, name "
                "another folder, or delete it first."
            )
    elif any(not name.name.startswith(".") for name in out.iterdir()):
        raise BonafideError(f"{out} is not empty and holds no solution store. Name another folder.")


def _sweep(out: Path) -> None:
    """Remove what a process was writing when it was ended."""
    for part in out.glob(".*.part"):
        part.unlink(missing_ok=True)


def _make_room_for_damaged(out: Path, identity: str, search: dict[str, Any]) -> None:
    """A finished store that lost a shard, or has one that changed, is an unfinished one."""
    if not (out / MANIFEST).exists():
        return
    if damaged := damaged_shards(out):
        write_sealed(out / _UNFINISHED, {**search, "identity": identity})
        for path in damaged:
            path.unlink(missing_ok=True)
        (out / MANIFEST).unlink()
    elif (out / _UNFINISHED).exists():  # killed between the manifest and the end
        (out / _UNFINISHED).unlink()


def _restore(out: Path, before: dict[Path, int]) -> None:
    with suppress(OSError):
        for path in out.iterdir():
            if path not in before:
                path.unlink()
        if (out / _TIMINGS) in before:
            os.truncate(out / _TIMINGS, before[out / _TIMINGS])


def _identity(search: dict[str, Any], tool: str) -> str:
    """A hash of everything that the shards depend on; where the inputs lie is not part of it."""
    keys = ("format", "task", "options", "shard_examples")
    parts = {key: search[key] for key in keys}
    described = search["inputs"]
    parts["inputs"] = {
        key: [each["sha256"] for each in value] if isinstance(value, list) else value
        for key, value in described.items()
    }
    parts["tool"] = tool
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _note_time(out: Path, done: Done) -> None:
    with explained(out / _TIMINGS, "write"), (out / _TIMINGS).open("a") as stream:
        stream.write(json.dumps({"shard": done.index, "seconds": round(done.seconds, 4)}) + "\n")
