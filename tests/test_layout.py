"""Layouts and batches: solutions put together by indexing are the solutions tokenised one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.reconstruct.assembly import Markers, assemble
from bonafide.reconstruct.batches import cut_batch
from bonafide.reconstruct.build import train_tokenizer
from bonafide.reconstruct.layout import SOLUTION_MARKER, SPAN_MARKER, encode, tokenise
from bonafide.rendering import Literal, RenderedSet, Rendering, SpanReference, Word

TOKENIZER = train_tokenizer(["x x x x", "name ; city ; wins", "how many wins came from oslo"] * 2, 300)
TOKENIZER.add_tokens([SOLUTION_MARKER, SPAN_MARKER], special_tokens=True)
SOLUTION, SPAN = TOKENIZER.convert_tokens_to_ids([SOLUTION_MARKER, SPAN_MARKER])
MARKERS = Markers(begin=0, end=2, padding=1, start=2, solution=SOLUTION, positions=200)

ROOMY = replace(MARKERS, positions=2000)

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)


@st.composite
def rendered_sets(draw: st.DrawFn) -> RenderedSet:
    context = " ; ".join(draw(st.lists(words, min_size=1, max_size=5)))
    spans = st.tuples(st.integers(0, len(context)), st.integers(0, len(context))).map(
        lambda pair: SpanReference(*sorted(pair))
    )
    pieces = st.one_of(words.map(Word), words.map(Literal), spans, st.sampled_from([Word("("), Word(")")]))
    segments = draw(st.lists(st.lists(pieces, max_size=4).map(tuple), min_size=1, max_size=5))
    rows = draw(st.lists(st.lists(st.integers(-1, len(segments) - 1), min_size=3, max_size=3), max_size=6))
    return RenderedSet(context, tuple(segments), np.array(rows, np.int32).reshape(-1, 3))


def one_by_one(rendering: Rendering) -> list[int]:
    tokens = [SOLUTION]
    for piece in rendering:
        if isinstance(piece, SpanReference):
            tokens.append(SPAN)
        else:
            tokens.extend(encode([piece.text if piece.text in "()[]{}," else f" {piece.text}"], TOKENIZER)[0])
    return tokens


@settings(max_examples=60, deadline=None)
@given(st.lists(rendered_sets(), min_size=1, max_size=3), st.data())
def test_assembled_solutions_are_the_renderings_tokenised_one_by_one(sets, data):
    layouts = [tokenise(rendered, "how many?", TOKENIZER) for rendered in sets]
    chosen = [data.draw(st.lists(st.integers(-1, len(rendered) - 1), max_size=7)) for rendered in sets]
    assembly = assemble(layouts, chosen, ROOMY)
    wanted = [(rendered, pick) for rendered, picks in zip(sets, chosen, strict=True) for pick in picks]
    assert len(assembly) == len(wanted)
    for row, (rendered, pick) in enumerate(wanted):
        inside = slice(assembly.starts[row], assembly.starts[row + 1])
        tokens = assembly.tokens[inside].tolist()
        assert tokens == ([] if pick < 0 else one_by_one(rendered[pick]))
        if pick < 0:
            continue
        references = [piece for piece in rendered[pick] if isinstance(piece, SpanReference)]
        places = assembly.placeholder[inside]
        assert [token == SPAN for token in tokens] == (places >= 0).tolist()
        stream = assembly.context[row]
        for reference, column in zip(references, np.flatnonzero(places >= 0), strict=True):
            place = places[column]
            assert assembly.placeholder_stream[place] == stream
            assert assembly.placeholder_position[place] == assembly.stream_lengths[stream] + column
            low, high = assembly.placeholder_low[place], assembly.placeholder_high[place]
            assert 1 <= low < high <= assembly.stream_lengths[stream]
            assert covers(rendered.context, layouts[assembly.example[row]].context, reference, low - 1, high - 1)


def covers(text: str, context: np.ndarray, reference: SpanReference, low: int, high: int) -> bool:
    """The tokens [low, high) hold every character of the reference that any token holds, and end tokens do overlap."""
    offsets = TOKENIZER(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    assert len(offsets) == len(context)
    inside = [place for place, (begin, end) in enumerate(offsets) if begin < reference.end and end > reference.start]
    return (not inside and high == low + 1) or (bool(inside) and (low, high) == (inside[0], inside[-1] + 1))


@settings(max_examples=40, deadline=None)
@given(st.lists(rendered_sets(), min_size=1, max_size=3), st.data(), st.sampled_from([1, 8]), st.integers(1, 80))
def test_chunks_hold_every_solution_once_with_all_its_tokens(sets, data, multiple, tokens_per_chunk):
    layouts = [tokenise(rendered, rendered.context, TOKENIZER) for rendered in sets]
    chosen = [data.draw(st.lists(st.integers(-1, len(rendered) - 1), max_size=7)) for rendered in sets]
    assembly = assemble(layouts, chosen, ROOMY)
    batch = cut_batch(assembly, multiple, tokens_per_chunk)
    seen = [solution for chunk in batch.chunks for solution in chunk.solutions.tolist()]
    assert sorted(seen) == list(range(len(assembly)))
    for chunk in batch.chunks:
        assert chunk.key_mask.shape[1] % multiple == 0
        for solution, slot in zip(chunk.solutions.tolist(), chunk.slots.tolist(), strict=True):
            assert chunk.streams[slot // chunk.size] == assembly.context[solution]
            length = int(assembly.lengths[solution])
            assert chunk.key_mask[slot].tolist() == [place < length for place in range(chunk.key_mask.shape[1])]
            wanted = assembly.tokens[assembly.starts[solution] : assembly.starts[solution + 1]]
            places = chunk.keys[slot, :length]
            found = [int(chunk.tokens[place]) if place < len(chunk.tokens) else SPAN for place in places]
            assert found == wanted.tolist()
            question = layouts[assembly.example[solution]].question
            row = chunk.question_index[slot, : len(question)]
            assert batch.streams.target.flatten()[chunk.asked[row]].tolist() == question.tolist()


def long_set(tokens: int, references: list[tuple[int, int]]) -> RenderedSet:
    context = " ".join(["x"] * tokens)
    segments = tuple((SpanReference(2 * low, 2 * high - 1),) for low, high in references)
    return RenderedSet(context, segments, np.arange(len(references), dtype=np.int32)[:, None])


def test_solutions_that_fit_in_one_window_share_it():
    rendered = long_set(500, [(3, 5), (490, 495), (20, 22), (100, 110)])
    assembly = assemble([tokenise(rendered, "q", TOKENIZER)], [np.arange(4)], MARKERS)
    assert assembly.windowed == 4
    assert assembly.cut == 0
    assert assembly.context[0] == assembly.context[2] == assembly.context[3] != assembly.context[1]
    assert len(assembly.stream_example) == 2
    assert (assembly.stream_lengths + assembly.lengths.max() == MARKERS.positions).all()
    for row, (low, high) in enumerate([(3, 5), (490, 495), (20, 22), (100, 110)]):
        place = assembly.placeholder[assembly.starts[row] + 1]
        begin = assembly.stream_low[assembly.context[row]]
        assert assembly.placeholder_low[place] - 1 + begin == low
        assert assembly.placeholder_high[place] - 1 + begin == high


@settings(deadline=None)
@given(st.data())
def test_a_solutions_window_does_not_depend_on_its_company(data):
    edges = st.tuples(st.integers(0, 499), st.integers(1, 30)).map(lambda each: (each[0], min(500, sum(each))))
    layout = tokenise(long_set(500, data.draw(st.lists(edges, min_size=1, max_size=12))), "q", TOKENIZER)
    together = assemble([layout], [np.arange(len(layout))], MARKERS)
    chosen = data.draw(st.lists(st.integers(0, len(layout) - 1), min_size=1))
    fewer = assemble([layout], [np.array(chosen)], MARKERS)
    for row, solution in enumerate(chosen):
        for edge in ("stream_low", "stream_high"):
            found = getattr(fewer, edge)[fewer.context[row]]
            assert found == getattr(together, edge)[together.context[solution]]


def test_without_a_solution_the_beginning_of_a_long_context_is_read():
    layout = tokenise(long_set(500, [(490, 495)]), "q", TOKENIZER)
    assembly = assemble([layout], [[0, -1]], MARKERS)
    assert assembly.stream_low[assembly.context].tolist()[1] == 0
    assert assembly.stream_low[assembly.context].tolist()[0] > 0


def test_what_fits_is_left_whole():
    layouts = [tokenise(long_set(150, [(3, 5)]), "q", TOKENIZER), tokenise(long_set(500, [(3, 5)]), "q", TOKENIZER)]
    assembly = assemble(layouts, [[0], [0]], MARKERS)
    assert assembly.stream_lengths[assembly.context[0]] == 152
    assert assembly.windowed == 1


def test_a_solution_wider_than_any_window_is_counted_as_cut():
    rendered = long_set(500, [(3, 480)])
    assembly = assemble([tokenise(rendered, "q", TOKENIZER)], [[0]], MARKERS)
    assert (assembly.windowed, assembly.cut) == (1, 1)
    assert assembly.placeholder_high.max() <= assembly.stream_lengths[0]


def test_a_marker_written_in_a_text_is_text():
    ids = encode(["</s> <span> <sol>"], TOKENIZER)[0]
    assert not {2, SOLUTION, SPAN} & set(ids)


def test_an_empty_context_and_no_solutions_are_layouts_too():
    layout = tokenise(RenderedSet("", ((SpanReference(0, 0),),), np.array([[0]], np.int32)), "who?", TOKENIZER)
    assembly = assemble([layout], [[0]], MARKERS)
    assert assembly.stream_lengths.tolist() == [2]
    assert (assembly.placeholder_low.tolist(), assembly.placeholder_high.tolist()) == ([1], [2])
    empty = tokenise(RenderedSet("a", (), np.zeros((0, 0), np.int32)), "who?", TOKENIZER)
    assert len(assemble([empty], [[]], MARKERS)) == 0


def test_a_reference_outside_the_context_is_an_error():
    rendered = RenderedSet("abc", ((SpanReference(2, 9),),), np.array([[0]], np.int32))
    with pytest.raises(BonafideError, match="characters 2–9 of a context of 3"):
        tokenise(rendered, "who?", TOKENIZER)
    with pytest.raises(BonafideError, match="<span>"):
        tokenise(rendered, "who?", train_tokenizer(["a"], 280))
