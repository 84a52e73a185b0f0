"""Blind sheets for people, of two methods that were compared, and what their judgements say of these.

A sheet of pairs holds different solutions with the same right answer: whose is right, where the answers do not tell. A
sheet of right answers holds a random sample of each method's, one solution a line: how often a right answer has a right
solution, where there is no gold. Its lines are pairs of a solution with itself, so that whoever shows pairs shows them.

Left and right are in random order, by a seed; who shows a sheet keeps ``left_from`` and ``right_from`` to itself.
What a sheet and the judgements of it look like, and how they are read, is in :mod:`bonafide.report.sheets`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bonafide.errors import BonafideError
from bonafide.examples import answer_to_json, read_objects, write_jsonl
from bonafide.report.compare import Comparison
from bonafide.report.predicted import Predicted, same_answer
from bonafide.report.sheets import (
    JudgedSolution,
    Judgements,
    Pair,
    Verdict,
    judged_beside,
    read_judgements,
    read_sheet,
)
from bonafide.report.statistics import Flips, flips
from bonafide.sealed import vouched

PAIRS = 50

__all__ = [
    "PAIRS",
    "JudgedSolution",
    "Judgements",
    "Pair",
    "Verdict",
    "check_sheet",
    "judged_flips",
    "read_judgements",
    "right_answers",
    "sheet",
    "write_sheet",
]


def sheet(comparison: Comparison, seed: int = 0, most: int = PAIRS) -> list[Pair]:
    """Examples on which the first and the last method give the same right answer by different solutions.

    Of the first seed that both have. Where there are more than ``most``, a uniform sample.
    """
    (first, one), (last, other) = _shown(comparison)
    chance = np.random.default_rng(seed)
    differ = [
        (a, b)
        for a, b in zip(one, other, strict=True)
        if a.right
        and b.right
        and a.solution != b.solution
        and same_answer(a.solution, b.solution, comparison.asked, a.example)
    ]
    places = np.sort(chance.choice(len(differ), min(most, len(differ)), replace=False)).tolist()
    pairs = []
    for place in places:
        sides = [(differ[place][0], first), (differ[place][1], last)]
        if chance.integers(2):
            sides.reverse()
        pairs.append(_pair(*sides[0], *sides[1]))
    return pairs


def right_answers(comparison: Comparison, seed: int = 0, most: int = PAIRS) -> list[Pair]:
    """Right answers of the first method and of the last, a uniform sample of at most ``most`` of each.

    Of the first seed that both have. A solution that is drawn for both is one line, which counts for both.
    """
    chance = np.random.default_rng(seed)
    pairs: dict[tuple[int, str], Pair] = {}
    for method, predicted in _shown(comparison):
        right = [place for place, each in enumerate(predicted) if each.right]
        for place in chance.choice(right, min(most, len(right)), replace=False).tolist():
            each = predicted[place]
            made = _pair(each, method, each, method)
            drawn = pairs.setdefault((place, each.text), made)
            pairs[place, each.text] = replace(drawn, right_from=method)
    return [pairs[key] for key in sorted(pairs)]


def check_sheet(path: Path) -> None:
    """Refuse a name that no sheet can have, and to write over something else than a sheet."""
    judged_beside(path)
    if not path.exists():
        return
    try:
        read_sheet(path)
    except BonafideError:
        raise BonafideError(f"{path} exists and is no sheet. Name another file for the sheet.") from None


def write_sheet(path: Path, pairs: Sequence[Pair]) -> None:
    """Write a sheet, whole or not at all; of no pairs none is written, nor one that its judgements are not of."""
    check_sheet(path)
    if not pairs:
        return
    judged = judged_beside(path)
    if judged.exists():
        kept = {pair.id for pair in pairs}
        said = {str(data.get("id")) for _, data in read_objects(judged) if isinstance(data, dict)}
        if lost := said - kept:
            raise BonafideError(
                f"{judged} holds judgements of {len(lost):,} pairs that this sheet would not have. Name another file "
                "for the sheet, or move the judgements away with the sheet that they are of."
            )
    with vouched(path):
        write_jsonl(path, map(asdict, pairs))


def judged_flips(judgements: Judgements, first: str, second: str) -> Flips | None:
    """McNemar's test over pairs of two methods: whose solution is right; None where no pair was judged."""
    right = [
        {pair.left_from: choice in ("left", "both"), pair.right_from: choice in ("right", "both")}
        for pair in judgements.pairs
        if {pair.left_from, pair.right_from} == {first, second}
        and pair.left != pair.right
        and (choice := judgements.choices.get(pair.id, "unsure")) != "unsure"
    ]
    return flips([each[first] for each in right], [each[second] for each in right]) if right else None


def _shown(comparison: Comparison) -> list[tuple[str, Sequence[Predicted]]]:
    """The first method and the last, each with the predictions of the first seed that both have."""
    methods = [comparison.methods[0], comparison.methods[-1]]
    shared = sorted(set(methods[0].runs) & set(methods[1].runs))
    return [(each.name, each.predicted[shared[0] if shared else min(each.runs)]) for each in methods]


def _pair(left: Predicted, left_from: str, right: Predicted, right_from: str) -> Pair:
    example = left.example
    said = json.dumps([example.id, left.text, right.text], ensure_ascii=False)  # sides too: "left" is said of them
    return Pair(
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
