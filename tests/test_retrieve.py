"""Questions without a context get their best passages; the index is kept, checked and used again."""

from __future__ import annotations

import json
import lzma
import math
import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.documents import DocumentFile
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import open_examples
from bonafide.retrieve import Ranking, retrieve, tokenized
from bonafide.search.reading import search_reading
from bonafide.tasks.reading.webquestions import import_webquestions
from command_line import bonafide, contents, refused, write_lines

bm25s = pytest.importorskip("bm25s", reason="bm25s is not installed: pip install bonafide[retrieve]")

DATA = os.environ.get("BONAFIDE_DATA")
PASSAGES = [
    {"id": "1", "title": "Tartu", "text": "A town with a ferry, a mill and a bridge over the river."},
    {"id": "2", "title": "Ferry", "text": "The ferry across the lake is run by Ada Lund; the ferry is old."},
    {"id": "3", "text": "A mill grinds corn. The river drives the mill."},
    {"id": "4", "title": "Bridge", "text": "Bridges cross rivers."},
    {"id": "5", "title": "Corn", "text": "Corn is grown by farmers and ground in a mill."},
]
QUESTIONS = [
    {"id": "q1", "question": "who runs the ferry across the lake?", "answers": ["Ada Lund"]},
    {"id": "q2", "question": "what drives the mill?", "answers": ["the river"]},
    {"id": "q3", "question": "zzz?", "answers": ["nothing"]},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_lines(tmp_path / "corpus.jsonl", PASSAGES)
    write_lines(tmp_path / "questions.jsonl", QUESTIONS)
    return tmp_path


def ask(data: Path, out: str = "out", **options):
    done = retrieve(data / "corpus.jsonl", data / "questions.jsonl", data / out, **options)
    return done, DocumentFile(data / out / "documents.jsonl")


def bm25(question: str, texts: list[str], k1: float, b: float) -> list[float]:
    """Lucene's formula, written out."""
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    mean = sum(map(len, words)) / len(words)
    scores = []
    for each in words:
        count = Counter(each)
        score = 0.0
        for word in re.findall(r"\w+", question.lower()):
            holding = sum(word in other for other in words)
            if holding:
                rarity = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
                score += rarity * count[word] / (count[word] + k1 * (1 - b + b * len(each) / mean))
        scores.append(score)
    return scores


def test_passages_come_in_the_order_of_bm25(data):
    ranking = Ranking(stopwords="")
    _, documents = ask(data, top=5, ranking=ranking)
    texts = [f"{each['title']}\n{each['text']}" if "title" in each else each["text"] for each in PASSAGES]
    for question in QUESTIONS:
        scores = bm25(question["question"], texts, ranking.k1, ranking.b)
        order = sorted((place for place in range(5) if scores[place] > 0), key=lambda place: -scores[place])
        assert documents[question["id"]].paragraphs == (tuple(texts[place] for place in order) or ("",))


def test_each_question_names_its_document_and_keeps_its_answers(data):
    done, documents = ask(data, top=2)
    assert (done.examples, done.passages, done.without, done.reused) == (3, 5, 1, False)
    examples = list(open_examples(data / "out/examples.jsonl"))
    assert [(each.id, each.context, each.answers) for each in examples] == [
        (each["id"], each["id"], tuple(each["answers"])) for each in QUESTIONS
    ]
    assert documents["q1"].paragraphs[0].startswith("Ferry\nThe ferry across the lake")
    assert len(documents["q1"].paragraphs) == 2
    assert documents["q3"].paragraphs == ("",)  # it shares no word with the corpus
    manifest = search_reading(data / "out/examples.jsonl", data / "store")
    assert manifest["counts"]["covered"] == 2


def test_passages_are_joined_as_the_paper_does(data):
    _, alone = ask(data, "alone", top=4)
    _, pairs = ask(data, "pairs", top=4, group=2)
    _, joined = ask(data, "joined", top=4, group=0)
    for name in ("q1", "q2"):
        passages = alone[name].paragraphs
        assert (
            pairs[name].paragraphs
            == tuple("\n".join(passages[start : start + 2]) for start in (0, 2))[: -(-len(passages) // 2)]
        )
        assert joined[name].paragraphs == ("\n".join(passages),)


def test_the_index_is_used_again_while_the_corpus_is_the_same(data):
    first, documents = ask(data, index=data / "index")
    stamp = (data / "index/index.json").stat().st_mtime_ns
    again, same = ask(data, "again", index=data / "index")
    assert (first.reused, again.reused) == (False, True)
    assert [same[name] for name in same] == [documents[name] for name in documents]
    assert (data / "index/index.json").stat().st_mtime_ns == stamp
    packed = data / "corpus.jsonl.xz"
    packed.write_bytes(lzma.compress((data / "corpus.jsonl").read_bytes()))
    assert retrieve(packed, data / "questions.jsonl", data / "packed", index=data / "index").reused
    write_lines(data / "corpus.jsonl", PASSAGES[:4])
    changed, _ = ask(data, "changed", index=data / "index")
    assert (changed.reused, changed.passages) == (False, 4)
    other, _ = ask(data, "other", index=data / "index", ranking=Ranking(k1=1.2))
    assert not other.reused


def test_a_damaged_index_is_made_anew(data):
    ask(data, index=data / "index")
    for path in (data / "index").glob("data*"):
        path.write_bytes(path.read_bytes()[:20])
    assert not ask(data, "again", index=data / "index")[0].reused
    assert ask(data, "third", index=data / "index")[0].reused


def test_an_index_whose_words_were_cut_by_other_rules_is_made_anew(data):
    ask(data, index=data / "index")
    note = json.loads((data / "index/index.json").read_text())
    (data / "index/index.json").write_text(json.dumps({key: note[key] for key in note if key != "words"}))
    assert not ask(data, "again", index=data / "index")[0].reused
    assert ask(data, "third", index=data / "index")[0].reused


@given(st.lists(st.text(st.characters(max_codepoint=0x7F)) | st.text("aThe_ 0.-'"), max_size=5), st.booleans())
def test_words_of_ascii_texts_are_those_of_a_plain_pattern(texts, stopwords):
    ranking = Ranking(stopwords="en" if stopwords else "")
    plain = {"token_pattern": r"(?u)\b\w+\b", "stopwords": ranking.stopwords or [], "show_progress": False}
    assert tokenized(texts, ranking, ids=False) == bm25s.tokenize(texts, return_ids=False, **plain)
    assert tokenized(texts, ranking, ids=True) == bm25s.tokenize(texts, return_ids=True, **plain)
    (beside,) = tokenized([f"{' '.join(texts)} caf\u00e9"], ranking, ids=False)
    assert beside == [*bm25s.tokenize(" ".join(texts), return_ids=False, **plain)[0], "caf\u00e9"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("北京是中国的首都。", "北 京 是 中 国 的 首 都"),
        ("กิน 42 ๔๒", "กิ น 42 ๔๒"),
        ("Straße in Zu\u0308rich, STRASSE", "strasse in z\u00fcrich strasse"),
        ("गुरु कहाँ हैं?", "गुरु कहाँ हैं"),
        ("１２ ﬁne Café™ O’Neil 5℃ \u0301x", "12 fine caf\u00e9 o neil 5 x"),
        ("東京Tower10 İzmir", "東 京 tower10 i\u0307zmir"),
    ],
)
def test_words_of_other_texts_compare_as_mentions_do(text, words):
    assert tokenized([text], Ranking(stopwords=""), ids=False) == [words.split()]


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("中国的首都是哪里?", "北京是中国的首都。"),
        ("where is Zu\u0308rich?", "Straße in Zürich"),
        ("STRASSE?", "Straße in Zürich"),
        ("गुरु?", "गुरु यहाँ"),
        ("ＦＥＲＲＹ?", "A ferry."),
    ],
)
def test_passages_of_any_script_are_found_by_any_form_of_their_words(tmp_path, question, passage):
    corpus = ["北京是中国的首都。", "Straße in Zürich", "गुरु यहाँ", "गर यहा", "A ferry.", "日本の海"]
    write_lines(tmp_path / "corpus.jsonl", [{"id": str(at), "text": text} for at, text in enumerate(corpus)])
    write_lines(tmp_path / "questions.jsonl", [{"id": "q", "question": question, "answers": ["x"]}])
    _, documents = ask(tmp_path)
    assert documents["q"].paragraphs[0] == passage


def test_a_corpus_of_stop_words_is_refused(data):
    write_lines(data / "corpus.jsonl", [{"id": "1", "text": "the a"}])
    with pytest.raises(BonafideError, match="no words but stop words"):
        ask(data)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"id": "9", "title": "no text"}, "text"),
        ({"id": "9", "text": "x", "title": 5}, "title"),
        ({"id": "1", "text": "twice"}, "id"),
        ("not json", "(line)"),
    ],
)
def test_a_wrong_corpus_is_refused_with_its_line(data, line, field):
    write_lines(data / "corpus.jsonl", [*PASSAGES, line])
    with pytest.raises(InvalidFileError) as caught:
        ask(data)
    assert [(each.line, each.field) for each in caught.value.problems] == [(6, field)]
    assert not (data / "out").exists()


def test_a_folder_that_holds_something_else_is_left_alone(data):
    (data / "mine").mkdir()
    (data / "mine/letter.txt").write_text("dear")
    before = contents(data)
    with pytest.raises(BonafideError, match="holds other files"):
        ask(data, index=data / "mine")
    (data / "mine/index.json").write_text('{"name": "my website"}')
    before = contents(data)
    for left in ("letter.txt", "index.json"):
        with pytest.raises(BonafideError, match="holds other files"):
            ask(data, index=data / "mine")
        assert contents(data) == before
        (data / "mine" / left).unlink()
        before = contents(data)
    (data / "questions.jsonl").rename(data / "examples.jsonl")
    with pytest.raises(BonafideError, match="would be overwritten"):
        retrieve(data / "corpus.jsonl", data / "examples.jsonl", data)
    (data / "corpus.jsonl").rename(data / "documents.jsonl")
    with pytest.raises(BonafideError, match=r"documents\.jsonl is read, and would be overwritten"):
        retrieve(data / "documents.jsonl", data / "mine" / "questions.jsonl", data)


def test_an_index_is_written_where_a_folder_can_be_and_with_the_usual_permissions(data):
    command = ("retrieve", "--corpus", data / "corpus.jsonl", "--examples", data / "questions.jsonl")
    (data / "letter").write_text("dear")
    before = contents(data)
    said = refused(bonafide(*command, "--out", data / "out", "--index", data / "letter"))
    assert "letter is a file, and an index is a folder. Name a folder with --index." in said
    said = refused(bonafide(*command, "--out", data / "out", "--index", data / "letter" / "index"))
    assert "part of this path is a file, not a folder" in said
    assert contents(data) == before
    assert not (data / "out").exists()
    ask(data, index=data / "new" / "index")
    assert (data / "new" / "index").stat().st_mode == (data / "new").stat().st_mode == (data / "out").stat().st_mode
    assert [each.name for each in (data / "new").iterdir()] == ["index"]


def test_retrieve_by_the_command_line(data):
    command = ("retrieve", "--corpus", data / "corpus.jsonl", "--examples", data / "questions.jsonl")
    done = bonafide(*command, "--top", "2", "--group", "0", "--out", data / "out")
    assert done.code == 0, done.stderr
    assert "3 questions, each with its passages of 5, by a new index." in " ".join(done.stderr.split())
    assert "1 questions share no word with the corpus" in done.stderr
    line = json.loads((data / "out/documents.jsonl").read_text().splitlines()[0])
    assert len(line["paragraphs"]) == 1
    (data / "corpus.jsonl").unlink()
    assert str(data / "corpus.jsonl") in refused(bonafide(*command, "--out", data / "other"))
    assert not (data / "other").exists()


@pytest.mark.long
@pytest.mark.skipif(DATA is None, reason="BONAFIDE_DATA is not set: no real data at hand")
def test_webquestions_is_retrieved_in_three_minutes_and_covered(tmp_path):
    source = Path(DATA) / "webquestions"
    import_webquestions(source / "train.jsonl.xz", tmp_path)
    start = time.perf_counter()
    done = retrieve(source / "passages.jsonl.xz", tmp_path / "examples.jsonl", tmp_path / "data", workers=2)
    assert time.perf_counter() - start < 180
    assert (done.examples, done.passages) == (3778, 100_127)
    manifest = search_reading(tmp_path / "data/examples.jsonl", tmp_path / "store", workers=2)
    assert manifest["counts"]["covered"] / 3778 >= 0.59
