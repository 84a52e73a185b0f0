"""The language that is searched: which queries count as candidates for a question on a table.

Every option here changes what a solution set means, so the language is stored in the manifest of each
solution store and named in each result.

A **value** is a run of whole tokens of the question, up to 100 of them. Tokens are numbers in digits with
their separators (``1,200.50``), words, and single other signs; in scripts that are written without spaces
(Han, kana, Thai, Lao, Khmer, Burmese) each character. On a text column the value is the text of
the run, lower-cased. On a real column it must read as a number as a whole: digits with commas as group
separators, perhaps with a sign, a currency sign or a per cent sign. A single comma that can separate no
group of three digits is a decimal comma (``99,90``, ``0,125``, ``1.940,13``). The same value at two places
of the question is one solution with two groundings.

A condition must hold for at least one row of the table by itself (a conjunction of such conditions may
still be empty). Without that rule every run of the question that names nothing in the table would be a
value, and an answer of 0 would have millions of solutions that count nothing: ``unmatched_values``
lifts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from bonafide.tasks.sql.query import NUMBER, SIGN, Aggregate, read_digits
from bonafide.tasks.sql.tables import ColumnType
from bonafide.unspaced import UNSPACED_CLASS

Span = tuple[int, int]
"""Where a value stands in the question: [start, end) in characters."""

_TOKEN = re.compile(rf"[0-9]+(?:[.,][0-9]+)*|[^\W{UNSPACED_CLASS}]+|\S")
_WHOLE_NUMBER = re.compile(rf"[$€£¥]?\s?({NUMBER.pattern})\s?%?")
_WITH_COMMA = re.compile(
    rf"[$€£¥]?\s?({SIGN}(?:[0-9]{{1,3}}(?:\.[0-9]{{3}})+|(?![1-9][0-9]{{,2}},[0-9]{{3}}(?![0-9]))[0-9]+),[0-9]+),*\s?%?"
)
_NUMBER_START = frozenset("0123456789+-−$€£¥.")
_LONGEST_RUN = 100  # tokens: without a bound, the runs of a question of some thousand words take all memory


@dataclass(frozen=True, slots=True)
class Language:
    """Which queries are candidates.

    ``aggregates``: *typed* gives text columns none and count only; *untyped* gives every column all six,
    as in the paper. ``repeat_columns``: more than one condition on a column. ``order_text``: < and > on
    text columns too. ``unmatched_values``: conditions that hold for no row. ``similar_cells``: a text cell
    whose trigrams overlap with a run of the question by at least this much (Dice, 0 to 1) is a value too,
    grounded in that run; None: off.
    """

    aggregates: Literal["typed", "untyped"] = "untyped"
    max_conditions: int = 3
    repeat_columns: bool = False
    order_text: bool = False
    unmatched_values: bool = False
    similar_cells: float | None = None

    def allows(self, aggregate: Aggregate, kind: ColumnType) -> bool:
        """Whether a column of this type takes this aggregate."""
        return self.aggregates == "untyped" or kind == "real" or aggregate in (Aggregate.NONE, Aggregate.COUNT)


@dataclass(frozen=True, slots=True)
class Runs:
    """Every value that a question offers, with all the places where it stands."""

    texts: dict[str, list[Span]]
    numbers: dict[float, list[Span]]


def question_tokens(question: str) -> list[Span]:
    """The tokens of a question, as character spans."""
    return [match.span() for match in _TOKEN.finditer(question)]


def question_runs(question: str) -> Runs:
    """Every run of up to 100 tokens, as text and, where the whole run reads as one, as a number."""
    texts: dict[str, list[Span]] = {}
    numbers: dict[float, list[Span]] = {}
    tokens = question_tokens(question)
    ends = [end for _, end in tokens]
    for first, (start, _) in enumerate(tokens):
        numeric = question[start] in _NUMBER_START
        for end in ends[first : first + _LONGEST_RUN]:
            text = question[start:end].lower()
            texts.setdefault(text, []).append((start, end))
            if numeric and (number := _number(question, start, end)) is not None:
                numbers.setdefault(number, []).append((start, end))
    return Runs(texts, numbers)


def _number(question: str, start: int, end: int) -> float | None:
    """The number that a run reads as; a sign counts only where no word stands before it (not in 2-5)."""
    if match := _WITH_COMMA.fullmatch(question, start, end):
        return read_digits(match.group(1).replace(".", "").replace(",", "."))
    match = _WHOLE_NUMBER.fullmatch(question, start, end)
    return read_digits(match.group(1)) if match else None
