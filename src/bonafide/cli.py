"""The command line: each command is one public function of the library, and an error is one paragraph.

Nothing heavy is imported before a command runs, so ``bonafide --help`` answers at once.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.markup import escape

from bonafide import __version__
from bonafide.errors import BonafideError, InvalidFileError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.progress import Progress as RichProgress

    from bonafide.tasks.sql.sources import TableSource
    from bonafide.tasks.sql.tables import ColumnType

app = typer.Typer(
    name="bonafide",
    help="Learn from answers, for the right reasons: find every derivation that reaches an answer, and tell the "
    "genuine one from the accidental ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
imports = typer.Typer(help="Turn a public data set into examples, contexts and gold.", no_args_is_help=True)
searches = typer.Typer(help="Find every solution that reaches the answer of each example.", no_args_is_help=True)
demos = typer.Typer(help="See it work on data that bonafide makes itself.", no_args_is_help=True)
app.add_typer(imports, name="import")
app.add_typer(searches, name="search")
app.add_typer(demos, name="demo")

Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
TableFiles = Annotated[
    list[Path] | None,
    typer.Option("--table", help="Your own table: a CSV, Parquet or SQLite file. May be given several times."),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="Override a column's type, as 'column=text' or 'column=real'."),
]


def main() -> None:
    """Run the command line."""
    try:
        app(standalone_mode=True)
    except InvalidFileError as error:
        from bonafide.report.terminal import problems_table

        console = Console(stderr=True)
        console.print(problems_table(error))
        _say(str(error))
        sys.exit(2)
    except BonafideError as error:
        _say(str(error))
        sys.exit(2)
    except OSError as error:
        _say(f"The operating system says: {error}.")
        sys.exit(2)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    """Print the version."""
    if show:
        typer.echo(f"bonafide {__version__}")
        raise typer.Exit()


@imports.command("wikisql")
def import_wikisql_command(
    questions: Annotated[Path, typer.Argument(help="WikiSQL's questions, e.g. train.jsonl (also .gz, .xz).")],
    tables: Annotated[Path, typer.Argument(help="WikiSQL's tables, e.g. train.tables.jsonl (also .gz, .xz).")],
    out: Out,
) -> None:
    """WikiSQL's own format into examples.jsonl, tables.jsonl and gold.jsonl."""
    from bonafide.tasks.sql.wikisql import import_wikisql

    console = Console(stderr=True)
    with console.status("Executing the gold queries once, to get the answers …"):
        done = import_wikisql(questions, tables, out)
    _tell(console, f"{done.examples:,} examples on {done.tables:,} tables, written to {escape(str(out))}.")
    console.print("[dim]The answers come from the gold queries, which are in gold.jsonl alone, for evaluation.[/dim]")
    if done.empty_answers:
        console.print(f"[dim]{done.empty_answers:,} gold queries select no row: their answer is the empty list.[/dim]")
    if done.renamed_columns:
        console.print(f"[dim]{done.renamed_columns:,} empty or repeated column names were made unique.[/dim]")


@searches.command("sql")
def search_sql_command(
    examples: Annotated[Path, typer.Option("--examples", help="Questions and answers, one JSON object a line.")],
    out: Out,
    tables: Annotated[
        Path | None, typer.Option("--tables", help="tables.jsonl; by default the one beside the examples.")
    ] = None,
    table: TableFiles = None,
    types: Types = None,
    context: Annotated[
        str | None,
        typer.Option("--context", help="The table of examples that name none, where there are several."),
    ] = None,
    aggregates: Annotated[
        Literal["typed", "untyped"],
        typer.Option(help="typed: text columns take none and count only. untyped: all six everywhere, as the paper."),
    ] = "untyped",
    max_conditions: Annotated[int, typer.Option(help="Most conditions in a query, up to 4.")] = 3,
    repeat_columns: Annotated[bool, typer.Option("--repeat-columns", help="Several conditions on a column.")] = False,
    order_text: Annotated[bool, typer.Option("--order-text", help="< and > on text columns too.")] = False,
    unmatched_values: Annotated[
        bool, typer.Option("--unmatched-values", help="Conditions that hold for no row of the table.")
    ] = False,
    similar_cells: Annotated[
        float | None,
        typer.Option(help="Cells this similar to a piece of the question (0 to 1) are values too.", min=0, max=1),
    ] = None,
    cap: Annotated[
        int,
        typer.Option(help="Store a uniform sample of this many where an example has more; 0: no cap.", min=0),
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of that sample.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that search.", min=1)] = 1,
) -> None:
    """Every SQL query that returns the answer of each example."""
    from bonafide.search.sql import search_sql
    from bonafide.tasks.sql.language import Language

    language = Language(aggregates, max_conditions, repeat_columns, order_text, unmatched_values, similar_cells)
    with _searching(out) as (started, progress):
        manifest = search_sql(
            examples, out, tables, table or (), _types(types), context, language, cap or None, seed, workers,
            progress, started,
        )  # fmt: skip
    _report_search(out, manifest)


@app.command("inspect")
def inspect_command(
    store: Annotated[Path, typer.Argument(help="A folder that search wrote.")],
    example: Annotated[str | None, typer.Option(help="Show every solution of this example.")] = None,
    gold: Annotated[Path | None, typer.Option(help="gold.jsonl, to see how often the gold query was found.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="Every solution as a line of JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at.")] = None,
    examples: Annotated[Path | None, typer.Option(help="Where the examples are, if they were moved.")] = None,
    tables: Annotated[Path | None, typer.Option(help="Where tables.jsonl is, if it was moved.")] = None,
    table: TableFiles = None,
) -> None:
    """Coverage, sizes and solutions of a store."""
    from bonafide.report import page, terminal
    from bonafide.report.inspect import Inspection

    inspection = Inspection(store, examples, tables, tuple(table or ()))
    if as_list:
        for line in inspection.listed(example):
            print(line)
        return
    console = Console()
    if example is not None:
        if example not in inspection.store:
            raise BonafideError(f"There is no example {example!r} in {store}.")
        console.print(terminal.example_panel(inspection, example))
        console.print(terminal.touched_rows(inspection, example))
        return
    figures = inspection.figures(gold)
    if html is not None:
        page.write_page(inspection, figures, html)
    if as_json:
        typer.echo(_json(figures))
        return
    console.print(terminal.overview(inspection, figures))
    if html is not None:
        _tell(console, f"Page written to {escape(str(html))}.")


@app.command("table")
def table_command(
    files: Annotated[list[Path], typer.Argument(help="CSV, Parquet or SQLite files.")],
    types: Types = None,
) -> None:
    """How your table is read: columns, types, and what reading changed."""
    from bonafide.report.terminal import table_report
    from bonafide.tasks.sql.sources import open_tables

    source = open_tables(None, files, _types(types))
    for name in source.tables:
        Console().print(table_report(source.tables[name]))


@app.command("train")
def train_command(
    recipe: Annotated[str, typer.Argument(help="A recipe by name (bonafide recipes) or path.")],
    out: Out,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value of the recipe, as section.key=value.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in this folder.")] = False,
) -> None:
    """Train a solver by a recipe; searches for the solutions first where the recipe names no store."""
    from bonafide.learn.recipe import read_recipe
    from bonafide.learn.trainer import train

    settings = read_recipe(recipe, overrides or ())
    with _searching(out / "solutions") as searching, _training(out) as watcher:
        train(settings, out, resume, watcher, (searching[1], searching[0]))
    typer.echo((out / "README.md").read_text(), err=True)


@app.command("recipes")
def recipes_command() -> None:
    """The recipes in the package."""
    from bonafide.learn.recipe import named_recipes

    for name in named_recipes():
        typer.echo(name)


@app.command("evaluate")
def evaluate_command(
    run: Annotated[Path, typer.Argument(help="A folder that train wrote.")],
    examples: Annotated[Path, typer.Option("--examples", help="Questions and answers, one JSON object a line.")],
    gold: Annotated[Path | None, typer.Option(help="gold.jsonl, for solution accuracy.")] = None,
    tables: Annotated[Path | None, typer.Option(help="tables.jsonl; by default the one beside the examples.")] = None,
    table: TableFiles = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the predictions.")] = None,
    beam: Annotated[int, typer.Option(help="1: greedy, as in the paper.", min=1)] = 1,
    execution_guided: Annotated[
        bool, typer.Option("--execution-guided", help="Leave out queries that return nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
) -> None:
    """How often a model's answers, and with gold its solutions, are right."""
    from bonafide.report.runs import evaluate_run
    from bonafide.report.terminal import evaluation_table

    with _working("Predicting") as progress:
        done = evaluate_run(run, examples, tables, table or (), gold, out, beam, execution_guided, progress)
    if as_json:
        typer.echo(_json(done.figures))
    else:
        Console().print(evaluation_table(done.figures))
        _tell(Console(stderr=True), f"[dim]Predictions are in {escape(str(out or run / 'predictions.jsonl'))}.[/dim]")


@app.command("predict")
def predict_command(
    run: Annotated[Path, typer.Argument(help="A folder that train wrote.")],
    question: Annotated[str, typer.Argument(help="Your question.")],
    table: TableFiles = None,
    types: Types = None,
    context: Annotated[str | None, typer.Option(help="Which table, where there are several.")] = None,
    top: Annotated[int, typer.Option(help="How many queries to show.", min=1)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Ask a question of your own table: the query, its answer, how sure the model is, and the alternatives."""
    from bonafide.learn.saved import load
    from bonafide.report.terminal import predictions_table
    from bonafide.tasks.sql.sources import open_tables

    source = open_tables(None, table or (), _types(types), context)
    if source.default is None:
        raise BonafideError(f"Say which table with --context: there are {', '.join(source.tables)}.")
    asked = source.tables[source.default]
    predictions = load(run).predict(asked, question, top=top)
    if as_json:
        lines = [
            {"sql": each.sql, "parameters": each.parameters, "answer": each.answer, "confidence": each.confidence}
            for each in predictions
        ]
        typer.echo(_json(lines))
    else:
        Console().print(predictions_table(question, asked, predictions))


@demos.command("sql")
def demo_sql_command(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of data and training.")] = 0,
) -> None:
    """Synthetic tables, every query that reaches each answer, HardEM and MIMAX side by side, and a page to look at."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from bonafide.report import page, terminal
    from bonafide.report.demo import demo_sql
    from bonafide.report.inspect import Inspection

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        names = {"search": "Search", "HardEM": "Train HardEM", "MIMAX": "Train MIMAX", "evaluate": "Evaluate"}
        bars = {key: progress.add_task(name, total=1.0) for key, name in names.items()}
        figures = demo_sql(out, seed, report=lambda key, share: progress.update(bars[key], completed=share))
    inspection = Inspection(out / "solutions")
    page.write_page(inspection, inspection.figures(out / "data/train/gold.jsonl"), out / "solutions.html")
    Console().print(terminal.comparison_table(figures))
    _tell(Console(), f"Open [bold]{escape(str(out / 'report.html'))}[/bold] and {escape(str(out / 'solutions.html'))}.")


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


@contextmanager
def _searching(out: Path) -> Iterator[tuple[Callable[[TableSource, int], None], Callable[[int, int], None]]]:
    """A progress bar for a search, and what to say when it is interrupted."""
    from bonafide.search.run import SearchWorkerDied

    console = Console(stderr=True)
    progress = _bar(console, "Searching", "examples · {task.fields[found]:,} solutions ·")
    found = 0

    def started(source: TableSource, count: int) -> None:
        changed = sum(each.count for path in _loaded(source) for each in path)
        if changed:
            files = escape(" ".join(shlex.quote(str(path)) for path in source.paths))
            _tell(console, f"[dim]Reading changed or noted {changed:,} cells: see bonafide table {files}[/dim]")
        progress.add_task("Searching", total=count, found=0)
        shown.enter_context(progress)  # not before: an error of input is all there is to see

    def advance(examples: int, solutions: int) -> None:
        nonlocal found
        found += solutions
        progress.update(progress.task_ids[0], advance=examples, found=found)

    try:
        with ExitStack() as shown:
            yield started, advance
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # we are on the way out
        where = escape(str(out))
        _tell(console, f"Stopped. What was finished is kept in {where}: run the same command again to go on.")
        sys.exit(130)
    except SearchWorkerDied as error:
        _say(str(error))
        sys.exit(1)


@contextmanager
def _training(out: Path) -> Iterator[Callable[[Any], None]]:
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
            _tell(console, f"[dim]step {moment.step}: {_figures(shown)}[/dim]")
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
        _tell(console, f"Stopped. Add --resume to go on from the last checkpoint in {escape(str(out))}.")
        sys.exit(130)
    finally:
        _end(progress)


@contextmanager
def _working(what: str) -> Iterator[Callable[[int, int], None]]:
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


def _end(progress: RichProgress) -> None:
    if progress.live.is_started:  # stopping what never started writes an empty line
        progress.stop()


def _figures(figures: dict[str, float]) -> str:
    return " ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in figures.items())


def _loaded(source: TableSource) -> Iterator[Any]:
    from bonafide.tasks.sql.sources import LoadedTables

    if isinstance(source.tables, LoadedTables):
        for table in source.tables.values():
            yield table.coercions


def _report_search(out: Path, manifest: dict[str, Any]) -> None:
    counts = manifest["counts"]
    console = Console(stderr=True)
    where = escape(str(out))
    _tell(
        console,
        f"{counts['solutions']:,} solutions of {counts['examples']:,} examples; "
        f"{counts['covered'] / counts['examples']:.2%} have at least one. Written to {where}.",
    )
    if counts["capped"]:
        _tell(
            console,
            f"[yellow]{counts['capped']:,} sets have more than {manifest['options']['cap']:,} solutions: of these a "
            "uniform sample is stored, with the true size.[/yellow]",
        )
    _tell(console, f"[dim]Look at them with: bonafide inspect {escape(shlex.quote(str(out)))}[/dim]")


def _types(given: list[str] | None) -> dict[str, ColumnType]:
    types: dict[str, ColumnType] = {}
    for each in given or []:
        column, equals, kind = each.rpartition("=")
        if not equals or kind not in ("text", "real"):
            raise BonafideError(f"--type takes 'column=text' or 'column=real'; found {each!r}.")
        types[column] = cast("ColumnType", kind)
    return types


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, indent=2)


def _tell(console: Console, message: str) -> None:
    console.print(message, soft_wrap=True)  # a path stays in one piece, to be copied


def _say(message: str) -> None:
    from rich.text import Text

    Console(stderr=True).print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=True)
