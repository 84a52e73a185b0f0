"""Checkpoints: everything that training needs to go on to the same weights, as safetensors and JSON.

    checkpoints/
      step-00000400/
        tensors.safetensors    solver, reconstructor, both optimisers' moments, random states
        state.json             step, best figure, objective state, a checksum of the tensors

A checkpoint is written to a temporary folder and renamed when whole; kept are the last and the best. Nothing here
is pickled.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bonafide.errors import BonafideError
from bonafide.files import explained
from bonafide.learn.memory import said
from bonafide.learn.sharding import spread, whole
from bonafide.learn.tensors import copied, read_tensors, write_tensors
from bonafide.sealed import read_sealed, write_sealed

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Trained:
    """What a checkpoint holds, by name: modules and their optimisers."""

    modules: Mapping[str, nn.Module]
    optimisers: Mapping[str, torch.optim.Optimizer]


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is kept."""
    return folder / f"step-{step:08d}"


def save_checkpoint(folder: Path, trained: Trained, state: dict[str, Any]) -> Path:
    """Write a checkpoint for ``state["step"]``; whole or not at all."""
    return checkpoint_writer(folder, trained, state)()


def checkpoint_writer(folder: Path, trained: Trained, state: dict[str, Any]) -> Callable[[], Path]:
    """The same in two parts: what is to be written is copied now, and written when the result is called."""
    target = checkpoint_path(folder, state["step"])
    tensors, kept = copied(dict(_tensors(trained))), json.dumps(state)  # several times faster than to copy it

    def write() -> Path:
        part = folder / f".{target.name}.part"
        with explained(folder, "write"):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)
        try:
            with explained(part, "write"):
                part.mkdir()
            write_tensors(part / "tensors.safetensors", tensors)
            data = {**json.loads(kept), "format": FORMAT, "sha256": sha256(part / "tensors.safetensors")}
            write_sealed(part / "state.json", data)
            with explained(target, "write"):
                replace_folder(part, target)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return target

    return write


def take_part(trained: Trained) -> None:
    """In the other processes, while the first saves: what is sharded is put together by all."""
    for _ in _tensors(trained):
        pass


def load_checkpoint(path: Path, trained: Trained) -> dict[str, Any]:
    """Put everything back as it was, and return the state."""
    state = read_sealed(path / "state.json")
    if state.get("format") != FORMAT:
        raise BonafideError(f"{path} is a checkpoint of format {state.get('format')!r}; this version reads {FORMAT}.")
    if sha256(path / "tensors.safetensors") != state.get("sha256"):
        raise BonafideError(f"{path} is damaged: its tensors do not have the checksum that was written with them.")
    tensors = read_tensors(path / "tensors.safetensors")
    for name, module in trained.modules.items():
        prefix = f"{name}/"
        held = {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
        own = module.state_dict()
        held = {key: spread(value, own.get(key)) for key, value in held.items()}
        try:
            module.load_state_dict(held)
        except RuntimeError as error:
            raise BonafideError(f"{path} does not fit the {name} of this run: {str(error).splitlines()[0]}") from None
    try:
        for name, optimiser in trained.optimisers.items():
            _restore_optimiser(optimiser, tensors, f"optimiser.{name}/")
        torch.set_rng_state(tensors["random/cpu"])
        if torch.cuda.is_available() and "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"])
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise BonafideError(
            f"{path} does not fit the optimisers of this run ({type(error).__name__}: {said(error)}). "
            "Resume from another checkpoint, or train anew."
        ) from None
    return state


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    return sorted(each for each in folder.glob("step-*") if (each / "state.json").exists())


def keep_only(folder: Path, kept: set[Path]) -> None:
    """Delete the checkpoints that are not kept, and what a killed run left half-written."""
    for path in [*folder.glob("step-*"), *folder.glob(".step-*.part")]:
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def replace_folder(part: Path, target: Path) -> None:
    """Give a whole folder its name; what had the name is deleted only after that."""
    old = target.with_name(f".{target.name}.old.part")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    part.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _tensors(trained: Trained) -> Iterator[tuple[str, Tensor]]:
    """One after the other, each whole."""
    for name, module in trained.modules.items():
        for key, value in module.state_dict().items():
            yield f"{name}/{key}", whole(value)
    for name, optimiser in trained.optimisers.items():
        for index, values in optimiser.state_dict()["state"].items():
            for key, value in values.items():
                yield f"optimiser.{name}/{index}/{key}", whole(torch.as_tensor(value))
    yield "random/cpu", torch.get_rng_state()
    if torch.cuda.is_available():
        yield "random/cuda", torch.cuda.get_rng_state()


def _restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], prefix: str) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    for key, value in tensors.items():
        if key.startswith(prefix):
            index, name = key[len(prefix) :].split("/")
            state.setdefault(int(index), {})[name] = spread(value, weights[int(index)])
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with explained(path, "read"), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # without the whole file in memory
