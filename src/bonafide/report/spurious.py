"""Kinds of spuriousness: how a solution can be right by accident, each a small function on solutions.

Each function holds a solution that gives the right answer against a *reference*, the solution that the question means:
gold's, or without gold the one that explains the question best. It says whether the two differ in this way; a solution
can be of several kinds. ``KINDS`` lists them by task; what is of none of them is ``OTHER``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bonafide.documents import Document
from bonafide.tasks.discrete.language import Language as ProgramLanguage
from bonafide.tasks.discrete.notation import argument_text
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import Constant, Program, QuestionNumber
from bonafide.tasks.discrete.program import Operator as ProgramOperator
from bonafide.tasks.reading.metrics import normalised
from bonafide.tasks.reading.span import Mention
from bonafide.tasks.sql.query import Aggregate, Operator, Query, aggregate_cells, execute, same_answer, selected_rows
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.text.words import copy_rate, words

OTHER = "other"


def constant_coincidence(query: Query, reference: Query, table: Table) -> bool:
    """The query returns what one of its own conditions says, and the reference does not.

    ``SELECT Month WHERE Month = 'May'`` returns May, whatever else the table says.
    """

    def told(each: Query) -> bool:
        fixed = {condition.column for condition in each.conditions if condition.operator is Operator.EQUAL}
        summed = each.aggregate is Aggregate.SUM and np.count_nonzero(selected_rows(each, table)) > 1
        return each.select in fixed and each.aggregate is not Aggregate.COUNT and not summed

    return told(query) and not told(reference)


def redundant_condition(query: Query, reference: Query, table: Table) -> bool:
    """A condition that the reference lacks can be dropped, and the same rows are selected."""
    rows = selected_rows(query, table)
    return any(
        np.array_equal(rows, selected_rows(replace(query, conditions=query.conditions - {each}), table))
        for each in query.conditions - reference.conditions
    )


def missing_condition(query: Query, reference: Query, table: Table) -> bool:
    """A condition of the reference is missing, and with it the query would return the same on this table."""
    result = execute(query, table)
    for each in reference.conditions - query.conditions:
        held = execute(replace(query, conditions=query.conditions | {each}), table)
        if result is not None and held is not None and same_answer(result, held):
            return True
    return False


def wrong_column(query: Query, reference: Query, table: Table) -> bool:
    """Another column holds the same value: the one that is selected, or one that a condition compares."""
    selected = query.select != reference.select and query.aggregate is reference.aggregate
    missing, more = reference.conditions - query.conditions, query.conditions - reference.conditions
    wanted = {(each.operator, str(each.value)) for each in missing}
    return selected or any((each.operator, str(each.value)) in wanted for each in more)


def count_by_accident(query: Query, reference: Query, table: Table) -> bool:
    """The query counts, and the reference does not, or counts other rows: the number of rows happens to be right."""
    if query.aggregate is not Aggregate.COUNT:
        return False
    return reference.aggregate is not Aggregate.COUNT or not np.array_equal(
        selected_rows(query, table), selected_rows(reference, table)
    )


def idle_aggregate(query: Query, reference: Query, table: Table) -> bool:
    """Another aggregate than the reference's, which over the selected cells comes to the same (one row, say)."""
    if query.aggregate is reference.aggregate or Aggregate.COUNT in (query.aggregate, reference.aggregate):
        return False
    rows = np.flatnonzero(selected_rows(query, table))
    own = aggregate_cells(query.aggregate, query.select, rows, table)
    other = aggregate_cells(reference.aggregate, query.select, rows, table)
    return own is not None and other is not None and same_answer(own, other)


def program_counts_by_accident(program: Program, reference: Program, reading: Reading, language: Any) -> bool:
    """The program counts spans, and the reference does not: as many things happen to be named."""
    return program.operator is ProgramOperator.COUNT and reference.operator is not ProgramOperator.COUNT


def program_uses_a_constant(program: Program, reference: Program, reading: Reading, language: Any) -> bool:
    """A constant, or a number of the question, stands where the reference reads the passage."""

    def given(each: Program) -> set[Any]:
        return {argument for argument in each.arguments if isinstance(argument, (Constant, QuestionNumber))}

    return bool(given(program) - given(reference))


def program_points_elsewhere(program: Program, reference: Program, reading: Reading, language: ProgramLanguage) -> bool:
    """The same operation on the same texts, mentioned in other places."""

    def said(each: Program) -> list[str]:
        return sorted(argument_text(argument, reading, language).lower() for argument in each.arguments)

    return program.operator is reference.operator and program != reference and said(program) == said(reference)


def program_does_otherwise(program: Program, reference: Program, reading: Reading, language: Any) -> bool:
    """Another operation, which comes to the same."""
    return program.operator is not reference.operator and program.operator is not ProgramOperator.COUNT


def program_takes_others(program: Program, reference: Program, reading: Reading, language: ProgramLanguage) -> bool:
    """The same operation on other operands, which comes to the same."""
    same = program.operator is reference.operator and program != reference
    return same and not program_points_elsewhere(program, reference, reading, language)


def wrong_mention(mention: Mention, reference: Mention, document: Document) -> bool:
    """The same text in another place than the reference."""
    same = normalised(mention.text(document)) == normalised(reference.text(document))
    return same and not mention.overlaps(reference)


def wrong_paragraph(mention: Mention, reference: Mention, document: Document) -> bool:
    """The mention stands in another paragraph than the reference."""
    return mention.paragraph != reference.paragraph


def text_copies(text: str, reference: str, context: str, question: str) -> bool:
    """Half of the words, or more, are copied from the question, and less of the reference's."""
    return copy_rate(text, question) >= 0.5 > copy_rate(reference, question)


def text_makes_numbers_up(text: str, reference: str, context: str, question: str) -> bool:
    """A number stands neither in the question, nor in its context, nor in the reference."""
    return bool(_numbers(text) - _numbers(reference) - _numbers(question) - _numbers(context))


def text_does_more(text: str, reference: str, context: str, question: str) -> bool:
    """It has every number of the reference, and more words."""
    return _numbers(reference) <= _numbers(text) and len(words(text)) > len(words(reference))


def _numbers(text: str) -> set[str]:
    return {each for each in words(text) if each[0].isdigit()}


KINDS: Mapping[str, Mapping[str, Callable[..., bool]]] = {
    "sql": {
        "constant coincidence": constant_coincidence,
        "redundant condition": redundant_condition,
        "missing condition": missing_condition,
        "wrong column with the same value": wrong_column,
        "count by accident": count_by_accident,
        "idle aggregate": idle_aggregate,
    },
    "discrete": {
        "count by accident": program_counts_by_accident,
        "constant coincidence": program_uses_a_constant,
        "wrong mention": program_points_elsewhere,
        "other operation": program_does_otherwise,
        "other operands": program_takes_others,
    },
    "reading": {"wrong mention": wrong_mention, "wrong paragraph": wrong_paragraph},
    "text": {
        "copied question": text_copies,
        "constant coincidence": text_makes_numbers_up,
        "redundant steps": text_does_more,
    },
}
"""By task, the kinds and their functions: of a solution, its reference, and what both run on."""


def kinds_of(task: str, solution: Any, reference: Any, *context: Any) -> list[str]:
    """The kinds of a solution against its reference, or ``other``."""
    found = [name for name, holds in KINDS[task].items() if holds(solution, reference, *context)]
    return found or [OTHER]


def meaning(task: str, kind: str) -> str:
    """What a kind is, in a sentence: the first of its function's docstring."""
    if kind == OTHER:
        return "Of no kind that is known."
    return (KINDS[task][kind].__doc__ or "").strip().splitlines()[0]
