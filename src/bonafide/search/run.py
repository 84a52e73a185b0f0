"""Run a task's search over a file of examples into a solution store.

The examples are cut into shards of consecutive lines. Each shard is searched by one process and written
whole; an interrupted run leaves finished shards behind, and the same command goes on from there. What is
in a shard depends on nothing but the inputs and the task's options, so any number of workers, with any
number of interruptions, gives the same bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.examples import Example, ExampleFile
from bonafide.files import explained, made_folder, read_json, write_json
from bonafide.solutions import (
    FORMAT,
    MANIFEST,
    ShardCounts,
    SolutionSet,
    damaged_shards,
    read_manifest,
    shard_counts,
    shard_name,
    write_manifest,
    write_shard,
)
from bonafide.tasks.task import Contexts, Task

SHARD_EXAMPLES = 500
_UNFINISHED = "search.json"
_TIMINGS = "timings.jsonl"
_TOOL = f"bonafide {__version__}"
KEPT_WEIGHT = 500_000
"""Cells (or tokens) of prepared contexts that a worker keeps."""

Progress = Callable[[int, int], None]
"""Told after each shard: how many examples are done, and how many solutions were found in them."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is searched: the examples, their contexts, and what the manifest says of them."""

    examples: ExampleFile
    contexts: Contexts
    default_context: str | None
    description: dict[str, Any]

    def context_of(self, example: Example) -> str:
        """The name of the example's context."""
        name = example.context if example.context is not None else self.default_context
        assert name is not None, "the examples were validated"
        return name


@dataclass(frozen=True, slots=True)
class _Job:
    index: int
    path: Path
    identity: str
    examples: list[tuple[Example, str]]
    contexts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Done:
    index: int
    counts: ShardCounts
    seconds: float


def run_search(
    task: Task[Any], inputs: Inputs, out: Path, workers: int = 1, progress: Progress | None = None
) -> dict[str, Any]:
    """Search every example into the store at ``out``, or finish the search that was interrupted there.

    Returns the manifest. From your own script, call this under ``if __name__ == "__main__":`` when
    ``workers`` is more than 1, as Python's multiprocessing asks.
    """
    search = {
        "format": FORMAT,
        "task": task.name,
        "options": task.options,
        "inputs": inputs.description,
        "shard_examples": SHARD_EXAMPLES,
    }
    identity = _identity(search, _TOOL)
    with _claimed(out, identity, search):
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
        jobs = _jobs(inputs, out, identity, set(range(shards)) - set(counts))
        with closing(_in_process(task, jobs) if workers == 1 else _in_workers(task, jobs, workers)) as runner:
            for done in runner:
                counts[done.index] = done.counts
                _note_time(out, done)
                if progress is not None:
                    progress(done.counts.examples, done.counts.solutions)
        write_manifest(out, search, [counts[index] for index in range(shards)])
        (out / _UNFINISHED).unlink()
        return read_manifest(out)


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
    with made_folder(out), _locked(out):
        _check_same_search(out, identity)
        _sweep(out)
        _make_room_for_damaged(out, identity, search)
        before = {path: path.stat().st_size for path in out.iterdir()}
        try:
            if not (out / MANIFEST).exists() and not (out / _UNFINISHED).exists():
                write_json(out / _UNFINISHED, {**search, "identity": identity})
            yield
        except BonafideError:
            _restore(out, before)
            raise
        finally:
            _sweep(out)


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    with explained(out, "write"):
        folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BonafideError(
                f"Another run is writing to {out} right now. Wait until it is finished, or name another folder."
            ) from None
        yield
    finally:
        os.close(folder)


def _check_same_search(out: Path, identity: str) -> None:
    if (out / MANIFEST).exists():
        manifest = read_manifest(out)
        if _identity(manifest, manifest["tool"]) != identity:
            raise BonafideError(
                f"{out} already holds solutions of other inputs, options or version. Name another folder, or delete "
                "it first."
            )
    elif (out / _UNFINISHED).exists():
        note = read_json(out / _UNFINISHED)
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
        write_json(out / _UNFINISHED, {**search, "identity": identity})
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


def _jobs(inputs: Inputs, out: Path, identity: str, missing: set[int]) -> Iterator[_Job]:
    stream = iter(inputs.examples)
    for index in range(-(-inputs.examples.count // SHARD_EXAMPLES)):
        shard = list(islice(stream, SHARD_EXAMPLES))
        if index in missing:
            named = [(example, inputs.context_of(example)) for example in shard]
            contexts = {name: inputs.contexts.raw(name) for name in dict.fromkeys(name for _, name in named)}
            yield _Job(index, out / shard_name(index), identity, named, contexts)


class _Searcher:
    """One process's part of the search; keeps the contexts it prepared, within bounds."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task
        self._prepared: OrderedDict[str, Any] = OrderedDict()
        self._weight = 0

    def __call__(self, job: _Job) -> _Done:
        start = time.perf_counter()
        counts = write_shard(job.path, self._sets(job), self._task.codec, job.identity)
        return _Done(job.index, counts, time.perf_counter() - start)

    def _sets(self, job: _Job) -> Iterator[tuple[str, SolutionSet]]:
        for example, name in job.examples:
            yield example.id, self._task.search(example, self._context(name, job.contexts[name]))

    def _context(self, name: str, raw: Any) -> Any:
        if name in self._prepared:
            self._prepared.move_to_end(name)
            return self._prepared[name]
        context = self._prepared[name] = self._task.prepare(raw)
        self._weight += self._task.weight(context)
        while self._weight > KEPT_WEIGHT and len(self._prepared) > 1:
            self._weight -= self._task.weight(self._prepared.popitem(last=False)[1])
        return context


def _in_process(task: Task[Any], jobs: Iterator[_Job]) -> Generator[_Done, None, None]:
    yield from map(_Searcher(task), jobs)


_searcher: _Searcher


def _start_worker(task: Task[Any], parent: int) -> None:
    global _searcher
    _searcher = _Searcher(task)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A worker whose parent was killed has nobody to work for."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _search_job(job: _Job) -> _Done:
    return _searcher(job)


def _in_workers(task: Task[Any], jobs: Iterator[_Job], workers: int) -> Generator[_Done, None, None]:
    """At most two jobs a worker are under way, so that what waits stays bounded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core a worker
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _start_worker, (task, os.getpid()))
    running: set[Future[_Done]] = set()
    try:
        while True:
            for job in islice(jobs, 2 * workers - len(running)):
                with _interrupt_held():
                    running.add(pool.submit(_search_job, job))
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
    except BrokenProcessPool:
        raise SearchWorkerDied(
            "A search worker died (killed, or out of memory). Finished shards are kept: run the same command "
            "again to go on, perhaps with fewer workers."
        ) from None
    finally:
        with _interrupt_held():  # a second Ctrl-C must not leave workers behind
            for process in list(pool._processes.values()) if running else ():
                process.terminate()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupt_held() -> Iterator[None]:
    """Ctrl-C waits until this is over; a process that is started meanwhile never gets it: it is the parent's.

    Both a mask, which a new process inherits, and a handler: another thread may receive the signal.
    """
    held: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number)) if main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if main:
            signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)


class SearchWorkerDied(Exception):  # noqa: N818
    """A worker process is gone; what was finished stays."""


def _note_time(out: Path, done: _Done) -> None:
    with explained(out / _TIMINGS, "write"), (out / _TIMINGS).open("a") as stream:
        stream.write(json.dumps({"shard": done.index, "seconds": round(done.seconds, 4)}) + "\n")
