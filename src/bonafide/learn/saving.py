"""Checkpoints and models are written while training goes on: the thread that trains only copies the weights.

One writing is under way at a time, in the order in which they were asked for; the next one, and the end of the run,
wait for it, and raise what went wrong with it. A run that is killed meanwhile goes on from the checkpoint before.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self


class Saving:
    """A thread that writes."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bonafide-saving")
        self._under_way: Future[Any] | None = None

    def add(self, prepare: Callable[[], Callable[[], Any]]) -> None:
        """Write what ``prepare`` returns, which copies what is to be written, when all before it is written."""
        self.wait()
        self._under_way = self._thread.submit(prepare())

    def wait(self) -> None:
        """Until all is written."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What is under way is brought to its end; where training failed, that is the error that is told."""
        self._thread.shutdown(wait=True)
        if kind is None:
            self.wait()
