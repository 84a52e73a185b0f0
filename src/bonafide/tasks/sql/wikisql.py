"""WikiSQL's own format into examples, tables and gold.

The answers come from executing each gold query once, here; what is written for training holds no SQL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import Answer, Example, Gold, describe, example_to_json, read_objects, write_jsonl_files
from bonafide.files import bare_name, spare_inputs
from bonafide.tasks.sql.query import execute, parse_query
from bonafide.tasks.sql.tables import TableFile, Value, table_to_json


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import wrote."""

    examples: int
    tables: int
    empty_answers: int
    renamed_columns: int


def import_wikisql(questions: Path, tables: Path, out: Path) -> Imported:
    """Write ``examples.jsonl``, ``tables.jsonl`` and ``gold.jsonl`` into ``out``: all of them, or none."""
    spare_inputs(out, questions, tables)
    source = TableFile(tables)
    pairs = list(read_wikisql(questions, source))
    renamed = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal renamed
        for name in source:
            table = source[name]
            renamed += len(table.coercions)
            yield table_to_json(table)

    write_jsonl_files(
        {
            out / "tables.jsonl": rows(),
            out / "gold.jsonl": ({"id": gold.id, "solution": gold.solution} for _, gold in pairs),
            out / "examples.jsonl": (example_to_json(example) for example, _ in pairs),
        }
    )
    empty = sum(not example.answers for example, _ in pairs)
    return Imported(len(pairs), len(source), empty, renamed)


def read_wikisql(questions: Path, tables: TableFile) -> Iterator[tuple[Example, Gold]]:
    """The examples of a WikiSQL file and, apart from them, their gold; or every problem the file has."""
    problems: list[Problem] = []
    found: list[tuple[Example, Gold]] = []
    for line, data in read_objects(questions):
        name = f"{bare_name(questions)}-{line}"
        try:
            found.append(_read_line(name, data, tables))
        except _Wrong as wrong:
            problems.append(Problem(line, name, *wrong.args))
    if problems:
        raise InvalidFileError(str(questions), problems)
    if not found:
        raise BonafideError(f"{questions} holds no questions: expected one JSON object a line, found an empty file.")
    yield from found


class _Wrong(Exception):  # noqa: N818
    """(field, expected, found)."""


def _read_line(name: str, data: Any, tables: TableFile) -> tuple[Example, Gold]:
    if not isinstance(data, dict):
        raise _Wrong("(line)", "one JSON object", str(data) if isinstance(data, Exception) else describe(data))
    question, table_id, sql = data.get("question"), data.get("table_id"), data.get("sql")
    if not isinstance(question, str) or not question.strip() or "\0" in question:
        raise _Wrong("question", "a text that is not empty, without NUL characters", describe(question))
    if not isinstance(table_id, str) or table_id not in tables:
        raise _Wrong("table_id", f"the id of a table in {tables.path.name}", describe(table_id))
    if not isinstance(sql, dict):
        raise _Wrong("sql", "an object with sel, agg and conds", describe(sql))
    table = tables[table_id]
    try:
        result = execute(parse_query(sql, table), table)
    except BonafideError as error:
        raise _Wrong("sql", "a query on its table", str(error)) from None
    if result is None:
        raise _Wrong("sql", "a query that SQLite can run", "a sum too large for SQLite")
    if any(isinstance(each, float) and not math.isfinite(each) for each in result):
        raise _Wrong("sql", "a query with a finite answer", "a sum beyond all floating-point numbers")
    gold = Gold(name, {"sel": sql["sel"], "agg": sql["agg"], "conds": sql["conds"]})
    return Example(name, question, table_id, tuple(map(_written, result))), gold


def _written(value: Value) -> Answer:
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
