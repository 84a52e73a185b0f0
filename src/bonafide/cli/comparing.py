"""``bonafide compare``, ``audit`` and ``subset``: what was learned, held against each other and against doubt."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.shown import Out, TableFiles, Types, as_text, column_types, tell, tell_if_training, working
from bonafide.errors import BonafideError
from bonafide.files import check_writable

Judged = Annotated[
    Path | None, typer.Option(help="Judgements of a sheet, e.g. judge.judged.jsonl; the sheet stands beside it.")
]


def compare_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders that train wrote; those of the first method first.")],
    examples: Annotated[
        Path | None, typer.Option(help="Questions and answers; by default the dev examples of the first run.")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="gold.jsonl, for solution accuracy.")] = None,
    solutions: Annotated[
        Path | None, typer.Option(help="A store of these examples, for figures by size of the solution set.")
    ] = None,
    table: TableFiles = None,
    types: Types = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables as Markdown.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with tables and plots.")] = None,
    sheet: Annotated[
        Path | None,
        typer.Option(help="Write 50 pairs of different solutions with the same right answer, for blind judgement."),
    ] = None,
    right_answers: Annotated[
        bool,
        typer.Option("--right-answers", help="The sheet holds 50 right answers of each method, drawn at random."),
    ] = False,
    judged: Judged = None,
    seed: Annotated[int, typer.Option(help="Seed of the sheet: which pairs, and which stands left.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
) -> None:
    """Which method is better, by how much, how surely, and where; runs without predictions are evaluated first."""
    from bonafide.report import compare_page, judging
    from bonafide.report.compare import compare_runs
    from bonafide.report.judging import check_sheet, read_judgements, write_sheet

    if right_answers and sheet is None:
        raise BonafideError("--right-answers says what a sheet holds: add --sheet judge.jsonl.")
    if sheet is not None:
        check_sheet(sheet)
    for written in (markdown, html, sheet):
        if written is not None:
            check_writable(written)
    judgements = None if judged is None else read_judgements(judged)
    for run in runs:
        tell_if_training(run)
    with working("Predicting") as progress:
        comparison = compare_runs(runs, examples, gold, solutions, table or (), progress, column_types(types))
    console, notes = Console(), Console(stderr=True)
    made, about = compare_page.tables(comparison, judgements), compare_page.described(comparison)
    if markdown is not None:
        compare_page.write_markdown(markdown, made, about)
    if html is not None:
        compare_page.write_comparison_page(html, comparison, made, about)
    if sheet is not None:
        pairs = judging.right_answers(comparison, seed) if right_answers else judging.sheet(comparison, seed)
        write_sheet(sheet, pairs)
        kind = "right answers" if right_answers else "pairs"
        found = f"{len(pairs):,} {kind} to judge are in {escape(str(sheet))}."
        tell(notes, found if pairs else f"There are no {kind} to judge: no sheet was written.")
    if as_json:
        typer.echo(as_text(compare_page.to_json(comparison, judgements)))
        return
    tell(console, escape(about))
    for each in made:
        console.print(each.terminal())


def audit_command(
    predictions: Annotated[Path, typer.Argument(help="predictions.jsonl, as evaluate writes it.")],
    solutions: Annotated[Path, typer.Option(help="A store of the predicted examples.")],
    run: Annotated[
        Path | None, typer.Option(help="A run with a reconstructor (mimax), for an estimate without gold.")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="gold.jsonl, for exact figures.")] = None,
    judged: Judged = None,
    examples: Annotated[Path | None, typer.Option(help="Where the examples are, if they were moved.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
) -> None:
    """How often a right answer has a wrong solution, of which kinds, and which labels look wrong."""
    from bonafide.report import audit_page
    from bonafide.report.audit import audit_predictions
    from bonafide.report.judging import read_judgements

    judgements = None if judged is None else read_judgements(judged)
    if html is not None:
        check_writable(html)
    if run is not None:
        tell_if_training(run)
    with working("Auditing") as progress:
        audit = audit_predictions(predictions, solutions, run, gold, judgements, examples, progress)
    if html is not None:
        audit_page.write_audit_page(html, audit)
        tell(Console(stderr=True), f"Page written to {escape(str(html))}.")
    if as_json:
        typer.echo(as_text(audit_page.to_json(audit)))
        return
    console = Console()
    tell(console, escape(audit_page.described(audit)))
    for each in audit_page.tables(audit):
        console.print(each.terminal())


def subset_command(
    store: Annotated[Path, typer.Argument(help="A folder that search wrote.")],
    out: Out,
    largest: Annotated[
        float, typer.Option(help="The share of examples with the largest sets: 0.18 is the paper's hard set.")
    ],
) -> None:
    """A store of the examples with the largest solution sets, to train on."""
    from bonafide.report.subset import write_subset

    manifest = write_subset(store, out, largest)
    counts, whole = manifest["counts"], manifest["options"]["subset"]["examples"]
    notes, where = Console(stderr=True), escape(shlex.quote(str(out)))
    tell(notes, f"{counts['examples']:,} of {whole:,} examples, {counts['solutions']:,} solutions.")
    settings = f"--set data.solutions={where} --set data.largest=1.0"  # else a recipe takes a share of the share
    tell(notes, f"[dim]Train on them with: bonafide train RECIPE {settings} …[/dim]")
