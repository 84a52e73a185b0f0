"""Documents: titled texts in paragraphs, the context of questions on text.

``documents.jsonl`` holds one object a line::

    {"id": "siege-12", "title": "The siege", "paragraphs": ["In 1648 …", "Five years later …"]}

``title`` may be missing. An example names its document in ``context``; where there is no such file, the
``context`` of an example is the text itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import Check, Example, describe
from bonafide.files import LineFile, content_hash, described, open_bytes, parse_json

FILE_NAME = "documents.jsonl"


@dataclass(frozen=True, slots=True)
class Document:
    """A named text in paragraphs."""

    name: str
    title: str | None
    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        """The paragraphs, joined by one newline each."""
        return "\n".join(self.paragraphs)


class Documents(Protocol):
    """Documents by name."""

    def __contains__(self, name: object) -> bool: ...
    def __getitem__(self, name: str) -> Document: ...
    def raw(self, name: str) -> bytes | Document:
        """What a worker needs to prepare this document."""
        ...


class DocumentFile(LineFile):
    """``documents.jsonl``, found by id without holding all in memory; validated when it is opened."""

    def __init__(self, path: Path) -> None:
        def read(line: int, raw: bytes) -> tuple[str | None, list[Problem]]:
            document, problems = _read_document(line, raw)
            return None if document is None else document.name, problems

        super().__init__(path, read, "documents")

    def __getitem__(self, name: str) -> Document:
        return document_from_line(self.raw(name))


class InlineDocuments:
    """Documents that stand in the examples themselves: the name of each is its text."""

    def __contains__(self, name: object) -> bool:
        """One word is no text: it is the id of a document that is elsewhere. Not all scripts part words."""
        if not isinstance(name, str):
            return False
        return len(name.split()) > 1 or any(unicodedata.category(letter) == "Lo" for letter in name)

    def __getitem__(self, name: str) -> Document:
        return Document("", None, (name,))

    def raw(self, name: str) -> Document:
        """The document itself."""
        return self[name]


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """Where examples find their documents: a file, or (``path`` is None) the examples themselves."""

    documents: Documents
    path: Path | None

    def document_of(self, example: Example) -> Document:
        """The example's document."""
        return self.documents[example.context or ""]

    @property
    def check(self) -> Check:
        """What examples over these documents must fulfil."""

        def demands(example: Example) -> Iterator[tuple[str, str, str]]:
            if example.context not in self.documents:
                yield "context", self._names(), describe(example.context)

        return demands

    def description(self, store: Path) -> dict[str, Any]:
        """What a manifest says of these documents; the path is relative to the store."""
        return {"documents": described([self.path] if self.path is not None else [], store)}

    def _names(self) -> str:
        if isinstance(self.documents, DocumentFile):
            return f"one of the {len(self.documents):,} documents of {self.documents.path.name}"
        return f"a text of several words (there is no {FILE_NAME} beside the examples, and no --documents)"


def open_documents(documents: Path | None, examples: Path | None = None) -> DocumentSource:
    """Documents of this file; else of ``documents.jsonl`` beside the examples; else the examples' own texts."""
    if documents is None and examples is not None:
        documents = documents_beside(examples)
    if documents is None:
        return DocumentSource(InlineDocuments(), None)
    return DocumentSource(DocumentFile(documents), documents)


def documents_beside(examples: Path) -> Path | None:
    """``documents.jsonl`` in the folder of the examples, plain or compressed."""
    with open_bytes(examples):  # its errors first: where there are no examples, no documents are missed
        pass
    for suffix in ("", ".gz", ".xz"):
        path = examples.parent / f"{FILE_NAME}{suffix}"
        if path.exists():
            return path
    return None


def documents_of_store(store: Path, inputs: dict[str, Any], documents: Path | None = None) -> DocumentSource:
    """The documents that a store was searched over: where the manifest says they are, or where the user says."""
    recorded = inputs["documents"]
    if not recorded:
        if documents is not None:
            raise BonafideError("This store was searched over texts in the examples themselves: leave --documents out.")
        return DocumentSource(InlineDocuments(), None)
    path = documents if documents is not None else store / recorded[0]["path"]
    if not path.exists():
        raise BonafideError(
            f"The documents of this store are no longer at {path}. Say where they are now with --documents."
        )
    if content_hash(path) != recorded[0]["sha256"]:
        raise BonafideError(f"{path} is not the file that this store was searched over: its content differs.")
    return DocumentSource(DocumentFile(path), path)


def document_from_line(raw: bytes) -> Document:
    """The document of one line of ``documents.jsonl``."""
    document, problems = _read_document(0, raw)
    if document is None:
        raise InvalidFileError(FILE_NAME, problems)
    return document


def document_to_json(document: Document) -> dict[str, Any]:
    """The line of ``documents.jsonl`` for this document."""
    title = {} if document.title is None else {"title": document.title}
    return {"id": document.name, **title, "paragraphs": list(document.paragraphs)}


def _read_document(line: int, raw: bytes) -> tuple[Document | None, list[Problem]]:
    try:
        data = parse_json(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        return None, [Problem(line, "", "(line)", "one JSON object", str(error))]
    if not isinstance(data, dict):
        return None, [Problem(line, "", "(line)", "one JSON object", describe(data))]
    name, title, paragraphs = data.get("id"), data.get("title"), data.get("paragraphs")
    label = name if isinstance(name, str) else ""
    problems: list[Problem] = []

    def problem(field: str, expected: str, found: object) -> None:
        problems.append(Problem(line, label, field, expected, describe(found)))

    if not isinstance(name, str) or not name:
        problem("id", "a text that is not empty", name)
    if title is not None and not isinstance(title, str):
        problem("title", "a text, or nothing", title)
    if not isinstance(paragraphs, list) or not paragraphs:
        problem("paragraphs", "a list of at least one text", paragraphs)
    elif wrong := [each for each in paragraphs if not isinstance(each, str)]:
        problem("paragraphs", "texts in the list", wrong[0])
    if problems:
        return None, problems
    return Document(label, title, tuple(paragraphs or ())), []
