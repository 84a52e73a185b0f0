"""Methods compared: the runs that learned from the same examples, how far each came, and their curves together.

Which runs: those named beside the one that is looked at, and the runs in the folders beside it that were trained on the
same examples. What is counted, in a thread of its own while the pages are there already:

- dev answers right: of the best checkpoint, as training found it;
- answers and solutions right: of ``predictions.jsonl`` of each run, where it is of the examples that are looked at;
- gold chosen in training: how often what last trained the solver was gold, where ``--gold`` says what that is. Of more
  than 2,000 examples with gold, 2,000 at even distances are counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.explore.charts import Chart, compared_curves
from bonafide.explore.chosen import gold_chosen
from bonafide.explore.workspace import Workspace, kept_by, logged, recipe_of, store_of
from bonafide.files import parse_json
from bonafide.sealed import read_sealed
from bonafide.solutions import read_manifest

LOG = logging.getLogger("bonafide.web")
_MOST_BESIDE = 7
_MOST_GOLD = 2_000


@dataclass(frozen=True, slots=True)
class Counted:
    """``right`` of ``of``."""

    right: int
    of: int

    @property
    def text(self) -> str:
        """As a share."""
        return f"{self.right / self.of:.1%}" if self.of else "–"


@dataclass
class Method:
    """A run: what it is called, its recipe, its store's manifest, and its figures as far as they are known."""

    run: Path
    name: str
    recipe: dict[str, Any]
    manifest: dict[str, Any]
    metrics: Sequence[Mapping[str, Any]]
    dev: float | None
    here: bool = False
    answers: Counted | None = None
    solutions: Counted | None = None
    chosen: Sequence[tuple[float, int, int]] = field(default_factory=list)

    @property
    def trained(self) -> Counted | None:
        """Gold chosen in training, at the end."""
        return Counted(*self.chosen[-1][1:]) if self.chosen and self.chosen[-1][2] else None


class Methods:
    """The runs to compare, the one that is looked at first; ``counting`` is True until all figures are there."""

    def __init__(self, workspace: Workspace, named: Sequence[Path] = ()) -> None:
        self._workspace = workspace
        self.rows = _found(workspace, named) if workspace.is_run else []
        if named and not workspace.is_run:
            raise BonafideError(f"{workspace.folder} is a solution store: other runs can be compared with a run only.")
        self.counting = len(self.rows) > 1
        self._stop = False
        self._thread = threading.Thread(target=self._count, name="methods", daemon=True)

    def start(self) -> None:
        """Begin to count."""
        if self.counting:
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop = True
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def known(self) -> set[str]:
        """Which figures at least one of them has."""
        return {name for name in ("answers", "solutions", "trained") if any(getattr(each, name) for each in self.rows)}

    @property
    def charts(self) -> list[Chart]:
        """Curves of all of them together."""
        chosen = {each.name: [(epoch, right / of) for epoch, right, of in each.chosen if of] for each in self.rows}
        return compared_curves({each.name: each.metrics for each in self.rows}, chosen) if len(self.rows) > 1 else []

    def _count(self) -> None:
        try:
            if self._workspace.has_gold:
                self._count_chosen()
            self._count_predicted()
        except Exception as error:  # the pages are shown without these figures
            if not self._stop:
                LOG.warning("Methods cannot be compared: %s", error)
        finally:
            self.counting = False

    def _count_chosen(self) -> None:
        workspace = self._workspace
        own = workspace.store.manifest
        alike = [each for each in self.rows if _same_sets(each.manifest, own) and _selections(each) is not None]
        if not alike:
            return
        gold = self._gold_places()
        sets = workspace.index.query("SELECT id, size, stored FROM examples ORDER BY place")
        for each in alike:
            path = _selections(each)
            if self._stop or path is None:
                return
            try:
                each.chosen = gold_chosen(path, sets, kept_by(each.run, each.recipe), gold)
            except (BonafideError, KeyError, ValueError) as error:
                LOG.warning("%s cannot be counted: %s", path, error)

    def _gold_places(self) -> dict[int, list[int]]:
        """Of some examples at even distances, where gold stands in their sets."""
        listed = [
            place for (place,) in self._workspace.index.query("SELECT place FROM examples WHERE gold IS NOT NULL")
        ]
        step = -(-len(listed) // _MOST_GOLD) or 1
        found: dict[int, list[int]] = {}
        for place in listed[::step]:
            if self._stop:
                break
            found[place] = self._workspace.gold_places(self._workspace.open(place)) or []
        return found

    def _count_predicted(self) -> None:
        judged = [each for each in self.rows if self._is_predicted(each.run / "predictions.jsonl")]
        if not judged:
            return
        from bonafide.examples import read_gold
        from bonafide.report.predicted import asked_of_store, read_predicted

        workspace = self._workspace
        gold = read_gold(workspace.gold) if workspace.gold is not None else None
        asked = asked_of_store(workspace.store.folder, workspace.examples)
        for each in judged:
            if self._stop:
                return
            try:
                found = read_predicted(each.run / "predictions.jsonl", asked, gold).values()
            except BonafideError as error:
                LOG.warning("%s", error)
                continue
            each.answers = Counted(sum(one.right for one in found), len(found))
            known = [one.genuine for one in found if one.genuine is not None]
            each.solutions = Counted(sum(known), len(known)) if known else None

    def _is_predicted(self, path: Path) -> bool:
        """Whether the first prediction of a file is of one of the examples."""
        if not path.exists():
            return False
        with path.open("rb") as stream:
            line = stream.readline()
        try:
            data = parse_json(line)
        except ValueError:
            return False
        name = data.get("example", data.get("id")) if isinstance(data, dict) else None
        return self._workspace.index.value("SELECT 1 FROM examples WHERE id = ?", [str(name)]) is not None


def _found(workspace: Workspace, named: Sequence[Path]) -> list[Method]:
    own = _method(workspace.folder)
    own.here = True
    rows = [own]
    for run in named:
        if run.resolve() == workspace.folder.resolve():
            continue
        other = _method(run)
        if not _same_examples(other.manifest, own.manifest):
            raise BonafideError(
                f"{run} was trained on other examples than {workspace.folder}: expected runs on the same examples to "
                "compare. Explore it alone."
            )
        rows.append(other)
    if not named:
        rows += _beside(workspace.folder, own)
    _name_apart(rows)
    return rows


def _beside(folder: Path, own: Method) -> list[Method]:
    """Finished runs on the same examples in the folders beside this one."""
    found: list[Method] = []
    for each in sorted(folder.resolve().parent.glob("*/result.json")):
        if len(found) >= _MOST_BESIDE or each.parent == folder.resolve():
            continue
        try:
            other = _method(each.parent)
        except (BonafideError, OSError, KeyError, ValueError, TypeError):
            continue  # of another version, or its store is gone
        if _same_examples(other.manifest, own.manifest):
            found.append(other)
    return found


def _method(run: Path) -> Method:
    recipe = recipe_of(run)
    if recipe is None:
        raise BonafideError(f"{run} is a solution store, not a run: expected folders that bonafide train wrote.")
    manifest = read_manifest(store_of(run, recipe))
    result = read_sealed(run / "result.json") if (run / "result.json").exists() else {}
    dev = result.get("best", {}).get("dev_execution")
    name = str(recipe["objective"]["method"])
    return Method(run, name, recipe, manifest, logged(run), dev if isinstance(dev, float) else None)


def _name_apart(rows: Sequence[Method]) -> None:
    """Methods that are there several times are called by their folders too, or by the whole of their paths."""
    for called in (lambda run: run.name, str):
        names = [each.name for each in rows]
        for each in rows:
            if names.count(each.name) > 1:
                each.name = f"{each.recipe['objective']['method']} ({called(each.run.resolve())})"


def _same_examples(one: dict[str, Any], other: dict[str, Any]) -> bool:
    first, second = ([each["sha256"] for each in manifest["inputs"]["examples"]] for manifest in (one, other))
    return bool(one["task"] == other["task"] and first == second)


def _same_sets(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """A search gives the same sets for the same examples and options."""
    return _same_examples(one, other) and bool(one["options"] == other["options"])


def _selections(method: Method) -> Path | None:
    path = method.run / "selections.jsonl"
    return path if path.exists() and method.recipe["objective"]["method"] != "supervised" else None
