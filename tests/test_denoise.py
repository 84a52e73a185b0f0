"""The denoiser: what it reads, and that it learns."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.denoise import Denoising, corrupt

MASK = 4


@given(st.lists(st.integers(5, 50), max_size=30), st.integers(0, 10_000))
def test_what_is_left_of_a_question_is_in_its_order(question, seed):
    found = corrupt(question, MASK, np.random.default_rng(seed)).tolist()
    rest = iter(question)
    assert all(token in rest for token in found if token != MASK)
    assert all((first, second) != (MASK, MASK) for first, second in pairwise(found))
    assert corrupt(question, MASK, np.random.default_rng(seed)).tolist() == found


def test_half_are_untouched_and_the_others_lose_about_three_tenths():
    random = np.random.default_rng(0)
    question = np.arange(10, 30)
    outcomes = [corrupt(question, MASK, random) for _ in range(4000)]
    touched = [outcome for outcome in outcomes if MASK in outcome]
    assert 0.47 < len(touched) / len(outcomes) < 0.53
    left = np.array([(outcome != MASK).sum() for outcome in touched])
    lost = (20 - left) / 20
    assert 0.25 < lost.mean() <= 0.3
    # Spans of no tokens are there: some questions hold more mask tokens than gaps.
    inserted = [
        sum(
            1
            for before, token, after in zip(outcome, outcome[1:], outcome[2:], strict=False)
            if token == MASK and after == before + 1
        )
        for outcome in touched
    ]
    assert 0.02 < np.mean(np.array(inserted) > 0) < 0.3
    spans = [(outcome == MASK).sum() for outcome in touched]
    assert 1.5 < (20 - left).sum() / np.sum(spans) < 3.2  # Poisson(3), cut short by the budget
    # Starts are even over the question, so its two ends are hit less often.
    hits = np.zeros(20)
    for outcome in touched:
        hits[np.setdiff1d(question, outcome) - 10] += 1
    assert hits.max() < 3 * hits.min()


QUESTIONS = [f"how many {thing} came from {city}?" for thing in ("wins", "goals", "games") for city in ("oslo", "rome")]
SPEC = ReconstructorSpec(
    "t-dae",
    layers=1,
    width=32,
    heads=2,
    feed_forward=32,
    positions=64,
    vocabulary=300,
    denoising=Denoising(epochs=60, batch=6, rate=5e-3),
)


def test_pre_training_learns_the_questions_and_is_decided_by_its_seed():
    torch.set_num_threads(1)
    models = [build_reconstructor(SPEC, seed=1, texts=QUESTIONS, questions=QUESTIONS)[0] for _ in range(2)]
    assert not models[0].training
    for first, second in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(first, second)

    from bonafide.reconstruct.layout import closing_token, encode, question_layout

    model, tokenizer = models[0], build_reconstructor(SPEC, seed=1, texts=QUESTIONS, questions=QUESTIONS[:1])[1]
    ids = encode(QUESTIONS, tokenizer)
    layouts = [question_layout(row, [*row, closing_token(tokenizer)]) for row in ids]
    with torch.no_grad():
        scores = model.log_prob(model.batch(layouts, [[-1]] * len(layouts)))
    tokens = sum(len(layout.question) for layout in layouts)
    assert -float(scores.sum()) / tokens < 1.0  # nats a token; log(300) = 5.7 before


def test_no_epochs_of_pre_training_are_none():
    spec = replace(SPEC, denoising=replace(SPEC.denoising, epochs=0))
    model, _ = build_reconstructor(spec, seed=1, texts=QUESTIONS, questions=QUESTIONS)
    scratch, _ = build_reconstructor(replace(spec, kind="t-scratch"), seed=1, texts=QUESTIONS)
    for first, second in zip(model.parameters(), scratch.parameters(), strict=True):
        assert torch.equal(first, second)


def test_pre_training_needs_questions():
    with pytest.raises(BonafideError, match="there are none"):
        build_reconstructor(SPEC, texts=QUESTIONS)
