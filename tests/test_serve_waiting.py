"""Who waits at the server: told when it was too long, and forgotten when he has hung up."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.requests import ClientDisconnect, Request

from bonafide.serve.application import serve_app
from bonafide.serve.asked import LIMITS
from bonafide.serve.service import Service
from bonafide.serve.worker import Worker
from bonafide.web.answers import RefusedError
from bonafide.web.guard import door
from bonafide.web.hangup import while_asked
from served import text_model

FORM = b'--x\r\ncontent-disposition: form-data; name="question"\r\n\r\nhow many?\r\n--x--\r\n'


def test_who_waited_too_long_for_the_reading_or_the_search_is_told_so() -> None:
    service = Service(text_model(), limits=replace(LIMITS, waiting_seconds=0.0))

    async def calls(worker: Worker) -> None:
        with pytest.raises(RefusedError, match="busy") as refused:
            await worker.run(divmod, 7, 2)
        assert (refused.value.status, refused.value.retry_after) == (503, 5)

    for worker in (service._reading, service._search):
        asyncio.run(calls(worker))
        assert worker._process is None  # nothing was begun for it
        worker.close()


def test_what_nobody_waits_for_any_more_is_not_begun(tmp_path: Path) -> None:
    worker, go = Worker("search", 30.0, LIMITS.memory), threading.Event()

    async def calls() -> None:
        worker._thread.submit(go.wait, 30)  # another's turn
        given_up = asyncio.create_task(worker.run(Path.touch, tmp_path / "given-up"))
        kept = asyncio.create_task(worker.run(Path.touch, tmp_path / "kept"))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait((given_up,))
        go.set()
        await kept

    asyncio.run(calls())
    worker.close()
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]


def test_a_process_that_ends_in_the_middle_of_a_call_is_ended_once() -> None:
    worker, together = Worker("search", 30.0, LIMITS.memory), threading.Barrier(2)
    polled, killed, process, pipe = threading.Event(), threading.Event(), Mock(), Mock()
    worker._process, worker._pipe = process, pipe
    process.kill.side_effect = killed.set

    def join() -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.5)  # who else ends it comes here too

    def poll(_: float) -> bool:
        polled.set()
        assert killed.wait(30)
        raise EOFError

    process.join.side_effect, pipe.poll.side_effect = join, poll
    call = worker._thread.submit(worker._run, divmod, (7, 2), time.monotonic())
    assert polled.wait(30)
    worker.close()  # as the server does while it works for one who has gone
    assert isinstance(call.exception(30), RefusedError)
    assert (process.kill.call_count, pipe.close.call_count) == (1, 1)


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("/predict", json.dumps({"question": "how many?"}).encode(), b"application/json"),
        ("/solutions", json.dumps({"question": "how many?", "candidates": ["1"]}).encode(), b"application/json"),
        ("/ask", FORM, b"multipart/form-data; boundary=x"),
    ],
)
def test_who_hangs_up_leaves_his_place_to_others(path: str, content: bytes, kind: bytes) -> None:
    service = Service(text_model())
    app = serve_app(service, door("127.0.0.1"))
    messages = [{"type": "http.request", "body": content}, {"type": "http.disconnect"}]
    inside: list[int] = []

    async def receive() -> dict[str, Any]:
        if len(messages) == 1:
            while not service.queue.inside:  # he goes when he was let in
                await asyncio.sleep(0)
            inside.append(service.queue.inside)
        return messages.pop(0)

    async def send(message: Any) -> None:
        raise AssertionError("there is nobody to answer")

    headers = [(b"host", b"127.0.0.1"), (b"content-type", kind)]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 30))  # the model never answers
    assert inside == [1]
    assert service.queue.inside == 0
    service._reading.close()
    service._search.close()


def test_work_that_is_done_is_its_result_whoever_goes_later() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def failing() -> int:
        raise RefusedError(422, "no")

    async def ask() -> None:
        request = Request({"type": "http"}, receive)
        assert await while_asked(request, asyncio.sleep(0, 7)) == 7
        with pytest.raises(RefusedError, match="no"):
            await while_asked(request, failing())
        with pytest.raises(ClientDisconnect):
            await while_asked(Request({"type": "http"}, gone), asyncio.sleep(60))

    asyncio.run(ask())
