"""``predictions.jsonl``: one prediction a line, for people, for other tools, and to be scored again.

::

    {"example": "dev-1", "sql": "SELECT …", "parameters": ["oslo"], "query": {"sel": …, "agg": …, "conds": …},
     "answer": [3.0], "log_probability": -0.1, "alternatives": [{"query": …, "log_probability": …}],
     "rank_of_gold": 2}

``query`` is WikiSQL's dictionary and is what is read back; ``sql``, ``parameters`` and ``answer`` follow
from it and the table. Where nothing was predicted these and ``log_probability`` are null.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.evaluate.sql import SqlPrediction
from bonafide.examples import describe, read_objects, write_jsonl
from bonafide.sealed import vouched
from bonafide.tasks.sql.query import Query, bound, execute, parse_query, written_order
from bonafide.tasks.sql.tables import Table, Value

_LARGEST = sys.float_info.max
TableOfId = Callable[[str], Table]
"""The table that the example of this id asks about; KeyError where there is no such example."""


def query_to_json(query: Query) -> dict[str, Any]:
    """WikiSQL's dictionary of a query, conditions in the order in which SQL writes them."""
    conditions = sorted(query.conditions, key=written_order)
    return {
        "sel": query.select,
        "agg": int(query.aggregate),
        "conds": [[each.column, int(each.operator), bound(each)] for each in conditions],
    }


def prediction_to_json(prediction: SqlPrediction, table: Table) -> dict[str, Any]:
    """The line of ``predictions.jsonl`` for this prediction."""
    query = prediction.query
    sql, parameters = (None, None) if query is None else (query.to_sql(table)[0], query.values_as_written(table))
    line: dict[str, Any] = {
        "example": prediction.example,
        "sql": sql,
        "parameters": parameters,
        "query": None if query is None else query_to_json(query),
        "answer": None if query is None else _shown(execute(query, table)),
        "log_probability": _finite(prediction.log_probability),
        "alternatives": [
            {"query": query_to_json(other), "log_probability": _finite(log_probability)}
            for other, log_probability in prediction.alternatives
        ],
    }
    if prediction.rank_of_gold is not None:
        line["rank_of_gold"] = prediction.rank_of_gold
    return line


def write_predictions(path: Path, predictions: Iterable[SqlPrediction], table_of: TableOfId) -> None:
    """Write predictions, whole or not at all."""
    with vouched(path):
        write_jsonl(path, (prediction_to_json(each, table_of(each.example)) for each in predictions))


def read_predictions(path: Path, table_of: TableOfId) -> list[SqlPrediction]:
    """Read predictions back, or report every problem of the file."""
    predictions: list[SqlPrediction] = []
    problems: list[Problem] = []
    for line, data in read_objects(path):
        if not isinstance(data, dict):
            found = str(data) if isinstance(data, Exception) else describe(data)
            problems.append(Problem(line, "", "(line)", "one JSON object", found))
            continue
        name = data.get("example")
        if not isinstance(name, str):
            problems.append(Problem(line, "", "example", "the id of an example", describe(name)))
            continue
        try:
            predictions.append(_read(name, data, table_of(name)))
        except KeyError:
            problems.append(Problem(line, name, "example", "the id of an example", "one that is not there"))
        except _WrongFieldError as error:
            problems.append(Problem(line, name, *error.args))
    if problems:
        raise InvalidFileError(str(path), problems)
    return predictions


class _WrongFieldError(Exception):
    """(field, expected, found)."""


def _read(name: str, data: dict[str, Any], table: Table) -> SqlPrediction:
    listed = data.get("alternatives", [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise _WrongFieldError("alternatives", "a list of objects", describe(listed))
    rank = data.get("rank_of_gold")
    if rank is not None and (not isinstance(rank, int) or isinstance(rank, bool) or rank < 1):
        raise _WrongFieldError("rank_of_gold", "a whole number from 1", describe(rank))
    alternatives = []
    for each in listed:
        other = _read_query(each.get("query"), table, "alternatives")
        if other is None:
            raise _WrongFieldError("alternatives", "objects with a query", describe(each))
        alternatives.append((other, _read_number(each.get("log_probability"), "alternatives")))
    return SqlPrediction(
        name,
        _read_query(data.get("query"), table, "query"),
        _read_number(data.get("log_probability"), "log_probability"),
        tuple(alternatives),
        rank,
    )


def _read_query(solution: object, table: Table, field: str) -> Query | None:
    if solution is None:
        return None
    if not isinstance(solution, dict):
        raise _WrongFieldError(field, "a query as WikiSQL writes it, or null", describe(solution))
    try:
        return parse_query(solution, table)
    except BonafideError as error:
        raise _WrongFieldError(field, "a query on its table", str(error)) from None


def _read_number(value: object, field: str) -> float:
    if value is None:
        return -math.inf
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) <= _LARGEST:  # NaN too
        raise _WrongFieldError(field, "a log-probability, or null", describe(value))
    return float(value)


def _shown(answer: list[Value] | None) -> list[Value] | None:
    """An answer as JSON has it, which knows no infinite number: the sum of texts such as 1e400 is one."""
    if answer is None:
        return None
    return [str(each) if isinstance(each, float) and not math.isfinite(each) else each for each in answer]


def _finite(log_probability: float) -> float | None:
    return log_probability if math.isfinite(log_probability) else None
