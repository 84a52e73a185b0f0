"""Work for a client, given up when he hangs up: nobody shall wait for what nobody reads."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


async def while_asked(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of work for a request whose body has been read; cancelled where its client goes before it is done."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.wait((working, gone))  # what was let in is let out again before this ends


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
