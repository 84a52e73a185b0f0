"""Blind sheets and what people said of them, as they stand in files: one reader for whoever shows or counts them.

``judge.jsonl`` holds one pair a line::

    {"id", "example", "question", "context", "answer", "left", "right", "left_from", "right_from"}

Judgements come back as ``judge.judged.jsonl``, a line each: ``{"id", "choice", "judge", "time"}``, where the choice is
left, right, both, neither or unsure. Of several judgements of a pair by one judge the last counts; of several judges
the majority, and where there is none the pair is unsure. A line that a crash cut short is dropped, with a warning.

Where left and right are the same, one solution is judged: it is right unless the choice is neither, and counts once for
each method that it is from.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import describe, read_objects
from bonafide.files import open_bytes
from bonafide.sealed import check_lines

if TYPE_CHECKING:
    from bonafide.report.statistics import Interval

LOG = logging.getLogger("bonafide.report")
CHOICES = ("left", "right", "both", "neither", "unsure")
_FIELDS = ("id", "example", "question", "left", "right", "left_from", "right_from")

Said = dict[str, dict[str, str]]
"""By pair and by judge: the choice."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two solutions of one example, in random order, and whose they are: one line of the sheet."""

    id: str
    example: str
    question: str
    context: str | None
    answer: list[Any]
    left: str
    right: str
    left_from: str
    right_from: str


@dataclass(frozen=True, slots=True)
class JudgedSolution:
    """A solution, whose it is, and whether a person finds it right."""

    example: str
    text: str
    method: str
    right: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said of one method's solutions: right, of how many that were judged and not unsure."""

    method: str
    right: int
    of: int

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the share."""
        from bonafide.report.statistics import wilson  # imports scipy, which who only shows a sheet does not need

        return wilson(self.right, self.of)


@dataclass(frozen=True, slots=True)
class Judgements:
    """A sheet with its judgements: one choice a pair. ``agreement``: pairs of which all judges said the same."""

    pairs: Sequence[Pair]
    choices: dict[str, str]
    judged_by_several: int
    agreement: int

    @property
    def singly(self) -> bool:
        """Whether each line of the sheet is one solution, and no pair of two."""
        return all(pair.left == pair.right for pair in self.pairs)

    @property
    def methods(self) -> set[str]:
        """Whose solutions stand in the sheet."""
        return {name for pair in self.pairs for name in (pair.left_from, pair.right_from)}

    @property
    def verdicts(self) -> list[Verdict]:
        """One a method, in the order of their names."""
        right: Counter[str] = Counter()
        of: Counter[str] = Counter()
        for example in self.solutions():
            of[example.method] += 1
            right[example.method] += example.right
        return [Verdict(name, right[name], of[name]) for name in sorted(of)]

    def solutions(self) -> list[JudgedSolution]:
        """Every solution of a pair about which a person was sure."""
        found = []
        for pair in self.pairs:
            choice = self.choices.get(pair.id, "unsure")
            if choice == "unsure":
                continue
            if pair.left == pair.right:
                methods = dict.fromkeys((pair.left_from, pair.right_from))
                found += [JudgedSolution(pair.example, pair.left, each, choice != "neither") for each in methods]
                continue
            for side, text, method in (("left", pair.left, pair.left_from), ("right", pair.right, pair.right_from)):
                found.append(JudgedSolution(pair.example, text, method, choice in (side, "both")))
        return found


def counted(pairs: Sequence[Pair], said: Mapping[str, Mapping[str, str]]) -> Judgements:
    """What all judges together say."""
    several = [set(by_judge.values()) for by_judge in said.values() if len(by_judge) > 1]
    choices = {name: _majority(list(by_judge.values())) for name, by_judge in said.items()}
    return Judgements(pairs, choices, len(several), sum(len(each) == 1 for each in several))


def read_judgements(judged: Path, sheet: Path | None = None) -> Judgements:
    """The judgements of a file, with their sheet: ``judge.jsonl`` beside ``judge.judged.jsonl`` unless it is named."""
    if sheet is None:
        if ".judged" not in judged.name:
            raise BonafideError(
                f"The name of {judged} does not say which sheet it is of: expected such as judge.judged.jsonl, beside "
                "judge.jsonl."
            )
        sheet = judged.with_name(judged.name.replace(".judged", "", 1))
    pairs = read_sheet(sheet)
    return counted(pairs, read_said(judged, {pair.id for pair in pairs}, sheet.name))


def judged_beside(sheet: Path) -> Path:
    """Where the judgements of a sheet are."""
    if sheet.suffix != ".jsonl" or ".judged" in sheet.name:
        raise BonafideError(
            f"{sheet} is no name of a sheet: expected such as judge.jsonl, whose judgements are in judge.judged.jsonl."
        )
    return sheet.with_suffix(".judged.jsonl")


def read_sheet(path: Path) -> list[Pair]:
    """The pairs of a sheet, or every problem of the file."""
    check_lines(path)
    pairs: list[Pair] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    for line, data in read_objects(path):
        if not isinstance(data, dict):
            problems.append(_no_object(line, data))
            continue
        name = str(data.get("id", ""))
        wrong = [field for field in _FIELDS if not isinstance(data.get(field), str)]
        problems += [Problem(line, name, field, "a text", describe(data.get(field))) for field in wrong]
        if name in seen:
            problems.append(Problem(line, name, "id", "an id used once", "an id used twice"))
        if not wrong:
            seen.add(name)
            answer = data.get("answer", [])
            values = {field: data[field] for field in _FIELDS}
            pairs.append(
                Pair(**values, context=data.get("context"), answer=answer if isinstance(answer, list) else [answer])
            )
    if problems:
        raise InvalidFileError(str(path), problems)
    if not pairs:
        raise BonafideError(f"{path} holds no pairs to judge: expected one JSON object a line, found an empty file.")
    return pairs


def read_said(path: Path, known: Collection[str], sheet: str) -> Said:
    """What was said of the pairs ``known``, which are those of the file ``sheet``, or every problem of the file."""
    check_lines(path)
    said: Said = {}
    problems: list[Problem] = []
    cut = _cut_lines(path)
    for line, data in read_objects(path):
        if line in cut and isinstance(data, Exception):
            LOG.warning("%s, line %d was cut short, as by a crash: that judgement is dropped.", path, line)
        elif not isinstance(data, dict):
            problems.append(_no_object(line, data))
        elif not isinstance(data.get("id"), str) or data["id"] not in known:
            problems.append(Problem(line, "", "id", f"a pair of {sheet}", describe(data.get("id"))))
        elif data.get("choice") not in CHOICES:
            problems.append(Problem(line, data["id"], "choice", ", ".join(CHOICES), describe(data.get("choice"))))
        else:
            said.setdefault(data["id"], {})[str(data.get("judge", ""))] = data["choice"]
    if problems:
        raise InvalidFileError(str(path), problems)
    return said


def _cut_lines(path: Path) -> set[int]:
    """Lines that begin an object and do not end it: the last of the file, or one that a later start wrote after."""
    with open_bytes(path) as stream:
        lines = [raw.lstrip() for raw in stream]
    return {line for line, raw in enumerate(lines, start=1) if raw.startswith(b"{") and not raw.endswith(b"}\n")}


def _no_object(line: int, data: Any) -> Problem:
    found = str(data) if isinstance(data, Exception) else describe(data)
    return Problem(line, "", "(line)", "one JSON object", found)


def _majority(choices: list[str]) -> str:
    (most, count), *others = Counter(choices).most_common()
    return "unsure" if others and others[0][1] == count else most
