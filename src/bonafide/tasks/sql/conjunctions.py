"""The sums of a target's quantities over every conjunction of conditions, by one of two ways.

A *choice* is what one column contributes to a conjunction: usually one group of conditions that select the
same rows. A conjunction is a set of choices of distinct columns. Two ways lead to the same sums:

*Bit sets*, for tables of few (merged) rows: a conjunction is an AND of words, hopeless ones are dropped
with all that extends them, equal row sets are evaluated once, by one matrix product.

*Cubes*, for tables of many rows: the choices of a column cut its values into a few classes. For a set of
columns, adding up rows by their classes gives the sums for all of its conjunctions, whatever their number.
Columns with few classes are taken together as one axis, so that one pass over the rows serves many sets of
columns; the cost follows the rows and not the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from bonafide.tasks.sql.evaluation import RowsOf, Sums, Target
from bonafide.tasks.sql.tables import Mask

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

BLOCK = 1 << 17
"""How many conjunctions are held at a time; bounds the memory of a search."""
_WORD = 64
_UNPACKED = 1 << 22
"""How many booleans of row sets are unpacked at a time."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of every column, sorted by column."""

    selects: Mask  # (rows, choices)
    column: Integers  # (choices,)
    size: Integers  # (choices,): how many conditions it takes
    most: int  # conditions of a conjunction


Block = tuple[Integers, Sums, Integers, RowsOf]
"""(conjunctions, most) choices or −1; sums of unique row sets; which of these each has; their rows."""


def conjunction_sums(choices: Choices, target: Target) -> Iterator[Block]:
    """Every conjunction that could give the answer, block by block, with the sums over its rows."""
    merged = _merge(choices.selects, target)
    if _bits_are_cheaper(choices, target, len(merged.first)):
        return _by_bits(choices, target, merged)
    return _by_cubes(choices, target)


def _bits_are_cheaper(choices: Choices, target: Target, rows: int) -> bool:
    """Which way takes less time, by costs measured on one core; ``rows`` are the rows after merging."""
    per_column = np.bincount(choices.column) if len(choices.column) else np.zeros(0, dtype=np.int64)
    conjunctions = sum(_elementary(per_column.tolist(), choices.most))
    axes, width, room = 0, 1.0, _room(choices)
    for count in sorted(per_column[per_column > 0].tolist()):  # a column of so many choices has about one class more
        axes, width = (axes, width * (count + 1)) if axes and width * (count + 1) <= room else (axes + 1, count + 1)
    sets = sum(comb(axes, size) for size in range(choices.most + 1))
    quantities = target.quantities.shape[1]
    by_bits = conjunctions * (rows * quantities * 1e-10 + 3e-7)
    by_cubes = sets * (len(choices.selects) * (quantities + 1) * 1.2e-9 + 1e-4 + quantities * 5e-6)
    return bool(by_bits <= by_cubes)


def _elementary(counts: list[int], most: int) -> list[int]:
    """How many conjunctions of 0, 1, …, most columns there are."""
    ways = [1] + [0] * most
    for count in counts:
        for size in range(most, 0, -1):
            ways[size] += ways[size - 1] * count
    return ways


@dataclass(frozen=True, slots=True)
class _Merged:
    """Rows that no choice tells apart, as one: the first of each, and which one each row belongs to."""

    first: npt.NDArray[np.intp]
    of_row: npt.NDArray[np.intp]
    quantities: Sums
    must_contain: Mask | None


def _merge(selects: Mask, target: Target) -> _Merged:
    rows = len(selects)
    if rows <= _WORD:
        everyone = np.arange(rows)
        return _Merged(everyone, everyone, target.quantities, target.must_contain)
    packed = np.packbits(selects, axis=1)
    signature = np.zeros((rows, packed.shape[1] // 8 * 8 + 8), dtype=np.uint8)
    signature[:, : packed.shape[1]] = packed
    words = signature.view(np.uint64)
    if words.shape[1] == 1:
        _, first, of_row = np.unique(words[:, 0], return_index=True, return_inverse=True)
    else:
        mixed = (words * np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).sum(
            axis=1
        )
        _, first, of_row = np.unique(mixed ^ (mixed >> np.uint64(29)), return_index=True, return_inverse=True)
        if not np.array_equal(words[first[of_row]], words):  # two signatures share a hash
            _, first, of_row = np.unique(words, axis=0, return_index=True, return_inverse=True)
    of_row = of_row.reshape(-1)
    if len(first) > rows // 2:  # not worth it
        everyone = np.arange(rows)
        return _Merged(everyone, everyone, target.quantities, target.must_contain)
    sums = [np.bincount(of_row, quantity, len(first)) for quantity in target.quantities.T]
    must = target.must_contain
    return _Merged(
        first, of_row, np.stack(sums, axis=1), None if must is None else np.bincount(of_row, must, len(first)) > 0
    )


def _by_bits(choices: Choices, target: Target, merged: _Merged) -> Iterator[Block]:
    words_of_choice = _pack(choices.selects[merged.first])
    everything = _pack(np.ones((len(merged.first), 1), dtype=bool))
    must = None if merged.must_contain is None else _pack(merged.must_contain[:, None])
    after = np.searchsorted(choices.column, choices.column, side="right")

    def extended(chosen: Integers, words: Words, size: Integers, depth: int) -> Iterator[tuple[Integers, Words]]:
        yield chosen, words
        if depth == choices.most:
            return
        start = after[chosen[:, depth - 1]] if depth else np.zeros(len(chosen), dtype=np.int64)
        room = len(choices.column) - start
        ends = np.cumsum(room)
        begin = 0
        while begin < len(chosen):
            base = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, base + BLOCK, side="right")))
            here = room[begin:end]
            owner = np.repeat(np.arange(begin, end), here)
            offset = np.repeat(ends[begin:end] - here - base - start[begin:end], here)
            choice = np.arange(int(ends[end - 1]) - base) - offset
            new_words = words[owner] & words_of_choice[choice]
            new_size = size[owner] + choices.size[choice]
            keep = new_size <= choices.most
            if not target.empty_hits:
                keep &= (new_words if must is None else new_words & must).any(axis=1)
            if keep.any():
                new_chosen = chosen[owner[keep]]
                new_chosen[:, depth] = choice[keep]
                yield from extended(new_chosen, new_words[keep], new_size[keep], depth + 1)
            begin = end

    nothing = np.full((1, choices.most), -1, dtype=np.int64)
    for chosen, words in _gathered(extended(nothing, everything, np.zeros(1, dtype=np.int64), 0)):
        unique, which = _unique(words)
        members = np.zeros((0, 0), dtype=np.uint8)
        sums = np.empty((len(unique), merged.quantities.shape[1]))
        step = max(1, _UNPACKED // max(1, len(merged.first)))
        for start in range(0, len(unique), step):
            members = _unpack(unique[start : start + step], len(merged.first))
            sums[start : start + step] = members.astype(np.float64) @ merged.quantities

        def rows_of(index: int, unique: Words = unique) -> npt.NDArray[np.intp]:
            return np.flatnonzero(_unpack(unique[index : index + 1], len(merged.first))[0][merged.of_row])

        yield chosen, sums, which, rows_of


@dataclass(frozen=True, slots=True)
class _Axis:
    """Columns taken together as one axis of a cube: what can be chosen of them, by the classes of their rows."""

    classes: Integers  # (rows,): the class of each row
    chosen: Integers  # (combinations, most): choices of distinct columns of this axis, −1 where there are fewer
    size: Integers  # (combinations,): how many conditions they take
    selects: Sums  # (combinations, classes)
    relevant: Mask | None  # the rows that some combination selects, where that is not nearly all


def _by_cubes(choices: Choices, target: Target) -> Iterator[Block]:
    quantities = np.ascontiguousarray(target.quantities.T)  # (quantities, rows)
    axes = _axes(choices)

    def rows_of_chosen(chosen: Integers) -> npt.NDArray[np.intp]:
        return np.flatnonzero(choices.selects[:, chosen[chosen >= 0]].all(axis=1))

    held: list[tuple[Integers, Sums]] = []
    waiting = 0
    for depth in range(choices.most + 1):
        for together in combinations(axes, depth):
            chosen, sums = _cube(together, quantities, choices.most)
            if not target.empty_hits:
                chosen, sums = chosen[sums[:, 0] > 0], sums[sums[:, 0] > 0]
            held.append((chosen, sums))
            waiting += len(chosen)
            if waiting > BLOCK // 4:
                yield _cube_block(held, rows_of_chosen)
                held, waiting = [], 0
    if held:
        yield _cube_block(held, rows_of_chosen)


def _axes(choices: Choices) -> list[_Axis]:
    """Few axes with so many classes that a cube of ``most`` axes still has far fewer cells than the table rows."""
    if choices.most == 0:
        return []
    room = _room(choices)
    single = [_axis(choices, column) for column in np.unique(choices.column).tolist()]
    axes: list[_Axis] = []
    for axis in sorted(single, key=lambda each: each.selects.shape[1]):
        if axes and axes[-1].selects.shape[1] * axis.selects.shape[1] <= room:
            axes[-1] = _joined(axes[-1], axis, choices.most)
        else:
            axes.append(axis)
    return axes


def _room(choices: Choices) -> float:
    """How many classes an axis may have."""
    return max(2.0, float((len(choices.selects) / 4) ** (1 / max(1, choices.most))))


def _axis(choices: Choices, column: int) -> _Axis:
    mine = np.flatnonzero(choices.column == column)
    patterns, classes = _classes(choices.selects[:, mine])
    chosen = np.full((len(mine), choices.most), -1, dtype=np.int64)
    chosen[:, 0] = mine
    selected: Mask = np.any(patterns, axis=1)[classes]
    relevant = None if selected.mean() > 0.8 else selected
    return _Axis(classes, chosen, choices.size[mine], patterns.T.astype(np.float64), relevant)


def _joined(left: _Axis, right: _Axis, most: int) -> _Axis:
    """One axis of two: what is chosen of the one, of the other, or of both."""
    width = right.selects.shape[1]
    first, second = (grid.reshape(-1) for grid in np.indices((len(left.size), len(right.size))))
    fits = left.size[first] + right.size[second] <= most
    first, second = first[fits], second[fits]
    both = np.sort(np.concatenate([left.chosen[first], right.chosen[second]], axis=1), axis=1)[:, ::-1][:, :most]
    everywhere = np.ones((1, left.selects.shape[1])), np.ones((1, width))
    selects = np.concatenate(
        [
            np.kron(left.selects, everywhere[1]),
            np.kron(everywhere[0], right.selects),
            (left.selects[first][:, :, None] * right.selects[second][:, None, :]).reshape(
                len(first), width * left.selects.shape[1]
            ),
        ]
    )
    relevant = None
    if left.relevant is not None and right.relevant is not None:
        relevant = left.relevant | right.relevant
    return _Axis(
        left.classes * width + right.classes,
        np.concatenate([left.chosen, right.chosen, both]),
        np.concatenate([left.size, right.size, left.size[first] + right.size[second]]),
        selects,
        relevant,
    )


def _cube(axes: tuple[_Axis, ...], quantities: Sums, most: int) -> tuple[Integers, Sums]:
    """Every conjunction that chooses something of each of these axes, and its sums."""
    masks = [axis.relevant for axis in axes if axis.relevant is not None]
    rows = np.flatnonzero(np.logical_and.reduce(masks)) if masks else None
    cell = np.zeros(quantities.shape[1] if rows is None else len(rows), dtype=np.int64)
    for axis in axes:
        cell = cell * axis.selects.shape[1] + (axis.classes if rows is None else axis.classes[rows])
    shape = [axis.selects.shape[1] for axis in axes]
    cells = int(np.prod(shape, dtype=np.int64))
    sums = [np.bincount(cell, values if rows is None else values[rows], cells) for values in quantities]
    cube: Sums = np.stack(sums, axis=-1, dtype=np.float64).reshape(*shape, len(quantities))
    kept = [np.flatnonzero(axis.size <= most - len(axes) + 1) for axis in axes]
    for place, (axis, mine) in enumerate(zip(axes, kept, strict=True)):
        cube = np.moveaxis(np.tensordot(axis.selects[mine], cube, axes=(1, place)), 0, place)
    grids = [grid.reshape(-1) for grid in np.indices([len(mine) for mine in kept])]
    chosen = np.full((cube[..., 0].size, most), -1, dtype=np.int64)
    size = np.zeros(len(chosen), dtype=np.int64)
    parts = [axis.chosen[mine][grid] for axis, mine, grid in zip(axes, kept, grids, strict=True)]
    for axis, mine, grid in zip(axes, kept, grids, strict=True):
        size += axis.size[mine][grid]
    fits = size <= most
    if parts:
        chosen = np.sort(np.concatenate(parts, axis=1)[fits], axis=1)[:, ::-1][:, :most]
    return chosen, cube.reshape(len(fits), len(quantities))[fits]


def _classes(selects: Mask) -> tuple[Mask, Integers]:
    """The different rows of ``selects`` (rows, choices), and which of them each row is."""
    codes = np.zeros(len(selects), dtype=np.int64)
    for byte in np.packbits(selects, axis=1).T:  # re-number after each byte, so that the codes stay small
        codes = codes * 256 + byte
        number = np.cumsum(np.bincount(codes) > 0) - 1
        codes = number[codes]
    first = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    first[codes] = np.arange(len(codes))
    return selects[first], codes


def _cube_block(held: list[tuple[Integers, Sums]], rows_of_chosen: Callable[[Integers], npt.NDArray[np.intp]]) -> Block:
    chosen = np.concatenate([each for each, _ in held])
    sums = np.concatenate([each for _, each in held])
    return chosen, sums, np.arange(len(chosen)), lambda index: rows_of_chosen(chosen[index])


def _gathered(blocks: Iterator[tuple[Integers, Words]]) -> Iterator[tuple[Integers, Words]]:
    """The same conjunctions in fewer, fuller blocks."""
    held: list[tuple[Integers, Words]] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block[0])
        if size >= BLOCK:
            yield np.concatenate([chosen for chosen, _ in held]), np.concatenate([words for _, words in held])
            held, size = [], 0
    if held:
        yield np.concatenate([chosen for chosen, _ in held]), np.concatenate([words for _, words in held])


def _pack(rows: Mask) -> Words:
    """(rows, sets) of booleans as (sets, words) of 64 rows a word."""
    bits = np.packbits(rows.T, axis=1, bitorder="little")
    padded = np.zeros((rows.shape[1], -(-max(1, rows.shape[0]) // _WORD) * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def _unpack(words: Words, rows: int) -> npt.NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :rows]


def _unique(words: Words) -> tuple[Words, Integers]:
    if words.shape[1] == 1:
        unique, which = np.unique(words[:, 0], return_inverse=True)
        return unique[:, None], which
    unique, which = np.unique(words, axis=0, return_inverse=True)
    return unique, which.reshape(-1)
