"""What the solver reads of an example, and a batch of it.

:class:`Features` is numpy, made once per example and kept: the encoder's windows (``windows.py``), for every option
the pieces that stand for it (``options.py``), and the solutions as a tree of prefixes (``prefixes.py``).

:func:`collate` lays the prefixes of all examples into *blocks* of equal size, each of one example, so that the
decoder reads the states of a text once for a block and not once for a prefix. All that indexes is computed here: on
the device nothing depends on values, so nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bonafide.tasks.discrete.options import DATE_KINDS, FIRST_DATE, Integers, Options
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.prefixes import Prefixes
from bonafide.tasks.discrete.program import ActionKind
from bonafide.tasks.discrete.windows import Cut, Windows

NUMBER, DATE_FIRST, DATE_LAST, START, END = range(5)
"""What a piece of text can be for an option that points at it."""
ROLES = 5
_POINTERS = (
    ActionKind.NUMBER,
    ActionKind.QUESTION_NUMBER,
    ActionKind.START,
    ActionKind.QUESTION_START,
    ActionKind.END,
    ActionKind.QUESTION_END,
)
_FIRST_DATE_TAG = FIRST_DATE + len(_POINTERS)
FIRST_CONSTANT_TAG = _FIRST_DATE_TAG + 8
"""Tags are what is learned of an option as such: operators and CLOSE, kinds of pointers, which parts a date says, and
constants; the last one is that of the beginning of a program."""

_BLOCK_SIZES = (4, 8, 16, 32, 64, 128)
_BLOCK_COST = 24
"""What a block costs besides its prefixes, in prefixes."""
_CHUNK = 1 << 24
"""The most scores of options, or of pieces, that are held at once."""


@dataclass(frozen=True, eq=False)
class Features:
    """One example as the solver reads it; see the module's docstring."""

    windows: Windows
    options: Options
    pointers: npt.NDArray[np.int32]  # (options, 2): into (pieces of the text, roles); −1 for none
    tags: npt.NDArray[np.int32]  # (options,)
    prefixes: Prefixes

    @property
    def cost(self) -> int:
        """How many pieces are read."""
        return sum(map(len, self.windows.rows))

    @property
    def unreachable(self) -> int:
        """How many solutions the solver cannot produce."""
        return int((~self.prefixes.reachable).sum())

    @property
    def shortened(self) -> bool:
        """Whether something of it was cut."""
        return self.windows.cut != Cut()

    def written(self) -> Integers:
        """(solutions,): options of each program."""
        lengths: Integers = (self.prefixes.paths >= 0).sum(axis=1)
        return lengths

    def only(self, first: int, stop: int) -> Features:
        """The same with the programs from ``first`` to before ``stop`` alone."""
        return replace(self, prefixes=self.prefixes.only(first, stop))


@dataclass(frozen=True, eq=False)
class SolverBatch:
    """Padded inputs, prefixes in blocks, and all solutions end to end; ``offsets`` groups these by example."""

    features: tuple[Features, ...]
    chunks: tuple[tuple[int, int, int, int], ...]  # blocks [from, to) and edges [from, to) that fit into memory
    pieces: Tensor  # (windows, pieces)
    shared: Tensor  # (windows, pieces): the number of the piece's word among those in both texts, or 0
    piece_counts: Tensor  # (windows,)
    question_pieces: Tensor  # (windows,)
    text: Tensor  # (examples, pieces of the text): into (windows, pieces)
    text_counts: Tensor  # (examples,)
    pointers: Tensor  # (examples, options, 2): into (pieces of the text, roles); the place after them for none
    tags: Tensor  # (examples, options)
    date_table: Tensor  # (examples, kinds of dates, options)
    block_example: Tensor  # (blocks,)
    node_option: Tensor  # (blocks, size): into (examples, options); the place after them for the beginning
    node_depth: Tensor  # (blocks, size)
    node_ancestors: Tensor  # (blocks, size, most depth + 1): itself, its parent, …; 0 after the root
    node_allowed: Tensor  # (blocks, size, 6)
    edge_node: Tensor  # (edges,): into (blocks, size), ascending
    edge_option: Tensor  # (edges,)
    paths: Tensor  # (solutions, most actions): into the edges; their number after the end
    reachable: Tensor  # (solutions,)
    offsets: Tensor  # (examples + 1,)

    def __len__(self) -> int:
        return len(self.features)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same in memory from which a copy to a GPU need not be waited for."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Any) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(value) for name, value in values.items() if isinstance(value, Tensor)})


def make_features(reading: Reading, windows: Windows, options: Options, prefixes: Prefixes) -> Features:
    """Find the pieces that stand for each option."""
    passage, question = windows.passage, windows.question
    dates = reading.passage.dates[: int(options.dates[0])]
    numbers = [number.first for number in reading.passage.numbers[: int(options.numbers[0])]]
    others = [number.first for number in reading.question.numbers[: int(options.question_numbers[0])]]
    counts, bases = options.counts[:, 0], options.bases[:, 0]
    total = int(options.total[0])
    pointers = np.full((total, 2), -1, dtype=np.int32)
    tags = np.zeros(total, dtype=np.int32)
    tags[:FIRST_DATE] = np.arange(FIRST_DATE)

    def rows(kind: ActionKind) -> slice:
        return slice(int(bases[kind]), int(bases[kind] + counts[kind]))

    for kind, role, pieces in (
        (ActionKind.NUMBER, NUMBER, _places(passage, numbers, 0)),
        (ActionKind.QUESTION_NUMBER, NUMBER, _places(question, others, 0)),
        (ActionKind.START, START, passage[:, 0]),
        (ActionKind.QUESTION_START, START, question[:, 0]),
        (ActionKind.END, END, passage[:, 1]),
        (ActionKind.QUESTION_END, END, question[:, 1]),
    ):
        pointers[rows(kind), 0] = pieces * ROLES + role
        tags[rows(kind)] = FIRST_DATE + _POINTERS.index(kind)
    pointers[rows(ActionKind.DATE_MENTION), 0] = (
        _places(passage, [date.first for date in dates], 0) * ROLES + DATE_FIRST
    )
    pointers[rows(ActionKind.DATE_MENTION), 1] = _places(passage, [date.last for date in dates], 1) * ROLES + DATE_LAST
    tags[rows(ActionKind.DATE_MENTION)] = _FIRST_DATE_TAG + (options.date_bits[0, : len(dates)] & 7)
    tags[rows(ActionKind.CONSTANT)] = FIRST_CONSTANT_TAG + np.arange(counts[ActionKind.CONSTANT])
    return Features(windows, options, pointers, tags, prefixes)


def collate(features: Sequence[Features], pad_piece: int) -> SolverBatch:
    """A batch on the CPU."""
    rows = [row for each in features for row in each.windows.rows]
    longest = _rounded(max(map(len, rows)))
    first_row = np.cumsum([0, *(len(each.windows.rows) for each in features)])
    text = [
        (place + each.windows.places[:, 0]) * longest + each.windows.places[:, 1]
        for place, each in zip(first_row.tolist(), features, strict=False)
    ]
    text_length = _rounded(max(map(len, text)))
    total = _rounded(max(int(each.options.total[0]) for each in features))
    pointers = [np.where(each.pointers >= 0, each.pointers, text_length * ROLES).astype(np.int64) for each in features]
    tables = np.zeros((len(features), DATE_KINDS, total), dtype=np.bool_)
    for table, each in zip(tables, features, strict=True):
        table[:, : int(each.options.total[0])] = each.options.date_table()
    trees = [each.prefixes for each in features]
    arrays = {
        "pieces": _padded(rows, longest, pad_piece),
        "shared": _padded([row for each in features for row in each.windows.shared], longest, 0),
        "piece_counts": np.array([len(row) for row in rows]),
        "question_pieces": np.repeat(
            [each.windows.question_pieces for each in features], [len(each.windows.rows) for each in features]
        ),
        "text": _padded(text, text_length, 0),
        "text_counts": np.array([len(each) for each in text]),
        "pointers": _padded(pointers, total, text_length * ROLES),
        "tags": _padded([each.tags.astype(np.int64) for each in features], total, 0),
        "date_table": tables,
        "reachable": np.concatenate([tree.reachable for tree in trees]),
        "offsets": np.cumsum([0, *(len(tree.reachable) for tree in trees)]),
        **_blocks(trees, total),
    }
    chunks = _chunks(arrays["node_option"].shape, arrays["edge_node"], max(total, text_length))
    return SolverBatch(tuple(features), chunks, **{name: torch.from_numpy(array) for name, array in arrays.items()})


def _blocks(trees: Sequence[Prefixes], options: int) -> dict[str, npt.NDArray[Any]]:
    """The fields of :class:`SolverBatch` from ``block_example`` to ``paths``."""
    sizes = np.array([len(tree.parent) if len(tree.reachable) else 0 for tree in trees])
    size = min(_BLOCK_SIZES, key=lambda each: int((-(-sizes // each)).sum()) * (each + _BLOCK_COST))
    blocks = -(-sizes // size)
    first = (np.cumsum(blocks) - blocks) * size
    count = int(blocks.sum()) * size
    beginning = len(trees) * options
    node_option, depth = np.full(count, beginning, dtype=np.int64), np.zeros(count, dtype=np.int64)
    parent = np.full(count, -1, dtype=np.int64)
    allowed = np.tile(np.array([0, 0, 1, 0, -1, -1]), (count, 1))  # padding: CLOSE, so that a softmax has something
    edge_nodes, edge_options, paths = [], [], []
    edges = 0
    for place, tree in enumerate(trees):
        if not sizes[place]:
            continue  # nothing to score: a question to be answered
        nodes = slice(int(first[place]), int(first[place]) + len(tree.parent))
        node_option[nodes] = np.where(tree.option >= 0, place * options + tree.option, beginning)
        parent[nodes] = np.where(tree.parent >= 0, first[place] + tree.parent, -1)
        depth[nodes], allowed[nodes] = tree.depth, tree.allowed
        edge_nodes.append(first[place] + tree.edge_node)
        edge_options.append(tree.edge_option)
        paths.append(np.where(tree.paths >= 0, edges + tree.paths, -1))
        edges += len(tree.edge_node)
    most, deepest = max((path.shape[1] for path in paths), default=0), int(depth.max(initial=0))
    path = np.concatenate([np.zeros((0, most), dtype=np.int64), *(_wide(each, most) for each in paths)])
    none = np.zeros(0, dtype=np.int64)
    return {
        "block_example": np.repeat(np.arange(len(trees)), blocks),
        "node_option": node_option.reshape(-1, size),
        "node_depth": depth.reshape(-1, size),
        "node_ancestors": _ancestors(parent, deepest).reshape(-1, size, deepest + 1),
        "node_allowed": allowed.reshape(-1, size, 6),
        "edge_node": np.concatenate([*edge_nodes, none]),
        "edge_option": np.concatenate([*edge_options, none]),
        "paths": np.where(path >= 0, path, edges),
    }


def _places(tokens: Integers, which: Sequence[int], end: int) -> Integers:
    places: Integers = tokens[np.array(which, dtype=np.int64), end]
    return places


def _ancestors(parent: Integers, depth: int) -> Integers:
    """(nodes, depth + 1): each node, its parent, the parent of that, …; 0 after the root."""
    found = np.zeros((len(parent), depth + 1), dtype=np.int64)
    at = np.arange(len(parent))
    for step in range(depth + 1):
        found[:, step] = at.clip(min=0)
        at = np.where(at >= 0, parent[at], -1)
    return found


def _chunks(shape: tuple[int, ...], edge_node: Integers, width: int) -> tuple[tuple[int, int, int, int], ...]:
    blocks, size = shape
    step = max(1, _CHUNK // (size * width))
    starts = list(range(0, blocks, step))
    ends = [min(start + step, blocks) for start in starts]
    edges = np.searchsorted(edge_node, [start * size for start in (*starts, blocks)]).tolist()
    return tuple(
        (start, end, edges[place], edges[place + 1])
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def _rounded(length: int) -> int:
    return -(-length // 8) * 8  # few different shapes: allocator and kernels


def _wide(array: Integers, width: int) -> Integers:
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=-1)


def _padded(arrays: Sequence[npt.NDArray[Any]], length: int, value: object) -> npt.NDArray[Any]:
    """(arrays, length, …): each array, and ``value`` after its end."""
    out = np.full((len(arrays), length, *arrays[0].shape[1:]), value, dtype=arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return out
