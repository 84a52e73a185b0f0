"""Where the SQL task's examples find their tables: ``tables.jsonl``, or the user's own files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bonafide.errors import BonafideError
from bonafide.examples import Check, DateAnswer, Example, answer_to_json, describe
from bonafide.files import content_hash, described
from bonafide.tasks.sql.columns import file_id
from bonafide.tasks.sql.tables import ColumnType, Table, TableFile


class Tables(Protocol):
    """Tables by name."""

    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> Table: ...
    def raw(self, name: str) -> bytes | Table:
        """What a worker needs to prepare this table."""
        ...


class LoadedTables(dict[str, Table]):
    """Tables that were read from CSV, Parquet or SQLite files and are held in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, int] = {}  # the table's file, by its place among those that were given

    def raw(self, name: str) -> Table:
        """The table itself."""
        return self[name]


@dataclass(frozen=True, slots=True)
class TableSource:
    """Tables, how they were named by the user, and the table of examples that name none."""

    tables: Tables
    paths: tuple[Path, ...]
    types: Mapping[str, ColumnType]
    default: str | None

    def table_of(self, example: Example) -> Table:
        """The example's table."""
        return self.tables[example.context if example.context is not None else self.default or ""]

    @property
    def check(self) -> Check:
        """What examples over these tables must fulfil."""

        def demands(example: Example) -> Iterator[tuple[str, str, str]]:
            if example.context is None and self.default is None:
                yield "context", self._names(), "nothing"
            elif example.context is not None and example.context not in self.tables:
                yield "context", self._names(), describe(example.context)
            for answer in example.answers:
                if isinstance(answer, (tuple, DateAnswer)):
                    yield "answers", "texts, numbers or null in the list", describe(answer_to_json(answer))

        return demands

    def description(self, store: Path) -> dict[str, Any]:
        """What a manifest says of these tables; paths are relative to the store."""
        several = {"files": self.tables.files} if isinstance(self.tables, LoadedTables) and len(self.paths) > 1 else {}
        return {
            "tables": described(self.paths, store),
            "jsonl": isinstance(self.tables, TableFile),
            "types": dict(self.types),
            "context": self.default,
            **several,  # which of the files a context names: the hashes of their contents do not say it
        }

    def _names(self) -> str:
        names = list(self.tables)
        if len(names) > 5:
            return f"one of the {len(names):,} tables of {self.paths[0].name}"
        return "the name of a table: " + ", ".join(map(repr, names))


def open_tables(
    tables: Path | None,
    files: Sequence[Path] = (),
    types: Mapping[str, ColumnType] | None = None,
    context: str | None = None,
    names: Sequence[str] = (),
) -> TableSource:
    """Tables from ``tables.jsonl``, or from CSV, Parquet and SQLite files whose tables go by their names.

    ``names``: what to call the table of each CSV or Parquet file, where it is not the name of the file.
    """
    if (tables is None) == (not files):
        raise BonafideError(
            "Say where the tables are: either --tables tables.jsonl (beside the examples it is found by itself) "
            "or --table with a CSV, Parquet or SQLite file."
        )
    source: Tables
    if tables is not None:
        if types:
            raise BonafideError("--type goes with --table; a tables.jsonl file states the types of its columns.")
        source = TableFile(tables)
        paths: tuple[Path, ...] = (tables,)
    else:
        from bonafide.tasks.sql.readers import read_files

        source = loaded = LoadedTables()
        for place, table in read_files(files, types or {}, names):
            if table.id in loaded:
                raise BonafideError(f"Two tables are called {table.id!r}; the second is in {files[place]}. Rename one.")
            loaded[table.id] = table
            loaded.files[table.id] = place
        paths = tuple(files)
    if context is not None and context not in source:
        raise BonafideError(f"--context names no table: expected one of {sorted(source)[:10]}, found {context!r}.")
    only = next(iter(source)) if files and len(source) == 1 else None
    default = context if context is not None else only
    return TableSource(source, paths, types or {}, default)


def as_options(files: Sequence[Path], types: Mapping[str, ColumnType]) -> str:
    """Tables as they are given on the command line."""
    return " ".join([*(f"--table {shlex.quote(str(path))}" for path in files), *_type_options(types)])


def shown_by(source: TableSource) -> str:
    """The command that shows how these tables were read."""
    return " ".join(
        ["bonafide table", *(shlex.quote(str(path)) for path in source.paths), *_type_options(source.types)]
    )


def _type_options(types: Mapping[str, ColumnType]) -> list[str]:
    return [f"--type {shlex.quote(f'{column}={kind}')}" for column, kind in types.items()]


def source_of_store(store: Path, inputs: dict[str, Any], tables: Path | None, files: Sequence[Path]) -> TableSource:
    """The tables that a store was searched over: where the manifest says they are, or where the user says."""
    recorded = [store / each["path"] for each in inputs["tables"]]
    given = [tables] if tables is not None else list(files)
    paths = given or recorded
    all_of_them = f"Give them all, in this order: {', '.join(path.name for path in recorded)}."
    if len(paths) != len(recorded):
        raise BonafideError(
            f"This store was searched over {len(recorded)} files of tables; {len(paths)} were given. {all_of_them}"
        )
    for path, each in zip(paths, inputs["tables"], strict=True):
        if not path.exists():
            raise BonafideError(
                f"The tables of this store are no longer at {path}. Say where they are now with --tables or --table."
            )
        if content_hash(path) != each["sha256"]:
            if path in given and content_hash(path) in [other["sha256"] for other in inputs["tables"]]:
                raise BonafideError(f"{path} is another of the files that this store was searched over. {all_of_them}")
            raise BonafideError(f"{path} is not the file that this store was searched over: its content differs.")
    jsonl = inputs["jsonl"]
    if jsonl:
        return open_tables(paths[0], (), inputs["types"], inputs["context"])
    # Contexts name the tables of CSV and Parquet files as the files were called when they were searched.
    return open_tables(None, paths, inputs["types"], inputs["context"], [file_id(path) for path in recorded])
