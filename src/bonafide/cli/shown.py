"""What the commands show while they work: bars, live figures, messages; and the options that several of them take."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.errors import BonafideError

if TYPE_CHECKING:
    from rich.progress import Progress

    from bonafide.tasks.sql.tables import ColumnType

Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
TableFiles = Annotated[
    list[Path] | None,
    typer.Option("--table", help="Your own table: a CSV, Parquet or SQLite file. May be given several times."),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="Override a column's type, as 'column=text' or 'column=real'."),
]


@contextmanager
def searching(out: Path | str) -> Iterator[tuple[Callable[[Any, int], None], Callable[[int, int], None]]]:
    """A progress bar for a search, and what to say when it is interrupted."""
    from bonafide.search.run import SearchWorkerDied

    console = Console(stderr=True)
    progress = _bar(console, "Searching", "examples · {task.fields[found]:,} solutions ·")
    found = 0

    def started(source: Any, count: int) -> None:
        changed = sum(each.count for path in _loaded(source) for each in path)
        if changed:
            from bonafide.tasks.sql.sources import shown_by

            tell(console, f"[dim]Reading changed or noted {changed:,} cells: see {escape(shown_by(source))}[/dim]")
        progress.add_task("Searching", total=count, found=0)
        shown.enter_context(progress)  # not before: an error of input is all there is to see

    def advance(examples: int, solutions: int) -> None:
        nonlocal found
        found += solutions
        progress.update(progress.task_ids[0], advance=examples, found=found)
        if progress.finished:
            shown.close()  # what follows, such as training, may show a bar of its own

    try:
        with ExitStack() as shown:
            yield started, advance
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # we are on the way out
        where = escape(str(out))
        tell(console, f"Stopped. What was finished is kept in {where}: run the same command again to go on.")
        sys.exit(130)
    except SearchWorkerDied as error:
        say(str(error))
        sys.exit(1)


@contextmanager
def training(out: Path) -> Iterator[Callable[[Any], None]]:
    """A progress bar with the live figures of a training run."""
    console = Console(stderr=True)
    progress = _bar(console, "Training", "steps · {task.fields[live]} ·")
    bar = progress.add_task("", total=None, live="")

    def watch(moment: Any) -> None:
        figures = moment.figures
        if not progress.live.is_started:
            progress.start()
        if "dev_execution" in figures:
            shown = {
                name: figures[name] for name in ("dev_execution", "dev_reconstruction", "agreement") if name in figures
            }
            tell(console, f"[dim]step {moment.step}: {_figures(shown)}[/dim]")
        else:
            shown = {
                name: figures[name] for name in ("loss", "reconstructor_loss", "examples_per_second") if name in figures
            }
            progress.update(bar, total=moment.steps, completed=moment.step, live=_figures(shown))

    try:
        yield watch
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # we are on the way out
        _end(progress)
        tell(console, f"Stopped. Add --resume to go on from the last checkpoint in {escape(str(out))}.")
        sys.exit(130)
    finally:
        _end(progress)


@contextmanager
def working(what: str) -> Iterator[Callable[[int, int], None]]:
    """A plain progress bar."""
    from rich.progress import Progress

    progress = Progress(console=Console(stderr=True))
    bar = progress.add_task(what, total=None)

    def advance(done: int, total: int) -> None:
        if not progress.live.is_started:  # not before: an error of input is all there is to see
            progress.start()
        progress.update(bar, completed=done, total=total)

    try:
        yield advance
    finally:
        _end(progress)


def tell(console: Console, message: str) -> None:
    """Print a message for people."""
    console.print(message, soft_wrap=True)  # a path stays in one piece, to be copied


def tell_if_training(run: Path) -> None:
    """Say so where a run's model is not its last: training was interrupted, or goes on."""
    if (run / "recipe.json").exists() and (run / "model").exists() and not (run / "result.json").exists():
        path = escape(str(run))
        tell(
            Console(stderr=True),
            f"[yellow]Training in {path} has not come to its end: this is the model that is saved so far. The "
            "command that trains it goes on with --resume.[/yellow]",
        )


def say(message: str) -> None:
    """Print an error for people."""
    from rich.text import Text

    Console(stderr=True).print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)


def column_types(given: list[str] | None) -> dict[str, ColumnType]:
    """What ``--type`` says."""
    types: dict[str, ColumnType] = {}
    for each in given or []:
        column, equals, kind = each.rpartition("=")
        if not equals or kind not in ("text", "real"):
            raise BonafideError(f"--type takes 'column=text' or 'column=real'; found {each!r}.")
        if types.setdefault(column, cast("ColumnType", kind)) != kind:
            raise BonafideError(f"--type says that the column {column!r} is text, and that it is real: leave one out.")
    return types


def as_text(value: Any) -> str:
    """JSON for people and for other tools."""
    import json

    return json.dumps(value, ensure_ascii=False, indent=2)


def _bar(console: Console, what: str, live: str) -> Progress:
    """A progress bar: what is done, how much of it, live figures, time spent and time left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(live), TimeElapsedColumn(),
        TextColumn("· left"), TimeRemainingColumn(), console=console,
    )  # fmt: skip


def _end(progress: Progress) -> None:
    if progress.live.is_started:  # stopping what never started writes an empty line
        progress.stop()


def _figures(figures: dict[str, float]) -> str:
    return " ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in figures.items())


def _loaded(source: Any) -> Iterator[Any]:
    """What reading changed in the tables of CSV, Parquet and SQLite files; other contexts are as they were written."""
    from bonafide.tasks.sql.sources import LoadedTables

    if isinstance(getattr(source, "tables", None), LoadedTables):
        for table in source.tables.values():
            yield table.coercions
