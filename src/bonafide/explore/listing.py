"""Which examples, and which solutions of an example, a page lists, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.explore.index import Row
from bonafide.explore.lit import Pieces
from bonafide.explore.scoring import Scores
from bonafide.explore.workspace import Opened, Workspace

PAGE = 25
UNEXPLAINED = 50
"""Questions that the corner of the least explained ones holds."""
_TEXTS = 3_000
"""Solutions whose texts are looked through."""

SHOWN = {
    "all": ("all examples", ""),
    "none": ("no solution at all", "size = 0"),
    "one": ("one solution", "size = 1"),
    "many": ("several solutions", "size > 1"),
    "disagree": ("θ and φ disagree", "solver <> reconstructor"),
    "wrong": ("right answer, wrong solution", "wrong = 1"),
    "unexplained": ("least explained", "explained IS NOT NULL"),
}
SORTED = {
    "file": ("order of the file", "place"),
    "largest": ("largest set first", "size DESC, place"),
    "smallest": ("smallest set first", "size, place"),
    "explained": ("least explained first", "explained IS NULL, explained, place"),
}
SOLUTION_ORDERS = {
    "reconstructor": "φ, best first",
    "solver": "θ, best first",
    "simple": "in the order of the set",
}


@dataclass(frozen=True, slots=True)
class ListedExamples:
    """One page of examples."""

    rows: list[Row]
    count: int
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class ListedSolution:
    """One solution of a page, with its ranks from 1; None where it is not scored."""

    place: int
    pieces: Pieces
    solver: float | None
    solver_rank: int | None
    reconstructor: float | None
    reconstructor_rank: int | None
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedSolutions:
    """One page of solutions; ``searched`` is how many were looked through, where a text was looked for."""

    rows: list[ListedSolution]
    count: int
    page: int
    pages: int
    searched: int | None


def examples(workspace: Workspace, show: str, sort: str, find: str, low: int, high: int, page: int) -> ListedExamples:
    """A page of the examples of a kind whose question or id has this text and whose set has a size in between."""
    if show not in SHOWN or sort not in SORTED:
        raise BonafideError(f"Expected show of {', '.join(SHOWN)} and sort of {', '.join(SORTED)}.")
    clauses: list[str] = ["1"]
    values: list[str | int] = []
    if SHOWN[show][1]:
        clauses.append(SHOWN[show][1])
    if find:
        clauses.append("(question LIKE ? ESCAPE '\\' OR id LIKE ? ESCAPE '\\')")
        values += [f"%{_plain(find)}%"] * 2
    if low or high:
        clauses.append("size BETWEEN ? AND ?")
        values += [low, high]
    where = f"WHERE {' AND '.join(clauses)}"
    count = int(workspace.index.value(f"SELECT count(*) FROM examples {where}", values))
    if show == "unexplained":
        sort, count = "explained", min(count, UNEXPLAINED)
    pages = max(1, -(-count // PAGE))
    page = min(max(1, page), pages)
    left = min(PAGE, count - (page - 1) * PAGE)
    rows = workspace.index.rows(
        f"{where} ORDER BY {SORTED[sort][1]} LIMIT ? OFFSET ?", [*values, max(0, left), (page - 1) * PAGE]
    )
    return ListedExamples(rows, count, page, pages)


def solutions(
    workspace: Workspace, opened: Opened, scores: Scores | None, sort: str, find: str, page: int
) -> ListedSolutions:
    """A page of an example's solutions."""
    if sort not in SOLUTION_ORDERS:
        raise BonafideError(f"Expected sort of {', '.join(SOLUTION_ORDERS)}; found {sort[:40]!r}.")
    total = len(opened.solutions)
    theta = _ranking(None if scores is None else scores.solver)
    phi = _ranking(None if scores is None else scores.reconstructor)
    chosen = {"solver": theta, "reconstructor": phi, "simple": None}[sort]
    order: Any = range(total)
    if chosen is not None:
        order = np.concatenate([chosen.order, np.arange(len(chosen.order), total)])
    searched = None
    if find:
        searched = min(total, _TEXTS)
        wanted = find.lower()
        order = [int(place) for place in order[:searched]]
        texts = workspace.view.texts(opened.solutions, order, opened.example, opened.context)
        order = [place for place, text in zip(order, texts, strict=True) if wanted in text.lower()]
    count = len(order)
    pages = max(1, -(-count // PAGE))
    page = min(max(1, page), pages)
    gold = workspace.gold_places(opened)
    rows = [
        _listed(workspace, opened, int(place), scores, theta, phi, gold or ())
        for place in order[(page - 1) * PAGE : page * PAGE]
    ]
    return ListedSolutions(rows, count, page, pages, searched)


@dataclass(frozen=True, slots=True)
class _Ranking:
    order: npt.NDArray[np.int64]  # places, the best first; those without a score are last
    rank: npt.NDArray[np.int64]  # by place, from 1


def _ranking(scores: npt.NDArray[np.float64] | None) -> _Ranking | None:
    if scores is None or not len(scores):
        return None
    order = np.argsort(-scores, kind="stable")  # NaN sorts last
    rank = np.empty(len(scores), np.int64)
    rank[order] = np.arange(1, len(scores) + 1)
    return _Ranking(order, rank)


def _listed(
    workspace: Workspace,
    opened: Opened,
    place: int,
    scores: Scores | None,
    theta: _Ranking | None,
    phi: _Ranking | None,
    gold: Any,
) -> ListedSolution:
    solver = _at(None if scores is None else scores.solver, place)
    reconstructor = _at(None if scores is None else scores.reconstructor, place)
    example = opened.example
    marks = [*workspace.view.marks(opened.solutions, place, example)]
    if place in gold:
        marks.append("gold")
    if place == opened.row.trained:
        marks.append("trained on")
    return ListedSolution(
        place,
        workspace.view.pieces(workspace.text(opened, place), example),
        solver,
        int(theta.rank[place]) if theta is not None and solver is not None else None,
        reconstructor,
        int(phi.rank[place]) if phi is not None and reconstructor is not None else None,
        tuple(marks),
    )


def _at(scores: npt.NDArray[np.float64] | None, place: int) -> float | None:
    if scores is None or place >= len(scores) or np.isnan(scores[place]):
        return None
    return float(scores[place])


def _plain(text: str) -> str:
    """Text that LIKE takes as it stands."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
