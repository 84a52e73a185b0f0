"""Readers of questions on texts: our own files, and the public formats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from bonafide.documents import DocumentFile
from bonafide.errors import BonafideError
from bonafide.examples import open_examples, read_gold
from bonafide.tasks.discrete.drop import import_drop
from bonafide.tasks.reading.dpr import import_dpr
from bonafide.tasks.reading.plaintext import read_document
from bonafide.tasks.reading.quasar import import_quasar
from bonafide.tasks.reading.squad import import_squad, import_squad_article
from bonafide.tasks.reading.webquestions import import_webquestions
from bonafide.tasks.text.candidates import CandidateFile
from bonafide.tasks.text.imported import read_questions, write_questions
from fuzzing.contract import BrokenContractError, Target
from fuzzing.tables import lines

EXAMPLES = [
    {"id": "a", "question": "who plays for kansas?", "context": "siege-1", "answers": ["Ed Roush"]},
    {"id": "b", "question": "how many?", "context": None, "answers": [3, 2.5, None, ["Oslo", "Riga"]]},
    {
        "id": "c",
        "question": "wann?",
        "answers": [{"day": "24", "month": "October", "year": "1596"}],
        "gold": {"sel": 1},
    },
]
DOCUMENTS = [
    {"id": "siege-1", "title": "The siege", "paragraphs": ["In 1648 the siege began.", "Ed Roush left."]},
    {"id": "siege-2", "paragraphs": ["Five years later, é."]},
]
GOLD = [
    {"id": "a", "solution": {"paragraph": 1, "spans": [{"text": "Ed Roush", "start": 0}]}},
    {"id": "b", "solution": {"sel": 0, "agg": 0, "conds": []}},
]
_DROP = {
    "history_1": {
        "passage": "The siege began in 1648. Ann Lee left on 24 October 1653.",
        "qa_pairs": [
            {"question": "How many years?", "query_id": "q1", "answer": {"number": "5", "spans": [], "date": {}}},
            {
                "question": "Who left?",
                "query_id": "q2",
                "answer": {"number": "", "spans": ["Ann Lee"], "date": {"day": "", "month": "", "year": ""}},
                "validated_answers": [{"number": "", "spans": ["Ann", "Lee"]}, {"number": "1,000.5"}],
            },
            {"question": "When?", "answer": {"date": {"day": "24", "month": "October", "year": "1653"}}},
        ],
    },
    "nfl_2": {
        "passage": "A 78-yard run.",
        "qa_pairs": [{"question": "Yards?", "query_id": "q3", "answer": {"number": 78}}],
    },
}
_SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Oslo",
            "paragraphs": [
                {
                    "context": "Oslo is the capital. It lies on a fjord.",
                    "qas": [
                        {"id": "1", "question": "What is it?", "answers": [{"text": "capital", "answer_start": 12}]},
                        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                },
                {"context": "It is old.", "qas": []},
            ],
        }
    ],
}
_QUASAR = [
    {"uid": "s1", "question": "capital of norway", "answer": "oslo", "tags": ["1tok"]},
    {"uid": "s2", "question": "it lies on a ___", "answer": "fjord"},
]
_CONTEXTS = [
    {"uid": "s1", "contexts": [[0.5, "Oslo is the capital."], [2, "A city."]]},
    {"uid": "s2", "contexts": [[1e-3, "On a fjord."]]},
]
_ARTICLE = [{"id": "a", "question": "who left?", "document": "siege-1", "answers": ["Ed Roush"]}]
_ARTICLE_GOLD = [{"id": "a", "paragraph": 1, "spans": [{"text": "Ed Roush", "start": 0}, {"text": "x", "start": None}]}]
_WEB = [
    {
        "url": "u",
        "utterance": "what does jaxon do?",
        "targetValue": '(list (description "Jaxon \\"J\\" B") (description Oslo))',
    },
    {"question": "where is it?", "answers": ["Oslo", "Riga"], "id": "w2"},
]
_DPR = [
    {
        "question": "who?",
        "answers": ["Ann"],
        "ctxs": [{"id": "p1", "title": "Oslo", "text": "Ann lives.", "score": "3.5"}],
    },
    {"q_id": 7, "question": "where?", "answers": [], "ctxs": [{"text": "a"}, {"title": None, "text": "b"}]},
]
_BROUGHT = [
    {
        "id": "q1",
        "question": "12 and 7?",
        "answer": 19,
        "candidates": [{"text": "12 + 7 = 19", "answer": 19}, "20 - 1"],
    },
    {"question": "and?", "context": "a b", "answer": ["x", 1.5], "candidates": ["x"], "gold": ["x", "y"]},
]
_CANDIDATES = [{"id": "q1", "candidates": [{"text": "12 + 7 = 19", "answer": 19}, {"text": "20 - 1"}, "7 + 12"]}]
_TEXT = (
    "# The siege\n\nIn **1648** it [began](x).\n\n- one\n- two `x`\n> quoted\n\n```\ncode *a*\n```\n---\n_It_ ended.\n"
)


def examples(folder: Path) -> Target:
    """``examples.jsonl``."""
    path = folder / "examples.jsonl"
    return _target(path, lambda: [each.values for each in open_examples(path)], [lines(EXAMPLES), lines(EXAMPLES[:1])])


def gold(folder: Path) -> Target:
    """``gold.jsonl``, and what it says of documents."""
    from bonafide.documents import Document
    from bonafide.tasks.reading.span import parse_gold

    path = folder / "gold.jsonl"
    document = Document("siege-1", None, ("In 1648.", "Ed Roush left."))

    def read() -> None:
        for name, each in read_gold(path).items():
            if name == "a":
                parse_gold(each.solution, document)

    return _target(path, read, [lines(GOLD), lines(GOLD[:1])], name="")


def documents(folder: Path) -> Target:
    """``documents.jsonl``."""
    path = folder / "documents.jsonl"

    def read() -> None:
        file = DocumentFile(path)
        for name in file:
            file[name].text  # noqa: B018

    return _target(path, read, [lines(DOCUMENTS), lines(DOCUMENTS[:1])])


def drop(folder: Path) -> Target:
    """DROP's official file."""
    path = folder / "drop.json"
    return _target(path, lambda: import_drop(path, folder / "out"), [_json(_DROP)])


def squad(folder: Path) -> Target:
    """SQuAD's JSON, at both levels."""
    path = folder / "squad.json"

    def read() -> None:
        import_squad(path, folder / "out")
        import_squad(path, folder / "out", level="paragraph")

    return _target(path, read, [_json(_SQUAD)])


def squad_article(folder: Path) -> Target:
    """SQuAD at article level: the questions."""
    path, beside = folder / "questions.jsonl", folder / "documents.jsonl"
    beside.write_bytes(lines(DOCUMENTS))
    return _target(path, lambda: import_squad_article(path, beside, folder / "out"), [lines(_ARTICLE)])


def squad_article_gold(folder: Path) -> Target:
    """SQuAD at article level: its gold."""
    path, beside, asked = folder / "spans.jsonl", folder / "documents.jsonl", folder / "questions.jsonl"
    beside.write_bytes(lines(DOCUMENTS))
    asked.write_bytes(lines(_ARTICLE))
    return _target(path, lambda: import_squad_article(asked, beside, folder / "out", path), [lines(_ARTICLE_GOLD)])


def quasar(folder: Path) -> Target:
    """Quasar-T's questions."""
    path, beside = folder / "train_questions.json", folder / "train_contexts.json"
    beside.write_bytes(lines(_CONTEXTS))
    return _target(path, lambda: import_quasar(path, beside, folder / "out"), [lines(_QUASAR), lines(_QUASAR[:1])])


def quasar_contexts(folder: Path) -> Target:
    """Quasar-T's contexts."""
    path, beside = folder / "train_contexts.json", folder / "train_questions.json"
    beside.write_bytes(lines(_QUASAR))
    return _target(path, lambda: import_quasar(beside, path, folder / "out"), [lines(_CONTEXTS)])


def webquestions(folder: Path) -> Target:
    """WebQuestions, as a list and line by line."""
    path = folder / "webquestions.json"
    seeds = [lines(_WEB), _json(_WEB), _json(_WEB[:1])]
    return _target(path, lambda: import_webquestions(path, folder / "out"), seeds)


def dpr(folder: Path) -> Target:
    """Retrieved passages, as a list and line by line."""
    path = folder / "dpr.json"
    return _target(path, lambda: import_dpr(path, folder / "out"), [lines(_DPR), _json(_DPR), _json(_DPR[:1])])


def plain_text(folder: Path) -> Target:
    """Text files as documents, and as passages of discrete reasoning."""
    from bonafide.tasks.discrete.passage import Passage

    path = folder / "siege.txt"
    texts = [
        "The siege began on 3 May 1648.\nIt cost 1,200 men.\n\n40% of 2.5 million fled, in 1653–55 or the 1660s.\n"
    ]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for paragraph in read_document(path).paragraphs:
            Passage(paragraph[:4000]).dates  # noqa: B018

    seeds = [
        *texts,
        _TEXT,
        "On the 24th of October, 1596, twenty-three (½) of $3.14bn; 1st–2nd, −5°, Dec. 31 '99.\n\nx",
    ]
    return Target(read, [each.encode() for each in seeds], path.name, as_json=False)


def markdown(folder: Path) -> Target:
    """Markdown files."""
    path = folder / "siege.md"
    seeds = [_TEXT.encode(), b"---\ntitle: x\n---\nText <!-- note --> and ![picture](a.png)\n\n1. one\n2) two\n"]
    return _target(path, lambda: read_document(path), seeds, as_json=False)


def brought(folder: Path) -> Target:
    """A user's own file of questions with candidates."""
    path = folder / "brought.jsonl"
    return _target(path, lambda: write_questions(read_questions(path), folder / "out"), [lines(_BROUGHT)])


def candidates(folder: Path) -> Target:
    """``candidates.jsonl``."""
    path = folder / "candidates.jsonl"

    def read() -> None:
        file = CandidateFile(path)
        for name in file:
            file[name]

    return _target(path, read, [lines(_CANDIDATES)])


def reads_back(out: Path) -> None:
    """What an importer wrote, our own readers take."""
    try:
        open_examples(out / "examples.jsonl")
        for name, reader in (("documents", DocumentFile), ("gold", read_gold), ("candidates", CandidateFile)):
            if (out / f"{name}.jsonl").exists():
                reader(out / f"{name}.jsonl")
    except BonafideError as error:
        raise BrokenContractError(f"what was written cannot be read: {str(error)[-120:]}") from error


def _target(
    path: Path, read: Callable[[], object], seeds: list[bytes], as_json: bool = True, name: str | None = None
) -> Target:
    def written_and_read(data: bytes) -> None:
        path.write_bytes(data)
        shutil.rmtree(path.parent / "out", ignore_errors=True)
        read()
        if (path.parent / "out").exists():
            reads_back(path.parent / "out")

    return Target(written_and_read, seeds, path.name if name is None else name, as_json)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
