"""Checkpoints hold everything, are whole or not there, and say so when they are damaged."""

from __future__ import annotations

import json
import multiprocessing
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from bonafide.errors import BonafideError
from bonafide.learn import checkpoint
from bonafide.learn.checkpoint import Trained, checkpoints, keep_only, load_checkpoint, save_checkpoint
from bonafide.learn.recipe import Recipe
from bonafide.learn.trainer import train
from bonafide.sealed import read_sealed, write_sealed
from command_line import contents
from tiny_runs import recipe, train_and_be_killed, weights, write_data

torch.set_num_threads(1)


def trained(seed: int, steps: int = 3) -> Trained:
    """Two modules of which one was trained, with what their optimisers remember."""
    torch.manual_seed(seed)
    modules = {"solver": nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)), "other": nn.Linear(2, 2)}
    optimisers = {name: torch.optim.AdamW(module.parameters(), lr=0.1) for name, module in modules.items()}
    made = Trained(modules, optimisers)
    for _ in range(steps):
        advance(made)
    return made


def advance(made: Trained) -> None:
    made.modules["solver"](torch.ones(5, 3)).square().sum().backward()
    made.optimisers["solver"].step()
    made.optimisers["solver"].zero_grad()


def values(made: Trained) -> dict[str, list[float]]:
    return {
        f"{name}.{key}": value.flatten().tolist()
        for name, module in made.modules.items()
        for key, value in module.state_dict().items()
    }


def test_what_was_saved_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    first = trained(seed=0)
    state = {"step": 7, "best": {"figure": 0.1 + 0.2}, "objective": {"used": [True, False]}}
    path = save_checkpoint(tmp_path, first, state)
    advance(first)  # draws dropout, and moves by what the optimiser remembers
    other = trained(seed=1, steps=0)
    held = load_checkpoint(path, other)
    assert {key: held[key] for key in state} == state
    advance(other)
    assert values(other) == values(first)


def test_loading_restores_the_random_state(tmp_path: Path) -> None:
    made = trained(seed=0)
    path = save_checkpoint(tmp_path, made, {"step": 1})
    expected = torch.rand(4).tolist()
    torch.rand(100)
    load_checkpoint(path, made)
    assert torch.rand(4).tolist() == expected


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save_checkpoint(tmp_path, trained(seed=0), {"step": 7})


def cut_short(path: Path) -> None:
    tensors = path / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-40])


def emptied(path: Path) -> None:
    (path / "tensors.safetensors").write_bytes(b"")


def flipped(path: Path) -> None:
    data = bytearray((path / "tensors.safetensors").read_bytes())
    data[-20] ^= 1
    (path / "tensors.safetensors").write_bytes(data)


def without_tensors(path: Path) -> None:
    (path / "tensors.safetensors").unlink()


def cut_state(path: Path) -> None:
    (path / "state.json").write_bytes((path / "state.json").read_bytes()[:-10])


def flipped_state(path: Path) -> None:
    (path / "state.json").write_text((path / "state.json").read_text().replace('"step": 7', '"step": 5'))


def other_format(path: Path) -> None:
    write_sealed(path / "state.json", {**read_sealed(path / "state.json"), "format": 99})


def no_checksum(path: Path) -> None:
    (path / "state.json").write_text(json.dumps({"step": 7, "format": checkpoint.FORMAT}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_short, "is damaged"),
        (emptied, "is damaged"),
        (flipped, "is damaged"),
        (without_tensors, "no such file"),
        (cut_state, "expected JSON"),
        (flipped_state, "is damaged"),
        (other_format, "format 99"),
        (no_checksum, "is damaged"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_changes_nothing(
    path: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(path)
    made = trained(seed=1)
    before = values(made)
    with pytest.raises(BonafideError, match=said) as caught:
        load_checkpoint(path, made)
    assert str(path) in str(caught.value)
    assert values(made) == before


def test_a_checkpoint_of_other_models_is_refused(path: Path) -> None:
    other = Trained({"solver": nn.Linear(3, 3), "other": nn.Linear(2, 2)}, {})
    with pytest.raises(BonafideError, match="does not fit the solver of this run"):
        load_checkpoint(path, other)


def test_only_whole_checkpoints_are_seen_oldest_first(tmp_path: Path) -> None:
    made = trained(seed=0)
    paths = [save_checkpoint(tmp_path, made, {"step": step}) for step in (900, 1000, 20)]
    (tmp_path / "step-00002000").mkdir()
    (tmp_path / ".step-00003000.part").mkdir()
    assert checkpoints(tmp_path) == [paths[2], paths[0], paths[1]]


def test_keep_only_deletes_the_others_and_what_a_kill_left(tmp_path: Path) -> None:
    made = trained(seed=0)
    paths = [save_checkpoint(tmp_path, made, {"step": step}) for step in (1, 2, 3)]
    (tmp_path / ".step-00000004.part").mkdir()
    (tmp_path / "step-00000005").mkdir()
    keep_only(tmp_path, {paths[0], paths[2]})
    assert sorted(tmp_path.iterdir()) == [paths[0], paths[2]]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, trained(seed=0), {"step": 1, "word": "old"})
    path = save_checkpoint(tmp_path, trained(seed=1), {"step": 1, "word": "new"})
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert load_checkpoint(path, trained(seed=0))["word"] == "new"


def test_a_checkpoint_that_could_not_be_given_its_name_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, trained(seed=0), {"step": 1})
    before = contents(tmp_path)

    def fail(part: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "replace_folder", fail)
    with pytest.raises(BonafideError, match="the disk is full"):
        save_checkpoint(tmp_path, trained(seed=1), {"step": 2})
    assert contents(tmp_path) == before


# --- A full disk --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def train_on_a_full_disk(made: Recipe, out: Path, limit: int, answer: Path) -> None:
    """For a process of its own: go on, with no room for files of more than ``limit`` bytes."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        train(made, out, resume=True)
    except BonafideError as error:
        answer.write_text(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20_000, 200_000])
def test_a_full_disk_says_so_and_the_checkpoint_before_it_is_unharmed(data: Path, tmp_path: Path, limit: int) -> None:
    """The larger limit has room for the model but not for the checkpoint."""
    made, out = recipe(data, "mml"), tmp_path / "run"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bonafide.learn.trainer"])
    killed = context.Process(target=train_and_be_killed, args=(made, out, 6))
    killed.start()
    killed.join(60)
    before = contents(out / "checkpoints")
    filling = context.Process(target=train_on_a_full_disk, args=(made, out, limit, tmp_path / "said"))
    filling.start()
    filling.join(60)
    assert before
    assert contents(out / "checkpoints") == before
    said = (tmp_path / "said").read_text()
    assert "Cannot write" in said
    assert "the disk is full" in said
    train(made, out, resume=True)
    train(made, tmp_path / "reference")
    assert weights(out) == weights(tmp_path / "reference")


def test_a_torn_last_line_of_the_log_does_not_keep_a_run_from_going_on(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "mml")
    train(made, tmp_path / "run")
    whole = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"step": 25, "lo')
    train(made, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == whole
