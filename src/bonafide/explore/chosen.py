"""What a run chose from its solution sets, in the places of the store.

``selections.jsonl`` counts the examples that the run trained on, and the solutions that it kept of each; the store
counts all of them. From the one to the other leads ``kept.parquet``, which training wrote (``learn/kept.py``). Of a run
that is older than that file a uniform sample is drawn again; where training cut a set otherwise, nobody knows.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.files import open_bytes, parse_json
from bonafide.learn.kept import KeptFile
from bonafide.sealed import check_lines

_NAMES = ("selected", "solver", "reconstructor")
Sets = Sequence[tuple[str, int, int]]
"""Of every example in a store: its id, the size of its set, and how many solutions of it are stored."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run says of what it trains on: the file that training wrote, and what of its recipe decided."""

    path: Path | None
    largest: float
    most: int
    seed: int
    sampled: bool  # a set that is too large; else it is cut in a way that cannot be done again here


class _Written:
    """Where a run's examples and solutions stand in its store, as training wrote it down."""

    def __init__(self, sets: Sets, path: Path) -> None:
        self._sets, self._path, self._file = sets, path, KeptFile(path)
        self.count = self._file.count

    def solutions(self, wanted: Collection[int] | None = None) -> Iterator[tuple[int, Sequence[int] | None]]:
        """(example, the places of its solutions that training kept); None where not ``wanted``, or not known."""
        places = {name: place for place, (name, _, _) in enumerate(self._sets)}
        for name, stored, kept in self._file:
            place = places.get(name)
            if place is None or self._sets[place][2] != stored:
                raise BonafideError(
                    f"{self._path} belongs to another store: expected {stored:,} solutions of example {name!r}, found "
                    f"{'no such example' if place is None else f'{self._sets[place][2]:,}'}. Name the right one with "
                    "--solutions."
                )
            if wanted is not None and place not in wanted:
                yield place, None
            else:
                yield place, range(stored) if kept is None else kept.tolist()


class _Redrawn:
    """The same of a run that wrote nothing down."""

    def __init__(self, sets: Sets, kept: Kept) -> None:
        self._sets, self._kept = sets, kept
        order = sorted(range(len(sets)), key=lambda place: -sets[place][1])
        chosen = set(order[: max(1, round(kept.largest * len(order)))])
        self._used = [place for place in range(len(sets)) if place in chosen and sets[place][2]]
        self.count = len(self._used)

    def solutions(self, wanted: Collection[int] | None = None) -> Iterator[tuple[int, Sequence[int] | None]]:
        """(example, the places of its solutions that training kept); None where not ``wanted``, or not known."""
        for place in self._used:
            yield place, None if wanted is not None and place not in wanted else self._drawn(place)

    def _drawn(self, place: int) -> Sequence[int] | None:
        name, _, stored = self._sets[place]
        if stored <= self._kept.most:
            return range(stored)
        if not self._kept.sampled:
            return None
        from bonafide.learn.draws import key  # imports torch, which takes seconds

        chance = np.random.default_rng(key(f"{self._kept.seed}/kept/{name}"))
        sample: list[int] = np.sort(chance.choice(stored, self._kept.most, replace=False)).tolist()
        return sample


def last_choices(path: Path, sets: Sets, kept: Kept) -> Iterator[tuple[int, int | None, int | None, int | None]]:
    """(example, what trained the solver, θ's best, φ's best) by their places in the store; None where there is none."""
    check_lines(path)
    last = _last_line(path)
    if last is None:
        return
    places = _places(sets, kept)
    columns = _columns(last, places.count, path)
    for (place, solutions), *chosen in zip(places.solutions(), *columns, strict=True):
        known = solutions or ()
        trained, solver, reconstructor = (
            known[each] if 0 <= each < len(known) else None  # beyond them: the model proposed it itself
            for each in chosen
        )
        yield place, trained, solver, reconstructor


def gold_chosen(
    path: Path, sets: Sets, kept: Kept, gold: Mapping[int, Collection[int]]
) -> list[tuple[float, int, int]]:
    """(epoch, how often what trained the solver was gold, of how many) for each line of the file.

    ``gold``: by example, the places of gold in its set. Counted are examples of which training kept gold.
    """
    check_lines(path)
    places = _places(sets, kept)
    right: list[tuple[int, set[int]]] = []  # where an example stands in the file, and which of its choices are gold
    for at, (place, solutions) in enumerate(places.solutions(gold)):
        known = gold.get(place, ())
        if wanted := {each for each, one in enumerate(solutions or ()) if one in known}:
            right.append((at, wanted))
    found = []
    with open_bytes(path) as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # cut short
            entry = parse_json(line)
            selected = _columns(entry, places.count, path)[0]
            chosen = [(selected[at], wanted) for at, wanted in right if selected[at] >= 0]
            found.append((float(entry["epoch"]), sum(each in wanted for each, wanted in chosen), len(chosen)))
    return found


def _places(sets: Sets, kept: Kept) -> _Written | _Redrawn:
    return _Redrawn(sets, kept) if kept.path is None else _Written(sets, kept.path)


def _columns(entry: Mapping[str, Any], count: int, path: Path) -> list[list[int]]:
    """What a line of the file says was chosen, for each of the used examples; −1 for nothing."""
    columns = [entry.get(name) or [-1] * count for name in _NAMES]
    if any(len(column) != count for column in columns):
        raise BonafideError(
            f"{path} has choices for {len(columns[0]):,} examples; the store has {count:,} that the run would train "
            "on. It belongs to another store: name the right one with --solutions."
        )
    return columns


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
