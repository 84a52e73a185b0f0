"""What a judge is shown of a pair: both solutions, what they return and touch, and where they would differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bonafide.errors import BonafideError
from bonafide.explore.distinguish import Distinction, distinguish
from bonafide.explore.judge import Sheet, make_sheet, shown_answer
from bonafide.explore.lit import LitContext, Pieces
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


def open_sheet(workspace: Workspace, judge: str) -> Sheet | None:
    """The run's own sheet, made from the examples on which θ and φ disagree; None while there are none."""
    path = workspace.cache / "judge.jsonl"
    if not path.exists() and not make_sheet(workspace, path):
        return None
    return Sheet(path, judge)
