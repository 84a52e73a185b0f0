"""The question reconstructor P(question given context, solution) of the paper's section 3.3, on BART's weights.

Streams: the context ``<s> d </s>`` is seen by itself alone, so its states are those of plain BART. A solution
``<sol> z`` has the positions that follow its context's. A ``<span>`` placeholder attends to the tokens of its span
of the context and to nothing else, in every layer; every other solution token attends to its own solution stream.
The decoder starts with the checkpoint's ``decoder_start_token_id`` and reads both streams in one softmax.

How this differs from the paper and the reference code. The reference lets ``<s>`` and ``</s>`` see both streams and
be seen by both, which the paper does not mention and which makes a context's states depend on the solution; here the
streams are apart, so a context is encoded once for all of Z (``bridge=True`` of the plain path is the reference's
way). The reference starts the decoder with ``<s>``. The rows of ``<sol>`` and ``<span>`` never come out of the
decoder: their output bias is −∞, so P(q | d) without a solution is exactly the checkpoint's.

What is computed once, and for what: context states, placeholders, and the cross-attention's keys and values of both
once for each context; the first decoder self-attention once for each question; the rest for each solution.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint
from transformers import BartConfig, BartForConditionalGeneration

from bonafide.reconstruct.assembly import Markers
from bonafide.reconstruct.batches import Batch, Chunk, Streams, make_batch
from bonafide.reconstruct.layers import (
    KeysValues,
    add_attended,
    attend,
    attend_within,
    embed,
    feed_forward,
    heads,
    joint_attention,
    keys_values,
)
from bonafide.reconstruct.layout import Layout
from bonafide.reconstruct.plain import plain_parts, plain_token_log_prob
from bonafide.replay import Replay, grown, rounded

_LOGITS_AT_ONCE = {"cuda": 1 << 28, "cpu": 1 << 24}


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all solutions share."""

    placeholders: list[KeysValues]  # for each encoder layer, (placeholders, width)
    placeholders_read: list[KeysValues]  # for each decoder layer, (placeholders, width)
    context_read: list[KeysValues]  # for each decoder layer, (context streams, heads, context width, head width)
    questions: Tensor  # (examples · question width, width): after the first decoder self-attention
    first_queries: Tensor  # (examples · question width, width): what the first cross-attention asks


class Reconstructor(nn.Module):
    """log P(question given context, solution) for many solutions at once."""

    def __init__(self, bart: BartForConditionalGeneration, solution_token: int, span_token: int) -> None:
        super().__init__()
        self.bart = bart
        self.solution_token = solution_token
        self.span_token = span_token
        self._replay: Replay | None = None

    def record(self) -> None:
        """From now on train by CUDA graphs (:mod:`bonafide.replay`)."""
        self._replay = Replay(self)

    def forget_recordings(self) -> bool:
        """Let go the memory of what was recorded; whether there was any (:meth:`Replay.forget`)."""
        return self._replay is not None and self._replay.forget()

    @property
    def markers(self) -> Markers:
        """The checkpoint's markers and positions."""
        config: Any = self.bart.config
        return Markers(
            begin=config.bos_token_id,
            end=config.eos_token_id,
            padding=config.pad_token_id,
            start=config.decoder_start_token_id,
            solution=self.solution_token,
            positions=config.max_position_embeddings,
        )

    def config(self) -> dict[str, Any]:
        """What ``from_config`` needs, as JSON; the weights are in ``state_dict()``."""
        return {
            "bart": self.bart.config.to_dict(),
            "solution_token": self.solution_token,
            "span_token": self.span_token,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Reconstructor:
        """A reconstructor of this shape, its weights still to be loaded."""
        bart = BartForConditionalGeneration(BartConfig.from_dict(config["bart"]))
        return cls(bart, config["solution_token"], config["span_token"])

    def batch(
        self, layouts: Sequence[Layout], chosen: Sequence[npt.ArrayLike], tokens_per_chunk: int | None = None
    ) -> Batch:
        """The chosen solutions of these examples (indices; −1 for no solution), on the model's device."""
        return make_batch(layouts, chosen, self.markers, self.bart.model.shared.weight.device, tokens_per_chunk)

    def log_prob(self, batch: Batch, full_precision: bool = False) -> Tensor:
        """(solutions,): log P(q | d, z), summed over the question's tokens.

        ``full_precision`` leaves autocast aside: scores that decide are never bf16.
        """
        scores = [tokens.sum(1) for tokens in self._chunk_scores(batch.streams, batch.chunks, full_precision)]
        return _in_order(scores, batch)

    def log_prob_of(self, batch: Batch, solutions: Tensor) -> Tensor:
        """(chosen,): ``log_prob`` of these alone (places in the batch, on its device); see :meth:`Batch.picked`."""
        if not len(solutions):
            return torch.zeros(0, device=solutions.device)
        if self._replay is None:
            return self._picked_scores(*batch.picked(solutions))
        streams, chunk = batch.picked(F.pad(solutions, (0, rounded(len(solutions), 8) - len(solutions))))
        first, second = streams.tensors(), chunk.tensors()

        def scores(*tensors: Tensor) -> Tensor:
            return self._picked_scores(streams.holding(tensors[: len(first)]), chunk.holding(tensors[len(first) :]))

        made: Tensor = self._replay(scores, *first, *second, setting=streams.padded)
        return made[: len(solutions)]

    def _picked_scores(self, streams: Streams, chunk: Chunk) -> Tensor:
        (tokens,) = self._chunk_scores(streams, [chunk], full_precision=False)
        return tokens.sum(1)

    def token_log_prob(self, batch: Batch, full_precision: bool = False) -> Tensor:
        """(solutions, question tokens): log-probability of each token of the question; 0 past its end."""
        width = batch.streams.question.shape[1]
        chunks = self._chunk_scores(batch.streams, batch.chunks, full_precision)
        return _in_order([F.pad(tokens, (0, width - tokens.shape[1])) for tokens in chunks], batch)

    def plain_log_prob(self, batch: Batch, bridge: bool = False, tokens_at_once: int = 1 << 14) -> Tensor:
        """``log_prob`` the slow way, by transformers' own forward: one sequence and one full mask per solution."""
        parts = plain_parts(batch, bridge, tokens_at_once)
        scores = torch.cat([plain_token_log_prob(self.bart, part).sum(1) for part in parts])
        return torch.zeros_like(scores).index_copy(0, torch.cat([part.solutions for part in parts]), scores)

    def forward(self, batch: Batch) -> Tensor:
        """``log_prob``, for wrappers that call the module."""
        return self.log_prob(batch)

    def _chunk_scores(self, streams: Streams, chunks: Sequence[Chunk], full_precision: bool) -> Iterator[Tensor]:
        if not chunks:
            return
        device = streams.context.device.type
        precision = torch.autocast(device, enabled=False) if full_precision else contextlib.nullcontext()
        with precision:
            shared = self._share(streams)
        for chunk in chunks:
            with precision:
                states = self._decode(chunk, streams, shared, self._encode(chunk, shared))
                scores = self._say(states, streams.target.view(-1)[chunk.asked])
            scores = scores.masked_fill(~streams.target_mask.view(-1)[chunk.asked], 0.0)
            padded = scores.new_zeros(chunk.question_index.numel()).index_copy(0, chunk.question_places, scores)
            yield padded.view(chunk.question_index.shape)[chunk.slots]

    def _share(self, streams: Streams) -> _Shared:
        """Everything that does not depend on the rest of a solution."""
        decoder = self.bart.model.decoder
        encoded = [self._encoded(streams.part(part)) for part in streams.parts]
        contexts, states, layers = zip(*encoded, strict=True)
        placeholders = [_joined_pairs(layer) for layer in zip(*layers, strict=True)]
        placeholder = torch.cat(states) if len(states) > 1 else states[0]
        width = streams.context.shape[1]
        placeholders_read, context_read = [], []
        for layer in decoder.layers:
            attention = layer.encoder_attn
            placeholders_read.append(keys_values(attention, placeholder))
            parts = [
                KeysValues(
                    *(_widened(heads(each, attention.num_heads), width) for each in keys_values(attention, context))
                )
                for context in contexts
            ]
            context_read.append(_joined_pairs(parts))

        first = decoder.layers[0]
        question = embed(decoder, streams.question, _positions(streams.question))
        attention = first.self_attn
        keys, values = keys_values(attention, question)
        attended = attend(attention, attention.q_proj(question), keys, values, None, causal=True)
        question = add_attended(first, attention, first.self_attn_layer_norm, question, attended).flatten(0, 1)
        return _Shared(placeholders, placeholders_read, context_read, question, first.encoder_attn.q_proj(question))

    def _encoded(self, streams: Streams) -> tuple[Tensor, Tensor, list[KeysValues]]:
        """:meth:`_encode_contexts`, without gradients by a recording."""
        if self._replay is None or torch.is_grad_enabled():
            return self._encode_contexts(streams)
        count = len(streams.placeholder_position)
        more = grown(count, 128) - count  # nobody reads them

        def encode(context: Tensor, mask: Tensor, position: Tensor, keys: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
            given = replace(
                streams,
                context=context,
                context_mask=mask,
                placeholder_position=position,
                placeholder_keys=keys,
                placeholder_mask=seen,
            )
            states, placeholders, layers = self._encode_contexts(given)
            return states, placeholders, *(each for pair in layers for each in pair)

        context, placeholder, *layers = self._replay(
            encode,
            streams.context,
            streams.context_mask,
            F.pad(streams.placeholder_position, (0, more)),
            F.pad(streams.placeholder_keys, (0, 0, 0, more)),
            F.pad(streams.placeholder_mask, (0, 0, 0, more), value=True),
            setting=streams.padded,
        )
        pairs = zip(layers[::2], layers[1::2], strict=True)
        return context, placeholder[:count], [KeysValues(keys[:count], values[:count]) for keys, values in pairs]

    def _encode_contexts(self, streams: Streams) -> tuple[Tensor, Tensor, list[KeysValues]]:
        """The last states of contexts and placeholders, and the placeholders' keys and values in each layer."""
        encoder = self.bart.model.encoder
        context = embed(encoder, streams.context, _positions(streams.context))
        placeholder_tokens = torch.full_like(streams.placeholder_position, self.span_token)
        placeholder = embed(encoder, placeholder_tokens, streams.placeholder_position)
        mask = streams.context_mask if streams.padded else None
        placeholders = []
        for layer in encoder.layers:
            attention, norm = layer.self_attn, layer.self_attn_layer_norm
            placeholders.append(keys_values(attention, placeholder))
            keys, values = keys_values(attention, context)
            if len(placeholder):
                attended = attend(
                    attention,
                    attention.q_proj(placeholder)[:, None],
                    _unpacked(keys.flatten(0, 1), streams.placeholder_keys),
                    _unpacked(values.flatten(0, 1), streams.placeholder_keys),
                    streams.placeholder_mask,
                )[:, 0]
                placeholder = feed_forward(layer, add_attended(layer, attention, norm, placeholder, attended))
            attended = attend_within(attention, attention.q_proj(context), keys, values, mask)
            context = feed_forward(layer, add_attended(layer, attention, norm, context, attended))
        return context, placeholder, placeholders

    def _encode(self, chunk: Chunk, shared: _Shared) -> Tensor:
        """(own tokens, width): the last states of the chunk's solution tokens that are no placeholders."""
        encoder = self.bart.model.encoder
        states = embed(encoder, chunk.tokens, chunk.positions)
        if not len(states):
            return states
        queries = chunk.keys.clamp(max=len(states) - 1)  # a placeholder's place asks too; nobody reads its answer
        mask = chunk.key_mask | ~chunk.key_mask.any(1, keepdim=True)  # an empty slot must not become NaN
        for layer, placeholders in zip(encoder.layers, shared.placeholders, strict=True):
            attention = layer.self_attn
            own = keys_values(attention, states)
            attended = attend(
                attention,
                _unpacked(attention.q_proj(states), queries),
                _unpacked(torch.cat([own.keys, placeholders.keys]), chunk.keys),
                _unpacked(torch.cat([own.values, placeholders.values]), chunk.keys),
                mask,
            )
            packed = attended.flatten(0, 1).index_select(0, chunk.places)
            states = feed_forward(layer, add_attended(layer, attention, layer.self_attn_layer_norm, states, packed))
        return states

    def _decode(self, chunk: Chunk, streams: Streams, shared: _Shared, solution: Tensor) -> Tensor:
        """(question tokens, width): the decoder's last states."""
        states = shared.questions.index_select(0, chunk.asked)
        blocks, width = len(chunk.streams), chunk.context_width
        context_mask = streams.context_mask[chunk.streams, :width] if chunk.padded else None
        solution_mask = chunk.key_mask.view(blocks, chunk.size, -1)
        for place, layer in enumerate(self.bart.model.decoder.layers):
            if place == 0:
                queries = shared.first_queries.index_select(0, chunk.asked)
            else:
                attention = layer.self_attn
                own = keys_values(attention, states)
                attended = attend(
                    attention,
                    _questions(attention.q_proj(states), chunk),
                    _questions(own.keys, chunk),
                    _questions(own.values, chunk),
                    None,
                    causal=True,
                )
                packed = _packed_questions(attended, chunk)
                states = add_attended(layer, attention, layer.self_attn_layer_norm, states, packed)
                queries = layer.encoder_attn.q_proj(states)

            attention = layer.encoder_attn
            read = keys_values(attention, solution)
            placeholders = shared.placeholders_read[place]
            attended = joint_attention(
                attention,
                _questions(queries, chunk).view(blocks, chunk.size, *chunk.question_index.shape[1:], -1),
                KeysValues(*(_of_blocks(part, chunk) for part in shared.context_read[place])),
                context_mask,
                KeysValues(
                    *(
                        _unpacked(torch.cat(pair), chunk.keys).view(*solution_mask.shape, pair[0].shape[1])
                        for pair in zip(read, placeholders, strict=True)
                    )
                ),
                solution_mask,
            )
            packed = _packed_questions(attended.flatten(0, 1), chunk)
            states = add_attended(layer, attention, layer.encoder_attn_layer_norm, states, packed)
            states = feed_forward(layer, states)
        return states

    def _say(self, states: Tensor, targets: Tensor) -> Tensor:
        """(question tokens,): log-probability of each target, the vocabulary taken a few rows at a time."""
        weight, bias = self.bart.lm_head.weight, self.bart.final_logits_bias[0]
        rows = max(1, _LOGITS_AT_ONCE.get(states.device.type, 1 << 24) // len(weight))

        def score(part: Tensor, target: Tensor) -> Tensor:
            logits = F.linear(part, weight, bias.to(part.dtype))
            return -F.cross_entropy(logits, target, reduction="none")

        keep = torch.is_grad_enabled()
        parts = [
            checkpoint(score, part, target, use_reentrant=False, preserve_rng_state=False)
            if keep
            else score(part, target)
            for part, target in zip(torch.split(states, rows), torch.split(targets, rows), strict=True)
        ]
        return torch.cat(parts)


def _positions(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)


def _joined_pairs(pairs: Sequence[KeysValues]) -> KeysValues:
    if len(pairs) == 1:
        return pairs[0]
    return KeysValues(torch.cat([pair.keys for pair in pairs]), torch.cat([pair.values for pair in pairs]))


def _widened(states: Tensor, width: int) -> Tensor:
    """(rows, heads, tokens, head width) → with so many tokens."""
    more = width - states.shape[2]
    return F.pad(states, (0, 0, 0, more)) if more else states


def _unpacked(packed: Tensor, index: Tensor) -> Tensor:
    """(tokens, width) → (*index shape, width)."""
    if not len(packed):
        return packed.new_zeros(*index.shape, packed.shape[1])
    return packed.index_select(0, index.flatten()).view(*index.shape, packed.shape[1])


def _questions(packed: Tensor, chunk: Chunk) -> Tensor:
    """(question tokens, width) → (slots, question width, width)."""
    if chunk.full:
        return packed.view(*chunk.question_index.shape, packed.shape[1])
    return _unpacked(packed, chunk.question_index)


def _packed_questions(padded: Tensor, chunk: Chunk) -> Tensor:
    """(slots, question width, width) → (question tokens, width)."""
    flat = padded.flatten(0, 1)
    return flat if chunk.full else flat.index_select(0, chunk.question_places)


def _of_blocks(states: Tensor, chunk: Chunk) -> Tensor:
    """(context streams, heads, context width, head width) → the same for each block, cut to the chunk's contexts."""
    states = states[:, :, : chunk.context_width]
    return states[: len(chunk.streams)] if chunk.straight else states.index_select(0, chunk.streams)


def _in_order(scores: list[Tensor], batch: Batch) -> Tensor:
    """Scores of the chunks, in the order in which the solutions were chosen."""
    if not scores:
        return batch.streams.context.new_zeros(0, dtype=torch.get_default_dtype())
    joined = torch.cat(scores)
    return torch.zeros_like(joined).index_copy(0, torch.cat([chunk.solutions for chunk in batch.chunks]), joined)
