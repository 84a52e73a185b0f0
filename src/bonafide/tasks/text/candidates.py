"""Candidates: the solutions that a user brings, as they stand in a file, and the sets that are learned from.

``candidates.jsonl`` stands beside ``examples.jsonl`` and holds one object a line::

    {"id": "q1", "candidates": [{"text": "12 + 7 = 19", "answer": 19}, {"text": "20 - 1"}]}

``answer`` is what a candidate itself arrives at; where it is missing, the candidate is taken to reach the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import AcceptedAnswer, describe
from bonafide.files import LineFile, parse_json
from bonafide.tasks.text.words import normalised, same_answer

FILE_NAME = "candidates.jsonl"
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text, and the answer it arrives at where that is known."""

    text: str
    answer: str | int | float | None = None

    def to_json(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {"text": self.text} if self.answer is None else {"text": self.text, "answer": self.answer}


@dataclass(frozen=True, eq=False)
class TextSet(Sequence[str]):
    """Distinct candidates that reach an example's answer, in the order of the file.

    ``counts`` says how often each was brought. ``size`` is the number of candidates before any were left out for
    room; ``complete`` says that all are here.
    """

    texts: tuple[str, ...]
    counts: tuple[int, ...]
    size: int
    complete: bool

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return list(self.texts[index]) if isinstance(index, slice) else self.texts[index]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {normalised(text): place for place, text in enumerate(self.texts)}

    def __contains__(self, text: object) -> bool:
        return self.index_of(text) is not None

    def index_of(self, text: object) -> int | None:
        """Where the candidate stands that says the same; of several texts, the first that is here."""
        wanted = text if isinstance(text, tuple) else (text,)
        found = (self._places.get(normalised(each)) for each in wanted if isinstance(each, str))
        return next((place for place in found if place is not None), None)


def text_set(texts: Iterable[str]) -> TextSet:
    """The set of these texts; those that say the same are one, which keeps the wording of the first."""
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for text in texts:
        key = normalised(text)
        first.setdefault(key, text)
        counts[key] = counts.get(key, 0) + 1
    return TextSet(tuple(first.values()), tuple(counts.values()), len(first), True)


def reaching(candidates: Sequence[Candidate], answers: Sequence[AcceptedAnswer]) -> TextSet:
    """The candidates whose own answer, where it is given, is an accepted one."""
    return text_set(
        each.text
        for each in candidates
        if each.answer is None or any(same_answer(each.answer, accepted) for accepted in answers)
    )


class CandidateFile(LineFile):
    """``candidates.jsonl``, found by id without holding all in memory; validated when it is opened."""

    def __init__(self, path: Path) -> None:
        def read(line: int, raw: bytes) -> tuple[str | None, list[Problem]]:
            name, _, problems = _read_line(line, raw)
            return name, problems

        super().__init__(path, read)

    def __getitem__(self, name: str) -> tuple[Candidate, ...]:
        return candidates_from_line(self.raw(name))


def candidates_beside(examples: Path) -> Path:
    """``candidates.jsonl`` in the folder of the examples, plain or compressed."""
    names = [examples.parent / f"{FILE_NAME}{suffix}" for suffix in ("", ".gz", ".xz")]
    for path in names:
        if path.exists():
            return path
    raise BonafideError(
        f"There is no {FILE_NAME} beside {examples}. The text task learns from candidates that you bring: write them "
        "with bonafide import candidates FILE --out FOLDER."
    )


def candidates_from_line(raw: bytes) -> tuple[Candidate, ...]:
    """The candidates of one line of ``candidates.jsonl``."""
    _, candidates, problems = _read_line(0, raw)
    if problems:
        raise InvalidFileError(FILE_NAME, problems)
    return candidates


def is_answer(value: Any) -> bool:
    """Whether a JSON value is a text or a number that a float can hold."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and abs(value) <= _LARGEST  # NaN fails this too
    return isinstance(value, str)


def read_candidates(value: Any) -> tuple[tuple[Candidate, ...], list[tuple[str, str, str]]]:
    """Candidates of a JSON value, and (field, expected, found) for each thing wrong with it."""
    if not isinstance(value, list) or not value:
        return (), [("candidates", "a list of at least one candidate", describe(value))]
    read, wrong = [], []
    for each in value:
        fields = {"text": each} if isinstance(each, str) else each if isinstance(each, dict) else {}
        text, answer = fields.get("text"), fields.get("answer")
        if not isinstance(text, str) or not text.strip():
            wrong.append(("candidates", "texts, or objects with a text that is not empty", describe(each)))
        elif answer is not None and not is_answer(answer):
            wrong.append(("candidates.answer", "a text, a number or nothing", describe(answer)))
        else:
            read.append(Candidate(text, answer))
    return tuple(read), wrong


def _read_line(line: int, raw: bytes) -> tuple[str, tuple[Candidate, ...], list[Problem]]:
    try:
        data = parse_json(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        return "", (), [Problem(line, "", "(line)", "one JSON object", str(error))]
    if not isinstance(data, dict):
        return "", (), [Problem(line, "", "(line)", "one JSON object", describe(data))]
    name = data.get("id")
    candidates, wrong = read_candidates(data.get("candidates"))
    problems = [Problem(line, str(name or ""), *each) for each in wrong]
    if not isinstance(name, str) or not name:
        problems.append(Problem(line, "", "id", "a text that is not empty", describe(name)))
    return str(name), candidates, problems
