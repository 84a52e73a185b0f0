"""What the importers of this task share: what they write, and how they say what is wrong with a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.documents import Document, document_to_json
from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import Example, Gold, describe, example_to_json, read_objects, write_jsonl_files
from bonafide.files import open_bytes, parse_json


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import wrote; ``left_out`` counts questions without an answer, ``held_out`` those that are dev's."""

    examples: int
    documents: int
    left_out: int = 0
    held_out: int = 0


class WrongFieldError(Exception):
    """(field, expected, found) of what is wrong; who reads the file knows the rest."""

    def __init__(self, field: str, expected: str, found: object) -> None:
        super().__init__(field, expected, str(found) if isinstance(found, Exception) else describe(found))


def grouped(passages: Sequence[str], size: int) -> tuple[str, ...]:
    """Passages as paragraphs: so many to a paragraph, one a line; 0: all in one."""
    size = size or max(1, len(passages))
    return tuple("\n".join(passages[start : start + size]) for start in range(0, len(passages), size))


def write_data(
    out: Path, examples: Sequence[Example], documents: Iterable[Document] | None, gold: Sequence[Gold] | None = None
) -> None:
    """Write ``examples.jsonl``, ``documents.jsonl`` and ``gold.jsonl``, those that there are: all of them, or none."""
    files: dict[Path, Iterable[dict[str, Any]]] = {}
    if documents is not None:
        files[out / "documents.jsonl"] = map(document_to_json, documents)
    if gold is not None:
        files[out / "gold.jsonl"] = ({"id": each.id, "solution": each.solution} for each in gold)
    files[out / "examples.jsonl"] = map(example_to_json, examples)
    write_jsonl_files(files)


class Lines:
    """The objects of a JSON Lines file, and every problem found with them.

    Also reads one JSON list of objects, whose members then count as lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._problems: list[Problem] = []
        self._first: dict[str, int] = {}

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        found = 0
        for line, data in self._values():
            found += 1
            if isinstance(data, dict):
                yield line, data
            else:
                self.add(line, "", WrongFieldError("(line)", "one JSON object", data))
        if not found:
            raise BonafideError(f"{self.path} holds nothing: expected one JSON object a line, found an empty file.")

    def add(self, line: int, name: str, wrong: WrongFieldError) -> None:
        """Note a problem."""
        self._problems.append(Problem(line, name, *wrong.args))

    def used_once(self, line: int, name: str) -> None:
        """Note a problem if this id was used before."""
        if name in self._first:
            self._problems.append(Problem(line, name, "id", "an id used once", f"also on line {self._first[name]}"))
        self._first.setdefault(name, line)

    def check(self) -> None:
        """Report every problem noted, if there are any."""
        if self._problems:
            raise InvalidFileError(str(self.path), self._problems)

    def _values(self) -> Iterator[tuple[int, Any]]:
        if first_character(self.path) != b"[":
            yield from read_objects(self.path)
            return
        with open_bytes(self.path) as stream:
            raw = stream.read()
        try:
            values = parse_json(raw.removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise BonafideError(
                f"Cannot read {self.path}: expected a JSON list, found {error}. It may be damaged."
            ) from None
        yield from enumerate(values, start=1)


def first_character(path: Path) -> bytes:
    """The first character of a file that is not white space: ``[`` for a JSON list."""
    with open_bytes(path) as stream:
        return stream.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]


def text_field(data: dict[str, Any], field: str) -> str:
    """A text that is not empty."""
    value = data.get(field)
    if not isinstance(value, str) or not value.strip():
        raise WrongFieldError(field, "a text that is not empty", value)
    return value


def question_field(data: dict[str, Any], field: str) -> str:
    """A question as examples may have it."""
    value = text_field(data, field)
    if "\0" in value:
        raise WrongFieldError(field, "a text without NUL characters", value)
    return value


def texts_field(data: dict[str, Any], field: str) -> tuple[str, ...]:
    """A list of texts."""
    values = data.get(field)
    if not isinstance(values, list):
        raise WrongFieldError(field, "a list of texts", values)
    if wrong := [value for value in values if not isinstance(value, str)]:
        raise WrongFieldError(field, "texts in the list", wrong[0])
    return tuple(values)


def objects_field(data: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """A list of objects."""
    values = data.get(field)
    if not isinstance(values, list):
        raise WrongFieldError(field, "a list of objects", values)
    if wrong := [value for value in values if not isinstance(value, dict)]:
        raise WrongFieldError(field, "objects in the list", wrong[0])
    return values
