"""SQuAD's own JSON (v1.1 and v2.0), and SQuAD at article level in three files, into examples, documents and gold.

In SQuAD's JSON a question belongs to a paragraph. At *paragraph* level each paragraph is a document; at *article*
level the whole article is, so that an answer has many mentions. Where the answer stands goes to gold. Questions of
v2.0 that have no answer are left out: there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from bonafide.documents import Document, DocumentFile
from bonafide.errors import BonafideError, shortened
from bonafide.examples import Example, Gold
from bonafide.files import read_json, spare_inputs
from bonafide.tasks.reading.imported import (
    Imported,
    Lines,
    WrongFieldError,
    objects_field,
    question_field,
    text_field,
    texts_field,
    write_data,
)
from bonafide.tasks.reading.span import parse_gold

Level = Literal["article", "paragraph"]


def import_squad(path: Path, out: Path, level: Level = "article") -> Imported:
    """SQuAD's JSON into ``examples.jsonl``, ``documents.jsonl`` and ``gold.jsonl``: all of them, or none."""
    spare_inputs(out, path)
    examples: list[Example] = []
    gold: list[Gold] = []
    documents: dict[str, Document] = {}
    ids: set[str] = set()
    left_out = 0
    for where, title, number, paragraphs, questions in _paragraphs(path):
        name = title if level == "article" else f"{title}/{number}"
        if number == 0 and name in documents:
            raise BonafideError(f"{path}, {where}: expected a title used once, found {shortened(title)} again.")
        if level == "article":
            documents.setdefault(name, Document(name, title, paragraphs))
        else:
            documents[name] = Document(name, title, (paragraphs[number],))
        for place, question in enumerate(questions):
            try:
                read = _question(question, name, paragraphs[number], number if level == "article" else 0)
            except WrongFieldError as wrong:
                field, expected, found = wrong.args
                raise BonafideError(
                    f"{path}, {where}.qas[{place}].{field}: expected {expected}, found {found}. Nothing was done."
                ) from None
            if read is None:
                left_out += 1
                continue
            if read[0].id in ids:
                used = shortened(read[0].id)
                raise BonafideError(f"{path}, {where}.qas[{place}].id: {used} is used twice. Nothing was done.")
            ids.add(read[0].id)
            examples.append(read[0])
            gold.append(read[1])
    if not examples:
        raise BonafideError(f"{path} holds no questions with answers.")
    write_data(out, examples, documents.values(), gold)
    return Imported(len(examples), len(documents), left_out)


def import_squad_article(questions: Path, documents: Path, out: Path, gold: Path | None = None) -> Imported:
    """SQuAD at article level, a file each for questions, documents and gold, into our three files."""
    spare_inputs(out, questions, documents, *([gold] if gold is not None else []))
    source = DocumentFile(documents)
    lines = Lines(questions)
    examples: dict[str, Example] = {}
    for line, data in lines:
        try:
            name = text_field(data, "id")
            document = data.get("document")
            if not isinstance(document, str) or document not in source:
                raise WrongFieldError("document", f"the id of a document in {documents.name}", document)
            example = Example(name, question_field(data, "question"), document, texts_field(data, "answers"))
        except WrongFieldError as wrong:
            lines.add(line, str(data.get("id", "")), wrong)
            continue
        lines.used_once(line, name)
        examples[name] = example
    lines.check()
    solutions = None if gold is None else list(_gold(gold, examples, source))
    write_data(out, list(examples.values()), (source[name] for name in source), solutions)
    return Imported(len(examples), len(source))


def _gold(path: Path, examples: dict[str, Example], source: DocumentFile) -> Iterator[Gold]:
    lines = Lines(path)
    held: dict[str, Document] = {}
    found: list[Gold] = []
    for line, data in lines:
        name = data.get("id")
        if not isinstance(name, str) or name not in examples:
            lines.add(line, "", WrongFieldError("id", "the id of a question", name))
            continue
        lines.used_once(line, name)
        context = examples[name].context or ""
        if context not in held:
            held = {context: source[context]}  # questions on one document stand together
        solution = {"paragraph": data.get("paragraph"), "spans": data.get("spans")}
        try:
            parse_gold(solution, held[context])
        except BonafideError as error:
            lines.add(line, name, WrongFieldError("spans", "a mention in its document", ValueError(str(error))))
            continue
        found.append(Gold(name, solution))
    lines.check()
    yield from found


def _paragraphs(path: Path) -> Iterator[tuple[str, str, int, tuple[str, ...], list[dict[str, Any]]]]:
    """(where it is, title of the article, number in it, all texts of the article, questions) of each paragraph."""
    where = "data"
    try:
        for place, article in enumerate(objects_field(read_json(path), "data")):
            where = f"data[{place}]"
            title = text_field(article, "title")
            paragraphs = objects_field(article, "paragraphs")
            texts = []
            for number, paragraph in enumerate(paragraphs):
                where = f"data[{place}].paragraphs[{number}]"
                texts.append(text_field(paragraph, "context"))
            for number, paragraph in enumerate(paragraphs):
                where = f"data[{place}].paragraphs[{number}]"
                yield where, title, number, tuple(texts), objects_field(paragraph, "qas")
    except WrongFieldError as wrong:
        field, expected, found = wrong.args
        place_of = field if field == where else f"{where}.{field}"
        raise BonafideError(f"{path}, {place_of}: expected {expected}, found {found}. Nothing was done.") from None


def _question(data: dict[str, Any], document: str, text: str, paragraph: int) -> tuple[Example, Gold] | None:
    """The example and its gold; None for a question without an answer."""
    name, question = text_field(data, "id"), question_field(data, "question")
    answers: dict[str, None] = {}
    spans: dict[tuple[str, int], None] = {}
    for answer in objects_field(data, "answers"):
        said, start = text_field(answer, "text"), answer.get("answer_start")
        if not isinstance(start, int) or start < 0 or not text.startswith(said, start):
            raise WrongFieldError("answers.answer_start", f"where {shortened(said)} begins in the paragraph", start)
        answers[said] = None
        spans[said, start] = None
    if not answers:
        return None
    solution = {"paragraph": paragraph, "spans": [{"text": said, "start": start} for said, start in spans]}
    return Example(name, question, document, tuple(answers)), Gold(name, solution)
