"""Checkpoints and models are written while training goes on: the thread that trains only copies the weights.

They are written one after the other, in the order in which they were asked for, and nothing after one that failed.
Two can wait to be written, a model and its checkpoint: the next waits for the first of them, the end of the run for
all, and what went wrong is raised there. What found no memory beside training is written again then, while nothing is
trained; where there is none for the thread itself, training waits for what is written. A run that is killed meanwhile
goes on from the checkpoint before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from bonafide.errors import out_of_memory

_MOST = 2


class Saving:
    """A thread that writes."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bonafide-saving")
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._error: BaseException | None = None

    def add(self, prepare: Callable[[], Callable[[], Any]]) -> None:
        """Write what ``prepare`` returns, which copies what is to be written, when all before it is written."""
        while self._waiting and (self._waiting[0][0].done() or len(self._waiting) >= _MOST):
            self._finish()
        write = prepare()
        if self._started():
            self._waiting.append((self._thread.submit(self._write, write), write))
        else:  # and nothing waits: there has been no thread for it either
            write()

    def _started(self) -> bool:
        """Whether the thread runs. It takes address space of its own, so it is not asked for before it is needed."""
        try:
            self._thread.submit(lambda: None)  # starts it; what is asked for is not done twice where that fails
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            return False
        return True

    def wait(self) -> None:
        """Until all is written."""
        while self._waiting:
            self._finish()

    def _finish(self) -> None:
        """Until the first that waits is written."""
        future, write = self._waiting.popleft()
        try:
            future.result()
        except Exception as error:
            if not out_of_memory(error):
                raise
            write()
            self._error = None  # from now on: until here those after it were not to be written

    def _write(self, write: Callable[[], Any]) -> None:
        if self._error is not None:  # it was asked for before that was known
            raise self._error
        try:
            write()
        except BaseException as error:
            self._error = error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What was asked for is brought to its end; where training failed, that is the error that is told."""
        self._thread.shutdown(wait=True)
        if kind is None:
            self.wait()
