"""Look into a solution store: the figures a user trusts, and the solutions behind them.

Each figure is defined where it is computed. Coverage and sizes come from the store alone; SQL text and
touched rows need the tables, which the manifest names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.examples import Example, open_examples, read_gold
from bonafide.files import content_hash
from bonafide.search.run import seconds_spent
from bonafide.solutions import SolutionStore
from bonafide.tasks.sql.query import (
    Aggregate,
    Query,
    bound_as_written,
    condition_sql,
    parse_query,
    select_sql,
    written_order,
)
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.sources import TableSource, source_of_store
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.task import QueryCodec


@dataclass(frozen=True)
class Inspection:
    """A finished store, with its examples and tables at hand when they are asked for."""

    folder: Path
    examples_path: Path | None = None
    tables_path: Path | None = None
    table_paths: Sequence[Path] = ()

    @cached_property
    def store(self) -> SolutionStore[QuerySet]:
        """The solution sets."""
        store = SolutionStore(self.folder, QueryCodec())
        if store.manifest["task"] != "sql":
            raise BonafideError(
                f"{self.folder} holds solutions of the task {store.manifest['task']!r}; inspect reads those of 'sql'. "
                f"Look at them with bonafide explore {self.folder}."
            )
        return store

    @cached_property
    def source(self) -> TableSource:
        """The tables that were searched."""
        return source_of_store(self.folder, self.store.manifest["inputs"], self.tables_path, self.table_paths)

    @cached_property
    def examples(self) -> dict[str, Example]:
        """The examples that were searched, by id."""
        recorded = self.store.manifest["inputs"]["examples"][0]
        path = self.examples_path or self.folder / recorded["path"]
        if not path.exists():
            raise BonafideError(
                f"The examples of this store are no longer at {path}. Say where they are now with --examples."
            )
        if content_hash(path) != recorded["sha256"]:
            raise BonafideError(f"{path} is not the file that this store was searched over: its content differs.")
        return {example.id: example for example in open_examples(path)}

    def table_of(self, example: str) -> Table:
        """The table of an example."""
        return self.source.table_of(self.examples[example])

    def figures(self, gold: Path | None = None) -> dict[str, Any]:
        """The figures of the store; shares are between 0 and 1, sizes are those before any cap.

        ``coverage``: share of examples whose set is not empty. ``gold_in_set``: share of examples whose gold
        query is in the set, among those whose gold has at most as many conditions as the language allows;
        ``gold_in_set_all``: among all examples with gold. ``complete``: share of sets that are not capped.
        """
        sizes = self.store.sizes
        counts = self.store.manifest["counts"]
        seconds = seconds_spent(self.folder)
        figures: dict[str, Any] = {
            "examples": len(sizes),
            "coverage": counts["covered"] / len(sizes),
            "gold_in_set": None,
            "mean": float(sizes.mean()),
            "median": float(np.median(sizes)),
            "p90": float(np.percentile(sizes, 90)),
            "max": int(sizes.max()),
            "solutions": counts["solutions"],
            "complete": (len(sizes) - counts["capped"]) / len(sizes),
            "seconds_per_example": None if seconds is None else seconds / len(sizes),
            "task": self.store.manifest["task"],
            "options": self.store.manifest["options"],
        }
        return figures | (self._gold_figures(gold) if gold is not None else {})

    def _gold_figures(self, path: Path) -> dict[str, Any]:
        gold = read_gold(path)
        most = self.store.manifest["options"]["language"]["max_conditions"]
        known = within = found = 0
        for example, solutions in self.store:
            if example not in gold:
                continue
            query = parse_query(gold[example].solution, self.table_of(example))
            known += 1
            within += len(query.conditions) <= most
            found += query in solutions
        if known == 0:
            raise BonafideError(
                f"{path} has gold for none of the examples in {self.folder}: it belongs to other examples."
            )
        return {
            "gold_in_set": found / within if within else None,
            "gold_in_set_all": found / known,
            "gold_examples": known,
            "gold_too_long": known - within,
        }

    def listed(self, example: str | None = None) -> Iterator[str]:
        """Every solution (of one example, or of all) as a line of JSON: example, sql, parameters."""
        for name, solutions in self.store if example is None else [(example, self.store[example])]:
            yield from _json_lines(name, solutions, self.table_of(name))

    def largest(self, count: int) -> list[tuple[str, int]]:
        """The examples with the largest sets."""
        order = np.argsort(-self.store.sizes, kind="stable")[:count]
        return [(self.store.ids[place], int(self.store.sizes[place])) for place in order.tolist()]

    def typical(self, count: int) -> list[str]:
        """A few examples with small, middling and large sets: the quantiles of the sizes that are not 0."""
        order = np.argsort(self.store.sizes, kind="stable")
        order = order[self.store.sizes[order] > 0]
        places = np.unique(np.linspace(0, max(0, len(order) - 1), count).astype(int))
        return [self.store.ids[place] for place in order[places[places < len(order)]].tolist()]


def _json_lines(example: str, solutions: QuerySet, table: Table) -> Iterator[str]:
    """What ``json.dumps`` would write for every query of a set, put together from pieces that are written once."""
    conditions = [grounded.condition for grounded in solutions.conditions]
    order = sorted(range(len(conditions)), key=lambda place: written_order(conditions[place]))
    rank = {place: position for position, place in enumerate(order)}
    clauses = [_json_text(condition_sql(condition, table)) for condition in conditions]
    values = [json.dumps(bound_as_written(condition, table), ensure_ascii=False) for condition in conditions]
    heads: dict[tuple[int, int], str] = {}
    start = f'{{"example": {json.dumps(example, ensure_ascii=False)}, "sql": "'
    for select, aggregate, where in zip(
        solutions.select.tolist(), solutions.aggregate.tolist(), solutions.where.tolist(), strict=True
    ):
        head = heads.get((select, aggregate))
        if head is None:
            head = heads[select, aggregate] = start + _json_text(select_sql(select, Aggregate(aggregate), table))
        places = sorted((place for place in where if place >= 0), key=rank.__getitem__)
        written = " AND ".join([clauses[place] for place in places])
        parameters = ", ".join([values[place] for place in places])
        yield f'{head}{" WHERE " + written if written else ""}", "parameters": [{parameters}]}}'


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def histogram(sizes: npt.ArrayLike) -> list[tuple[str, int]]:
    """How many sets have 0, 1, 2, 3–4, 5–8, … solutions: (label, count) by powers of two."""
    whole = np.asarray(sizes)
    bins = [("0", int((whole == 0).sum()))]
    low, high = 1, 1
    while low <= whole.max(initial=0):
        label = str(low) if low == high else f"{low:,}–{high:,}"
        bins.append((label, int(((whole >= low) & (whole <= high)).sum())))
        low, high = high + 1, high * 2
    return bins


def bound_sql(query: Query, table: Table) -> str:
    """The query as one line of SQL with its values in place, for people to read (programs bind them)."""
    clauses = [
        condition_sql(each, table, _literal(bound_as_written(each, table)))
        for each in sorted(query.conditions, key=written_order)
    ]
    return select_sql(query.select, query.aggregate, table) + (" WHERE " + " AND ".join(clauses) if clauses else "")


def _literal(value: str | float) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
