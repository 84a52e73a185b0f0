"""Why a pair has no solution, in words for the person who wrote it.

The search is exhaustive in its language, so a pair without a solution asks for something outside of it, or its answer
is written in another way than the table writes it. What is said here is found by looking, first at the answer, then
at the question; it is the likeliest reason, not a proof.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from bonafide.examples import Answer, Example
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute
from bonafide.tasks.sql.tables import Table

_TRIED = 2000
_NUMBER = r"[-+−]?[0-9]+(?:[., '’][0-9]{3})*(?:[.,][0-9]+)?"
_SIGN = "[$€£¥₹]"
_UNIT = rf"(?:[^\W\d_]|[%‰°]|{_SIGN})[^\s\d]*"  # one word: 12 km/h, but not 12 angry men or 15 March 2024
_WITH_UNIT = re.compile(rf"{_NUMBER}\s?{_UNIT}|{_SIGN}\s?{_NUMBER}(?:\s?{_UNIT})?")


@dataclass(frozen=True, slots=True)
class Unsolved:
    """A pair that no query answers, and the likeliest reason."""

    example: Example
    why: str


def why_unsolved(example: Example, table: Table, language: Language) -> str:
    """The likeliest reason, and what to do."""
    missing = [value for value in example.values if isinstance(value, str) and value.lower() not in table.text_cells]
    if missing:
        return _not_a_cell(missing[0], table)
    if len(example.values) > 1:
        return _several(example.values, table)
    (value,) = example.values
    if isinstance(value, (int, float)):
        written = _as_text(value, table)
        if written is not None:
            return (
                f"{value} stands in the text column {written!r}: write the answer as a text, or read the column as "
                f"numbers with --type '{written}=real'"
            )
        exact = _rounded(example.question, value, table)
        if exact is not None:
            return f"it may be rounded: a query gives {exact!r}. Write the answer in full"
    if not any(True for _ in _conditions(example.question, table)):
        return "the question names no cell of the table and no number that a column can be compared with"
    return (
        f"no query of at most {language.max_conditions} conditions on what the question names gives it: it may need "
        "a calculation of several steps, or name a cell in other words than the table"
    )


def _not_a_cell(value: str, table: Table) -> str:
    near = difflib.get_close_matches(value.lower(), list(table.text_cells), n=1, cutoff=0.6)
    if near:
        return f"no cell of the table is {value!r}; the nearest is {near[0]!r}"
    if _WITH_UNIT.fullmatch(value):
        return f"no cell of the table is {value!r}: write a number as a number, without its unit"
    return f"no cell of the table is {value!r}: an answer is a cell, a list of cells of one column, or a number"


def _several(values: Sequence[Answer], table: Table) -> str:
    for column in table.columns:
        bands = [column.band(value.lower() if isinstance(value, str) else float(value or 0)) for value in values]
        if all(low < high for low, high in bands):
            return (
                "its values stand in one column, but no query returns exactly these: a value may be missing, or may "
                "have to be repeated for each of its rows"
            )
    return "its values do not stand in one column: a query returns the cells of one column"


def _as_text(value: int | float, table: Table) -> str | None:
    """The text column in which a number stands."""
    for text in (str(value), f"{value:g}"):
        for index in table.text_cells.get(text, []):
            return table.header[index]
    return None


def _rounded(question: str, value: int | float, table: Table) -> float | None:
    """A mean or sum that gives the answer when it is rounded as the answer is."""
    digits = len(repr(value).partition(".")[2]) if isinstance(value, float) and not value.is_integer() else 0
    conditions = list(_conditions(question, table))
    chosen = [combination for size in (0, 1, 2) for combination in combinations(conditions, size)][:_TRIED]
    numeric = [index for index, kind in enumerate(table.types) if kind == "real"]
    for where, select, aggregate in product(chosen, numeric, (Aggregate.MEAN, Aggregate.SUM)):
        result = execute(Query(select, aggregate, frozenset(where)), table)
        if result and isinstance(result[0], float) and result[0] != value == round(result[0], digits):
            return result[0]
    return None


def _conditions(question: str, table: Table) -> Iterator[Condition]:
    """What a question can be taken to ask of a column: a cell that it names, or a number to compare with."""
    runs = question_runs(question)
    for text in runs.texts:
        for index in table.text_cells.get(text, []):
            yield Condition(index, Operator.EQUAL, text)
    for number in runs.numbers:
        for index, kind in enumerate(table.types):
            if kind == "real":
                for operator in Operator:
                    yield Condition(index, operator, number)
