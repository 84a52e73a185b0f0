"""All that is tried, and how much of it: weights of cheap targets are large, for they carry the volume."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from fuzzing.contract import Target

FEWEST = 5_000
"""Inputs of the least of all targets in a run of a million."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Planned:
    """A target by its function, imported in the process that tries it; ``weight`` is its share."""

    name: str
    weight: int
    module: str
    function: str

    def build(self, folder: Path) -> Target:
        """The target, its files in this folder."""
        made: Target = getattr(importlib.import_module(f"fuzzing.{self.module}"), self.function)(folder)
        return made


_PLAN = {
    "tables": {"csv": 60, "parquet": 25, "sqlite": 25, "tables_jsonl": 50, "wikisql": 40},
    "languages": {
        "query": 160, "written_query": 100, "program": 160, "sql_metric": 90, "drop_metric": 80, "squad_metric": 90,
        "rouge_metric": 8,
    },
    "texts": {
        "examples": 70, "gold": 30, "documents": 40, "drop": 25, "squad": 20, "squad_article": 15,
        "squad_article_gold": 15, "quasar": 15, "quasar_contexts": 15, "webquestions": 20, "dpr": 20,
        "plain_text": 20, "markdown": 20, "brought": 20, "candidates": 20,
    },
    "runs": {
        "recipe": 14, "recipe_values": 10, "manifest": 10, "shard": 10, "checkpoint": 8, "tensors": 8, "model": 8,
        "sheet": 20, "judgements": 20, "predictions": 20, "pairs": 20,
    },
    "web": {"api_sql": 8, "api_discrete": 8, "api_reading": 8, "api_text": 8},
}  # fmt: skip
PLAN = [
    Planned(function.replace("_", "-"), weight, module, function)
    for module, functions in _PLAN.items()
    for function, weight in functions.items()
]


def shares(inputs: int, names: list[str]) -> dict[str, int]:
    """How many of so many inputs each of these targets gets."""
    chosen = [each for each in PLAN if each.name in names]
    whole = sum(each.weight for each in chosen)
    return {each.name: max(1, -(-inputs * each.weight // whole)) for each in chosen}
