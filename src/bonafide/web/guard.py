"""The guard at the door of a web app: what it refuses before a handler runs, and what it adds to every response.

A server on 127.0.0.1 can be reached by every page that the user's browser opens. So a request must name a host that is
ours (a foreign name that resolves to 127.0.0.1 is refused), a request that changes something must come from our own
pages or from no page at all, a body is counted while it arrives, and a compressed body is not unpacked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import sys
import time
import traceback
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect

from bonafide.web.answers import RefusedError, error_response, refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("bonafide.web")
LINGER_BYTES = 64 << 20
LINGER_SECONDS = 3.0
"""How much of a body, and how long, is passed over after a refusal."""
LOCAL = frozenset(("127.0.0.1", "localhost", "::1"))
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer a browser sends Origin: null with our own forms
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Door:
    """Who may come in, and how much they may bring: names of hosts, bytes of a body, seconds for it to arrive."""

    hosts: frozenset[str]
    any_address: bool
    max_body: int
    body_seconds: float = 30.0

    def check(self, method: str, headers: dict[str, str]) -> None:
        """Refuse a request by its headers alone."""
        host = headers.get("host", "")
        name = hostname(host)
        if name not in self.hosts and not (self.any_address and _is_address(name)):
            raise RefusedError(421, f"This server does not answer to the host {host[:100]!r}; it is {self._names()}.")
        if method not in SAFE_METHODS:
            _check_origin(host, headers)
        encoding = headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise RefusedError(415, f"A body must not be compressed; found Content-Encoding: {encoding[:40]}.")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise RefusedError(400, "Content-Length is no number.")
        if len(length) > 18 or int(length) > self.max_body:
            raise self.too_large()

    def too_large(self) -> RefusedError:
        """What is said of a body that is larger than allowed."""
        return RefusedError(413, f"The body is too large: at most {self.max_body:,} bytes are taken.")

    def _names(self) -> str:
        return ", ".join(sorted(self.hosts))


def door(bound: str, more: Collection[str] = (), max_body: int = 4 << 20) -> Door:
    """The door of a server that is bound to this host; ``more`` are names by which it may also be called."""
    everywhere = bound in ("", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)
    names = LOCAL | {each.lower().strip("[]") for each in more} | ({bound.lower().strip("[]")} - {"", "0.0.0.0", "::"})  # noqa: S104
    return Door(frozenset(names), everywhere, max_body)


def hostname(host: str) -> str:
    """The name of a Host header without its port; empty where it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or "" if not set(host) & set("/?#@\\") else ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """An address cannot be made to point elsewhere, as a name can."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_origin(host: str, headers: dict[str, str]) -> None:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if (origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower())) or (
        site not in ("same-origin", "none")
    ):
        raise RefusedError(403, "This request comes from a page of another site, and only our own pages may send it.")


class Guard:
    """ASGI middleware: checks at the door, counts the body, adds headers, writes one line of JSON for each request."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app, self._door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await _Passage(self._door, scope, receive, send).serve(self._app)


class _Passage:
    """One request on its way through the door."""

    def __init__(self, door: Door, scope: Scope, receive: Receive, send: Send) -> None:
        self._door, self._scope, self._receive, self._send = door, scope, receive, send
        self._start = time.perf_counter()
        self._headers = _joined(scope["headers"])
        self._received, self._whole, self._status = 0, False, 0
        self._refused: RefusedError | None = None

    async def serve(self, app: ASGIApp) -> None:
        accept = self._headers.get("accept", "")
        try:
            self._door.check(self._scope["method"], self._headers)
            await app(self._scope, self._receiving, self._sending)
        except RefusedError as error:
            self._refused = self._refused or error
        except ClientDisconnect:
            pass  # who asked is gone: there is nobody to answer, and no fault of ours
        except Exception as error:
            if self._refused is None:
                log("failure", path=self._scope["path"][:200], error="".join(traceback.format_exception(error)))
                if not self._status:
                    message = "Something went wrong here: this is a fault of ours. The log has the details."
                    await error_response(500, message, accept)(self._scope, self._receive, self._sending)
        if self._refused is not None and not self._status:
            await refusal(self._refused, accept)(self._scope, self._receive, self._refusing)
        log(
            "request",
            method=self._scope["method"],
            path=self._scope["path"][:200],
            status=self._status,
            received=self._received,
            milliseconds=round(1000 * (time.perf_counter() - self._start), 2),
        )

    async def _receiving(self) -> Message:
        if self._whole:
            return await self._receive()  # waits for the end of the connection
        left = self._door.body_seconds - (time.perf_counter() - self._start)
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0.001))
        except TimeoutError:
            reason = f"The body did not arrive within {self._door.body_seconds:.0f} seconds."
            self._refused, self._whole = RefusedError(408, reason), True  # nor is the rest waited for
            raise self._refused from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._received > self._door.max_body:
                self._refused = self._door.too_large()
                raise self._refused
        return message

    async def _sending(self, message: Message) -> None:
        if self._refused is None:  # else a framework made something of its own of the refusal
            await self._marked(message)

    async def _refusing(self, message: Message) -> None:
        """Say so at once, and close when the client has sent what it sends: one that is cut off reads no reason."""
        if message["type"] == "http.response.body":
            await self._marked({**message, "more_body": True})
            await self._pass_over()
            message = {"type": "http.response.body", "body": b""}
        await self._marked(message)

    async def _pass_over(self) -> None:
        """What is left of a body, unread, as long as it is not too much."""
        passed, end = 0, time.perf_counter() + LINGER_SECONDS
        while not self._whole and passed < LINGER_BYTES and (left := end - time.perf_counter()) > 0:
            try:
                message = await asyncio.wait_for(self._receive(), left)
            except TimeoutError:
                return
            passed += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)

    async def _marked(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            there = {name for name, _ in message["headers"]}
            more = HEADERS if self._refused is None else {**HEADERS, "connection": "close"}  # the body is not read
            added = [(name.encode(), value.encode()) for name, value in more.items() if name.encode() not in there]
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)


def _joined(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; one that is given twice has both values, so that neither goes unseen."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def log(event: str, **fields: object) -> None:
    """One line of JSON."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    LOG.info(json.dumps({"time": stamp, "event": event, **fields}, ensure_ascii=True))


def log_to_stderr() -> None:
    """Write the log where a person or a service manager sees it."""
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    if not LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        LOG.addHandler(handler)
