"""What a run learns from, in a note of its folder, so that it never goes on with other data.

The hashes are of the files of the train split, taken before anything is searched or written. A run without the note,
which an older version began, goes on as before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.files import content_hash
from bonafide.learn.recipe import Recipe
from bonafide.sealed import read_sealed, write_sealed

NOTE = "learned-from.json"
_FILES = ("examples", "tables", "documents", "candidates")


def check_learned_from(run: Path, recipe: Recipe) -> dict[str, Any]:
    """What the recipe's train split holds; refused where the run at this path learned from something else."""
    folder = Path(recipe.data.root, recipe.data.train)
    found = {name: _hash(folder, name) for name in _FILES + ("gold",) * (recipe.objective.method == "supervised")}
    if (run / NOTE).exists():
        before = read_sealed(run / NOTE)
        if changed := sorted(name for name, sha256 in found.items() if before.get(name) != sha256):
            raise BonafideError(
                f"{run} was started with other data: {', '.join(f'{name}.jsonl' for name in changed)} in {folder} "
                "changed. Resume with the files it was started with, or name another folder."
            )
    return found


def note_learned_from(run: Path, found: dict[str, Any]) -> None:
    """Write the note of a run that begins."""
    if not (run / NOTE).exists() and not any((run / "checkpoints").glob("step-*")):
        write_sealed(run / NOTE, found)


def _hash(folder: Path, name: str) -> str | None:
    paths = (folder / f"{name}.jsonl{suffix}" for suffix in ("", ".gz", ".xz"))
    return next((content_hash(each) for each in paths if each.exists()), None)
