"""Questions on tables: by the name of one that the server was started with, as rows of JSON, or as CSV text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool

from bonafide.examples import AcceptedAnswer
from bonafide.learn.learnable import Prediction
from bonafide.learn.saved import Model
from bonafide.rendering import RenderedSet
from bonafide.report.inspect import bound_sql
from bonafide.serve.asked import LIMITS, Brought, Plain, Predicting, Question, Searching, Value, listed, plain
from bonafide.serve.contexts import prepared, table_of_csv, table_of_rows
from bonafide.serve.limits import Limits, at_most
from bonafide.tasks.sql.query import Query, answer_as_written, selected_rows
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.rendering import rendered
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.task import SqlTask
from bonafide.web.answers import RefusedError

SHOWN_ROWS = 200
"""Rows of a solution that are named in an answer."""
_SMALL = 2000
"""Cells that are read in less time than it takes to send them to the worker."""

Cell = Value | StrictBool


def narrow(row: Any) -> Any:
    """Refuses a row of too many columns before its cells are looked at: a wrong one costs as much as a hundred."""
    at_most(len(row) if isinstance(row, dict) else 0, LIMITS.columns, "columns")
    return row


Row = Annotated[dict[Plain, Cell], BeforeValidator(narrow)]


class AboutTable(Question):
    """Exactly one of ``table``, ``rows`` and ``csv``; a server with one table needs none."""

    table: Annotated[
        Annotated[str, Field(max_length=LIMITS.cell), AfterValidator(plain)] | None,
        Field(description="The name of a table that the server was started with; GET /health lists them."),
    ] = None
    rows: Annotated[
        Annotated[list[Row], Field(max_length=LIMITS.rows, fail_fast=True)] | None,
        Field(description="The table as a list of objects, one a row: column names with cells."),
    ] = None
    csv: Annotated[Plain | None, Field(description="The table as CSV text, with a header.")] = None


class PredictOnTable(AboutTable, Predicting):
    """A question on a table."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"question": "how many units were sold in Oslo?", "rows": [{"City": "Oslo", "Units": 3}]},
                {"question": "which city paid 350?", "csv": "City,Price\nOslo,1200\nLyon,350\n"},
            ]
        }
    )


class SearchOnTable(AboutTable, Searching):
    """A question on a table, and its answer."""

    answers: Annotated[
        list[Value],
        Field(max_length=LIMITS.answers, description="The values that a right query returns, in order."),
    ]

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "question": "how many units were sold in Oslo?",
                    "rows": [{"City": "Oslo", "Units": 3}, {"City": "Lyon", "Units": 1}],
                    "answers": [3],
                }
            ]
        }
    )


class Tables:
    """Implements :class:`~bonafide.serve.asked.Kind`."""

    predicting = PredictOnTable
    searching = SearchOnTable

    def __init__(self, tables: Mapping[str, Table], limits: Limits = LIMITS, ahead: bool = True) -> None:
        """``ahead``: prepare all of them now; else each when it is asked about."""
        self.tables, self._limits = tables, limits
        for table in tables.values() if ahead else ():
            prepared(table)

    def context(self, request: AboutTable) -> Table | Brought:
        """The table that is asked about."""
        given = [name for name in ("table", "rows", "csv") if getattr(request, name) is not None]
        if len(given) > 1:
            raise RefusedError(422, f"A question is asked of one table: give one of table, rows and csv, not {given}.")
        if request.rows is not None:
            brought = Brought(table_of_rows, (request.rows, self._limits))
            return brought.here() if sum(map(len, request.rows)) <= _SMALL else brought
        if request.csv is not None:
            return self.uploaded(request.csv.encode())
        return self._named(request.table)

    def uploaded(self, data: bytes) -> Brought:
        """The table of a CSV file."""
        return Brought(table_of_csv, (data, self._limits))

    def answers(self, request: SearchOnTable) -> tuple[AcceptedAnswer, ...]:
        """Values in order."""
        return tuple(request.answers)

    def task(self, model: Model, cap: int) -> SqlTask:
        """Queries."""
        return SqlTask(model.solver.spec.language, cap)

    def raw(self, context: Table, request: SearchOnTable) -> Table:
        """Without what was prepared here, which is large: the search prepares its own."""
        return Table(context.id, context.header, context.types, context.rows)

    def rendered(self, model: Model, solutions: QuerySet, context: Table, question: str) -> list[RenderedSet]:
        """One set, over the table's header."""
        return [rendered(solutions, context, model.about["recipe"]["reconstructor"]["verbalised"])]

    def shown(self, solution: Query, context: Table, question: str) -> dict[str, Any]:
        """SQL with its values in place and apart, what it returns, and the rows it selects, counted from 0."""
        sql, _ = solution.to_sql(context)
        rows = selected_rows(solution, context).nonzero()[0].tolist()
        answer = answer_as_written(solution, context)
        return {
            "solution": bound_sql(solution, context),
            "answer": None if answer is None else listed(answer, self._limits),
            "sql": sql,
            "parameters": listed(solution.values_as_written(context)),
            "rows": rows[:SHOWN_ROWS],
            "rows_selected": len(rows),
        }

    def predicted(self, prediction: Prediction, context: Table, question: str) -> dict[str, Any]:
        """What is shown of its query."""
        return self.shown(prediction.solution, context, question)

    def _named(self, name: str | None) -> Table:
        if name is None and len(self.tables) == 1:
            return next(iter(self.tables.values()))
        if name is None:
            raise RefusedError(422, "Say which table: give its rows, its csv, or the name of a table of this server.")
        if name not in self.tables:
            there = ", ".join(map(repr, list(self.tables)[:10])) or "none"
            raise RefusedError(422, f"There is no table {name[:100]!r} on this server; there are: {there}.")
        return prepared(self.tables[name])
