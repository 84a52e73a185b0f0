"""The solver of the text task: P(candidate given question, context), an encoder–decoder.

Any BART checkpoint serves, or a small one from scratch with its own tokenizer. The encoder reads question and context
once an example; all candidates are teacher-forced in a few padded chunks, and log P of each is the exact sum over its
tokens, the end token included, so that the probabilities of all texts sum to one.

    solver = build_text_solver(TextSpec(), texts=[…questions, contexts and candidates…], seed=0)
    features = [solver.features(question, context, candidates) for …]  # once
    batch = solver.collate(features).to(device)
    solver.log_prob(solver(batch), batch)                              # (solutions,), grouped by batch.offsets
    solver.decode(batch, beam=4, top=4)                                # texts with log-probabilities, best first
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import BaseModelOutput

from bonafide.encoders import Encoder, load_tokenizer, special_pieces
from bonafide.errors import BonafideError
from bonafide.pretrained import checkpoint_errors, resolve_checkpoint
from bonafide.tasks.text.features import Chunk, Features, TextBatch, collate

_LOGITS_AT_ONCE = 1 << 24
_LONGEST = 256
"""Tokens of a decoded text."""


@dataclass(frozen=True, slots=True)
class TextSpec:
    """What a solver is built from.

    ``encoder`` is a BART checkpoint by hub name or folder, or ``scratch``: ``layers`` layers of encoder and decoder
    each, ``width`` wide with ``heads`` heads, ``positions`` long, over a ``vocabulary`` of its own.
    """

    encoder: str = "scratch"
    layers: int = 2
    width: int = 64
    heads: int = 4
    dropout: float = 0.1
    vocabulary: int = 4000
    positions: int = 512


@dataclass(frozen=True, slots=True)
class SolverOutput:
    """What was read, and log P of each candidate."""

    states: Tensor  # (examples, pieces, width)
    scores: Tensor  # (solutions,)


class TextSolver(nn.Module):
    """A BART and its tokenizer."""

    def __init__(self, spec: TextSpec, bart: BartForConditionalGeneration, tokenizer: Any) -> None:
        super().__init__()
        self._special = special_pieces(tokenizer)
        self.spec = spec
        self.tokenizer = tokenizer
        self.bart = bart
        bart.generation_config = _generation(bart.config)  # else the checkpoint's own fills in what is left open
        self._reader = (Encoder(bart),)  # in a tuple: its weights are the BART's, which holds them already

    @property
    def encoder(self) -> Encoder:
        """The part that reads."""
        return self._reader[0]

    def features(self, question: str, context: str, candidates: Sequence[str] | None = None) -> Features:
        """What the solver reads of an example, tokenised once; ``candidates`` are the texts to score.

        A question takes at most half of the positions, a context what is left of them; the rest is not read.
        """
        start, between, end = self._special
        most = self.encoder.max_pieces
        asked, read = self._encoded([question, context])
        given = len(asked) + len(read)
        asked = asked[: most // 2 - 2]
        read = read[: most - len(asked) - 3]
        pieces = [start, *asked, between, *([*read, end] if read else [])]
        longest = int(self._config.max_position_embeddings)
        closing = int(self._config.eos_token_id)
        targets = [[*ids, closing] for ids in self._encoded(list(candidates or ()))]
        return Features(
            np.array(pieces, np.int64),
            len(asked),
            tuple(np.array(ids[:longest], np.int64) for ids in targets),
            np.array([len(ids) <= longest for ids in targets], bool),
            given - len(asked) - len(read),
        )

    def collate(self, features: Sequence[Features], *, draw: int = 0) -> TextBatch:
        """A batch on the CPU; everything is read in every draw."""
        return collate(features, int(self._config.pad_token_id), int(self._config.decoder_start_token_id))

    def forward(self, batch: TextBatch) -> SolverOutput:
        """Read every example once, and score all of its candidates."""
        states = self.encoder(batch.pieces, batch.piece_counts, batch.question_pieces)
        mask = _read_mask(batch)
        scores = [self._scores(chunk, states, mask) for chunk in batch.chunks]
        if not scores:
            return SolverOutput(states, states.new_zeros(0))
        rows = torch.cat([chunk.rows for chunk in batch.chunks])
        joined = torch.cat(scores)
        return SolverOutput(states, torch.zeros_like(joined).index_copy(0, rows, joined))

    def log_prob(self, output: SolverOutput, batch: TextBatch) -> Tensor:
        """(solutions,): log P(z | d, q), exact; −inf where z is longer than the decoder can write."""
        return output.scores.masked_fill(~batch.reachable, -torch.inf)

    def log_prob_of(self, batch: TextBatch, chosen: Tensor) -> Tensor:
        """(chosen,): log P(z | d, q) of these solutions, −inf for −1; the others are not computed."""
        if not len(batch.reachable):
            return torch.full((len(chosen),), -torch.inf, device=chosen.device)
        states = self.encoder(batch.pieces, batch.piece_counts, batch.question_pieces)
        places = chosen.clamp(min=0)
        first, stop = batch.starts[places], batch.starts[places + 1]
        column = torch.arange(int((stop - first).max()), device=chosen.device)
        said = column < (stop - first)[:, None]
        targets = batch.tokens[(first[:, None] + column).clamp(max=len(batch.tokens) - 1)]
        targets = targets.masked_fill(~said, int(self._config.pad_token_id))
        start = targets.new_full((len(chosen), 1), int(self._config.decoder_start_token_id))
        examples = torch.searchsorted(batch.offsets, places, right=True) - 1
        chunk = Chunk(places, examples, torch.cat([start, targets[:, :-1]], dim=1), targets, said)
        possible = batch.reachable[places] & (chosen >= 0)
        return self._scores(chunk, states, _read_mask(batch)).masked_fill(~possible, -torch.inf)

    @torch.no_grad()
    def decode(self, batch: TextBatch, beam: int = 1, top: int = 1) -> list[list[tuple[str, float]]]:
        """For each example the ``top`` likeliest texts that a beam search finds, with log P, best first.

        A text that has not come to its end when it is cut has the probability of ending there.
        """
        states = self.encoder(batch.pieces, batch.piece_counts, batch.question_pieces)
        width = max(beam, top)
        config = self._config
        settings = _generation(
            config,
            max_new_tokens=min(_LONGEST, int(config.max_position_embeddings) - 1),
            num_beams=width,
            num_return_sequences=top,
            do_sample=False,
            **({"length_penalty": 0.0} if width > 1 else {}),  # of one beam transformers says that it is ignored
        )
        bart: Any = self.bart  # whose methods are typed for a class that it is not
        generate = bart.generate
        found = generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=_read_mask(batch).long(),
            generation_config=settings,
        )
        ended = (found[:, 1:] == config.eos_token_id).any(1, keepdim=True)
        if not ended.all():
            closing = torch.where(ended, config.pad_token_id, config.eos_token_id)
            found = torch.cat([found, closing], dim=1)
        texts = [each.strip() for each in self.tokenizer.batch_decode(found, skip_special_tokens=True)]
        owners = torch.arange(len(batch), device=found.device).repeat_interleave(top)
        padding = found == config.pad_token_id
        said = ~padding[:, 1:]
        chunk = Chunk(torch.arange(len(found), device=found.device), owners, found[:, :-1], found[:, 1:], said)
        scores = self._scores(chunk, states, _read_mask(batch)).double().tolist()
        return [
            _distinct(zip(texts[low : low + top], scores[low : low + top], strict=True))
            for low in range(0, len(texts), top)
        ]

    def config(self) -> dict[str, Any]:
        """What :meth:`from_config` needs besides the weights and the tokenizer, as JSON."""
        machine = ("_name_or_path", "dtype", "transformers_version")
        described = {key: value for key, value in self._config.to_diff_dict().items() if key not in machine}
        return {"spec": asdict(self.spec), "bart": described}

    @classmethod
    def from_config(cls, config: dict[str, Any], tokenizer_folder: str | Path) -> Self:
        """The solver that :meth:`config` describes, its weights yet to be loaded."""
        bart = BartForConditionalGeneration(BartConfig.from_dict(config["bart"]))
        return cls(TextSpec(**config["spec"]), bart, load_tokenizer(tokenizer_folder))

    @property
    def _config(self) -> Any:
        return self.bart.config

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(
            texts, add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        return ids

    def _scores(self, chunk: Chunk, states: Tensor, mask: Tensor) -> Tensor:
        """(candidates,): log P of each."""
        decoded = self.bart.model.decoder(
            input_ids=chunk.inputs,
            encoder_hidden_states=states[chunk.example],
            encoder_attention_mask=mask[chunk.example],
            use_cache=False,
        ).last_hidden_state
        places = chunk.mask.flatten().nonzero()[:, 0]
        said = self._say(decoded.flatten(0, 1)[places], chunk.targets.flatten()[places])
        return said.new_zeros(chunk.mask.numel()).index_copy(0, places, said).view(chunk.mask.shape).sum(1)

    def _say(self, states: Tensor, targets: Tensor) -> Tensor:
        """(tokens,): log-probability of each target, the vocabulary taken a few rows at a time."""
        weight, bias = self.bart.lm_head.weight, self.bart.final_logits_bias[0]

        def score(part: Tensor, target: Tensor) -> Tensor:
            logits = functional.linear(part, weight, bias.to(part.dtype))
            return -functional.cross_entropy(logits.float(), target, reduction="none")

        rows = max(1, _LOGITS_AT_ONCE // len(weight))
        pairs = zip(torch.split(states, rows), torch.split(targets, rows), strict=True)
        if len(states) <= rows or not torch.is_grad_enabled():
            return torch.cat([score(part, target) for part, target in pairs])
        return torch.cat([checkpoint(score, *pair, use_reentrant=False, preserve_rng_state=False) for pair in pairs])


def build_text_solver(spec: TextSpec, texts: Iterable[str] | None = None, seed: int = 0) -> TextSolver:
    """A new solver; ``texts`` (questions, contexts and candidates) give one from scratch its tokenizer."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        if spec.encoder == "scratch":
            if texts is None:
                raise BonafideError(
                    "A text solver from scratch makes its vocabulary from texts: "
                    "build_text_solver(spec, texts=[…questions, contexts and candidates…])."
                )
            tokenizer = train_tokenizer(texts, spec.vocabulary)
            return TextSolver(spec, _scratch(spec, tokenizer), tokenizer)
        path = resolve_checkpoint(spec.encoder)
        with checkpoint_errors(spec.encoder):
            kind = AutoConfig.from_pretrained(path).model_type
            if kind != "bart":
                raise BonafideError(
                    f"solver.encoder {spec.encoder} is a {kind} checkpoint: the text task writes its solutions, for "
                    "which a BART is needed. Name one by hub name or folder, or scratch."
                )
            tokenizer = AutoTokenizer.from_pretrained(path)
            bart = BartForConditionalGeneration.from_pretrained(path, dtype=torch.float32, use_safetensors=True)
        return TextSolver(spec, bart, tokenizer)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A byte-level BPE: any text can be written in it, and comes back as it stood."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(special.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast: Any = PreTrainedTokenizerFast  # untyped
    return fast(tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in special.items()})


def _scratch(spec: TextSpec, tokenizer: Any) -> BartForConditionalGeneration:
    config = BartConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=spec.positions,
        encoder_layers=spec.layers,
        decoder_layers=spec.layers,
        encoder_ffn_dim=4 * spec.width,
        decoder_ffn_dim=4 * spec.width,
        encoder_attention_heads=spec.heads,
        decoder_attention_heads=spec.heads,
        d_model=spec.width,
        dropout=spec.dropout,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
        forced_eos_token_id=None,
    )
    bart = BartForConditionalGeneration(config)
    for layer in (*bart.model.encoder.layers, *bart.model.decoder.layers):
        for parameter in layer.parameters():
            if parameter.dim() == 2:  # BART's 0.02 is meant for 768 dimensions: here nothing would be attended to
                nn.init.xavier_uniform_(parameter)
    return bart


def _generation(config: Any, **settings: Any) -> Any:
    """How to generate with a BART of this configuration, and nothing but what is said."""
    made: Any = GenerationConfig  # untyped
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    return made(**{name: getattr(config, name) for name in names}, **settings)


def _read_mask(batch: TextBatch) -> Tensor:
    return torch.arange(batch.pieces.shape[1], device=batch.pieces.device) < batch.piece_counts[:, None]


def _distinct(found: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Best first; of one text that is written in two ways, the likelier one."""
    best: dict[str, float] = {}
    for text, score in sorted(found, key=lambda pair: -pair[1]):
        best.setdefault(text, score)
    return list(best.items())
