"""BART's layers, taken apart: attention over given keys and values, and what follows it.

The modules and their weights are those of transformers' BART; only the order in which they are called is ours. As
in BART, layer norms come after the residual sum. LayerDrop is not used (it is 0 in the published checkpoints).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from bonafide.attention import by_rows, can_attend_by_rows, row_ends

Module = Any  # transformers' BartAttention, BartEncoderLayer, BartDecoderLayer


class KeysValues(NamedTuple):
    """Keys and values of some states, projected."""

    keys: Tensor
    values: Tensor


def keys_values(attention: Module, states: Tensor) -> KeysValues:
    """Keys and values of one attention for these states."""
    return KeysValues(attention.k_proj(states), attention.v_proj(states))


def heads(states: Tensor, count: int) -> Tensor:
    """(rows, tokens, width) → (rows, heads, tokens, head width)."""
    return states.view(*states.shape[:-1], count, -1).transpose(-2, -3)


def merged(states: Tensor) -> Tensor:
    """(rows, heads, tokens, head width) → (rows, tokens, width)."""
    return states.transpose(-2, -3).flatten(-2)


def attend(
    attention: Module, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool = False
) -> Tensor:
    """Attention of projected queries (rows, tokens, width); ``mask`` (rows, keys), or None for all."""
    count = attention.num_heads
    return merged(
        F.scaled_dot_product_attention(
            heads(queries, count),
            heads(keys, count),
            heads(values, count),
            attn_mask=None if mask is None else mask[:, None, None, :],
            dropout_p=attention.dropout if attention.training else 0.0,
            is_causal=causal,
        )
    )


def attend_within(attention: Module, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """:func:`attend` of rows to themselves; ``mask`` (rows, tokens) is True on tokens, which come before padding."""
    if mask is None or not can_attend_by_rows(queries):
        return attend(attention, queries, keys, values, mask)
    ends = row_ends(mask.sum(1), mask.shape[1])
    query, key, value = (each.view(*each.shape[:-1], attention.num_heads, -1) for each in (queries, keys, values))
    return by_rows(query, key, value, ends, attention.dropout if attention.training else 0.0).flatten(-2)


def joint_attention(
    attention: Module,
    queries: Tensor,  # (blocks, size, question tokens, width)
    context: KeysValues,  # (blocks, heads, context tokens, head width)
    context_mask: Tensor | None,  # (blocks, context tokens)
    solution: KeysValues,  # (blocks, size, solution tokens, width)
    solution_mask: Tensor,  # (blocks, size, solution tokens)
) -> Tensor:
    """One softmax over the context, which a block shares, and each solution's own stream. Shape of ``queries``."""
    blocks, size, asked, width = queries.shape
    count = attention.num_heads
    query = (queries * attention.scaling).view(blocks, size, asked, count, -1).permute(0, 3, 1, 2, 4)
    shared = query.reshape(blocks, count, size * asked, -1)
    logits = shared @ context.keys.transpose(-1, -2)  # (blocks, heads, size · question tokens, context tokens)
    lowest = torch.finfo(logits.dtype).min
    if context_mask is not None:
        logits = logits.masked_fill(~context_mask[:, None, None, :], lowest)
    own = solution_mask.shape[-1]
    if own == 0:
        weights = F.dropout(logits.softmax(-1), attention.dropout, attention.training)
        mixed = (weights @ context.values).view(blocks, count, size, asked, -1)
        return mixed.permute(0, 2, 3, 1, 4).reshape(blocks, size, asked, width)

    own_keys, own_values = (
        states.view(blocks, size, own, count, -1).permute(0, 3, 1, 2, 4) for states in solution
    )  # (blocks, heads, size, solution tokens, head width)
    own_logits = shared.view(blocks, count, size, asked, -1) @ own_keys.transpose(-1, -2)
    own_logits = own_logits.masked_fill(~solution_mask[:, None, :, None, :], lowest)
    logits = torch.cat([logits, own_logits.reshape(blocks, count, size * asked, own)], dim=-1)
    weights = F.dropout(logits.softmax(-1), attention.dropout, attention.training)
    mixed = weights[..., :-own] @ context.values
    mixed_own = weights[..., -own:].view(blocks, count, size, asked, own) @ own_values
    mixed = mixed.view(blocks, count, size, asked, -1) + mixed_own
    return mixed.permute(0, 2, 3, 1, 4).reshape(blocks, size, asked, width)


def add_attended(layer: Module, attention: Module, norm: Module, states: Tensor, attended: Tensor) -> Tensor:
    """Output projection, residual sum and layer norm after an attention."""
    return norm(states + F.dropout(attention.out_proj(attended), layer.dropout, layer.training))  # type: ignore[no-any-return]


def feed_forward(layer: Module, states: Tensor) -> Tensor:
    """The layer's last part."""
    inner = F.dropout(layer.activation_fn(layer.fc1(states)), layer.activation_dropout, layer.training)
    return layer.final_layer_norm(states + F.dropout(layer.fc2(inner), layer.dropout, layer.training))  # type: ignore[no-any-return]


def embed(stack: Module, tokens: Tensor, positions: Tensor) -> Tensor:
    """Token and position embeddings of an encoder or decoder; BART's positions are offset by 2 in their table."""
    position = F.embedding(positions + stack.embed_positions.offset, stack.embed_positions.weight)
    states = stack.layernorm_embedding(stack.embed_tokens(tokens) + position)
    return F.dropout(states, stack.dropout, stack.training)
