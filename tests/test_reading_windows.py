"""Windows hold every piece, and characters and pieces translate into each other, for several tokenizers."""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.pretrained import minilm_path
from bonafide.tasks.reading.matching import Matching, token_spans
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import Mention
from bonafide.tasks.reading.windows import (
    EncodedDocument,
    cut_windows,
    encode_document,
    encode_question,
    room_for_text,
    word_key,
)

CORPUS = [
    "The ferry to Tartu leaves at nine, and Ada Lund keeps the keys of the harbour office.",
    "Große Straßen, cafés, 1,200 men; “quotes” and e\u0301 – 東京, Ελλάδα, שלום.",
    "A window of pieces: wor·ds, won't, re-entry, 3.14159 and 10km.",
] * 4


def mention_of(encoded: EncodedDocument, first: int, stop: int) -> Mention:
    """The mention that a run of pieces is."""
    return Mention(*(int(each) for each in encoded.mentions_of(first, stop)))


def trained(kind: str) -> PreTrainedTokenizerFast:
    if kind == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    elif kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=200, unk_token="[UNK]", special_tokens=["[UNK]"], show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")


@cache
def tokenizer_of(kind: str):
    if kind == "minilm":
        try:
            return AutoTokenizer.from_pretrained(minilm_path())
        except BonafideError:
            pytest.skip("minilm is not installed")
    if kind == "wiki-bart-small":
        models_folder = os.environ.get("BONAFIDE_MODELS")
        if models_folder is None:
            pytest.skip("BONAFIDE_MODELS is not set: no model at hand")
        return AutoTokenizer.from_pretrained(Path(models_folder) / kind)
    return trained(kind)


KINDS = ["bytes", "unigram", "wordpiece", "minilm", "wiki-bart-small"]
every_tokenizer = pytest.mark.parametrize("kind", KINDS)
WORDS = [
    "the ",
    "harbour",
    " ",
    "  ",
    "e\u0301",
    "Ç",
    "😀",
    "👩‍👩‍👧",
    "東京",
    "שלום\u200f",
    "\u0301",
    "[SEP]",
    "</s>",
    "\n",
    "x",
    "1,200",
]
paragraphs = st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=25).map("".join)
documents = st.lists(paragraphs, min_size=1, max_size=3).map(lambda texts: Document("d", None, tuple(texts)))


@every_tokenizer
@given(document=documents, room=st.integers(1, 12), stride=st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_every_piece_is_in_a_window_and_no_window_is_too_long_or_crosses_a_paragraph(kind, document, room, stride):
    encoded = encode_document(document, tokenizer_of(kind))
    windows = cut_windows(encoded, room, stride)
    seen = np.zeros(len(encoded.pieces), bool)
    for window in range(len(windows)):
        first, stop = windows.first[window], windows.stop[window]
        assert 0 < stop - first <= room
        seen[first:stop] = True
        paragraph = windows.paragraph[window]
        assert encoded.offsets[paragraph] <= first < stop <= encoded.offsets[paragraph + 1]
        shown = mention_of(encoded, first, stop)
        assert (shown.paragraph, shown.start, shown.end) == (paragraph, windows.begin[window], windows.end[window])
    assert seen.all()
    same = windows.paragraph[1:] == windows.paragraph[:-1]
    assert (np.diff(windows.first)[same] == min(stride, room)).all()
    contained = (windows.stop[1:] <= windows.stop[:-1]) & same
    assert not contained.any()  # the last window of a paragraph shows something new


@every_tokenizer
@given(document=documents)
@settings(max_examples=80, deadline=None)
def test_a_piece_that_lies_in_a_word_knows_that_word_and_one_that_lies_in_none_knows_none(kind, document):
    encoded = encode_document(document, tokenizer_of(kind))
    for piece in range(len(encoded.pieces)):
        paragraph = int(np.searchsorted(encoded.offsets, piece, side="right")) - 1
        text = document.paragraphs[paragraph]
        begin, end = int(encoded.begin[piece]), int(encoded.end[piece])
        inside = {text[low:high] for low, high in token_spans(text) if low <= begin < end <= high}
        touched = {text[low:high] for low, high in token_spans(text) if low < end and begin < high}
        if inside:
            assert encoded.words[piece] == word_key(*inside)
        assert encoded.words[piece] in {0, *map(word_key, touched)}


@every_tokenizer
def test_a_question_has_the_words_of_its_pieces(kind):
    question = encode_question("Who keeps the Harbour office?", tokenizer_of(kind), most=500)
    assert list(dict.fromkeys(question.words.tolist())) == [
        word_key(word) for word in ("WHO", "keeps", "the", "harbour", "office")
    ]
    assert len(question.pieces) == len(question.words)
    assert (
        encode_question("Who keeps the Harbour office?", tokenizer_of(kind), most=2).words.tolist()
        == question.words[:2].tolist()
    )


@every_tokenizer
@given(document=documents, data=st.data())
@settings(max_examples=150, deadline=None)
def test_characters_become_the_shortest_run_of_pieces_that_covers_them(kind, document, data):
    encoded = encode_document(document, tokenizer_of(kind))
    paragraph = data.draw(st.integers(0, len(document.paragraphs) - 1))
    text = document.paragraphs[paragraph]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    low, high = encoded.offsets[paragraph : paragraph + 2]

    def sharing(one: int, other: int) -> list[int]:
        return [piece for piece in range(low, high) if max(encoded.begin[piece], one) < min(encoded.end[piece], other)]

    overlapping = sharing(start, end)
    run = encoded.run_of(Mention(paragraph, start, end))
    assert run == ((overlapping[0], overlapping[-1] + 1) if overlapping else None)
    if run is None:
        return
    shown = mention_of(encoded, *run)
    assert shown.start <= max(start, encoded.begin[run[0]])
    assert shown.end >= min(end, encoded.end[run[1] - 1])
    back = sharing(shown.start, shown.end)  # more than the run only where pieces share a character
    assert encoded.run_of(shown) == (back[0], back[-1] + 1)
    assert back[0] <= run[0]
    assert run[1] <= back[-1] + 1


@every_tokenizer
@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=25).map("".join))
@settings(max_examples=150, deadline=None)
def test_pieces_cover_characters_of_the_text_in_order(kind, text):
    encoded = encode_document(Document("d", None, (text,)), tokenizer_of(kind))
    assert (encoded.begin >= 0).all()
    assert (encoded.begin <= encoded.end).all()
    assert (encoded.end <= len(text)).all()
    assert (np.diff(encoded.begin) >= 0).all()
    assert (np.diff(encoded.end) >= 0).all()


@pytest.mark.parametrize("kind", ["bytes", "wiki-bart-small"])
@given(st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=25).map("".join))
@settings(max_examples=100, deadline=None)
def test_a_byte_level_tokenizer_covers_every_character_but_white_space(kind, text):
    encoded = encode_document(Document("d", None, (text,)), tokenizer_of(kind))
    for start, end in token_spans(text):
        mention = Mention(0, start, end)
        run = encoded.run_of(mention)
        assert run is not None
        shown = mention_of(encoded, *run)
        assert shown.start <= start
        assert shown.end >= end
        assert text[shown.start : shown.end].strip() in text


@pytest.mark.parametrize("kind", ["bytes", "unigram", "wordpiece", "minilm", "wiki-bart-small"])
def test_mentions_of_plain_text_come_back_as_they_were(kind):
    """Where a word begins and ends, pieces do, so the way there and back is exact."""
    document = Document("d", None, tuple(CORPUS[:1] * 3))
    encoded = encode_document(document, tokenizer_of(kind))
    found = search(["Tartu", "the harbour office", "Ada Lund"], DocumentIndex(document, Matching()))
    assert len(found) == 9
    for mention in found:
        first, stop = encoded.run_of(mention)
        shown = mention_of(encoded, first, stop)
        assert shown.text(document).strip() == mention.text(document)
        windows = cut_windows(encoded, 14, 5)
        earliest, count = windows.holding(first, stop)
        for window in range(earliest, earliest + count):
            assert windows.begin[window] <= mention.start
            assert mention.end <= windows.end[window]


MARKED = ["Zoe\u0308", "Hue\u0323\u0302", "गुरु", "कहाँ", "שָׁלוֹם", "مُحَمَّد", "i\u0307", "x\ufe0f", "Oslo", "Zoë"]
bearing = st.builds(
    str.__add__, st.sampled_from("aZ\u00ebगשم"), st.text("bकل\u0308\u0323\u0941\u0901\u05b8\u200d", max_size=5)
)
marked = st.sampled_from(MARKED) | bearing


@every_tokenizer
@given(st.lists(marked, min_size=1, max_size=8), st.data())
@settings(max_examples=150, deadline=None)
def test_a_mention_with_marks_comes_back_whole_though_its_tokenizer_drops_them(kind, words, data):
    document = Document("d", None, (" ".join(words) + ".", " ".join(words[:1])))
    encoded = encode_document(document, tokenizer_of(kind))
    first = data.draw(st.integers(0, len(words) - 1))
    answer = " ".join(words[first : data.draw(st.integers(first + 1, len(words)))])
    found = search([answer], DocumentIndex(document, Matching()))
    assert len(found)
    for mention in found:
        shown = mention_of(encoded, *encoded.run_of(mention))
        assert shown.text(document).strip() == mention.text(document)


def test_what_a_piece_covers_beside_marks_is_what_it_covered():
    encoded = encode_document(
        Document("d", None, ("Zoe\u0308 \u0301 (e\u0301)", "", "\u0301\u0308a")), tokenizer_of("wordpiece")
    )
    assert encoded.begin[-1] == 2  # marks that stand after nothing belong to nothing
    spans = set(zip(encoded.begin.tolist(), encoded.end.tolist(), strict=True))
    assert (0, 4) in spans or (2, 4) in spans
    assert (7, 8) in spans
    assert (8, 10) in spans
    assert (10, 11) in spans


@pytest.mark.parametrize(("room", "stride"), [(6, 2), (7, 7), (5, 9), (40, 3)])
def test_the_windows_that_hold_a_run_are_found_at_once_and_are_all(room, stride):
    document = Document("d", None, ("one two three four five six seven eight", "nine", "", "ten " * 20))
    windows = cut_windows(encode_document(document, tokenizer_of("bytes")), room, stride)
    last = int(windows.stop.max())
    runs = [(-1, -1), *((first, stop) for first in range(last) for stop in range(first + 1, last + 1))]
    earliest, counts = windows.holding(*np.array(runs).T)
    for (first, stop), begin, count in zip(runs, earliest.tolist(), counts.tolist(), strict=True):
        whole = np.flatnonzero((first >= 0) & (windows.first <= first) & (stop <= windows.stop))
        assert list(range(begin, begin + count)) == whole.tolist()


def test_the_window_around_a_mention_shows_most_on_its_shorter_side():
    document = Document("d", None, ("", " ".join(f"w{number}" for number in range(100)), "Oslo"))
    encoded = encode_document(document, tokenizer_of("bytes"))
    windows = cut_windows(encoded, 20, 7)
    chance = random.Random(0)
    for _ in range(200):
        start, end = chance.choice(token_spans(document.paragraphs[1]))
        mention = Mention(1, start, end)
        chosen = windows.around(mention)
        whole = [
            (min(start - windows.begin[window], windows.end[window] - end), -window)
            for window in range(len(windows))
            if windows.paragraph[window] == 1 and windows.begin[window] <= start and end <= windows.end[window]
        ]
        assert chosen == -max(whole)[1]
    assert windows.around(Mention(0, 0, 1)) is None
    assert windows.paragraph[windows.around(Mention(2, 0, 4))] == 2
    long = Mention(1, 0, len(document.paragraphs[1]))
    assert windows.around(long) is not None


def test_a_window_keeps_room_for_the_question_and_the_markers():
    tokenizer = tokenizer_of("minilm")
    question = encode_question("word " * 100, tokenizer)
    assert len(question) == 64
    room = room_for_text(len(question), tokenizer)
    assert len(tokenizer("word " * 64, "piece " * room)["input_ids"]) == 300
    document = Document("d", None, ("piece " * 1000,))
    encoded = encode_document(document, tokenizer)
    windows = cut_windows(encoded, room)
    for window in range(len(windows)):
        pieces = encoded.pieces[windows.first[window] : windows.stop[window]]
        assert len(question) + len(pieces) + tokenizer.num_special_tokens_to_add(pair=True) <= 300
    with pytest.raises(BonafideError, match="no room for text"):
        room_for_text(64, tokenizer, 60)
    with pytest.raises(BonafideError, match="at least one piece"):
        cut_windows(encoded, 5, 0)


def test_markers_in_the_text_are_text_and_earlier_truncation_does_not_stick():
    tokenizer = tokenizer_of("minilm")
    tokenizer(["a b c d e f"], truncation=True, max_length=4, padding="max_length")
    document = Document("d", None, ("the [SEP] token " * 200,))
    encoded = encode_document(document, tokenizer)
    assert tokenizer.sep_token_id not in encoded.pieces
    assert len(encoded.pieces) == 200 * 5


@every_tokenizer
@given(document=documents, data=st.data())
@settings(max_examples=40, deadline=None)
def test_many_mentions_at_once_get_the_runs_that_each_gets_alone(kind, document, data):
    encoded = encode_document(document, tokenizer_of(kind))
    places = st.integers(0, len(document.paragraphs) - 1)
    mentions = data.draw(st.lists(st.builds(Mention, places, st.integers(0, 20), st.integers(0, 30)), max_size=6))
    runs = encoded.runs_of(*([getattr(each, name) for each in mentions] for name in ("paragraph", "start", "end")))
    assert runs.shape == (len(mentions), 2)
    assert [encoded.run_of(each) or (-1, -1) for each in mentions] == [tuple(run) for run in runs.tolist()]
