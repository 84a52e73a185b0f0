"""The SQL solver that writes: an encoder–decoder reads question and header, and says the query as text.

The paper's "BART as parser". The model is that of the text task (``tasks/text/solver.py``): all of Z is teacher-forced,
and log P of a query is the exact sum over the tokens of its text (``tasks/sql/written.py``). It reads what the
slot-filling solver reads; nothing keeps it from writing what is no query, and then it predicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn

from bonafide.encoders import Encoder
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Query, execute
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.written import header_text, query_texts, read_query
from bonafide.tasks.text.features import Features, TextBatch
from bonafide.tasks.text.solver import SolverOutput, TextSolver, TextSpec, build_text_solver


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """A text solver, and the language of the queries that it learns from."""

    text: TextSpec = field(default_factory=TextSpec)
    language: Language = field(default_factory=Language)


class QueryWriter(nn.Module):
    """A text solver whose contexts are tables and whose candidates are queries."""

    def __init__(self, spec: WriterSpec, text: TextSolver) -> None:
        super().__init__()
        self.spec = spec
        self.text = text

    @property
    def tokenizer(self) -> Any:
        """As transformers writes it."""
        return self.text.tokenizer

    @property
    def encoder(self) -> Encoder:
        """The part that reads."""
        return self.text.encoder

    def features(self, question: str, table: Table, queries: QuerySet | None = None) -> Features:
        """What is read of an example, tokenised once; ``queries`` are the solutions to score."""
        texts = None if queries is None else query_texts(queries, table)
        return self.text.features(question.lower(), header_text(table), texts)

    def collate(self, features: Sequence[Features], *, draw: int = 0) -> TextBatch:
        """A batch on the CPU; everything is read in every draw."""
        return self.text.collate(features, draw=draw)

    def forward(self, batch: TextBatch) -> SolverOutput:
        """Read every example once, and score all of its queries."""
        output: SolverOutput = self.text(batch)
        return output

    def log_prob(self, output: SolverOutput, batch: TextBatch) -> Tensor:
        """(solutions,): log P(z | table, question), exact; −inf where z is longer than the decoder can write."""
        return self.text.log_prob(output, batch)

    def log_prob_of(self, batch: TextBatch, chosen: Tensor) -> Tensor:
        """(chosen,): the same of these solutions alone, −inf for −1."""
        return self.text.log_prob_of(batch, chosen)

    def decode(
        self,
        output: SolverOutput,
        batch: TextBatch,
        tables: Sequence[Table],
        beam: int = 1,
        execution_guided: bool = False,
    ) -> list[list[tuple[Query, float]]]:
        """For each example at most ``beam`` queries with log P of their texts, best first; texts of none are left out.

        ``execution_guided`` leaves out queries whose result is empty, NULL or an error, unless all are.
        """
        written = self.text.decode(batch, beam, beam)
        return [_queries(texts, table, execution_guided) for texts, table in zip(written, tables, strict=True)]

    def config(self) -> dict[str, Any]:
        """What :meth:`from_config` needs besides the weights and the tokenizer, as JSON."""
        return {"kind": "text", "spec": asdict(self.spec), "text": self.text.config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], tokenizer_folder: str | Path) -> Self:
        """The solver that :meth:`config` describes, its weights yet to be loaded."""
        spec = WriterSpec(TextSpec(**config["spec"]["text"]), Language(**config["spec"]["language"]))
        return cls(spec, TextSolver.from_config(config["text"], tokenizer_folder))


def build_query_writer(spec: WriterSpec, texts: Iterable[str] | None = None, seed: int = 0) -> QueryWriter:
    """A new solver; ``texts`` (questions and column names) give one from scratch its words."""
    read = None if texts is None else [text.lower() for text in texts]
    return QueryWriter(spec, build_text_solver(spec.text, read, seed))


def _queries(written: Sequence[tuple[str, float]], table: Table, execution_guided: bool) -> list[tuple[Query, float]]:
    found: dict[Query, float] = {}
    for text, score in written:
        query = read_query(text, table)
        if query is not None:
            found.setdefault(query, score)  # the likelier of two texts that say the same
    queries = list(found.items())
    if execution_guided:
        queries = [each for each in queries if execute(each[0], table) not in (None, [], [None])] or queries
    return queries
