"""Tensors for shared-context scoring: context streams once, solutions in chunks of blocks.

A *block* is up to ``size`` solutions of one context stream; in cross-attention a block shares the context's keys and
values. A *chunk* is some blocks that are run together; chunks keep memory in bounds however large Z is. Tokens are
kept packed, without padding, for everything but attention, which reads them through index tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bonafide.arrays import Indices, offsets, ranges
from bonafide.reconstruct.assembly import Assembly, Markers, assemble
from bonafide.reconstruct.layout import Layout
from bonafide.replay import grown, rounded

_RECORDED_TOKENS = 1 << 14
"""So many tokens of contexts are encoded together on a GPU, in one of few shapes."""
_RECORDED_WIDTHS = 64
"""Their widths are multiples of this."""
_TOGETHER = 1 << 9
"""So many tokens are worth a pass of their own on a CPU."""
TOKENS_PER_CHUNK = {"cuda": 1 << 17, "cpu": 1 << 13}


class _Movable:
    def to(self, device: torch.device | str) -> Self:
        """The same on another device; to a GPU in one copy for all, which is not waited for."""
        tensors = self.tensors()
        if torch.device(device).type != "cuda" or any(tensor.is_cuda for tensor in tensors):
            return self.holding(tensor.to(device) for tensor in tensors)
        places = offsets([-(-tensor.nbytes // 16) * 16 for tensor in tensors]).tolist()
        joined = torch.empty(places[-1], dtype=torch.uint8, pin_memory=True)
        parts = [slice(start, start + tensor.nbytes) for start, tensor in zip(places[:-1], tensors, strict=True)]
        for part, tensor in zip(parts, tensors, strict=True):
            joined[part].view(tensor.dtype).copy_(tensor.reshape(-1))
        moved = joined.to(device, non_blocking=True)
        return self.holding(
            moved[part].view(tensor.dtype).view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)
        )

    def tensors(self) -> list[Tensor]:
        """All of its tensors, those of its parts too."""
        found: list[Tensor] = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Tensor):
                    found.append(part)
                elif isinstance(part, _Movable):
                    found += part.tensors()
        return found

    def holding(self, tensors: Iterable[Tensor]) -> Self:
        """The same with these in place of its tensors, in the order of ``tensors``."""
        source = iter(tensors)

        def changed(value: Any) -> Any:
            if isinstance(value, Tensor):
                return next(source)
            if isinstance(value, tuple):
                return tuple(changed(part) for part in value)
            return value.holding(source) if isinstance(value, _Movable) else value

        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return replace(self, **{name: changed(getattr(self, name)) for name in names})  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring context streams with their placeholders."""

    rows: slice
    width: int  # the longest one's
    placeholders: slice


@dataclass(frozen=True, eq=False)
class Streams(_Movable):
    """What does not depend on which solutions are scored together: contexts, questions, placeholders."""

    padded: bool  # some context is shorter than the context width
    parts: tuple[Part, ...]  # contexts of like length, which are encoded together
    context: Tensor  # (context streams, context width): token ids
    context_mask: Tensor  # (context streams, context width): True on tokens
    question: Tensor  # (examples, question width): what the decoder reads
    target: Tensor  # (examples, question width): what it must say
    target_mask: Tensor  # (examples, question width)
    placeholder_position: Tensor  # (placeholders,)
    placeholder_keys: Tensor  # (placeholders, span width): index into the flattened context tokens
    placeholder_mask: Tensor  # (placeholders, span width)

    def part(self, part: Part) -> Streams:
        """These context streams alone, without padding that is not theirs."""
        if len(self.parts) == 1:
            return self
        keys, width = self.placeholder_keys[part.placeholders], self.context.shape[1]
        row = torch.div(keys, width, rounding_mode="floor")
        return replace(
            self,
            parts=(part,),
            context=self.context[part.rows, : part.width],
            context_mask=self.context_mask[part.rows, : part.width],
            placeholder_position=self.placeholder_position[part.placeholders],
            placeholder_keys=keys - row * (width - part.width) - part.rows.start * part.width,
            placeholder_mask=self.placeholder_mask[part.placeholders],
        )

    def of(self, rows: Tensor) -> Streams:
        """With these context streams alone, in this order; placeholders of other streams see what nobody reads."""
        total, width = self.context.shape
        new = torch.zeros(total, dtype=torch.long, device=rows.device)
        new = new.scatter(0, rows, torch.arange(len(rows), device=rows.device))  # of equal rows, any one
        old = torch.div(self.placeholder_keys[:, :1], width, rounding_mode="floor")
        return replace(
            self,
            parts=(Part(slice(0, len(rows)), width, slice(0, len(self.placeholder_keys))),),
            context=self.context[rows],
            context_mask=self.context_mask[rows],
            placeholder_keys=self.placeholder_keys + (new[old] - old) * width,
        )


@dataclass(frozen=True, eq=False)
class Chunk(_Movable):
    """Some blocks of solutions, in slots: slot = block · size + place in the block; some slots stay empty."""

    size: int  # solutions in a block
    context_width: int  # the longest context of these blocks
    padded: bool  # some context is shorter than that
    full: bool  # every slot holds a solution, every question has the full width: packed is padded
    straight: bool  # the blocks' contexts are the first context streams, in order: nothing to expand
    solutions: Tensor  # (solutions,): their places in the batch
    slots: Tensor  # (solutions,): their slots
    streams: Tensor  # (blocks,): each block's context stream
    tokens: Tensor  # (own tokens,): solution tokens that are no placeholders
    positions: Tensor  # (own tokens,)
    places: Tensor  # (own tokens,): index into (slots · solution width)
    keys: Tensor  # (slots, solution width): index into own tokens followed by all placeholders
    key_mask: Tensor  # (slots, solution width)
    asked: Tensor  # (question tokens,): index into (examples · question width)
    question_places: Tensor  # (question tokens,): index into (slots · chunk's question width)
    question_index: Tensor  # (slots, chunk's question width): index into question tokens


@dataclass(frozen=True, eq=False)
class Flat(_Movable):
    """The solutions of a batch as they were put together, to pick some of them on the device."""

    width: int  # the longest solution
    example: Tensor  # (solutions,)
    context: Tensor  # (solutions,): which context stream
    position: Tensor  # (solutions,): of the first token
    starts: Tensor  # (solutions + 1,)
    tokens: Tensor  # (tokens,)
    placeholder: Tensor  # (tokens,): which placeholder; −1 for every other token


@dataclass(frozen=True, eq=False)
class Batch(_Movable):
    """Chosen solutions of some examples; scores come in the order in which the solutions were chosen."""

    assembly: Assembly
    streams: Streams
    chunks: tuple[Chunk, ...]
    flat: Flat
    offsets: Tensor  # (examples + 1,): the solutions of each example

    def __len__(self) -> int:
        return len(self.assembly)

    @property
    def windowed(self) -> int:
        """How many solutions see a window of their context, because the whole does not fit the positions."""
        return self.assembly.windowed

    @property
    def cut(self) -> int:
        """How many solutions lost a span, or their own end, even so."""
        return self.assembly.cut

    def picked(self, solutions: Tensor) -> tuple[Streams, Chunk]:
        """These solutions (places in the batch) as one chunk, each a block of its own, and the streams it reads.

        It is made where ``solutions`` are, without asking the device which they are, and so with padding: for a few
        solutions that were drawn on the device. Each must have a stream (no −1 in ``chosen``).
        """
        flat, device = self.flat, solutions.device
        streams = self.streams.of(flat.context[solutions])
        asked = streams.question.shape[1]
        count, width = len(solutions), flat.width
        slots = torch.arange(count, device=device)
        column = torch.arange(width, device=device)
        start = flat.starts[solutions][:, None]
        inside = column < flat.starts[solutions + 1][:, None] - start
        token = torch.where(inside, start + column, start)
        places = torch.arange(count * width, device=device)
        placeholder = flat.placeholder[token]
        question_column = torch.arange(asked, device=device)
        question_places = torch.arange(count * asked, device=device)
        chunk = Chunk(
            size=1,
            context_width=streams.context.shape[1],
            padded=streams.padded,
            full=True,
            straight=True,
            solutions=slots,
            slots=slots,
            streams=slots,
            tokens=flat.tokens[token].flatten(),
            positions=torch.where(inside, flat.position[solutions][:, None] + column, 0).flatten(),
            places=places,
            keys=torch.where(placeholder >= 0, placeholder + count * width, places.view(count, width)),
            key_mask=inside,
            asked=(flat.example[solutions][:, None] * asked + question_column).flatten(),
            question_places=question_places,
            question_index=question_places.view(count, asked),
        )
        return streams, chunk


def make_batch(
    layouts: Sequence[Layout],
    chosen: Sequence[npt.ArrayLike],
    markers: Markers,
    device: torch.device | str = "cpu",
    tokens_per_chunk: int | None = None,
) -> Batch:
    """The batch on a device. On CUDA widths are multiples of 8, and what is recorded there has one of few shapes."""
    kind = torch.device(device).type
    assembly = assemble(layouts, chosen, markers)
    return cut_batch(
        assembly,
        multiple=1 if kind == "cpu" else 8,
        tokens_per_chunk=tokens_per_chunk or TOKENS_PER_CHUNK.get(kind, TOKENS_PER_CHUNK["cuda"]),
    ).to(device)


def cut_batch(assembly: Assembly, multiple: int, tokens_per_chunk: int) -> Batch:
    """Blocks and chunks of an assembly."""
    questions = [layout.question[: assembly.markers.positions] for layout in assembly.layouts]
    question_lengths = np.array([len(question) for question in questions], np.int64)
    streams = _streams(assembly, questions, few_shapes=multiple > 1)
    sizes = np.bincount(assembly.context, minlength=len(assembly.stream_example))
    size = _block_size(sizes)

    # Blocks: the solutions of a stream by length, so that those of a block are about as long.
    order = np.lexsort((assembly.lengths, assembly.context))
    owner = assembly.context[order]
    rank = np.arange(len(order)) - offsets(sizes)[owner]
    block = offsets(-(-sizes // size))[owner] + rank // size
    # Chunks: blocks of solutions, then of questions, then of contexts, of about the same length.
    stream_of_block = np.repeat(np.arange(len(sizes)), -(-sizes // size))
    question_of_block = question_lengths[assembly.stream_example[stream_of_block]]
    width_of_block = np.zeros(len(stream_of_block), np.int64)
    np.maximum.at(width_of_block, block, assembly.lengths[order])
    doublings = np.ceil(np.log2(np.maximum(width_of_block, 16)))
    by_length = np.lexsort((assembly.stream_lengths[stream_of_block], -(-question_of_block // 8), doublings))
    new_number = np.empty_like(by_length)
    new_number[by_length] = np.arange(len(by_length))
    stream_of_block = stream_of_block[by_length]
    block = new_number[block]
    by_block = np.argsort(block, kind="stable")
    order, rank, block = order[by_block], rank[by_block], block[by_block]

    edges = _edges(size, width_of_block[by_length], question_of_block[by_length], tokens_per_chunk)
    chunks = []
    for first, last in pairwise(edges):
        inside = slice(*np.searchsorted(block, [first, last]))
        chunks.append(
            _chunk(
                assembly,
                order[inside],
                (block[inside] - first) * size + rank[inside] % size,
                stream_of_block[first:last],
                size,
                question_lengths,
                streams.question.shape[1],
                multiple,
            )
        )
    by_example = np.bincount(assembly.example, minlength=len(assembly.layouts))
    longest = int(assembly.lengths.max(initial=0))
    flat = Flat(
        width=longest if multiple == 1 else grown(longest, 32, 4),
        example=torch.from_numpy(assembly.example),
        context=torch.from_numpy(assembly.context),
        position=torch.from_numpy(assembly.stream_lengths[assembly.context]),
        starts=torch.from_numpy(assembly.starts),
        tokens=torch.from_numpy(assembly.tokens.astype(np.int64)),
        placeholder=torch.from_numpy(assembly.placeholder),
    )
    return Batch(assembly, streams, tuple(chunks), flat, torch.from_numpy(offsets(by_example)))


def _edges(size: int, widths: Indices, questions: Indices, tokens_per_chunk: int) -> list[int]:
    """Where chunks of blocks begin and end: each as large as its padded tokens allow, and at least one block."""
    edges, width, asked = [0], 0, 0
    for place, (own, question) in enumerate(zip(widths.tolist(), questions.tolist(), strict=True)):
        width, asked = max(width, own), max(asked, question)
        if place > edges[-1] and (place + 1 - edges[-1]) * size * (width + asked) > tokens_per_chunk:
            edges.append(place)
            width, asked = own, question
    return [*edges, len(widths)] if len(widths) else []


def _block_size(sizes: Indices) -> int:
    """Few empty slots, few blocks: a block costs about three slots, for the context's keys and values."""
    costs = {size: int((-(-sizes // size)).sum()) * (size + 3) for size in (1, 2, 4, 8, 16, 32, 64)}
    return min(costs, key=lambda size: costs[size])


def _streams(assembly: Assembly, questions: list[npt.NDArray[np.int32]], few_shapes: bool) -> Streams:
    markers = assembly.markers
    lengths = assembly.stream_lengths
    low, high = assembly.placeholder_low, assembly.placeholder_high
    rows, width = len(lengths), int(lengths.max(initial=2))  # a context has two markers at least
    examples, asked = len(questions), max((len(question) for question in questions), default=1)
    placeholders, span = len(low), int((high - low).max(initial=1))
    if few_shapes:  # with rows and columns that nobody reads
        rows, width = rounded(rows, 8), min(rounded(width, _RECORDED_WIDTHS), markers.positions)
        examples, asked = rounded(examples, 8), min(grown(asked, 32), markers.positions)
        placeholders, span = grown(placeholders, 512), grown(span, 8, 4)

    own = lengths - 2
    context = np.full((rows, width), markers.padding, np.int64)
    context[: len(lengths), 0] = markers.begin
    context[np.arange(len(lengths)), lengths - 1] = markers.end
    base = offsets([len(layout.context) for layout in assembly.layouts])[assembly.stream_example]
    joined = np.concatenate([np.zeros(0, np.int32), *[layout.context for layout in assembly.layouts]])
    context.reshape(-1)[ranges(np.arange(len(own)) * width + 1, own)] = joined[ranges(base + assembly.stream_low, own)]

    target = np.full((examples, asked), markers.padding, np.int64)
    read = np.full((examples, asked), markers.padding, np.int64)
    target_mask = np.zeros((examples, asked), bool)
    counts = np.array([len(question) for question in questions], np.int64)
    place = ranges(np.arange(len(questions)) * asked, counts)
    target.reshape(-1)[place] = np.concatenate([np.zeros(0, np.int32), *questions])
    target_mask.reshape(-1)[place] = True
    read[:, 1:] = np.where(target_mask[:, 1:], target[:, :-1], markers.padding)
    read[: len(questions), 0] = np.where(counts > 0, markers.start, markers.padding)

    place = low[:, None] + np.arange(span)
    inside = place < high[:, None]
    keys = np.where(inside, place, low[:, None]) + assembly.placeholder_stream[:, None] * width
    more = placeholders - len(low)
    # Who sees nothing would be NaN: a padded row sees its first token, a padded placeholder that of the last row.
    length = np.append(lengths, np.ones(rows - len(lengths), np.int64))
    return Streams(
        padded=bool((length < width).any()),
        parts=_parts(length, assembly.placeholder_stream, placeholders, few_shapes, width),
        context=torch.from_numpy(context),
        context_mask=torch.from_numpy(np.arange(width) < length[:, None]),
        question=torch.from_numpy(read),
        target=torch.from_numpy(target),
        target_mask=torch.from_numpy(target_mask),
        placeholder_position=torch.from_numpy(np.pad(assembly.placeholder_position, (0, more))),
        placeholder_keys=torch.from_numpy(np.pad(keys, ((0, more), (0, 0)), constant_values=(rows - 1) * width)),
        placeholder_mask=torch.from_numpy(np.pad(inside, ((0, more), (0, 0)), constant_values=True)),
    )


def _parts(lengths: Indices, streams: Indices, placeholders: int, few_shapes: bool, widest: int) -> tuple[Part, ...]:
    """Cut the streams, longest first, into those that are encoded together."""
    rows = len(lengths)
    edges = _recorded_edges(lengths) if few_shapes else _like_edges(lengths)
    bounds = [*np.searchsorted(streams, edges).tolist(), placeholders]
    multiple = _RECORDED_WIDTHS if few_shapes else 1
    return tuple(
        Part(slice(first, last), min(_round_up(lengths[first], multiple), widest), slice(*placeholders_of))
        for (first, last), placeholders_of in zip(pairwise([*edges, rows]), pairwise(bounds), strict=True)
        if last > first
    )


def _like_edges(lengths: Indices) -> list[int]:
    """Cut where those that follow are shorter by a quarter and enough are together."""
    edges = [0]
    for row, length in enumerate(lengths.tolist()):
        longest = int(lengths[edges[-1]])
        before, after = (row - edges[-1]) * longest, (len(lengths) - row) * length
        if length <= 0.75 * longest and before >= _TOGETHER and after >= _TOGETHER:
            edges.append(row)
    return edges


def _recorded_edges(lengths: Indices) -> list[int]:
    """As many as ``_RECORDED_TOKENS`` allow: parts of one width have as many rows, but for the last."""
    edges = [0]
    while edges[-1] < len(lengths):
        fitting = _RECORDED_TOKENS // _round_up(lengths[edges[-1]], _RECORDED_WIDTHS)
        edges.append(edges[-1] + max(8, fitting // 8 * 8))
    return edges[:-1] if len(edges) > 1 else edges


def _chunk(
    assembly: Assembly,
    solutions: Indices,
    slots: Indices,
    streams: Indices,
    size: int,
    question_lengths: Indices,
    question_width: int,
    multiple: int,
) -> Chunk:
    slot_count = len(streams) * size
    lengths = assembly.lengths[solutions]
    width = _round_up(lengths.max(initial=0), multiple)
    token = ranges(assembly.starts[solutions], lengths)
    column = ranges(np.zeros_like(lengths), lengths)
    place = np.repeat(slots * width, lengths) + column
    placeholder = assembly.placeholder[token]
    own = placeholder < 0
    keys = np.zeros(slot_count * width, np.int64)
    keys[place] = np.where(own, np.cumsum(own) - 1, int(own.sum()) + placeholder)
    key_mask = np.zeros(slot_count * width, bool)
    key_mask[place] = True
    first_position = assembly.stream_lengths[assembly.context[solutions]]

    asked_lengths = question_lengths[assembly.example[solutions]]
    asked_width = _round_up(asked_lengths.max(initial=0), multiple)
    question_column = ranges(np.zeros_like(asked_lengths), asked_lengths)
    question_places = np.repeat(slots * asked_width, asked_lengths) + question_column
    question_index = np.zeros(slot_count * asked_width, np.int64)
    question_index[question_places] = np.arange(len(question_places))
    context_width = _round_up(assembly.stream_lengths[streams].max(initial=0), multiple)
    straight = bool((streams == np.arange(len(streams))).all())
    return Chunk(
        size=size,
        context_width=context_width,
        padded=bool((assembly.stream_lengths[streams] < context_width).any()),
        full=len(question_places) == slot_count * asked_width,
        straight=straight,
        solutions=torch.from_numpy(solutions),
        slots=torch.from_numpy(slots),
        streams=torch.from_numpy(streams),
        tokens=torch.from_numpy(assembly.tokens[token][own].astype(np.int64)),
        positions=torch.from_numpy((np.repeat(first_position, lengths) + column)[own]),
        places=torch.from_numpy(place[own]),
        keys=torch.from_numpy(keys.reshape(slot_count, width)),
        key_mask=torch.from_numpy(key_mask.reshape(slot_count, width)),
        asked=torch.from_numpy(
            np.repeat(assembly.example[solutions] * question_width, asked_lengths) + question_column
        ),
        question_places=torch.from_numpy(question_places),
        question_index=torch.from_numpy(question_index.reshape(slot_count, asked_width)),
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-int(number) // multiple) * multiple
