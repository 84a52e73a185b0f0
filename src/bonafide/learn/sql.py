"""Learning SQL queries: what the trainer asks of the SQL task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bonafide.examples import Answer, Example, ExampleFile, Gold, open_examples
from bonafide.learn.learnable import Integers, Item, SolverModule, Split, Started
from bonafide.learn.writer import QueryWriter, WriterSpec, build_query_writer
from bonafide.rendering import RenderedSet
from bonafide.search.run import Progress
from bonafide.search.sql import search_sql
from bonafide.solutions import SolutionStore
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import Aggregate, Query, answer_as_written, parse_query, same_answer
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.rendering import rendered, rendered_query
from bonafide.tasks.sql.solver import SolverSpec, SqlSolver, build_sql_solver
from bonafide.tasks.sql.sources import open_tables
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.task import QueryCodec
from bonafide.tasks.text.solver import TextSpec

if TYPE_CHECKING:
    from bonafide.learn.recipe import Recipe


@dataclass(frozen=True, slots=True)
class SqlLanguageOptions:
    """The query language of a search that the run makes itself."""

    aggregates: str = "untyped"
    max_conditions: int = 3


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """A query that answers a question, what it returns as the table writes it, and how likely the solver finds it."""

    query: Query
    sql: str
    parameters: list[str | float]
    answer: list[Answer] | None
    log_probability: float

    @property
    def solution(self) -> Query:
        """The query."""
        return self.query

    @property
    def text(self) -> str:
        """SQL, its parameters as question marks."""
        return self.sql

    @property
    def confidence(self) -> float:
        """P_θ(z | d, q)."""
        return math.exp(self.log_probability)


class SqlLearning:
    """Implements :class:`bonafide.learn.learnable.Learnable`."""

    name = "sql"
    language_options = SqlLanguageOptions

    def __init__(self) -> None:
        self._language: Language | None = None  # of a store, or of a solver

    def speak(self, options: dict[str, Any]) -> None:
        """What a query may say."""
        self._language = Language(**options["language"])

    def open_split(self, folder: Path) -> Split:
        """``examples.jsonl`` and ``tables.jsonl``."""
        tables = next((folder / f"tables.jsonl{suffix}" for suffix in ("", ".gz", ".xz")
                       if (folder / f"tables.jsonl{suffix}").exists()), folder / "tables.jsonl")  # fmt: skip
        source = open_tables(tables)
        return Split(open_examples(folder / "examples.jsonl", source.check), source.table_of)

    def open_store(self, folder: Path) -> SolutionStore[QuerySet]:
        """A store of query sets."""
        return SolutionStore(folder, QueryCodec())

    def search(
        self, recipe: Recipe, file: ExampleFile, out: Path, progress: Progress | None, started: Started | None
    ) -> None:
        """Every query of the language."""
        options = recipe.language
        language = self._language or Language(
            aggregates="typed" if options.aggregates == "typed" else "untyped", max_conditions=options.max_conditions
        )
        search_sql(file.path, out, language=language, workers=recipe.data.workers, progress=progress, started=started)

    def gold_set(self, gold: Gold, example: Example, context: Table, recipe: Recipe) -> QuerySet:
        """The set that holds one query alone, its values grounded in the question; empty if they are not there."""
        query, spoken = parse_query(gold.solution, context), self._language or recipe.language
        width = spoken.max_conditions
        runs = question_runs(example.question)
        grounded = []
        for condition in sorted(query.conditions, key=lambda each: (each.column, each.operator)):
            value = condition.value
            spans = runs.texts.get(value) if isinstance(value, str) else runs.numbers.get(value)
            grounded.append(GroundedCondition(condition, tuple(spans or ())))
        there = all(each.spans for each in grounded) and len(grounded) <= width
        count = int(there)
        where = np.full((count, width), -1, dtype=np.int32)
        if there:
            where[0, : len(grounded)] = np.arange(len(grounded))
        return QuerySet(
            tuple(grounded),
            np.full(count, query.select, dtype=np.int32),
            np.full(count, int(query.aggregate), dtype=np.int8),
            where,
            count,
            True,
        )

    def places_of_gold(self, gold: Gold, item: Item, recipe: Recipe) -> list[int]:
        """A query is found by what it says, wherever its values stand in the question."""
        solutions: QuerySet = item.solutions
        place = solutions.index_of(parse_query(gold.solution, item.context))
        return [] if place is None else [place]

    def picked(self, solutions: QuerySet, kept: Integers) -> QuerySet:
        """Some of the queries."""
        return QuerySet(
            solutions.conditions,
            solutions.select[kept],
            solutions.aggregate[kept],
            solutions.where[kept],
            solutions.size,
            False,
        )

    def operations(self, solutions: QuerySet) -> Integers:
        """Conditions, and an aggregate."""
        count: Integers = (solutions.where >= 0).sum(axis=1) + (solutions.aggregate > 0).astype(np.int64)
        return count

    def mix(self, chosen: Sequence[tuple[QuerySet, int]]) -> dict[str, float]:
        """Aggregates, and numbers of conditions."""
        aggregates, conditions = np.zeros(len(Aggregate)), np.zeros(5)
        for solutions, index in chosen:
            aggregates[solutions.aggregate[index]] += 1
            conditions[int((solutions.where[index] >= 0).sum())] += 1
        seen = max(1, len(chosen))
        figures = {f"selected_{each.name.lower()}": float(aggregates[each] / seen) for each in Aggregate}
        return figures | {f"selected_{count}_conditions": float(each / seen) for count, each in enumerate(conditions)}

    def texts(self, items: Sequence[Item]) -> list[str]:
        """Questions and column names."""
        return [text for item in items for text in (item.example.question, " ; ".join(item.context.header))]

    def build_solver(self, recipe: Recipe, store: dict[str, Any], texts: Sequence[str]) -> SolverModule:
        """Slots on an encoder, or an encoder–decoder that writes."""
        options = recipe.solver
        language = Language(**store["language"])
        if options.kind == "text":
            text = TextSpec(options.encoder, options.layers, options.width, options.heads, options.dropout)
            return build_query_writer(WriterSpec(text, language), texts, recipe.train.seed)
        spec = SolverSpec(
            encoder=options.encoder,
            layers=options.layers,
            width=options.width,
            heads=options.heads,
            head_width=options.head_width,
            dropout=options.dropout,
            averaged=options.averaged,
            language=language,
        )
        return build_sql_solver(spec, texts=texts, seed=recipe.train.seed)

    def load_solver(self, config: dict[str, Any], tokenizer: Path) -> SolverModule:
        """As it was saved."""
        if config.get("kind") == "text":
            return QueryWriter.from_config(config, tokenizer)
        return SqlSolver.from_config(config, tokenizer)

    def rendered(self, item: Item, recipe: Recipe) -> list[RenderedSet]:
        """One set, over the table's header."""
        return [rendered(item.solutions, item.context, verbalised=recipe.reconstructor.verbalised)]

    def predict(
        self, solver: SolverModule, asked: Sequence[tuple[Table, str]], top: int, beam: int, execution_guided: bool
    ) -> list[list[SqlAnswer]]:
        """Queries with what they return, by greedy search or beam."""
        device = next(solver.parameters()).device
        batch = solver.collate([solver.features(question, table, None) for table, question in asked]).to(device)
        solver.eval()
        with torch.no_grad():
            decoded = solver.decode(
                solver(batch),
                batch,
                [table for table, _ in asked],
                beam=max(beam, top),
                execution_guided=execution_guided,
            )
        return [
            [_answer(query, score, table) for query, score in queries[:top]]
            for (table, _), queries in zip(asked, decoded, strict=True)
        ]

    def rendered_prediction(self, prediction: SqlAnswer, context: Table, question: str, recipe: Recipe) -> RenderedSet:
        """One query."""
        return rendered_query(prediction.query, context, verbalised=recipe.reconstructor.verbalised)

    def operations_of(self, prediction: SqlAnswer) -> int:
        """Conditions, and an aggregate."""
        return len(prediction.query.conditions) + (prediction.query.aggregate > 0)

    def scores(self, prediction: SqlAnswer, example: Example) -> dict[str, float]:
        """Whether it returns the answer."""
        right = prediction.answer is not None and same_answer(prediction.answer, example.values)
        return {"execution": float(right)}


def _answer(query: Query, score: float, table: Table) -> SqlAnswer:
    sql, _ = query.to_sql(table)
    return SqlAnswer(query, sql, query.values_as_written(table), answer_as_written(query, table), score)
