"""Files of tables that tests write, and what reading them gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bonafide.errors import BonafideError
from bonafide.tasks.sql.readers import read_tables
from bonafide.tasks.sql.tables import Table

FILE_FOR_EACH_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read(folder: Path, content: str | bytes, name: str = "sales.csv", **options: Any) -> Table:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (table,) = read_tables(path, **options).values()
    return table


def refused(folder: Path, content: str | bytes, name: str = "sales.csv", **options: Any) -> str:
    """The one paragraph with which a file is refused."""
    with pytest.raises(BonafideError) as caught:
        read(folder, content, name, **options)
    message = str(caught.value)
    assert name in message
    assert "\n" not in message
    return message


def is_read_or_explained(path: Path) -> bool:
    try:
        tables = read_tables(path).values()
    except BonafideError as error:
        return str(path) in str(error)
    return all(table.rows and len(table.columns) == len(table.header) for table in tables)


def kinds(table: Table) -> dict[tuple[str, str], int]:
    return {(coercion.column, coercion.kind): coercion.count for coercion in table.coercions}
