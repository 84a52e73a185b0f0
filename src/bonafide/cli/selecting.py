"""``bonafide select`` and ``bonafide import candidates``: candidates that a user brings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.shown import Out, as_text, tell, working

if TYPE_CHECKING:
    from bonafide.learn.saved import Model
    from bonafide.select import Pick

_CANDIDATES = "Questions, answers and candidates, one JSON object a line (also .gz, .xz)."


def import_candidates_command(path: Annotated[Path, typer.Argument(help=_CANDIDATES)], out: Out) -> None:
    """Your own candidates into examples.jsonl, candidates.jsonl, gold.jsonl and a solution store."""
    from bonafide.search.text import import_candidates

    console = Console(stderr=True)
    done = import_candidates(path, out)
    tell(
        console,
        f"{done.examples:,} examples with {done.kept:,} distinct candidates that reach the answer, written to "
        f"{escape(str(out))}.",
    )
    for number, what in (
        (done.wrong_answer, "candidates arrive at another answer: they are not among the solutions"),
        (done.repeated, "candidates say the same as an earlier one: they count as votes for it"),
        (done.without_answer, "candidates do not say what they arrive at: they are taken to reach the answer"),
    ):
        if number:
            tell(console, f"[dim]{number:,} {what}.[/dim]")
    if done.without_solution:
        tell(console, f"[yellow]{done.without_solution:,} examples have no candidate that reaches the answer.[/yellow]")
    if done.gold:
        tell(
            console,
            f"[dim]{done.gold:,} examples have gold, which is among the candidates of {done.gold_in_set:,}; it is in "
            "gold.jsonl alone, for evaluation.[/dim]",
        )


def select_command(
    path: Annotated[Path, typer.Argument(help=_CANDIDATES)],
    out: Annotated[Path, typer.Option("--out", help="File to write the picks to, one JSON object a line.")],
    model: Annotated[
        str | None,
        typer.Option(help="Score with this language model as it is (hub name or folder), without training."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value of the recipe text-mimax, as section.key=value.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of the models that are trained; by default beside --out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object.")] = False,
) -> None:
    """The best-supported candidate of each question, with scores and how sure the choice is. Needs no gold."""
    from bonafide.select import select, summary

    folder = work or out.with_suffix(".work")
    console = Console(stderr=True)
    with working("Selecting") as advance:
        try:
            picks = select(
                path, out, model, overrides or (), folder, lambda moment: advance(moment.step, moment.steps), advance
            )
        except KeyboardInterrupt:
            tell(
                console, f"Stopped. What was learned is in {escape(str(folder))}: run the same command again to go on."
            )
            raise typer.Exit(130) from None
    figures = summary(picks)
    if as_json:
        typer.echo(as_text(figures))
        return
    sure = figures["median_confidence"]
    ranked = "none has a second candidate"
    if sure is not None:
        ranked = f"median confidence {sure:.0%} (it ranks picks; it is not calibrated)"
    tell(
        console,
        f"{figures['picked']:,} of {figures['questions']:,} questions have a pick; {ranked}, mean copy rate "
        f"{figures['mean_copy_rate']:.0%}, weight of votes {figures['vote_weight']:g}. Written to {escape(str(out))}.",
    )
    if figures["left_out"]:
        tell(
            console,
            f"[dim]{figures['left_out']:,} candidates arrive at another answer: they are not chosen from.[/dim]",
        )
    for pick in _least_sure(picks):
        assert pick.best is not None
        assert pick.confidence is not None
        tell(
            console,
            f"[dim]least sure: {escape(pick.example.id)}, {pick.confidence:.0%}: {escape(pick.best.text[:80])}[/dim]",
        )


def show_predictions(
    model: Model, question: str, top: int, as_json: bool, context: str = "", reconstruction: float = 0.0
) -> None:
    """The texts that a text solver writes for a question, with the answer that each arrives at."""
    from rich.table import Table as Grid

    from bonafide.report.terminal import harmless

    found = model.predict(context, question, top, reconstruction=reconstruction)
    if as_json:
        lines = [{"text": each.text, "answer": each.answer, "confidence": each.confidence} for each in found]
        typer.echo(as_text(lines))
        return
    grid = Grid(title=escape(question), title_justify="left")
    for name in ("confidence", "answer", "text"):
        grid.add_column(name, overflow="fold", justify="right" if name == "confidence" else "left")
    for each in found:
        grid.add_row(f"{each.confidence:.1%}", escape(harmless(str(each.answer))), escape(harmless(each.text)))
    Console().print(grid)


def _least_sure(picks: list[Pick], count: int = 3) -> list[Pick]:
    known = [pick for pick in picks if pick.confidence is not None]
    return sorted(known, key=lambda pick: pick.confidence or 0.0)[:count]
