"""A user's file of questions with candidates, into our own files.

    {"id": …, "question": …, "context": …, "answer": …, "candidates": [{"text": …, "answer": …} | text, …], "gold": …}

``id``, ``context`` and ``gold`` may be missing; ``answer`` may be a list of accepted answers, ``gold`` a list of
texts that are all right. Gold goes into a file of its own, for evaluation alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import Example, describe, example_to_json, read_objects, write_jsonl_files
from bonafide.tasks.text.candidates import FILE_NAME, Candidate, is_answer, reaching, read_candidates, text_set


@dataclass(frozen=True, slots=True)
class Question:
    """One line of the user's file."""

    example: Example
    candidates: tuple[Candidate, ...]
    gold: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What was brought, and what is learned from it."""

    examples: int
    candidates: int
    wrong_answer: int  # candidates whose own answer is another
    repeated: int  # candidates that say the same as an earlier one
    kept: int  # what is left of them
    without_answer: int  # kept candidates that do not say what they arrive at
    without_solution: int  # examples of which no candidate is left
    gold: int  # examples with gold
    gold_in_set: int


def read_questions(path: Path) -> list[Question]:
    """The questions of a file, validated whole: all of its problems are reported at once."""
    questions: list[Question] = []
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for line, data in read_objects(path):
        question, found = _read(line, data)
        problems += found
        name = question.example.id
        if name and name in first:
            problems.append(Problem(line, name, "id", "an id used once", f"also on line {first[name]}"))
        first.setdefault(name, line)
        questions.append(question)
    if problems:
        raise InvalidFileError(str(path), problems)
    if not questions:
        raise BonafideError(f"{path} holds nothing: expected one JSON object a line, found an empty file.")
    return questions


def write_questions(questions: Iterable[Question], out: Path) -> Counts:
    """Write ``examples.jsonl``, ``candidates.jsonl`` and, where there is any, ``gold.jsonl``: all of them, or none."""
    listed = list(questions)
    files: dict[Path, Iterable[dict[str, Any]]] = {
        out / FILE_NAME: (
            {"id": each.example.id, "candidates": [one.to_json() for one in each.candidates]} for each in listed
        ),
        out / "examples.jsonl": (example_to_json(each.example) for each in listed),
    }
    known = [each for each in listed if each.gold]
    if known:
        files[out / "gold.jsonl"] = ({"id": each.example.id, "solution": {"texts": list(each.gold)}} for each in known)
    write_jsonl_files(files)
    return count(listed)


def count(questions: Iterable[Question]) -> Counts:
    """What these questions bring."""
    totals = dict.fromkeys(Counts.__slots__, 0)
    for each in questions:
        kept = reaching(each.candidates, each.example.answers)
        silent = text_set(one.text for one in each.candidates if one.answer is None)
        totals["examples"] += 1
        totals["candidates"] += len(each.candidates)
        totals["kept"] += len(kept)
        totals["repeated"] += sum(kept.counts) - len(kept)
        totals["wrong_answer"] += len(each.candidates) - sum(kept.counts)
        totals["without_answer"] += len(silent)
        totals["without_solution"] += not len(kept)
        totals["gold"] += bool(each.gold)
        totals["gold_in_set"] += kept.index_of(each.gold) is not None
    return Counts(**totals)


def _read(line: int, data: Any) -> tuple[Question, list[Problem]]:
    problems: list[Problem] = []
    if not isinstance(data, dict):
        found = str(data) if isinstance(data, Exception) else describe(data)
        return Question(Example("", "", None, ()), (), ()), [Problem(line, "", "(line)", "one JSON object", found)]
    name = data.get("id", f"line-{line}")
    label = name if isinstance(name, str) else ""

    def problem(field: str, expected: str, found: Any) -> None:
        problems.append(Problem(line, label, field, expected, describe(found)))

    question, context, answer, gold = (data.get(field) for field in ("question", "context", "answer", "gold"))
    if not label:
        problem("id", "a text that is not empty, or no id at all", name)
    if not isinstance(question, str) or not question.strip() or "\0" in question:
        problem("question", "a text that is not empty, without NUL characters", question)
    if context is not None and not isinstance(context, str):
        problem("context", "a text, or nothing", context)
    answers = answer if isinstance(answer, list) else [answer]
    if not answers or not all(map(is_answer, answers)):
        problem("answer", "a text, a number, or a list of accepted ones", answer)
    texts = gold if isinstance(gold, list) else [] if gold is None else [gold]
    if any(not isinstance(each, str) or not each.strip() for each in texts):
        problem("gold", "a text, a list of texts, or nothing", gold)
    candidates, wrong = read_candidates(data.get("candidates"))
    problems += [Problem(line, label, *each) for each in wrong]
    example = Example(label or f"line-{line}", str(question), context or None, tuple(answers))
    return Question(example, candidates, tuple(texts)), problems
