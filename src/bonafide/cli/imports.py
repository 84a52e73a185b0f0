"""``bonafide import``: public data sets, and your own pairs, into our own files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.shown import Out, Types, column_types, tell

if TYPE_CHECKING:
    from bonafide.tasks.reading.imported import Imported

app = typer.Typer(
    help="Turn a public data set, or your own pairs, into examples, contexts and gold.", no_args_is_help=True
)


@app.command("wikisql")
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
    tell(console, f"{done.examples:,} examples on {done.tables:,} tables, written to {escape(str(out))}.")
    console.print("[dim]The answers come from the gold queries, which are in gold.jsonl alone, for evaluation.[/dim]")
    if done.empty_answers:
        console.print(f"[dim]{done.empty_answers:,} gold queries select no row: their answer is the empty list.[/dim]")
    if done.renamed_columns:
        console.print(f"[dim]{done.renamed_columns:,} empty or repeated column names were made unique.[/dim]")


@app.command("pairs")
def import_pairs_command(
    pairs: Annotated[Path, typer.Argument(help='Lines {"question": …, "answer": …}, as train --table takes them.')],
    table: Annotated[
        list[Path],
        typer.Option("--table", help="The tables asked about: CSV, Parquet or SQLite. May be given several times."),
    ],
    out: Out,
    types: Types = None,
) -> None:
    """Pairs on your own tables into examples.jsonl and tables.jsonl, for every other command."""
    from bonafide.own.pairs import import_pairs

    console = Console(stderr=True)
    read = import_pairs(pairs, table, out, column_types(types))
    tell(console, f"{len(read.examples):,} examples, written to {escape(str(out))}.")
    for note, times in read.notes.items():
        tell(console, f"[yellow]{times:,} {note}.[/yellow]")


@app.command("drop")
def import_drop_command(
    path: Annotated[Path, typer.Argument(help="DROP's JSON, e.g. drop_dataset_train.json (also .gz, .xz).")],
    out: Out,
) -> None:
    """DROP's own JSON into examples.jsonl and documents.jsonl."""
    from bonafide.tasks.discrete.drop import import_drop

    console = Console(stderr=True)
    done = import_drop(path, out)
    tell(console, f"{done.examples:,} examples on {done.documents:,} passages, written to {escape(str(out))}.")
    for reason, count in done.reasons().items():
        first = next(each.place for each in done.left_out if each.reason == reason)
        tell(console, f"[yellow]Left out: {reason}, {count:,} time(s), first {escape(first)}.[/yellow]")


@app.command("squad")
def import_squad_command(
    path: Annotated[Path, typer.Argument(help="SQuAD's JSON, v1.1 or v2.0 (also .gz, .xz).")],
    out: Out,
    level: Annotated[
        Literal["article", "paragraph"], typer.Option(help="What a document is; articles have many mentions.")
    ] = "article",
) -> None:
    """SQuAD's own JSON into examples.jsonl, documents.jsonl and gold.jsonl."""
    from bonafide.tasks.reading.squad import import_squad

    _report_import(out, import_squad(path, out, level))


@app.command("squad-article")
def import_squad_article_command(
    questions: Annotated[Path, typer.Argument(help="Questions: id, question, document and answers a line.")],
    documents: Annotated[Path, typer.Argument(help="Documents: id, title and paragraphs a line.")],
    out: Out,
    gold: Annotated[Path | None, typer.Option(help="Gold: id, paragraph and spans a line.")] = None,
) -> None:
    """SQuAD at article level, in a file each for questions, documents and gold."""
    from bonafide.tasks.reading.squad import import_squad_article

    _report_import(out, import_squad_article(questions, documents, out, gold))


@app.command("quasar-t")
def import_quasar_command(
    questions: Annotated[Path, typer.Argument(help="Quasar-T's questions, e.g. train_questions.json.gz.")],
    contexts: Annotated[Path, typer.Argument(help="Quasar-T's contexts, e.g. train_contexts.json.gz.")],
    out: Out,
    group: Annotated[int, typer.Option(help="Sentences to a paragraph; 0: all, as the paper.", min=0)] = 0,
) -> None:
    """Quasar-T's official files into examples.jsonl and documents.jsonl."""
    from bonafide.tasks.reading.quasar import import_quasar

    _report_import(out, import_quasar(questions, contexts, out, group))


@app.command("webquestions")
def import_webquestions_command(
    path: Annotated[Path, typer.Argument(help="WebQuestions' JSON, or question and answers a line.")],
    out: Out,
    held_out: Annotated[
        float, typer.Option(help="Hold out such a share as dev, e.g. 0.1; the folders train and dev are written then.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of what is held out.")] = 0,
) -> None:
    """WebQuestions into examples.jsonl; give them documents with bonafide retrieve."""
    from bonafide.tasks.reading.webquestions import import_webquestions

    _report_import(out, import_webquestions(path, out, held_out, seed))


@app.command("dpr")
def import_dpr_command(
    path: Annotated[Path, typer.Argument(help="DPR's JSON: questions with answers and ctxs.")],
    out: Out,
    top: Annotated[int, typer.Option(help="At most so many passages a question.", min=1)] = 50,
    group: Annotated[int, typer.Option(help="Passages to a paragraph; 0: all in one.", min=0)] = 1,
) -> None:
    """Retrieval results in DPR's JSON into examples.jsonl and documents.jsonl."""
    from bonafide.tasks.reading.dpr import import_dpr

    _report_import(out, import_dpr(path, out, top, group))


def _report_import(out: Path, done: Imported) -> None:
    console = Console(stderr=True)
    documents = f" on {done.documents:,} documents" if done.documents else ", which have no documents yet"
    folders = escape(str(out / "train" if done.held_out else out))
    tell(console, f"{done.examples:,} examples{documents}, written to {folders}.")
    if done.held_out:
        tell(console, f"{done.held_out:,} others are held out, in {escape(str(out / 'dev'))}.")
    if done.left_out:
        tell(console, f"[dim]{done.left_out:,} questions without an answer were left out.[/dim]")
