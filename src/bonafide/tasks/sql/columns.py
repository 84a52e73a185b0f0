"""Columns that were read from a file, of any kind, into a table: their names, and the types that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bonafide.errors import BonafideError
from bonafide.files import bare_name
from bonafide.tasks.sql.tables import Cell, Coercion, ColumnType, Table, stored_names, unique_names

FIELD_LIMIT = 10_000_000
"""Characters of the longest cell."""
COLUMN_LIMIT = 2000
"""Columns of the widest table: SQLite's own limit."""
FILE = "(file)"
"""In place of a column, for what reading changed in the file as a whole."""

ReadColumn = tuple[ColumnType, list[Cell], list[Coercion]]


def header_of(path: Path, titles: Sequence[str]) -> tuple[tuple[str, ...], list[Coercion]]:
    """Column names that SQLite accepts, and what was changed in them."""
    if len(titles) > COLUMN_LIMIT:
        raise BonafideError(
            f"Cannot read {path}: it has {len(titles):,} columns; expected at most {COLUMN_LIMIT:,}, as in "
            f"SQLite. Keep the columns that the questions ask about, or turn the table so that they are rows."
        )
    names, coercions = unique_names(titles)
    trimmed = [
        Coercion(name, "white space in name", 1, f"{title!r} → {name!r}")
        for name, title in zip(names, titles, strict=True)
        if title != title.strip()
    ]
    return names, [*trimmed, *coercions]


def wanted_types(header: Sequence[str], types: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The overrides of one table, by the exact name first and else without regard to case."""
    folded = {column.lower(): kind for column, kind in types.items()}
    return {name: types.get(name, folded[name.lower()]) for name in header if name.lower() in folded}


def table_of(
    name: str,
    titles: Sequence[str],
    header: tuple[str, ...],
    columns: Sequence[ReadColumn],
    coercions: Sequence[Coercion],
) -> Table:
    """The table of these columns; ``titles`` are their names in the file."""
    rows = list(zip(*(cells for _, cells, _ in columns), strict=True))
    changed = [coercion for _, _, column in columns for coercion in column]
    types = tuple(kind for kind, _, _ in columns)
    return Table(name, header, types, rows, (*coercions, *changed), stored_names(titles, header))


def file_id(path: Path) -> str:
    """What the table of a file is called that gives it no name."""
    return bare_name(path) or path.name


def empty(path: Path, found: str) -> BonafideError:
    """The error of a file that holds no table."""
    return BonafideError(
        f"Cannot read {path}: the table is empty: expected a header and at least one row, {found}. "
        f"Check that this is the right file."
    )


def damaged(path: Path, kind: str, error: BaseException) -> BonafideError:
    """The error of a file that its own library cannot read."""
    reason = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
    return BonafideError(
        f"Cannot read {path} as a {kind} file: {reason}. The file may be damaged or cut short: copy it again."
    )
