"""The reading task: its search, and its solution sets as columns of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bonafide.documents import Document, document_from_line
from bonafide.examples import Example
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import MentionSet


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """Search for mentions of the accepted answers; more than ``cap`` of an example are sampled by ``seed``."""

    matching: Matching = field(default_factory=Matching)
    cap: int | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """What it is called in manifests and on the command line."""
        return "reading"

    @property
    def options(self) -> dict[str, Any]:
        """The normalisations, the cap and its seed."""
        return {"matching": asdict(self.matching), "cap": self.cap, "seed": self.seed}

    @property
    def codec(self) -> MentionCodec:
        """How mention sets are stored."""
        return MentionCodec()

    def prepare(self, raw: bytes | Document) -> DocumentIndex:
        """The index of a document, which is read from its line if it was not read yet."""
        return DocumentIndex(raw if isinstance(raw, Document) else document_from_line(raw), self.matching)

    def weight(self, context: DocumentIndex) -> int:
        """Its tokens."""
        return len(context.tokens)

    def search(self, example: Example, context: DocumentIndex) -> MentionSet:
        """Every mention of the example's accepted answers."""
        return search(example.answers, context, self.cap, f"{self.seed}/{example.id}")


class MentionCodec:
    """Mentions as four lists of integers."""

    @property
    def fields(self) -> list[pa.Field]:
        """``paragraph``, ``start``, ``end`` and ``answer``, one entry a mention."""
        return [
            pa.field(name, pa.list_(pa.int32()), nullable=False) for name in ("paragraph", "start", "end", "answer")
        ]

    def encode(self, sets: Sequence[MentionSet]) -> list[pa.Array]:
        """The columns for these sets."""
        offsets = np.zeros(len(sets) + 1, dtype=np.int32)
        np.cumsum([len(mentions) for mentions in sets], out=offsets[1:])
        columns: list[list[npt.NDArray[np.int32]]] = [
            [mentions.paragraph for mentions in sets],
            [mentions.start for mentions in sets],
            [mentions.end for mentions in sets],
            [mentions.answer for mentions in sets],
        ]
        return [
            pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(column), pa.int32()))
            for column in columns
        ]

    def decode(self, columns: dict[str, Any], size: int, complete: bool) -> MentionSet:
        """The set of one row."""
        paragraph, start, end, answer = (
            columns[name].values.to_numpy(zero_copy_only=False) for name in ("paragraph", "start", "end", "answer")
        )
        return MentionSet(paragraph, start, end, answer, size, complete)
