"""Teach a reconstructor to use the words that it reads, before it sees any candidate: questions from fragments of them.

A small model from scratch is slow to find out that a number in a candidate may be the number in the question, the more
so where most candidates are accidental; until then it learns the questions by heart. In a fragment, some of the
question's own words in their order, every word is there for a reason. It stands where a solution stands, unlike in the
denoising of ``reconstruct/denoise.py``, whose corrupted question is the context. Questions and contexts are all it
reads. What it is worth is measured in ``docs/text.md``.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers.utils import logging

from bonafide.files import explained
from bonafide.learn.checkpoint import replace_folder
from bonafide.learn.text import rendered_texts
from bonafide.reconstruct.layout import Layout, tokenise
from bonafide.reconstruct.model import Reconstructor

KEPT = 0.3
"""How likely a word of the question is in the fragment."""
BATCH = 16


def fragment(question: str, chance: np.random.Generator) -> str:
    """Some of the question's words, in order; one at least."""
    words = question.split()
    kept = [word for word in words if chance.random() < KEPT]
    return " ".join(kept or words[int(chance.integers(len(words))) :][:1])


def teach(
    reconstructor: Reconstructor,
    tokenizer: Any,
    questions: Sequence[tuple[str, str]],
    steps: int,
    rate: float,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[float]:
    """Train in place on ``questions``, each with its context; the mean nats a question of each step."""
    device = next(reconstructor.parameters()).device
    optimiser = torch.optim.AdamW(reconstructor.parameters(), rate, eps=1e-6, weight_decay=0.0)
    rising = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / rising, (steps - step) / max(1, steps - rising))
    )
    losses: list[float] = []
    was_training = reconstructor.training
    reconstructor.train()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for layouts in itertools.islice(_batches(questions, tokenizer, seed), steps):
            batch = reconstructor.batch(layouts, [np.zeros(1, np.int64)] * len(layouts))
            loss = -reconstructor.log_prob(batch).mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(reconstructor.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses.append(float(loss.detach()))
            if progress is not None:
                progress(len(losses), steps)
    reconstructor.train(was_training)
    return losses


def _batches(questions: Sequence[tuple[str, str]], tokenizer: Any, seed: int) -> Iterator[list[Layout]]:
    """Pass after pass over the questions, each with a new fragment, in a new order."""
    for number in itertools.count():
        chance = np.random.default_rng([seed, number])
        order = chance.permutation(len(questions)).tolist()
        for start in range(0, len(order), BATCH):
            part = [questions[place] for place in order[start : start + BATCH]]
            yield [
                tokenise(rendered_texts([fragment(question, chance)], question, context, 0), question, tokenizer)
                for question, context in part
            ]


def save_taught(folder: Path, reconstructor: Reconstructor, tokenizer: Any) -> None:
    """As a checkpoint that a recipe can start from (``reconstructor.kind = "bart"``), there only when it is whole."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with explained(part, "write"), without_bars():
        reconstructor.bart.save_pretrained(part)
        tokenizer.save_pretrained(part)
        replace_folder(part, folder)


@contextmanager
def without_bars() -> Iterator[None]:
    """Do not show the progress bars of transformers, which appear for a checkpoint of a few kilobytes too."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
