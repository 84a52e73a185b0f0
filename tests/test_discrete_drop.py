"""DROP's official file: imported whole, what is missing counted; searched from the command line."""

from __future__ import annotations

import json
import lzma
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bonafide.documents import open_documents
from bonafide.errors import BonafideError
from bonafide.examples import DateAnswer, open_examples
from bonafide.search.discrete import search_discrete
from bonafide.solutions import SolutionStore
from bonafide.tasks.discrete.drop import import_drop
from bonafide.tasks.discrete.execution import execute
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.metrics import answer_type, score, value_texts
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.task import ProgramCodec
from command_line import bonafide, refused, refused_unchanged, write_lines

DATA = os.environ.get("BONAFIDE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="BONAFIDE_DATA is not set: no real data at hand")
EMPTY_DATE = {"day": "", "month": "", "year": ""}
PASSAGE = "Ann sold 12 sheep in May 1644 and 30 in 1650. Bo sold none."


def answer(number: str = "", spans: tuple[str, ...] = (), **date: str) -> dict[str, Any]:
    return {"number": number, "spans": list(spans), "date": EMPTY_DATE | date}


def question(text: str, given: Any, **more: Any) -> dict[str, Any]:
    return {"question": text, "query_id": text, "answer": given, **more}


OFFICIAL = {
    "farm": {
        "passage": PASSAGE,
        "qa_pairs": [
            question("How many more?", answer("18")),
            question("What share?", answer(".40")),
            question("Who?", answer(spans=("Ann",)), validated_answers=[answer(spans=("Ann",)), answer(spans=("Bo",))]),
            question("Both?", answer(spans=("Ann", "Bo"))),
            question("When?", answer(month="May", year="1644")),
            {"question": "Without an id?", "answer": answer("12")},
        ],
    }
}


def write(path: Path, data: Any) -> Path:
    path.write_text(json.dumps(data))
    return path


def test_the_official_file_becomes_examples_and_documents(tmp_path):
    done = import_drop(write(tmp_path / "drop.json", OFFICIAL), tmp_path / "out")
    assert (done.examples, done.documents, done.left_out) == (6, 1, [])
    examples = list(open_examples(tmp_path / "out/examples.jsonl"))
    assert [example.answers for example in examples] == [
        (18,),
        (0.4,),
        ("Ann", "Bo"),
        (("Ann", "Bo"),),
        (DateAnswer("", "May", "1644"),),
        (12,),
    ]
    assert examples[5].id == "farm-6"
    source = open_documents(None, tmp_path / "out/examples.jsonl")
    assert source.document_of(examples[0]).text == PASSAGE


def test_a_compressed_file_reads_the_same(tmp_path):
    plain = write(tmp_path / "drop.json", OFFICIAL)
    (tmp_path / "drop.json.xz").write_bytes(lzma.compress(plain.read_bytes()))
    for name in ("drop.json", "drop.json.xz"):
        import_drop(tmp_path / name, tmp_path / name.replace(".", "-"))
    for name in ("examples.jsonl", "documents.jsonl"):
        assert (tmp_path / "drop-json" / name).read_bytes() == (tmp_path / "drop-json-xz" / name).read_bytes()


def test_a_file_with_a_byte_order_mark_reads_the_same(tmp_path):
    path = write(tmp_path / "drop.json", OFFICIAL)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert import_drop(path, tmp_path / "out").examples == 6


def test_what_is_missing_is_left_out_and_counted(tmp_path):
    pairs = [
        question("Kept?", answer("1")),
        question("Kept?", answer("2")),
        question("Empty answer?", answer()),
        {"question": "No answer?", "query_id": "x"},
        {"query_id": "y", "answer": answer("1")},
        question(" ", answer("1")),
        "no object",
        question("Odd answer?", {"number": None, "spans": "Ann", "date": [], "worker": 3}),
        question("Only validated?", None, validated_answers=[answer("7")]),
        question("Number of another kind?", {"number": 3.5}),
        question("A number in words?", answer("two or three")),
    ]
    data = {
        "good": {"passage": PASSAGE, "qa_pairs": pairs},
        "no questions": {"passage": PASSAGE},
        "no text": {"passage": " ", "qa_pairs": pairs},
        "no object": [],
    }
    done = import_drop(write(tmp_path / "drop.json", data), tmp_path / "out")
    assert done.reasons() == {
        "a question whose query_id was used before": 1,
        "a question without an answer": 3,
        "a question without a text": 2,
        "a question that is no object": 1,
        "a passage without a list of questions": 1,
        "a passage without a text": 1,
        "a passage that is no object, or has no id": 1,
    }
    assert done.left_out[0].place == "question 2 of passage 'good'"
    kept = {example.id: example.answers for example in open_examples(tmp_path / "out/examples.jsonl")}
    assert kept == {
        "Kept?": (1,),
        "Only validated?": (7,),
        "Number of another kind?": (3.5,),
        "A number in words?": ("two or three",),
    }


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "it is empty"),
        ({"p": {"passage": "x", "qa_pairs": [{}]}}, "a question without a text"),
        ([], "expected a JSON object"),
    ],
)
def test_a_file_without_a_usable_question_is_refused(tmp_path, data, said):
    with pytest.raises(BonafideError, match=said):
        import_drop(write(tmp_path / "drop.json", data), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_line_imports_searches_and_says_what_was_left_out(tmp_path):
    data = {"farm": {"passage": PASSAGE, "qa_pairs": [*OFFICIAL["farm"]["qa_pairs"], question("None?", answer())]}}
    imported = bonafide("import", "drop", write(tmp_path / "drop.json", data), "--out", tmp_path / "data")
    assert imported.code == 0
    assert "6 examples on 1 passages" in imported.stderr
    assert "a question without an answer, 1 time(s), first question 7 of passage 'farm'" in imported.stderr
    examples = tmp_path / "data/examples.jsonl"
    searched = bonafide("search", "discrete", "--examples", examples, "--out", tmp_path / "z", "--without", "count")
    assert searched.code == 0
    assert "6 examples; 83.33% have at least one" in searched.stderr
    store = SolutionStore(tmp_path / "z", ProgramCodec())
    assert "count" not in store.manifest["options"]["language"]["rules"]
    assert [len(solutions) > 0 for _, solutions in store] == [True, False, True, True, True, True]
    assert "solutions of the task 'discrete'; inspect reads" in refused(bonafide("inspect", tmp_path / "z"))
    unknown = bonafide("search", "discrete", "--examples", examples, "--out", tmp_path / "y", "--without", "counts")
    assert "There is no rule 'counts'" in refused(unknown)
    assert not (tmp_path / "y").exists()


def test_examples_without_answer_or_document_are_refused_with_every_problem(tmp_path):
    write_lines(tmp_path / "documents.jsonl", [{"id": "farm", "paragraphs": [PASSAGE]}])
    write_lines(
        tmp_path / "examples.jsonl",
        [
            {"id": "a", "question": "?", "context": "farm", "answers": []},
            {"id": "b", "question": "?", "context": "barn", "answers": [None]},
        ],
    )
    examples, out = tmp_path / "examples.jsonl", tmp_path / "z"
    _, table = refused_unchanged(tmp_path, lambda: bonafide("search", "discrete", "--examples", examples, "--out", out))
    assert [row[:3] for row in table] == [["1", "a", "answers"], ["2", "b", "context"], ["2", "b", "answers"]]


def test_any_number_of_workers_writes_the_same_store(tmp_path):
    import_drop(write(tmp_path / "drop.json", OFFICIAL), tmp_path / "data")
    for workers in (1, 2):
        search_discrete(tmp_path / "data/examples.jsonl", tmp_path / str(workers), workers=workers)
    shards = [sorted(path.name for path in (tmp_path / name).glob("*.parquet")) for name in ("1", "2")]
    assert shards[0] == shards[1] == ["shard-00000.parquet"]
    assert (tmp_path / "1" / shards[0][0]).read_bytes() == (tmp_path / "2" / shards[0][0]).read_bytes()


def test_inline_passages_need_no_documents(tmp_path):
    line = {"id": "a", "question": "How many sheep?", "context": PASSAGE, "answers": [12]}
    write_lines(tmp_path / "examples.jsonl", [line])
    manifest = search_discrete(tmp_path / "examples.jsonl", tmp_path / "z")
    assert manifest["counts"]["covered"] == 1


@needs_data
@pytest.mark.slow
def test_the_real_data_is_covered_and_every_solution_is_right(tmp_path):
    done = import_drop(Path(str(DATA)) / "drop/train.json.xz", tmp_path / "data")
    assert (done.examples, done.documents) == (14_013, 1_013)
    assert done.reasons() == {"a question without an answer": 1}
    examples = tmp_path / "data/examples.jsonl"
    search_discrete(examples, tmp_path / "z", cap=None)
    source, store = open_documents(None, examples), SolutionStore(tmp_path / "z", ProgramCodec())
    covered: dict[str, list[bool]] = {}
    asks_days = []
    checked = set(random.Random(0).sample(store.ids, 400))
    for example, (name, solutions) in zip(open_examples(examples), store, strict=True):
        assert example.id == name
        covered.setdefault(answer_type(example.answers[0]), []).append(len(solutions) > 0)
        if example.question.lower().startswith(("how many days after", "how many months after")):
            asks_days.append(Rule.DATE_DIFFERENCE in solutions.rule)
        if name in checked:
            reading = Reading(Passage(example.question), Passage(source.document_of(example).text))
            for program in solutions[:200]:
                returned = value_texts(execute(program, reading, Language()))
                assert score(returned, example.answers).exact_match == 1, (name, program)
    shares = {kind: float(np.mean(each)) for kind, each in covered.items()}
    assert np.mean([each for kind in covered.values() for each in kind]) >= 0.97
    assert all(shares[kind] >= 0.97 for kind in ("number", "span", "spans"))
    assert shares["date"] >= 0.72
    assert np.mean(asks_days) >= 0.8
    sizes = store.sizes
    assert (np.mean(sizes) < 20, np.median(sizes) <= 3) == (True, True)
