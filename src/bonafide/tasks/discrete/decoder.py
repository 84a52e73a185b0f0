"""The decoder of programs: one option after the other, by pointing into what was read.

A small Transformer whose inputs and outputs are the same vectors, one for each option (:meth:`Decoder.read`): what is
learned of the option as such, and for numbers, dates and spans the encoder's states of their pieces. A step attends
to its own prefix and to the text, and the next option is drawn from a softmax over those that the grammar allows.
So every program has one probability, and the probabilities of all programs sum to one.

**Teacher forcing.** All prefixes of all solutions are decoded at once, each distinct one once: a prefix attends to
its ancestors in the tree of prefixes, by gathering their keys and values, and to the text of its block
(``features.py``). There is no loop over steps. Where the scores of all prefixes over all options would not fit into
memory, blocks are decoded in chunks, and computed again on the way back.

Differs from NeRd, whose decoder is an LSTM with attention over text and prefix: this one needs no loop to train. What
stands around a piece is added to its state (:class:`Surroundings`), which an encoder from scratch learns slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bonafide.tasks.discrete.features import FIRST_CONSTANT_TAG, ROLES, SolverBatch
from bonafide.tasks.discrete.options import CLOSE, DATE_KINDS
from bonafide.tasks.shared_words import Surroundings


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """What a batch of examples offers to the decoder."""

    options: Tensor  # (examples, options, width)
    beginning: Tensor  # (width,): the input of the first step
    keys: tuple[Tensor, ...]  # a layer each: (examples, heads, pieces, width of a head)
    values: tuple[Tensor, ...]
    mask: Tensor  # (examples, 1, 1, pieces): which pieces are there


class Layer(nn.Module):
    """Attention to the prefix, attention to the text, and a feed-forward part."""

    def __init__(self, text_width: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own_query = nn.Linear(width, width)
        self.own = nn.Linear(width, 2 * width)  # keys and values of the prefix
        self.own_out = nn.Linear(width, width)
        self.text_query = nn.Linear(width, width)
        self.text = nn.Linear(text_width, 2 * width)
        self.text_out = nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def of_text(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(examples, heads, pieces, width of a head): keys and values."""
        examples, pieces, _ = states.shape
        keys, values = self.text(states).view(examples, pieces, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        return keys, values

    def of_prefix(self, steps: Tensor) -> Tensor:
        """(…, 2 · width): keys and values of these steps."""
        made: Tensor = self.own(self.norms[0](steps))
        return made

    def forward(self, steps: Tensor, prefix: Tensor, prefix_mask: Tensor, keys: Tensor, values: Tensor,
                text_mask: Tensor) -> Tensor:  # fmt: skip
        """(blocks, size, width) → the same; ``prefix`` (blocks, size, length, 2 · width), text as in :class:`Text`."""
        blocks, size, width = steps.shape
        split = (blocks, size, self.heads, width // self.heads)
        query = self.own_query(self.norms[0](steps)).view(split)
        own_keys, own_values = prefix.view(*prefix.shape[:3], 2, *split[2:]).unbind(3)
        scores = torch.einsum("bshw,bslhw->bshl", query, own_keys) / (width // self.heads) ** 0.5
        shares = scores.masked_fill(~prefix_mask[:, :, None], -torch.inf).softmax(-1).to(own_values.dtype)
        attended = torch.einsum("bshl,bslhw->bshw", shares, own_values).reshape(blocks, size, width)
        steps = steps + self.dropout(self.own_out(attended))
        query = self.text_query(self.norms[1](steps)).view(split).transpose(1, 2)
        found = functional.scaled_dot_product_attention(query, keys, values, attn_mask=text_mask)
        steps = steps + self.dropout(self.text_out(found.transpose(1, 2).reshape(blocks, size, width)))
        inner = self.dropout(functional.gelu(self.inner(self.norms[2](steps))))
        made: Tensor = steps + self.dropout(self.outer(inner))
        return made


class Decoder(nn.Module):
    """P(next option | prefix, text)."""

    def __init__(self, text_width: int, width: int, layers: int, dropout: float, constants: int, longest: int) -> None:
        super().__init__()
        heads = next(each for each in (8, 4, 2, 1) if width % each == 0 and width // each >= min(width, 16))
        self.width = width
        self.surroundings = Surroundings(text_width)
        self.roles = nn.Linear(text_width, ROLES * width)
        self.tags = nn.Embedding(FIRST_CONSTANT_TAG + constants + 1, width)
        self.places = nn.Embedding(longest, width)
        self.input = nn.Linear(width, width)
        self.layers = nn.ModuleList(Layer(text_width, width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    @property
    def stack(self) -> list[Layer]:
        """Its layers, lowest first."""
        return [cast(Layer, layer) for layer in self.layers]

    def read(self, states: Tensor, batch: SolverBatch) -> Text:
        """From the encoder's states (windows, pieces, text width)."""
        states = _rows(states.flatten(0, 1), batch.text)  # (examples, pieces, text width)
        examples, pieces, _ = states.shape
        mask = torch.arange(pieces, device=states.device) < batch.text_counts[:, None]
        states = self.dropout(self.surroundings(states, mask))
        roles = self.roles(states).view(examples, pieces * ROLES, self.width)
        roles = functional.pad(roles, (0, 0, 0, 1))  # the last one is of what points at nothing
        row = torch.arange(examples, device=states.device)[:, None, None] * roles.shape[1]
        options = self.tags(batch.tags) + _rows(roles.flatten(0, 1), row + batch.pointers).sum(2)
        keys, values = zip(*(layer.of_text(states) for layer in self.stack), strict=True)
        return Text(options, self.tags.weight[-1], keys, values, mask[:, None, None])

    def edges(self, text: Text, batch: SolverBatch) -> Tensor:
        """(edges + 1,): log P of the option of each edge after the prefix of its node, and 0 at the end."""
        blocks, size, length = batch.node_ancestors.shape
        parts = [text.options.new_zeros(0, dtype=_precise(text.options))]
        if blocks:
            inputs = torch.cat([text.options.flatten(0, 1), text.beginning[None].to(text.options)])
            chosen = _rows(inputs, batch.node_option)
            steps = self.embedded(chosen, batch.node_depth)
            prefix_mask = torch.arange(length, device=steps.device) <= batch.node_depth[..., None]
            for number, layer in enumerate(self.stack):
                prefix = layer.of_prefix(steps).flatten(0, 1)
                steps = torch.cat([
                    self._run(batch, self._layer, number, steps[start:end], prefix,
                              batch.node_ancestors[start:end], prefix_mask[start:end], text,
                              batch.block_example[start:end])
                    for start, end, _, _ in batch.chunks
                ])  # fmt: skip
            for start, end, first, last in batch.chunks:
                parts.append(
                    self._run(batch, self._picked, steps[start:end], text.options, batch.block_example[start:end],
                              batch.node_allowed[start:end], batch.date_table,
                              batch.edge_node[first:last] - start * size, batch.edge_option[first:last])
                )  # fmt: skip
        return torch.cat([*parts, parts[0].new_zeros(1)])

    def embedded(self, options: Tensor, depth: Tensor) -> Tensor:
        """(…, width): the input of steps from the option that led to each."""
        made: Tensor = self.dropout(self.input(options) + self.places(depth))
        return made

    def log_probabilities(self, steps: Tensor, options: Tensor, mask: Tensor) -> Tensor:
        """(blocks, size, options): log P of each option after each step; −inf where the mask is False."""
        query = self.query(self.norm(steps))
        scores: Tensor = torch.einsum("bsw,bow->bso", query, options.to(query.dtype)) / self.width**0.5
        return scores.to(_precise(scores)).masked_fill(~mask, -torch.inf).log_softmax(-1)

    def _layer(self, number: int, steps: Tensor, prefix: Tensor, ancestors: Tensor, prefix_mask: Tensor, text: Text,
               example: Tensor) -> Tensor:  # fmt: skip
        made: Tensor = self.stack[number](
            steps, _rows(prefix, ancestors), prefix_mask, text.keys[number].index_select(0, example),
            text.values[number].index_select(0, example), text.mask[example],
        )  # fmt: skip
        return made

    def _picked(self, steps: Tensor, options: Tensor, example: Tensor, allowed: Tensor, date_table: Tensor,
                node: Tensor, option: Tensor) -> Tensor:  # fmt: skip
        mask = option_mask(allowed, date_table, example)
        found = self.log_probabilities(steps, options.index_select(0, example), mask)
        return found.flatten().index_select(0, node * found.shape[-1] + option)

    def _run(self, batch: SolverBatch, compute: Callable[..., Tensor], *arguments: Any) -> Tensor:
        """Compute one chunk; where there are several, without keeping what the way back needs."""
        if len(batch.chunks) == 1 or not torch.is_grad_enabled():
            return compute(*arguments)
        made: Tensor = checkpoint(compute, *arguments, use_reentrant=False)
        return made


def option_mask(allowed: Tensor, date_table: Tensor, example: Tensor) -> Tensor:
    """(blocks, size, options): what the grammar allows; ``allowed`` (blocks, size, 6) as ``grammar.Allowed`` says."""
    place = torch.arange(date_table.shape[-1], device=allowed.device)
    low, high, close, kind, without, nor = allowed[..., None].unbind(2)  # (blocks, size, 1) each
    rows = example[:, None] * DATE_KINDS + kind.squeeze(-1)
    inside = (low <= place) & (place < high) & (place != without) & (place != nor)
    inside &= date_table.flatten(0, 1)[rows]
    return inside | ((close > 0) & (place == CLOSE))


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]``, whose way back adds without sorting the indices first."""
    return table.index_select(0, index.flatten()).view(*index.shape, -1)


def _precise(tensor: Tensor) -> torch.dtype:
    """fp32 at least: log-probabilities are summed, and decide."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
