"""What a training run reads: examples with their solution sets, and the dev examples that steer it.

Gold is read in one place only, for the supervised upper bound, where it takes the place of the solution sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.examples import Example, ExampleFile, open_examples, read_gold
from bonafide.learn import draws
from bonafide.learn.recipe import Recipe
from bonafide.search.run import Progress
from bonafide.search.sql import search_sql
from bonafide.solutions import SolutionStore
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import Query, parse_query
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.sources import TableSource, open_tables
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.task import QueryCodec

Started = Callable[[TableSource, int], None]


@dataclass(frozen=True, slots=True)
class Item:
    """A training example: its table, and the solutions that may train on it."""

    example: Example
    table: Table
    solutions: QuerySet


@dataclass(frozen=True, slots=True)
class Split:
    """The examples of a folder, with their tables."""

    examples: list[Example]
    source: TableSource

    def table_of(self, example: Example) -> Table:
        """The example's table; read again each time, unless it is held in memory."""
        return self.source.table_of(example)


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The items to train on, the dev split, and what was left out on the way."""

    items: list[Item]
    dev: Split | None
    language: Language
    report: dict[str, Any]


def load_training_data(
    recipe: Recipe, out: Path, progress: Progress | None = None, started: Started | None = None
) -> TrainingData:
    """Read everything that a run learns from; search for the solutions first where no store is named."""
    root = Path(recipe.data.root)
    if not recipe.data.root or not root.is_dir():
        raise BonafideError(
            f"data.root must be a folder with {recipe.data.train}/examples.jsonl and tables.jsonl; found "
            f"{recipe.data.root!r}. Give it with --set data.root=FOLDER."
        )
    file, source = _open_split(root / recipe.data.train)
    store = _store(recipe, file, out, progress, started)
    language = Language(**store.manifest["options"]["language"])
    sizes = dict(zip(store.ids, store.sizes.tolist(), strict=True))
    hardest = _largest(sizes, recipe.data.largest)
    tables: dict[str, Table] = {}
    items: list[Item] = []
    empty = capped = 0
    solved = recipe.objective.method == "supervised"
    gold = read_gold(root / recipe.data.train / "gold.jsonl") if solved else {}
    sets = iter(store)
    for example in file:
        name, solutions = next(sets)
        assert name == example.id, "the store follows the examples file, by its hash"
        if name not in hardest:
            continue
        table = tables.setdefault(example.context or "", source.table_of(example))
        if solved:
            if name not in gold:
                continue
            solutions = gold_set(
                parse_query(gold[name].solution, table), example.question, recipe.language.max_conditions
            )
        if not len(solutions):
            empty += 1
            continue
        if len(solutions) > recipe.data.max_solutions:
            solutions = thinned(solutions, recipe.data.max_solutions, name, recipe.train.seed)
            capped += 1
        items.append(Item(example, table, solutions))
    if not items:
        raise BonafideError("No training example has a solution: there is nothing to learn from. Look at the search.")
    report = {
        "examples": file.count,
        "used": len(items),
        "without_solution": empty,
        "capped": capped,
        "solutions": int(sum(len(item.solutions) for item in items)),
        "language": store.manifest["options"]["language"],
        "largest": recipe.data.largest,
        "gold": solved,
    }
    return TrainingData(items, _dev(root, recipe), language, report)


def thinned(solutions: QuerySet, most: int, name: str, seed: int) -> QuerySet:
    """A uniform sample of a set, in order, by a seed that depends on the example."""
    chance = np.random.default_rng(draws.key(f"{seed}/kept/{name}"))
    kept = np.sort(chance.choice(len(solutions), most, replace=False))
    return QuerySet(
        solutions.conditions,
        solutions.select[kept],
        solutions.aggregate[kept],
        solutions.where[kept],
        solutions.size,
        False,
    )


def gold_set(query: Query, question: str, width: int) -> QuerySet:
    """The set that holds one query alone, its values grounded in the question; empty if they are not there."""
    runs = question_runs(question)
    grounded = []
    for condition in sorted(query.conditions, key=lambda each: (each.column, each.operator)):
        value = condition.value
        spans = runs.texts.get(value) if isinstance(value, str) else runs.numbers.get(value)
        grounded.append(GroundedCondition(condition, tuple(spans or ())))
    there = all(each.spans for each in grounded) and len(grounded) <= width
    count = int(there)
    where = np.full((count, width), -1, dtype=np.int32)
    if there:
        where[0, : len(grounded)] = np.arange(len(grounded))
    return QuerySet(
        tuple(grounded),
        np.full(count, query.select, dtype=np.int32),
        np.full(count, int(query.aggregate), dtype=np.int8),
        where,
        count,
        True,
    )


def _store(
    recipe: Recipe, file: ExampleFile, out: Path, progress: Progress | None, started: Started | None
) -> SolutionStore[QuerySet]:
    if recipe.data.solutions:
        store = SolutionStore(Path(recipe.data.solutions), QueryCodec())
    else:
        language = Language(
            aggregates="typed" if recipe.language.aggregates == "typed" else "untyped",
            max_conditions=recipe.language.max_conditions,
        )
        folder = out / "solutions"
        search_sql(
            file.path, folder, language=language, workers=recipe.data.workers, progress=progress, started=started
        )
        store = SolutionStore(folder, QueryCodec())
    if store.manifest["inputs"]["examples"][0]["sha256"] != file.sha256:
        raise BonafideError(
            f"The solution store {store.folder} does not belong to {file.path}: it was searched over other examples. "
            "Name the right store with --set data.solutions=FOLDER, or leave it out to search anew."
        )
    return store


def _largest(sizes: dict[str, float], share: float) -> set[str]:
    order = sorted(sizes, key=lambda name: -sizes[name])
    return set(order[: round(share * len(order))])


def _dev(root: Path, recipe: Recipe) -> Split | None:
    if not recipe.data.dev or not (root / recipe.data.dev).is_dir():
        return None
    file, source = _open_split(root / recipe.data.dev)
    examples = list(file)
    if recipe.data.dev_examples:
        examples = examples[: recipe.data.dev_examples]
    return Split(examples, source)


def _open_split(folder: Path) -> tuple[ExampleFile, TableSource]:
    tables = next((folder / f"tables.jsonl{suffix}" for suffix in ("", ".gz", ".xz")
                   if (folder / f"tables.jsonl{suffix}").exists()), folder / "tables.jsonl")  # fmt: skip
    source = open_tables(tables)
    return open_examples(folder / "examples.jsonl", source.check), source


def texts_of(items: Sequence[Item]) -> list[str]:
    """The questions and column names of the training data, for building a vocabulary."""
    return [text for item in items for text in (item.example.question, " ; ".join(item.table.header))]
