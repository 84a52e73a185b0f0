"""What ``bonafide train --table … --examples …`` shows: what was read, what has no solution, what was learned."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from bonafide.cli.shown import tell

if TYPE_CHECKING:
    from bonafide.own.training import Prepared
    from bonafide.tasks.sql.tables import ColumnType

_SHOWN = 20


def train_on_own_tables(
    tables: Sequence[Path],
    examples: Path,
    out: Path,
    dev: Path | None,
    folds: int | None,
    types: dict[str, ColumnType],
    recipe: str | None,
    overrides: Sequence[str],
    resume: bool,
) -> None:
    """Search, train, test, and say how to ask."""
    from bonafide.own.page import write_own_page
    from bonafide.own.training import claimed, learn, prepare
    from bonafide.tasks.sql.sources import as_options

    console = Console(stderr=True)
    with claimed(out, resume):
        with _bars(console, out) as report:
            prepared = prepare(tables, examples, out, dev, types, recipe, overrides, resume, report)
        _tell_prepared(console, prepared)
        if prepared.unsolved:
            console.print(_unsolved_table(prepared))
        with _bars(console, out) as report:
            held, figures = learn(prepared, folds, report)
        write_own_page(out / "report.html", prepared, held, figures)
    _tell_learned(Console(), prepared, figures, as_options(tables, types))


def _tell_prepared(console: Console, prepared: Prepared) -> None:
    count, covered = len(prepared.examples), prepared.covered
    tell(console, f"{count:,} pairs on {_plural(len(prepared.source.tables), 'table')}; {covered:,} have a solution.")
    for note, times in prepared.notes.items():
        tell(console, f"[yellow]{times:,} {note}.[/yellow]")
    changed = sum(each.count for name in prepared.source.tables for each in prepared.source.tables[name].coercions)
    if changed:
        from bonafide.tasks.sql.sources import shown_by

        seen = escape(shown_by(prepared.source))
        tell(console, f"[dim]Reading changed or noted {changed:,} cells: see {seen}[/dim]")
    if count < 100:
        tell(console, f"[yellow]{count:,} pairs are few: a hundred or more are needed to learn from.[/yellow]")


def _unsolved_table(prepared: Prepared) -> Grid:
    from bonafide.report.terminal import harmless

    grid = Grid(title="Pairs without a solution: nothing is learned from them", title_justify="left")
    for name in ("id", "question", "answer", "why"):
        grid.add_column(name, overflow="fold")
    shown = len(prepared.unsolved) if prepared.too_few else _SHOWN  # too few pairs: there will be no report.html
    for each in prepared.unsolved[:shown]:
        answer = ", ".join(map(str, each.example.values))
        grid.add_row(*(escape(harmless(text)) for text in (each.example.id, each.example.question, answer, each.why)))
    if len(prepared.unsolved) > shown:
        grid.caption = f"and {len(prepared.unsolved) - shown:,} more, in report.html when the training is done"
    return grid


def _tell_learned(console: Console, prepared: Prepared, figures: dict[str, Any], files: str) -> None:
    low, high = figures["interval"]
    how = {0: "of the dev file", 1: "of a third that was held out"}.get(
        figures["folds"], f"held out in {figures['folds']}-fold cross-validation"
    )
    tell(
        console,
        f"[bold]{figures['right']:,} of {figures['held_out']:,} answers {how} are right: "
        f"{figures['right'] / figures['held_out']:.1%}[/bold] (95 % interval {low:.0%} to {high:.0%}).",
    )
    tell(console, f"Open [bold]{escape(str(prepared.out / 'report.html'))}[/bold] in a browser to see which, and why.")
    which = f" --context {shlex.quote(next(iter(prepared.source.tables)))}" if prepared.source.default is None else ""
    question = prepared.examples[0].question
    ask = f"bonafide predict {shlex.quote(str(prepared.out))} {files}{which} {shlex.quote(question)}"
    tell(console, f"Ask it: {escape(ask)}")
    tell(console, f"In the browser: {escape(f'bonafide serve {shlex.quote(str(prepared.out))} {files}')}")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


@contextmanager
def _bars(console: Console, out: Path) -> Iterator[Callable[[str, float], None]]:
    """A bar for each part that is reported, and what to say when it is interrupted."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
    )
    bars: dict[str, Any] = {}

    def report(name: str, share: float) -> None:
        if name not in bars:
            if not bars:
                progress.start()  # not before: an error of input is all there is to see
            bars[name] = progress.add_task("Search" if name == "search" else f"Train on {name}", total=1.0)
        progress.update(bars[name], completed=share)

    try:
        yield report
    except KeyboardInterrupt as interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # we are on the way out
        tell(console, f"Stopped. Add --resume to go on with what is in {escape(str(out))}.")
        sys.exit(interrupt.args[0] if interrupt.args else 130)
    finally:
        if bars:
            progress.stop()
