"""A blind sheet for people: pairs of solutions with the same right answer, of two methods that were compared.

Left and right are in random order, by a seed; who shows the sheet keeps ``left_from`` and ``right_from`` to itself.
What a sheet and the judgements of it look like, and how they are read, is in :mod:`bonafide.report.sheets`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bonafide.examples import answer_to_json, write_jsonl
from bonafide.report.compare import Comparison
from bonafide.report.predicted import Predicted, shown_answer
from bonafide.report.sheets import JudgedSolution, Judgements, Pair, Verdict, read_judgements
from bonafide.sealed import vouched

PAIRS = 50

__all__ = ["PAIRS", "JudgedSolution", "Judgements", "Pair", "Verdict", "read_judgements", "sheet", "write_sheet"]


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
        said = json.dumps([example.id, left.text, right.text], ensure_ascii=False)  # sides too: "left" is said of them
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
    with vouched(path):
        write_jsonl(path, map(asdict, pairs))


def _answer(predicted: Predicted, comparison: Comparison) -> str:
    return shown_answer(predicted.solution, comparison.asked, predicted.example).casefold()
