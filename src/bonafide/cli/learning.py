"""``bonafide train``, ``recipes``, ``evaluate`` and ``predict``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.own_tasks import TaskFile, load_run
from bonafide.cli.shown import (
    Out,
    TableFiles,
    Types,
    as_text,
    column_types,
    searching,
    tell,
    tell_if_training,
    training,
    working,
)
from bonafide.errors import BonafideError
from bonafide.files import check_writable

if TYPE_CHECKING:
    from bonafide.learn.recipe import Recipe
    from bonafide.learn.saved import Model

Reconstruction = Annotated[
    float,
    typer.Option(
        help="The reconstructor votes with this weight on the order of the beam; 0.3 is a good one for SQL.", min=0.0
    ),
]


def train_command(
    out: Out,
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe by name (bonafide recipes) or path; may be left out with --table.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value of the recipe, as section.key=value.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in this folder.")] = False,
    starts: Annotated[
        int, typer.Option(help="Train so many times, each with another seed, and name the best, without gold.", min=1)
    ] = 1,
    table: TableFiles = None,
    types: Types = None,
    examples: Annotated[
        Path | None, typer.Option("--examples", help="Your own pairs: question and answer, one JSON object a line.")
    ] = None,
    dev: Annotated[Path | None, typer.Option("--dev", help="Pairs to test with, in place of cross-validation.")] = None,
    folds: Annotated[
        int | None, typer.Option("--folds", help="Parts of the cross-validation; by default 3.", min=2)
    ] = None,
) -> None:
    """Train a solver: by a recipe, or on your own tables and pairs with --table and --examples."""
    if table or examples is not None:
        from bonafide.cli.owning import train_on_own_tables

        if not table or examples is None:
            raise BonafideError("Your own data is a table and pairs: give both --table FILE and --examples FILE.")
        if starts > 1:
            raise BonafideError("--starts goes with a recipe; --table and --examples train several models already.")
        if dev is not None and folds is not None:
            raise BonafideError(
                "--dev takes the place of cross-validation: give either --dev FILE or --folds, not both."
            )
        train_on_own_tables(table, examples, out, dev, folds, column_types(types), recipe, overrides or [], resume)
        return
    if recipe is None:
        raise BonafideError(
            "Name a recipe (see bonafide recipes), or give your own data: --table x.csv --examples qa.jsonl."
        )
    if dev is not None or folds is not None or types:
        raise BonafideError("--dev, --folds and --type go with --table and --examples; a recipe names its own data.")
    from bonafide.learn.recipe import read_recipe
    from bonafide.learn.trainer import train

    settings = read_recipe(recipe, overrides or ())
    if starts > 1:
        _train_starts(settings, out, starts, resume)
        return
    if os.environ.get("RANK", "0") != "0":  # of accelerate launch: the first process speaks for all
        train(settings, out, resume)
    else:
        with searching(out / "solutions") as (started, advance), training(out) as watcher:
            train(settings, out, resume, watcher, (advance, started))
        typer.echo((out / "README.md").read_text(), err=True)
    if settings.train.shard and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # All is done and written. As Python ends, torch's threads of sharded tensors at times abort the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _train_starts(settings: Recipe, out: Path, starts: int, resume: bool) -> None:
    from bonafide.learn.starts import train_starts
    from bonafide.report.tabled import Tabled

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise BonafideError("--starts trains one run after the other by one process: leave out accelerate launch.")

    @contextmanager
    def shown(run: Path) -> Iterator[tuple[Any, Any]]:
        tell(Console(stderr=True), escape(str(run)))
        with searching(run / "solutions") as (started, advance), training(run) as watcher:
            yield watcher, (advance, started)

    found = train_starts(settings, out, starts, resume, shown)
    rows = [[str(start.run), f"{start.figure:.4g}"] for start in found]
    note = f"The best by this figure, which needs no gold: {found[0].run}"
    Console().print(Tabled("Starts", note, ["run", found[0].by], rows).terminal())


def recipes_command() -> None:
    """The recipes in the package."""
    from bonafide.learn.recipe import named_recipes

    for name in named_recipes():
        typer.echo(name)


def evaluate_command(
    run: Annotated[Path, typer.Argument(help="A folder that train wrote.")],
    examples: Annotated[Path, typer.Option("--examples", help="Questions and answers, one JSON object a line.")],
    gold: Annotated[Path | None, typer.Option(help="gold.jsonl, for solution accuracy.")] = None,
    tables: Annotated[Path | None, typer.Option(help="tables.jsonl; by default the one beside the examples.")] = None,
    table: TableFiles = None,
    types: Types = None,
    documents: Annotated[
        Path | None, typer.Option(help="documents.jsonl; by default the one beside the examples.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the predictions.")] = None,
    beam: Annotated[int, typer.Option(help="1: greedy, as in the paper.", min=1)] = 1,
    execution_guided: Annotated[
        bool, typer.Option("--execution-guided", help="Leave out queries that return nothing.")
    ] = False,
    reconstruction: Reconstruction = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
) -> None:
    """How often a model's answers, and with gold its solutions, are right."""
    from bonafide.report.runs import check_reconstruction, evaluate_run, load_for_evaluation
    from bonafide.report.runs_discrete import evaluate_discrete
    from bonafide.report.runs_reading import evaluate_reading
    from bonafide.report.terminal import evaluation_table

    check_writable(out or run / "predictions.jsonl")
    model = load_for_evaluation(run)
    tell_if_training(run)
    if model.task.name != "sql" and (table or tables or types):
        raise BonafideError(
            f"--table, --tables and --type are for a run on tables; {run} is of the task {model.task.name!r}."
        )
    if execution_guided and model.task.name != "sql":
        raise BonafideError(f"--execution-guided is for queries; {run} is of the task {model.task.name!r}.")
    if documents is not None and model.task.name not in ("discrete", "reading"):
        raise BonafideError(f"--documents is for passages and documents; {run} is of the task {model.task.name!r}.")
    check_reconstruction(model, run, reconstruction, beam)
    with working("Predicting") as progress:
        if model.task.name == "discrete":
            figures = evaluate_discrete(
                model, run, examples, documents, gold, out, beam, progress, reconstruction
            ).figures
        elif model.task.name == "reading":
            figures = evaluate_reading(
                model, run, examples, documents, gold, out, progress=progress, beam=beam, reconstruction=reconstruction
            ).figures
        elif model.task.name == "text":
            from bonafide.report.runs_text import evaluate_text

            figures = evaluate_text(model, run, examples, gold, out, beam, progress, reconstruction).figures
        else:
            figures = evaluate_run(
                run,
                examples,
                tables,
                table or (),
                gold,
                out,
                beam,
                execution_guided,
                progress,
                model,
                reconstruction,
                column_types(types),
            ).figures
    if as_json:
        typer.echo(as_text(figures))
    else:
        Console().print(evaluation_table(figures))
        tell(Console(stderr=True), f"[dim]Predictions are in {escape(str(out or run / 'predictions.jsonl'))}.[/dim]")


def predict_command(
    run: Annotated[Path, typer.Argument(help="A folder that train wrote.")],
    question: Annotated[str, typer.Argument(help="Your question.")],
    table: TableFiles = None,
    types: Types = None,
    context: Annotated[
        str | None,
        typer.Option(help="Which table, where there are several; for a text task a file or a text to ask about."),
    ] = None,
    passage: Annotated[Path | None, typer.Option(help="A text file, for a model of discrete reasoning.")] = None,
    document: Annotated[
        Path | None, typer.Option(help="A text or Markdown file, for a model of reading comprehension.")
    ] = None,
    task: TaskFile = None,
    top: Annotated[int, typer.Option(help="How many answers to show.", min=1)] = 5,
    reconstruction: Reconstruction = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Ask a question of your own table or text: the solution, its answer, how sure the model is, the alternatives."""
    if not question.strip():
        raise BonafideError("The question is empty.")
    if any("\ud800" <= each <= "\udfff" for each in question):
        raise BonafideError("The question is not UTF-8: set the terminal's encoding to UTF-8.")
    if sum((bool(table), passage is not None, document is not None)) > 1:
        raise BonafideError("A question is asked of one context: give --table, --passage or --document.")
    if types and not table:
        raise BonafideError("--type says how a column of --table is read: add --table.")
    tell_if_training(run)
    if passage is not None:
        _predict_on_passage(run, question, passage, top, as_json, reconstruction)
        return
    if document is not None:
        _predict_in_document(run, question, document, top, as_json, reconstruction)
        return
    from bonafide.report.runs import check_reconstruction
    from bonafide.report.terminal import predictions_table
    from bonafide.tasks.sql.sources import open_tables

    model = load_run(run, task)
    check_reconstruction(model, run, reconstruction)
    if model.task.name != "sql":
        _predict_text(model, run, question, context, bool(table), top, as_json, reconstruction)
        return
    if not table:
        raise BonafideError(f"{run} answers questions on tables: add --table with a CSV, Parquet or SQLite file.")
    source = open_tables(None, table, column_types(types), context)
    if source.default is None:
        raise BonafideError(f"Say which table with --context: there are {', '.join(source.tables)}.")
    asked = source.tables[source.default]
    predictions = model.predict(asked, question, top, execution_guided=True, reconstruction=reconstruction)
    if as_json:
        lines = [
            {"sql": each.sql, "parameters": each.parameters, "answer": each.answer, "confidence": each.confidence}
            for each in predictions
        ]
        typer.echo(as_text(lines))
    else:
        Console().print(predictions_table(question, asked, predictions))


def _predict_text(
    model: Model,
    run: Path,
    question: str,
    context: str | None,
    on_table: bool,
    top: int,
    as_json: bool,
    reconstruction: float,
) -> None:
    from bonafide.cli.selecting import show_predictions
    from bonafide.learn.text import TextLearning

    name = model.task.name
    if name in ("discrete", "reading"):
        option = {"discrete": "--passage", "reading": "--document"}[name]
        raise BonafideError(f"{run} answers questions on texts, not on tables: give a text with {option} FILE.")
    if not isinstance(model.task, TextLearning):
        raise BonafideError(
            f"{run} was trained for the task {name!r}, whose contexts only that task can read: expected one that "
            "derives from bonafide.learn.text.TextLearning. From Python it answers with bonafide.load(run).predict(…)."
        )
    if on_table:
        raise BonafideError(f"{run} answers questions on texts, not on tables: give a text with --context FILE.")
    show_predictions(model, question, top, as_json, _context(context), reconstruction)


def _context(given: str | None) -> str:
    """The text of a file, or the text itself; one word alone is the name of a file, there or not."""
    from bonafide.files import read_text

    if given is None:
        return ""
    if not given.strip():
        raise BonafideError("--context is empty: give a file or a text to ask about, or leave it out.")
    may_be_a_name = len(given.encode()) < 256
    if len(given.split()) > 1 and not (may_be_a_name and Path(given).is_file()):
        return given
    return read_text(Path(given))


def _predict_on_passage(
    run: Path, question: str, passage: Path, top: int, as_json: bool, reconstruction: float
) -> None:
    from bonafide.report.passages import answers_about, answers_to_json, passage_answers

    answers = answers_about(run, question, passage, top, reconstruction)
    if as_json:
        typer.echo(as_text(answers_to_json(answers)))
    else:
        Console().print(passage_answers(question, answers))


def _predict_in_document(run: Path, question: str, path: Path, top: int, as_json: bool, reconstruction: float) -> None:
    from bonafide.report.mentions import answers_in, answers_to_json, document_answers

    document, answers = answers_in(run, question, path, top, reconstruction)
    if as_json:
        typer.echo(as_text(answers_to_json(answers)))
    else:
        Console().print(document_answers(question, document, answers))
