"""Queries as the reconstructor sees them: ``select AGG ( <span> ) where <span> OP value and <span> OP value``.

The context is the column names; each ``<span>`` points at one of them. Words, order and the ``where`` that stands
even before nothing are the released code's; the value is the literal text. Ours: columns are told apart by their
place in the context, not by new tokens, and conditions come in the order of the solution set (by column, operator,
place in the question). ``verbalised`` says aggregates and operators in the words that English questions use: where one
row matches, MAX, MIN, SUM and AVG all return its cell, and nothing in the data tells a model that has never read
English which of them "largest" means.
"""

from __future__ import annotations

import numpy as np

from bonafide.rendering import Literal, RenderedSet, Rendering, SpanReference, Word
from bonafide.tasks.sql.query import Condition, Query, bound, written_order
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.tables import Table

SEPARATOR = " ; "

_AGGREGATES = ("none", "max", "min", "count", "sum", "average")
_OPERATORS = ("=", ">", "<")
_ASKED_AGGREGATES = (
    "",
    "highest most largest maximum greatest",
    "lowest least smallest minimum fewest",
    "many number",
    "total sum",
    "average mean",
)
_ASKED_OPERATORS = ("=", "more greater larger over above after", "less smaller fewer under below before")


def rendered(queries: QuerySet, table: Table, verbalised: bool = False) -> RenderedSet:
    """All queries of a set: a segment for each (select, aggregate), and two for each condition (first, later)."""
    columns = _references(table)
    head_code = queries.select.astype(np.int64) * len(_AGGREGATES) + queries.aggregate
    heads, head = np.unique(head_code, return_inverse=True)
    first = len(heads)
    conditions = [_condition(each.condition, columns, verbalised) for each in queries.conditions]
    where = queries.where.astype(np.int64)
    later = np.arange(where.shape[1]) > 0  # (most conditions,)
    places = np.where(where >= 0, first + later * len(conditions) + where, -1)
    return RenderedSet(
        SEPARATOR.join(table.header),
        (
            *(_head(code // len(_AGGREGATES), code % len(_AGGREGATES), columns, verbalised) for code in heads.tolist()),
            *conditions,
            *((Word("and"), *condition) for condition in conditions),
        ),
        np.concatenate([head[:, None], places], axis=1).astype(np.int32),
    )


def rendered_query(query: Query, table: Table, verbalised: bool = False) -> RenderedSet:
    """The set of one query, such as a predicted one."""
    columns = _references(table)
    conditions = sorted(query.conditions, key=written_order)
    segments = [_head(query.select, int(query.aggregate), columns, verbalised)]
    for place, condition in enumerate(conditions):
        segments.append((*((Word("and"),) if place else ()), *_condition(condition, columns, verbalised)))
    return RenderedSet(SEPARATOR.join(table.header), tuple(segments), np.arange(len(segments), dtype=np.int32)[None])


def _references(table: Table) -> list[SpanReference]:
    """Where each column's name stands in the context."""
    starts = np.cumsum([0, *(len(name) + len(SEPARATOR) for name in table.header)]).tolist()
    return [SpanReference(start, start + len(name)) for start, name in zip(starts, table.header, strict=False)]


def _head(select: int, aggregate: int, columns: list[SpanReference], verbalised: bool) -> Rendering:
    said = (_ASKED_AGGREGATES if verbalised else _AGGREGATES)[aggregate]
    return (Word("select"), *([Word(said)] if said else []), Word("("), columns[select], Word(")"), Word("where"))


def _condition(condition: Condition, columns: list[SpanReference], verbalised: bool) -> Rendering:
    words = _ASKED_OPERATORS if verbalised else _OPERATORS
    return columns[condition.column], Word(words[condition.operator]), Literal(_text(condition))


def _text(condition: Condition) -> str:
    """The value as text; a whole number without a point, as questions write it."""
    value = bound(condition)
    return value if isinstance(value, str) else repr(value)
