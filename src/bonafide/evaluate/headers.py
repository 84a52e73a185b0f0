"""Logical form where the rows of the tables are not there: WikiSQL's questions with gold, and its tables' headers.

Without its cells the type of a column is not known. Every column is read as one of text on which every aggregate and
every operator is allowed: any run of the question can be a value. A query is right when it says what gold's says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.examples import describe, read_objects
from bonafide.learn.saved import Model
from bonafide.tasks.sql.features import make_features
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Query, parse_query
from bonafide.tasks.sql.solver import SqlSolver
from bonafide.tasks.sql.tables import ColumnType, Table, unique_names

_BATCH = 128


def right_by_headers(model: Model, questions: Path, headers: Path) -> npt.NDArray[np.bool_]:
    """(questions,): whether the greedy query is gold's."""
    if not isinstance(model.solver, SqlSolver):
        raise BonafideError("Questions about headers alone need a solver of the SQL task that fills slots.")
    tables = dict(map(_header, read_objects(headers)))
    asked = [_question(data, tables) for _, data in read_objects(questions)]
    right = []
    for start in range(0, len(asked), _BATCH):
        part = asked[start : start + _BATCH]
        found = _predicted(model.solver, [(table, question) for question, table, _ in part])
        right += [query == gold for query, (_, _, gold) in zip(found, part, strict=True)]
    return np.array(right, dtype=bool)


def _predicted(solver: SqlSolver, asked: list[tuple[Table, str]]) -> list[Query | None]:
    language = Language("untyped", solver.spec.language.max_conditions, order_text=True)
    most = solver.encoder.max_pieces
    features = [make_features(question, table, None, language, solver.tokenizer, most) for table, question in asked]
    batch = solver.collate(features).to(next(solver.parameters()).device)
    solver.eval()
    with torch.no_grad():
        decoded = solver.decode(solver(batch), batch, [table for table, _ in asked], beam=1, execution_guided=False)
    return [queries[0][0] if queries else None for queries in decoded]


def _header(line: tuple[int, Any]) -> tuple[str, Table]:
    number, data = line
    name, header = (data.get(key) for key in ("id", "header")) if isinstance(data, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(header, list) or not all(isinstance(each, str) for each in header):
        raise BonafideError(f"Line {number} of the headers: expected an id and a header, found {describe(data)}.")
    names, _ = unique_names(header)
    text: ColumnType = "text"
    return name, Table(name, names, (text,) * len(names), ())


def _question(data: Any, tables: dict[str, Table]) -> tuple[str, Table, Query]:
    if not isinstance(data, dict) or data.get("table_id") not in tables:
        raise BonafideError(f"Expected a question about one of the headers, found {describe(data)}.")
    table = tables[data["table_id"]]
    return data["question"], table, parse_query(data["sql"], table)
