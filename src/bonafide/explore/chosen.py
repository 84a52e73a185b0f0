"""What a run chose from its solution sets, in the places of the store.

``selections.jsonl`` counts the examples that the run trained on, and the solutions that it kept of each; the store
counts all of them. This goes from the one to the other, by the same sample that training drew (``learn/data.py``).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.files import open_bytes, parse_json
from bonafide.sealed import check_lines

_NAMES = ("selected", "solver", "reconstructor")
Kept = tuple[float, int, int, int]
"""Of a recipe ``data.largest``, ``data.max_solutions``, ``train.seed``; of its store, the most solutions of a set."""


class Places:
    """Where a run's examples and solutions stand in its store; ``sizes`` are all examples' ids and sizes of sets."""

    def __init__(self, sizes: Sequence[tuple[str, int]], kept: Kept) -> None:
        largest, self._most, self._seed, self._cap = kept
        self._sizes = sizes
        order = sorted(range(len(sizes)), key=lambda place: -sizes[place][1])
        chosen = set(order[: round(largest * len(order))])
        self.used = [place for place in range(len(sizes)) if place in chosen and sizes[place][1]]

    def solutions(self, place: int) -> Sequence[int]:
        """The places of the solutions that training kept of an example, in its order."""
        name, size = self._sizes[place][0], min(self._sizes[place][1], self._cap)
        if size <= self._most:
            return range(size)
        from bonafide.learn.draws import key  # imports torch, which takes seconds

        chance = np.random.default_rng(key(f"{self._seed}/kept/{name}"))
        sample: list[int] = np.sort(chance.choice(size, self._most, replace=False)).tolist()
        return sample

    def columns(self, entry: Mapping[str, Any], path: Path) -> list[list[int]]:
        """What a line of the file says was chosen, for each of the used examples; −1 for nothing."""
        columns = [entry.get(name) or [-1] * len(self.used) for name in _NAMES]
        if any(len(column) != len(self.used) for column in columns):
            raise BonafideError(
                f"{path} has choices for {len(columns[0]):,} examples; the store has {len(self.used):,} that the run "
                "would train on. It belongs to another store: name the right one with --solutions."
            )
        return columns


def last_choices(
    path: Path, sizes: Sequence[tuple[str, int]], kept: Kept
) -> Iterator[tuple[int, int | None, int | None, int | None]]:
    """(example, what trained the solver, θ's best, φ's best) by their places in the store; None where there is none."""
    check_lines(path)
    last = _last_line(path)
    if last is None:
        return
    places = Places(sizes, kept)
    for place, *chosen in zip(places.used, *places.columns(last, path), strict=True):
        sample = places.solutions(place)
        trained, solver, reconstructor = (
            sample[each] if 0 <= each < len(sample) else None  # beyond the sample: the model proposed it itself
            for each in chosen
        )
        yield place, trained, solver, reconstructor


def gold_chosen(
    path: Path, sizes: Sequence[tuple[str, int]], kept: Kept, gold: Mapping[int, Collection[int]]
) -> list[tuple[float, int, int]]:
    """(epoch, how often what trained the solver was gold, of how many) for each line of the file.

    ``gold``: by example, the places of gold in its set. Counted are examples of which training kept gold.
    """
    check_lines(path)
    places = Places(sizes, kept)
    right: list[tuple[int, set[int]]] = []  # where an example stands in the file, and which of its choices are gold
    for at, place in enumerate(places.used):
        known = gold.get(place)
        if known and (wanted := {each for each, one in enumerate(places.solutions(place)) if one in known}):
            right.append((at, wanted))
    found = []
    with open_bytes(path) as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # cut short
            entry = parse_json(line)
            selected = places.columns(entry, path)[0]
            chosen = [(selected[at], wanted) for at, wanted in right if selected[at] >= 0]
            found.append((float(entry["epoch"]), sum(each in wanted for each, wanted in chosen), len(chosen)))
    return found


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
