"""Real SQLite, for one table at a time: the judge that the fast executor is held to.

A connection can read and do nothing else: an authorizer refuses every action but reading and calling
functions, no database can be attached, no extension loaded, and a statement that works too long is
stopped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from types import TracebackType

from bonafide.errors import BonafideError
from bonafide.tasks.sql.query import quoted
from bonafide.tasks.sql.tables import Table, Value

WORK_LIMIT = 200_000_000
"""How many SQLite instructions one statement may take: some seconds of work."""
_STEP = 100_000
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


class Engine:
    """A table in an in-memory SQLite database that can only be read."""

    def __init__(self, table: Table, work_limit: int = WORK_LIMIT) -> None:
        self._limit = work_limit // _STEP
        self._steps = 0
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        columns = ", ".join(
            f"{quoted(name)} {kind.upper()}" for name, kind in zip(table.sql_names, table.types, strict=True)
        )
        self._connection.execute(f"CREATE TABLE {quoted(table.id)} ({columns})")
        marks = ", ".join("?" * len(table.header))
        cells = zip(*(column.cells for column in table.columns), strict=True)
        self._connection.execute("BEGIN")
        self._connection.executemany(f"INSERT INTO {quoted(table.id)} VALUES ({marks})", cells)
        self._connection.execute("COMMIT")
        restrict(self._connection)
        self._connection.set_progress_handler(self._count, _STEP)

    def run(self, sql: str, parameters: Sequence[str | float] = ()) -> list[Value]:
        """The first column of the result, in row order."""
        self._steps = 0
        try:
            return [row[0] for row in self._connection.execute(sql, parameters)]
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                raise BonafideError(f"This query was stopped because it takes too long: {sql}") from None
            raise BonafideError(f"SQLite cannot run this query ({error}): {sql}") from None
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise BonafideError(f"SQLite refuses this query ({error}): {sql}") from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count(self) -> int:
        self._steps += 1
        return self._steps > self._limit


def restrict(connection: sqlite3.Connection) -> None:
    """Take from a connection everything but reading."""
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)
