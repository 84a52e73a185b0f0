"""``bonafide serve`` as a user starts it: under load, on its way out, and in a real browser."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("fastapi")

from browser import CHROMIUM, browser
from live_server import Server
from served import SALES, write_run

torch.set_num_threads(1)


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
