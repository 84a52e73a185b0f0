"""Documents are read whole or refused with every problem; what is written comes back."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bonafide.documents import (
    Document,
    DocumentFile,
    document_from_line,
    document_to_json,
    documents_of_store,
    open_documents,
)
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import Example, open_examples, write_jsonl

FILE_FOR_EACH_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
SIEGE = Document("siege", "The siege", ("It began in 1648.", "It ended in 1653."))
FAIR = Document("fair", None, ("Forty stalls, one rain.",))

texts = st.text(max_size=20)
documents = st.builds(
    Document, st.text(min_size=1, max_size=9), st.none() | texts, st.lists(texts, min_size=1, max_size=4).map(tuple)
)


def write(path: Path, *lines: Any) -> Path:
    write_jsonl(path, [document_to_json(each) if isinstance(each, Document) else each for each in lines])
    return path


@FILE_FOR_EACH_EXAMPLE
@given(st.lists(documents, min_size=1, max_size=5, unique_by=lambda each: each.name))
def test_what_is_written_comes_back(tmp_path, written):
    file = DocumentFile(write(tmp_path / "documents.jsonl", *written))
    assert list(file) == [each.name for each in written]
    assert [file[name] for name in file] == written
    assert [document_from_line(file.raw(each.name)) for each in written] == written


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_documents_read_the_same(tmp_path, suffix, pack):
    plain = write(tmp_path / "plain.jsonl", SIEGE, FAIR)
    packed = tmp_path / f"documents.jsonl{suffix}"
    packed.write_bytes(pack(plain.read_bytes()))
    (tmp_path / "examples.jsonl").touch()
    source = open_documents(None, tmp_path / "examples.jsonl")
    assert source.path == packed
    assert source.documents["fair"] == FAIR


def test_the_text_of_a_document_is_its_paragraphs_on_lines():
    assert SIEGE.text == "It began in 1648.\nIt ended in 1653."


def test_every_problem_is_reported(tmp_path):
    path = tmp_path / "documents.jsonl"
    lines = [
        document_to_json(SIEGE),
        {"id": "", "paragraphs": ["a"]},
        {"id": "b", "title": 3, "paragraphs": []},
        {"id": "c", "paragraphs": ["a", None]},
        document_to_json(SIEGE),
        [],
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n{half\n")
    with pytest.raises(InvalidFileError) as caught:
        DocumentFile(path)
    assert [(problem.line, problem.field) for problem in caught.value.problems] == [
        (2, "id"),
        (3, "title"),
        (3, "paragraphs"),
        (4, "paragraphs"),
        (5, "id"),
        (6, "(line)"),
        (8, "(line)"),
    ]


def test_a_file_without_documents_is_refused(tmp_path):
    (tmp_path / "documents.jsonl").write_text("\n \n")
    with pytest.raises(BonafideError, match="holds no documents"):
        DocumentFile(tmp_path / "documents.jsonl")


def test_examples_must_name_a_document_of_the_file(tmp_path):
    write(tmp_path / "documents.jsonl", SIEGE)
    questions = [
        {"id": f"q{number}", "question": "when?", "context": context, "answers": [1]}
        for number, context in enumerate(["siege", "fair", None])
    ]
    examples = tmp_path / "examples.jsonl"
    write_jsonl(examples, questions)
    source = open_documents(None, examples)
    with pytest.raises(InvalidFileError) as caught:
        open_examples(examples, source.check)
    assert [(problem.id, problem.field) for problem in caught.value.problems] == [("q1", "context"), ("q2", "context")]
    assert "1 documents of documents.jsonl" in caught.value.problems[0].expected
    assert source.document_of(Example("q0", "when?", "siege", (1,))) == SIEGE


def test_without_a_file_the_context_is_the_text(tmp_path):
    examples = tmp_path / "examples.jsonl"
    write_jsonl(examples, [{"id": "q", "question": "when?", "context": " ", "answers": [1]}])
    source = open_documents(None, examples)
    assert source.path is None
    assert source.document_of(Example("q", "when?", "In 1648.", (1648,))).text == "In 1648."
    with pytest.raises(InvalidFileError, match=r"no documents\.jsonl beside the examples"):
        open_examples(examples, source.check)


@pytest.mark.parametrize(
    ("context", "taken"), [("dev-games-11", False), ("In 1648.", True), ("在一六四八年結束。", True)]
)
def test_the_id_of_a_document_that_is_not_there_is_no_text(tmp_path, context, taken):
    examples = tmp_path / "examples.jsonl"
    write_jsonl(examples, [{"id": "q", "question": "when?", "context": context, "answers": [1]}])
    source = open_documents(None, examples)
    if taken:
        assert len(list(open_examples(examples, source.check))) == 1
    else:
        with pytest.raises(
            InvalidFileError, match=r"text of several words \(there is no documents\.jsonl beside .*dev-games-11"
        ):
            open_examples(examples, source.check)


def test_a_store_finds_its_documents_again_and_no_others(tmp_path):
    path = write(tmp_path / "documents.jsonl", SIEGE)
    store = tmp_path / "store"
    store.mkdir()
    inputs = open_documents(path).description(store)
    assert documents_of_store(store, inputs).documents["siege"] == SIEGE
    moved = path.rename(tmp_path / "moved.jsonl")
    with pytest.raises(BonafideError, match="no longer at"):
        documents_of_store(store, inputs)
    assert documents_of_store(store, inputs, moved).documents["siege"] == SIEGE
    write(moved, FAIR)
    with pytest.raises(BonafideError, match="content differs"):
        documents_of_store(store, inputs, moved)


def test_a_store_over_inline_texts_takes_no_documents(tmp_path):
    inputs = open_documents(None).description(tmp_path)
    assert documents_of_store(tmp_path, inputs).path is None
    with pytest.raises(BonafideError, match="leave --documents out"):
        documents_of_store(tmp_path, inputs, tmp_path / "documents.jsonl")


@pytest.mark.parametrize(
    ("context", "is_text"),
    [
        ("Ada won.", True),
        ("阿达赢了。", True),
        ("siege-12", False),
        ("Beyoncé", False),
        ("Новгород", False),
        ("…", False),
    ],
)
def test_a_context_of_one_word_is_the_id_of_a_document_that_is_missing(context, is_text):
    assert (context in open_documents(None).documents) == is_text
