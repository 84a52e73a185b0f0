"""What a run last chose from its solution sets, in the places of the store.

``selections.jsonl`` counts the examples that the run trained on, and the solutions that it kept of each; the store
counts all of them. This goes from the one to the other, by the same sample that training drew (``learn/data.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bonafide.errors import BonafideError
from bonafide.files import open_bytes, parse_json

_NAMES = ("selected", "solver", "reconstructor")


def last_choices(
    path: Path, sizes: Sequence[tuple[str, int]], largest: float, most: int, seed: int, cap: int
) -> Iterator[tuple[int, int | None, int | None, int | None]]:
    """(example, what trained the solver, θ's best, φ's best) by their places in the store; None where there was none.

    ``sizes`` are the ids of all examples with the sizes of their sets, of which the store holds at most ``cap``
    solutions; the others are of the recipe: ``data.largest``, ``data.max_solutions`` and ``train.seed``.
    """
    last = _last_line(path)
    if last is None:
        return
    order = sorted(range(len(sizes)), key=lambda place: -sizes[place][1])
    kept = set(order[: round(largest * len(order))])
    used = [place for place in range(len(sizes)) if place in kept and sizes[place][1]]
    columns = [last.get(name) or [-1] * len(used) for name in _NAMES]
    if any(len(column) != len(used) for column in columns):
        raise BonafideError(
            f"{path} has choices for {len(columns[0]):,} examples; the store has {len(used):,} that the run would "
            "train on. It belongs to another store: name the right one with --solutions."
        )
    for place, *chosen in zip(used, *columns, strict=True):
        name, size = sizes[place][0], min(sizes[place][1], cap)
        if size > most:
            from bonafide.learn.draws import key  # imports torch, which takes seconds

            chance = np.random.default_rng(key(f"{seed}/kept/{name}"))
            sample = np.sort(chance.choice(size, most, replace=False)).tolist()
        else:
            sample = range(size)
        trained, solver, reconstructor = (
            sample[each] if 0 <= each < len(sample) else None  # beyond the sample: the model proposed it itself
            for each in chosen
        )
        yield place, trained, solver, reconstructor


def _last_line(path: Path) -> dict[str, list[int]] | None:
    """The last line that was written whole."""
    with open_bytes(path) as stream:
        end = stream.seek(0, os.SEEK_END)
        data, step = b"", 1 << 20
        while end > 0 and data.count(b"\n") < 2:
            start = max(0, end - step)
            stream.seek(start)
            data, end = stream.read(end - start) + data, start
    lines = data.split(b"\n")[:-1]
    if not lines:
        return None
    try:
        value = parse_json(lines[-1])
    except ValueError as error:
        raise BonafideError(f"{path}: the last line is not JSON: {error}. Was it edited?") from None
    return value if isinstance(value, dict) else None
