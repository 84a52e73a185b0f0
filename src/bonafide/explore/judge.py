"""People judge pairs of solutions without knowing whose they are.

A sheet is what ``bonafide compare --sheet`` writes, or is made here of a run (``report/sheets.py`` has both files).
Judgements are appended to the file of the same name that ends in ``.judged.jsonl``, and are on the disk before the next
pair is shown.
"""

from __future__ import annotations

import errno
import json
import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import example_to_json, write_jsonl
from bonafide.explore.index import NO_TURN
from bonafide.explore.workspace import Workspace
from bonafide.files import explained
from bonafide.report.sheets import CHOICES, Judgements, Pair, Said, counted, judged_beside, read_said, read_sheet
from bonafide.sealed import vouch_for, vouched

MOST_PAIRS = 200


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
        self.judged = judged_beside(path)
        self.pairs = read_sheet(path)
        self._lock = threading.Lock()
        self._said: Said = {}
        if self.judged.exists():
            self._said = read_said(self.judged, {pair.id for pair in self.pairs}, path.name)

    def choice(self, pair: Pair) -> str | None:
        """What this judge said of a pair."""
        return self._said.get(pair.id, {}).get(self.judge)

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
                if os.write(handle, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # cut short: it is not acknowledged
                os.fsync(handle)
            finally:
                os.close(handle)
            vouch_for(self.judged, line.lstrip())
            self._said.setdefault(pair.id, {})[self.judge] = choice

    def accuracies(self) -> list[Share]:
        """By method: how often its solution was judged right; pairs that are unsure do not count."""
        return [_share(each.method, each.right, each.of) for each in self._counted().verdicts]

    def agreement(self) -> Share | None:
        """Pairs of which all judges said the same, of those with several judges; None where there are none."""
        found = self._counted()
        return _share("judges", found.agreement, found.judged_by_several) if found.judged_by_several else None

    @property
    def singly(self) -> bool:
        """Whether each line is one solution, and no pair of two."""
        return self._counted().singly

    def _counted(self) -> Judgements:
        return counted(self.pairs, self._said)


def make_sheet(workspace: Workspace, path: Path, before: int | None = None, seed: int = 0) -> int:
    """Write a sheet of the first examples, in random order, on which solver and reconstructor disagree.

    ``before`` is the turn of the first example whose scores are still to come, where there is one: then all pairs must
    come before it, or none is written. Returns how many there are.
    """
    where = "WHERE solver <> reconstructor AND turn < ? ORDER BY turn, place LIMIT ?"
    rows = workspace.index.rows(where, [NO_TURN if before is None else before, MOST_PAIRS])
    if before is not None and len(rows) < MOST_PAIRS:
        return 0
    chance = random.Random(seed)  # noqa: S311 (which stands left, not a secret)
    lines = []
    for row in rows:
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
        with vouched(path):
            write_jsonl(path, lines)
    return len(lines)


def _share(name: str, right: int, of: int) -> Share:
    from bonafide.report.statistics import wilson  # imports scipy, which is not needed before

    interval = wilson(right, of)
    return Share(name, right, of, interval.low, interval.high)


def shown_answer(answer: Sequence[Any]) -> str:
    """The answer of a sheet as a person reads it."""
    return ", ".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in answer)
