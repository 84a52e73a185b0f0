"""The text solver: exact probabilities from one pass, beam search, any BART, saved and loaded."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import BartConfig, BartForConditionalGeneration

from bonafide import attention
from bonafide.errors import BonafideError
from bonafide.learn.objective import loss_of, scores_of
from bonafide.learn.tensors import copied, read_tensors, write_tensors
from bonafide.tasks.text.features import collate
from bonafide.tasks.text.solver import TextSolver, TextSpec, build_text_solver, train_tokenizer

torch.set_num_threads(1)

QUESTIONS = ["Ada has 12 apples and buys 7. How many?", "Bo has 9 stamps."]
CONTEXTS = ["It is late in the year.", ""]
CANDIDATES = [["12 + 7 = 19", "Begin with 12. Adding 7 gives 19.", "x"], ["9 = 9", "3 * 3 = 9"]]
TEXTS = [*QUESTIONS, *CONTEXTS, *(text for each in CANDIDATES for text in each)] * 2


@pytest.fixture(scope="module")
def solver() -> TextSolver:
    return build_text_solver(TextSpec(width=16, heads=2, vocabulary=320, positions=64), TEXTS, seed=3).eval()


def scores(solver: TextSolver, places: list[int]) -> torch.Tensor:
    features = [solver.features(QUESTIONS[place], CONTEXTS[place], CANDIDATES[place]) for place in places]
    batch = solver.collate(features)
    with torch.no_grad():
        return solver.log_prob(solver(batch), batch)


def test_scores_are_the_sum_over_tokens_that_transformers_own_forward_gives(solver: TextSolver) -> None:
    found = scores(solver, [0, 1]).tolist()
    wanted = []
    for question, context, candidates in zip(QUESTIONS, CONTEXTS, CANDIDATES, strict=True):
        pieces = torch.from_numpy(solver.features(question, context).pieces)[None]
        for text in candidates:
            said = [*solver.tokenizer(text, add_special_tokens=False)["input_ids"], solver.tokenizer.eos_token_id]
            read = torch.tensor([[solver.bart.config.decoder_start_token_id, *said[:-1]]])
            with torch.no_grad():
                logits = solver.bart(input_ids=pieces, decoder_input_ids=read).logits[0].log_softmax(-1)
            wanted.append(sum(float(logits[place, token]) for place, token in enumerate(said)))
    assert found == pytest.approx(wanted, abs=1e-4)


def test_scores_do_not_depend_on_the_batch_or_on_the_chunks(solver: TextSolver) -> None:
    together = scores(solver, [0, 1])
    torch.testing.assert_close(torch.cat([scores(solver, [0]), scores(solver, [1])]), together)
    features = [solver.features(QUESTIONS[place], CONTEXTS[place], CANDIDATES[place]) for place in (0, 1)]
    config = solver.bart.config
    small = collate(features, config.pad_token_id, config.decoder_start_token_id, chunk_tokens=1)
    assert len(small.chunks) == 5
    with torch.no_grad():
        torch.testing.assert_close(solver.log_prob(solver(small), small), together)


@pytest.mark.parametrize("chosen", [[1, 3], [2, -1], [-1, -1], [4, 0]])
def test_chosen_candidates_alone_have_the_scores_and_gradients_that_they_have_among_all(
    solver: TextSolver, chosen: list[int]
) -> None:
    features = [solver.features(QUESTIONS[place], CONTEXTS[place], CANDIDATES[place]) for place in (0, 1)]
    batch, places = solver.collate(features), torch.tensor(chosen)
    alone, among = solver.log_prob_of(batch, places), scores_of(solver.log_prob(solver(batch), batch), places)
    torch.testing.assert_close(alone, among)
    weights = [weight for weight in solver.parameters() if weight.requires_grad]
    if (places >= 0).any():
        found, wanted = (torch.autograd.grad(loss_of(each), weights, allow_unused=True) for each in (alone, among))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    else:
        assert float(loss_of(alone).detach()) == 0


def test_a_chosen_candidate_that_is_too_long_is_impossible_and_none_is_chosen_of_nothing(solver: TextSolver) -> None:
    batch = solver.collate([solver.features("q", "", ["1 + 1 " * 200, "x"])])
    assert solver.log_prob_of(batch, torch.tensor([0])).tolist() == [-torch.inf]
    empty = solver.collate([solver.features("q", "", [])])
    assert solver.log_prob_of(empty, torch.tensor([-1])).tolist() == [-torch.inf]


def by_rows_plainly(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: torch.Tensor, *_: Any
) -> torch.Tensor:
    """As :func:`bonafide.attention.by_rows`, on any device: pieces and padding of each row by themselves."""
    flat = [each.flatten(0, 1).transpose(0, 1) for each in (query, key, value)]
    parts = [
        functional.scaled_dot_product_attention(*(each[:, first:stop] for each in flat))
        for first, stop in itertools.pairwise(ends.tolist())
    ]
    return torch.cat(parts, 1).transpose(0, 1).reshape(query.shape)


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_an_encoder_that_attends_by_rows_leaves_the_decoder_its_masks(
    solver: TextSolver, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "cpu":
        monkeypatch.setattr(attention, "by_rows", by_rows_plainly)
    solver = copy.deepcopy(solver).to(device)
    asked = zip(QUESTIONS, CONTEXTS, CANDIDATES, strict=True)
    batch = solver.collate([solver.features(*each) for each in asked]).to(device)
    assert len(set(batch.piece_counts.tolist())) > 1  # so that there is padding
    found = []
    for rows in (False, True):
        if rows:
            solver.encoder.attend_by_rows()
            assert solver.encoder._by_rows
        with torch.no_grad():
            scores = solver.log_prob(solver(batch), batch)
        found.append((scores.cpu(), [text for each in solver.decode(batch, beam=2, top=2) for text, _ in each]))
    torch.testing.assert_close(found[1][0], found[0][0], atol=1e-3, rtol=1e-4)
    assert found[1][1] == found[0][1]


def test_beam_search_gives_the_probabilities_of_what_it_writes(solver: TextSolver) -> None:
    batch = solver.collate([solver.features(question, "") for question in QUESTIONS])
    found = solver.decode(batch, beam=3, top=3)
    assert len(found) == 2
    for question, pairs in zip(QUESTIONS, found, strict=True):
        assert [score for _, score in pairs] == sorted((score for _, score in pairs), reverse=True)
        greedy = solver.decode(solver.collate([solver.features(question, "")]))[0][0]
        assert pairs[0][1] >= greedy[1] - 1e-4


@pytest.mark.parametrize("beam", [1, 3])
def test_nothing_is_said_of_how_to_generate_that_transformers_ignores(
    solver: TextSolver, monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    said: list[Any] = []
    generate = solver.bart.generate

    def heard(**arguments: Any) -> Any:
        said.append(arguments["generation_config"])
        return generate(**arguments)

    monkeypatch.setattr(solver.bart, "generate", heard)
    solver.decode(solver.collate([solver.features(QUESTIONS[0], CONTEXTS[0])]), beam, 1)
    said[0].validate(strict=True)


def test_a_trained_solver_writes_what_it_learned_with_the_probability_of_it() -> None:
    solver = build_text_solver(TextSpec(layers=1, width=32, heads=2, vocabulary=320, dropout=0.0), TEXTS, seed=0)
    right = [CANDIDATES[0][0], CANDIDATES[1][1]]
    batch = solver.collate(
        [solver.features(*each) for each in zip(QUESTIONS, CONTEXTS, [[z] for z in right], strict=True)]
    )
    optimiser = torch.optim.Adam(solver.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        (-solver.log_prob(solver(batch), batch).sum()).backward()
        optimiser.step()
    solver.eval()
    found = solver.decode(batch, beam=2, top=2)
    assert [pairs[0][0] for pairs in found] == right
    with torch.no_grad():
        exact = solver.log_prob(solver(batch), batch).tolist()
    assert [pairs[0][1] for pairs in found] == pytest.approx(exact, abs=1e-3)


def test_a_checkpoints_own_way_to_generate_changes_nothing() -> None:
    plain = build_text_solver(TextSpec(width=16, heads=2, vocabulary=320, positions=64), TEXTS, seed=3).eval()
    bart = copy.deepcopy(plain.bart)
    bart.generation_config.update(no_repeat_ngram_size=1, forced_bos_token_id=0, min_length=20, early_stopping=True)
    own = TextSolver(plain.spec, bart, plain.tokenizer).eval()
    batch = plain.collate([plain.features(question, "") for question in QUESTIONS])
    for beam in (1, 3):
        assert own.decode(batch, beam) == plain.decode(batch, beam)


def test_a_text_that_is_cut_has_the_probability_of_ending_there() -> None:
    solver = build_text_solver(TextSpec(width=16, heads=2, vocabulary=320, positions=16), TEXTS, seed=3).eval()
    solver.bart.final_logits_bias[0, solver.bart.config.eos_token_id] = -1000.0
    found = solver.decode(solver.collate([solver.features("Who?", "")]), beam=3, top=3)[0]
    assert len(found) == 3
    assert all(score < -900 for _, score in found)  # the fifteen tokens alone are worth some −80


def test_every_weight_gets_a_gradient(solver: TextSolver) -> None:
    batch = solver.collate([solver.features(QUESTIONS[0], CONTEXTS[0], CANDIDATES[0])])
    solver.zero_grad()
    solver.log_prob(solver(batch), batch).sum().backward()
    silent = [name for name, each in solver.named_parameters() if each.grad is None or not each.grad.any()]
    assert silent == []


def test_a_candidate_that_is_longer_than_the_decoder_has_no_probability(solver: TextSolver) -> None:
    features = solver.features(QUESTIONS[0], "", ["1 + " * 80, "12 + 7"])
    assert features.unreachable == 1
    batch = solver.collate([features])
    with torch.no_grad():
        long, short = solver.log_prob(solver(batch), batch).tolist()
    assert long == -torch.inf
    assert short > -1000


def test_long_questions_and_contexts_are_cut_to_what_can_be_read(solver: TextSolver) -> None:
    features = solver.features("how many " * 100, "much " * 100)
    assert len(features.pieces) == solver.encoder.max_pieces == 64
    assert features.question_pieces == 30


def test_a_solver_comes_back_as_it_was_saved(solver: TextSolver, tmp_path: Path) -> None:
    solver.tokenizer.save_pretrained(tmp_path / "tokenizer")
    write_tensors(tmp_path / "weights.safetensors", copied(solver.state_dict()))
    again = TextSolver.from_config(solver.config(), tmp_path / "tokenizer").eval()
    again.load_state_dict(read_tensors(tmp_path / "weights.safetensors"))
    torch.testing.assert_close(scores(again, [0, 1]), scores(solver, [0, 1]), rtol=0, atol=0)


def test_any_bart_serves_and_other_checkpoints_are_refused(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    ends = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64, **ends,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(tmp_path / "bart")
    tokenizer.save_pretrained(tmp_path / "bart")
    solver = build_text_solver(TextSpec(encoder=str(tmp_path / "bart"))).eval()
    assert torch.isfinite(scores(solver, [0, 1])).all()
    with pytest.raises(BonafideError, match="a BART is needed"):
        build_text_solver(TextSpec(encoder="minilm"))
    with pytest.raises(BonafideError, match="vocabulary from texts"):
        build_text_solver(TextSpec())


def test_the_tokenizer_gives_a_text_back_as_it_stood() -> None:
    tokenizer = train_tokenizer(TEXTS, 320)
    text = "12+7 = 19; Ünïcode (x)  two spaces\n#### 19"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
