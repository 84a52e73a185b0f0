"""Search shards on this machine: in this process, or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from bonafide.search.shards import Done, Job, Searcher, SearchWorkerDied
from bonafide.tasks.task import Task


def in_process(task: Task[Any], jobs: Iterator[Job]) -> Generator[Done, None, None]:
    """One shard after the other, here."""
    yield from map(Searcher(task).write, jobs)


def in_processes(task: Task[Any], jobs: Iterator[Job], workers: int) -> Generator[Done, None, None]:
    """At most two jobs a worker are under way, so that what waits stays bounded."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core a worker
    context = multiprocessing.get_context("spawn")
    first = list(islice(jobs, workers))
    pool: Any = ProcessPoolExecutor(max(1, len(first)), context, _start_worker, (task, os.getpid()))
    # All workers start with the first job: where one dies while others are started, the pool ends with a traceback.
    pool._safe_to_dynamically_spawn_children = False
    jobs, running = chain(first, jobs), set[Future[Done]]()
    try:
        while True:
            for job in islice(jobs, 2 * workers - len(running)):
                with interrupt_held():
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
        with interrupt_held():  # a second Ctrl-C must not leave workers behind
            for process in list(pool._processes.values()) if running else ():
                process.terminate()
            pool.shutdown(cancel_futures=True)


@contextmanager
def interrupt_held() -> Iterator[None]:
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


_searcher: Searcher


def _start_worker(task: Task[Any], parent: int) -> None:
    global _searcher
    _searcher = Searcher(task)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A worker whose parent was killed has nobody to work for."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _search_job(job: Job) -> Done:
    return _searcher.write(job)
