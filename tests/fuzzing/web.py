"""The HTTP API of ``bonafide serve``, called in this process: any body gives an answer, or a 4xx with its reason."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import torch

import served
from bonafide.errors import BonafideError
from bonafide.learn.saved import Model, load
from bonafide.serve.application import serve_app
from bonafide.serve.limits import Limits
from bonafide.serve.service import Service
from bonafide.tasks.sql.readers import read_tables
from bonafide.web.guard import door
from fuzzing.contract import BrokenContractError, Target

LIMITS = Limits(reading_seconds=2.0, search_seconds=2.0, solutions=50)
_ASKED = {"question": "how many units were sold in Oslo?"}
_ANSWERED = {**_ASKED, "answers": [3], "order": "reconstructor", "offset": 0, "limit": 5}
_TEXT = {"question": served.PROBLEM, "context": ""}


def api_sql(folder: Path) -> Target:
    """Questions on tables."""
    (folder / "sales.csv").write_text(served.SALES)
    tables = read_tables(folder / "sales.csv")
    csv = {"csv": "City,Units\nOslo,3\nLyon,\n"}
    bodies = [{**_ASKED, "rows": served.ROWS}, {**_ASKED, **csv, "alternatives": 2}, {**_ASKED, "table": "sales"}]
    bodies += [{**_ANSWERED, "rows": served.ROWS}, {**_ANSWERED, **csv}]
    return _target(load(served.write_run(folder)), bodies, tables)


def api_discrete(_: Path) -> Target:
    """Questions on passages."""
    about = {"question": "how many years?", "passage": served.PASSAGE}
    dated = [{"day": "1", "month": "May", "year": "1648"}, ["a", "b"], 5, "Five"]
    bodies = [about, {**about, "alternatives": 0}, {**about, "answers": [5]}, {**about, "answers": dated, "limit": 3}]
    return _target(served.passage_model(), bodies)


def api_reading(_: Path) -> Target:
    """Questions on documents."""
    about = {"question": "who signs?", "paragraphs": served.PARAGRAPHS, "title": "Rules"}
    return _target(served.document_model(), [about, {**about, "answers": ["Ada Lund"], "order": "solver"}])


def api_text(_: Path) -> Target:
    """Candidates to rank, and questions to write a solution for."""
    bodies = [_TEXT, {**_TEXT, "alternatives": 1}, {**_TEXT, "candidates": served.DERIVATIONS, "limit": 2}]
    return _target(served.text_model(), bodies)


def _target(model: Model, bodies: list[dict[str, Any]], tables: Any = None) -> Target:
    torch.set_num_threads(1)
    service = Service(model, tables, LIMITS)
    app = serve_app(service, door("127.0.0.1", max_body=LIMITS.body))
    loop = asyncio.new_event_loop()
    inside = app.router.lifespan_context(app)
    loop.run_until_complete(inside.__aenter__())

    def read(data: bytes, _open: Any = inside) -> None:  # held, or the service would stop
        path = "/solutions" if b'"answers"' in data or b'"candidates"' in data else "/predict"
        status, body = loop.run_until_complete(_post(app, path, data))
        answer = json.loads(body, parse_constant=_no_json)
        if status == 200:
            return
        if not 400 <= status < 500 or status == 429:
            raise BrokenContractError(f"status {status}")
        raise BonafideError(answer["error"])

    return Target(read, [json.dumps(each).encode() for each in bodies])


async def _post(app: Any, path: str, data: bytes) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(data))}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


def _no_json(constant: str) -> None:
    raise BrokenContractError(f"an answer with {constant}, which is no JSON")
