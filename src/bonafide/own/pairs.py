"""Question–answer pairs as people write them, into examples.

One JSON object a line: ``{"question": …, "answer": …}``. ``answer`` is a text, a number, or a list of them; ``id`` and,
where there is one table, ``table`` may be left out. What is read in another way than it was written is noted; what
cannot be read is reported, all of it at once.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import Answer, Example, describe, example_to_json, read_objects, write_jsonl_files
from bonafide.files import bare_name, spare_inputs
from bonafide.tasks.sql.cells import read_column
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import same_answer
from bonafide.tasks.sql.search import count, in_returned_order
from bonafide.tasks.sql.sources import TableSource, open_tables
from bonafide.tasks.sql.tables import WHOLE, ColumnType, Table, table_to_json

_AS_NUMBER = "answers are texts that read as numbers, and stand in no text column: they are read as numbers"
_AS_TEXT = "answers are numbers of more digits than floats hold, and stand in a text column: they are read as texts"
_IN_ROW_ORDER = "answers are lists in another order than the table's rows: they are read in the order of the rows"
_REPEATED = "pairs stand in the file twice: the second was left out"
_NO_GROUP = re.compile(r",(?![0-9]{3}(?![0-9]))")  # a comma that separates no group of three digits


@dataclass(frozen=True, slots=True)
class Pairs:
    """The examples of a file, and what was read in another way than it was written: how often, and what."""

    examples: list[Example]
    notes: dict[str, int]


def import_pairs(path: Path, tables: Sequence[Path], out: Path, types: Mapping[str, ColumnType] | None = None) -> Pairs:
    """Write the pairs of a file as ``examples.jsonl``, and their tables as ``tables.jsonl``, to a folder."""
    spare_inputs(out, path, *tables)
    source = open_tables(None, tables, types)
    pairs = read_pairs(path, source, Language())
    write_jsonl_files(split_files(out, pairs.examples, source))
    return pairs


def split_files(folder: Path, examples: Sequence[Example], source: TableSource) -> dict[Path, list[dict[str, Any]]]:
    """The lines of ``examples.jsonl`` and of a ``tables.jsonl`` with the tables that they ask about."""
    names = dict.fromkeys(example.context for example in examples if example.context is not None)
    return {
        folder / "examples.jsonl": [example_to_json(example) for example in examples],
        folder / "tables.jsonl": [table_to_json(source.tables[name]) for name in names],
    }


def read_pairs(path: Path, source: TableSource, language: Language) -> Pairs:
    """Read and check every pair of a file; the tables are those that the questions are about."""
    problems: list[Problem] = []
    notes: Counter[str] = Counter()
    asked: dict[tuple[str, str], tuple[int, Example]] = {}
    first_line: dict[str, int] = {}
    objects = list(read_objects(path))
    given = {data["id"] for _, data in objects if isinstance(data, dict) and isinstance(data.get("id"), str)}
    for line, data in objects:
        found = list(_problems(line, data, source))
        if found:
            problems += found
            continue
        example = _example(data.get("id") or _made_up(line, given), data, source, language, notes)
        if example.id in first_line:
            problems.append(
                Problem(line, example.id, "id", "an id used once", f"also on line {first_line[example.id]}")
            )
        first_line.setdefault(example.id, line)
        key = asked_as(example)
        if key not in asked:
            asked[key] = line, example
        elif same_answer(asked[key][1].values, example.values):
            notes[_REPEATED] += 1
        else:
            expected = f"the answer of line {asked[key][0]}, where the same question stands"
            problems.append(Problem(line, example.id, "answer", expected, describe(data.get("answer"))))
    if problems:
        raise InvalidFileError(str(path), problems)
    if not objects:
        raise BonafideError(
            f'{path} holds no pairs: expected {{"question": …, "answer": …}} on each line, found an empty file.'
        )
    return Pairs([example for _, example in asked.values()], dict(notes))


def asked_as(example: Example) -> tuple[str, str]:
    """Table and question: pairs that have the same ask the same."""
    return example.context or "", " ".join(example.question.casefold().split())


def _problems(line: int, data: Any, source: TableSource) -> Iterator[Problem]:
    if not isinstance(data, dict):
        found = str(data) if isinstance(data, Exception) else describe(data)
        yield Problem(line, "", "(line)", "one JSON object", found)
        return
    name = data.get("id", "")
    label = name if isinstance(name, str) else ""
    if not isinstance(name, str) or ("id" in data and not name):
        yield Problem(line, label, "id", "a text that is not empty, or no id", describe(data["id"]))
    question = data.get("question")
    if not isinstance(question, str) or not question.strip() or "\0" in question:
        yield Problem(line, label, "question", "a text that is not empty", describe(question))
    if ("answer" in data) == ("answers" in data):
        given = "both" if "answer" in data else "neither"
        yield Problem(line, label, "answer", "either an answer or a list of answers", given)
    for value in _listed(data):
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            yield Problem(line, label, "answer", "a text, a number, or a list of them", describe(value))
        elif not isinstance(value, str) and not abs(value) <= sys.float_info.max:  # NaN too
            yield Problem(line, label, "answer", "a finite number", describe(value))
    if _listed(data) == [] and ("answer" in data) != ("answers" in data):
        yield Problem(line, label, "answer", "at least one value", "an empty list")
    table = data.get("table", data.get("context"))
    if table is None and source.default is None:
        yield Problem(line, label, "table", f"one of {', '.join(source.tables)}", "nothing")
    elif table is not None and _table_name(table, source) is None:
        yield Problem(line, label, "table", f"one of {', '.join(source.tables)}", describe(table))


def _listed(data: dict[str, Any]) -> list[Any]:
    answer = data.get("answer", data.get("answers", []))
    return answer if isinstance(answer, list) else [answer]


def _table_name(given: Any, source: TableSource) -> str | None:
    """A table by its name, or by the name of its file."""
    if not isinstance(given, str):
        return None
    return next((name for name in (given, bare_name(Path(given))) if given and name in source.tables), None)


def _made_up(line: int, given: Set[str]) -> str:
    """An id that no line has."""
    name = f"q{line}"
    while name in given:
        name += "_"
    return name


def _example(label: str, data: dict[str, Any], source: TableSource, language: Language, notes: Counter[str]) -> Example:
    given = data.get("table", data.get("context"))
    name = source.default if given is None else _table_name(given, source)
    assert name is not None, "the line was checked"
    table = source.tables[name]
    answers = [_read_answer(value, table) for value in _listed(data)]
    if any(isinstance(new, float) and isinstance(old, str) for new, old in zip(answers, _listed(data), strict=True)):
        notes[_AS_NUMBER] += 1
    if any(isinstance(new, str) and not isinstance(old, str) for new, old in zip(answers, _listed(data), strict=True)):
        notes[_AS_TEXT] += 1
    ordered = _ordered(data["question"], answers, table, language)
    if ordered != answers:
        notes[_IN_ROW_ORDER] += 1
    return Example(label, data["question"], name, tuple(ordered))


def _read_answer(value: Answer, table: Table) -> Answer:
    """A text that is in no text column, and reads as a number, is that number; another one loses outer spaces.

    It is read as a cell would be. What could as well be a name, such as 007, is no number in a cell; here it is one.
    A number of so many digits that its column is text is that text, also where floats happen to hold it.
    """
    if value.__class__ is int and abs(value) > WHOLE and str(value) in table.text_cells:
        return str(value)
    if not isinstance(value, str) or value.lower() in table.text_cells:
        return value
    text = value.strip()
    if text.lower() in table.text_cells:
        return text
    number = _read_number(text, table)
    if number is not None:
        return number
    if _NO_GROUP.search(text):
        return text
    found = question_runs(text).numbers
    whole = [each for each, spans in found.items() if (0, len(text)) in spans]
    return whole[0] if whole else text


def _read_number(text: str, table: Table) -> float | None:
    """A text as a cell; where the table has decimal commas, ``1.234`` is the one of 1.234 and 1234 that it holds."""
    columns = [[text]]
    if any(each.kind == "decimal comma" for each in table.coercions):
        columns.append([text, "0,5"])
    read = [read_column("answer", texts, None)[1][0] for texts in columns]
    numbers = [float(each) + 0.0 for each in read if isinstance(each, (int, float))]
    held = [each for each in numbers if any(low < high for low, high in (of.band(each) for of in table.columns))]
    return next(iter(held or numbers), None)


def _ordered(question: str, answers: list[Answer], table: Table, language: Language) -> list[Answer]:
    """The values in an order in which a query returns them: that of its rows, which people do not always write."""
    if len(answers) < 2 or count(question, answers, table, language):
        return answers
    return in_returned_order(question, answers, table, language) or answers
