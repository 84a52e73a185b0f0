"""Run a web app: a port that is free, a line that says where it is, and an end in good order."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from bonafide.errors import BonafideError
from bonafide.web.guard import log, log_to_stderr

MOST_CONNECTIONS = 1000
"""Beyond these uvicorn itself answers 503."""
GRACE_SECONDS = 30


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), port))
        bound.listen(2048)
    except (OSError, OverflowError) as error:
        bound.close()
        raise _unbound(host, port, error) from None
    bound.set_inheritable(False)
    return bound


def address(bound: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (shown, not bound)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Server(uvicorn.Server):
    """Says at once when it is told to stop, and ends in good order: uvicorn's own dies of the signal at the end."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._stopping is not None:
            self._stopping()
        self.force_exit = self.should_exit and sig == signal.SIGINT  # a second Ctrl-C
        self.should_exit = True


def run(
    app: FastAPI,
    host: str,
    port: int,
    ready: Callable[[str], None] | None = None,
    stopping: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that were begun are finished first.

    ``ready`` is told the address; ``stopping`` is called when the signal comes.
    """
    bound = bind(host, port)
    log_to_stderr()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws="none",
        lifespan="on",
    )
    server = _Server(config, stopping)
    where = address(bound)
    if ready is not None:
        ready(where)
    log("listening", address=where)
    try:
        server.run(sockets=[bound])
    finally:
        bound.close()
        log("stopped")


def _unbound(host: str, port: int, error: OSError | OverflowError) -> BonafideError:
    if isinstance(error, OverflowError):
        return BonafideError(f"--port takes a number from 0 to 65535; found {port}.")
    if error.errno == errno.EADDRINUSE:
        return BonafideError(
            f"Port {port} of {host} is taken by another program. Choose another with --port; --port 0 takes a free one."
        )
    if error.errno == errno.EACCES:
        return BonafideError(f"Port {port} needs more rights than you have. Choose one above 1023 with --port.")
    return BonafideError(
        f"Cannot listen at {host}, port {port}: {error.strerror or error}. Is --host one of this machine?"
    )
