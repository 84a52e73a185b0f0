"""The tables as data: rows, recipes, measures, bars. They stand in ``tables.toml``; here is their shape."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

from bonafide.errors import BonafideError
from bonafide.learn.recipe import Recipe, read_recipe

MEASURES = {
    "solution": "right solution",
    "answer": "right answer",
    "f1": "F1",
    "solution-several": "right solution, |Z| ≥ 2",
    "answer-several": "right answer, |Z| ≥ 2",
    "solution-guided": "right solution, guided",
    "answer-guided": "right answer, guided",
    "f1-guided": "F1, guided",
    "solution-headers": "right solution, official dev",
    "answer-plain": "right answer, no decoys",
    "selection": "gold selected by the solver",
    "selection-reconstructor": "gold selected by the reconstructor",
}
"""What can be measured, as a reader sees it. |Z| is the size of the dev question's solution set.

Guided: of the twenty likeliest, queries that return nothing left out, the best with the reconstructor's vote, where
there is one; on texts, without one, the likeliest. Mentions are not voted on.
Official dev: WikiSQL's own dev questions, of whose tables only the headers are read (``evaluate/headers.py``).
No decoys: questions of documents in which an answer stands in one place (``plain``, which ``demo reading`` writes)."""
BEST_BASELINE = "best baseline"
SECONDS = "seconds"
_BART = "BART"


@dataclass(frozen=True, slots=True)
class Row:
    """A method: a recipe with settings, how many seeds are wanted, and what the paper has (in per cent)."""

    name: str
    label: str
    recipe: str
    seeds: int
    set: tuple[str, ...] = ()
    role: str = "ours"
    paper: tuple[tuple[str, float], ...] = ()
    paper_curve: tuple[tuple[float, float], ...] = ()

    def settings(self, common: Sequence[str], more: Sequence[str], bart: str) -> Recipe:
        """Its recipe: the table's settings, then its own, then those of the command line."""
        own = [each.removesuffix(_BART) + bart if each.endswith(f"={_BART}") else each for each in self.set]
        return read_recipe(self.recipe, [*common, *own, *more])

    def needs_bart(self, common: Sequence[str], more: Sequence[str]) -> bool:
        """Whether it trains with the BART that is to be named; the command line may put something else in its place."""
        recipe = self.settings(common, more, _BART)
        return _BART in (recipe.reconstructor.path, recipe.solver.encoder)


@dataclass(frozen=True, slots=True)
class Check:
    """A bar; see the head of ``tables.toml``."""

    row: str
    measure: str = SECONDS
    mean: float = 0.0
    worst: float | None = None
    over: str = ""
    against: str = ""
    p: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or one beside it."""

    name: str
    title: str
    paper: str
    data: str
    folder: str  # of its data, where that of several tables stands in one place
    measures: tuple[str, ...]
    common: tuple[str, ...]
    rows: tuple[Row, ...]
    checks: tuple[Check, ...] = ()
    curve: bool = False  # the selection task at each evaluation of a run
    note: str = ""  # what a reader of its figures must know

    def row(self, name: str) -> Row:
        """The row of this name."""
        for row in self.rows:
            if row.name == name:
                return row
        known = ", ".join(row.name for row in self.rows)
        raise BonafideError(f"The table {self.name} has no row {name!r}: expected one of {known}.")


def tables() -> dict[str, Table]:
    """Every table by name."""
    return {name: _table(name, content) for name, content in _content().items() if isinstance(content, dict)}


def table(name: str) -> Table:
    """The table of this name."""
    known = tables()
    if name not in known:
        raise BonafideError(f"There is no table {name!r}: expected one of {', '.join(known)}.")
    return known[name]


def elsewhere() -> list[tuple[str, str]]:
    """What of the paper other commands make: what, and by which."""
    return [(each["paper"], each["by"]) for each in _content()["elsewhere"]]


def _content() -> dict[str, Any]:
    return tomllib.loads((resources.files("bonafide") / "reproduce" / "tables.toml").read_text("utf-8"))


def _table(name: str, content: dict[str, Any]) -> Table:
    rows = tuple(_made(Row, {**row, "paper": tuple(row.get("paper", {}).items())}) for row in content["rows"])
    checks = tuple(_made(Check, check) for check in content.get("checks", ()))
    made: Table = _made(Table, {**content, "name": name, "rows": rows, "checks": checks})
    named = {row.name for row in made.rows} | {"", BEST_BASELINE}
    assert all({check.row, check.over, check.against} <= named for check in checks), f"{name}: a check of no row"
    assert {*made.measures, *(check.measure for check in checks)} <= {*MEASURES, SECONDS}, f"{name}: unknown measures"
    assert all((check.measure == SECONDS) == (check.seconds is not None) for check in checks), f"{name}: no bar"
    return made


def _made(kind: type, content: dict[str, Any]) -> Any:
    unknown = set(content) - {each.name for each in fields(kind)}
    assert not unknown, f"tables.toml: {kind.__name__} has no {unknown}"
    return kind(**{key: _frozen(value) for key, value in content.items()})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
