"""The reconstructor's truth: one sequence ``<s> d </s> <sol> z`` and one full attention mask for each solution.

This is what the reference code does, by transformers' own BART forward. It is slow, since every solution's copy of
the context is encoded again, and it is here to test the shared path against and to time it against. The reference's
bridge (``<s>`` and ``</s>`` see both streams and are seen by both) is an option here only; with it the shared path
would not be exact. The reference puts ``</s>`` after the solution; here it closes the context.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import BartForConditionalGeneration

from bonafide.arrays import Indices, ranges
from bonafide.reconstruct.assembly import Assembly
from bonafide.reconstruct.batches import Batch


class Part(NamedTuple):
    """Some solutions as sequences, on the batch's device."""

    solutions: Tensor  # (rows,): their places in the batch
    tokens: Tensor  # (rows, tokens)
    mask: Tensor  # (rows, 1, asking token, token)
    read_mask: Tensor  # (rows, tokens): what the decoder reads
    question: Tensor  # (rows, question tokens)
    target: Tensor
    target_mask: Tensor


def plain_parts(batch: Batch, bridge: bool, tokens_at_once: int) -> list[Part]:
    """The batch in parts of about ``tokens_at_once`` tokens, solutions of like length together."""
    assembly, streams = batch.assembly, batch.streams
    device = streams.context.device
    lengths = assembly.stream_lengths[assembly.context] + assembly.lengths
    order = np.argsort(lengths, kind="stable")
    count = max(1, tokens_at_once // (int(lengths.max(initial=1)) + streams.target.shape[1]))
    parts = []
    for start in range(0, len(order), count):
        rows = order[start : start + count]
        tokens, mask = sequences(assembly, rows, bridge)
        example = torch.from_numpy(assembly.example[rows]).to(device)
        parts.append(
            Part(
                torch.from_numpy(rows).to(device),
                torch.from_numpy(tokens).to(device),
                torch.from_numpy(mask)[:, None].to(device),
                torch.from_numpy(np.arange(tokens.shape[1]) < lengths[rows, None]).to(device),
                streams.question[example],
                streams.target[example],
                streams.target_mask[example],
            )
        )
    return parts


def plain_token_log_prob(bart: BartForConditionalGeneration, part: Part) -> Tensor:
    """(rows, question tokens): log-probability of each token of the question; 0 past its end."""
    states = bart.model.encoder(input_ids=part.tokens, attention_mask=part.mask).last_hidden_state
    decoded = bart.model.decoder(
        input_ids=part.question,
        encoder_hidden_states=states,
        encoder_attention_mask=part.read_mask,
        use_cache=False,
    ).last_hidden_state
    logits = bart.lm_head(decoded) + bart.final_logits_bias
    scores = -F.cross_entropy(logits.flatten(0, 1), part.target.flatten(), reduction="none")
    return torch.where(part.target_mask, scores.view(part.target.shape), 0.0)


def sequences(
    assembly: Assembly, rows: Indices, bridge: bool = False
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]]:
    """Token ids (rows, tokens) and who may attend to whom (rows, asking token, token)."""
    markers = assembly.markers
    stream = assembly.context[rows]
    context = assembly.stream_lengths[stream]
    solution = assembly.lengths[rows]
    width = int((context + solution).max())
    tokens = np.full((len(rows), width), markers.padding, np.int64)
    for row, place in enumerate(stream):
        low, high = assembly.stream_low[place], assembly.stream_high[place]
        words = assembly.layouts[assembly.stream_example[place]].context[low:high]
        tokens[row, : high - low + 2] = [markers.begin, *words, markers.end]
    owner = np.repeat(np.arange(len(rows)), solution)
    column = ranges(context, solution)
    source = ranges(assembly.starts[rows], solution)
    tokens[owner, column] = assembly.tokens[source]

    place = np.arange(width)
    in_context = place < context[:, None]
    in_solution = (place >= context[:, None]) & (place < (context + solution)[:, None])
    mask = (in_context[:, :, None] & in_context[:, None, :]) | (in_solution[:, :, None] & in_solution[:, None, :])
    if bridge:
        end = (context - 1)[:, None]
        between = (place == 0) | (place == end)
        every = in_context | in_solution
        mask |= (between[:, :, None] & every[:, None, :]) | (every[:, :, None] & between[:, None, :])
    placeholder = assembly.placeholder[source]
    found = placeholder >= 0
    low, high = assembly.placeholder_low[placeholder[found]], assembly.placeholder_high[placeholder[found]]
    mask[owner[found], column[found]] = (place >= low[:, None]) & (place < high[:, None])
    mask[:, :, 0] |= ~(in_context | in_solution)  # padding asks <s>, so that no row is empty; nobody reads it
    return tokens, mask
