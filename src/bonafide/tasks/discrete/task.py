"""The discrete-reasoning task: its search, and its solution sets as columns of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bonafide.documents import Document, document_from_line
from bonafide.examples import Example
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.programset import ProgramSet
from bonafide.tasks.discrete.search import search


@dataclass(frozen=True, slots=True)
class DiscreteTask:
    """Search for programs in a language; more than ``cap`` solutions of an example are sampled by ``seed``."""

    language: Language = field(default_factory=Language)
    cap: int | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """What it is called in manifests and on the command line."""
        return "discrete"

    @property
    def options(self) -> dict[str, Any]:
        """The language, the cap and its seed."""
        language = {key: list(each) if isinstance(each, tuple) else each for key, each in asdict(self.language).items()}
        return {"language": language, "cap": self.cap, "seed": self.seed}

    @property
    def codec(self) -> ProgramCodec:
        """How program sets are stored."""
        return ProgramCodec()

    def prepare(self, raw: bytes | Document) -> Passage:
        """The passage of a document, read from its line if it was not read yet."""
        return Passage((raw if isinstance(raw, Document) else document_from_line(raw)).text)

    def weight(self, context: Passage) -> int:
        """Its tokens."""
        return len(context)

    def search(self, example: Example, context: Passage) -> ProgramSet:
        """Every program that returns one of the example's answers."""
        reading = Reading(Passage(example.question), context)
        return search(reading, example.answers, self.language, self.cap, f"{self.seed}/{example.id}")


def language_of(options: dict[str, Any]) -> Language:
    """The language that a manifest's options describe."""
    fields: dict[str, Any] = {
        key: tuple(each) if isinstance(each, list) else each for key, each in options["language"].items()
    }
    return Language(**fields)


class ProgramCodec:
    """Programs as integer lists: their actions, how many each has, and the rule that proposed it."""

    @property
    def fields(self) -> list[pa.Field]:
        """One entry an action in ``kinds`` and ``indices``, one a program in ``lengths`` and ``rule``."""
        return [
            pa.field("kinds", pa.list_(pa.int8()), nullable=False),
            pa.field("indices", pa.list_(pa.int32()), nullable=False),
            pa.field("lengths", pa.list_(pa.int32()), nullable=False),
            pa.field("rule", pa.list_(pa.int8()), nullable=False),
        ]

    def encode(self, sets: Sequence[ProgramSet]) -> list[pa.Array]:
        """The columns for these sets."""
        return [
            _lists([programs.kinds for programs in sets], pa.int8()),
            _lists([programs.indices for programs in sets], pa.int32()),
            _lists([np.diff(programs.offsets) for programs in sets], pa.int32()),
            _lists([programs.rule for programs in sets], pa.int8()),
        ]

    def decode(self, columns: dict[str, Any], size: int, complete: bool) -> ProgramSet:
        """The set of one row."""
        kinds, indices, lengths, rule = (
            columns[name].values.to_numpy(zero_copy_only=False) for name in ("kinds", "indices", "lengths", "rule")
        )
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return ProgramSet(kinds, indices, offsets, rule, size, complete)


def _lists(arrays: Sequence[Any], kind: pa.DataType) -> pa.Array:
    offsets = np.zeros(len(arrays) + 1, dtype=np.int32)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(arrays), kind))
