"""People judge pairs of solutions without knowing whose they are.

A sheet holds one pair a line, left and right in random order::

    {"id": "17", "example": "dev-1", "question": "…", "context": "…", "answer": […], "left": "SELECT …",
     "right": "SELECT …", "left_from": "hard-em", "right_from": "mimax"}

Judgements are appended to the file of the same name that ends in ``.judged.jsonl``, and are on the disk before the next
pair is shown: ``{"id", "choice", "judge", "time"}``. Of several judgements of a pair by one judge the last counts; of
several judges the majority, as ``bonafide compare`` counts them.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import describe, example_to_json, read_objects, write_jsonl
from bonafide.explore.workspace import Workspace
from bonafide.files import explained

CHOICES = ("left", "right", "both", "neither", "unsure")
_PAIRS = 200
_TEXTS = ("id", "example", "question", "left", "right", "left_from", "right_from")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two solutions of one example, and whose they are."""

    id: str
    example: str
    question: str
    answer: Any
    left: str
    right: str
    left_from: str
    right_from: str


@dataclass(frozen=True, slots=True)
class Share:
    """``right`` of ``of``, with Wilson's 95 % interval."""

    name: str
    right: int
    of: int
    low: float
    high: float


class Sheet:
    """Pairs to be judged by one person, and what was judged before."""

    def __init__(self, path: Path, judge: str) -> None:
        self.path, self.judge = path, judge
        self.pairs = _read_sheet(path)
        self.judged = path.with_suffix(".judged.jsonl")
        self._lock = threading.Lock()
        self._choices: dict[tuple[str, str], str] = {}  # by judge and pair
        if self.judged.exists():
            for line, data in read_objects(self.judged):
                self._take(line, data)

    def choice(self, pair: Pair) -> str | None:
        """What this judge said of a pair."""
        return self._choices.get((self.judge, pair.id))

    def next(self, after: int = -1) -> int | None:
        """The next pair that this judge has not judged, from there on and then from the beginning; None: all done."""
        order = [*range(after + 1, len(self.pairs)), *range(after + 1)]
        return next((place for place in order if self.choice(self.pairs[place]) is None), None)

    @property
    def done(self) -> int:
        """How many pairs this judge has judged."""
        return sum(self.choice(pair) is not None for pair in self.pairs)

    def record(self, place: int, choice: str) -> None:
        """Append a judgement; it is on the disk when this returns."""
        if choice not in CHOICES:
            raise BonafideError(f"A judgement is one of {', '.join(CHOICES)}; found {choice[:40]!r}.")
        pair = self.pairs[place]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        entry = {"id": pair.id, "choice": choice, "judge": self.judge, "time": stamp}
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        with self._lock, explained(self.judged, "write"):
            handle = os.open(self.judged, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    line = b"\n" + line  # a judgement that was cut short by a crash stays a line of its own
                os.write(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)
            self._choices[self.judge, pair.id] = choice

    def accuracies(self) -> list[Share]:
        """By method: how often its solution was judged right; pairs that are unsure do not count."""
        right: Counter[str] = Counter()
        of: Counter[str] = Counter()
        for pair in self.pairs:
            choice = _majority(self._said(pair))
            for side, method in (("left", pair.left_from), ("right", pair.right_from)):
                of[method] += choice != "unsure"
                right[method] += choice in (side, "both")
        return [_share(method, right[method], of[method]) for method in sorted(of) if of[method]]

    def agreement(self) -> Share | None:
        """Pairs of which all judges said the same, of those with several judges; None where there are none."""
        several = [set(said) for pair in self.pairs if len(said := self._said(pair)) > 1]
        return _share("judges", sum(len(each) == 1 for each in several), len(several)) if several else None

    def _said(self, pair: Pair) -> list[str]:
        return [choice for (_, name), choice in self._choices.items() if name == pair.id]

    def _take(self, line: int, data: Any) -> None:
        if isinstance(data, Exception):
            return  # cut short by a crash
        found = [data.get(key) for key in ("id", "choice", "judge")] if isinstance(data, dict) else [None]
        if not all(isinstance(each, str) for each in found) or found[1] not in CHOICES:
            raise BonafideError(
                f"{self.judged}, line {line}: expected an object with id, choice and judge, found {describe(data)}."
            )
        self._choices[str(found[2]), str(found[0])] = str(found[1])


def make_sheet(workspace: Workspace, path: Path, seed: int = 0) -> int:
    """Write a sheet of the examples on which solver and reconstructor disagree; returns how many."""
    rows = workspace.index.rows("WHERE solver <> reconstructor")
    chance = random.Random(seed)  # noqa: S311 (an order, not a secret)
    chance.shuffle(rows)
    lines = []
    for row in rows[:_PAIRS]:
        opened = workspace.open(row.place)
        assert row.solver is not None
        assert row.reconstructor is not None
        sides = [(row.solver, "solver"), (row.reconstructor, "reconstructor")]
        chance.shuffle(sides)
        (left, left_from), (right, right_from) = sides
        example = example_to_json(opened.example)
        lines.append(
            {
                "id": str(row.place),
                "example": row.id,
                "question": opened.example.question,
                "context": opened.example.context,
                "answer": example["answers"],
                "left": workspace.text(opened, left),
                "right": workspace.text(opened, right),
                "left_from": left_from,
                "right_from": right_from,
            }
        )
    if lines:
        write_jsonl(path, lines)
    return len(lines)


def _read_sheet(path: Path) -> list[Pair]:
    pairs: list[Pair] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for line, data in read_objects(path):
        if not isinstance(data, dict):
            found = str(data) if isinstance(data, Exception) else describe(data)
            problems.append(Problem(line, "", "(line)", "one JSON object", found))
            continue
        name = data.get("id") if isinstance(data.get("id"), str) else ""
        wrong = [field for field in _TEXTS if not isinstance(data.get(field), str)]
        problems += [Problem(line, str(name), field, "a text", describe(data.get(field))) for field in wrong]
        if name in seen:
            problems.append(Problem(line, str(name), "id", "an id used once", "an id used twice"))
        if not wrong:
            seen.add(str(name))
            texts = {field: data[field] for field in _TEXTS}
            pairs.append(Pair(answer=data.get("answer"), **texts))
    if problems:
        raise InvalidFileError(str(path), problems)
    if not pairs:
        raise BonafideError(f"{path} holds no pairs to judge: expected one JSON object a line, found an empty file.")
    return pairs


def _majority(choices: Sequence[str]) -> str:
    """What most judges said; unsure where nobody judged, or as many said something else."""
    ranked = Counter(choices).most_common(2)
    return "unsure" if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]) else ranked[0][0]


def _share(name: str, right: int, of: int) -> Share:
    from bonafide.report.statistics import wilson  # scipy is not needed before

    interval = wilson(right, of)
    return Share(name, right, of, interval.low, interval.high)


def shown_answer(answer: Any) -> str:
    """The answer of a sheet as a person reads it."""
    values: Sequence[Any] = answer if isinstance(answer, list) else [answer]
    return ", ".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values)
