"""Fragments of questions: some of their words in order; a reconstructor learns from them to use what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bonafide.learn.fragments import fragment, save_taught, teach
from bonafide.learn.text import rendered_texts
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.layout import tokenise
from bonafide.reconstruct.model import Reconstructor
from bonafide.synth.candidates import generate_candidates

torch.set_num_threads(1)
SPEC = ReconstructorSpec(layers=1, width=32, heads=2, feed_forward=128, dropout=0.0)


def questions(count: int, seed: int) -> list[tuple[str, str]]:
    chance = np.random.default_rng(seed)
    return [(" and ".join(map(str, chance.permutation(np.arange(10, 25))[:4])) + " ?", "") for _ in range(count)]


def built(asked: list[tuple[str, str]]) -> tuple[Reconstructor, object]:
    return build_reconstructor(SPEC, texts=[question for question, _ in asked] * 2, seed=0)


def explained(reconstructor: Reconstructor, tokenizer: object, question: str, texts: list[str]) -> list[float]:
    layout = tokenise(rendered_texts(texts, question, "", 4), question, tokenizer)
    reconstructor.eval()
    with torch.no_grad():
        return reconstructor.log_prob(reconstructor.batch([layout], [np.arange(len(texts))])).tolist()


@given(st.lists(st.text("abc12?", min_size=1), min_size=1), st.integers(0, 99))
def test_a_fragment_is_some_of_the_words_in_order(words: list[str], seed: int) -> None:
    kept = fragment(" ".join(words), np.random.default_rng(seed)).split(" ")
    rest = iter(words)
    assert kept
    assert all(word in rest for word in kept)


def test_a_taught_reconstructor_finds_the_questions_numbers_in_a_candidate_it_never_saw() -> None:
    lines = generate_candidates(150, 3, 0.7, steps=2)
    asked = [(line["question"], "") for line in lines]
    texts = [*(question for question, _ in asked), *(each["text"] for line in lines for each in line["candidates"])]
    spec = ReconstructorSpec(layers=1, width=64, heads=4, feed_forward=256, dropout=0.0)
    reconstructor, tokenizer = build_reconstructor(spec, texts=texts, seed=0)

    def genuine_first() -> float:
        """How often a genuine derivation explains its question better than one of other numbers."""
        won = []
        for line in lines:
            found = {kind: each["text"] for each, kind in zip(line["candidates"], line["kinds"], strict=True)}
            other = found.get("constant", found.get("operands"))
            if other is not None:
                first, second = explained(reconstructor, tokenizer, line["question"], [found["genuine"], other])
                won.append(first > second)
        return float(np.mean(won))

    before = genuine_first()
    losses = teach(reconstructor, tokenizer, asked, steps=240, rate=3e-3)
    assert losses[-1] < losses[0] / 5
    assert before == pytest.approx(0.5, abs=0.1)
    assert genuine_first() > 0.6


def test_teaching_is_the_same_for_the_same_seed_and_leaves_torchs_own_draws_alone() -> None:
    asked = questions(20, 2)
    torch.manual_seed(5)
    wanted = torch.rand(3)
    made = []
    for seed in (0, 0, 1):
        reconstructor, tokenizer = built(asked)
        torch.manual_seed(5)
        teach(reconstructor, tokenizer, asked, steps=2, rate=1e-3, seed=seed)
        assert torch.equal(torch.rand(3), wanted)
        made.append(torch.cat([each.flatten() for each in reconstructor.parameters()]))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_what_was_taught_is_a_checkpoint_to_start_from(tmp_path: Path) -> None:
    asked = questions(20, 3)
    reconstructor, tokenizer = built(asked)
    teach(reconstructor, tokenizer, asked, steps=4, rate=3e-3)
    save_taught(tmp_path / "taught", reconstructor, tokenizer)
    spec = ReconstructorSpec(kind="bart", path=str(tmp_path / "taught"))
    again, same = build_reconstructor(spec, seed=0)
    kept = reconstructor.state_dict()
    for name, each in again.state_dict().items():
        torch.testing.assert_close(each, kept[name], rtol=0, atol=0)
    assert len(same) == len(tokenizer)
    assert [path.name for path in tmp_path.iterdir()] == ["taught"]
