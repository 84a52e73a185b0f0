"""Logical form where the rows of the tables are not there: WikiSQL's questions with gold, and its tables' headers.

Without its cells the type of a column is not known. Every column is read as one of text on which every aggregate and
every operator is allowed: any run of the question can be a value. A query is right when it says what gold's says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.examples import describe, read_objects
from bonafide.tasks.sql.features import Features, make_features
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Query, parse_query
from bonafide.tasks.sql.solver import SqlSolver
from bonafide.tasks.sql.tables import ColumnType, Table, unique_names

_BATCH = 128


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a header, and its gold query."""

    question: str
    table: Table
    gold: Query


def read_headers(questions: Path, headers: Path) -> list[Asked]:
    """WikiSQL's questions, and its tables with no more than ``id`` and ``header``; also .gz and .xz."""
    tables = {table.id: table for line, data in read_objects(headers) for table in [_table(data, headers, line)]}
    return [_asked(data, questions, line, tables) for line, data in read_objects(questions)]


def right_by_headers(solver: SqlSolver, asked: Sequence[Asked]) -> npt.NDArray[np.bool_]:
    """(questions,): whether the greedy query is gold's."""
    right = []
    for start in range(0, len(asked), _BATCH):
        part = asked[start : start + _BATCH]
        right += [found == each.gold for found, each in zip(predicted(solver, part), part, strict=True)]
    return np.array(right, dtype=bool)


def predicted(solver: SqlSolver, asked: Sequence[Asked]) -> list[Query | None]:
    """The greedy queries."""
    batch = solver.collate(read_by(solver, asked)).to(next(solver.parameters()).device)
    solver.eval()
    with torch.no_grad():
        decoded = solver.decode(solver(batch), batch, [each.table for each in asked], beam=1, execution_guided=False)
    return [queries[0][0] if queries else None for queries in decoded]


def read_by(solver: SqlSolver, asked: Sequence[Asked]) -> list[Features]:
    """The questions as the solver reads them, whatever language it was trained in."""
    language = Language("untyped", solver.spec.language.max_conditions, order_text=True)
    most = solver.encoder.max_pieces
    return [make_features(each.question, each.table, None, language, solver.tokenizer, most) for each in asked]


def _table(data: Any, path: Path, line: int) -> Table:
    name, header = (data.get(key) for key in ("id", "header")) if isinstance(data, dict) else (None, None)
    columns = header if isinstance(header, list) and all(isinstance(each, str) for each in header) else []
    if not isinstance(name, str) or not columns:
        raise BonafideError(f"Line {line} of {path}: expected an id and a header, found {describe(data)}.")
    names, _ = unique_names(columns)
    text: ColumnType = "text"
    return Table(name, names, (text,) * len(names), ())


def _asked(data: Any, path: Path, line: int, tables: dict[str, Table]) -> Asked:
    keys = ("question", "table_id", "sql")
    question, name, gold = (data.get(key) for key in keys) if isinstance(data, dict) else (None, None, None)
    if not isinstance(question, str) or not isinstance(name, str) or not isinstance(gold, dict) or name not in tables:
        raise BonafideError(
            f"Line {line} of {path}: expected a question with its sql about one of the headers, found {describe(data)}."
        )
    try:
        return Asked(question, tables[name], parse_query(gold, tables[name]))
    except BonafideError as error:
        raise BonafideError(f"Line {line} of {path}: {error}") from None
