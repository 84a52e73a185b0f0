"""Recorded calls give what plain calls give; what is recorded needs a GPU, how inputs are padded does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from bonafide.attention import by_rows, row_ends
from bonafide.encoders import Scratch, scratch_encoder
from bonafide.learn.trainer import train
from bonafide.replay import Replay, rounded
from bonafide.search.discrete import search_discrete
from bonafide.search.reading import search_reading
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from tiny_runs import recipe, write_data

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def test_few_sizes_with_little_padding():
    sizes = {rounded(number, 8) for number in range(1, 1025)}
    assert len(sizes) <= 48
    assert all(number <= rounded(number, 8) <= max(number * 9 / 8, number + 7) for number in range(1, 1025))


@pytest.mark.parametrize("marked", [False, True])
def test_an_encoder_reads_padded_inputs_as_they_are(marked):
    torch.manual_seed(0)
    encoder = scratch_encoder(Scratch(dropout=0.0), ["a few words to read"])[0].double()
    pieces = torch.randint(5, 20, (5, 13))
    counts, questions = torch.tensor([13, 1, 7, 5, 2]), torch.tensor([3, 0, 2, 2, 0])
    marks = torch.randn(5, 13, encoder.embedding_width, dtype=torch.float64) if marked else None
    plain = encoder(pieces, counts, questions, marks)
    encoder._replay = lambda function, *inputs: function(*inputs)
    padded = encoder(pieces, counts, questions, marks)
    there = torch.arange(13) < counts[:, None]
    torch.testing.assert_close(plain[there], padded[there], atol=1e-12, rtol=0)


def test_under_autocast_an_encoder_reads_in_that_precision_throughout():
    torch.manual_seed(0)
    encoder = scratch_encoder(Scratch(dropout=0.0), ["a few words to read"])[0]
    inputs = torch.randint(5, 20, (3, 13)), torch.tensor([13, 1, 7]), torch.tensor([3, 0, 2])
    kinds: set[torch.dtype] = set()
    for module in encoder.modules():
        if isinstance(module, nn.LayerNorm | nn.Linear):
            module.register_forward_hook(lambda _, given, made: kinds.update({given[0].dtype, made.dtype}))
    plain = encoder(*inputs)
    kinds.clear()
    with torch.autocast("cpu", torch.bfloat16):
        cast = encoder(*inputs)
    assert kinds == {torch.bfloat16}
    torch.testing.assert_close(cast.float(), plain, atol=0.1, rtol=0.1)
    cast.float().square().sum().backward()
    learned = [weight.grad for weight in encoder.parameters() if weight.grad is not None]
    assert learned
    assert all(each.dtype is torch.float32 for each in learned)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 16), nn.LayerNorm(16))
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens: torch.Tensor, marks: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.layers(self.words(tokens) + marks)
        return made


@needs_gpu
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_replayed_training_equals_plain_training(precision):
    """Several shapes, two micro-batches a step, gradients of inputs, an optimiser that changes the weights in place."""
    losses, weights = [], []
    for recorded in (False, True):
        torch.manual_seed(0)
        net = _Net().cuda()
        replay = Replay(net) if recorded else lambda function, *inputs: function(*inputs)
        marks = nn.Parameter(torch.randn(16, device="cuda"))
        optimiser = torch.optim.AdamW([*net.parameters(), marks], lr=1e-2, fused=True)
        seen = []
        for step in range(12):
            for rows in (4, 8 if step % 3 else 6):
                tokens = torch.arange(rows * 5, device="cuda").view(rows, 5).remainder(50).add(step).remainder(50)
                with torch.autocast("cuda", precision or torch.bfloat16, enabled=precision is not None):
                    made = replay(net, tokens, marks.expand(rows, 5, 16))
                loss = (made.float() * torch.linspace(-1, 1, 16, device="cuda")).tanh().sum()
                loss.backward()
                seen.append(loss.detach())
                with torch.no_grad():
                    seen.append(replay(net, tokens, marks.expand(rows, 5, 16)).float().sum())
            optimiser.step()
            optimiser.zero_grad()
        losses.append(torch.stack(seen))
        weights.append([weight.detach() for weight in (*net.parameters(), marks)])
        if recorded:
            assert len(replay._recordings) == 6  # three shapes, trained and scored
            assert net.unused.weight.grad is None
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if precision is None else {"atol": 2e-2, "rtol": 2e-2}
    torch.testing.assert_close(*losses, **tolerance)
    torch.testing.assert_close(*weights, **tolerance)


@needs_gpu
def test_a_pass_that_waits_for_its_gradient_is_not_overwritten():
    torch.manual_seed(0)
    net = _Net().cuda()
    replay = Replay(net)
    marks = torch.zeros(4, 5, 16, device="cuda")
    batches = [torch.randint(0, 50, (4, 5), device="cuda") for _ in range(11)]  # more than there are places

    def gradients(call):
        net.zero_grad()
        sum(call(net, each, marks).tanh().sum() * (place + 1) for place, each in enumerate(batches)).backward()
        return [weight.grad.clone() for weight in net.layers.parameters()]

    plain = gradients(lambda function, *inputs: function(*inputs))
    for _ in range(3):
        torch.testing.assert_close(gradients(replay), plain, atol=1e-5, rtol=1e-5)
    assert len(replay._recordings) == 8


@needs_gpu
def test_without_memory_for_recordings_calls_are_plain(monkeypatch):
    net = _Net().cuda()
    replay = Replay(net)
    tokens, marks = torch.randint(0, 50, (4, 5), device="cuda"), torch.zeros(4, 5, 16, device="cuda")

    def no_memory(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(replay, "_record", no_memory)
    made = [replay(net, tokens, marks).detach() for _ in range(4)]
    assert not replay._recordings
    torch.testing.assert_close(made[3], net(tokens, marks).detach(), atol=1e-6, rtol=0)


@needs_gpu
def test_dropout_is_drawn_anew_at_each_replay():
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda()
    replay = Replay(net)
    inputs = torch.randn(4, 8, device="cuda")
    made = [replay(net, inputs).detach().clone() for _ in range(5)]
    assert replay._recordings
    assert not torch.equal(made[3], made[4])


def _data(root: Path, task: str) -> Path:
    if task == "sql":
        return write_data(root)
    for split, amount in (("train", 6), ("dev", 1)):
        if task == "reading":
            write_reading_benchmark(root / split, seed=1, documents=amount, questions=6, split=split)
        else:
            write_discrete_benchmark(root / split, 1, amount, 6, 0.5, split)
    {"reading": search_reading, "discrete": search_discrete}[task](root / "train/examples.jsonl", root / "solutions")
    return root


@needs_gpu
@pytest.mark.parametrize(
    ("task", "candidates", "solver"),
    [("sql", 0, "slots"), ("sql", 5, "slots"), ("sql", 0, "text"), ("reading", 0, "slots"), ("discrete", 0, "slots")],
)
def test_a_run_with_graphs_is_a_run_without(tmp_path, task, candidates, solver):
    data, losses = _data(tmp_path / "data", task), []
    for graphs in (False, True):
        made = recipe(
            data,
            "mimax",
            data={"task": task, "max_solutions": 200},
            objective={"options": {"switch": 2.0, "candidates": candidates}},
            solver={"dropout": 0.0, "kind": solver},
            reconstructor={"dropout": 0.0},
            train={"graphs": graphs, "precision": "fp32", "encoder_rate": 1e-4, "head_rate": 1e-4, "budget": 40_000},
        )
        run = train(made, tmp_path / f"{graphs}")
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        losses.append([[each["loss"], each.get("reconstructor_loss", 0.0)] for each in lines if "loss" in each])
    assert len(losses[0]) > 12
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), atol=1e-2, rtol=1e-3)


def test_rows_are_pieces_and_padding_that_follow_each_other():
    assert row_ends(torch.tensor([3, 5, 0]), 5).tolist() == [0, 3, 5, 10, 10, 10, 15]


@needs_gpu
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 2e-3), (torch.bfloat16, 3e-2)])
def test_attention_by_rows_equals_attention_with_a_mask(precision, tolerance):
    torch.manual_seed(0)
    counts = torch.tensor([40, 1, 0, 33, 17], device="cuda")
    there = torch.arange(40, device="cuda") < counts[:, None]
    states = [torch.randn(5, 40, 4, 32, device="cuda", dtype=precision, requires_grad=True) for _ in range(3)]
    weights = torch.randn(5, 40, 4, 32, device="cuda", dtype=precision) * there[..., None, None]
    made, gradients = [], []
    for rows in (False, True):
        if rows:
            output = by_rows(*states, row_ends(counts, 40))
        else:
            mask = there[:, None, None] | ~there.any(1)[:, None, None, None]
            output = functional.scaled_dot_product_attention(*(each.transpose(1, 2) for each in states), attn_mask=mask)
            output = output.transpose(1, 2)
        made.append(output[there].float())
        gradients.append(torch.autograd.grad((output * weights).sum(), states))
    torch.testing.assert_close(*made, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(*gradients, atol=tolerance, rtol=tolerance)


@needs_gpu
def test_recordings_that_are_forgotten_give_their_memory_back_and_half_as_many_are_made_anew():
    torch.manual_seed(0)
    net = _Net().cuda()
    replay = Replay(net)
    inputs = [
        (torch.randint(0, 50, (rows, 4096), device="cuda"), torch.randn(rows, 4096, 16, device="cuda"))
        for rows in (32, 64)
    ]

    def trained() -> list[float]:
        net.zero_grad()
        for each in inputs:
            replay(net.forward, *each).square().sum().backward()
        return [float(weight.grad.sum()) for weight in net.parameters() if weight.grad is not None]

    plain = trained()
    recorded = [trained() for _ in range(2)][1]
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    assert replay.forget()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < before
    again = [trained() for _ in range(3)][2]
    assert len(replay._recordings) == 1
    assert recorded == pytest.approx(plain, rel=1e-3)
    assert again == pytest.approx(plain, rel=1e-3)


@needs_gpu
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_an_encoder_reads_the_same_by_rows(precision):
    torch.manual_seed(0)
    encoder = scratch_encoder(Scratch(dropout=0.0), ["a few words to read"])[0].cuda()
    pieces = torch.randint(5, 20, (5, 13), device="cuda")
    counts, questions = (torch.tensor(each, device="cuda") for each in ([13, 1, 7, 5, 2], [3, 0, 2, 2, 0]))
    read, gradients = [], []
    for rows in (False, True):
        if rows:
            encoder.attend_by_rows()
            assert encoder._by_rows
        with torch.autocast("cuda", precision or torch.bfloat16, enabled=precision is not None):
            states = encoder(pieces, counts, questions)
        read.append(states[torch.arange(13, device="cuda") < counts[:, None]].float())
        weights = [weight for name, weight in encoder.named_parameters() if "query" in name]
        gradients.append(torch.autograd.grad(read[-1].tanh().sum(), weights))
    tolerance = 2e-3 if precision is None else 5e-2
    torch.testing.assert_close(*read, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(*gradients, atol=tolerance, rtol=tolerance)
