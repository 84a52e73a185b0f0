"""``bonafide search``, and what looks at its results and its inputs: ``retrieve``, ``inspect``, ``table``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.estimating import DryRun, show_estimate
from bonafide.cli.shown import Out, Types, as_text, column_types, searching, tell, working
from bonafide.errors import BonafideError

if TYPE_CHECKING:
    from bonafide.report.inspect import Inspection
    from bonafide.search.cluster import Cluster

app = typer.Typer(help="Find every solution that reaches the answer of each example.", no_args_is_help=True)
ExamplesFile = Annotated[
    str, typer.Option("--examples", help="Questions and answers, one JSON object a line: a file, or its URL.")
]
Store = Annotated[str, typer.Option("--out", help="Folder to write to, or its URL, such as s3://bucket/solutions.")]
DocumentsFile = Annotated[
    str | None, typer.Option("--documents", help="documents.jsonl, or its URL; by default the one beside the examples.")
]
TableUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--table", help="Your own table: a CSV, Parquet or SQLite file, or its URL. May be given several times."
    ),
]
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option(help="local: processes of this machine. ray: workers of a Ray cluster, with the same result."),
]
Address = Annotated[
    str | None,
    typer.Option(help="The Ray cluster, as host:port; else RAY_ADDRESS, else Ray is started on this machine."),
]


@app.command("sql")
def search_sql_command(
    examples: ExamplesFile,
    out: Store,
    tables: Annotated[
        str | None, typer.Option("--tables", help="tables.jsonl, or its URL; by default the one beside the examples.")
    ] = None,
    table: TableUrls = None,
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
    engine: EngineName = "local",
    address: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Every SQL query that returns the answer of each example."""
    from bonafide.search.places import Places
    from bonafide.search.sql import open_sql, search_sql
    from bonafide.tasks.sql.language import Language

    language = Language(aggregates, max_conditions, repeat_columns, order_text, unmatched_values, similar_cells)
    cluster = _cluster(engine, address)
    with Places() as places:
        beside = None if tables is not None or table else "tables.jsonl"
        folder = places.out(out)
        asked = (
            places.file(examples, beside), folder, places.maybe(tables), places.files(table), column_types(types),
            context, language, cap or None, seed,
        )  # fmt: skip
        if dry_run:
            show_estimate(open_sql(*asked), folder, workers, seed)
            return
        with searching(out) as (started, progress):
            manifest = search_sql(*asked, workers, progress, started, cluster, places)
    _report_search(out, manifest)


@app.command("discrete")
def search_discrete_command(
    examples: ExamplesFile,
    out: Store,
    documents: DocumentsFile = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="A rule that shall propose nothing, e.g. count. May be given several times."),
    ] = None,
    operands: Annotated[
        Literal["alike", "any"], typer.Option(help="alike: numbers of one kind go together. any: all do.")
    ] = "alike",
    max_operands: Annotated[int, typer.Option(help="Most operands of arithmetic, up to 3.")] = 3,
    constants: Annotated[
        list[int] | None,
        typer.Option(
            "--constant",
            help="A number that need not stand in the passage; those that are given replace 100, 1, 2, 3, 10 and 12.",
        ),
    ] = None,
    question_numbers: Annotated[
        bool, typer.Option("--question-numbers/--no-question-numbers", help="Numbers of the question are operands.")
    ] = True,
    max_choices: Annotated[int, typer.Option(help="Most choices of mentions that a rule proposes.")] = 35,
    cap: Annotated[
        int, typer.Option(help="Store a uniform sample of this many where an example has more; 0: no cap.", min=0)
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of that sample.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that search.", min=1)] = 1,
    engine: EngineName = "local",
    address: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Every program over numbers, dates and spans that returns an accepted answer of each example."""
    from bonafide.search.discrete import open_discrete, search_discrete
    from bonafide.search.places import Places
    from bonafide.tasks.discrete.language import Language, rules_without

    language = Language(
        tuple(constants) if constants else Language().constants, max_operands, operands, question_numbers,
        max_choices=max_choices, rules=rules_without(without or ()),
    )  # fmt: skip
    cluster = _cluster(engine, address)
    with Places() as places:
        beside = None if documents is not None else "documents.jsonl"
        folder = places.out(out)
        asked = places.file(examples, beside), folder, places.maybe(documents), language, cap or None, seed
        if dry_run:
            show_estimate(open_discrete(*asked), folder, workers, seed)
            return
        with searching(out) as (started, progress):
            manifest = search_discrete(*asked, workers, progress, started, cluster, places)
    _report_search(out, manifest)


@app.command("reading")
def search_reading_command(
    examples: ExamplesFile,
    out: Store,
    documents: DocumentsFile = None,
    case: Annotated[bool, typer.Option("--case/--exact-case", help="Upper and lower case are the same.")] = True,
    unicode: Annotated[
        bool, typer.Option("--unicode/--exact-unicode", help="Compatible forms of a character are the same.")
    ] = True,
    punctuation: Annotated[
        bool, typer.Option("--punctuation/--exact-punctuation", help="Punctuation and signs do not count.")
    ] = True,
    articles: Annotated[bool, typer.Option("--articles/--exact-articles", help="Articles do not count.")] = True,
    boundaries: Annotated[
        bool, typer.Option("--boundaries/--no-boundaries", help="Mentions begin and end where tokens do.")
    ] = True,
    cap: Annotated[
        int, typer.Option(help="Store a uniform sample of this many where an example has more; 0: no cap.", min=0)
    ] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of that sample.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes that search.", min=1)] = 1,
    engine: EngineName = "local",
    address: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Every mention of the accepted answers of each example in its document."""
    from bonafide.search.places import Places
    from bonafide.search.reading import open_reading, search_reading
    from bonafide.tasks.reading.matching import Matching

    matching = Matching(case, unicode, punctuation, articles, boundaries)
    cluster = _cluster(engine, address)
    with Places() as places:
        beside = None if documents is not None else "documents.jsonl"
        folder = places.out(out)
        asked = places.file(examples, beside), folder, places.maybe(documents), matching, cap or None, seed
        if dry_run:
            show_estimate(open_reading(*asked), folder, workers, seed)
            return
        with searching(out) as (started, progress):
            manifest = search_reading(*asked, workers, progress, started, cluster, places)
    _report_search(out, manifest)


def retrieve_command(
    corpus: Annotated[Path, typer.Option("--corpus", help="Passages: id, title and text a line.")],
    examples: Annotated[Path, typer.Option("--examples", help="Questions and answers, one JSON object a line.")],
    out: Out,
    top: Annotated[int, typer.Option(help="Passages a question.", min=1)] = 50,
    group: Annotated[
        int, typer.Option(help="Passages to a paragraph; 0: all in one. The paper: 5 for WebQuestions.", min=0)
    ] = 1,
    index: Annotated[Path | None, typer.Option(help="Folder of the index; by default index in --out.")] = None,
    workers: Annotated[int, typer.Option(help="Threads that retrieve.", min=1)] = 1,
) -> None:
    """Give each question a document: its best passages of a corpus, by BM25."""
    from bonafide.retrieve import retrieve

    with working("Retrieving") as progress:
        done = retrieve(corpus, examples, out, top, group, index, workers=workers, progress=progress)
    used = "an index that was there" if done.reused else "a new index"
    message = f"{done.examples:,} questions, each with its passages of {done.passages:,}, by {used}."
    tell(Console(stderr=True), f"{message} Written to {escape(str(out))}.")
    if done.without:
        tell(Console(stderr=True), f"[yellow]{done.without:,} questions share no word with the corpus.[/yellow]")


def inspect_command(
    store: Annotated[str, typer.Argument(help="A folder that search wrote, or its URL.")],
    example: Annotated[str | None, typer.Option(help="Show every solution of this example.")] = None,
    gold: Annotated[str | None, typer.Option(help="gold.jsonl, to see how often the gold query was found.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as one JSON object.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="Every solution as a line of JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page to look at.")] = None,
    examples: Annotated[str | None, typer.Option(help="Where the examples are, if they were moved.")] = None,
    tables: Annotated[str | None, typer.Option(help="Where tables.jsonl is, if it was moved.")] = None,
    table: TableUrls = None,
) -> None:
    """Coverage, sizes and solutions of a store of queries; explore shows those of every task."""
    from bonafide.report.inspect import Inspection
    from bonafide.search.places import Places

    if (as_list or example is not None) and (as_json or gold is not None or html is not None):
        raise BonafideError("--json, --gold and --html are of a whole store: leave --example and --list out.")
    with Places() as places:
        inspection = Inspection(
            places.finished(store), places.maybe(examples), places.maybe(tables), tuple(places.files(table))
        )
        _show_inspection(inspection, store, example, places.maybe(gold), as_json, as_list, html)


def _show_inspection(
    inspection: Inspection,
    store: str,
    example: str | None,
    gold: Path | None,
    as_json: bool,
    as_list: bool,
    html: Path | None,
) -> None:
    from bonafide.report import page, terminal

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
        typer.echo(as_text(figures))
        return
    console.print(terminal.overview(inspection, figures))
    if html is not None:
        tell(console, f"Page written to {escape(str(html))}.")


def table_command(
    files: Annotated[list[Path], typer.Argument(help="CSV, Parquet or SQLite files.")],
    types: Types = None,
) -> None:
    """How your table is read: columns, types, and what reading changed."""
    from bonafide.report.terminal import table_report
    from bonafide.tasks.sql.sources import open_tables

    source = open_tables(None, files, column_types(types))
    for name in source.tables:
        Console().print(table_report(source.tables[name]))


def _cluster(engine: str, address: str | None) -> Cluster | None:
    from bonafide.search.cluster import Cluster

    if engine == "ray":
        return Cluster(address)
    if address is not None:
        raise BonafideError(f"--address {address} goes with --engine ray; --engine is {engine}.")
    return None


def _report_search(out: str, manifest: dict[str, Any]) -> None:
    counts = manifest["counts"]
    console = Console(stderr=True)
    where = escape(out)
    tell(
        console,
        f"{counts['solutions']:,} solutions of {counts['examples']:,} examples; "
        f"{counts['covered'] / counts['examples']:.2%} have at least one. Written to {where}.",
    )
    if counts["capped"]:
        tell(
            console,
            f"[yellow]{counts['capped']:,} sets have more than {manifest['options']['cap']:,} solutions: of these a "
            "uniform sample is stored, with the true size.[/yellow]",
        )
    if manifest["task"] == "sql":
        tell(console, f"[dim]Look at them with: bonafide inspect {escape(shlex.quote(out))}[/dim]")
