"""What a vote of solutions that do the same elsewhere could choose: queries that all give the answer, on other tables.

    python benchmarks/behaviours.py wikisql-hard-mimax+ --data data --solutions solutions --questions 1000

Each table is changed at random a few times: copies of its rows are added, in which each cell is with even chance
another of its column. Queries that return the same on all of these are one behaviour. Of train questions (with gold
among at least two solutions, the likeliest by the question's words, as the recipe keeps them) the script says how many
behaviours they have, and how often gold, or one that behaves as gold does, is chosen: by chance, by a vote (of the
behaviour of the most solutions the likeliest), by the words (`learn/words.py`), and by a vote that words weigh (of the
behaviour that is likeliest as a whole the likeliest).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from words import scored

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.learn.recipe import read_recipe
from bonafide.tasks.sql.query import Query, execute
from bonafide.tasks.sql.tables import Table

CHANGED = 16
"""On so many changed tables queries are held against each other."""
_MORE_ROWS = 32
"""At most so many rows of a table are copied."""


def changed(table: Table, seed: int) -> Table:
    """The table with changed copies of its rows at its end."""
    chance = np.random.default_rng(seed)
    rows = [table.rows[place] for place in chance.permutation(len(table.rows))[:_MORE_ROWS].tolist()]
    others = [[table.rows[place] for place in chance.integers(len(table.rows), size=len(table.header))] for _ in rows]
    kept = chance.random((len(rows), len(table.header))) < 0.5
    copies = [
        tuple(
            own if keep else other[column]
            for column, (own, other, keep) in enumerate(zip(row, drawn, keeps, strict=True))
        )
        for row, drawn, keeps in zip(rows, others, kept.tolist(), strict=True)
    ]
    return replace(table, rows=[*table.rows, *copies])


def behaviours(queries: Sequence[Query], tables: Sequence[Table]) -> np.ndarray[Any, Any]:
    """(queries,): the number of the first query that returns the same on all tables."""
    first: dict[str, int] = {}
    found = []
    for place, query in enumerate(queries):
        found.append(first.setdefault(repr([execute(query, table) for table in tables]), place))
    return np.array(found)


def together(likely: np.ndarray[Any, Any], same: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(queries,): the log-sum of the log-probabilities of all that behave as each does."""
    totals = np.full(len(likely), -np.inf)
    np.logaddexp.at(totals, same, likely)
    return totals[same]


def measured(recipe_name: str, overrides: list[str], questions: int, kept: int) -> dict[str, float]:
    """How many behaviours there are, and how often each way of choosing chooses gold."""
    found: dict[str, list[float]] = {}
    for item, place, scores in scored(
        read_recipe(recipe_name, [*overrides, "data.max_solutions=1000000000"]), questions
    ):
        order = np.sort(np.argsort(-scores, kind="stable")[:kept])
        gold = np.flatnonzero(order == place)
        if len(order) < 2 or not len(gold):
            continue
        likely = scores[order]
        same = behaviours(
            [item.solutions[each] for each in order.tolist()], [changed(item.context, seed) for seed in range(CHANGED)]
        )
        sizes = np.bincount(same, minlength=len(same))[same]
        summed = together(likely, same)
        chosen = {
            "vote": sizes - 1e-9 * (likely.max() - likely),
            "words": likely,
            "vote that words weigh": summed + 1e-9 * (likely - summed),
        }
        as_gold = same == same[gold[0]]
        figures = {
            "solutions": len(order),
            "behaviours": len(set(same.tolist())),
            "gold alone in its behaviour": as_gold.sum() == 1,
            "chance: gold": 1 / len(order),
            **{f"{name}: gold": int(np.argmax(by)) == gold[0] for name, by in chosen.items()},
            "chance: behaves as gold": as_gold.mean(),
            **{f"{name}: behaves as gold": as_gold[int(np.argmax(by))] for name, by in chosen.items()},
        }
        for name, figure in figures.items():
            found.setdefault(name, []).append(float(figure))
    return {"questions": float(len(found["solutions"])), **{name: float(np.mean(each)) for name, each in found.items()}}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--data", required=True)
    parser.add_argument("--solutions", default="")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--kept", type=int, default=60)
    options = parser.parse_args()
    overrides = [f"data.root={options.data}", f"data.solutions={options.solutions}"]
    for name, figure in measured(options.recipe, overrides, options.questions, options.kept).items():
        print(f"{name:>40}  {figure:,.1f}" if figure > 1 else f"{name:>40}  {figure:.1%}")


if __name__ == "__main__":
    main()
