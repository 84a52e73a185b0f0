"""The encoder under a solver: a pretrained one, or a small one from scratch with its own tokenizer.

Any Hugging Face encoder with a fast tokenizer serves (BERT, RoBERTa, ELECTRA, DistilBERT, DeBERTa, …; of an
encoder–decoder such as BART the encoder is taken). The small one is for tests and the demo: a BERT of a few narrow
layers, whose pieces are the most frequent words of the given texts and single characters for all other words.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from bonafide.attention import NAME, row_ends
from bonafide.errors import BonafideError
from bonafide.pretrained import checkpoint_errors, resolve_checkpoint
from bonafide.replay import Replay, rounded

_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_POSITIONS_AFTER_PADDING = ("roberta", "camembert", "mpnet", "longformer", "data2vec-text", "ibert")

_RECORDED_PIECES = 1 << 16
"""Inputs of more pieces keep a GPU busy as they are."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A small encoder to be made: ``layers`` layers, ``width`` wide with ``heads`` heads, for ``positions`` pieces."""

    layers: int = 2
    width: int = 64
    heads: int = 4
    vocabulary: int = 4000
    positions: int = 256
    dropout: float = 0.1


class Encoder(nn.Module):
    """A Hugging Face encoder as the solver uses it: pieces in, states of the last layer out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # unused: it would be saved, and never trained
        self.model = model
        # A mask of two dimensions makes these look whether it is all ones, for which the CPU waits for the GPU.
        module = sys.modules[type(model).__module__]
        self._full_mask = hasattr(module, "create_bidirectional_mask") and model.config._attn_implementation == "sdpa"
        self._by_rows = False
        self._replay: Replay | None = None

    def record(self) -> None:
        """From now on read small inputs by CUDA graphs (:mod:`bonafide.replay`), if this encoder can be recorded."""
        if self._full_mask:
            self.attend_by_rows()
            self._replay = Replay(self)

    def forget_recordings(self) -> bool:
        """Let go the memory of what was recorded; whether there was any (:meth:`Replay.forget`)."""
        return self._replay is not None and self._replay.forget()

    def attend_by_rows(self) -> None:
        """From now on attend as :mod:`bonafide.attention` does, if this encoder then reads what it read before."""
        device = self.model.device
        pieces = torch.arange(48, device=device).remainder(self.config.vocab_size).view(3, 16)
        counts = torch.tensor([9, 16, 1], device=device)
        there = torch.arange(16, device=device) < counts[:, None]
        before, training = self.config._attn_implementation, self.model.training
        self.model.eval()
        with torch.no_grad():
            masked = self._read(pieces, counts, counts // 2)[there]
            self.config._attn_implementation, self._by_rows = NAME, True
            try:
                same = torch.allclose(self._read(pieces, counts, counts // 2)[there], masked, atol=1e-2)
            except (RuntimeError, TypeError, ValueError):  # it attends in a way of its own
                same = False
        if not same:
            self.config._attn_implementation, self._by_rows = before, False
        self.model.train(training)

    @property
    def config(self) -> Any:
        """transformers' configuration."""
        return self.model.config

    def to_json(self) -> dict[str, Any]:
        """What :func:`empty_encoder` needs, without what belongs to the machine it was loaded on."""
        described: dict[str, Any] = {**self.config.to_diff_dict(), "model_type": self.config.model_type}
        machine = ("_name_or_path", "dtype", "transformers_version")
        return {key: value for key, value in described.items() if key not in machine}

    @property
    def width(self) -> int:
        """The size of a state."""
        return int(self.config.hidden_size)

    @property
    def embedding_width(self) -> int:
        """The size of the embedding of a piece."""
        return int(self.model.get_input_embeddings().embedding_dim)

    @property
    def max_pieces(self) -> int:
        """How long an input may be."""
        positions = int(getattr(self.config, "max_position_embeddings", 0) or 512)
        after_padding = any(name in self.config.model_type for name in _POSITIONS_AFTER_PADDING)
        return positions - (1 + (self.config.pad_token_id or 0)) * after_padding

    def forward(self, pieces: Tensor, counts: Tensor, question_pieces: Tensor, marks: Tensor | None = None) -> Tensor:
        """(examples, pieces, width); what follows the question is segment 1 where the encoder has segments.

        ``marks`` (examples, pieces, embedding width) are added to the embeddings of the pieces.
        """
        rows, width = pieces.shape
        if self._replay is None or rows * width > _RECORDED_PIECES:
            return self._read(pieces, counts, question_pieces, marks)
        more_rows = rounded(rows, 8) - rows
        more = min(rounded(width, 32), self.max_pieces) - width
        padded = [
            functional.pad(pieces, (0, more, 0, more_rows)),
            functional.pad(counts, (0, more_rows), value=1),  # a row without pieces would have nothing to attend to
            functional.pad(question_pieces, (0, more_rows)),
            *([functional.pad(marks, (0, 0, 0, more, 0, more_rows))] if marks is not None else []),
        ]
        states: Tensor = self._replay(self._read, *padded)
        return states[:rows, :width]

    def _read(self, pieces: Tensor, counts: Tensor, question_pieces: Tensor, marks: Tensor | None = None) -> Tensor:
        place = torch.arange(pieces.shape[1], device=pieces.device)
        mask = place < counts[:, None]
        arguments: dict[str, Tensor] = {}
        if getattr(self.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = ((place > question_pieces[:, None] + 1) & mask).long()
        if self._full_mask:
            mask = mask[:, None, None].expand(-1, 1, len(place), -1)
        if self._by_rows:
            arguments["cu_seq_lens_q"] = row_ends(counts, len(place))
        if marks is None:
            arguments["input_ids"] = pieces
        else:
            arguments["inputs_embeds"] = self.model.get_input_embeddings()(pieces) + marks
        arguments["attention_mask"] = mask
        device = pieces.device.type
        if not torch.is_autocast_enabled(device):
            states: Tensor = self.model(**arguments).last_hidden_state
            return states
        return self._read_cast(arguments, torch.get_autocast_dtype(device))

    def _read_cast(self, arguments: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
        """Read in autocast's precision throughout: autocast itself keeps norms and sums in fp32, and casts at each use.

        The weights stay fp32, and so do their gradients; norms and softmax are computed in fp32 inside.
        """
        weights = {name: weight.to(dtype) for name, weight in self.model.named_parameters()}
        if "inputs_embeds" in arguments:
            arguments = {**arguments, "inputs_embeds": arguments["inputs_embeds"].to(dtype)}
        with torch.autocast(arguments["attention_mask"].device.type, enabled=False):
            states: Tensor = functional_call(self.model, weights, (), arguments).last_hidden_state
        return states


def load_encoder(name: str) -> tuple[Encoder, Any]:
    """A pretrained encoder in fp32, and its tokenizer."""
    path = resolve_checkpoint(name)
    with checkpoint_errors(name):
        tokenizer = AutoTokenizer.from_pretrained(path)
        model = AutoModel.from_pretrained(path, dtype=torch.float32, use_safetensors=True)
    return Encoder(model), _checked(tokenizer, name)


def load_tokenizer(folder: str | Path) -> Any:
    """The tokenizer that was saved with a solver."""
    with checkpoint_errors(folder):
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    return _checked(tokenizer, str(folder))


def empty_encoder(config: dict[str, Any]) -> Encoder:
    """An encoder of this configuration (transformers' own, as JSON), its weights yet to be loaded."""
    options = {key: value for key, value in config.items() if key not in ("model_type", "transformers_version")}
    model: Any = AutoModel  # untyped
    return Encoder(model.from_config(AutoConfig.for_model(config["model_type"], **options), dtype=torch.float32))


def scratch_encoder(spec: Scratch, texts: Iterable[str]) -> tuple[Encoder, Any]:
    """A small BERT with random weights, and a tokenizer whose words are those of ``texts``."""
    tokenizer = train_tokenizer(texts, spec.vocabulary)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=spec.width,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        intermediate_size=4 * spec.width,
        max_position_embeddings=spec.positions,
        hidden_dropout_prob=spec.dropout,
        attention_probs_dropout_prob=spec.dropout,
    )
    model: Any = BertModel  # untyped
    return Encoder(model(config, add_pooling_layer=False)), tokenizer


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """Lower-cased WordPiece: every character of the texts, and their most frequent words; numbers are digits."""
    normalizer = normalizers.BertNormalizer(lowercase=True)
    splitter = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Digits(individual_digits=True)]
    )
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    characters = sorted({character for word in words for character in word})
    pieces = [*_SPECIAL.values(), *characters, *(f"##{character}" for character in characters)]
    longer = [word for word in sorted(words, key=lambda word: (-words[word], word)) if len(word) > 1]
    pieces += longer[: max(0, vocabulary - len(pieces))]
    tokenizer = Tokenizer(
        models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]")  # noqa: S106
    )
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.WordPiece()
    fast: Any = PreTrainedTokenizerFast  # untyped
    return fast(tokenizer_object=tokenizer, **_SPECIAL)


def special_pieces(tokenizer: Any) -> tuple[int, int, int]:
    """The pieces that open the input, close the question and close each part of the context."""
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    separator = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    if separator is None:
        raise BonafideError(
            "The encoder's tokenizer has no separator: expected sep_token or eos_token in tokenizer_config.json, "
            "found neither. Use an encoder such as BERT, RoBERTa, ELECTRA or minilm."
        )
    return separator if start is None else start, separator, separator


def _checked(tokenizer: Any, name: str) -> Any:
    if not tokenizer.is_fast:
        raise BonafideError(
            f"The tokenizer of {name} does not say where its pieces stand in the text: expected a fast tokenizer "
            f"(tokenizer.json), found {type(tokenizer).__name__}. Use an encoder that has one."
        )
    return tokenizer
