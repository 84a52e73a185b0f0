"""Public formats into examples, documents and gold; and what each importer says of a wrong file."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from pathlib import Path

import pytest

from bonafide.documents import DocumentFile
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import open_examples, read_gold
from bonafide.search.reading import search_reading
from bonafide.solutions import SolutionStore
from bonafide.tasks.reading.dpr import import_dpr
from bonafide.tasks.reading.imported import Imported, grouped
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.plaintext import read_document
from bonafide.tasks.reading.quasar import import_quasar
from bonafide.tasks.reading.span import Mention, parse_gold
from bonafide.tasks.reading.squad import import_squad, import_squad_article
from bonafide.tasks.reading.task import MentionCodec
from bonafide.tasks.reading.webquestions import import_webquestions
from command_line import bonafide, refused, write_lines

DATA = os.environ.get("BONAFIDE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="BONAFIDE_DATA is not set: no real data at hand")

PARAGRAPHS = ["Ada Lund runs the Tartu ferry. The ferry is old.", "In Tartu the ferry lands. Tartu is a town."]


def squad(**changes):
    question = {"id": "q1", "question": "where does it land?", "answers": [{"text": "Tartu", "answer_start": 3}]}
    other = {
        "id": "q2",
        "question": "who runs it?",
        "answers": [{"text": "Ada Lund", "answer_start": 0}, {"text": "Lund", "answer_start": 4}],
    }
    without = {"id": "q3", "question": "why?", "answers": [], "is_impossible": True, "plausible_answers": []}
    paragraphs = [
        {"context": PARAGRAPHS[0], "qas": [other, without]},
        {"context": PARAGRAPHS[1], "qas": [question | changes]},
    ]
    return {"version": "v2.0", "data": [{"title": "Ferries", "paragraphs": paragraphs}]}


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def read_back(out: Path):
    documents = DocumentFile(out / "documents.jsonl")
    examples = {example.id: example for example in open_examples(out / "examples.jsonl")}
    return documents, examples


def test_squad_at_article_level_has_the_whole_article_as_context(tmp_path):
    assert import_squad(written(tmp_path / "s.json", squad()), tmp_path / "out") == Imported(2, 1, 1)
    documents, examples = read_back(tmp_path / "out")
    assert list(documents) == ["Ferries"]
    assert documents["Ferries"].paragraphs == tuple(PARAGRAPHS)
    assert examples["q2"].answers == ("Ada Lund", "Lund")
    gold = read_gold(tmp_path / "out/gold.jsonl")
    spans = parse_gold(gold["q1"].solution, documents["Ferries"])
    assert (spans.paragraph, spans.mentions) == (1, (Mention(1, 3, 8),))
    assert len(parse_gold(gold["q2"].solution, documents["Ferries"]).mentions) == 2
    assert "start" not in (tmp_path / "out/examples.jsonl").read_text()


def test_a_file_with_a_byte_order_mark_reads_the_same(tmp_path):
    for name, mark in (("plain", b""), ("marked", b"\xef\xbb\xbf")):
        path = written(tmp_path / f"{name}.json", squad())
        path.write_bytes(mark + path.read_bytes())
        import_squad(path, tmp_path / name)
    for name in ("examples.jsonl", "documents.jsonl", "gold.jsonl"):
        assert (tmp_path / "marked" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_squad_at_paragraph_level_has_a_document_a_paragraph(tmp_path):
    done = import_squad(written(tmp_path / "s.json", squad()), tmp_path / "out", "paragraph")
    assert done == Imported(2, 2, 1)
    documents, examples = read_back(tmp_path / "out")
    assert documents[examples["q1"].context].paragraphs == (PARAGRAPHS[1],)
    gold = read_gold(tmp_path / "out/gold.jsonl")["q1"]
    assert parse_gold(gold.solution, documents[examples["q1"].context]).mentions == (Mention(0, 3, 8),)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"question": " "}, "data[0].paragraphs[1].qas[0].question: expected a text that is not empty"),
        ({"id": "q2"}, "data[0].paragraphs[1].qas[0].id: 'q2' is used twice"),
        ({"answers": None}, "data[0].paragraphs[1].qas[0].answers: expected a list of objects, found nothing"),
        ({"answers": [{"text": "Tartu", "answer_start": 4}]}, "answers.answer_start: expected where 'Tartu' begins"),
        ({"answers": [{"answer_start": 4}]}, "qas[0].text: expected a text"),
    ],
)
def test_a_wrong_squad_file_is_refused_with_the_place(tmp_path, changes, where):
    path = written(tmp_path / "s.json", squad(**changes))
    with pytest.raises(BonafideError) as caught:
        import_squad(path, tmp_path / "out")
    assert str(path) in str(caught.value)
    assert where in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"data": 5}, "data: expected a list of objects"),
        ({"data": [{"title": "x", "paragraphs": [{"qas": []}]}]}, "data[0].paragraphs[0].context: expected a text"),
        ({"data": [{"paragraphs": []}]}, "data[0].title"),
        ({"data": []}, "holds no questions"),
        ([], "expected a JSON object"),
    ],
)
def test_other_json_is_not_taken_for_squad(tmp_path, content, said):
    with pytest.raises(BonafideError) as caught:
        import_squad(written(tmp_path / "s.json", content), tmp_path / "out")
    assert said in str(caught.value)


QUESTION = {"id": "d/1", "question": "where?", "document": "d", "answers": ["Tartu"]}
DOCUMENT = {"id": "d", "title": "Ferries", "paragraphs": PARAGRAPHS}
GOLD = {"id": "d/1", "paragraph": 1, "spans": [{"text": "Tartu", "start": None}]}


def article_files(folder: Path, questions=(QUESTION,), documents=(DOCUMENT,), gold=(GOLD,)) -> list[Path]:
    names = ("q.jsonl", "d.jsonl", "g.jsonl")
    return [write_lines(folder / name, lines) for name, lines in zip(names, (questions, documents, gold), strict=True)]


def test_the_three_files_of_squad_article_keep_gold_apart(tmp_path):
    questions, documents, gold = article_files(tmp_path)
    packed = tmp_path / "q.jsonl.xz"
    packed.write_bytes(lzma.compress(questions.read_bytes()))
    assert import_squad_article(packed, documents, tmp_path / "out", gold) == Imported(1, 1)
    _, examples = read_back(tmp_path / "out")
    assert (examples["d/1"].context, examples["d/1"].answers) == ("d", ("Tartu",))
    assert read_gold(tmp_path / "out/gold.jsonl")["d/1"].solution == {"paragraph": 1, "spans": GOLD["spans"]}
    import_squad_article(questions, documents, tmp_path / "without")
    assert not (tmp_path / "without/gold.jsonl").exists()


def test_every_problem_of_squad_article_is_reported_with_its_line(tmp_path):
    wrong = [
        QUESTION,
        QUESTION,
        QUESTION | {"id": "2", "document": "nowhere"},
        QUESTION | {"id": "3", "answers": "Tartu"},
        QUESTION | {"id": "4", "answers": [7]},
        "not json",
        QUESTION | {"id": 5},
    ]
    questions, documents, gold = article_files(tmp_path, wrong)
    with pytest.raises(InvalidFileError) as caught:
        import_squad_article(questions, documents, tmp_path / "out", gold)
    assert [(each.line, each.field) for each in caught.value.problems] == [
        (2, "id"),
        (3, "document"),
        (4, "answers"),
        (5, "answers"),
        (6, "(line)"),
        (7, "id"),
    ]
    questions, documents, gold = article_files(
        tmp_path, gold=[GOLD | {"id": "x"}, GOLD | {"paragraph": 2}, GOLD | {"spans": [{"text": "Oslo", "start": 0}]}]
    )
    with pytest.raises(InvalidFileError) as caught:
        import_squad_article(questions, documents, tmp_path / "out", gold)
    assert [(each.line, each.field) for each in caught.value.problems] == [
        (1, "id"),  # of no question
        (2, "spans"),
        (3, "id"),  # used before
        (3, "spans"),
    ]
    assert not (tmp_path / "out").exists()


def test_quasar_joins_the_sentences_of_a_question_in_decreasing_score(tmp_path):
    questions = [{"uid": "s1", "question": "who?", "answer": "ada lund", "tags": ["person"]}]
    contexts = [
        {"uid": "other", "contexts": [[1, "unused"]]},
        {"uid": "s1", "contexts": [[0.2, "third"], [0.9, "first"], [0.5, "second"]]},
    ]
    paths = write_lines(tmp_path / "q.json", questions), write_lines(tmp_path / "c.json", contexts)
    packed = tmp_path / "c.json.gz"
    packed.write_bytes(gzip.compress(paths[1].read_bytes()))
    assert import_quasar(paths[0], packed, tmp_path / "out") == Imported(1, 1)
    documents, examples = read_back(tmp_path / "out")
    assert documents["s1"].paragraphs == ("first\nsecond\nthird",)
    assert examples["s1"].answers == ("ada lund",)
    import_quasar(*paths, tmp_path / "apart", group=2)
    assert read_back(tmp_path / "apart")[0]["s1"].paragraphs == ("first\nsecond", "third")


@pytest.mark.parametrize(
    ("contexts", "said"),
    [
        ([{"uid": "s2", "contexts": [[1, "x"]]}], "lacks the contexts of 1 questions"),
        ([{"uid": "s1", "contexts": []}], "contexts: expected a list of pairs"),
        ([{"uid": "s1", "contexts": [["x", 1]]}], "contexts: expected pairs of score and text"),
        ([{"uid": "s1"}], "contexts: expected a list of pairs"),
        ([{"uid": "s1", "contexts": [[1, "x"]]}] * 2, "line 2, id: expected an id used once"),
    ],
)
def test_wrong_contexts_of_quasar_are_refused(tmp_path, contexts, said):
    questions = write_lines(tmp_path / "q.json", [{"uid": "s1", "question": "who?", "answer": "ada"}])
    with pytest.raises(BonafideError) as caught:
        import_quasar(questions, write_lines(tmp_path / "c.json", contexts), tmp_path / "out")
    assert said in str(caught.value)


def test_webquestions_is_read_as_published_and_line_by_line(tmp_path):
    published = written(
        tmp_path / "train.json",
        [
            {"utterance": "who?", "targetValue": '(list (description "Jo \\"X\\" Li") (description Oslo))', "url": "u"},
            {"utterance": "where?", "targetValue": "(list (description Rome))"},
        ],
    )
    assert import_webquestions(published, tmp_path / "out") == Imported(2, 0)
    examples = list(open_examples(tmp_path / "out/examples.jsonl"))
    assert [(each.id, each.answers, each.context) for each in examples] == [
        ("train-1", ('Jo "X" Li', "Oslo"), None),
        ("train-2", ("Rome",), None),
    ]
    lines = write_lines(tmp_path / "l.jsonl", [{"id": "w1", "question": "who?", "answers": ["a", "b"]}])
    import_webquestions(lines, tmp_path / "lines")
    assert [each.id for each in open_examples(tmp_path / "lines/examples.jsonl")] == ["w1"]
    wrong = written(tmp_path / "w.json", [{"utterance": "who?", "targetValue": "(list)"}, {"question": "x"}, 7])
    with pytest.raises(InvalidFileError) as caught:
        import_webquestions(wrong, tmp_path / "wrong")
    assert [(each.line, each.field) for each in caught.value.problems] == [
        (1, "targetValue"),
        (2, "answers"),
        (3, "(line)"),
    ]


def test_a_share_of_webquestions_is_held_out_by_its_seed_and_the_rest_is_for_training(tmp_path):
    asked = [{"id": f"w{n}", "question": "who?", "answers": ["ada"]} for n in range(50)]
    lines = write_lines(tmp_path / "l.jsonl", asked)

    def parts(folder, **seed):
        done = import_webquestions(lines, folder, 0.1, **seed)
        train, dev = (
            [each.id for each in open_examples(folder / f"{part}/examples.jsonl")] for part in ("train", "dev")
        )
        assert (done.examples, done.held_out) == (len(train), len(dev)) == (45, 5)
        assert [each["id"] for each in asked if each["id"] not in dev] == train  # in their order
        return dev

    dev = parts(tmp_path / "a")
    assert parts(tmp_path / "b", seed=0) == dev != parts(tmp_path / "c", seed=1)
    assert not (tmp_path / "a/examples.jsonl").exists()
    for share in (0.001, 1.0, -0.1, float("nan")):
        with pytest.raises(BonafideError, match=r"expected a share such as 0\.1"):
            import_webquestions(lines, tmp_path / "d", share)
    assert not (tmp_path / "d").exists()
    read = tmp_path / "a/dev/examples.jsonl"
    assert import_webquestions(read, tmp_path / "a").examples == 5  # written beside it
    with pytest.raises(BonafideError, match="would be overwritten"):
        import_webquestions(read, tmp_path / "a", 0.2)


def dpr_item(**changes):
    passages = [{"id": "1", "title": "Ferry", "text": "It lands in Tartu.", "score": "80.1"}, {"text": "No title."}]
    return {"question": "where?", "answers": ["Tartu"], "ctxs": passages} | changes


def test_dpr_passages_become_paragraphs_under_their_titles(tmp_path):
    path = written(tmp_path / "dpr.json", [dpr_item(), dpr_item(id="mine")])
    assert import_dpr(path, tmp_path / "out") == Imported(2, 2)
    documents, _ = read_back(tmp_path / "out")
    assert documents["dpr-1"].paragraphs == ("Ferry\nIt lands in Tartu.", "No title.")
    lines = write_lines(tmp_path / "dpr.jsonl", [dpr_item()])
    import_dpr(lines, tmp_path / "lines", top=1, group=0)
    assert read_back(tmp_path / "lines")[0]["dpr-1"].paragraphs == ("Ferry\nIt lands in Tartu.",)


def test_missing_fields_of_dpr_are_all_named(tmp_path):
    incomplete = [dpr_item() for _ in range(4)]
    for field, item in zip(("question", "answers", "ctxs"), incomplete, strict=False):
        del item[field]
    incomplete[3]["ctxs"] = [{"title": "no text"}]
    path = written(tmp_path / "dpr.json", [*incomplete, dpr_item(ctxs=[]), dpr_item(positive_ctxs=[])])
    with pytest.raises(InvalidFileError) as caught:
        import_dpr(path, tmp_path / "out")
    assert [(each.line, each.field) for each in caught.value.problems] == [
        (1, "question"),
        (2, "answers"),
        (3, "ctxs"),
        (4, "ctxs.text"),
        (5, "ctxs"),
    ]
    assert not (tmp_path / "out").exists()
    with pytest.raises(BonafideError, match="expected a JSON list"):
        import_dpr(write_lines(tmp_path / "cut.json", ['[{"question": ']), tmp_path / "out")


def test_passages_are_grouped_in_order():
    assert grouped(["a", "b", "c"], 2) == ("a\nb", "c")
    assert grouped(["a", "b", "c"], 0) == ("a\nb\nc",)
    assert grouped(["a", "b", "c"], 1) == ("a", "b", "c")


def test_a_text_file_is_a_document_of_what_blank_lines_separate(tmp_path):
    path = tmp_path / "handbook.txt"
    path.write_bytes("\ufeffFirst line\nsecond line.\n\n \nNext: # not a heading, *plain*.\n".encode())
    document = read_document(path)
    assert (document.name, document.title) == ("handbook", None)
    assert document.paragraphs == ("First line second line.", "Next: # not a heading, *plain*.")


@pytest.mark.parametrize(
    ("text", "paragraphs"),
    [
        ("---\ntitle: x\n---\nIn 1648.", ["In 1648."]),
        ("---\n\nFirst part.\n\n---\n\nSecond part.", ["---", "First part.", "---", "Second part."]),
        ("The war ended in\n1648. Peace came.", ["The war ended in 1648. Peace came."]),
        ("- The war ended in\n  1648. Peace came.", ["The war ended in 1648. Peace came."]),
        ("Three of them:\n1. Oslo\n2. Riga\n\n3) Cork", ["Three of them:", "Oslo", "Riga", "Cork"]),
        ("1. Oslo\n   - north\n2. Riga\n10. Cork", ["Oslo", "north", "Riga", "Cork"]),
        ("10. Oslo\n9. Riga\n\nThey met in\n2. Cork", ["Oslo", "Riga", "They met in 2. Cork"]),
    ],
)
def test_markdown_does_not_take_text_for_marks(tmp_path, text, paragraphs):
    (tmp_path / "notes.md").write_text(text)
    assert list(read_document(tmp_path / "notes.md").paragraphs) == paragraphs


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["notes.txt", "notes.md"])
def test_lines_end_as_each_system_ends_them(tmp_path, name, end):
    (tmp_path / name).write_bytes(f"In 1648{end}it ended.{end}{end}Peace came.{end}".encode())
    assert read_document(tmp_path / name).paragraphs == ("In 1648 it ended.", "Peace came.")


def test_markdown_loses_its_marks_and_keeps_its_text(tmp_path):
    path = tmp_path / "guide.md"
    path.write_text(
        "---\ntags: x\n---\n# The *guide*\nSee [the form](http://x.y/z) and **sign** it, not snake_case_name.\n\n"
        "- one `thing`\n- two\n\n> said\n> twice\n\n```sh\nrm -rf *x*\n```\n1. first\n"
    )
    document = read_document(path)
    assert document.title == "The guide"
    assert document.paragraphs == (
        "The guide",
        "See the form and sign it, not snake_case_name.",
        "one thing",
        "two",
        "said twice",
        "rm -rf *x*",
        "first",
    )


def test_a_text_file_that_is_empty_or_no_text_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text(" \n\n")
    with pytest.raises(BonafideError, match="the document is empty"):
        read_document(tmp_path / "empty.txt")
    (tmp_path / "latin.txt").write_bytes("Übung".encode("latin-1"))
    with pytest.raises(BonafideError, match="expected UTF-8, found the byte 0xdc at 1"):
        read_document(tmp_path / "latin.txt")


# --- The command line, from files to a store ---------------------------------------------------------------


def test_from_squad_to_a_store_by_the_command_line(tmp_path):
    path = written(tmp_path / "s.json", squad())
    assert bonafide("import", "squad", path, "--out", tmp_path / "data").code == 0
    done = bonafide("search", "reading", "--examples", tmp_path / "data/examples.jsonl", "--out", tmp_path / "store")
    assert done.code == 0, done.stderr
    assert "4 solutions of 2 examples; 100.00% have at least one" in done.stderr
    store = SolutionStore(tmp_path / "store", MentionCodec())
    assert store.manifest["options"]["matching"]["articles"] is True
    assert list(store["q1"]) == [Mention(0, 18, 23), Mention(1, 3, 8), Mention(1, 26, 31)]
    assert list(store["q2"]) == [Mention(0, 0, 8)]
    assert store["q2"].answer.tolist() == [0]
    options = ("--exact-case", "--exact-unicode", "--exact-punctuation", "--exact-articles", "--no-boundaries")
    bonafide("search", "reading", "--examples", tmp_path / "data/examples.jsonl", "--out", tmp_path / "other", *options)
    other = SolutionStore(tmp_path / "other", MentionCodec())
    assert set(other.manifest["options"]["matching"].values()) == {False}


def test_search_says_what_is_wrong_with_examples_and_documents(tmp_path):
    write_lines(tmp_path / "documents.jsonl", [DOCUMENT, {"id": "empty", "paragraphs": []}, DOCUMENT])
    write_lines(tmp_path / "examples.jsonl", [{"id": "1", "question": "?", "context": "d", "answers": ["x"]}])
    search = ("search", "reading", "--examples", tmp_path / "examples.jsonl", "--out", tmp_path / "store")
    message = refused(bonafide(*search))
    assert "documents.jsonl has 2 problems; the first is on line 2, paragraphs" in message
    write_lines(tmp_path / "documents.jsonl", [DOCUMENT])
    write_lines(
        tmp_path / "examples.jsonl",
        [
            {"id": "1", "question": "?", "context": "d", "answers": [2008, None]},
            {"id": "2", "question": "?", "context": "x", "answers": []},
        ],
    )
    message = refused(bonafide(*search))
    assert "has 2 problems; the first is on line 1, answers: expected accepted answers, as texts" in message
    assert not (tmp_path / "store").exists()


def test_the_store_is_the_same_whatever_the_number_of_workers(tmp_path):
    write_lines(tmp_path / "documents.jsonl", [DOCUMENT | {"id": f"d{number}"} for number in range(7)])
    write_lines(
        tmp_path / "examples.jsonl",
        [
            {"id": f"q{number}", "question": "?", "context": f"d{number % 7}", "answers": ["ferry", "Tartu", "Oslo"]}
            for number in range(1200)
        ],
    )
    one, two = (
        search_reading(tmp_path / "examples.jsonl", tmp_path / str(workers), cap=3, workers=workers)
        for workers in (1, 2)
    )
    assert one["counts"] == {"examples": 1200, "covered": 1200, "capped": 1200, "solutions": 3600}
    assert [each["sha256"] for each in one["shards"]] == [each["sha256"] for each in two["shards"]]
    sets = [mentions.start.tolist() for _, mentions in SolutionStore(tmp_path / "1", MentionCodec())]
    assert len({tuple(starts) for starts in sets}) > 10  # each example has a sample of its own


# --- Real data --------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize(("boundaries", "coverage"), [(True, 0.997), (False, 0.999)])
def test_the_real_articles_are_covered(tmp_path, boundaries, coverage):
    source = Path(DATA) / "squad"
    files = [source / f"dev.{name}xz" for name in ("jsonl.", "documents.jsonl.", "gold.jsonl.")]
    done = import_squad_article(files[0], files[1], tmp_path / "data", files[2])
    assert (done.examples, done.documents) == (9483, 54)
    matching = Matching(boundaries=boundaries)
    manifest = search_reading(tmp_path / "data/examples.jsonl", tmp_path / "store", matching=matching)
    assert manifest["counts"]["covered"] / manifest["counts"]["examples"] >= coverage
    documents, examples = read_back(tmp_path / "data")
    gold = read_gold(tmp_path / "data/gold.jsonl")
    store = SolutionStore(tmp_path / "store", MentionCodec())
    known = found = 0
    for name, mentions in store:
        spans = parse_gold(gold[name].solution, documents[examples[name].context])
        known += bool(spans.mentions)
        found += bool(spans.mentions) and spans.place_in(mentions) is not None
    assert found / known >= 0.997
