"""What every page and every answer of the web apps is held to: who may ask, how much, and what comes back."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from bonafide.errors import BonafideError
from bonafide.web.answers import RefusedError
from bonafide.web.application import make_app
from bonafide.web.guard import LOG, Guard, door, hostname
from bonafide.web.pages import assets, environment
from bonafide.web.running import address, bind

LIMIT = 10_000


class Note(BaseModel):
    text: str


def small_app() -> FastAPI:
    app, pages = make_app("A test <title>", hosts=door("127.0.0.1", ["box.example"], LIMIT), api_page=True)

    @app.get("/page")
    async def page(said: str) -> Any:
        return pages("error.html", status=200, reason=said, message=said, problems=())

    @app.post("/note")
    async def note(given: Note) -> dict[str, int]:
        return {"length": len(given.text)}

    @app.post("/raw")
    async def raw(request: Request) -> dict[str, int]:
        return {"length": len(await request.body())}

    @app.get("/wrong")
    async def wrong() -> None:
        raise BonafideError("Expected <this>, found that.")

    @app.get("/later")
    async def later() -> None:
        raise RefusedError(429, "Too many wait.", retry_after=3)

    @app.get("/bug")
    async def bug() -> None:
        raise ValueError("a secret of the inside")

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(small_app(), base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as made:
        yield made


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8000", "LOCALHOST", "[::1]:8000", "box.example:80"])
def test_hosts_that_are_ours_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/later", headers={"host": host}).status_code == 429


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "evil.example:127.0.0.1", "", "[::1",
     "evil.example@127.0.0.1", "127.0.0.1/evil.example", "0x7f000001", "10.0.0.1", "127.0.0.1\\@evil.example"],
)  # fmt: skip
def test_a_foreign_host_is_refused_for_every_method(client: TestClient, host: str) -> None:
    for method in ("GET", "POST", "HEAD"):
        assert client.request(method, "/later", headers={"host": host}).status_code == 421


def test_a_server_for_everyone_answers_to_addresses_and_not_to_foreign_names() -> None:
    everyone = door("0.0.0.0", ["box.example"])
    everyone.check("GET", {"host": "192.168.1.5:8000"})
    everyone.check("GET", {"host": "box.example"})
    with pytest.raises(RefusedError, match="does not answer to the host"):
        everyone.check("GET", {"host": "evil.example"})


@given(st.text(max_size=60))
def test_no_host_header_breaks_its_reader(host: str) -> None:
    assert isinstance(hostname(host), str)


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:9999"},
     {"origin": "http://127.0.0.1:8000.evil.example"}, {"sec-fetch-site": "cross-site"},
     {"sec-fetch-site": "same-site"}, {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "cross-site"}],
)  # fmt: skip
def test_a_page_of_another_site_can_change_nothing(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/note", json={"text": "x"}, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"]


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}]
)
def test_our_own_pages_and_programs_can(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/note", json={"text": "four"}, headers=headers).json() == {"length": 4}


def test_no_answer_allows_another_site_to_read_it(client: TestClient) -> None:
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}):
        answer = client.options("/note", headers={**headers, "access-control-request-method": "POST"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/later", "/wrong", "/bug", "/nowhere", "/assets/web.css", "/api", "/page?said=x"])
def test_every_answer_has_the_headers_that_keep_a_page_in_its_place(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/raw", "/note"])
def test_a_body_is_counted_while_it_arrives_whatever_its_header_says(client: TestClient, path: str) -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1000
            yield b"x" * 1000

    answer = client.post(path, content=chunks())  # chunked: no Content-Length
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert "at most 10,000 bytes" in answer.json()["error"]
    honest = client.post(path, content=b"x", headers={"content-length": str(LIMIT + 1)})
    assert honest.status_code == 413
    assert client.post("/raw", content=b"x" * LIMIT).json() == {"length": LIMIT}


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/raw",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }

    async def reads(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    slow = Guard(reads, replace(door("127.0.0.1"), body_seconds=0.05))
    asyncio.run(asyncio.wait_for(slow(scope, never, send), 10))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408
    assert b"did not arrive" in sent[1]["body"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "zstd"])
def test_a_compressed_body_is_not_unpacked(client: TestClient, encoding: str) -> None:
    answer = client.post("/note", content=b"\x1f\x8b", headers={"content-encoding": encoding})
    assert answer.status_code == 415
    assert "compressed" in answer.json()["error"]


def test_errors_are_pages_for_browsers_and_json_for_programs(client: TestClient) -> None:
    assert client.get("/wrong").json() == {"error": "Expected <this>, found that."}
    page = client.get("/wrong", headers={"accept": "text/html"})
    assert page.status_code == 422
    assert "Expected &lt;this&gt;, found that." in page.text
    assert client.get("/later").headers["retry-after"] == "3"
    assert client.get("/nowhere").json() == {"error": "There is no such page."}
    invalid = client.post("/note", json={"text": 3})
    assert invalid.status_code == 422
    assert invalid.json()["problems"][0]["field"] == "text"


def test_a_fault_of_ours_is_said_and_logged_and_tells_nothing_of_the_inside(
    client: TestClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOG, "propagate", True)
    with caplog.at_level(logging.INFO, "bonafide.web"):
        answer = client.get("/bug")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    lines = [json.loads(record.message) for record in caplog.records]
    assert "a secret of the inside" in lines[0]["error"]
    assert (lines[1]["event"], lines[1]["status"], lines[1]["path"]) == ("request", 500, "/bug")


@pytest.mark.parametrize("said", ["<script>alert(1)</script>", '" onmouseover="x', "{{ 7 * 7 }}", "=1+1", "</title>"])
def test_what_a_template_is_given_stays_text(client: TestClient, said: str) -> None:
    text = client.get("/page", params={"said": said}).text
    assert "<script" not in text
    assert '<p role="alert">' + str(environment().filters["escape"](said)) in text
    assert "49" not in text


@pytest.mark.parametrize(
    "path", ["/assets/../guard.py", "/assets/..%2fguard.py", "/assets/%2e%2e/guard.py", "/assets//etc/passwd",
             "/assets/..\\guard.py", "/../../etc/passwd", "/assets/web.css%00.py", "/assets/"],
)  # fmt: skip
def test_no_path_leads_out_of_the_assets(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_assets_come_from_the_package_and_are_not_sent_twice(client: TestClient) -> None:
    first = client.get("/assets/web.css")
    assert first.headers["content-type"].startswith("text/css")
    assert first.content == assets()["web.css"].content
    assert client.get("/assets/web.css", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_nothing_is_loaded_from_elsewhere(client: TestClient) -> None:
    for path in ("/api", "/page?said=x"):
        page = client.get(path, headers={"accept": "text/html"}).text
        assert "http://" not in page.replace("http://www.w3.org", "")
        assert "https://" not in page
        assert "<script>" not in page
        assert "style=" not in page


def test_a_taken_port_is_said_and_a_free_one_is_found() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken) == f"http://127.0.0.1:{port}/"
        with pytest.raises(BonafideError, match=f"Port {port} of 127.0.0.1 is taken"):
            bind("127.0.0.1", port)
    with pytest.raises(BonafideError, match=r"Cannot listen at 192\.0\.2\.1"):
        bind("192.0.2.1", 0)
    with pytest.raises(BonafideError, match="from 0 to 65535"):
        bind("127.0.0.1", 70_000)


def test_ipv6_is_bound_where_the_machine_has_it() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        bound = bind("::1", 0)
    except BonafideError:
        pytest.skip("this machine has no IPv6 address")
    with bound:
        assert address(bound).startswith("http://[::1]:")
