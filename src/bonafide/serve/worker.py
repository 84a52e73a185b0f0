"""Work on what strangers bring, in a process of its own, which is ended where it takes too long or too much memory.

Reading a table, finding the dates of a text and searching for solutions cannot be interrupted in a thread. Who waited
too long for his turn is told so, as in ``queue.py``, and work that nobody waits for any more is not begun.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bonafide.errors import BonafideError
from bonafide.serve.limits import busy
from bonafide.web.answers import RefusedError

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What the process sends back: a result, or why there is none."""

    result: Any = None
    status: int = 422
    refused: str | None = None
    failed: str | None = None


class Worker:
    """One process, started when it is first needed; calls follow each other. ``what`` is its work, for people.

    ``seconds`` is the longest that a call may take, ``waiting`` the longest that it may wait for its turn.
    """

    def __init__(self, what: str, seconds: float, memory: int, waiting: float = math.inf) -> None:
        self._what, self._seconds, self._memory, self._waiting = what, seconds, memory, waiting
        self._thread = ThreadPoolExecutor(1, what)
        self._changing = threading.RLock()  # who asked may be gone, and the server may end, while it starts or ends
        self._process: Any = None
        self._pipe: Connection | None = None

    async def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of a module, called there; one that is cancelled before its turn is not called."""
        since = time.monotonic()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, call, arguments, since)

    def start(self) -> None:
        """Start the process, if it does not run."""
        with self._changing:
            if self._process is None or not self._process.is_alive():
                self._end()
                self._start()

    def close(self) -> None:
        """End the process for good."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._end()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._memory), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START_SECONDS):
            raise RuntimeError(f"The process for the {self._what} does not start.")
        self._pipe.recv()

    def _run(self, call: Callable[..., Any], arguments: tuple[Any, ...], since: float) -> Any:
        if time.monotonic() - since > self._waiting:
            raise busy(self._waiting)
        self.start()
        pipe = self._pipe  # the worker has none any more when the server ends in the meantime
        assert pipe is not None
        try:
            pipe.send((call, arguments))
            if not pipe.poll(self._seconds):
                self._end()
                reason = f"The {self._what} took more than {self._seconds:.0f} seconds and was stopped."
                raise RefusedError(422, f"{reason} Bring a smaller table or text, or ask a shorter question.")
            outcome: _Outcome = pipe.recv()
        except (EOFError, OSError):
            self._end()
            outcome = _Outcome(refused=_MEMORY)
        if outcome.refused is not None:
            raise RefusedError(outcome.status, outcome.refused)
        if outcome.failed is not None:
            raise RuntimeError(outcome.failed)
        return outcome.result

    def _end(self) -> None:
        with self._changing:
            if self._process is not None:
                self._process.kill()
                self._process.join()
            if self._pipe is not None:
                self._pipe.close()
            self._process = self._pipe = None


_MEMORY = "This took more memory than it may have, and was stopped. Bring a smaller table or text."


def _work(pipe: Connection, memory: int) -> None:
    """Do what is asked until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server says when to stop
    most = resource.getrlimit(resource.RLIMIT_AS)[1]  # as `ulimit -v` sets it, which cannot be raised
    memory = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    pipe.send("ready")
    while True:
        try:
            call, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            outcome = _Outcome(call(*arguments))
        except MemoryError:
            outcome = _Outcome(refused=_MEMORY)
        except RefusedError as error:
            outcome = _Outcome(status=error.status, refused=str(error))
        except BonafideError as error:
            outcome = _Outcome(refused=str(error))
        except Exception as error:
            outcome = _Outcome(failed="".join(traceback.format_exception(error)))
        pipe.send(outcome)
