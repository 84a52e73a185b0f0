"""The predictions of any task, read back from ``predictions.jsonl`` and judged: what a comparison and an audit work on.

An answer is right as the task's own metric says (the same result, exact match); where the task has an F1, that is
computed too, from the solution, so a file need not hold it. A solution is *genuine* where it is gold's; of a mention
that is an overlap with a gold one, or the gold paragraph where no more is known. What ``bonafide select`` picks among
candidates is read as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bonafide.documents import documents_of_store, open_documents
from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.evaluate.predictions import read_predictions
from bonafide.evaluate.sql import judge
from bonafide.examples import DateAnswer, Example, Gold, describe, open_examples, read_objects
from bonafide.files import content_hash
from bonafide.learn.discrete import gold_program, passages_of
from bonafide.learn.reading import ReadingAnswer, ReadingLearning
from bonafide.learn.saved import check_model
from bonafide.learn.text import TextAnswer, TextLearning, gold_texts
from bonafide.report.inspect import bound_sql
from bonafide.sealed import check_lines, read_sealed
from bonafide.search.sql import tables_beside
from bonafide.search.text import example_check as text_check
from bonafide.solutions import read_manifest
from bonafide.tasks.discrete.execution import execute
from bonafide.tasks.discrete.metrics import answer_type as answer_type_of_drop
from bonafide.tasks.discrete.metrics import exact_match_and_f1, score, value_texts
from bonafide.tasks.discrete.notation import parse_program, program_text
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.task import language_of
from bonafide.tasks.reading.metrics import exact_match, right_mention, right_paragraph
from bonafide.tasks.reading.span import Mention, parse_gold
from bonafide.tasks.sql.query import execute as execute_query
from bonafide.tasks.sql.query import parse_query
from bonafide.tasks.sql.query import same_answer as same_result
from bonafide.tasks.sql.sources import open_tables, source_of_store
from bonafide.tasks.sql.tables import ColumnType
from bonafide.tasks.text.words import normalised
from bonafide.tasks.text.words import same_answer as same_statement

TASKS = ("sql", "discrete", "reading", "text")


@dataclass(frozen=True, slots=True)
class Asked:
    """Examples by id, their contexts, and the options of the search: what solutions to them are read with."""

    task: str
    examples: dict[str, Example]
    context_of: Callable[[Example], Any]
    options: dict[str, Any]

    def context(self, example: Example) -> Any:
        """What a solution of the example runs on: a table, a document, a reading of question and passage."""
        found = self.context_of(example)
        return Reading(Passage(example.question), found) if self.task == "discrete" else found

    def text(self, solution: Any, example: Example) -> str:
        """A solution as a person reads it."""
        context = self.context(example)
        if self.task == "sql":
            return bound_sql(solution, context)
        if self.task == "discrete":
            return program_text(solution, context, language_of(self.options))
        if self.task == "text":
            return str(solution)
        return ReadingAnswer(solution, solution.text(context), 0.0).text

    def gold(self, known: Gold, example: Example) -> Any:
        """The gold solution, or all of them, in the task's own form; None where the language has no room for it."""
        context = self.context(example)
        if self.task == "sql":
            return parse_query(known.solution, context)
        if self.task == "discrete":
            return gold_program(known, context, language_of(self.options))
        if self.task == "text":
            return gold_texts(known)
        return parse_gold(known.solution, context)


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction, judged; ``solution`` is None where there was none, ``genuine`` where gold is not known.

    ``f1``: of its answer; None of a task that does not measure it.
    """

    example: Example
    solution: Any
    text: str
    right: bool
    genuine: bool | None
    f1: float | None = None


def asked_beside(
    task: str, examples: Path, run: Path, table: Sequence[Path] = (), types: Mapping[str, ColumnType] | None = None
) -> Asked:
    """The examples of a file with the contexts beside it (or in ``table``), as the model of a run reads them."""
    if task == "sql":
        tables = open_tables(None if table else tables_beside(examples), table, types)
        return Asked(task, _by_id(examples, tables.check), tables.table_of, {})
    if task == "text":
        return _texts(examples, {})
    documents = open_documents(None, examples)
    listed = _by_id(examples, documents.check)
    if task == "discrete":
        options = {"language": read_sealed(check_model(run) / "model.json")["solver"]["spec"]["language"]}
        return Asked(task, listed, passages_of(documents), options)
    _check_task(task)
    return Asked(task, listed, documents.document_of, {})


def asked_of_store(store: Path, examples: Path | None = None) -> Asked:
    """The examples and contexts that a store was searched over; ``examples``: where they are, if they were moved."""
    manifest = read_manifest(store)
    task, inputs, options = manifest["task"], manifest["inputs"], manifest["options"]
    _check_task(task)
    path = examples or store / inputs["examples"][0]["path"]
    if not path.exists():
        raise BonafideError(f"The examples of {store} are no longer at {path}. Say where with --examples.")
    if content_hash(path) != inputs["examples"][0]["sha256"]:
        raise BonafideError(f"{path} is not the file that {store} was searched over: its content differs.")
    if task == "sql":
        tables = source_of_store(store, inputs, None, ())
        return Asked(task, _by_id(path, tables.check), tables.table_of, options)
    if task == "text":
        return _texts(path, options)
    documents = documents_of_store(store, inputs)
    context_of = passages_of(documents) if task == "discrete" else documents.document_of
    return Asked(task, _by_id(path, documents.check), context_of, options)


def read_predicted(path: Path, asked: Asked, gold: Mapping[str, Gold] | None = None) -> dict[str, Predicted]:
    """The predictions of a file by example, judged, or every problem of the file."""
    check_lines(path)
    known = gold or {}
    if asked.task == "sql":
        made = [_sql(each, asked, known) for each in read_predictions(path, partial(_table, asked))]
    else:
        made = _read_lines(path, asked, known)
    by_id: dict[str, Predicted] = {}
    for each in made:
        if each.example.id in by_id:
            raise BonafideError(f"{path} has two predictions for the example {each.example.id!r}: expected one.")
        by_id[each.example.id] = each
    if not by_id:
        raise BonafideError(f"{path} holds no predictions: expected one JSON object a line, found an empty file.")
    return by_id


def answer_type(example: Example, task: str) -> str:
    """``number``, ``text``, ``date``, ``several`` values, or ``nothing``; of several accepted answers the first's.

    Of answers about passages DROP's own type: ``number``, ``span``, ``spans`` or ``date``.
    """
    if not example.answers or example.answers[0] is None:
        return "nothing"
    first = example.answers[0]
    if task == "discrete":
        return answer_type_of_drop(first)
    if isinstance(first, tuple) or (task == "sql" and len(example.answers) > 1):
        return "several"
    if isinstance(first, DateAnswer):
        return "date"
    if isinstance(first, str):
        try:
            return "number" if "_" not in first and math.isfinite(float(first.replace(",", ""))) else "text"
        except ValueError:
            return "text"
    return "number"


def _by_id(path: Path, check: Any) -> dict[str, Example]:
    return {each.id: each for each in open_examples(path, check)}


def _texts(examples: Path, options: dict[str, Any]) -> Asked:
    return Asked("text", _by_id(examples, text_check(None)), lambda example: example.context or "", options)


def _check_task(task: str) -> None:
    if task not in TASKS:
        raise BonafideError(f"Predictions of the task {task!r} cannot be read: expected one of {', '.join(TASKS)}.")


def _table(asked: Asked, name: str) -> Any:
    return asked.context_of(asked.examples[name])


def _sql(prediction: Any, asked: Asked, known: Mapping[str, Gold]) -> Predicted:
    example = asked.examples[prediction.example]
    table = asked.context_of(example)
    gold = known.get(example.id)
    outcome = judge(prediction, example, table, None if gold is None else parse_query(gold.solution, table))
    text = "" if prediction.query is None else bound_sql(prediction.query, table)
    return Predicted(example, prediction.query, text, outcome.execution, outcome.logical_form)


def _read_lines(path: Path, asked: Asked, known: Mapping[str, Gold]) -> list[Predicted]:
    made: list[Predicted] = []
    problems: list[Problem] = []
    for line, data in read_objects(path):
        name = data.get("example", data.get("id")) if isinstance(data, dict) else None
        if not isinstance(data, dict):
            found = str(data) if isinstance(data, Exception) else describe(data)
            problems.append(Problem(line, "", "(line)", "one JSON object", found))
        elif not isinstance(name, str) or name not in asked.examples:
            problems.append(Problem(line, str(name or ""), "example", "the id of an example", describe(name)))
        else:
            try:
                made.append(_READERS[asked.task](data, asked.examples[name], asked, known.get(name)))
            except BonafideError as error:
                problems.append(Problem(line, name, "solution", "one that fits its context", str(error)))
    if problems:
        raise InvalidFileError(str(path), problems)
    return made


def _discrete(data: dict[str, Any], example: Example, asked: Asked, known: Gold | None) -> Predicted:
    reading, language = asked.context(example), language_of(asked.options)
    program = parse_program(str(data.get("program")), reading, language)
    answer = value_texts(execute(program, reading, language))
    gold = None if known is None else gold_program(known, reading, language)
    genuine = None if known is None else program == gold
    found = score(answer, example.answers)
    return Predicted(
        example, program, program_text(program, reading, language), found.exact_match == 1, genuine, found.f1
    )


def _reading(data: dict[str, Any], example: Example, asked: Asked, known: Gold | None) -> Predicted:
    if data.get("answer") is None:
        return Predicted(example, None, "", False, None if known is None else False, 0.0)
    document = asked.context_of(example)
    places = [data.get(key) for key in ("paragraph", "start", "end")]
    if not all(isinstance(each, int) for each in places) or not 0 <= data["paragraph"] < len(document.paragraphs):
        raise BonafideError(f"expected paragraph, start and end of its document, found {places}")
    mention = Mention(data["paragraph"], data["start"], data["end"])
    found = ReadingAnswer(mention, mention.text(document), 0.0)
    genuine = None
    if known is not None:
        spans = parse_gold(known.solution, document)
        genuine = right_mention(mention, spans) if spans.mentions else right_paragraph(mention, spans)
    scores = ReadingLearning().scores(found, example)
    return Predicted(example, mention, found.text, scores["execution"] == 1, genuine, scores["f1"])


def _text(data: dict[str, Any], example: Example, asked: Asked, known: Gold | None) -> Predicted:
    text = data.get("text", data.get("picked"))
    if text is None:
        return Predicted(example, None, "", False, None if known is None else False)
    if not isinstance(text, str):
        raise BonafideError(f"expected a text, found {describe(text)}")
    genuine = None if known is None else normalised(text) in map(normalised, gold_texts(known))
    right = TextLearning().scores(TextAnswer(text, 0.0), example)["execution"] == 1
    return Predicted(example, text, text, right, genuine)


_READERS = {"discrete": _discrete, "reading": _reading, "text": _text}


def shown_answer(solution: Any, asked: Asked, example: Example) -> str:
    """What a solution returns, as a person reads it."""
    context = asked.context(example)
    if asked.task == "sql":
        found = execute_query(solution, context) or []
        return ", ".join("NULL" if each is None else str(each) for each in found) or "nothing"
    if asked.task == "discrete":
        return ", ".join(value_texts(execute(solution, context, language_of(asked.options))))
    if asked.task == "text":
        return TextAnswer(solution, 0.0).answer
    return str(solution.text(context))


def accepted_answers(example: Example) -> str:
    """What a right solution returns, as a person reads it."""
    texts = (
        each.text if isinstance(each, DateAnswer) else " and ".join(each) if isinstance(each, tuple) else str(each)
        for each in example.answers
    )
    return ", ".join(texts)


def same_answer(one: Any, other: Any, asked: Asked, example: Example) -> bool:
    """Whether two solutions return the same, as the task's own metric compares answers."""
    context = asked.context(example)
    if asked.task == "sql":
        left, right = (execute_query(each, context) or [] for each in (one, other))
        return same_result(left, right)
    if asked.task == "discrete":
        said, meant = (value_texts(execute(each, context, language_of(asked.options))) for each in (one, other))
        return exact_match_and_f1(said, meant)[0] == 1
    if asked.task == "text":
        return same_statement(TextAnswer(one, 0.0).answer, TextAnswer(other, 0.0).answer)
    return exact_match(one.text(context), [other.text(context)]) == 1
