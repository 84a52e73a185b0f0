"""``bonafide serve`` as a user starts it: under load, on its way out, attacked, and in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import torch

pytest.importorskip("fastapi")

from browser import CHROMIUM, browser
from command_line import BONAFIDE
from served import SALES, write_run

torch.set_num_threads(1)
HUGE = 1 << 30
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


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
        """The most memory it ever held, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])

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
    head, _, body = raw.partition(b"\r\n\r\n")
    if not head:
        return 0, {}, b""
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert len(body) == int(headers.get("content-length", len(body))), "an answer was cut short"
    return int(first.split()[1]), headers, body


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "sales.csv"
    path.write_text(SALES)
    return path


@pytest.fixture(scope="module")
def server(run: Path, sales: Path) -> Iterator[Server]:
    started = Server(run, sales.with_suffix(".log"), "--table", str(sales))
    yield started
    if started.process.poll() is None:
        started.stop()


def test_of_200_clients_at_once_nobody_is_lost_and_who_is_refused_is_told_why(server: Server) -> None:
    async def ask(client: int) -> list[tuple[int, str]]:
        found = []
        for number in range(3):
            question = f"how many units in Oslo for order {client * 10 + number}?"
            status, headers, body = await server.post("/predict", {"question": question})
            answer = json.loads(body)
            if status == 200:
                assert answer["question"] == question
                assert answer["solution"]
            else:
                assert status == 429
                assert headers["retry-after"] == "1"
                assert "room for no more" in answer["error"]
            found.append((status, question))
        return found

    async def everybody() -> list[list[tuple[int, str]]]:
        return await asyncio.gather(*(ask(client) for client in range(200)))

    counted = Counter(status for client in asyncio.run(everybody()) for status, _ in client)
    assert counted[200] + counted[429] == 600
    assert counted[200] >= 64  # as many as are let in at a time
    assert counted[429] > 0
    health = asyncio.run(server.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
    assert json.loads(health[2])["waiting"] == 0


@pytest.mark.parametrize("path", ["/predict", "/ask"])
def test_a_gigabyte_is_refused_early_and_takes_no_memory(server: Server, path: str) -> None:
    before = server.peak
    kind = "application/json" if path == "/predict" else "multipart/form-data; boundary=b"
    begin = b'--b\r\ncontent-disposition: form-data; name="file"; filename="t.csv"\r\n\r\n'

    async def upload() -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(*server.place)
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head.encode())
        if path == "/ask":
            writer.write(f"{len(begin):x}\r\n".encode() + begin + b"\r\n")
        sent = 0
        answer = asyncio.create_task(reader.read())
        try:
            while sent < HUGE and not answer.done():
                writer.write(CHUNK)
                await writer.drain()
                sent += 0x10000
        except OSError:
            pass  # it was told to go
        try:
            return sent, await answer
        except OSError:
            return sent, b""
        finally:
            writer.close()

    sent, answer = asyncio.run(upload())
    assert sent < HUGE // 10
    assert not answer or parsed(answer)[0] == 413
    assert server.peak - before < 50 << 20
    length = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: {HUGE}\r\n\r\n"
    assert asyncio.run(server.send(length.encode()))[0] == 413
    assert [each["status"] for each in server.events() if each.get("path") == path][-2:] == [413, 413]


@pytest.mark.parametrize(
    "path", ["/../../../../etc/passwd", "/assets/../../serve/service.py", "//etc/passwd", "/assets/%2e%2e%2f%2e%2e",
             "/file:///etc/passwd", "/?table=/etc/passwd/../passwd"],
)  # fmt: skip
def test_no_path_of_a_request_reaches_a_file(server: Server, path: str) -> None:
    raw = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode()
    status, _, body = asyncio.run(server.send(raw))
    assert status in (200, 400, 404)
    assert b"root:" not in body
    assert b"class Service" not in body


@pytest.mark.parametrize(
    ("headers", "expected"),
    [("host: evil.example", 421), ("host: 127.0.0.1\r\norigin: http://evil.example", 403), ("x-forwarded-host: a", 400),
     ("host: 127.0.0.1\r\nhost: evil.example", 400), ("host: 127.0.0.1\r\ncontent-encoding: gzip", 415)],
)  # fmt: skip
def test_strangers_are_turned_away(server: Server, headers: str, expected: int) -> None:
    raw = f"POST /predict HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    assert asyncio.run(server.send(raw))[0] == expected


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_person_can_ask_in_a_browser(server: Server, tmp_path: Path) -> None:
    cities = tmp_path / "cities.csv"
    cities.write_text("City,<script>document.title='broken'</script>\nRiga,<img src=x onerror=alert(1)>\n")
    with browser(tmp_path / "profile") as page:
        page.size(1000, 900)
        page.open(server.address)
        assert page.run("document.activeElement.id") == "question"
        page.type("how many units were sold in Oslo?")
        page.press("Enter")
        page.wait("document.querySelector('#answer .result')")
        assert page.run("document.querySelector('#answer code').textContent").startswith("SELECT ")
        assert page.run("document.querySelectorAll('#answer tbody')[0].rows.length") == 4
        assert page.run("document.querySelectorAll('#answer tbody')[1].rows.length") == 3
        assert page.run("location.pathname") == "/"

        page.run("document.querySelector('#answer').replaceChildren()")
        page.run("document.querySelector('details').open = true")
        page.choose_file("#file", cities)
        assert page.run("document.getElementById('table').value") == ""
        page.run("document.querySelector('button').click()")
        page.wait("document.querySelector('#answer .result')")
        assert page.run("document.querySelector('#answer caption').textContent").startswith("table")
        assert page.run("document.querySelectorAll('#answer img, #answer script').length") == 0
        assert page.run("document.title") != "broken"

        page.run("document.getElementById('table').value = 'sales'")
        page.run("document.getElementById('table').dispatchEvent(new Event('change'))")
        assert page.run("document.getElementById('file').files.length") == 0
        for width, dark in ((360, False), (360, True), (1000, True)):
            page.size(width, 800, dark)
            assert page.run("document.documentElement.scrollWidth") <= width
        page.open(server.address + "api")
        assert "POST /predict" in page.run("document.body.innerText")
        assert page.complaints == []


def test_whoever_was_let_in_is_answered_when_the_server_is_told_to_stop(server: Server) -> None:
    """The last test of this server."""
    before = len(server.events())

    async def ask_and_stop() -> list[tuple[int, dict[str, str], bytes]]:
        asked = [asyncio.create_task(server.post("/predict", {"question": f"units of order {n}?"})) for n in range(120)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        server.process.send_signal(signal.SIGTERM)
        late = [server.post("/predict", {"question": "too late?"}) for _ in range(3)]
        return await asyncio.gather(*asked, *late)

    answers = asyncio.run(ask_and_stop())
    assert server.process.wait(timeout=30) == 0
    log = server.events()[before:]
    assert log[-1]["event"] == "stopped"
    answered = Counter(status for status, _, _ in answers if status)
    logged = Counter(line["status"] for line in log if line["event"] == "request")
    assert answered == logged
    assert answered[200] > 0
    assert set(answered) <= {200, 429, 503}
    for status, headers, body in answers:
        if status == 503:
            assert "shutting down" in json.loads(body)["error"]
            assert headers["retry-after"] == "10"
