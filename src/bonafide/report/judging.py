"""A blind sheet for people: pairs of solutions with the same right answer; and what the people say.

``judge.jsonl`` holds one pair a line::

    {"id", "example", "question", "context", "answer", "left", "right", "left_from", "right_from"}

Left and right are in random order, by a seed; who shows the sheet keeps ``left_from`` and ``right_from`` to itself.
Judgements come back as ``judge.judged.jsonl``, a line each: ``{"id", "choice", "judge", "time"}``, where the choice is
left, right, both, neither or unsure. Of several judgements of a pair by one judge the last counts; of several judges
the majority, and where there is none the pair is unsure.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import answer_to_json, describe, read_objects, write_jsonl
from bonafide.report.compare import Comparison
from bonafide.report.predicted import Predicted, shown_answer
from bonafide.report.statistics import Interval, wilson

CHOICES = ("left", "right", "both", "neither", "unsure")
PAIRS = 50
_FIELDS = ("id", "example", "question", "left", "right", "left_from", "right_from")


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of the sheet; its id is made of its example and its two solutions."""

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
class Verdict:
    """What was said of one method's solutions: right, of how many that were judged and not unsure."""

    method: str
    right: int
    of: int

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the share."""
        return wilson(self.right, self.of)


@dataclass(frozen=True, slots=True)
class Judgements:
    """A sheet with its judgements: one choice a pair. ``agreement``: pairs of which all judges said the same."""

    pairs: Sequence[Pair]
    choices: dict[str, str]
    judged_by_several: int
    agreement: int

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
            for side, text, method in (("left", pair.left, pair.left_from), ("right", pair.right, pair.right_from)):
                found.append(JudgedSolution(pair.example, text, method, choice in (side, "both")))
        return found


@dataclass(frozen=True, slots=True)
class JudgedSolution:
    """A solution, whose it is, and whether a person finds it right."""

    example: str
    text: str
    method: str
    right: bool


def sheet(comparison: Comparison, seed: int = 0, most: int = PAIRS) -> list[Pair]:
    """Examples on which the first and the last method give the same right answer by different solutions.

    Of the first seed that both have. Where there are more than ``most``, a uniform sample.
    """
    first, last = comparison.methods[0], comparison.methods[-1]
    shared = sorted(set(first.runs) & set(last.runs))
    one = first.predicted[shared[0] if shared else min(first.runs)]
    other = last.predicted[shared[0] if shared else min(last.runs)]
    chance = np.random.default_rng(seed)
    differ = [
        (a, b)
        for a, b in zip(one, other, strict=True)
        if a.right and b.right and a.solution != b.solution and _answer(a, comparison) == _answer(b, comparison)
    ]
    places = np.sort(chance.choice(len(differ), min(most, len(differ)), replace=False)).tolist()
    pairs = []
    for place in places:
        example, sides = differ[place][0].example, [(differ[place][0], first.name), (differ[place][1], last.name)]
        if chance.integers(2):
            sides.reverse()
        (left, left_from), (right, right_from) = sides
        said = json.dumps([example.id, *sorted((left.text, right.text))], ensure_ascii=False)
        pairs.append(
            Pair(
                hashlib.sha256(said.encode()).hexdigest()[:12],
                example.id,
                example.question,
                example.context,
                [answer_to_json(each) for each in example.answers],
                left.text,
                right.text,
                left_from,
                right_from,
            )
        )
    return pairs


def write_sheet(path: Path, pairs: Iterable[Pair]) -> None:
    """Write a sheet, whole or not at all."""
    write_jsonl(path, map(asdict, pairs))


def read_judgements(judged: Path, sheet: Path | None = None) -> Judgements:
    """The judgements of a file, with their sheet: ``judge.jsonl`` beside ``judge.judged.jsonl`` unless it is named."""
    if sheet is None:
        if ".judged" not in judged.name:
            raise BonafideError(f"The name of {judged} does not say which sheet it is of: name it with --sheet.")
        sheet = judged.with_name(judged.name.replace(".judged", "", 1))
    pairs = _read_sheet(sheet)
    known = {pair.id for pair in pairs}
    said: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for line, data in read_objects(judged):
        if not isinstance(data, dict):
            found = str(data) if isinstance(data, Exception) else describe(data)
            problems.append(Problem(line, "", "(line)", "one JSON object", found))
        elif data.get("id") not in known:
            problems.append(Problem(line, "", "id", f"a pair of {sheet.name}", describe(data.get("id"))))
        elif data.get("choice") not in CHOICES:
            problems.append(Problem(line, data["id"], "choice", ", ".join(CHOICES), describe(data.get("choice"))))
        else:
            said.setdefault(data["id"], {})[str(data.get("judge", ""))] = data["choice"]
    if problems:
        raise InvalidFileError(str(judged), problems)
    several = [set(by_judge.values()) for by_judge in said.values() if len(by_judge) > 1]
    choices = {name: _majority(list(by_judge.values())) for name, by_judge in said.items()}
    return Judgements(pairs, choices, len(several), sum(len(each) == 1 for each in several))


def _answer(predicted: Predicted, comparison: Comparison) -> str:
    return shown_answer(predicted.solution, comparison.asked, predicted.example).casefold()


def _majority(choices: list[str]) -> str:
    (most, count), *others = Counter(choices).most_common()
    return "unsure" if others and others[0][1] == count else most


def _read_sheet(path: Path) -> list[Pair]:
    pairs: list[Pair] = []
    problems: list[Problem] = []
    for line, data in read_objects(path):
        if not isinstance(data, dict):
            found = str(data) if isinstance(data, Exception) else describe(data)
            problems.append(Problem(line, "", "(line)", "one JSON object", found))
            continue
        wrong = [name for name in _FIELDS if not isinstance(data.get(name), str)]
        problems += [Problem(line, str(data.get("id", "")), name, "a text", describe(data.get(name))) for name in wrong]
        if not wrong:
            values = {name: data[name] for name in _FIELDS}
            pairs.append(Pair(**values, context=data.get("context"), answer=data.get("answer", [])))
    if problems:
        raise InvalidFileError(str(path), problems)
    return pairs
