"""How spurious the benchmark is at each setting of its dial: ``python -m bonafide.synth.measure``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bonafide.examples import Example, Gold
from bonafide.synth.domains import SPLITS
from bonafide.synth.sql import generate
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Query, parse_query
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table


@dataclass(frozen=True, slots=True)
class Spuriousness:
    """Sizes of the solution sets, and how far they leave the aggregate open.

    ``gold_in_set``: share of examples whose gold query is in the set. ``open_aggregate``: share whose set
    holds the gold query with none, with max and with min in place of its aggregate.
    ``redundant``: share whose set holds the gold query without one of its conditions. ``lured``: share
    where no query with the fewest conditions has gold's aggregate, so that the shortest way to the answer
    asks for something else.
    """

    examples: int
    mean: float
    median: float
    ninetieth: float
    largest: int
    gold_in_set: float
    open_aggregate: float
    redundant: float
    lured: float


def measure(
    tables: Sequence[Table], pairs: Sequence[tuple[Example, Gold]], language: Language | None = None
) -> Spuriousness:
    """Search every example in ``language`` (by default the paper's: untyped, at most three conditions)."""
    by_id = {table.id: table for table in tables}
    sizes: list[int] = []
    kept = left_open = redundant = lured = 0
    for example, gold in pairs:
        assert example.context is not None
        table = by_id[example.context]
        query = parse_query(gold.solution, table)
        found = search(example.question, example.values, table, language or Language())
        sizes.append(found.size)
        kept += query in found
        left_open += _leaves_the_aggregate_open(query, found)
        redundant += any(
            Query(query.select, query.aggregate, query.conditions - {each}) in found for each in query.conditions
        )
        used = (found.where >= 0).sum(axis=1)  # (solutions,)
        lured += query.aggregate not in found.aggregate[used == used.min()]
    return Spuriousness(
        len(sizes),
        statistics.mean(sizes),
        statistics.median(sizes),
        float(np.percentile(sizes, 90)),
        max(sizes),
        kept / len(sizes),
        left_open / len(sizes),
        redundant / len(sizes),
        lured / len(sizes),
    )


def _leaves_the_aggregate_open(query: Query, found: QuerySet) -> bool:
    aggregates = (Aggregate.NONE, Aggregate.MAX, Aggregate.MIN)
    return all(Query(query.select, each, query.conditions) in found for each in aggregates)


def _main() -> None:
    print(
        "| split | dial | examples | mean | median | p90 | largest | gold in Z | none, max, min | redundant | lured |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for split in SPLITS:
        for dial in (0.0, 0.5, 1.0):
            found = measure(*generate(tables=60, questions=20, seed=0, spuriousness=dial, split=split))
            sizes = f"{found.mean:.1f} | {found.median:.0f} | {found.ninetieth:.0f} | {found.largest:,}"
            shares = " | ".join(
                f"{each:.1%}" for each in (found.gold_in_set, found.open_aggregate, found.redundant, found.lured)
            )
            print(f"| {split} | {dial} | {found.examples:,} | {sizes} | {shares} |")


if __name__ == "__main__":
    _main()
