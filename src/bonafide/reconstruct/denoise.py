"""Pre-training the reconstructor as a denoiser of questions (the paper's T-DAE).

Half of the questions are given as they are; in the others, spans are replaced by one mask token each (BART's text
infilling): span lengths are drawn from Poisson(3), a span of length 0 inserts a mask token, and spans are drawn
until about 30 % of the tokens are gone, as in BART. The corrupted question is the context; there is no solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedTokenizerBase

from bonafide.errors import BonafideError
from bonafide.reconstruct.layout import Integers, closing_token, encode, question_layout
from bonafide.reconstruct.model import Reconstructor

UNTOUCHED = 0.5
MASKED = 0.3
SPAN_LENGTH = 3.0


@dataclass(frozen=True, slots=True)
class Denoising:
    """How long and how fast; the paper: one epoch, batches of 4, rate 5e-5 (for BART-base's width)."""

    epochs: int = 1
    batch: int = 64
    rate: float = 5e-4


def corrupt(tokens: npt.ArrayLike, mask: int, random: np.random.Generator) -> Integers:
    """The question as the denoiser reads it."""
    question = np.asarray(tokens, np.int32)
    if len(question) == 0 or random.random() < UNTOUCHED:
        return question
    budget = max(1, round(MASKED * len(question)))
    gone = np.zeros(len(question), bool)
    opens = np.zeros(len(question) + 1, bool)  # a mask token stands before this token
    while budget > 0:
        length = min(int(random.poisson(SPAN_LENGTH)), budget)
        free = _free_starts(gone, opens, length)
        if len(free) == 0:
            break
        start = int(random.choice(free))
        gone[start : start + length] = True
        opens[start] = True
        budget -= max(length, 1)  # an insertion counts as one, so that this ends
    parts = np.stack([np.where(opens[:-1], mask, -1), np.where(gone, -1, question)], axis=1).reshape(-1)
    joined = np.append(parts, mask if opens[-1] else -1)
    return joined[joined >= 0].astype(np.int32)


def denoise(
    reconstructor: Reconstructor,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    settings: Denoising,
    seed: int = 0,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[float]:
    """Train in place; nats per token of each step. What a question becomes depends on seed, epoch and its number.

    ``progress`` is told the step, the number of steps and the loss (a tensor is read for it, so not for nothing).
    """
    mask = tokenizer.mask_token_id
    if mask is None:
        raise BonafideError("The denoiser needs a tokenizer with a mask token.")
    if not questions:
        raise BonafideError("A reconstructor of kind t-dae is pre-trained on questions; there are none.")
    if not settings.epochs:
        return []
    device = next(reconstructor.parameters()).device
    most = reconstructor.markers.positions - 2
    ids = [np.array(row[:most], np.int32) for row in encode(list(questions), tokenizer)]
    end = closing_token(tokenizer)
    steps = settings.epochs * -(-len(ids) // settings.batch)
    optimiser = torch.optim.AdamW(reconstructor.parameters(), settings.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / max(1, steps // 20), (steps - step) / steps)
    )
    was_training = reconstructor.training
    reconstructor.train()
    losses = []
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for epoch in range(settings.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(ids))
            for start in range(0, len(order), settings.batch):
                members = order[start : start + settings.batch]
                layouts = [
                    question_layout(
                        corrupt(ids[member], mask, np.random.default_rng([seed, epoch, int(member)]))[:most],
                        np.append(ids[member], end),
                    )
                    for member in members
                ]
                batch = reconstructor.batch(layouts, [[-1]] * len(layouts))
                tokens = sum(len(layout.question) for layout in layouts)
                loss = -reconstructor.log_prob(batch).sum() / tokens
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(reconstructor.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                losses.append(loss.detach())
                if progress is not None:
                    progress(len(losses), steps, float(losses[-1]))
    reconstructor.train(was_training)
    return [float(loss) for loss in torch.stack(losses).cpu()]


def _free_starts(gone: npt.NDArray[np.bool_], opens: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.int64]:
    """Where a span of this length can start, apart from the spans that are there: those would be one span."""
    edge = np.concatenate([gone, [False]]) | np.concatenate([[False], gone]) | opens
    if length == 0:
        return np.flatnonzero(~edge)
    taken = np.concatenate([[0], np.cumsum(gone)])
    starts = np.arange(len(gone) - length + 1)
    inner = np.concatenate([[0], np.cumsum(edge)])
    clear = (taken[starts + length] == taken[starts]) & (inner[starts + length + 1] == inner[starts])
    return np.flatnonzero(clear)
