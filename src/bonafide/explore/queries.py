"""SQL text as the explorer shows it, and read back as a query: one select column, one aggregate, a few conditions.

Text compares without regard to case in all of them, so the explorer leaves ``COLLATE NOCASE`` out of what people read;
what ``bonafide inspect`` and ``bonafide compare`` write, with it, is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from bonafide.errors import BonafideError
from bonafide.tasks.sql.query import (
    Aggregate,
    Condition,
    Operator,
    Query,
    bound,
    bound_value,
    quoted,
    written_order,
)
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.tables import Table

_NAME = r'"((?:[^"]|"")*)"'
_SELECT = re.compile(
    rf"\s*SELECT\s+(?:(MAX|MIN|COUNT|SUM|AVG)\(\s*)?{_NAME}(?:\s+COLLATE\s+NOCASE)?\s*(\))?\s+FROM\s+{_NAME}", re.I
)
_CONDITION = re.compile(
    rf"\s+(?:WHERE|AND)\s+{_NAME}\s*([=<>])\s*(?:'((?:[^']|'')*)'|(-?[0-9.]+(?:e[-+]?[0-9]+)?))(?:\s+COLLATE\s+NOCASE)?",
    re.I,
)


def plain_sql(query: Query, table: Table) -> str:
    """The query for people to read, its values in place."""
    clauses = [_clause(each, table) for each in sorted(query.conditions, key=written_order)]
    return _head(query.select, query.aggregate, table) + (" WHERE " + " AND ".join(clauses) if clauses else "")


def plain_texts(queries: QuerySet, places: Sequence[int], table: Table) -> list[str]:
    """The same for many queries of a set; what they share is written once."""
    conditions = [each.condition for each in queries.conditions]
    clauses = [_clause(each, table) for each in conditions]
    keys = [written_order(each) for each in conditions]
    heads: dict[tuple[int, int], str] = {}
    texts = []
    chosen = np.asarray(places, np.int64)
    rows = zip(
        queries.select[chosen].tolist(), queries.aggregate[chosen].tolist(), queries.where[chosen].tolist(), strict=True
    )
    for select, aggregate, where in rows:
        if (select, aggregate) not in heads:
            heads[select, aggregate] = _head(select, Aggregate(aggregate), table)
        named = sorted((place for place in where if place >= 0), key=keys.__getitem__)
        said = " AND ".join([clauses[place] for place in named])
        texts.append(f"{heads[select, aggregate]} WHERE {said}" if named else heads[select, aggregate])
    return texts


def _head(select: int, aggregate: Aggregate, table: Table) -> str:
    cell = quoted(table.sql_names[select])
    return f"SELECT {cell if aggregate is Aggregate.NONE else f'{aggregate.sql}({cell})'} FROM {quoted(table.id)}"


def _clause(condition: Condition, table: Table) -> str:
    return f"{quoted(table.sql_names[condition.column])} {condition.operator.sql} {_value(bound(condition))}"


def parse_sql(text: str, table: Table) -> Query:
    """The query of a text such as ``SELECT MAX("Units") FROM "sales" WHERE "City" = 'oslo' COLLATE NOCASE``."""
    head = _SELECT.match(text)
    if head is None or bool(head[1]) != bool(head[3]):
        raise BonafideError(f'Expected SELECT "column" FROM "table", perhaps with an aggregate; found {text[:80]!r}.')
    conditions, at = set(), head.end()
    while found := _CONDITION.match(text, at):
        column = _column(found[1], table)
        value: str | float = found[3].replace("''", "'") if found[3] is not None else float(found[4])
        written = value if isinstance(value, str) and table.types[column] == "real" else None
        kept = written.lower() if written is not None else bound_value(value, table, column)
        conditions.add(Condition(column, Operator("=><".index(found[2])), kept))
        at = found.end()
    if text[at:].strip(" ;\n\t"):
        raise BonafideError(f"Expected conditions joined by AND; found {text[at : at + 80]!r}.")
    name = (head[1] or "none").upper()
    aggregate = Aggregate.MEAN if name == "AVG" else Aggregate[name]
    return Query(_column(head[2], table), aggregate, frozenset(conditions))


def _value(value: str | float) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def _column(written: str, table: Table) -> int:
    name = written.replace('""', '"')
    for names in (table.sql_names, table.header):
        if name in names:
            return names.index(name)
    raise BonafideError(f"Table {table.id!r} has no column {name!r}: expected one of {', '.join(table.sql_names)}.")
