"""What a run was trained on, by its recipe and the manifest of its solution store.

Two runs learned from the same examples where the same file was searched and as many of it, those with the largest sets,
were kept: by ``data.largest`` or by ``bonafide subset``, whose choice is the same. They learned from the same solution
sets where that search had the same options, and nothing was left out of its sets since. Where a store lies says
nothing of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.sealed import read_sealed
from bonafide.solutions import read_manifest

_PART = "subset"
"""The option of a store that holds the largest sets of another."""


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """Which examples, by hashes of them and of their contexts, and how they were searched.

    ``search`` is None where gold takes the place of what was found.
    """

    examples: str
    contexts: tuple[str, ...]
    search: Mapping[str, Any] | None

    def settings(self) -> dict[str, Any]:
        """As settings of a recipe, each with its name."""
        searched = {f"search.{name}": value for name, value in (self.search or {}).items()}
        return {"train examples": self.examples, **searched}


def trained_on(run: Path) -> TrainedOn | None:
    """What a run was trained on; None where its solution store is gone."""
    recipe = recipe_of(run)
    data, solved = recipe["data"], recipe["objective"]["method"] == "supervised"
    try:
        manifest = read_manifest(placed(run, Path(data.get("solutions") or run / "solutions")))
        inputs, options, held = manifest["inputs"], manifest["options"], manifest["counts"]["examples"]
        hashes = {name: [each["sha256"][:12] for each in of] for name, of in inputs.items() if isinstance(of, list)}
        (examples,) = hashes.pop("examples")
        kept = max(1, round(float(data.get("largest", 1.0)) * held))  # as learn/data.py does
        if kept < held or _PART in options:
            examples = f"{kept} largest of {examples}"
        how = {name: value for name, value in inputs.items() if not isinstance(value, list)} | options
        search = flat({name: value for name, value in how.items() if name != _PART})
        contexts = tuple(each for name in sorted(hashes) for each in hashes[name])
        return TrainedOn(examples, contexts, None if solved else search)
    except (BonafideError, KeyError, IndexError, TypeError, ValueError):
        return None


def placed(run: Path, path: Path) -> Path:
    """Where something is that a run's recipe names; a relative path may be from a folder above the run."""
    above = (folder / path for folder in run.resolve().parents)
    return path if path.exists() else next((each for each in above if each.exists()), path)


def recipe_of(run: Path) -> dict[str, Any]:
    """The recipe of a run, without the name of what wrote it."""
    path = run / "recipe.json"
    if not path.exists():
        raise BonafideError(f"{run} holds no run: there is no recipe.json. Name folders that bonafide train wrote.")
    recipe = {key: value for key, value in read_sealed(path).items() if key != "tool"}
    parts = {name: recipe.get(name) for name in ("data", "objective", "train")}
    lacking = [name for name, part in parts.items() if not isinstance(part, dict)]
    for part, name, kind in (("objective", "method", str), ("train", "seed", int)):
        if part not in lacking and type(recipe[part].get(name)) is not kind:
            lacking.append(f"{part}.{name}")
    if lacking:
        raise BonafideError(
            f"{path} is not as bonafide train writes it: {', '.join(lacking)} is missing or of the wrong kind. Bring "
            "back a copy of it, or train anew."
        )
    return recipe


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings by their whole names: ``data.root``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found
