"""Search shards with Ray: on a cluster, or on this machine, where Ray is then started for the time of the search.

Workers are actors, not tasks: ``--workers`` means so many processes on the whole cluster, each keeps the contexts that
it prepared, and a lost worker is known by the shard it was searching. A lost one, of a lost node or not, is replaced
wherever there is room, and its shards are searched again, as often as workers are lost; but a shard that ends its
worker five times in a row ends the run. A worker that has not started yet is given nothing, so the others do not wait
for it.

Workers return their shards and this process alone writes them, so machines need no folder in common. A shard of 500
examples is small once it is compressed; at most two a worker are under way, which bounds what anybody holds.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections import Counter, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any

import numpy
import pyarrow

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.files import write_whole
from bonafide.search.local import interrupt_held
from bonafide.search.shards import SHARD_EXAMPLES, Done, Job, Searcher, SearchWorkerDied
from bonafide.stopping import ended_properly
from bonafide.tasks.task import Task

UNDER_WAY = 2
"""Shards that a worker has: one to search, one so that it need not wait."""
TRIES = 5
_PATIENCE = 300.0
_CONNECT = 10.0
_STORE_BYTES = 256 << 20
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # a lost worker is replaced: nobody needs to read of it
}
_PRIVATE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray then listens on 127.0.0.1 alone, on Linux too
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else Ray writes one to the user's home
    "OPENBLAS_NUM_THREADS": "1",  # one core a worker
    "RAY_worker_niceness": "0",  # as local processes; Ray's own 15 yields to everything else
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where Ray runs: at ``address``, else at the environment's ``RAY_ADDRESS``, else on this machine."""

    address: str | None = None


def in_cluster(task: Task[Any], jobs: Iterator[Job], workers: int, cluster: Cluster) -> Generator[Done, None, None]:
    """Search the shards with so many workers, and write each as it comes."""
    first = next(jobs, None)
    if first is None:
        return
    with _connected(cluster, workers) as ray:
        crew = _Crew(ray, task, workers)
        try:
            yield from crew.search(chain([first], jobs))
        finally:
            with interrupt_held():
                crew.dismiss()


class Worker:
    """A process of the cluster."""

    def __init__(self, task: Task[Any]) -> None:
        self._searcher = Searcher(task)

    def versions(self) -> dict[str, str]:
        """Of what decides the bytes of a shard."""
        return _versions()

    def search(self, job: Job) -> tuple[Done, bytes]:
        """One shard."""
        return self._searcher.encode(job)


@dataclass(slots=True)
class _Hand:
    """A worker, seen from here: what it was given, in the order in which it searches."""

    actor: Any
    starting: Any | None
    jobs: deque[tuple[Any, Job]] = field(default_factory=deque)
    failures: int = 0

    @property
    def next(self) -> Any | None:
        """What it will tell next."""
        return self.starting if self.starting is not None else self.jobs[0][0] if self.jobs else None


class _Crew:
    """All workers; makes sure that every job comes back, whoever is lost."""

    def __init__(self, ray: Any, task: Task[Any], workers: int) -> None:
        self._ray = ray
        self._worker = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._task = task
        self._again: list[Job] = []
        self._losses: Counter[int] = Counter()
        self._hands = [_Hand(*self._hired()) for _ in range(workers)]

    def search(self, jobs: Iterator[Job]) -> Generator[Done, None, None]:
        """Do at least one job, and all of them."""
        while True:
            started = [hand for hand in self._hands if hand.starting is None]
            self._hand_out(jobs, started)
            busy = any(hand.jobs for hand in started)
            if started and not busy:
                return
            waiting = {hand.next: hand for hand in self._hands if hand.next is not None}
            told, _ = self._ray.wait(list(waiting), timeout=_PATIENCE)
            if not told and not busy:
                raise SearchWorkerDied(self._nobody())
            for ref in told:
                if (done := self._heard(waiting[ref], ref)) is not None:
                    yield done

    def dismiss(self) -> None:
        """Stop all of them."""
        for hand in self._hands:
            with suppress(Exception):  # it may be gone, and so may the cluster
                self._ray.kill(hand.actor)

    def _hired(self) -> tuple[Any, Any]:
        actor = self._worker.remote(self._task)
        return actor, actor.versions.remote()

    def _hand_out(self, jobs: Iterator[Job], hands: list[_Hand]) -> None:
        for depth in range(1, UNDER_WAY + 1):  # everybody gets a first one before anybody gets a second
            for hand in hands:
                if len(hand.jobs) < depth:
                    job = self._again.pop() if self._again else next(jobs, None)
                    if job is None:
                        return
                    hand.jobs.append((hand.actor.search.remote(job), job))

    def _heard(self, hand: _Hand, ref: Any) -> Done | None:
        try:
            told = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause or error from None  # of the search itself: it would come again
        except self._ray.exceptions.RayError as error:
            self._replace(hand, error)
            return None
        if hand.starting is not None:
            _check_versions(told)
            hand.starting, hand.failures = None, 0
            return None
        done: Done = told[0]
        content: bytes = told[1]
        _, job = hand.jobs.popleft()
        with write_whole(job.path) as stream:
            stream.write(content)
        return done

    def _replace(self, hand: _Hand, error: Exception) -> None:
        if hand.starting is not None:
            hand.failures += 1
            if hand.failures == TRIES:
                raise SearchWorkerDied(
                    f"A worker could not be started {TRIES} times in a row. Ray says: {_last_line(error)} Every "
                    "machine of the cluster needs the same bonafide. Finished shards are kept: run the same command "
                    "again to go on."
                )
        else:
            lost = hand.jobs[0][1]
            self._losses[lost.index] += 1
            if self._losses[lost.index] == TRIES:
                raise SearchWorkerDied(_poison(lost))
        self._again += [job for _, job in reversed(hand.jobs)]
        hand.jobs.clear()
        with suppress(Exception):  # it is gone, or out of reach: then it shall not go on
            self._ray.kill(hand.actor)
        hand.actor, hand.starting = self._hired()

    def _nobody(self) -> str:
        there, free = (
            resources.get("CPU", 0) for resources in (self._ray.cluster_resources(), self._ray.available_resources())
        )
        return (
            f"No worker could be started in {_PATIENCE:.0f} s: each needs a CPU, and of the {there:g} of the cluster "
            f"{free:g} are free. Finished shards are kept: run the same command again when there is room."
        )


@contextmanager
def _connected(cluster: Cluster, workers: int) -> Iterator[Any]:
    """Ray, ready to use; what was started for it ends with it."""
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    here = address == "local"
    with (
        tempfile.TemporaryDirectory(prefix="bonafide-ray-", ignore_cleanup_errors=True) as folder,
        _environment(_QUIET | (_PRIVATE if here else {})),
    ):
        ray = _imported()
        if ray.is_initialized():  # by a script of the user, which will also end it
            yield ray
            return
        own = {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
            "_temp_dir": folder,
        }
        try:
            with interrupt_held():
                try:
                    _check_reachable(address)
                    ray.init(address, log_to_driver=False, logging_level="ERROR", **(own if here else {}))
                except Exception as error:  # Ray raises bare ones too
                    raise BonafideError(_unreachable(address, error)) from None
            with ended_properly():  # Ray's own handler aborts
                yield ray
        finally:
            with interrupt_held():  # a second Ctrl-C must not leave processes behind
                ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray would wait for ever for a cluster that is not there."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "://" not in address:
        socket.create_connection((host, int(port)), _CONNECT).close()


def _imported() -> Any:
    try:
        return import_module("ray")
    except ModuleNotFoundError:
        raise BonafideError(
            'Searching on a cluster needs Ray, which is not installed: pip install "bonafide[cluster]". '
            "--engine local needs nothing more."
        ) from None


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """What Ray reads of the environment when it is imported and started; what the user set stays."""
    added = [name for name in values if name not in os.environ]
    os.environ.update({name: values[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _unreachable(address: str, error: Exception) -> str:
    if address == "local":
        return f"Ray could not be started on this machine: {_last_line(error)} --engine local does without it."
    return (
        f"There is no Ray cluster to be reached at {address}: {_last_line(error)} Check --address (or RAY_ADDRESS), or "
        "leave it out: Ray is then started on this machine."
    )


def _versions() -> dict[str, str]:
    return {"bonafide": __version__, "numpy": numpy.__version__, "pyarrow": pyarrow.__version__}


def _check_versions(found: dict[str, str]) -> None:
    if found != (expected := _versions()):
        raise BonafideError(
            f"A machine of the cluster has other versions, which may give other bytes: expected {_listed(expected)}, "
            f"found {_listed(found)}. Install the same on all machines."
        )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _poison(job: Job) -> str:
    first = job.index * SHARD_EXAMPLES + 1
    ids = [example.id for example, _ in job.examples]
    return (
        f"Shard {job.index} ended its worker {TRIES} times in a row: one of its examples, {ids[0]!r} to {ids[-1]!r} "
        f"(numbers {first:,} to {first + len(ids) - 1:,} of the file), may need more memory than there is. Search "
        "these alone to see which, then lower --cap or leave it out. Finished shards are kept."
    )


def _last_line(error: Exception) -> str:
    """What Ray says at the end of its longer stories, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1].rstrip(".:") + "."
