"""The way to the model: a queue with room for so many, one thread that predicts, and batches of what comes together.

A request that is let in is answered: with its prediction, or, where it waited too long, with a reason. One that finds
the queue full is told to come again (429), and one that comes while the server stops is told so (503).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bonafide.serve.limits import Limits, busy
from bonafide.web.answers import RefusedError

Asked = tuple[Any, str]
"""A context and a question."""


@dataclass(eq=False, slots=True)
class _Place:
    """A request that waits for the model: a question to predict with others, or work to be done alone."""

    asked: Asked | None
    work: Callable[[], Any] | None
    answer: asyncio.Future[Any]
    since: float = field(default_factory=time.monotonic)


class ModelQueue:
    """One model thread behind a queue; ``predict`` answers several questions at once."""

    def __init__(self, predict: Callable[[Sequence[Asked]], Sequence[Any]], limits: Limits) -> None:
        self._predict, self._limits = predict, limits
        self._places: asyncio.Queue[_Place] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "model")
        self._inside = 0
        self._stopping = False

    @property
    def inside(self) -> int:
        """Requests that were let in and are not answered yet."""
        return self._inside

    @property
    def stopping(self) -> bool:
        """Whether nobody is let in any more."""
        return self._stopping

    def stop(self) -> None:
        """Let nobody in any more; those who are inside are answered."""
        self._stopping = True

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Let a request in, or refuse it."""
        if self._stopping:
            raise RefusedError(503, "The server is shutting down. Ask again when it is back.", retry_after=10)
        if self._inside >= self._limits.waiting:
            message = f"{self._inside} requests are waiting, and there is room for no more. Ask again in a second."
            raise RefusedError(429, message, retry_after=1)
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def predict(self, context: Any, question: str) -> Any:
        """The predictions for a question."""
        return await self._waited(_Place((context, question), None, asyncio.get_running_loop().create_future()))

    async def alone(self, work: Callable[[], Any]) -> Any:
        """The result of work that needs the model for itself."""
        return await self._waited(_Place(None, work, asyncio.get_running_loop().create_future()))

    async def serve(self) -> None:
        """Answer until cancelled."""
        try:
            while True:
                batch = await self._batch()
                if batch:
                    await self._answer(batch)
        finally:
            self._thread.shutdown(wait=False)

    async def _waited(self, place: _Place) -> Any:
        self._places.put_nowait(place)
        return await place.answer

    async def _batch(self) -> list[_Place]:
        """The next place and, where it is a question, those that come within a moment; who waited too long is told."""
        batch = [await self._places.get()]
        end = time.monotonic() + self._limits.batch_seconds
        while len(batch) < self._limits.batch and (left := end - time.monotonic()) > 0:
            try:
                batch.append(await asyncio.wait_for(self._places.get(), left))
            except TimeoutError:
                break
        late = [each for each in batch if time.monotonic() - each.since > self._limits.waiting_seconds]
        for each in late:
            _fail(each, busy(self._limits.waiting_seconds))
        return [each for each in batch if each not in late and not each.answer.done()]

    async def _answer(self, batch: list[_Place]) -> None:
        questions = [each for each in batch if each.asked is not None]
        if questions:
            await self._answer_together(questions)
        for each in batch:
            if each.work is not None:
                await self._run(each, each.work)

    async def _answer_together(self, questions: list[_Place]) -> None:
        asked = [each.asked for each in questions if each.asked is not None]
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._predict, asked)
        except Exception as error:
            if len(questions) == 1:
                _fail(questions[0], error)
                return
            for each in questions:  # one of them is at fault: the others shall not suffer
                await self._answer_together([each])
            return
        for each, one in zip(questions, found, strict=True):
            if not each.answer.done():
                each.answer.set_result(one)

    async def _run(self, place: _Place, work: Callable[[], Any]) -> None:
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except Exception as error:
            _fail(place, error)
        else:
            if not place.answer.done():
                place.answer.set_result(result)


def _fail(place: _Place, error: Exception) -> None:
    if not place.answer.done():  # the client may have gone
        place.answer.set_exception(error)
