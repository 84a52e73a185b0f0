"""``bonafide search … --dry-run``: what a search will take, from a sample, before anything is written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bonafide.cli.shown import tell, working

if TYPE_CHECKING:
    from bonafide.search.estimate import Estimate
    from bonafide.search.run import Inputs
    from bonafide.tasks.task import Task

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Search 200 examples, say what all will take, and write nothing.")
]


def show_estimate(search: tuple[Task[Any], Inputs], out: Path, workers: int, seed: int) -> None:
    """Search a sample and print what the whole will take."""
    from bonafide.search.estimate import estimate_search

    with working("Searching a sample") as progress:
        estimate = estimate_search(*search, seed, progress)
    console = Console()
    console.print(estimate_table(estimate, workers))
    if estimate.heavy:
        tell(
            console,
            "[yellow]A few large sets will hold most of the solutions, and a sample can miss them: the sums may lie "
            "anywhere in these ranges, and beyond. A lower --cap bounds them.[/yellow]",
        )
    free = shutil.disk_usage(next(each for each in (out.absolute(), *out.absolute().parents) if each.exists())).free
    if estimate.disk_range[1] > free:
        tell(console, f"[yellow]It may not fit: {_bytes(free)} are free there. Name another place with --out.[/yellow]")
    tell(console, "Nothing was written. The same command without --dry-run searches.")


def estimate_table(estimate: Estimate, workers: int) -> Table:
    """The figures, and where they may lie."""
    from bonafide.report.terminal import harmless

    whole = estimate.sampled == estimate.examples
    title = "From all examples" if whole else f"From {estimate.sampled:,} of {estimate.examples:,} examples"
    table = Table(title=title, title_justify="left", caption="time: a core to each worker", caption_justify="left")
    for column in ("", "estimate", "range (95 %)"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row(
        "time with one worker",
        _seconds(estimate.seconds),
        _between(estimate.seconds_range, _seconds),
    )
    if workers > 1:
        table.add_row(f"time with {workers} workers", _seconds(estimate.seconds_with(workers)), "")
    table.add_row("solutions stored", _count(estimate.solutions), _between(estimate.solutions_range, _count))
    table.add_row("disk", _bytes(estimate.disk), _between(estimate.disk_range, _bytes))
    table.add_row("examples with a solution", f"{estimate.coverage:.1%}", "")
    table.add_row("sets larger than the cap", f"{estimate.capped:.1%}", "")
    table.add_row("largest set of the file, about", _count(estimate.largest_expected), "")
    for name, size in estimate.largest:
        table.add_row(f"large in the sample: {escape(harmless(name))}", _count(size), "", style="dim")
    return table


def _between(ends: tuple[float, float], shown: Any) -> str:
    low, high = map(shown, ends)
    return low if low == high else f"{low} to {high}"


def _count(number: float) -> str:
    return f"{float(f'{number:.3g}'):,.0f}"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def _bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
