"""What a judge is shown of a pair: both solutions, what they return and touch, and where they would differ."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.explore.distinguish import Distinction, distinguish
from bonafide.explore.index import NO_TURN
from bonafide.explore.judge import MOST_PAIRS, Sheet, make_sheet, shown_answer
from bonafide.explore.lit import LitContext, Pieces
from bonafide.explore.scoring import Scorer
from bonafide.explore.views import cell_text
from bonafide.explore.workspace import Workspace
from bonafide.report.sheets import Pair
from bonafide.tasks.sql.query import Query


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: its text, what it returns, the context as it lights it; only the text where it cannot be read."""

    pieces: Pieces
    returns: str | None
    lit: LitContext | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A pair as a page shows it."""

    pair: Pair
    answer: str
    left: Side
    right: Side
    compared: bool  # whether a distinguishing table was looked for
    distinction: Distinction | None
    cells: tuple[tuple[str, ...], ...] = ()  # of the distinction's rows
    results: tuple[str, ...] = ()  # what each returns on it


class Bench:
    """Finds what belongs to a pair."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def shown(self, pair: Pair) -> Shown:
        """A pair with its context, where the explorer has the example."""
        place = self._workspace.index.value("SELECT place FROM examples WHERE id = ?", [pair.example])
        answer = shown_answer(pair.answer)
        if place is None:
            left, right = (Side(((text, ""),), None, None) for text in (pair.left, pair.right))
            return Shown(pair, answer, left, right, False, None)
        opened = self._workspace.open(place)
        left, left_solution = self._side(pair.left, opened)
        right, right_solution = self._side(pair.right, opened)
        if pair.left == pair.right or not isinstance(left_solution, Query) or not isinstance(right_solution, Query):
            return Shown(pair, answer, left, right, False, None)
        found = distinguish(left_solution, right_solution, opened.context)
        if found is None:
            return Shown(pair, answer, left, right, True, None)
        cells = tuple(tuple(map(cell_text, found.table.rows[row])) for row in found.shown)
        results = tuple(", ".join(map(cell_text, each[:20])) or "nothing" for each in (found.left, found.right))
        return Shown(pair, answer, left, right, True, found, cells, results)

    def _side(self, text: str, opened: Any) -> tuple[Side, Any]:
        view = self._workspace.view
        try:
            solution = view.parse(text, opened.example, opened.context)
        except BonafideError:
            return Side(((text, ""),), None, None), None
        returns = view.returns(solution, opened.example, opened.context)
        lit = view.lit(solution, None, opened.example, opened.context)
        return Side(view.pieces(text, opened.example), returns, lit), solution


class SheetInUse:
    """The sheet that is judged: the one that was given, or the run's own, made when scores to come could not change it.

    Examples are scored in random order, but for those that somebody looks at. So the sheet is complete when those
    before the first that is not scored fill it, or when all are scored.
    """

    def __init__(self, workspace: Workspace, scorer: Scorer, judge: str, given: Path | None = None) -> None:
        self._workspace, self._scorer, self._judge = workspace, scorer, judge
        self._held = None if given is None else Sheet(given, judge)
        self._lock = threading.Lock()  # two that come first make one sheet

    def open(self) -> Sheet | None:
        """The sheet; None while it cannot be made, or where there is nothing to judge."""
        with self._lock:
            if self._held is None:
                self._held = open_sheet(self._workspace, self._judge, self._before())
            return self._held

    @property
    def waits(self) -> bool:
        """Whether what is still to be scored could come into the sheet."""
        before = self._before()
        return before is not None and self._found(before) < MOST_PAIRS

    @property
    def progress(self) -> str:
        """How far the sheet is, for who waits for it."""
        index, before = self._workspace.index, self._before()
        found = min(MOST_PAIRS, self._found(NO_TURN if before is None else before))
        scored = index.count - int(index.value("SELECT count(*) FROM examples WHERE scored = 0"))
        return f"{found} of {MOST_PAIRS} pairs found, {scored:,} of {index.count:,} examples scored."

    def _before(self) -> int | None:
        """The turn of the first example whose scores are still to come; None where no scores of two models are."""
        if self._scorer.state == "none" or (self._scorer.state == "ready" and not self._scorer.has_reconstructor):
            return None  # without a model training alone has chosen; without a reconstructor there are no two to differ
        first = self._workspace.index.value("SELECT min(turn) FROM examples WHERE scored = 0")
        return None if first is None else int(first)

    def _found(self, before: int) -> int:
        differing = "SELECT count(*) FROM examples WHERE solver <> reconstructor AND turn < ?"
        return int(self._workspace.index.value(differing, [before]))


def open_sheet(workspace: Workspace, judge: str, before: int | None = None) -> Sheet | None:
    """The run's own sheet, made from the examples on which θ and φ disagree; None while it is not complete.

    ``before`` is the turn of the first example whose scores are still to come. A sheet that was made before is opened.
    """
    path = workspace.cache / "judge.jsonl"
    if not path.exists() and not make_sheet(workspace, path, before):
        return None
    return Sheet(path, judge)
