"""``--task FILE``: a run that was trained with a task of the user's own, whose module no run imports by itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bonafide.errors import BonafideError

if TYPE_CHECKING:
    from bonafide.learn.saved import Model

TaskFile = Annotated[
    Path | None, typer.Option("--task", help="The Python file of your own task, where the run was trained with one.")
]


def load_run(run: Path, task: Path | None) -> Model:
    """The model of a run; the file of its task is imported first, and only because the user names it."""
    from bonafide.learn.learnable import import_task
    from bonafide.learn.saved import load
    from bonafide.sealed import read_sealed

    about = next((path for path in (run / "model" / "model.json", run / "model.json") if path.is_file()), None)
    if about is None:
        return load(run)  # which says that there is no model
    name = str(read_sealed(about).get("recipe", {}).get("data", {}).get("task", "sql"))
    module, colon, _ = name.partition(":")
    if colon and task is None:
        raise BonafideError(f"{run} was trained with a task of your own, {name}: give its file with --task FILE.")
    if task is not None:
        if not colon:
            raise BonafideError(f"{run} was trained with the task {name}, which is bonafide's own: leave --task out.")
        *packages, stem = module.split(".")
        if task.name != f"{stem}.py" or not task.is_file():
            raise BonafideError(f"--task takes the file of the task {name}: expected a file {stem}.py, found {task}.")
        import_task(name, task.resolve().parents[len(packages)])
        found = Path(sys.modules[module].__file__ or "")
        if found.resolve() != task.resolve():
            raise BonafideError(
                f"Another module goes by the name {module}, {found}: give the task's file another name."
            )
    return load(run)
