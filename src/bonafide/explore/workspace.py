"""What the explorer looks at: a run with its solution store and its examples, or a store alone."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bonafide.documents import InlineDocuments
from bonafide.errors import BonafideError
from bonafide.examples import Example, example_from_json
from bonafide.explore.chosen import Kept
from bonafide.explore.index import Index, PlacedStore, Progress, Row, Sources, open_index
from bonafide.explore.views import View, view_of
from bonafide.files import content_hash, open_seekable, parse_json
from bonafide.learn.kept import KEPT
from bonafide.sealed import read_log, read_sealed
from bonafide.solutions import MANIFEST, read_manifest
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.sql.sources import TableSource, source_of_store

_KEPT_CONTEXTS = 8


@dataclass(frozen=True, slots=True)
class Opened:
    """An example with all that belongs to it."""

    row: Row
    example: Example
    context: Any
    solutions: Any
    gold: dict[str, Any] | None


class Workspace:
    """A run (or a store alone) that can be asked for any of its examples."""

    def __init__(
        self,
        folder: Path,
        *,
        solutions: Path | None = None,
        examples: Path | None = None,
        contexts: Sequence[Path] = (),
        gold: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        """``contexts``: tables or documents that are no longer where they were searched, all of their files."""
        self.folder = folder
        self.recipe = recipe_of(folder)
        self.is_run = self.recipe is not None
        store = solutions or store_of(folder, self.recipe)
        manifest = read_manifest(store)
        self.view: View = view_of(manifest["task"], manifest["options"], (self.recipe or {}).get("language", {}))
        self.store: PlacedStore[Any] = PlacedStore(store, self.view.codec, self.view.each)
        self.task = str(manifest["task"])
        self.method = str(self.recipe["objective"]["method"]) if self.recipe is not None else None
        self._hold: tempfile.TemporaryDirectory[str] | None = None
        self._inputs = manifest["inputs"]
        self.examples = examples or store / self._inputs["examples"][0]["path"]
        if not self.examples.exists():
            raise BonafideError(
                f"The examples of this store are no longer at {self.examples}. Say where they are with --examples."
            )
        self._tables: TableSource | None = None
        path = self._context_file(contexts)
        own = self.recipe is not None and self.method != "supervised" and solutions is None
        chosen, model = folder / "selections.jsonl", folder / "model/model.json"
        sources = Sources(
            store,
            self.examples,
            path,
            chosen if own and chosen.exists() else None,
            gold,
            kept_by(folder, self.recipe) if own and self.recipe is not None else None,
            model if model.exists() else None,
        )
        self.cache = self._cache(solutions)
        self.index: Index = open_index(sources, self.cache, self.store, progress)
        self.gold, self.has_gold = gold, gold is not None
        self._examples: BinaryIO = open_seekable(self.examples)
        self._context_lines = open_seekable(path) if path is not None else None
        self._contexts: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close its files."""
        self.index.close()
        self._examples.close()
        if self._context_lines is not None:
            self._context_lines.close()
        if self._hold is not None:
            self._hold.cleanup()

    def open(self, place: int) -> Opened:
        """The example at this place."""
        row = self.index.row(place)
        example = example_from_json(parse_json(self._line(row)))
        gold = json.loads(row.gold) if row.gold is not None else None
        solutions = self.store.at(row.shard, row.part, row.line)
        return Opened(row, example, self.context_of(example), solutions, gold)

    def context_of(self, example: Example) -> Any:
        """An example's table, passage, document or text; the last few are kept."""
        name = example.context or ""
        with self._lock:
            if name in self._contexts:
                self._contexts.move_to_end(name)
                return self._contexts[name]
        found = self._read_context(example, name)
        with self._lock:
            self._contexts[name] = found
            while len(self._contexts) > _KEPT_CONTEXTS:
                self._contexts.popitem(last=False)
        return found

    @property
    def contexts(self) -> int:
        """How many contexts have names."""
        if self._tables is not None:
            return len(self._tables.tables)
        return int(self.index.value("SELECT count(*) FROM contexts"))

    def context_names(self) -> list[str]:
        """Their names, in order."""
        if self._tables is not None:
            return list(self._tables.tables)
        return [name for (name,) in self.index.query("SELECT name FROM contexts")]

    def has_context(self, name: str) -> bool:
        """Whether there is a context of this name."""
        if self._tables is not None:
            return name in self._tables.tables
        return self.index.value("SELECT 1 FROM contexts WHERE name = ?", [name]) is not None

    def context_named(self, name: str) -> Any:
        """The context of this name."""
        return self.context_of(Example("", "", name, ()))

    def gold_places(self, opened: Opened) -> list[int] | None:
        """Where gold stands in the set; None where there is no gold."""
        if opened.gold is None:
            return None
        return self.view.gold_places(opened.gold, opened.solutions, opened.example, opened.context)

    def text(self, opened: Opened, place: int) -> str:
        """A solution of the set as a person reads it."""
        return self.view.text(opened.solutions[place], opened.example, opened.context)

    def _line(self, row: Row) -> bytes:
        return os.pread(self._examples.fileno(), row.length, row.start).removeprefix(b"\xef\xbb\xbf")

    def _read_context(self, example: Example, name: str) -> Any:
        if self._tables is not None:
            return self._tables.table_of(example)
        if self.task == "text":
            return name
        if self._context_lines is None:
            document = InlineDocuments()[name]
            return Passage(document.text) if self.task == "discrete" else document
        found = self.index.query("SELECT start, length FROM contexts WHERE name = ?", [name])
        if not found:
            raise BonafideError(f"Example {example.id!r} names a context that is not there: {name[:80]!r}.")
        start, length = found[0]
        return self.view.read(os.pread(self._context_lines.fileno(), length, start))

    def _context_file(self, given: Sequence[Path]) -> Path | None:
        """The file of contexts to index; None where they stand in the examples, or in the user's own tables."""
        recorded: Sequence[dict[str, str]] = self._inputs.get(self.view.contexts, ())
        if self.view.contexts == "tables" and not self._inputs["jsonl"]:
            self._tables = source_of_store(self.store.folder, self._inputs, None, given)
            return None
        if not recorded:
            return None
        if len(given) > 1:
            raise BonafideError(
                f"This store was searched over one file of {self.view.contexts}; {len(given)} were given."
            )
        path = given[0] if given else self.store.folder / recorded[0]["path"]
        if not path.exists():
            raise BonafideError(
                f"The {self.view.contexts} of this store are no longer at {path}. Say where they are with "
                f"--{self.view.contexts}."
            )
        return path

    def _cache(self, solutions: Path | None) -> Path:
        """``explore/`` in the run, with a folder for each other store that it is looked at with.

        Where the run cannot be written, or there is none: a folder that goes at the end.
        """
        folder = self.folder / "explore"
        if self.is_run and os.access(self.folder, os.W_OK):
            return folder if solutions is None else folder / f"store-{content_hash(solutions / MANIFEST)[:16]}"
        self._hold = tempfile.TemporaryDirectory(prefix="bonafide-explore-")
        return Path(self._hold.name)


def logged(run: Path) -> list[dict[str, Any]]:
    """What a run logged; lines that were cut short are left out."""
    path = run / "metrics.jsonl"
    return read_log(path) if path.exists() else []


def kept_by(run: Path, recipe: dict[str, Any]) -> Kept:
    """Which solutions of its store a run trains on, as far as its folder says."""
    written, data = run / KEPT, recipe["data"]
    sampled = not data.get("likeliest") and not data.get("simplest")
    path = written if written.exists() else None
    return Kept(path, data["largest"], data["max_solutions"], recipe["train"]["seed"], sampled)


def search_for(
    run: Path, examples: Path, progress: Callable[[int, int], None] | None = None, started: Any = None
) -> Path | None:
    """A store of these examples, searched as the run's own was; None where they are the run's own."""
    from dataclasses import asdict, replace

    from bonafide.examples import open_examples
    from bonafide.learn.learnable import learnable
    from bonafide.learn.recipe import recipe_from

    saved = recipe_of(run)
    if saved is None:
        return None
    manifest = read_manifest(store_of(run, saved))
    digest = content_hash(examples)
    if digest == manifest["inputs"]["examples"][0]["sha256"]:
        return None
    recipe = recipe_from({key: value for key, value in saved.items() if key != "tool"}, str(run))
    asked = manifest["options"].get("language") or manifest["options"].get("matching") or {}
    known = {key: asked[key] for key in asdict(recipe.language) if key in asked}
    recipe = replace(recipe, language=replace(recipe.language, **known))
    out = run / "explore" / f"solutions-{digest[:16]}"
    learnable(manifest["task"]).search(recipe, open_examples(examples), out, progress, started)
    return out


def recipe_of(folder: Path) -> dict[str, Any] | None:
    """The recipe of a run; None of a store alone."""
    if (folder / MANIFEST).exists():
        return None
    if not (folder / "recipe.json").exists():
        raise BonafideError(f"{folder} is no run and no solution store: it has neither recipe.json nor {MANIFEST}.")
    return read_sealed(folder / "recipe.json")


def store_of(folder: Path, recipe: dict[str, Any] | None) -> Path:
    """Where the solution sets of a run are."""
    if recipe is None:
        return folder
    named = recipe["data"].get("solutions")
    store = Path(named) if named else folder / "solutions"
    if not store.exists():
        raise BonafideError(
            f"The solution store of this run is no longer at {store}. Say where it is with --solutions."
        )
    return store
