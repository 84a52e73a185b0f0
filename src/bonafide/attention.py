"""Self-attention of a Hugging Face encoder on a GPU, over rows of different lengths, without a mask.

With a mask, PyTorch has no FlashAttention. But a padded row can be read as two sequences that follow each other, its
pieces and its padding, and sequences of any lengths are what FlashAttention takes (in fp32, the memory-efficient
kernel): pieces attend to pieces, padding to padding, which nobody reads. The shapes stay those of the padded rows, so
that the calls can be recorded (:mod:`bonafide.replay`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "bonafide_rows"
"""What transformers knows it by; it is used where a call passes ``cu_seq_lens_q``."""


def row_ends(counts: Tensor, width: int) -> Tensor:
    """(2 · rows + 1,): where pieces and padding of each row begin, and the end, in the flattened rows."""
    begins = torch.arange(0, len(counts) * width, width, device=counts.device)
    ends = torch.stack([begins, begins + counts], 1).flatten()
    return torch.cat([ends, ends.new_full((1,), len(counts) * width)]).int()


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """As transformers calls it: (rows, heads, width, head width) → (rows, width, heads, head width)."""
    if cu_seq_lens_q is None:
        made: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
        return made
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    return by_rows(query, key, value, cu_seq_lens_q, dropout, scaling), None


def by_rows(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, dropout: float = 0.0, scaling: float | None = None
) -> Tensor:
    """(rows, width, heads, head width), all four; ``ends`` as :func:`row_ends` gives them."""
    rows, width, heads, size = query.shape
    flat = [each.reshape(rows * width, heads, size) for each in (query, key, value)]
    if query.dtype in (torch.bfloat16, torch.float16):
        output = torch.ops.aten._flash_attention_forward(
            *flat, ends, ends, width, width, dropout, False, False, scale=scaling
        )[0]
    else:
        flat = [each[None] for each in flat]
        learns = torch.is_grad_enabled() and any(each.requires_grad for each in flat)
        output = torch.ops.aten._efficient_attention_forward(
            *flat, None, ends, ends, width, width, dropout, 0, learns, scale=scaling
        )[0]
    made: Tensor = output.reshape(rows, width, heads, size)
    return made


def can_attend_by_rows(states: Tensor) -> bool:
    """Whether there are kernels for such states."""
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16, torch.float32)


AttentionInterface.register(NAME, attend)
# The decoder of an encoder–decoder has the same configuration; transformers gives it no mask where none is known.
AttentionMaskInterface.register(NAME, sdpa_mask)
