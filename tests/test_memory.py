"""Memory stays in bounds however large Z is, and where it runs out a step is done again in smaller pieces."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import multiprocessing
import resource
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bonafide.errors import BonafideError, out_of_memory
from bonafide.learn import cutting, explaining
from bonafide.learn import memory as running_out
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.data import load_training_data
from bonafide.learn.memory import Room
from bonafide.learn.methods import build_objective
from bonafide.learn.microbatch import MicroBatch, Models, Prepared, divided
from bonafide.learn.objective import Moment
from bonafide.learn.parts import cut
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.tensors import read_tensors
from bonafide.learn.trainer import Trainer
from bonafide.tasks.discrete.passage import Passage
from by_path import module_at
from test_discrete_solver import PASSAGE, QUESTION, tiny_solver, whole_language
from tiny_runs import recipe, settings, write_data

torch.set_num_threads(1)

QUIET: dict[str, dict[str, Any]] = {"solver": {"dropout": 0.0}, "reconstructor": {"dropout": 0.0}}
WRITER = {"kind": "text", "encoder": "scratch", "layers": 1, "width": 16, "heads": 2, "dropout": 0.0}
memory = module_at("benchmarks/memory.py")
OPTIONS: dict[str, dict[str, Any]] = {
    "mimax": {"switch": -1.0},
    "vae": {"first_stage": 0, "second_stage": 0, "samples": 2},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One question about one row: 140,000 queries select it."""
    root = tmp_path_factory.mktemp("large")
    memory.write_data(root)
    return root


def large_recipe(root: Path, method: str, solutions: int, budget: int, **solver: Any) -> Recipe:
    values = settings(root, method, **QUIET)
    values["data"] |= {"max_solutions": solutions, "dev": ""}
    values["objective"]["options"] = OPTIONS.get(method, {})
    values["solver"] |= solver
    values["reconstructor"] |= {"width": 16}
    values["train"] |= {"batch": 1, "budget": budget, "epochs": 1.0}
    return recipe_from(values, "a test")


def trainer_of(made: Recipe, out: Path) -> Trainer:
    return Trainer(made, load_training_data(made, out), RunFolder(out, made))


@contextmanager
def in_folder(made: Recipe, out: Path, resume: bool = False) -> Iterator[Trainer]:
    with RunFolder.open(out, made, resume) as folder:
        yield Trainer(made, load_training_data(made, out), folder)


def peak_of_a_step(trainer: Trainer) -> float:
    """MiB that a step takes at most, of this process, besides what was held before."""
    trainer._board = None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before would be taken again unseen
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    allowed = trainer._filter(Moment(0, 1)) if trainer.recipe.objective.method == "hard-em-thres" else None
    losses = trainer._step(Moment(0, 1), allowed).losses
    assert losses.isfinite().all()
    assert losses.abs().sum() > 0
    return _status("VmHWM") - before


def _status(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("method", ["mml", "hard-em", "hard-em-thres", "vae"])
def test_a_hundred_thousand_solutions_of_one_example_train(large: Path, tmp_path: Path, method: str) -> None:
    trainer = trainer_of(large_recipe(large, method, 100_000, 400_000), tmp_path)
    assert trainer.items[0].size == 100_000
    assert peak_of_a_step(trainer) < 120  # 0.4 KB a solution would be 40


@pytest.mark.parametrize("solutions", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_the_reconstructor_scores_all_of_them_in_bounded_memory(large: Path, tmp_path: Path, solutions: int) -> None:
    trainer = trainer_of(large_recipe(large, "mimax", solutions, 400_000), tmp_path)
    assert peak_of_a_step(trainer) < 300  # put together at once, 100,000 are some gigabytes


def test_a_solver_that_writes_does_not_grow_with_z(large: Path, tmp_path: Path) -> None:
    """At most the budget at a time; at once, the peak is some times that."""
    peaks = {}
    for solutions, budget in ((2_000, 5_000), (2_001, 10**9)):
        trainer = trainer_of(large_recipe(large, "mml", solutions, budget, **WRITER), tmp_path)
        peak_of_a_step(trainer)  # what is allocated once
        peaks[solutions] = peak_of_a_step(trainer)
    assert peaks[2_000] < 0.5 * peaks[2_001]


@pytest.mark.parametrize("method", ["mml", "hard-em", "mimax", "vae"])
def test_parts_of_z_give_the_values_and_gradients_of_all_of_it(large: Path, tmp_path: Path, method: str) -> None:
    trainer = trainer_of(large_recipe(large, method, 120, 10**9, **WRITER), tmp_path)
    for module in trainer.modules.values():
        module.double()
    objective = build_objective(method, OPTIONS.get(method, {}))
    rooms = (Room(10**9), Room(200, reduced=True))
    assert [len(divided(trainer.items, room)) > 5 for room in rooms] == [False, True]
    whole, parts = (_gradients(trainer, objective, room) for room in rooms)
    assert whole.keys() == parts.keys()
    assert any(gradient.abs().max() > 1e-3 for gradient in whole.values())
    for name, gradient in whole.items():
        torch.testing.assert_close(gradient, parts[name], atol=1e-9, rtol=1e-9)


def test_parts_of_z_are_exact_for_programs_too() -> None:
    solver = tiny_solver()
    features = solver.features(QUESTION, Passage(PASSAGE), programs := whole_language(QUESTION, PASSAGE))
    item = Prepared("e", features, (), np.zeros(len(programs), np.int64))
    models = Models(solver, None, torch.device("cpu"), nullcontext)
    found = []
    for room in (Room(10**9), Room(500, reduced=True)):
        solver.zero_grad()
        batch = MicroBatch([item], models, Moment(0, 1), 0, room=room)
        scores = batch.solver_training_scores()
        (scores.exp() * torch.arange(len(scores)) / len(scores)).sum().backward()
        torch.testing.assert_close(batch.solver_scores(), scores.float())
        found.append((scores.detach(), [weight.grad.clone() for weight in solver.parameters()]))
    assert len(divided([item], Room(500))) > 5
    torch.testing.assert_close(*found, atol=1e-9, rtol=1e-9)


def _gradients(trainer: Trainer, objective: Any, room: Room) -> dict[str, Tensor]:
    for module in trainer.modules.values():
        module.zero_grad()
    batch = MicroBatch(trainer.items, trainer.models, Moment(0, 1), 0, room=room)
    outcome = objective.step(batch, Moment(0, 1))
    found = {}
    for name, loss in (("solver", outcome.solver_loss), ("reconstructor", outcome.reconstructor_loss)):
        if loss is not None:
            loss.backward()
            found[f"loss of the {name}"] = loss.detach()
    for name, module in trainer.modules.items():
        weights = module.named_parameters()
        found |= {f"{name}.{key}": weight.grad.clone() for key, weight in weights if weight.grad is not None}
    return found


def test_parts_have_the_same_dropout_when_they_are_computed_again(large: Path, tmp_path: Path) -> None:
    """The scores that a loss is made of are those that its gradient is of: a step along it lowers them as it says."""
    solver = {**WRITER, "dropout": 0.3}
    trainer = trainer_of(large_recipe(large, "mml", 60, 10**9, **solver), tmp_path)
    trainer.solver.double()
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        trainer.solver.zero_grad()
        batch = MicroBatch(trainer.items, trainer.models, Moment(0, 1), 0, room=Room(100, reduced=True))
        scores = batch.solver_training_scores()
        torch.rand(3)  # what came between does not come again
        before = torch.get_rng_state()
        scores.logsumexp(0).backward()
        assert torch.equal(torch.get_rng_state(), before)
        found.append(scores.detach())
    weight = next(iter(trainer.solver.parameters()))
    assert weight.grad is not None
    step = 1e-3 * weight.grad / weight.grad.norm()
    with torch.no_grad():
        weight += step
    torch.manual_seed(3)
    moved = MicroBatch(trainer.items, trainer.models, Moment(0, 1), 0, room=Room(100, reduced=True))
    after = moved.solver_training_scores().detach().logsumexp(0)
    expected = (weight.grad * step).sum().float()
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)
    torch.testing.assert_close(after - found[0].logsumexp(0), expected, rtol=0.02, atol=0)


def test_the_reconstructor_scores_parts_as_it_scores_all(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(recipe(data, "mimax", **QUIET), tmp_path)
    whole = MicroBatch(trainer.items[:7], trainer.models, Moment(0, 1), 0).reconstructor_scores()
    monkeypatch.setitem(explaining._EXPLAINED_AT_ONCE, "cpu", 300)
    batch = MicroBatch(trainer.items[:7], trainer.models, Moment(0, 1), 0)
    torch.testing.assert_close(batch.reconstructor_scores(), whole, atol=1e-4, rtol=1e-5)
    assert explaining.explained(trainer.items[:7], trainer.models, 0, Moment(0, 1), 0, Room(1)) is None


def test_runs_hold_all_and_cost_no_more_than_they_may() -> None:
    costs = torch.tensor([3, 1, 9, 2, 2, 2, 7]).numpy()
    assert cut(costs, 5) == [(0, 2), (2, 3), (3, 5), (5, 6), (6, 7)]
    assert cut(costs[:0], 5) == []


def fail_on_more_than(trainer: Trainer, examples: int, from_step: int = 0, to_step: int = 10**9) -> list[int]:
    """Let the machine's own allocator fail where the solver is to read more examples; returns the sizes that failed."""
    failed: list[int] = []

    def ask_for_too_much(_: Any, arguments: tuple[Any, ...]) -> None:
        size = len(arguments[0])
        if trainer.solver.training and from_step <= trainer.step < to_step and size > examples:
            failed.append(size)
            torch.empty(1 << 50)

    trainer.solver.register_forward_pre_hook(ask_for_too_much)
    return failed


def weights(out: Path) -> dict[str, Tensor]:
    found = read_tensors(checkpoints(out / "checkpoints")[-1] / "tensors.safetensors")
    return {name: each for name, each in found.items() if not name.startswith(("optimiser", "random"))}


def assert_near(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], atol=1e-5, rtol=0)
    assert (one / "selections.jsonl").read_text() == (other / "selections.jsonl").read_text()


def slow(data: Path, method: str, **changed: Any) -> Recipe:
    """Rates at which rounding does not grow."""
    train = settings(data, method)["train"] | {"encoder_rate": 1e-3, "head_rate": 1e-3, "epochs": 1.0, **changed}
    return recipe(data, method, **QUIET, train=train)


@pytest.mark.parametrize("method", ["mml", "hard-em-thres", "mimax"])
def test_out_of_memory_ends_at_the_same_weights(
    data: Path, tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = slow(data, method, budget=100_000)
    with in_folder(made, tmp_path / "whole") as trainer:
        trainer.run()
    with in_folder(made, tmp_path / "short") as trainer, caplog.at_level(logging.WARNING):
        failed = fail_on_more_than(trainer, examples=3, from_step=2)
        trainer.run()
        budget = trainer.room.budget
    assert failed
    assert "Memory ran out in step 3" in caplog.text
    events = [entry for entry in RunFolder(tmp_path / "short", made).metrics() if "out_of_memory" in entry]
    assert len(events) == len(failed)
    assert events[-1]["budget"] == budget < made.train.budget
    assert "can't allocate memory" in events[0]["out_of_memory"]
    with in_folder(replace(made, train=replace(made.train, budget=budget)), tmp_path / "small") as trainer:
        trainer.run()
    assert_near(tmp_path / "short", tmp_path / "whole")
    assert_near(tmp_path / "short", tmp_path / "small")
    figures = [_figures(tmp_path / name) for name in ("short", "whole")]
    assert figures[0] == pytest.approx(figures[1], rel=1e-3)


def test_recordings_go_before_micro_batches_are_made_smaller(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = slow(data, "mimax", budget=100_000)
    with in_folder(made, tmp_path / "whole") as trainer:
        trainer.run()
    with in_folder(made, tmp_path / "short") as trainer:
        held = [2, 1]  # so often have encoder and reconstructor recordings to let go

        def forget(place: int) -> bool:
            held[place] -= 1
            return held[place] >= 0

        monkeypatch.setattr(trainer.solver.encoder, "forget_recordings", lambda: forget(0))
        monkeypatch.setattr(trainer.reconstructor, "forget_recordings", lambda: forget(1))
        failed = fail_on_more_than(trainer, examples=3, to_step=1)
        trainer.run()
    events = [entry for entry in RunFolder(tmp_path / "short", made).metrics() if "out_of_memory" in entry]
    assert len(events) == len(failed)
    assert [entry["budget"] == made.train.budget for entry in events[:3]] == [True, True, False]
    assert_near(tmp_path / "short", tmp_path / "whole")


def test_when_memory_is_there_again_it_is_used(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = slow(data, "mml", budget=100_000)
    with in_folder(made, tmp_path / "whole") as trainer:
        trainer.run()
    monkeypatch.setattr(cutting, "_PATIENCE", 1)
    with in_folder(made, tmp_path / "short") as trainer:
        failed, budgets = fail_on_more_than(trainer, examples=3, to_step=2), []
        trainer._watcher = lambda progress: budgets.append(trainer.room.budget)
        trainer.run()
        grown = trainer.room
    assert failed
    assert budgets[0] < budgets[-1] == grown.budget
    assert_near(tmp_path / "short", tmp_path / "whole")


def test_a_larger_room_ends_at_what_was_asked_for() -> None:
    assert Room(100, reduced=True).larger(1_000) == Room(200, reduced=True)
    assert Room(600, reduced=True).larger(1_000) == Room(1_000)


def _figures(out: Path) -> dict[str, float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return next(entry["evaluation"] for entry in reversed(lines) if "evaluation" in entry)


def test_with_dropout_the_examples_and_draws_stay_the_same(data: Path, tmp_path: Path) -> None:
    """What was half done leaves no trace: neither in the random streams nor in the sums that are logged."""
    made = recipe(data, "mimax", train=settings(data, "mimax")["train"] | {"budget": 100_000, "epochs": 1.0})
    seen = {}
    for name in ("whole", "short"):
        with in_folder(made, tmp_path / name) as trainer:
            if name == "short":
                fail_on_more_than(trainer, examples=3)
            seen[name] = [trainer._order.of(step) for step in range(trainer.steps)]
            trainer.run()
            assert sum(trainer.monitor._sums["entropy"][1:]) == 0  # taken at the last evaluation
    assert seen["short"] == seen["whole"]
    logs = [RunFolder(tmp_path / name, made).metrics() for name in ("whole", "short")]
    counts = [[entry["candidates"] for entry in log if "candidates" in entry] for log in logs]
    assert counts[0] == counts[1]


def test_the_smaller_size_is_kept_by_a_run_that_is_resumed(data: Path, tmp_path: Path) -> None:
    made = slow(data, "mml", budget=100_000)
    with in_folder(made, tmp_path / "run") as trainer:
        failed = fail_on_more_than(trainer, examples=3)
        trainer.steps = 4
        trainer.run()
    assert failed
    with in_folder(made, tmp_path / "run", resume=True) as trainer:
        failed = fail_on_more_than(trainer, examples=3)
        trainer.run()
        assert trainer.room.reduced
    assert not failed


def test_a_resumed_run_tries_more_when_the_whole_one_would_have() -> None:
    whole = cutting.Budget(1_000)
    whole.room, whole.pace = Room(100, reduced=True), [7, 60, 0]
    resumed = cutting.Budget(1_000)
    resumed.limit(whole.room.budget)
    resumed.pace = whole.pace
    for step in range(8, 70):
        assert resumed.grow(step) == whole.grow(step) == (step == 67)
        assert resumed.room == whole.room


def test_one_example_that_does_not_fit_is_named(data: Path, tmp_path: Path) -> None:
    with in_folder(slow(data, "mml"), tmp_path / "run") as trainer:
        fail_on_more_than(trainer, examples=0)
        with pytest.raises(BonafideError, match=r"one example alone: .*data\.max_solutions"):
            trainer.run()


def test_one_example_is_cut_along_its_solutions(large: Path, tmp_path: Path) -> None:
    """There is one example; the solver can be asked for some of its solutions at a time."""
    made = large_recipe(large, "mml", 200, 10**6, **WRITER)
    with in_folder(made, tmp_path / "whole") as trainer:
        trainer.run()
    with in_folder(made, tmp_path / "short") as trainer:
        trainer.solver.register_forward_pre_hook(_refuse_many_candidates)
        trainer.run()
        assert len(divided(trainer.items, trainer.room)) > 1
    assert_near(tmp_path / "short", tmp_path / "whole")


def _refuse_many_candidates(_: Any, arguments: tuple[Any, ...]) -> None:
    if len(arguments[0].reachable) > 50:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you"), True),
        (RuntimeError("not enough memory: you tried to allocate 8 bytes."), True),
        (RuntimeError("could not create a primitive"), True),
        (MemoryError(), True),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
        (ValueError("out of memory"), False),
    ],
)  # fmt: skip
def test_only_a_lack_of_memory_is_taken_for_one(error: Exception, is_memory: bool) -> None:
    assert out_of_memory(error) is is_memory


def test_another_error_is_not_swallowed(data: Path, tmp_path: Path) -> None:
    with in_folder(slow(data, "mml"), tmp_path / "run") as trainer:
        trainer.solver.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("shapes differ")))
        with pytest.raises(RuntimeError, match="shapes differ"):
            trainer.run()


def train_within(made: Recipe, out: Path, spare: int, told: bool) -> None:
    """For a process of its own: train with at most so many bytes more than it has before.

    The address space is limited from outside; or, if ``told``, the machine says that no more is free.
    """
    torch.set_num_threads(1)
    with in_folder(made, out) as trainer:
        if told:
            running_out._free = lambda: int(spare / running_out._SHARE)
        else:
            used = int(_status("VmSize") * 2**20)
            resource.setrlimit(resource.RLIMIT_AS, (used + spare, used + spare))
        trainer.run()
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize("told", [False, True])
def test_a_machine_without_enough_memory_ends_at_the_same_weights(large: Path, tmp_path: Path, told: bool) -> None:
    """Memory really runs out: at once the solutions do not fit, a part of them does."""
    made = large_recipe(large, "mml", 2_000, 10**6, **WRITER)
    with in_folder(made, tmp_path / "whole") as trainer:
        trainer.run()
    process = multiprocessing.get_context("spawn").Process(
        target=train_within, args=(made, tmp_path / "short", 256 * 2**20, told)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 0
    events = [entry for entry in RunFolder(tmp_path / "short", made).metrics() if "out_of_memory" in entry]
    assert events
    assert_near(tmp_path / "short", tmp_path / "whole")


@pytest.mark.parametrize(
    ("most", "used", "files", "free"),
    [("max", 10, 0, 1000 * 1024), ("600000", 200_000, 50_000, 450_000), ("100", 200, 0, 0), (None, 0, 0, 1000 * 1024)],
)
def test_what_is_free_is_the_machines_or_the_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: str | None, used: int, files: int, free: int
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  5000 kB\nMemAvailable:    1000 kB\n")
    if most is not None:
        (tmp_path / "memory.max").write_text(f"{most}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
        (tmp_path / "memory.stat").write_text(f"anon 7\ninactive_file {files}\n")
    monkeypatch.setattr(running_out, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(running_out, "_GROUP", tmp_path)
    assert running_out._free() == free
    (tmp_path / "meminfo").unlink()  # no Linux
    assert running_out._free() is None
    with running_out.machine_bound(torch.device("cpu")):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY
