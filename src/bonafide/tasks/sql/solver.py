"""The SQL solver: P(query given question, table), by filling the slots of a query on top of an encoder.

The encoder reads ``[CLS] question [SEP] header [SEP] header [SEP] …`` once. From its states come tables of
log-probabilities (``slots.py``, where the joint and what differs from SQLova are written down); log P of every
solution of every example is then a gather and a sum. The cells of the table are never read: a query that the
solver proposes may select nothing, unless decoding is guided by execution (``decoding.py``).

    solver = build_sql_solver(SolverSpec(), seed=0)
    features = [solver.features(question, table, queries) for …]     # once
    batch = solver.collate(features).to(device)
    output = solver(batch)
    solver.log_prob(output, batch)                                   # (solutions,), grouped by batch.offsets
    solver.decode(output, batch, tables, beam=4)                     # queries with log-probabilities, best first
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from bonafide.encoders import (
    Encoder,
    Scratch,
    empty_encoder,
    load_encoder,
    load_tokenizer,
    scratch_encoder,
    special_pieces,
)
from bonafide.errors import BonafideError
from bonafide.tasks.sql.decoding import decode
from bonafide.tasks.sql.features import Features, Integers, SolverBatch, collate, make_features
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Query
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.slots import Slots, SolverOutput, averaged_log_prob, log_prob
from bonafide.tasks.sql.tables import Table

__all__ = ["Features", "SolverBatch", "SolverOutput", "SolverSpec", "SqlSolver", "build_sql_solver"]


@dataclass(frozen=True, slots=True)
class SolverSpec:
    """What a SQL solver is built from.

    ``encoder`` is a hub name, a folder, ``minilm``, or ``scratch``: an encoder of ``layers`` layers, ``width`` wide
    with ``heads`` heads, that reads up to ``positions`` pieces out of a ``vocabulary``. ``head_width`` and ``dropout``
    are those of the slots; ``averaged`` scores solutions as the released code does
    (:func:`~bonafide.tasks.sql.slots.averaged_log_prob`).
    """

    encoder: str = "minilm"
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocabulary: int = 4000
    positions: int = 256
    head_width: int = 128
    dropout: float = 0.1
    averaged: bool = False
    language: Language = field(default_factory=Language)

    def to_json(self) -> dict[str, Any]:
        """For the configuration file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SolverSpec:
        """Back from it."""
        return cls(**{**data, "language": Language(**data["language"])})


class SqlSolver(nn.Module):
    """An encoder, its tokenizer, and the slots of a query on top."""

    def __init__(self, spec: SolverSpec, encoder: Encoder, tokenizer: Any) -> None:
        super().__init__()
        special_pieces(tokenizer)  # an encoder that cannot serve says so before anything is trained
        self.spec = spec
        self.tokenizer = tokenizer
        self.encoder = encoder
        self.slots = Slots(encoder.width, spec.head_width, spec.dropout, spec.language.max_conditions)

    def features(self, question: str, table: Table, queries: QuerySet | None = None) -> Features:
        """What the solver reads of an example, tokenised once; ``queries`` are the solutions to score."""
        return make_features(question, table, queries, self.spec.language, self.tokenizer, self.encoder.max_pieces)

    def collate(
        self, features: Sequence[Features], keep: Sequence[Integers | None] | None = None, *, draw: int = 0
    ) -> SolverBatch:
        """A batch on the CPU; ``keep`` names, for each example, the solutions to score (None: all of them).

        All of a table's header is read, whatever the ``draw``.
        """
        return collate(features, self.spec.language.max_conditions, self.tokenizer.pad_token_id or 0, keep)

    def forward(self, batch: SolverBatch) -> SolverOutput:
        """Tables of log-probabilities."""
        states = self.encoder(batch.pieces, batch.piece_counts, batch.question_pieces)
        output: SolverOutput = self.slots(states, batch)
        return output

    def log_prob(self, output: SolverOutput, batch: SolverBatch) -> Tensor:
        """(solutions,): log P(z | table, question), an exact joint unless the spec says ``averaged``; −inf where z
        cannot be produced."""
        return averaged_log_prob(output, batch) if self.spec.averaged else log_prob(output, batch)

    def decode(
        self,
        output: SolverOutput,
        batch: SolverBatch,
        tables: Sequence[Table],
        beam: int = 1,
        top_k: int | None = None,
        execution_guided: bool = False,
    ) -> list[list[tuple[Query, float]]]:
        """For each example the ``top_k`` (default: ``beam``) best queries found, with the log of the exact joint."""
        return decode(output, batch, tables, beam, top_k, execution_guided)

    def config(self) -> dict[str, Any]:
        """What :meth:`from_config` needs besides the weights and the tokenizer, as JSON."""
        return {"spec": self.spec.to_json(), "encoder": self.encoder.to_json()}

    @classmethod
    def from_config(cls, config: dict[str, Any], tokenizer_folder: str | Path) -> Self:
        """The solver that :meth:`config` describes, its weights yet to be loaded."""
        return cls(
            SolverSpec.from_json(config["spec"]), empty_encoder(config["encoder"]), load_tokenizer(tokenizer_folder)
        )


def build_sql_solver(spec: SolverSpec, texts: Iterable[str] | None = None, seed: int = 0) -> SqlSolver:
    """A new solver; ``texts`` (questions and column names) give a scratch encoder its words."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)  # weights are made on the CPU
        if spec.encoder == "scratch":
            if texts is None:
                raise BonafideError(
                    "A solver with a scratch encoder makes its vocabulary from texts: "
                    "build_sql_solver(spec, texts=[…questions and column names…])."
                )
            scratch = Scratch(spec.layers, spec.width, spec.heads, spec.vocabulary, spec.positions, spec.dropout)
            return SqlSolver(spec, *scratch_encoder(scratch, texts))
        return SqlSolver(spec, *load_encoder(spec.encoder))
