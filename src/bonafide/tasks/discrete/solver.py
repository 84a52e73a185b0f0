"""The solver of discrete reasoning: P(program given question, passage), after NeRd.

The encoder reads question and passage once (``windows.py``); a decoder writes the program, one option after the other
(``decoder.py``), within the grammar (``grammar.py``), so that all it can write are programs that can be executed.
log P of every solution of every example comes from one pass.

    solver = build_discrete_solver(DiscreteSpec(), seed=0)
    features = [solver.features(question, passage, programs) for …]  # once
    batch = solver.collate(features).to(device)
    output = solver(batch)
    solver.log_prob(output, batch)                                   # (solutions,), grouped by batch.offsets
    solver.decode(output, batch, beam=4)                             # programs with log-probabilities, best first
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
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
from bonafide.tasks.discrete.beams import Decoded, decode
from bonafide.tasks.discrete.decoder import Decoder, Text
from bonafide.tasks.discrete.features import Features, SolverBatch, collate, make_features
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.options import options_of
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.prefixes import make_prefixes
from bonafide.tasks.discrete.programset import ProgramSet
from bonafide.tasks.discrete.task import language_of
from bonafide.tasks.discrete.windows import Pieced, make_windows, pieced
from bonafide.tasks.shared_words import SharedWords

__all__ = ["DiscreteSolver", "DiscreteSpec", "Features", "SolverBatch", "SolverOutput", "build_discrete_solver"]

_KEPT_PASSAGES = 64
_NO_PROGRAMS = ProgramSet(
    np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int8), 0, True
)


@dataclass(frozen=True, slots=True)
class DiscreteSpec:
    """What a solver is built from.

    ``encoder`` is a hub name, a folder, ``minilm``, or ``scratch``: an encoder of ``layers`` layers, ``width`` wide
    with ``heads`` heads, that reads up to ``positions`` pieces out of a ``vocabulary``. ``decoder_layers``,
    ``decoder_width`` and ``dropout`` are those of the decoder.
    """

    encoder: str = "minilm"
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocabulary: int = 4000
    positions: int = 512
    decoder_layers: int = 2
    decoder_width: int = 256
    dropout: float = 0.1
    language: Language = field(default_factory=Language)

    def to_json(self) -> dict[str, Any]:
        """For the configuration file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DiscreteSpec:
        """Back from it."""
        return cls(**{**data, "language": language_of(data)})


@dataclass(frozen=True, eq=False, slots=True)
class SolverOutput:
    """What was read, and log P of each edge of the trees of prefixes."""

    text: Text
    edges: Tensor  # (edges + 1,)


class DiscreteSolver(nn.Module):
    """An encoder, its tokenizer, and a decoder of programs on top."""

    def __init__(self, spec: DiscreteSpec, encoder: Encoder, tokenizer: Any) -> None:
        super().__init__()
        self._special = special_pieces(tokenizer)  # an encoder that cannot serve says so before anything is trained
        self.spec = spec
        self.tokenizer = tokenizer
        self.encoder = encoder
        longest = 2 + 3 * max(spec.language.max_items, 2)
        self.decoder = Decoder(
            encoder.width, spec.decoder_width, spec.decoder_layers, spec.dropout, len(spec.language.constants), longest
        )
        self.shared = SharedWords(encoder.embedding_width)
        self._passages: OrderedDict[str, Pieced] = OrderedDict()

    def features(self, question: str, passage: Passage, programs: ProgramSet | None = None) -> Features:
        """What the solver reads of an example, tokenised once; ``programs`` are the solutions to score."""
        reading = Reading(Passage(question), passage)
        asked = pieced(reading.question.tokens, self.tokenizer)
        windows = make_windows(asked, self._pieced(passage), self._special, self.encoder.max_pieces)
        options = options_of(reading, self.spec.language, windows.readable)
        prefixes = make_prefixes(_NO_PROGRAMS if programs is None else programs, options)
        return make_features(reading, windows, options, prefixes)

    def _pieced(self, passage: Passage) -> Pieced:
        """Many questions are asked of one passage: its pieces are kept for a while."""
        found = self._passages.get(passage.text)
        if found is None:
            found = self._passages[passage.text] = pieced(passage.tokens, self.tokenizer)
            if len(self._passages) > _KEPT_PASSAGES:
                self._passages.popitem(last=False)
        return found

    def collate(self, features: Sequence[Features], *, draw: int = 0) -> SolverBatch:
        """A batch on the CPU; the whole text is read in every draw."""
        return collate(features, self.tokenizer.pad_token_id or 0)

    def forward(self, batch: SolverBatch) -> SolverOutput:
        """Read the texts, and score every step of every solution."""
        states = self.encoder(batch.pieces, batch.piece_counts, batch.question_pieces, self.shared(batch.shared))
        text = self.decoder.read(states, batch)
        return SolverOutput(text, self.decoder.edges(text, batch))

    def log_prob(self, output: SolverOutput, batch: SolverBatch) -> Tensor:
        """(solutions,): log P(z | passage, question), exact; −inf where z cannot be produced."""
        return output.edges[batch.paths].sum(dim=1).masked_fill(~batch.reachable, -torch.inf)

    @torch.no_grad()
    def decode(
        self, output: SolverOutput, batch: SolverBatch, beam: int = 1, top_k: int | None = None
    ) -> list[list[Decoded]]:
        """For each example the ``top_k`` (default: ``beam``) likeliest programs found, best first."""
        return decode(self.decoder, output.text, batch, beam, top_k)

    def config(self) -> dict[str, Any]:
        """What :meth:`from_config` needs besides the weights and the tokenizer, as JSON."""
        return {"spec": self.spec.to_json(), "encoder": self.encoder.to_json()}

    @classmethod
    def from_config(cls, config: dict[str, Any], tokenizer_folder: str | Path) -> Self:
        """The solver that :meth:`config` describes, its weights yet to be loaded."""
        return cls(
            DiscreteSpec.from_json(config["spec"]), empty_encoder(config["encoder"]), load_tokenizer(tokenizer_folder)
        )


def build_discrete_solver(spec: DiscreteSpec, texts: Iterable[str] | None = None, seed: int = 0) -> DiscreteSolver:
    """A new solver; ``texts`` (questions and passages) give a scratch encoder its words."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)  # weights are made on the CPU
        if spec.encoder == "scratch":
            if texts is None:
                raise BonafideError(
                    "A solver with a scratch encoder makes its vocabulary from texts: "
                    "build_discrete_solver(spec, texts=[…questions and passages…])."
                )
            scratch = Scratch(spec.layers, spec.width, spec.heads, spec.vocabulary, spec.positions, spec.dropout)
            return DiscreteSolver(spec, *scratch_encoder(scratch, texts))
        return DiscreteSolver(spec, *load_encoder(spec.encoder))
