"""The Ask page: a form that works without scripts, and what is shown of an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.files import decoded
from bonafide.serve.candidates import Candidates, PredictText
from bonafide.serve.limits import Limits
from bonafide.serve.service import Service
from bonafide.serve.tables import PredictOnTable, Tables
from bonafide.serve.texts import PredictOnDocument, PredictOnPassage
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.sql.tables import Table
from bonafide.web.answers import RefusedError
from bonafide.web.hangup import while_asked

_ALTERNATIVES = 4
_LISTED = 12
"""Tables whose columns are listed; where there are more, those of the chosen one are."""
_OFFERED = 200
"""Tables to choose from; where there are more, others are called by their names."""
_ROWS = 20
_VALUES = 12
_KEPT = 200_000
"""Characters of an uploaded file that are put into the form, so that the next question needs no upload."""


@dataclass(frozen=True, slots=True)
class Form:
    """What was typed: a question, and the name of a table, a pasted text or an uploaded file."""

    question: str
    table: str
    text: str
    file: bytes | None


async def read_form(request: Request, limits: Limits) -> Form:
    """The fields of the form; a file stays in memory."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise RefusedError(415, "Expected the fields of the form, as multipart/form-data.")
    parser = MultiPartParser(request.headers, request.stream(), max_files=1, max_fields=8, max_part_size=limits.body)
    parser.spool_max_size = 2 * limits.body  # never to the disk: the body is smaller than that
    try:
        fields = await parser.parse()
    except (MultiPartException, UnicodeError, ValueError) as error:
        raise RefusedError(400, f"The form cannot be read: {error}.") from None
    values = {name: value for name, value in fields.items() if isinstance(value, str)}
    upload = fields.get("file")
    data = await upload.read() if isinstance(upload, UploadFile) else b""
    await fields.close()
    return Form(values.get("question", ""), values.get("table", ""), values.get("text", ""), data or None)


def blank_page(service: Service, form: Form | None = None, error: str = "") -> dict[str, Any]:
    """What the template needs to show the form, and perhaps what was wrong with it."""
    held = service.kind.tables if isinstance(service.kind, Tables) else {}
    tables = list(islice(held, _OFFERED))
    form = form or Form("", tables[0] if tables else "", "", None)
    listed = tables if len(held) <= _LISTED else [form.table]
    return {
        "task": "text" if isinstance(service.kind, Candidates) else service.task,
        "tables": tables,
        "many": len(held) > _OFFERED,
        "columns": {name: held[name].header for name in listed if name in held},
        "form": form,
        "limits": service.limits,
        "error": error,
        "shown": None,
    }


async def asked_page(service: Service, request: Request, page: Callable[..., Response]) -> Response:
    """The answer to a form that was sent, or the form again with what was wrong; ``page`` takes status and values."""
    form = Form("", "", "", None)
    try:
        form = await read_form(request, service.limits)
        return page(200, **await while_asked(request, answer_page(service, form)))
    except RefusedError as error:
        response = page(error.status, **blank_page(service, form, str(error)))
        if error.retry_after is not None:
            response.headers["retry-after"] = str(error.retry_after)
        return response
    except BonafideError as error:
        return page(422, **blank_page(service, form, str(error)))


async def answer_page(service: Service, form: Form) -> dict[str, Any]:
    """The form again, and the answer."""
    async with service.queue.admitted():
        request = _request(service, form)
        if form.file is not None and isinstance(service.kind, Tables):
            context = await service.made(service.kind.uploaded(form.file))
        else:
            context = await service.made(service.kind.context(request))
        found = await service.answered(context, request.question, _ALTERNATIVES)
    if form.file is not None and len(form.file) <= _KEPT:
        form = Form(form.question, "", decoded(form.file)[0], None)
    best, *others = [_line(each) for each in (found, *found["alternatives"])]
    shown = {
        "question": found["question"],
        "best": best if found["solution"] is not None else None,
        "others": others,
        "evidence": _evidence(found, context),
    }
    return {**blank_page(service, form), "shown": shown}


def _request(service: Service, form: Form) -> Any:
    """The same request that the API takes, so that the same is checked."""
    text = form.text
    if form.file is not None and service.task != "sql":
        try:
            text = form.file.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RefusedError(415, f"The file is no text in UTF-8 (byte {error.start:,}). Save it as UTF-8.") from None
    try:
        if service.task == "sql":
            named = form.table or None
            csv = text if not named and form.file is None and text.strip() else None
            return PredictOnTable(question=form.question, table=None if form.file else named, csv=csv)
        if isinstance(service.kind, Candidates):
            return PredictText(question=form.question, context=text.strip())
        if not text.strip():
            raise RefusedError(422, "Paste a text to ask about, or choose a file.")
        if service.task == "discrete":
            return PredictOnPassage(question=form.question, passage=text)
        return PredictOnDocument(question=form.question, paragraphs=_paragraphs(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise RefusedError(422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def _paragraphs(text: str) -> list[str]:
    """What blank lines separate; the lines of a paragraph are joined."""
    blocks = "\n".join(line.strip() for line in text.splitlines()).split("\n\n")
    return [" ".join(block.split("\n")).strip() for block in blocks if block.strip()]


def _line(solution: dict[str, Any]) -> dict[str, Any]:
    """A solution as the page shows it: texts only."""
    answer = solution["answer"]
    values = [] if answer is None else ["NULL" if each is None else str(each) for each in answer]
    if answer is None:
        returns = "an error"
    elif not values:
        returns = "nothing"
    else:
        more = f" … and {len(values) - _VALUES:,} more" if len(values) > _VALUES else ""
        returns = ", ".join(values[:_VALUES]) + more
    return {
        "solution": solution["solution"],
        "returns": returns,
        "empty": not values,
        "confidence": solution["confidence"],
        "percent": f"{solution['confidence']:.1%}",
        "rows": solution.get("rows_selected"),
    }


def _evidence(found: dict[str, Any], context: Any) -> dict[str, Any]:
    """What the best solution points at: rows of the table, or stretches of the text; a written one: nothing."""
    if isinstance(context, str):
        return {"kind": "none"}
    if isinstance(context, Table):
        lit = set(found.get("rows", ()))
        first = sorted(set(range(min(_ROWS, len(context.rows)))) | set(sorted(lit)[:_ROWS]))
        rows = [
            {
                "number": row + 1,
                "lit": row in lit,
                "cells": ["" if cell is None else cell for cell in context.rows[row]],
            }
            for row in first
        ]
        return {"kind": "table", "table": context, "rows": rows, "left_out": len(context.rows) - len(rows)}
    if isinstance(context, Passage):
        pieces = [
            (start, end)
            for operand in found.get("operands", ())
            if operand["source"] == "passage"
            for start, end in operand["pieces"]
        ]
        return {"kind": "text", "paragraphs": [_marked(context.text, pieces)]}
    assert isinstance(context, Document)
    paragraphs = [
        _marked(text, [(found["start"], found["end"])] if found.get("paragraph") == place else [])
        for place, text in enumerate(context.paragraphs)
    ]
    return {"kind": "text", "paragraphs": paragraphs}


def _marked(text: str, pieces: Iterable[Sequence[int]]) -> list[tuple[bool, str]]:
    """The text in stretches, each marked or not."""
    parts: list[tuple[bool, str]] = []
    position = 0
    for start, end in sorted((start, end) for start, end in pieces):
        if start < position:
            continue
        parts += [(False, text[position:start]), (True, text[start:end])]
        position = end
    return [part for part in (*parts, (False, text[position:])) if part[1]]
