"""``bonafide serve`` in a process of its own, as a user starts it, and raw bytes over a socket to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from command_line import BONAFIDE


class Server:
    """A server in a process of its own."""

    def __init__(self, run: Path, log: Path, *options: str) -> None:
        self.log = log
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                [BONAFIDE, "serve", str(run), "--port", "0", *options],
                stderr=stream,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        while not self.events():
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.05)
        self.address: str = self.events()[0]["address"]
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        assert parts.port is not None
        self.place: tuple[str, int] = (parts.hostname, parts.port)

    def events(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def stop(self) -> None:
        """End it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)

    @property
    def peak(self) -> int:
        """The most memory that it and the processes that it started ever held, in bytes."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        states = [Path(f"/proc/{process}/status").read_text() for process in (own, *children)]
        return 1024 * sum(int(re.findall(r"VmHWM:\s+(\d+) kB", state)[0]) for state in states)

    async def send(self, raw: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of what is answered to raw bytes; status 0: the connection was closed."""
        try:
            reader, writer = await asyncio.open_connection(*self.place)
        except OSError:
            return 0, {}, b""
        try:
            writer.write(raw)
            await writer.drain()
            return parsed(await reader.read())
        except OSError:
            return 0, {}, b""
        finally:
            writer.close()

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
        return await self.send(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)


def parsed(raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a whole answer."""
    head, _, body = raw.partition(b"\r\n\r\n")
    if not head:
        return 0, {}, b""
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert len(body) == int(headers.get("content-length", len(body))), "an answer was cut short"
    return int(first.split()[1]), headers, body
