"""What the SQL solver reads of an example, and a batch of it.

:class:`Features` is numpy, made once per example and kept: the pieces of ``[CLS] question [SEP] header [SEP] …``,
where the question's tokens and the headers lie in them, what the language allows for each column, and the solution
set as integers. :func:`collate` pads a list of them and lays their solutions end to end, as indices into the
solver's tables, so that scoring all of them is a gather.

A value is a run of the *language's* tokens, not of the encoder's pieces: a run starts at the first piece of a token
and ends at the last piece of one. So each run is one span, no span lies outside the language, and the probabilities
of all runs sum to one whatever pieces the encoder uses. On a real column the runs are those that read as a number.

Nothing is dropped silently. An input that is too long keeps all columns if it can: headers are shortened first, then
the question, and the last columns go only if one piece a header is still too long; ``cut`` counts each. A solution
that needs what was cut, or that the solver has no slots for (two conditions on a column, an operator or aggregate
outside the language, a value that stands nowhere in the question), counts in ``unreachable`` and has log P = −inf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bonafide.encoders import special_pieces
from bonafide.errors import BonafideError
from bonafide.tasks.sql.language import Language, Span, question_runs, question_tokens
from bonafide.tasks.sql.query import Aggregate, Operator
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.tables import ColumnType, Table

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

AGGREGATES, OPERATORS = len(Aggregate), len(Operator)


@dataclass(frozen=True, slots=True)
class Cut:
    """What did not fit the encoder: pieces of the question, pieces of headers, whole columns."""

    question_pieces: int = 0
    header_pieces: int = 0
    columns: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class ValueRuns:
    """Values, and for each the runs (first and last token) where it stands: those from ``offsets[i]`` on."""

    values: tuple[str | float, ...]
    runs: Integers  # (runs, 2)
    offsets: Integers  # (values + 1,)


@dataclass(frozen=True, eq=False)
class Features:
    """One example as the solver reads it; see the module's docstring."""

    question: str
    pieces: Integers  # (pieces,): [CLS] question [SEP] header [SEP] header [SEP] …
    question_pieces: int
    headers: Integers  # (columns, 2): [start, end) in pieces; the same number twice for a column that was cut
    tokens: Integers  # (question tokens, 2): [start, end) in characters
    token_pieces: Integers  # (question tokens, 2): first and last piece; −1 where cut
    numbers: ValueRuns
    real: Booleans  # (columns,)
    aggregates: Booleans  # (columns, aggregates): what the language allows
    operators: Booleans  # (columns, operators): what the language allows, and has a value in the question for
    select: Integers  # (solutions,)
    aggregate: Integers  # (solutions,)
    where: Integers  # (solutions, most conditions): into the conditions, −1 where fewer
    condition_column: Integers  # (conditions,)
    condition_operator: Integers  # (conditions,)
    groundings: Integers  # (groundings, 2): first and last token
    grounding_offsets: Integers  # (conditions + 1,)
    reachable: Booleans  # (solutions,)
    cut: Cut

    @property
    def cost(self) -> int:
        """How many pieces are read."""
        return len(self.pieces)

    @property
    def unreachable(self) -> int:
        """How many solutions the solver cannot produce."""
        return int((~self.reachable).sum())

    @property
    def shortened(self) -> bool:
        """Whether something of it was cut."""
        return self.cut != Cut()

    @property
    def columns(self) -> int:
        """How many columns the table has, those that were cut included."""
        return len(self.headers)

    @cached_property
    def texts(self) -> ValueRuns:
        """Every run of the question as text; only decoding needs them."""
        return _value_runs(question_runs(self.question).texts, self.tokens, self.token_pieces)


@dataclass(frozen=True, eq=False)
class SolverBatch:
    """Padded inputs, and all solutions end to end as indices into flattened tables of log-probabilities.

    ``offsets`` groups solutions by example, ``condition_offsets`` groups groundings by condition.
    """

    features: tuple[Features, ...]
    pieces: Tensor  # (examples, pieces)
    piece_counts: Tensor  # (examples,)
    question_pieces: Tensor  # (examples,)
    headers: Tensor  # (examples, columns, 2)
    real: Tensor  # (examples, columns)
    aggregates: Tensor  # (examples, columns, aggregates)
    operators: Tensor  # (examples, columns, operators)
    sizes: Tensor  # (examples, numbers of conditions): which are possible
    token_pieces: Tensor  # (examples, question tokens, 2); −1 where there is none
    number_runs: Tensor  # (examples, runs, 2); −1 where there is none
    offsets: Tensor  # (examples + 1,)
    head: Tensor  # (solutions,): into (examples, columns, aggregates)
    size: Tensor  # (solutions,): into (examples, numbers of conditions)
    where: Tensor  # (solutions, most conditions): into the conditions; their number where there are fewer
    reachable: Tensor  # (solutions,)
    condition_column: Tensor  # (conditions,): into (examples, columns)
    condition_operator: Tensor  # (conditions,): into (examples, columns, operators)
    condition_offsets: Tensor  # (conditions + 1,)
    grounding_start: Tensor  # (groundings,): into (examples, columns, operators, question tokens)
    grounding_end: Tensor  # (groundings,): the same

    def __len__(self) -> int:
        return len(self.features)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same in memory from which a copy to a GPU need not be waited for."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Any) -> Self:
        tensors = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "features"}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items()})


def make_features(
    question: str,
    table: Table,
    queries: QuerySet | None,
    language: Language,
    tokenizer: Any,
    max_pieces: int,
) -> Features:
    """Tokenise an example and translate its solution set; ``queries=None`` is for prediction."""
    encoded = tokenizer([question, *table.header], add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    question_ids, *header_ids = encoded["input_ids"]
    kept, header_sizes, cut = _fit(len(question_ids), [len(ids) for ids in header_ids], max_pieces)
    start, end, separator = special_pieces(tokenizer)
    pieces = [start, *question_ids[:kept], end]
    headers = np.full((len(table.header), 2), len(pieces) - 1, dtype=np.int64)
    for column, size in enumerate(header_sizes):
        # A name that has no pieces is read at its separator.
        headers[column] = len(pieces), len(pieces) + max(size, 1)
        pieces += [*header_ids[column][:size], separator]
    tokens = np.array(question_tokens(question), dtype=np.int64).reshape(-1, 2)
    token_pieces = _token_pieces(tokens, np.array(encoded["offset_mapping"][0], dtype=np.int64).reshape(-1, 2), kept)
    numbers = _value_runs(question_runs(question).numbers, tokens, token_pieces)
    present = headers[:, 1] > headers[:, 0]
    real = np.array([kind == "real" for kind in table.types])
    aggregates, operators = _allowed(language, table.types)
    has_value = np.where(real, len(numbers.values) > 0, bool((token_pieces >= 0).any()))
    operators &= (present & has_value)[:, None]
    aggregates &= present[:, None]
    solutions = _solutions(queries, tokens, token_pieces, numbers, real, aggregates, operators, language)
    return Features(
        question, np.array(pieces, dtype=np.int64), kept, headers, tokens, token_pieces, numbers, real,
        aggregates, operators, *solutions, cut,
    )  # fmt: skip


def collate(
    features: Sequence[Features],
    max_conditions: int,
    pad_piece: int,
    keep: Sequence[Integers | None] | None = None,
) -> SolverBatch:
    """A batch; ``keep`` names, for each example, the solutions to score (None: all of them)."""
    chosen = [_kept(each, None if keep is None else keep[place]) for place, each in enumerate(features)]
    columns = max(each.columns for each in features)
    tokens = max(1, *(len(each.tokens) for each in features))
    longest = -(-max(len(each.pieces) for each in features) // 8) * 8  # few different shapes: allocator and kernels
    rows = np.arange(len(features))
    usable = np.array([int(each.operators.any(axis=1).sum()) for each in features])
    condition_counts = np.array([len(each.condition_column) for each in features])
    first_condition = np.cumsum(condition_counts) - condition_counts
    conditions = int(condition_counts.sum())
    column_index = [row * columns + each.condition_column for row, each in zip(rows, features, strict=True)]
    operator_index = [
        index * OPERATORS + each.condition_operator for index, each in zip(column_index, features, strict=True)
    ]
    span_index = [
        np.repeat(index, np.diff(each.grounding_offsets)) * tokens
        for index, each in zip(operator_index, features, strict=True)
    ]
    size_index, where = [], []
    most = max(each.where.shape[1] for each in features)
    for row, (each, kept) in enumerate(zip(features, chosen, strict=True)):
        mine = each.where[kept]
        present = mine >= 0
        wide = np.full((len(mine), most), conditions, dtype=np.int64)
        wide[:, : mine.shape[1]] = np.where(present, mine + first_condition[row], conditions)
        where.append(wide)
        size_index.append(row * (max_conditions + 1) + np.minimum(present.sum(axis=1), max_conditions))
    head_index = [
        (row * columns + each.select[kept]) * AGGREGATES + each.aggregate[kept]
        for row, each, kept in zip(rows, features, chosen, strict=True)
    ]
    arrays = {
        "pieces": _padded([each.pieces for each in features], longest, pad_piece),
        "piece_counts": np.array([len(each.pieces) for each in features]),
        "question_pieces": np.array([each.question_pieces for each in features]),
        "headers": _padded([each.headers for each in features], columns, 0),
        "real": _padded([each.real for each in features], columns, False),
        "aggregates": _padded([each.aggregates for each in features], columns, False),
        "operators": _padded([each.operators for each in features], columns, False),
        "sizes": np.arange(max_conditions + 1) <= usable[:, None],
        "token_pieces": _padded([each.token_pieces for each in features], tokens, -1),
        "number_runs": _padded(
            [each.numbers.runs for each in features], max(1, *(len(each.numbers.runs) for each in features)), -1
        ),
        "offsets": _offsets(len(head) for head in head_index),
        "head": np.concatenate(head_index),
        "size": np.concatenate(size_index),
        "where": np.concatenate(where),
        "reachable": np.concatenate([each.reachable[kept] for each, kept in zip(features, chosen, strict=True)]),
        "condition_column": np.concatenate(column_index),
        "condition_operator": np.concatenate(operator_index),
        "condition_offsets": _offsets(np.concatenate([np.diff(each.grounding_offsets) for each in features])),
        "grounding_start": np.concatenate(
            [index + each.groundings[:, 0] for index, each in zip(span_index, features, strict=True)]
        ),
        "grounding_end": np.concatenate(
            [index + each.groundings[:, 1] for index, each in zip(span_index, features, strict=True)]
        ),
    }
    return SolverBatch(tuple(features), **{name: torch.from_numpy(array) for name, array in arrays.items()})


def _fit(question: int, headers: list[int], most: int) -> tuple[int, list[int], Cut]:
    """How many pieces of the question and of each header (of the first columns) fit into ``most``."""
    room = most - 2  # [CLS] and the separator after the question
    if question + sum(headers) + len(headers) <= room:
        return question, headers, Cut()
    kept = min(question, max(room // 2, room - sum(min(size, 4) + 1 for size in headers)))
    left = room - kept
    each = max(headers)
    while each > 1 and sum(min(size, each) + 1 for size in headers) > left:
        each -= 1
    sizes = [min(size, each) for size in headers]
    while sizes and sum(sizes) + len(sizes) > left:
        sizes.pop()
    if not sizes:
        raise BonafideError(f"The encoder reads {most} pieces at most, which is too few for one column name.")
    kept = min(question, room - sum(sizes) - len(sizes))
    lost = sum(headers[: len(sizes)]) - sum(sizes)
    return kept, sizes, Cut(question - kept, lost, len(headers) - len(sizes))


def _token_pieces(tokens: Integers, offsets: Integers, kept: int) -> Integers:
    """The first and last piece of each token: pieces that overlap it; −1 where a piece of it was cut or none is."""
    overlaps = (offsets[None, :, 0] < tokens[:, None, 1]) & (offsets[None, :, 1] > tokens[:, None, 0])
    if not overlaps.shape[1]:
        return np.full((len(tokens), 2), -1, dtype=np.int64)
    first = overlaps.argmax(axis=1)
    last = overlaps.shape[1] - 1 - overlaps[:, ::-1].argmax(axis=1)
    known = overlaps.any(axis=1) & (last < kept)
    return np.where(known[:, None], np.stack([first, last], axis=1) + 1, -1)  # after [CLS]


def _value_runs(
    values: Mapping[str, list[Span]] | Mapping[float, list[Span]], tokens: Integers, token_pieces: Integers
) -> ValueRuns:
    """Values with the runs the solver can point at; a value that has none is left out."""
    known = (token_pieces[:, 0] >= 0).tolist()
    first = {start: place for place, (start, _) in enumerate(tokens.tolist()) if known[place]}
    last = {end: place for place, (_, end) in enumerate(tokens.tolist()) if known[place]}
    kept: list[str | float] = []
    runs: list[tuple[int, int]] = []
    sizes: list[int] = []
    for value, spans in values.items():
        mine = [(first[start], last[end]) for start, end in spans if start in first and end in last]
        if mine:
            kept.append(value)
            runs += mine
            sizes.append(len(mine))
    return ValueRuns(tuple(kept), np.array(runs, dtype=np.int64).reshape(-1, 2), _offsets(sizes))


def _allowed(language: Language, types: Sequence[ColumnType]) -> tuple[Booleans, Booleans]:
    """Which aggregates and which operators the language allows on columns of these types."""
    aggregates = np.array([[language.allows(aggregate, kind) for aggregate in Aggregate] for kind in types])
    operators = np.array(
        [
            [operator is Operator.EQUAL or kind == "real" or language.order_text for operator in Operator]
            for kind in types
        ]
    )
    return aggregates, operators


def _solutions(
    queries: QuerySet | None,
    tokens: Integers,
    token_pieces: Integers,
    numbers: ValueRuns,
    real: Booleans,
    aggregates: Booleans,
    operators: Booleans,
    language: Language,
) -> tuple[Integers, Integers, Integers, Integers, Integers, Integers, Integers, Booleans]:
    """The fields of :class:`Features` from ``select`` to ``reachable``."""
    grounded = () if queries is None else queries.conditions
    column = np.array([each.condition.column for each in grounded], dtype=np.int64)
    operator = np.array([each.condition.operator for each in grounded], dtype=np.int64)
    owner = np.repeat(np.arange(len(grounded)), np.array([len(each.spans) for each in grounded], dtype=np.int64))
    spans = np.array([span for each in grounded for span in each.spans], dtype=np.int64).reshape(-1, 2)
    # A span that does not begin or end with a token (another language's, or gold's) is the run that covers it.
    runs = np.stack(
        [np.searchsorted(tokens[:, 1], spans[:, 0], "right"), np.searchsorted(tokens[:, 0], spans[:, 1], "left") - 1],
        axis=1,
    )
    known: Booleans = np.append((token_pieces >= 0).all(axis=1), False)
    valid = (runs[:, 0] <= runs[:, 1]) & known[runs].all(axis=1)
    is_number = np.isin(runs @ [len(tokens) + 1, 1], numbers.runs @ [len(tokens) + 1, 1])
    valid &= is_number | ~real[column[owner]]
    groundings, owner = runs[valid], owner[valid]
    counts = np.bincount(owner, minlength=len(grounded))
    possible = (counts > 0) & operators[column, operator]
    select, aggregate, where = (
        (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
        if queries is None
        else (part.astype(np.int64) for part in (queries.select, queries.aggregate, queries.where))
    )
    used = np.sort(np.append(column, -1)[where], axis=1)  # (solutions, most conditions): their columns
    repeated = ((used[:, 1:] == used[:, :-1]) & (used[:, 1:] >= 0)).any(axis=1)
    reachable = (
        aggregates[select, aggregate]
        & np.append(possible, True)[where].all(axis=1)
        & ~repeated
        & ((where >= 0).sum(axis=1) <= language.max_conditions)
    )
    return select, aggregate, where, column, operator, groundings, _offsets(counts), reachable


def _kept(features: Features, keep: Integers | None) -> Integers:
    return np.arange(len(features.select)) if keep is None else np.asarray(keep, dtype=np.int64)


def _offsets(sizes: Iterable[int]) -> Integers:
    return np.cumsum(np.array([0, *sizes], dtype=np.int64))


def _padded(arrays: Sequence[npt.NDArray[Any]], length: int, value: object) -> npt.NDArray[Any]:
    """(arrays, length, …): each array, and ``value`` after its end."""
    out = np.full((len(arrays), length, *arrays[0].shape[1:]), value, dtype=arrays[0].dtype)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return out
