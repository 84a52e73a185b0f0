"""``bonafide demo``: see it work on data that bonafide makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.shown import tell

if TYPE_CHECKING:
    from bonafide.report.demo import Demo

app = typer.Typer(help="See it work on data that bonafide makes itself.", no_args_is_help=True)

DemoOut = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
DemoSeed = Annotated[int, typer.Option(help="Seed of data and training.")]


@app.command("sql")
def demo_sql_command(out: DemoOut = Path("demo"), seed: DemoSeed = 0) -> None:
    """Synthetic tables, every query that reaches each answer, HardEM and MIMAX side by side, and a page to look at."""
    from bonafide.report import page
    from bonafide.report.demo_sql import SqlDemo
    from bonafide.report.inspect import Inspection

    _demo(SqlDemo(), out, seed)
    inspection = Inspection(out / "solutions")
    page.write_page(inspection, inspection.figures(out / "data/train/gold.jsonl"), out / "solutions.html")
    tell(Console(), f"Every solution is in {escape(str(out / 'solutions.html'))}.")


@app.command("discrete")
def demo_discrete_command(out: DemoOut = Path("demo-discrete"), seed: DemoSeed = 0) -> None:
    """Synthetic passages, every program that reaches each answer, HardEM and MIMAX side by side, and a page."""
    from bonafide.report.demo_discrete import DiscreteDemo

    _demo(DiscreteDemo(), out, seed)


@app.command("reading")
def demo_reading_command(out: DemoOut = Path("demo-reading"), seed: DemoSeed = 0) -> None:
    """Synthetic documents, every mention of each answer, three methods side by side, and a page to look at."""
    from bonafide.report.demo_reading import ReadingDemo

    _demo(ReadingDemo(), out, seed)


@app.command("shop")
def demo_shop_command(
    out: DemoOut = Path("shop"),
    seed: DemoSeed = 0,
    pairs: Annotated[int, typer.Option(help="How many questions with their answers.", min=1)] = 200,
) -> None:
    """A table of orders and questions with their answers, to try bonafide train on."""
    from bonafide.synth.shop import write_shop

    write_shop(out, seed, pairs)
    where = escape(str(out))
    tell(Console(), f"{where}/orders.csv is the table; {where}/qa.jsonl has {pairs:,} questions with their answers.")


def _demo(demo: Demo, out: Path, seed: int) -> None:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from bonafide.report.demo import run_demo
    from bonafide.report.terminal import comparison_table

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        names = {"search": "Search", **{name: f"Train {name}" for name in demo.methods}, "evaluate": "Evaluate"}
        bars = {key: progress.add_task(name, total=1.0) for key, name in names.items()}
        figures = run_demo(demo, out, seed, lambda key, share: progress.update(bars[key], completed=share))
    Console().print(comparison_table(figures))
    tell(Console(), f"Open [bold]{escape(str(out / 'report.html'))}[/bold] in a browser.")
