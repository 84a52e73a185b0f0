"""What a run keeps is written while it trains on: as it was when it was asked for, in order, and no error is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from bonafide.errors import BonafideError
from bonafide.learn import checkpoint
from bonafide.learn.checkpoint import Trained, checkpoint_writer, checkpoints, load_checkpoint
from bonafide.learn.saved import load, model_writer
from bonafide.learn.saving import Saving
from bonafide.learn.steps import Progress
from bonafide.learn.tensors import Copied, copied, read_tensors, write_tensors
from bonafide.learn.trainer import train
from bonafide.sealed import read_sealed
from tiny_runs import recipe, weights, write_data

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def test_what_is_written_is_what_was_there_when_it_was_asked_for(tmp_path: Path) -> None:
    module = nn.Linear(2, 2)
    before = module.weight.detach().clone()
    sums = [1.0]
    write = checkpoint_writer(tmp_path, Trained({"solver": module}, {}), {"step": 3, "sums": sums})
    nn.init.zeros_(module.weight)
    sums[0] = 2.0
    other = nn.Linear(2, 2)
    state = load_checkpoint(write(), Trained({"solver": other}, {}))
    assert torch.equal(other.weight, before)
    assert state["sums"] == [1.0]


def test_safetensors_reads_every_kind_of_tensor_as_it_was(tmp_path: Path) -> None:
    whole = torch.arange(24).view(4, 6)
    tensors = {
        "b": whole.float().t(),  # not contiguous
        "a/long": whole,
        "bits": torch.tensor([True, False, True]),
        "brain": whole.to(torch.bfloat16)[:, 1:3],
        "half": torch.tensor([0.5, -torch.inf], dtype=torch.float16),
        "double": torch.tensor(torch.pi, dtype=torch.float64),  # of no dimension
        "é": torch.zeros(0, 3),
        "state": torch.get_rng_state(),
    }
    write_tensors(tmp_path / "file", copied(tensors))
    found = read_tensors(tmp_path / "file")
    assert {name: (each.dtype, each.tolist()) for name, each in found.items()} == {
        name: (each.dtype, each.tolist()) for name, each in tensors.items()
    }


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_are_copied_before_what_is_asked_of_it_next(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(4000, 4000, device="cuda"), "b": torch.arange(3), "c": torch.ones((), device="cuda")}
    before = {name: each.clone().cpu() for name, each in tensors.items()}
    made = copied(tensors)
    for each in tensors.values():
        each.zero_()
    write_tensors(tmp_path / "file", made)
    found = read_tensors(tmp_path / "file")
    assert all(torch.equal(found[name], each) for name, each in before.items())


def test_a_model_is_written_as_it_was_when_it_was_asked_for(data: Path, tmp_path: Path) -> None:
    train(recipe(data, "mimax", train={"epochs": 0.2}), tmp_path / "run")
    model = load(tmp_path / "run")
    before = {name: value.clone() for name, value in model.solver.state_dict().items()}
    write = model_writer(tmp_path / "model", model)
    with torch.no_grad():
        for weight in model.solver.parameters():
            weight.zero_()
    write()
    again = load(tmp_path / "model").solver.state_dict()
    assert all(torch.equal(again[name], value) for name, value in before.items())


def test_writings_follow_each_other_and_training_waits_only_for_the_one_before_the_last() -> None:
    done: list[int] = []
    go = threading.Event()

    def first() -> None:
        go.wait(20)
        done.append(1)

    with Saving() as saving:
        saving.add(lambda: first)
        saving.add(lambda: lambda: done.append(2))
        assert done == []  # they are under way, and we are not held up
        threading.Timer(0.1, go.set).start()
        saving.add(lambda: done.append(-1) or (lambda: done.append(3)))
        assert done[0] == 1  # two can wait: no more copies are held
        saving.wait()
    assert [each for each in done if each > 0] == [1, 2, 3]


def _fail() -> None:
    raise BonafideError("No space left.")


def saved(*writings: Callable[[], None], fails: bool = False) -> None:
    """Ask for these writings one after the other; then, perhaps, something else goes wrong."""
    with Saving() as saving:
        for each in writings:
            saving.add(lambda each=each: each)
        if fails:
            raise ZeroDivisionError


def test_what_goes_wrong_is_raised_by_the_next_writing_or_at_the_end() -> None:
    done: list[int] = []
    with pytest.raises(BonafideError, match="No space left"):
        saved(_fail, lambda: done.append(2), lambda: done.append(3))
    assert done == []  # nothing is written after what failed
    with pytest.raises(BonafideError, match="No space left"):
        saved(_fail)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[x] DefaultCPUAllocator: can't allocate memory: you")])
@pytest.mark.parametrize("which", [1, 2, 3])
def test_what_found_no_memory_beside_training_is_written_when_training_waits_and_in_its_turn(
    error: Exception, which: int
) -> None:
    done: list[int] = []
    short = {which: error}

    def written(number: int) -> None:
        if number in short:
            raise short.pop(number)
        done.append(number)

    saved(*(partial(written, number) for number in (1, 2, 3)))
    assert not short
    assert done == [1, 2, 3]


def test_where_no_thread_can_be_started_training_waits_for_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[int, bool]] = []

    def written(number: int) -> None:
        done.append((number, threading.current_thread() is threading.main_thread()))

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Saving() as saving:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            for number in (1, 2):
                saving.add(lambda number=number: partial(written, number))
            assert done == [(1, True), (2, True)]
        saving.add(lambda: partial(written, 3))  # there is room for one again
    assert done == [(1, True), (2, True), (3, False)]


def test_what_finds_no_memory_twice_is_raised_and_nothing_is_written_after_it() -> None:
    done: list[int] = []

    def never() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        saved(never, lambda: done.append(2))
    assert done == []


def test_where_training_fails_that_is_the_error_and_what_was_begun_is_brought_to_its_end() -> None:
    done: list[int] = []
    go = threading.Event()

    def slow() -> None:
        go.wait(20)
        done.append(1)
        _fail()

    threading.Timer(0.1, go.set).start()
    with pytest.raises(ZeroDivisionError):
        saved(slow, fails=True)
    assert done == [1]


def test_a_run_ends_with_the_error_of_a_checkpoint_that_could_not_be_written_and_goes_on_later(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recipe(data, "mimax")
    train(whole, tmp_path / "whole")
    write, count = checkpoint.write_tensors, 0

    def full(path: Path, tensors: Copied) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise BonafideError(f"Cannot write {path}: No space left on device.")
        write(path, tensors)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_tensors", full)
        with pytest.raises(BonafideError, match=r"tensors.safetensors: No space left"):
            train(whole, tmp_path / "run")
    assert checkpoints(tmp_path / "run" / "checkpoints")
    assert not [*(tmp_path / "run").rglob(".*.part")]
    train(whole, tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


def test_a_run_that_goes_on_may_save_and_log_at_other_times_and_comes_to_the_same_weights(
    data: Path, tmp_path: Path
) -> None:
    train(recipe(data, "mimax"), tmp_path / "whole")

    def stop(progress: Progress) -> None:
        if progress.step == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe(data, "mimax"), tmp_path / "run", watcher=stop)
    often = recipe(data, "mimax", train={"checkpoint_every": 5, "log_every": 2})
    train(often, tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    assert read_sealed(tmp_path / "run" / "recipe.json")["train"]["checkpoint_every"] == 5
    with pytest.raises(BonafideError, match=r"other settings in \[train\]: batch\."):
        train(recipe(data, "mimax", train={"batch": 4}), tmp_path / "run", resume=True)
