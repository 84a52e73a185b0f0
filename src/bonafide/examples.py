"""Examples: a question, its context and its answer; never a derivation.

This is the start of the road. ``examples.jsonl`` holds one object a line::

    {"id": "train-1", "question": "who plays for kansas?", "context": "1-1342359-15", "answers": ["ed roush"]}

``context`` names a line of the file beside it (``tables.jsonl``, ``documents.jsonl``). ``answers`` is the
list of values that a right solution returns, in order (tables), or the list of answers that are accepted,
the main one first (texts); of the latter each may be several texts, ``["Oslo", "Riga"]``, or a date,
``{"day": "24", "month": "October", "year": "1596"}``. Anything else on the line is dropped when it is
read, so that a gold derivation left in the file cannot reach training. Gold is a type of its own, in a
file of its own, for evaluation alone.

A file is validated whole before any work is done, and all of its problems are reported at once.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.files import open_bytes, parse_json, write_whole


@dataclass(frozen=True, slots=True)
class DateAnswer:
    """A date as an answer: its parts as texts, each perhaps empty."""

    day: str
    month: str
    year: str

    @property
    def text(self) -> str:
        """The parts that are there, day first."""
        return " ".join(part for part in (self.day, self.month, self.year) if part)


Answer = str | int | float | None
"""A value; all that a table knows."""
AcceptedAnswer = Answer | tuple[str, ...] | DateAnswer
"""A value, several texts, or a date."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question, the name of its context, and what a right solution returns."""

    id: str
    question: str
    context: str | None
    answers: tuple[AcceptedAnswer, ...]

    @property
    def values(self) -> tuple[Answer, ...]:
        """The answers of an example whose task refuses all but values."""
        return tuple(answer for answer in self.answers if not isinstance(answer, (tuple, DateAnswer)))


@dataclass(frozen=True, slots=True)
class Gold:
    """The true solution of an example, in its task's own form. For evaluation only."""

    id: str
    solution: dict[str, Any]


Check = Callable[[Example], Iterable[tuple[str, str, str]]]
"""A task's own demands on an example: yields (field, expected, found) for each that is not met."""


@dataclass(frozen=True, slots=True)
class ExampleFile:
    """A validated file of examples, read again from the disk at each pass: memory does not grow with it."""

    path: Path
    count: int
    sha256: str

    def __iter__(self) -> Iterator[Example]:
        for line, data in _json_lines(self.path):
            example, problems = _read_example(line, data)
            if example is None:
                raise InvalidFileError(str(self.path), problems, "The file changed while it was being used.")
            yield example


def open_examples(path: Path, check: Check | None = None) -> ExampleFile:
    """Validate the whole of ``path`` and return it ready to read, or report every problem it has."""
    problems: list[Problem] = []
    first_line: dict[str, int] = {}
    digest = hashlib.sha256()
    count = 0
    for line, data in _json_lines(path, digest):
        count += 1
        example, found = _read_example(line, data)
        problems += found
        if example is None:
            continue
        if example.id in first_line:
            problems.append(
                Problem(line, example.id, "id", "an id used once", f"also on line {first_line[example.id]}")
            )
        first_line.setdefault(example.id, line)
        if check is not None:
            problems += [Problem(line, example.id, *demand) for demand in check(example)]
    if problems:
        raise InvalidFileError(str(path), problems)
    if count == 0:
        raise BonafideError(f"{path} holds no examples: expected one JSON object a line, found an empty file.")
    return ExampleFile(path, count, digest.hexdigest())


def read_gold(path: Path) -> dict[str, Gold]:
    """Read ``gold.jsonl``, for evaluation: ``{"id": …, "solution": {…}}`` a line."""
    problems: list[Problem] = []
    gold: dict[str, Gold] = {}
    for line, data in _json_lines(path):
        if isinstance(data, Exception) or not isinstance(data, dict):
            problems.append(_not_an_object(line, data))
            continue
        name, solution = data.get("id"), data.get("solution")
        if not isinstance(name, str):
            problems.append(Problem(line, "", "id", "a string", describe(name)))
        elif not isinstance(solution, dict):
            problems.append(Problem(line, name, "solution", "an object", describe(solution)))
        elif name in gold:
            problems.append(Problem(line, name, "id", "an id used once", "an id used twice"))
        else:
            gold[name] = Gold(name, solution)
    if problems:
        raise InvalidFileError(str(path), problems)
    return gold


def write_jsonl(path: Path, objects: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line, whole or not at all."""
    write_jsonl_files({path: objects})


def write_jsonl_files(files: Mapping[Path, Iterable[dict[str, Any]]]) -> None:
    """Write several such files: all of them, or none, and then those of the same names stay as they were."""
    with ExitStack() as stack:
        streams = [(stack.enter_context(write_whole(path)), objects) for path, objects in files.items()]
        for stream, objects in streams:
            for value in objects:
                stream.write(json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            stream.flush()  # a full disk says so before the first file gets its name


def example_to_json(example: Example) -> dict[str, Any]:
    """The line of ``examples.jsonl`` for this example."""
    return {
        "id": example.id,
        "question": example.question,
        "context": example.context,
        "answers": [answer_to_json(answer) for answer in example.answers],
    }


def example_from_json(data: dict[str, Any]) -> Example:
    """The example of a line that was validated before."""
    return Example(data["id"], data["question"], data.get("context"), tuple(map(_answer, data["answers"])))


def answer_to_json(answer: AcceptedAnswer) -> Any:
    """An answer as it stands in ``examples.jsonl``."""
    if isinstance(answer, DateAnswer):
        return {"day": answer.day, "month": answer.month, "year": answer.year}
    return list(answer) if isinstance(answer, tuple) else answer


def read_objects(path: Path) -> Iterator[tuple[int, Any]]:
    """(line, object) for each line that is not blank; where a line is no JSON, the error in its place."""
    yield from _json_lines(path)


def describe(value: object) -> str:
    """A value as a person would name it in an error: its kind and its beginning."""
    if value is None:
        return "nothing"
    names: dict[type, str] = {
        str: "the text",
        bool: "the truth value",
        int: "the number",
        float: "the number",
        dict: "an object",
        list: "a list",
    }
    kind = names.get(type(value), type(value).__name__)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return f"{kind} that is nested too deeply"
    return f"{kind} {text if len(text) <= 40 else text[:37] + '…'}"


def _read_example(line: int, data: Any) -> tuple[Example | None, list[Problem]]:
    if not isinstance(data, dict):
        return None, [_not_an_object(line, data)]
    problems: list[Problem] = []
    name, question = data.get("id"), data.get("question")
    context, answers = data.get("context"), data.get("answers")
    values: list[Any] = answers if isinstance(answers, list) else []
    label = name if isinstance(name, str) else ""

    def problem(field: str, expected: str, found: object) -> None:
        problems.append(Problem(line, label, field, expected, describe(found)))

    if not isinstance(name, str) or not name:
        problem("id", "a text that is not empty", name)
    if not isinstance(question, str) or not question.strip() or "\0" in question:
        problem("question", "a text that is not empty, without NUL characters", question)
    if context is not None and not isinstance(context, str):
        problem("context", "the name of a context, as text", context)
    if not isinstance(answers, list):
        pair = "answers" not in data and "answer" in data
        problem("answers", "a list of values" + (" (pairs: bonafide import pairs)" if pair else ""), answers)
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not _finite(value):
            problem("answers", "finite numbers", value)
        elif (expected := _wrong_answer(value)) is not None:
            problem("answers", expected, value)
    return (None, problems) if problems else (example_from_json(data), [])


def _wrong_answer(value: Any) -> str | None:
    """What was expected in place of an answer that is none."""
    if isinstance(value, dict):
        if value and set(value) <= {"day", "month", "year"} and all(isinstance(part, str) for part in value.values()):
            return None if any(part.strip() for part in value.values()) else "a date with a day, a month or a year"
        return "texts, numbers or null in the list, or dates with day, month and year as texts"
    if isinstance(value, list):
        if value and all(isinstance(each, str) for each in value):
            return None
        return "texts, numbers or null in the list, or lists of texts"
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        return None
    return "texts, numbers or null in the list"


def _answer(value: Any) -> AcceptedAnswer:
    if isinstance(value, dict):
        return DateAnswer(*(value.get(part, "") for part in ("day", "month", "year")))
    return tuple(value) if isinstance(value, list) else value


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _not_an_object(line: int, data: Any) -> Problem:
    found = str(data) if isinstance(data, Exception) else describe(data)
    return Problem(line, "", "(line)", "one JSON object", found)


def _json_lines(path: Path, digest: Any = None) -> Iterator[tuple[int, Any]]:
    with open_bytes(path) as stream:
        for line, raw in enumerate(stream, start=1):
            if digest is not None:
                digest.update(raw)
            if line == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if not raw.strip():
                continue
            try:
                value = parse_json(raw)
            except ValueError as error:
                value = error
            yield line, value
