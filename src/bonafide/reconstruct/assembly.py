"""Chosen solutions of some examples, put together from their layouts: token ids, windows, placeholders (numpy).

A placeholder attends to its span of the context and to nothing else, so its state depends on the span and on its
position alone. Equal placeholders of different solutions are therefore kept once.

What does not fit the checkpoint's positions: if an example's context and its longest solution are too long together,
its solutions are given windows of the context that hold their spans, one window for all solutions that fit in it. The
windows are those of all of Z, whichever solutions are chosen, so that a solution's score is the same in any company;
scores of solutions in different windows differ by what the windows say of the question too. ``windowed`` counts the
solutions concerned, ``cut`` those that lost a span or their own end even so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bonafide.arrays import Indices, offsets, ranges
from bonafide.reconstruct.layout import Integers, Layout


@dataclass(frozen=True, slots=True)
class Markers:
    """The ids of the markers, and how many positions the checkpoint has."""

    begin: int  # <s>
    end: int  # </s>
    padding: int
    start: int  # what the decoder starts with
    solution: int  # <sol>
    positions: int


@dataclass(frozen=True, eq=False)
class Assembly:
    """Solutions in the order asked for; context streams as they will be encoded."""

    markers: Markers
    layouts: tuple[Layout, ...]
    example: Indices  # (solutions,)
    context: Indices  # (solutions,): which context stream
    starts: Indices  # (solutions + 1,): where a solution's stream starts in tokens
    tokens: Integers  # (tokens,)
    placeholder: Indices  # (tokens,): which placeholder; −1 for every other token
    stream_example: Indices  # (context streams,), the longest first
    stream_low: Indices  # (context streams,): the window [low, high) of the example's context tokens
    stream_high: Indices
    placeholder_stream: Indices  # (placeholders,), ascending
    placeholder_low: Indices  # (placeholders,): [low, high) in the context stream, <s> counted
    placeholder_high: Indices
    placeholder_position: Indices
    windowed: int
    cut: int

    def __len__(self) -> int:
        return len(self.example)

    @cached_property
    def lengths(self) -> Indices:
        """(solutions,): tokens of each solution stream, ``<sol>`` included; 0 for no solution."""
        return np.diff(self.starts)

    @cached_property
    def stream_lengths(self) -> Indices:
        """(context streams,): tokens of each, ``<s>`` and ``</s>`` included."""
        return self.stream_high - self.stream_low + 2


def assemble(layouts: Sequence[Layout], chosen: Sequence[npt.ArrayLike], markers: Markers) -> Assembly:
    """The chosen solutions of each layout (indices into its composition; −1 asks for no solution: log P(q | d))."""
    picks = [np.asarray(pick, np.int64).reshape(-1) for pick in chosen]
    example = np.repeat(np.arange(len(layouts)), [len(pick) for pick in picks])
    starts, tokens, span = _join_segments(layouts, picks, markers.solution)
    starts, tokens, span, shortened = _shorten(starts, tokens, span, markers.positions // 2)
    owner = np.repeat(np.arange(len(example)), np.diff(starts))

    span_base = offsets([len(layout.spans) for layout in layouts])
    every_span = np.concatenate([np.zeros((0, 2), np.int64), *[layout.spans for layout in layouts]])
    windows = _Windows()
    context = np.zeros(len(example), np.int64)
    row_base = offsets([len(pick) for pick in picks])
    lengths = np.diff(starts)
    cut = shortened.copy()
    windowed = np.zeros(len(example), bool)
    for place, layout in enumerate(layouts):
        rows = slice(row_base[place], row_base[place + 1])
        longest = min(_longest(layout, markers.positions - 2 - len(layout.context)), markers.positions // 2)
        if len(layout.context) + 2 + longest <= markers.positions:
            context[rows] = windows.whole(place, len(layout.context))
            continue
        room = min(markers.positions - 2 - longest, len(layout.context))
        context[rows], lost = windows.cut(place, layout, picks[place], room)
        cut[rows] |= lost
        windowed[rows] = True

    stream_example, stream_low, stream_high = windows.arrays()
    longest_first = np.argsort(stream_low - stream_high, kind="stable")
    context = np.argsort(longest_first)[context] if len(context) else context
    stream_example, stream_low, stream_high = (
        each[longest_first] for each in (stream_example, stream_low, stream_high)
    )
    found = span >= 0
    # A placeholder is known by its stream, its span and its place in the solution.
    per_stream = offsets(np.diff(span_base)[stream_example])
    local = span[found] - span_base[example[owner[found]]] + per_stream[context[owner[found]]]
    column = (np.arange(len(tokens)) - np.repeat(starts[:-1], lengths))[found]
    columns = int(column.max(initial=0)) + 1
    keys = local * columns + column
    present = np.zeros(int(per_stream[-1]) * columns, bool)
    present[keys] = True
    unique = np.flatnonzero(present)
    placeholder = np.full(len(tokens), -1, np.int64)
    placeholder[found] = (np.cumsum(present) - 1)[keys]

    stream = np.searchsorted(per_stream, unique // columns, side="right") - 1
    ranges = every_span[unique // columns - per_stream[stream] + span_base[stream_example[stream]]]
    width = stream_high[stream] - stream_low[stream]
    # A span outside its window (counted in ``cut``) falls on the window's </s> or its first token.
    low = np.clip(ranges[:, 0] - stream_low[stream], 0, width) + 1
    high = np.clip(ranges[:, 1] - stream_low[stream] + 1, low + 1, width + 2)
    return Assembly(
        markers=markers,
        layouts=tuple(layouts),
        example=example,
        context=context,
        starts=starts,
        tokens=tokens,
        placeholder=placeholder,
        stream_example=stream_example,
        stream_low=stream_low,
        stream_high=stream_high,
        placeholder_stream=stream,
        placeholder_low=low,
        placeholder_high=high,
        placeholder_position=width + 2 + unique % columns,
        windowed=int(windowed.sum()),
        cut=int(cut.sum()),
    )


def _join_segments(
    layouts: Sequence[Layout], picks: Sequence[Indices], solution_token: int
) -> tuple[Indices, Integers, Indices]:
    """Solution streams ``<sol> z``: starts (solutions + 1,), tokens, and each token's span in the list of all spans."""
    tokens = np.concatenate([np.zeros(0, np.int32), *[layout.tokens for layout in layouts]])
    span_base = offsets([len(layout.spans) for layout in layouts])
    spans = np.concatenate(
        [
            np.zeros(0, np.int64),
            *[
                np.where(layout.placeholders >= 0, layout.placeholders + base, -1)
                for layout, base in zip(layouts, span_base[:-1], strict=True)
            ],
        ]
    )
    token_base = offsets([len(layout.tokens) for layout in layouts])
    segment_base = offsets([len(layout.starts) - 1 for layout in layouts])
    segment_start = np.concatenate(
        [
            np.zeros(0, np.int64),
            *[layout.starts[:-1] + base for layout, base in zip(layouts, token_base[:-1], strict=True)],
        ]
    )
    segment_length = np.concatenate([np.zeros(0, np.int64), *[np.diff(layout.starts) for layout in layouts]])

    total = sum(len(pick) for pick in picks)
    composition = np.full((total, max((layout.composition.shape[1] for layout in layouts), default=0)), -1, np.int64)
    row = 0
    for layout, pick, base in zip(layouts, picks, segment_base[:-1], strict=True):
        if layout.composition.size:
            part = layout.composition[pick]  # −1 reads the last row, which the next line blanks
            part = np.where((part >= 0) & (pick >= 0)[:, None], part + base, -1)
            composition[row : row + len(pick), : part.shape[1]] = part
        row += len(pick)

    present = np.concatenate([np.zeros(0, bool), *[pick >= 0 for pick in picks]])
    used = composition >= 0
    lengths = np.where(used, segment_length[composition] if len(segment_length) else 0, 0)
    starts = offsets(lengths.sum(axis=1) + present)
    segment, length = composition[used], lengths[used]
    target = offsets(length)[:-1] + np.cumsum(present)[np.nonzero(used)[0]]  # one <sol> for each solution so far
    source = ranges(segment_start[segment], length)
    target = ranges(target, length)
    joined = np.full(starts[-1], solution_token, np.int32)
    joined[target] = tokens[source]
    span = np.full(starts[-1], -1, np.int64)
    span[target] = spans[source]
    return starts, joined, span


def _shorten(
    starts: Indices, tokens: Integers, span: Indices, most: int
) -> tuple[Indices, Integers, Indices, npt.NDArray[np.bool_]]:
    """Cut solution streams that would leave less than half of the positions to the context."""
    lengths = np.diff(starts)
    long = lengths > most
    if not long.any():
        return starts, tokens, span, long
    kept = ranges(starts[:-1], np.minimum(lengths, most))
    return offsets(np.minimum(lengths, most)), tokens[kept], span[kept], long


def _longest(layout: Layout, fits: int) -> int:
    """Tokens of the longest solution with its ``<sol>``; 0 without; perhaps more, where even that ``fits``."""
    lengths = np.diff(layout.starts)
    most = layout.composition.shape[1] * int(lengths.max(initial=0)) + 1 if len(layout) else 0
    if most <= fits:
        return most
    used = layout.composition >= 0
    return int(np.where(used, lengths[layout.composition] if len(lengths) else 0, 0).sum(axis=1).max(initial=0)) + 1


def _reach(layout: Layout) -> tuple[Indices, Indices]:
    """(solutions,): the first and one past the last context token that its spans refer to; (0, 0) without."""
    length, segments = len(layout.context), len(layout.starts) - 1
    found = np.flatnonzero(layout.placeholders >= 0)
    segment = np.searchsorted(layout.starts, found, side="right") - 1
    spans = layout.spans[layout.placeholders[found]]
    first, last = np.full(segments + 1, length, np.int64), np.zeros(segments + 1, np.int64)  # no segment: the last one
    np.minimum.at(first, segment, spans[:, 0])
    np.maximum.at(last, segment, np.minimum(spans[:, 1], length))
    low = first[layout.composition].min(axis=1, initial=length)
    high = last[layout.composition].max(axis=1, initial=0)
    return np.minimum(low, high), high


class _Windows:
    """The context streams found so far."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, int]] = []

    def whole(self, example: int, length: int) -> int:
        self.found.append((example, 0, length))
        return len(self.found) - 1

    def cut(self, example: int, layout: Layout, pick: Indices, width: int) -> tuple[Indices, npt.NDArray[np.bool_]]:
        """The window of each solution picked, and whether its spans do not fit in one; the first for no solution."""
        low, high = _reach(layout)
        begins = np.append(_begins(low, high, len(layout.context), width), 0)
        lost = np.append(high - low > width, False)
        needed, stream = np.unique(begins[pick], return_inverse=True)
        base = len(self.found)
        self.found += [(example, begin, begin + width) for begin in needed.tolist()]
        return base + stream, lost[pick]

    def arrays(self) -> tuple[Indices, Indices, Indices]:
        table = np.array(self.found, np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def _begins(low: Indices, high: Indices, length: int, width: int) -> Indices:
    """(solutions,): where the window of each begins, greedily from the left."""
    order = np.argsort(low, kind="stable")
    begins = np.zeros(len(low), np.int64)
    place = 0
    while place < len(order):
        first = low[order[place]]
        ahead = order[place:]
        fits = high[ahead] <= first + width
        fits[0] = True
        count = len(fits) if fits.all() else int(np.argmin(fits))
        members = ahead[:count]
        reach = min(int(high[members].max()), int(first) + width)
        begins[members] = int(np.clip((first + reach - width) // 2, 0, length - width))  # spans in the middle
        place += count
    return begins
