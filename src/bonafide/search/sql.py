"""Search for SQL queries: ``bonafide search sql``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import open_examples
from bonafide.files import described, open_bytes
from bonafide.search.cluster import Cluster
from bonafide.search.places import Places
from bonafide.search.run import Inputs, Progress, run_search
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.sources import TableSource, open_tables
from bonafide.tasks.sql.tables import ColumnType
from bonafide.tasks.sql.task import SqlTask

DEFAULT_CAP = 1_000_000


def search_sql(
    examples: Path,
    out: Path,
    tables: Path | None = None,
    table: Sequence[Path] = (),
    types: Mapping[str, ColumnType] | None = None,
    context: str | None = None,
    language: Language | None = None,
    cap: int | None = DEFAULT_CAP,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
    started: Callable[[TableSource, int], None] | None = None,
    cluster: Cluster | None = None,
    places: Places | None = None,
) -> dict[str, Any]:
    """Find every query that returns each example's answer, and store them at ``out``; returns the manifest.

    The tables are ``tables`` (a ``tables.jsonl``; found beside the examples if neither is given) or ``table``
    (CSV, Parquet or SQLite files). ``started`` is told the tables and the number of examples once both are
    known to be valid.
    """
    if workers < 1:
        raise BonafideError(f"At least one worker is needed; --workers is {workers}.")
    task, inputs = open_sql(examples, out, tables, table, types, context, language, cap, seed, started)
    return run_search(task, inputs, out, workers, progress, cluster, places)


def open_sql(
    examples: Path,
    out: Path,
    tables: Path | None = None,
    table: Sequence[Path] = (),
    types: Mapping[str, ColumnType] | None = None,
    context: str | None = None,
    language: Language | None = None,
    cap: int | None = DEFAULT_CAP,
    seed: int = 0,
    started: Callable[[TableSource, int], None] | None = None,
) -> tuple[SqlTask, Inputs]:
    """The search that these options of :func:`search_sql` ask for, its inputs validated; nothing is written."""
    language = language or Language()
    if not 0 <= language.max_conditions <= 4:
        raise BonafideError(f"A query has 0 to 4 conditions; --max-conditions is {language.max_conditions}.")
    if tables is None and not table:
        tables = tables_beside(examples)
    source = open_tables(tables, table, types, context)
    opened = open_examples(examples, source.check)
    if started is not None:
        started(source, opened.count)
    description = {"examples": described([examples], out), **source.description(out)}
    return SqlTask(language, cap, seed), Inputs(opened, source.tables, source.default, description)


def tables_beside(examples: Path) -> Path | None:
    """``tables.jsonl`` in the folder of the examples, plain or compressed."""
    with open_bytes(examples):  # its errors first: where there are no examples, no tables are missed
        pass
    for suffix in ("", ".gz", ".xz"):
        path = examples.parent / f"tables.jsonl{suffix}"
        if path.exists():
            return path
    return None
