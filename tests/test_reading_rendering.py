"""How mentions are shown to the reconstructor, and whether an answer is right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.rendering import SpanReference, Word
from bonafide.tasks.reading import metrics
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.metrics import Prediction, exact_match, f1, normalised, right_mention, rouge_l, score
from bonafide.tasks.reading.rendering import rendered
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import GoldSpans, Mention
from bonafide.tasks.reading.windows import cut_windows, encode_document

_words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
_words.pre_tokenizer = pre_tokenizers.Whitespace()
WORDS = PreTrainedTokenizerFast(tokenizer_object=_words, unk_token="?")


def shown(document, answers, room=6, stride=3):
    mentions = search(answers, DocumentIndex(document, Matching()))
    return mentions, rendered(mentions, document, cut_windows(encode_document(document, WORDS), room, stride))


def test_a_mention_reads_as_the_released_code_writes_it():
    _, result = shown(Document("d", None, ("she moved to Oslo in May",)), ["Oslo"])
    context, rendering = result[0]
    assert context == "she moved to Oslo in May"
    assert rendering == (Word("passage"), Word("span"), Word("("), SpanReference(13, 17), Word(")"))


def test_mentions_in_one_window_share_a_context_and_others_do_not():
    text = "Oslo or Oslo , " + "x " * 20 + "Oslo"
    mentions, result = shown(Document("d", None, (text, "to Oslo")), ["Oslo"])
    assert len(mentions) == 4
    assert result.which.tolist() == [0, 0, 1, 2]
    assert result.place.tolist() == [0, 1, 0, 0]
    assert [len(each) for each in result.sets] == [2, 1, 1]


paragraphs = st.lists(st.sampled_from(["Oslo", "Rome", "went", "to", "the", "very", "far", "New Oslo"]), max_size=30)
documents = st.lists(paragraphs.map(" ".join), min_size=1, max_size=3).map(
    lambda texts: Document("d", None, tuple(texts))
)


@given(documents, st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_every_mention_is_pointed_at_in_its_own_context(document, room, stride):
    mentions, result = shown(document, ["Oslo", "Rome", "New Oslo"], room, stride)
    assert len(result) == len(mentions)
    assert sum(map(len, result.sets)) == len(mentions)
    for index, mention in enumerate(mentions):
        context, rendering = result[index]
        reference = rendering[3]
        said = context[reference.start : reference.end]
        assert context in document.paragraphs[mention.paragraph]
        if room > stride:
            assert said == mention.text(document)
        else:  # where windows do not overlap, two words may lie in two of them
            assert said in (mention.text(document), *mention.text(document).split())


@given(documents, documents, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_other_paragraphs_change_nothing(document, other, room):
    alone, first = shown(document, ["Oslo", "Rome"], room)
    longer = Document("d", None, (*document.paragraphs, *other.paragraphs))
    _, second = shown(longer, ["Oslo", "Rome"], room)
    assert [first[index] for index in range(len(alone))] == [second[index] for index in range(len(alone))]


def test_a_mention_that_the_tokenizer_drops_is_in_no_set():
    windows = cut_windows(encode_document(Document("d", None, (" ", "x")), WORDS), 5)
    result = rendered([Mention(0, 0, 1), Mention(1, 0, 1)], Document("d", None, (" ", "x")), windows)
    assert result.which.tolist() == [-1, 0]
    assert result.place.tolist() == [-1, 0]


# --- Metrics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "accepted", "exact", "overlap"),
    [
        ("The Beatles!", ["beatles"], 1, 1),
        ("a well-known U.S. man", ["wellknown US man"], 1, 1),
        ("in the city of Oslo", ["Oslo"], 0, 2 / 5),  # in city of oslo
        ("Oslo", ["Rome", "Oslo, Norway"], 0, 2 / 3),
        ("Rome", ["Oslo"], 0, 0),
        ("very very good", ["very good"], 0, 4 / 5),
        ("the", ["a"], 1, 1),  # both say nothing
        ("the", ["Oslo"], 0, 0),
        ("Oslo", [], 0, 0),
    ],
)
def test_exact_match_and_f1_are_those_of_squad(said, accepted, exact, overlap):
    assert exact_match(said, accepted) == exact
    assert f1(said, accepted) == pytest.approx(overlap)


@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=3))
@settings(max_examples=200, deadline=None)
def test_metrics_lie_between_nothing_and_exact(said, accepted):
    exact, overlap = exact_match(said, accepted), f1(said, accepted)
    assert 0 <= exact <= overlap <= 1
    assert exact_match(said, [said, *accepted]) == 1
    assert f1(said, accepted) == f1(said, accepted[::-1])
    assert normalised(normalised(said)) == normalised(said)


def test_what_stands_elsewhere_is_the_right_answer_and_the_wrong_mention():
    gold = GoldSpans(1, (Mention(1, 10, 14),))
    assert right_mention(Mention(1, 6, 14), gold) is True
    assert right_mention(Mention(1, 0, 4), gold) is False
    assert right_mention(Mention(1, 0, 4), GoldSpans(1, ())) is None
    scores = score(
        [
            Prediction("Oslo", Mention(1, 10, 14), ("Oslo",), gold),
            Prediction("Oslo", Mention(1, 0, 4), ("Oslo",), gold),
            Prediction("Oslo", Mention(0, 0, 4), ("Oslo",), GoldSpans(0, ())),
            Prediction("", None, ("Oslo",), gold),
            Prediction("Rome", Mention(0, 0, 4), ("Oslo",)),
        ]
    )
    assert (scores.examples, scores.exact_match, scores.f1) == (5, 3 / 5, 3 / 5)
    assert (scores.paragraph, scores.mention, scores.known) == (3 / 4, 1 / 3, 3)
    assert scores.rouge_l is None
    with pytest.raises(BonafideError, match="no predictions"):
        score([])


def test_rouge_l_follows_the_longest_common_subsequence():
    pytest.importorskip("rouge_score", reason="rouge-score is not installed")
    assert rouge_l("the cat sat on the mat", ["the cat on the mat", "a dog"]) == pytest.approx(2 * 5 / 11)
    assert rouge_l("x", []) == 0
    assert score([Prediction("a b", None, ("a b",))], rouge=True).rouge_l == pytest.approx(1)


def test_without_the_library_rouge_l_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rouge_score", None)
    with pytest.raises(BonafideError, match=r"pip install bonafide\[rouge\]"):
        metrics.rouge_l("a", ["a"])
