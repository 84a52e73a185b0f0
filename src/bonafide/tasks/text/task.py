"""The text task: its "search" keeps the candidates that reach the answer; its sets as columns of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bonafide.examples import Example
from bonafide.tasks.text.candidates import Candidate, TextSet, candidates_from_line, reaching


@dataclass(frozen=True, slots=True)
class TextTask:
    """Candidates are brought, not searched: of each example those are kept whose own answer is an accepted one."""

    @property
    def name(self) -> str:
        """What it is called in manifests and on the command line."""
        return "text"

    @property
    def options(self) -> dict[str, Any]:
        """There are none."""
        return {"cap": None}

    @property
    def codec(self) -> TextCodec:
        """How sets are stored."""
        return TextCodec()

    def prepare(self, raw: bytes) -> tuple[Candidate, ...]:
        """The candidates of one example, from their line."""
        return candidates_from_line(raw)

    def weight(self, context: Sequence[Candidate]) -> int:
        """Roughly their words."""
        return 1 + sum(len(each.text) for each in context) // 5

    def search(self, example: Example, context: Sequence[Candidate]) -> TextSet:
        """Those that reach the answer, each once."""
        return reaching(context, example.answers)


class TextCodec:
    """Texts and how often each was brought."""

    @property
    def fields(self) -> list[pa.Field]:
        """``text`` and ``count``, one entry a candidate."""
        return [
            pa.field("text", pa.list_(pa.string()), nullable=False),
            pa.field("count", pa.list_(pa.int32()), nullable=False),
        ]

    def encode(self, sets: Sequence[TextSet]) -> list[pa.Array]:
        """The columns for these sets."""
        return [
            pa.array([list(each.texts) for each in sets], pa.list_(pa.string())),
            pa.array([list(each.counts) for each in sets], pa.list_(pa.int32())),
        ]

    def decode(self, columns: dict[str, Any], size: int, complete: bool) -> TextSet:
        """The set of one row."""
        return TextSet(tuple(columns["text"].as_py()), tuple(columns["count"].as_py()), size, complete)
