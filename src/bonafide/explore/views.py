"""How each task speaks in the explorer: its contexts, its solutions as text, what a solution touches, what gold is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bonafide.documents import Document, document_from_line
from bonafide.errors import BonafideError
from bonafide.examples import Example
from bonafide.explore.candidates import TextView
from bonafide.explore.lit import (
    Light,
    LitContext,
    LitParagraph,
    LitRow,
    LitTable,
    LitText,
    Pieces,
    pieces,
    shown_places,
)
from bonafide.explore.queries import parse_sql, plain_sql, plain_texts
from bonafide.solutions import Codec
from bonafide.tasks.discrete.evidence import operands
from bonafide.tasks.discrete.execution import execute as execute_program
from bonafide.tasks.discrete.metrics import value_texts
from bonafide.tasks.discrete.notation import formula, parse_program, program_text
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Program
from bonafide.tasks.discrete.programset import ProgramSet
from bonafide.tasks.discrete.task import ProgramCodec, language_of
from bonafide.tasks.reading.span import Mention, MentionSet, parse_gold
from bonafide.tasks.reading.task import MentionCodec
from bonafide.tasks.sql.query import Query, execute, parse_query, selected_rows
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.tables import Table, table_from_line
from bonafide.tasks.sql.task import QueryCodec

_ROWS = 60
_PARAGRAPHS = 30
_OTHERS = 500
"""Solutions whose mentions are marked faintly."""
_MENTION = re.compile(r".*\[paragraph (\d{1,9}), (\d{1,9})[–-](\d{1,9})\]", re.DOTALL)


class View(Protocol):
    """One task's way of showing itself."""

    @property
    def codec(self) -> Codec[Any]:
        """How its sets are stored."""
        ...

    @property
    def each(self) -> str:
        """A column of its stores that has one entry a solution."""
        ...

    @property
    def solution(self) -> str:
        """The word for a solution."""
        ...

    @property
    def order(self) -> str:
        """How the solutions of a set follow each other."""
        ...

    @property
    def contexts(self) -> str:
        """What manifests call the files of its contexts: tables or documents."""
        ...

    def read(self, raw: bytes) -> Any:
        """A context from its line."""
        ...

    def text(self, solution: Any, example: Example, context: Any) -> str:
        """A solution as a person reads it; :meth:`parse` reads it back."""
        ...

    def texts(self, solutions: Any, places: Sequence[int], example: Example, context: Any) -> list[str]:
        """The same of many solutions of a set."""
        ...

    def pieces(self, text: str, example: Example) -> Pieces:
        """The text of a solution, with what it owes to the question marked."""
        ...

    def marks(self, solutions: Any, place: int, example: Example) -> tuple[str, ...]:
        """What else is known of a solution, a few words each."""
        ...

    def returns(self, solution: Any, example: Example, context: Any) -> str:
        """What a solution gives."""
        ...

    def lit(self, solution: Any | None, solutions: Any, example: Example, context: Any) -> LitContext | None:
        """The context with what a solution touches lit; None where there is no context."""
        ...

    def gold_places(self, gold: dict[str, Any], solutions: Any, example: Example, context: Any) -> list[int]:
        """Where gold stands in the set: nowhere, once, or (mentions of one answer) several times."""
        ...

    def parse(self, text: str, example: Example, context: Any) -> Any:
        """The solution of a text; a BonafideError says why it is none."""
        ...


class _Searched:
    """What the tasks share whose solutions are searched in a language."""

    order = "fewest operations first"

    def pieces(self, text: str, example: Example) -> Pieces:
        """The text as it is."""
        return ((text, ""),)

    def marks(self, solutions: Any, place: int, example: Example) -> tuple[str, ...]:
        """Nothing."""
        return ()


class SqlView(_Searched):
    """Queries over a table."""

    codec = QueryCodec()
    each = "select"
    solution = "query"
    contexts = "tables"

    def read(self, raw: bytes) -> Table:
        """A table."""
        return table_from_line(raw)

    def text(self, solution: Query, example: Example, context: Table) -> str:
        """SQL with its values in place."""
        return plain_sql(solution, context)

    def texts(self, solutions: QuerySet, places: Sequence[int], example: Example, context: Table) -> list[str]:
        """The same, what queries share written once."""
        return plain_texts(solutions, places, context)

    def returns(self, solution: Query, example: Example, context: Table) -> str:
        """Its result."""
        found = execute(solution, context)
        return "an error" if found is None else ", ".join(map(cell_text, found[:20])) or "nothing"

    def lit(self, solution: Query | None, solutions: QuerySet | None, example: Example, context: Table) -> LitTable:
        """Selected rows, cells that are returned, cells that conditions ask about."""
        chosen: set[int] = set()
        asked: set[int] = set()
        if solution is not None:
            chosen = set(np.flatnonzero(selected_rows(solution, context)).tolist())
            asked = {condition.column for condition in solution.conditions}
        select = None if solution is None else solution.select

        def cells(row: int) -> tuple[tuple[str, Light], ...]:
            lit = row in chosen
            return tuple(
                (
                    cell_text(cell),
                    "touched" if lit and column == select else "condition" if lit and column in asked else "",
                )
                for column, cell in enumerate(context.rows[row])
            )

        header: tuple[tuple[str, Light], ...] = tuple(
            (name, "touched" if column == select else "condition" if column in asked else "")
            for column, name in enumerate(context.header)
        )
        shown = shown_places(len(context.rows), sorted(chosen), _ROWS)
        rows = tuple(LitRow(place + 1, place in chosen, cells(place)) for place in shown)
        return LitTable(context.id, header, rows, len(context.rows))

    def gold_places(self, gold: dict[str, Any], solutions: QuerySet, example: Example, context: Table) -> list[int]:
        """The query itself."""
        place = solutions.index_of(parse_query(gold, context))
        return [] if place is None else [place]

    def parse(self, text: str, example: Example, context: Table) -> Query:
        """SQL as :meth:`text` writes it."""
        return parse_sql(text, context)


@dataclass(frozen=True)
class DiscreteView(_Searched):
    """Programs over a passage; ``options`` are those of the store."""

    options: dict[str, Any]

    codec = ProgramCodec()
    each = "rule"
    solution = "program"
    contexts = "documents"

    def read(self, raw: bytes) -> Passage:
        """A passage."""
        return Passage(document_from_line(raw).text)

    def text(self, solution: Program, example: Example, context: Passage) -> str:
        """The formula, and the program that says where its operands stand."""
        reading, language = self._reading(example, context), language_of(self.options)
        return f"{formula(solution, reading, language)}  =  {program_text(solution, reading, language)}"

    def texts(self, solutions: ProgramSet, places: Sequence[int], example: Example, context: Passage) -> list[str]:
        """The same, one by one."""
        return [self.text(solutions[place], example, context) for place in places]

    def returns(self, solution: Program, example: Example, context: Passage) -> str:
        """Its value."""
        value = execute_program(solution, self._reading(example, context), language_of(self.options))
        return " and ".join(value_texts(value))

    def lit(
        self, solution: Program | None, solutions: ProgramSet | None, example: Example, context: Passage
    ) -> LitText:
        """What the program points at in the passage."""
        spans: list[tuple[int, int]] = []
        if solution is not None:
            found = operands(solution, self._reading(example, context), language_of(self.options))
            spans = [piece for operand in found if operand.source == "passage" for piece in operand.pieces]
        paragraphs, start = [], 0
        for number, text in enumerate(context.text.split("\n"), start=1):
            mine = [(low - start, high - start) for low, high in spans]
            paragraphs.append(LitParagraph(number, pieces(text, mine)))
            start += len(text) + 1
        return LitText(None, tuple(paragraphs), len(paragraphs))

    def gold_places(self, gold: dict[str, Any], solutions: ProgramSet, example: Example, context: Passage) -> list[int]:
        """The program itself; nowhere where it goes beyond the language."""
        try:
            program = parse_program(
                str(gold.get("program")), self._reading(example, context), language_of(self.options)
            )
        except BonafideError:
            return []
        place = solutions.index_of(program)
        return [] if place is None else [place]

    def parse(self, text: str, example: Example, context: Passage) -> Program:
        """A program, perhaps with its formula before it."""
        _, _, program = text.rpartition("  =  ")
        return parse_program(program, self._reading(example, context), language_of(self.options))

    def _reading(self, example: Example, context: Passage) -> Reading:
        return Reading(Passage(example.question), context)


class ReadingView(_Searched):
    """Mentions in a document."""

    codec = MentionCodec()
    each = "start"
    solution = "mention"
    contexts = "documents"

    def read(self, raw: bytes) -> Document:
        """A document."""
        return document_from_line(raw)

    def text(self, solution: Mention, example: Example, context: Document) -> str:
        """What stands there, and where."""
        return f"{solution.text(context)} [paragraph {solution.paragraph + 1}, {solution.start}–{solution.end}]"

    def texts(self, solutions: MentionSet, places: Sequence[int], example: Example, context: Document) -> list[str]:
        """The same, one by one."""
        return [self.text(solutions[place], example, context) for place in places]

    def returns(self, solution: Mention, example: Example, context: Document) -> str:
        """What stands there."""
        return solution.text(context)

    def lit(
        self, solution: Mention | None, solutions: MentionSet | None, example: Example, context: Document
    ) -> LitText:
        """The mention, and the others of the set."""
        others: list[Mention] = list(solutions[:_OTHERS]) if solutions is not None else []
        first = [solution.paragraph] if solution is not None else []
        shown = shown_places(
            len(context.paragraphs), [*first, *sorted({each.paragraph for each in others})], _PARAGRAPHS
        )
        paragraphs = []
        for place in shown:
            touched = [(each.start, each.end) for each in [solution] if each is not None and each.paragraph == place]
            faint = [(each.start, each.end) for each in others if each.paragraph == place]
            paragraphs.append(LitParagraph(place + 1, pieces(context.paragraphs[place], touched, faint)))
        return LitText(context.title, tuple(paragraphs), len(context.paragraphs))

    def gold_places(
        self, gold: dict[str, Any], solutions: MentionSet, example: Example, context: Document
    ) -> list[int]:
        """Every mention that overlaps a gold one."""
        mentions = parse_gold(gold, context).mentions
        return [place for place, each in enumerate(solutions) if any(each.overlaps(other) for other in mentions)]

    def parse(self, text: str, example: Example, context: Document) -> Mention:
        """A mention by where it stands."""
        found = _MENTION.fullmatch(text)
        if found is None:
            raise BonafideError(f"A mention ends with [paragraph 1, 20–28]; found {text[:80]!r}.")
        paragraph, start, end = int(found[1]) - 1, int(found[2]), int(found[3])
        if not 0 <= paragraph < len(context.paragraphs) or not start < end <= len(context.paragraphs[paragraph]):
            raise BonafideError(f"The document has no such place: {found.group()[-60:]!r}.")
        return Mention(paragraph, start, end)


def view_of(task: str, options: dict[str, Any], language: dict[str, Any]) -> View:
    """The view of a store's task; ``options`` are the store's, ``language`` is what the run's recipe says of it."""
    if task == "sql":
        return SqlView()
    if task == "discrete":
        return DiscreteView(options)
    if task == "reading":
        return ReadingView()
    if task == "text":
        return TextView(**({"copied": language["copied"]} if "copied" in language else {}))
    raise BonafideError(f"The explorer shows the tasks sql, discrete, reading and text; this store is of {task!r}.")


def answer_text(answers: Sequence[Any]) -> str:
    """Answers as a person reads them."""
    return ", ".join(_answer(each) for each in answers[:50]) + (" …" if len(answers) > 50 else "")


def _answer(value: Any) -> str:
    if isinstance(value, tuple):
        return " and ".join(value)
    return str(getattr(value, "text", None) or cell_text(value))


def cell_text(value: Any) -> str:
    """A cell or a result as a person reads it."""
    if value is None:
        return "∅"
    return f"{value:,.10g}".replace(",", "") if isinstance(value, float) else str(value)
