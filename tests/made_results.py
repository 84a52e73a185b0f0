"""Results of runs that never were: only what was right matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bonafide.reproduce.results import Result, buckets, packed, packed_bytes
from bonafide.reproduce.tables import Row, Table


def made(path: Path, seed: int, solution: list[bool], answer: list[bool], **changed: Any) -> Result:
    """A result of which only what was right matters."""
    count = len(answer)
    content = {
        "recipe_name": "wikisql-hard-mimax", "settings": {}, "seed": seed, "data": {"train": "a" * 64, "dev": "b" * 64},
        "examples": count, "ids": "c", "figures": {}, "values": {}, "curve": [],
        "flags": {"answer": packed(answer), "solution": packed(solution), "known": packed([True] * count)},
        "sizes": packed_bytes(buckets(range(count))), "trained_on": {"used": 7},
        "seconds": {"training": 3.0, "resumed": False, "side_by_side": 1},
        "environment": {"gpu": None, "cpus": 2, "bonafide": "0", "git": None, "torch": "2"}, **changed,
    }  # fmt: skip
    return Result(path, content)


def rows_of(figures: dict[str, list[float]], count: int = 200) -> dict[str, list[Result]]:
    """By row and seed, results with this share right; which examples is drawn."""
    chance = np.random.default_rng(0)
    found = {}
    for name, shares in figures.items():
        found[name] = []
        for seed, share in enumerate(shares):
            right = (chance.permutation(count) < round(share * count)).tolist()
            found[name].append(made(Path(f"{name}-{seed}.json"), seed, right, right))
    return found


SMALL = Table(
    "small", "A small table", "none", "none", "small", ("solution", "answer"), (),
    (
        Row("low", "Low", "wikisql-hard-mml", 2, role="baseline"),
        Row("high", "High", "wikisql-hard-hard-em", 2, role="baseline"),
        Row("ours", "Ours", "wikisql-hard-mimax", 3, paper=(("solution", 45.8),)),
        Row("gold", "Gold", "wikisql-hard-supervised", 1, role="gold"),
    ),
)  # fmt: skip
