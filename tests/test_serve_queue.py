"""Questions that come together: predicted in batches, each with its own answer, and how many may wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from bonafide.serve.asked import LIMITS
from bonafide.serve.queue import Asked, ModelQueue
from bonafide.web.answers import RefusedError


class Counting:
    """A model that says how many it was asked at once; it fails on questions that say so."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.threads: set[int] = set()
        self.go = threading.Event()

    def __call__(self, asked: Sequence[Asked]) -> list[str]:
        assert self.go.wait(10)
        self.sizes.append(len(asked))
        self.threads.add(threading.get_ident())
        if any("bad" in question for _, question in asked):
            raise ValueError("bad")
        return [f"{context} {question}" for context, question in asked]


def test_questions_that_come_together_are_predicted_together_each_with_its_own_answer() -> None:
    counting = Counting()
    counting.go.set()

    async def ask() -> None:
        queue = ModelQueue(counting, LIMITS)
        serving = asyncio.create_task(queue.serve())
        answers = await asyncio.gather(*(queue.predict(number, "q") for number in range(40)))
        assert answers == [f"{number} q" for number in range(40)]
        mixed = [queue.predict(number, "bad" if number == 3 else "q") for number in range(8)]
        found = await asyncio.gather(*mixed, queue.alone(lambda: "alone"), return_exceptions=True)
        assert [str(each) for each in found] == [*("bad" if n == 3 else f"{n} q" for n in range(8)), "alone"]
        serving.cancel()

    asyncio.run(ask())
    assert counting.sizes[:3] == [16, 16, 8]
    assert len(counting.threads) == 1


def test_past_the_limit_is_429_while_stopping_503_and_whoever_is_inside_is_answered() -> None:
    counting = Counting()
    limits = replace(LIMITS, waiting=5)

    async def one(queue: ModelQueue, number: int) -> Any:
        async with queue.admitted():
            return await queue.predict(number, "q")

    async def ask() -> None:
        queue = ModelQueue(counting, limits)
        serving = asyncio.create_task(queue.serve())
        asked = [asyncio.create_task(one(queue, number)) for number in range(9)]
        await asyncio.sleep(0)
        queue.stop()
        late = asyncio.create_task(one(queue, 99))
        await asyncio.sleep(0)
        counting.go.set()
        found = await asyncio.gather(*asked, late, return_exceptions=True)
        assert found[:5] == [f"{number} q" for number in range(5)]
        assert [each.status for each in found[5:] if isinstance(each, RefusedError)] == [429] * 4 + [503]
        assert queue.inside == 0
        serving.cancel()

    asyncio.run(ask())


def test_a_request_that_waited_too_long_is_told_so() -> None:
    counting = Counting()
    limits = replace(LIMITS, waiting_seconds=0.0, batch_seconds=0.01)

    async def ask() -> None:
        queue = ModelQueue(counting, limits)
        serving = asyncio.create_task(queue.serve())
        with pytest.raises(RefusedError, match="busy") as refused:
            await queue.predict(1, "q")
        assert (refused.value.status, refused.value.retry_after) == (503, 5)
        serving.cancel()

    asyncio.run(ask())
