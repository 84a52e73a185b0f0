"""Search finds exactly the mentions that a naive scan finds, under every combination of normalisations."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.tasks.reading.matching import Matching, token_bounds, token_spans
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import Mention, parse_gold

PIECES = [
    "the", "The", "a", "an", "Oslo", "oslo", "OSLO", "Große", "GROSSE", "é", "e\u0301", "É", "ﬁn", "fin", "1,200",
    "1200", "1,20", "3.5", "5", "km", "10km", "B2", "$", "£5", "%", "-", "'s", "’s", "_", "東京", "東", "ไทย",
    "א\u05b0ב", "\u200f", "\u0301", "😀", "İ", "²", "٣", ".", ",", "(", "x",
]  # fmt: skip
GAPS = ["", " ", " ", "  ", "\n", "\u00a0"]
FEW = ["the", "a", "Oslo", "x", "$"]


def written(pieces, most):
    pairs = st.lists(st.tuples(st.sampled_from(pieces), st.sampled_from(GAPS)), max_size=most)
    return pairs.map(lambda chosen: "".join(piece + gap for piece, gap in chosen))


texts = written(PIECES, 12) | written(FEW, 12)
answers = written(PIECES, 3) | written(FEW, 4)
matchings = st.builds(Matching, *[st.booleans()] * 5)


@st.composite
def documents(draw):
    return Document("d", None, tuple(draw(st.lists(texts, min_size=1, max_size=3))))


# --- The naive scan ---------------------------------------------------------------------------------------


def extended(paragraph, start, end, answer, first, last, spans, matching):
    """With the longest beginning and end of the answer that stand there in the same way."""

    def cut(position):
        return 0 < position < len(paragraph) and paragraph[position - 1].isalnum() and paragraph[position].isalnum()

    for begin, _ in spans:
        lead = answer[begin:first] if begin < first else ""
        at = start - len(lead)
        if lead and at >= 0 and matching.same_text(paragraph[at:start], lead) and not cut(at):
            start = at
            break
    for _, stop in reversed(spans):
        trail = answer[last:stop] if stop > last else ""
        at = end + len(trail)
        if trail and at <= len(paragraph) and matching.same_text(paragraph[end:at], trail) and not cut(at):
            end = at
            break
    return start, end


def naive_mentions(answer, paragraph, matching):
    """Every run of tokens that says the answer, by trying all of them."""
    spans = token_spans(answer)
    forms = [matching.form(answer[start:end]) for start, end in spans]
    tokens = [(matching.form(paragraph[start:end]), start, end) for start, end in token_spans(paragraph)]
    if not any(forms):
        wanted = [matching.whole_form(answer[start:end]) for start, end in spans]
        whole = [(matching.whole_form(paragraph[start:end]), start, end) for _, start, end in tokens]
        for first in range(len(whole) if wanted else 0):
            run = whole[first : first + len(wanted)]
            if [form for form, _, _ in run] == wanted:
                yield run[0][1], run[-1][2]
        return
    wanted = [form for form in forms if form]
    counting = [span for span, form in zip(spans, forms, strict=True) if form]
    tokens = [token for token in tokens if token[0]]
    found = []
    if matching.boundaries:
        for first in range(len(tokens)):
            run = tokens[first : first + len(wanted)]
            if [form for form, _, _ in run] == wanted:
                found.append((run[0][1], run[-1][2]))
    else:
        letters = []
        for form, start, end in tokens:
            exact = len(form) == end - start
            for place, letter in enumerate(form):
                letters.append((letter, start + place, start + place + 1) if exact else (letter, start, end))
            letters.append(("\n", end, end))
        text = list("\n".join(wanted))
        for first in range(len(letters)):
            run = letters[first : first + len(text)]
            if [letter for letter, _, _ in run] == text:
                found.append((run[0][1], run[-1][2]))
    for start, end in found:
        yield extended(paragraph, start, end, answer, counting[0][0], counting[-1][1], spans, matching)


def naive_search(accepted, document, matching):
    kept = []
    for place, paragraph in enumerate(document.paragraphs):
        found = sorted(
            (start, -end, number)
            for number, answer in enumerate(accepted)
            for start, end in naive_mentions(answer, paragraph, matching)
        )
        free = 0
        for start, negative, number in found:
            if start >= free:
                kept.append((place, start, -negative, number))
                free = -negative
    return kept


@given(documents(), st.lists(answers, max_size=3), matchings)
@settings(max_examples=500, deadline=None)
def test_search_finds_exactly_what_a_naive_scan_finds(document, accepted, matching):
    found = search(accepted, DocumentIndex(document, matching))
    rows = np.stack([found.paragraph, found.start, found.end, found.answer], axis=1).tolist()
    assert [tuple(row) for row in rows] == naive_search(accepted, document, matching)
    assert found.size == len(found)
    assert found.complete


@given(documents(), matchings, st.data())
@settings(max_examples=300, deadline=None)
def test_every_stretch_of_tokens_is_found_as_an_answer_and_mentions_never_overlap(document, matching, data):
    place = data.draw(st.integers(0, len(document.paragraphs) - 1))
    spans = token_spans(document.paragraphs[place])
    if not spans:
        return
    first = data.draw(st.integers(0, len(spans) - 1))
    last = data.draw(st.integers(first, min(first + 4, len(spans) - 1)))
    gold = Mention(place, spans[first][0], spans[last][1])
    found = search([gold.text(document)], DocumentIndex(document, matching))
    assert any(mention.overlaps(gold) for mention in found)
    mentions = list(found)
    assert mentions == sorted(mentions)
    assert not any(one.overlaps(other) for one, other in pairwise(mentions))


@given(st.one_of(st.text(max_size=60), texts))
@settings(max_examples=600, deadline=None)
def test_the_array_tokenizer_cuts_as_the_regular_expression_does(text):
    starts, ends = token_bounds(text)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == token_spans(text)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_tokens_cover_everything_but_white_space_and_never_cut_off_a_mark(text):
    covered = np.zeros(len(text), bool)
    for start, end in token_spans(text):
        assert start < end
        assert not covered[start:end].any()
        covered[start:end] = True
        if start > 0 and not text[start - 1].isspace():
            assert not unicodedata.category(text[start]).startswith("M")
    assert all(covered[place] != letter.isspace() for place, letter in enumerate(text))


# --- What the rules say, by examples ----------------------------------------------------------------------


def found_in(answer, *paragraphs, **switches):
    document = Document("d", None, paragraphs)
    accepted = [answer] if isinstance(answer, str) else answer
    return [each.text(document) for each in search(accepted, DocumentIndex(document, Matching(**switches)))]


@pytest.mark.parametrize(
    ("answer", "text", "found"),
    [
        ("5 million", "It cost $5 million.", ["5 million"]),
        ("$5 million", "It cost $5 million, not £5 million.", ["$5 million", "5 million"]),
        ("10", "10km in 10% of 10-day races since the 10s", ["10", "10", "10", "10"]),
        ("10", "110 or 10,000 or 10.5", []),
        ("1200", "1,200 men", ["1,200"]),
        ("Oslo", "Oslo's OSLO-based oslo; Oslofjord", ["Oslo", "OSLO", "oslo"]),
        ("the Beatles", "The Beatles; a Beatles song", ["The Beatles", "Beatles"]),
        ("the Beatles", "bathe Beatles", ["Beatles"]),
        ("Washington D.C.", "in Washington, D.C., and Washington D. C.", ["Washington, D.C.", "Washington D. C."]),
        ("the", "The cat and the hat", ["The", "the"]),
        ("café", "cafe\u0301 CAFÉ cafe", ["cafe\u0301", "CAFÉ"]),
        ("الكتاب", "قرأ الكتاب أمس", ["الكتاب"]),
        ("東京", "彼は東京都に住む", ["東京"]),
        ("aa aa", "aa aa aa aa aa", ["aa aa", "aa aa"]),
        ("", "anything", []),
        (" ", "anything", []),
    ],
)
def test_the_rules_by_example(answer, text, found):
    assert found_in(answer, text) == found


def test_each_normalisation_can_be_switched_off():
    assert found_in("oslo", "Oslo", case=False) == []
    assert found_in("café", "cafe\u0301", unicode=False) == []
    assert found_in("Big Ben", "Big-Ben", punctuation=False) == []
    assert found_in("University of Oslo", "University of the Oslo", articles=False) == []
    assert found_in("oslo", "Oslofjord", boundaries=False) == ["Oslo"]
    assert found_in("slo", "Oslo") == []


def test_of_overlapping_mentions_the_leftmost_and_then_the_longest_is_taken():
    text = "Abraham Lincoln met Mary Lincoln of Lincoln county"
    assert found_in(["Lincoln", "Abraham Lincoln", "Lincoln county"], text) == [
        "Abraham Lincoln",
        "Lincoln",
        "Lincoln county",
    ]


def test_a_mention_never_runs_across_paragraphs_and_offsets_are_those_of_its_paragraph():
    document = Document("d", None, ("in New", "York and New York", ""))
    found = search(["New York"], DocumentIndex(document, Matching()))
    assert list(found) == [Mention(1, 9, 17)]
    assert found.index_of(Mention(1, 9, 17)) == 0
    assert Mention(1, 9, 16) not in found
    assert found_in("the\nOslo", "the", "Oslo") == ["Oslo"]


def test_an_answer_that_never_occurs_has_an_empty_set_and_an_empty_paragraph_holds_nothing():
    for document in (Document("d", None, ("",)), Document("d", None, ("", "Rome", ""))):
        found = search(["Oslo", ""], DocumentIndex(document, Matching()))
        assert (len(found), found.size, found.complete) == (0, 0, True)


def test_more_mentions_than_the_cap_give_a_sample_in_order_that_says_so():
    document = Document("d", None, ("very " * 100_001,))
    index = DocumentIndex(document, Matching())
    found = search(["very"], index, cap=100_000)
    assert (len(found), found.size, found.complete) == (100_000, 100_001, False)
    assert (np.diff(found.start) > 0).all()
    everything = search(["very"], index)
    assert (len(everything), everything.complete) == (100_001, True)
    tally = np.zeros(1000)
    small = DocumentIndex(Document("d", None, ("very " * 1000,)), Matching())
    for seed in range(200):
        tally[search(["very"], small, cap=100, seed=seed).start // 5] += 1
    assert tally.min() > 20 - 6 * 20**0.5
    assert tally.max() < 20 + 6 * 20**0.5
    assert search(["very"], small, 100, 7).start.tolist() == search(["very"], small, 100, 7).start.tolist()


def test_a_paragraph_of_ten_megabytes_is_searched():
    paragraph = "word and other " * 700_000 + "needle" + " x" * 10
    index = DocumentIndex(Document("d", None, (paragraph,)), Matching())
    assert len(paragraph) > 10_000_000
    assert [paragraph[each.start : each.end] for each in search(["other needle"], index)] == ["other needle"]
    assert search(["word and other"], index, cap=10).size == 700_000


# --- Gold -------------------------------------------------------------------------------------------------


def test_gold_is_held_to_its_document():
    document = Document("d", None, ("in Oslo", "to Rome, from Rome"))
    gold = parse_gold({"paragraph": 1, "spans": [{"text": "Rome", "start": 14}]}, document)
    assert gold.mentions == (Mention(1, 14, 18),)
    found = search(["Rome"], DocumentIndex(document, Matching()))
    assert gold.place_in(found) == 1
    only = parse_gold({"paragraph": 1, "spans": [{"text": "Rome", "start": None}]}, document)
    assert (only.paragraph, only.mentions, only.place_in(found)) == (1, (), None)
    for wrong in (
        {"paragraph": 2, "spans": []},
        {"paragraph": "1", "spans": []},
        {"paragraph": 0, "spans": "Oslo"},
        {"paragraph": 0, "spans": [{"text": "", "start": 0}]},
        {"paragraph": 0, "spans": [{"text": "Oslo", "start": 2}]},
        {"paragraph": 0, "spans": [{"text": "Oslo", "start": -4}]},
    ):
        with pytest.raises(BonafideError, match="gold mention in the document 'd'"):
            parse_gold(wrong, document)
