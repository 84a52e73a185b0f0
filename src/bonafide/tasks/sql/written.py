"""Queries as plain text, for a solver that writes them: ``select max ( points ) where team = carlton and year > 1990``.

Words and order are those that the reconstructor reads (``rendering.py``), with the name of each column in place of the
reference to it. There are no quotes, no table names and nothing escaped: a language model that never saw SQL knows the
words, and names and values are copies of what it reads. All is in lower case, as values are, so that they are copies
letter for letter.

Columns whose names differ in case alone are written the same; read is the first. A value in which a column's name, an
operator and an ``and`` stand one after the other is read as two conditions.
"""

from __future__ import annotations

import re

from bonafide.rendering import Literal, SpanReference, Word
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, bound_value
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.rendering import SEPARATOR, rendered
from bonafide.tasks.sql.tables import Table

_AGGREGATES = {
    "none": Aggregate.NONE,
    "max": Aggregate.MAX,
    "min": Aggregate.MIN,
    "count": Aggregate.COUNT,
    "sum": Aggregate.SUM,
    "average": Aggregate.MEAN,
}
_OPERATORS = {each.sql: each for each in Operator}


def header_text(table: Table) -> str:
    """The names of the columns, as they are read."""
    return SEPARATOR.join(table.header).lower()


def query_texts(queries: QuerySet, table: Table) -> list[str]:
    """Every query of a set, in order."""
    shown = rendered(queries, table)
    said = [" ".join(_said(piece, shown.context) for piece in segment).lower() for segment in shown.segments]
    return [" ".join(said[place] for place in row if place >= 0) for row in shown.composition.tolist()]


def read_query(text: str, table: Table) -> Query | None:
    """The query that a text says; None if it says none on this table."""
    columns = {name.lower(): place for place, name in reversed(list(enumerate(table.header)))}
    names = "|".join(map(re.escape, sorted(columns, key=len, reverse=True)))
    head = re.fullmatch(rf"select ({'|'.join(_AGGREGATES)}) \( ({names}) \) where(?: (.+))?", text, re.DOTALL)
    if head is None:
        return None
    clauses = head[3] or ""
    begun = list(re.finditer(rf"(?:^|(?<= and ))({names}) ([{''.join(_OPERATORS)}]) ", clauses))
    if bool(clauses) != bool(begun) or (begun and begun[0].start()):
        return None
    ends = [*(each.start() - len(" and ") for each in begun[1:]), len(clauses)]
    conditions = set()
    for each, end in zip(begun, ends, strict=False):  # without conditions there is an end alone
        column, value = columns[each[1]], clauses[each.end() : end]
        if not value:
            return None
        conditions.add(Condition(column, _OPERATORS[each[2]], bound_value(value, table, column)))
    return Query(columns[head[2]], _AGGREGATES[head[1]], frozenset(conditions))


def _said(piece: Word | Literal | SpanReference, context: str) -> str:
    return context[piece.start : piece.end] if isinstance(piece, SpanReference) else piece.text
