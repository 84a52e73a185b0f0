"""``bonafide serve`` under attack: bombs, gigabytes, paths, foreign pages and hosts, and texts that want to be more."""

from __future__ import annotations

import asyncio
import gzip
import io
import sqlite3
import threading
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

pytest.importorskip("fastapi")

from browser import CHROMIUM, browser
from live_server import Server, parsed
from served import SALES, write_run

torch.set_num_threads(1)
HUGE = 1 << 30
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
LITTLE = 50 << 20
"""Bytes of memory that a refusal may take."""
ATTACKS = [
    "<script>window.broken = 1</script>", '"><img src=x onerror="window.broken = 1">', "'-(window.broken = 1)-'",
    "</textarea></option></td></title><svg onload='window.broken = 1'>", "{{ 7 * 7 }}", "=HYPERLINK(\"http://x\")",
    "javascript:window.broken=1", "\u202e\u2028<b>", "'); DROP TABLE sales; --",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With a table of sales, and one whose name, columns and cells are attacks."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "sales.csv").write_text(SALES)
    with closing(sqlite3.connect(folder / "attacks.db")) as connection:
        quoted = [each.replace('"', '""') for each in ATTACKS]
        columns = ", ".join(f'"{each}" TEXT' for each in quoted)
        connection.execute(f'CREATE TABLE "{quoted[1]}" ({columns})')
        connection.execute(f'INSERT INTO "{quoted[1]}" VALUES ({", ".join("?" * len(ATTACKS))})', ATTACKS)
        connection.commit()
    run = write_run(folder / "data")
    started = Server(run, folder / "log", "--table", str(folder / "sales.csv"), "--table", str(folder / "attacks.db"))
    yield started
    started.stop()


def upload(path: str, kind: str, content: bytes, *headers: str) -> bytes:
    """A request whose body is of a known length."""
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-type: {kind}", "connection: close", *headers]
    return "\r\n".join([*lines, f"content-length: {len(content)}", "", ""]).encode() + content


def form(name: str, content: bytes) -> bytes:
    """The Ask page's form with a file."""
    parts = (
        b'--b\r\ncontent-disposition: form-data; name="question"\r\n\r\nhow many units?\r\n',
        f'--b\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content,
        b"\r\n--b--\r\n",
    )
    return b"".join(parts)


def bomb(kind: str) -> bytes:
    """256 MiB of a table, packed into about two."""
    line = b"0,0,0,0,0,0,0,0\n" * (1 << 16)
    packed = io.BytesIO()
    if kind == "gzip":
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as stream:
            for _ in range(256):
                stream.write(line)
    else:
        with (
            zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open("table.csv", "w") as stream,
        ):
            for _ in range(256):
                stream.write(line)
    assert len(packed.getvalue()) < 4 << 20
    return packed.getvalue()


@pytest.mark.parametrize(("kind", "name"), [("gzip", "table.csv.gz"), ("gzip", "table.csv"), ("zip", "table.zip")])
def test_a_bomb_is_refused_unopened(server: Server, kind: str, name: str) -> None:
    asyncio.run(server.post("/predict", {"question": "x", "csv": SALES}))  # the process that reads is there
    before, content = server.peak, bomb(kind)
    status, _, page = asyncio.run(server.send(upload("/ask", "multipart/form-data; boundary=b", form(name, content))))
    assert (status, f"this is a {kind} file".encode() in page) == (415, True)
    for encoding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
        raw = upload("/predict", "application/json", content, f"content-encoding: {encoding}")
        assert asyncio.run(server.send(raw))[0] == 415
    assert server.peak - before < LITTLE


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
    assert not answer or parsed(answer)[0] == 413  # who goes on sending past all bounds is cut off
    assert server.peak - before < LITTLE
    length = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: {HUGE}\r\n\r\n"
    assert asyncio.run(server.send(length.encode()))[0] == 413
    assert [each["status"] for each in server.events() if each.get("path") == path][-2:] == [413, 413]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_who_brings_too_much_is_told_so(server: Server, tmp_path: Path, scripts: bool) -> None:
    large = tmp_path / "large.csv"
    large.write_bytes(b"a,b\n" + b"1,2\n" * (5 << 20))
    with browser(tmp_path / "profile") as page:
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.open(server.address)
        page.type("how many units?")
        page.choose_file("#file", large)
        page.run("document.getElementById('table').value = ''")
        page.run("document.querySelector('form button').click()")
        page.wait("document.querySelector('[role=alert]')")
        assert "at most 4,194,304 bytes are taken" in page.run("document.querySelector('[role=alert]').textContent")


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
def test_nothing_that_is_said_is_executed_in_a_browser(server: Server, tmp_path: Path) -> None:
    """Attacks as a table's name, its columns and its cells, as a question, as a pasted table, and in an error."""
    table = ",".join('"' + each.replace('"', '""') + '"' for each in ATTACKS)
    with browser(tmp_path / "profile") as page:
        page.size(1000, 900)
        page.open(server.address)
        assert page.run("document.querySelectorAll('#table option')[1].value") == ATTACKS[1]
        for attack in ATTACKS:
            for choice in (1, 2):  # the hostile table, and one that is pasted
                page.run(f"document.getElementById('table').selectedIndex = {choice}")
                for field, said in (("question", f"{attack} how many?"), ("text", f"{table}\n{table}\n")):
                    page.run(f"document.getElementById('{field}').value = {said!r}")
                page.run("document.querySelector('#answer').replaceChildren()")
                page.run("document.querySelector('form button').click()")
                page.wait("document.querySelector('#answer .result')")
                assert attack in page.run("[...document.querySelectorAll('#answer table')].at(-1).textContent")
        page.run("document.getElementById('text').value = 'a,b\\n1,2,<img src=x onerror=window.broken=1>\\n'")
        page.run("document.querySelector('form button').click()")
        page.wait("document.querySelector('#answer [role=alert]')")
        page.run("document.getElementById('table').selectedIndex = 1")
        page.run("document.getElementById('ask').submit()")  # without our script: a page of its own
        page.wait("location.pathname === '/ask' && document.querySelector('#answer .result')")
        assert page.run("typeof window.broken") == "undefined"
        assert page.run("document.querySelectorAll('img, svg, b, script:not([src])').length") == 0
        assert page.run("document.scripts.length") == 1
        said = [each for each in page.complaints if "status of 422" not in each]
        assert said == []  # nothing was even tried: the browser would have said what it blocked


@contextmanager
def foreign_site(content: str) -> Iterator[str]:
    """A page of another origin."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_address[1]}/"
        site.shutdown()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_foreign_page_can_neither_ask_nor_read_nor_frame(server: Server, tmp_path: Path) -> None:
    where = server.address
    tries = f"""[
        fetch("{where}predict", {{method: "POST", mode: "no-cors", body: '{{"question": "x"}}'}}),
        fetch("{where}predict", {{method: "POST", body: '{{"question": "x"}}'}}),
        fetch("{where}predict", {{method: "POST", headers: {{"content-type": "application/json"}}, body: "{{}}"}}),
        fetch("{where}health"),
    ].map(each => each.then(found => found.type + " " + found.status, () => "failed"))"""
    content = f"""<!doctype html><iframe src="{where}"></iframe>
        <form method="post" action="{where}ask" enctype="multipart/form-data"><input name="question" value="x"></form>
        <script>window.tried = Promise.all({tries})</script>"""
    before = len(server.events())
    with foreign_site(content) as site, browser(tmp_path / "profile") as page:
        page.open(site)
        found = page.run("window.tried")
        assert found[1:] == ["failed"] * 3
        assert found[0] in ("opaque 0", "failed")  # a request may be sent so; it is refused, and nothing is read of it
        assert page.run("document.querySelector('iframe').contentDocument") is None
        assert any("frame-ancestors" in each for each in page.complaints)
        page.run("document.forms[0].submit()")
        page.wait("location.pathname === '/ask' && document.readyState === 'complete'")
        assert "another site" in page.run("document.body.innerText")
    logged = [(each["path"], each["status"]) for each in server.events()[before:] if each.get("method") == "POST"]
    assert ("/ask", 403) in logged
    assert ("/predict", 403) in logged
    assert {status for _, status in logged} == {403}
