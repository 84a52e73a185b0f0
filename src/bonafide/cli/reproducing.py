"""``bonafide reproduce``: the paper's tables, each by one command; and ``selection``, its selection task."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.shown import as_text, tell, working
from bonafide.errors import BonafideError

if TYPE_CHECKING:
    from bonafide.reproduce.runs import Filled


def reproduce_command(
    tables: Annotated[list[str] | None, typer.Argument(help="Tables, as --list names them.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show every table: its rows, its data, its results.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with train/ and dev/, as import writes them, or with such folders, as --list names them. "
            "Without it the results that are there are shown, and nothing is run."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results and tables.")] = Path("results"),
    seeds: Annotated[
        int | None, typer.Option(help="Seeds of each row; by default what the table wants.", min=1)
    ] = None,
    rows: Annotated[str | None, typer.Option(help="Some rows only, by name: mimax,gold.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs side by side.", min=1)] = 1,
    minutes: Annotated[
        float | None, typer.Option(help="Stop after this long; the same command goes on.", min=0)
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value of every row's recipe, as section.key=value.")
    ] = None,
    bart: Annotated[
        str | None, typer.Option(help="The BART of the rows that need one: a folder or a hub name.")
    ] = None,
) -> None:
    """Re-make tables: train and judge what is missing, test the differences, write the tables and their plots."""
    from bonafide.reproduce.runs import Asked, fill
    from bonafide.reproduce.shown import BARS, OVERVIEW, listed, write_table
    from bonafide.reproduce.tables import table as table_named

    names = tuple(dict.fromkeys(name for each in (rows or "").split(",") if (name := each.strip())))
    if rows is not None and not names:
        raise BonafideError("--rows names no row: expected names with commas between them, or no --rows for all.")
    asked = Asked(out, data, seeds, names, tuple(overrides or ()), bart)
    console, notes = Console(), Console(stderr=True)
    wanted = [table_named(name) for name in dict.fromkeys(tables or ())]
    if show:
        for each in listed(asked, wanted):
            console.print(each.terminal())
        return
    if not wanted:
        raise BonafideError("Name a table; bonafide reproduce --list shows them.")
    try:
        filled = fill(wanted, asked, jobs, minutes, lambda text: tell(notes, escape(text)))
    except KeyboardInterrupt:
        tell(notes, "Stopped. What was finished is kept: the same command goes on.")
        raise typer.Exit(130) from None
    for table in wanted:
        if len(wanted) > 1:
            console.print(f"\n[bold]{escape(table.title)}[/bold]")
        for each in write_table(table, asked, filled[table.name]):
            if each.title in (OVERVIEW, BARS):
                console.print(each.terminal())
        tell(notes, f"The whole table is in {escape(str(out / table.name))}.md and .html.")
    _say_what_is_left(filled.values(), notes)


def _say_what_is_left(filled: Collection[Filled], notes: Console) -> None:
    failed = {name: said for each in filled for name, said in each.failed.items()}
    for name, said in failed.items():
        tell(notes, f"[bold red]Failed:[/bold red] {escape(name)}\n{escape(said)}")
    if left := {name for each in filled for name in each.left}:
        several = "1 run is" if len(left) == 1 else f"{len(left)} runs are"
        tell(notes, f"{several} still to do: the same command goes on with what is left.")
    if failed:
        raise typer.Exit(1)


def selection_command(
    run: Annotated[Path, typer.Argument(help="A folder that train wrote.")],
    examples: Annotated[Path, typer.Option(help="examples.jsonl, its contexts beside it.")],
    gold: Annotated[Path, typer.Option(help="gold.jsonl of these examples.")],
    solutions: Annotated[
        Path | None, typer.Option(help="A store of these examples; by default searched into the run's folder.")
    ] = None,
    candidates: Annotated[int, typer.Option(help="Most candidates of an example, gold among them.", min=2)] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
) -> None:
    """Of a few solutions with gold among them: does the solver, and the reconstructor, find gold the most likely?"""
    from bonafide.report.runs import load_for_evaluation
    from bonafide.report.selection_task import selection_table, selection_task

    model = load_for_evaluation(run)
    with working("Selecting") as progress:
        found = selection_task(model, examples, gold, solutions or run / "selection", candidates, seed, progress)
    if as_json:
        typer.echo(as_text(found.to_json()))
        return
    Console().print(selection_table(found).terminal())
