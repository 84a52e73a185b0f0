"""Reconstructors by name: a BART checkpoint, a small Transformer from scratch, the same pre-trained, a warm start.

- ``bart``: any BART checkpoint, by hub name or path.
- ``t-scratch``: 3 + 3 layers with random weights (the paper's T-scratch, which has BART-base's width of 768).
- ``t-dae``: the same, pre-trained as a denoiser of the training questions (the paper's T-DAE; ``denoise.py``).
- ``warm`` (ours): the encoder and the embeddings start from a BERT-like checkpoint such as MiniLM, the decoder's
  layers from random weights.

``<sol>`` and ``<span>`` are added to the tokenizer and the embeddings; their rows start small and random (by the
seed) and can be read but never be said: their output bias, and that of the rows that only round the vocabulary up to
a multiple of 64, is −∞.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from bonafide.errors import BonafideError
from bonafide.pretrained import checkpoint_errors, resolve_checkpoint
from bonafide.reconstruct.denoise import Denoising, denoise
from bonafide.reconstruct.layout import SOLUTION_MARKER, SPAN_MARKER, closing_token
from bonafide.reconstruct.model import Reconstructor


@dataclass(frozen=True, slots=True)
class ReconstructorSpec:
    """Which reconstructor; the sizes are for the kinds that start from random weights."""

    kind: Literal["bart", "t-scratch", "t-dae", "warm"] = "t-scratch"
    path: str | None = None  # bart, warm: the weights; t-scratch, t-dae: a checkpoint whose tokenizer to use, or none
    layers: int = 3  # of encoder and decoder each; of the decoder alone for warm
    width: int = 384
    heads: int = 6
    feed_forward: int = 1536
    positions: int = 512
    dropout: float = 0.1
    vocabulary: int = 8000  # pieces of the tokenizer, where it is trained here
    denoising: Denoising = field(default_factory=Denoising)  # for t-dae


def build_reconstructor(
    spec: ReconstructorSpec,
    tokenizer: PreTrainedTokenizerBase | None = None,
    seed: int = 0,
    *,
    texts: Iterable[str] = (),
    questions: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> tuple[Reconstructor, PreTrainedTokenizerBase]:
    """The reconstructor, in fp32 and evaluation mode, and its tokenizer.

    ``t-scratch`` and ``t-dae`` use ``tokenizer`` (which gains the two markers), else the one of ``spec.path``, else
    they train a byte-level BPE on ``texts``, the same for the same texts. ``t-dae`` pre-trains on ``questions``.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if spec.kind in ("bart", "warm"):
            if spec.path is None:
                raise BonafideError(f"A reconstructor of kind {spec.kind} needs a path or hub name of its weights.")
            checkpoint = resolve_checkpoint(spec.path)
            with checkpoint_errors(spec.path):
                tokenizer = AutoTokenizer.from_pretrained(checkpoint)
                bart = _load_bart(checkpoint) if spec.kind == "bart" else _warm_start(spec, checkpoint, tokenizer)
        else:
            if tokenizer is None and spec.path is not None:
                with checkpoint_errors(spec.path):
                    tokenizer = AutoTokenizer.from_pretrained(resolve_checkpoint(spec.path))
            tokenizer = tokenizer or train_tokenizer(texts, spec.vocabulary)
            bart = _fresh(_scratch_config(spec, tokenizer, len(tokenizer)))
        reconstructor = _with_markers(bart, tokenizer)
    reconstructor.to(device).eval()
    if spec.kind == "t-dae":
        denoise(reconstructor, tokenizer, questions, spec.denoising, seed)
    return reconstructor, tokenizer


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE with BART's markers, lower-cased as in the reference code; any text can be written in it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        pad_token="<pad>",  # noqa: S106
        unk_token="<unk>",  # noqa: S106
        mask_token="<mask>",  # noqa: S106
    )


def _load_bart(checkpoint: str) -> BartForConditionalGeneration:
    config = AutoConfig.from_pretrained(checkpoint)
    if config.model_type != "bart":
        raise BonafideError(
            f"{checkpoint} is a {config.model_type} checkpoint, not a BART. An encoder can start the reconstructor "
            'with kind = "warm".'
        )
    return BartForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32, use_safetensors=True)


def _warm_start(
    spec: ReconstructorSpec, checkpoint: str, tokenizer: PreTrainedTokenizerBase
) -> BartForConditionalGeneration:
    """BERT's layers are BART's encoder layers under other names; its token types fold into the positions."""
    source: Any = AutoModel.from_pretrained(checkpoint, dtype=torch.float32, use_safetensors=True)
    bert = source.config
    if bert.model_type != "bert":
        raise BonafideError(
            f"{checkpoint} is a {bert.model_type} checkpoint; a warm start needs a BERT-like one (model_type bert)."
        )
    config = _scratch_config(spec, tokenizer, bert.vocab_size)
    config.d_model = bert.hidden_size
    config.encoder_layers = bert.num_hidden_layers
    config.encoder_ffn_dim = config.decoder_ffn_dim = bert.intermediate_size
    config.encoder_attention_heads = config.decoder_attention_heads = bert.num_attention_heads
    config.activation_function = bert.hidden_act
    config.max_position_embeddings = bert.max_position_embeddings
    bart = _fresh(config)
    encoder, embeddings = bart.model.encoder, source.embeddings
    with torch.no_grad():
        bart.model.shared.weight.copy_(embeddings.word_embeddings.weight)
        positions = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        encoder.embed_positions.weight[encoder.embed_positions.offset :] = positions
        encoder.layernorm_embedding.load_state_dict(embeddings.LayerNorm.state_dict())
        for layer, origin in zip(encoder.layers, source.encoder.layer, strict=True):
            pairs = [
                (layer.self_attn.q_proj, origin.attention.self.query),
                (layer.self_attn.k_proj, origin.attention.self.key),
                (layer.self_attn.v_proj, origin.attention.self.value),
                (layer.self_attn.out_proj, origin.attention.output.dense),
                (layer.self_attn_layer_norm, origin.attention.output.LayerNorm),
                (layer.fc1, origin.intermediate.dense),
                (layer.fc2, origin.output.dense),
                (layer.final_layer_norm, origin.output.LayerNorm),
            ]
            for target, part in pairs:
                target.load_state_dict(part.state_dict())
    return bart


def _fresh(config: BartConfig) -> BartForConditionalGeneration:
    """Random weights by Glorot's rule instead of BART's standard deviation of 0.02.

    That is meant for 768 and more dimensions; in a narrow model it leaves the cross-attention so weak that for a
    long time the question is modelled without a look at the solution.
    """
    bart = BartForConditionalGeneration(config)
    for layer in (*bart.model.encoder.layers, *bart.model.decoder.layers):
        for parameter in layer.parameters():
            if parameter.dim() == 2:
                torch.nn.init.xavier_uniform_(parameter)
    return bart


def _scratch_config(spec: ReconstructorSpec, tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> BartConfig:
    end = closing_token(tokenizer)
    begin = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.cls_token_id
    if begin is None or tokenizer.pad_token_id is None:
        raise BonafideError("The reconstructor's tokenizer needs a begin (<s> or [CLS]) and a padding token.")
    return BartConfig(
        vocab_size=vocabulary,
        max_position_embeddings=spec.positions,
        encoder_layers=spec.layers,
        decoder_layers=spec.layers,
        encoder_ffn_dim=spec.feed_forward,
        decoder_ffn_dim=spec.feed_forward,
        encoder_attention_heads=spec.heads,
        decoder_attention_heads=spec.heads,
        d_model=spec.width,
        dropout=spec.dropout,
        bos_token_id=begin,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=end,
        forced_eos_token_id=end,
    )


def _with_markers(bart: BartForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> Reconstructor:
    learned = {SOLUTION_MARKER, SPAN_MARKER} <= set(tokenizer.get_vocab())  # a checkpoint of our own
    tokenizer.add_tokens([SOLUTION_MARKER, SPAN_MARKER], special_tokens=True)
    solution, span = (int(token) for token in tokenizer.encode(SOLUTION_MARKER + SPAN_MARKER, add_special_tokens=False))
    config: Any = bart.config
    known = config.vocab_size
    bart.resize_token_embeddings(max(len(tokenizer), known), pad_to_multiple_of=64, mean_resizing=False)
    with torch.no_grad():
        never = sorted({*range(known, config.vocab_size), solution, span})
        new = [each for each in never if each >= known] if learned else never
        bart.model.shared.weight[new] = torch.randn(len(new), config.d_model) * config.init_std
        bart.final_logits_bias[:, never] = -torch.inf
    return Reconstructor(bart, solution, span)
