"""Retrieval results in DPR's JSON into examples and documents: questions with ``answers`` and retrieved ``ctxs``.

A file is a JSON list, or one object a line. The passages of a question become the paragraphs of its document, in the
order of the file, with their titles on a line of their own where they have one; ``group`` joins several.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bonafide.documents import Document
from bonafide.examples import Example
from bonafide.files import bare_name, spare_inputs
from bonafide.tasks.reading.imported import (
    Imported,
    Lines,
    WrongFieldError,
    grouped,
    objects_field,
    question_field,
    texts_field,
    write_data,
)


def import_dpr(path: Path, out: Path, top: int = 50, group: int = 1) -> Imported:
    """Write ``examples.jsonl`` and ``documents.jsonl`` into ``out``, of each question the first ``top`` passages."""
    spare_inputs(out, path)
    lines = Lines(path)
    examples: list[Example] = []
    documents: list[Document] = []
    for line, data in lines:
        name = data.get("id", data.get("q_id", f"{bare_name(path)}-{line}"))
        name = str(name) if isinstance(name, int) else name
        try:
            if not isinstance(name, str) or not name:
                raise WrongFieldError("id", "a text that is not empty", name)
            example = Example(name, question_field(data, "question"), name, texts_field(data, "answers"))
            passages = [_passage(each) for each in objects_field(data, "ctxs")[:top]]
            if not passages:
                raise WrongFieldError("ctxs", "at least one passage", [])
        except WrongFieldError as wrong:
            lines.add(line, str(name), wrong)
            continue
        lines.used_once(line, name)
        examples.append(example)
        documents.append(Document(name, None, grouped(passages, group)))
    lines.check()
    write_data(out, examples, documents)
    return Imported(len(examples), len(documents))


def _passage(data: dict[str, Any]) -> str:
    text, title = data.get("text"), data.get("title")
    if not isinstance(text, str):
        raise WrongFieldError("ctxs.text", "a text", text)
    if title is not None and not isinstance(title, str):
        raise WrongFieldError("ctxs.title", "a text, or nothing", title)
    return titled(title, text)


def titled(title: str | None, text: str) -> str:
    """A passage under its title."""
    return f"{title}\n{text}" if title and title.strip() else text
