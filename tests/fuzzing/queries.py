"""Random tables and queries, full of what SQLite and Python see differently, and whether both executors agree."""

from __future__ import annotations

from random import Random
from typing import Any

from bonafide.errors import BonafideError
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.query import Aggregate, Query, execute, parse_query, same_answer, selected_rows
from bonafide.tasks.sql.tables import Cell, Table

QUERIES_OF_A_TABLE = 40

_TEXTS: list[Cell] = [
    None, "", " ", "Oslo", "oslo", "OSLO", "ÖSTERSUND", "östersund", "İ", "ı", "ß", "STRASSE", "Straße", "Σ", "ς", "é",
    "e\u0301", "😀", "\uffff", "a\0b", "'", '"', "%", "_", "NULL", "true", "1", "1.0", "01", "+1", "1e2", "100",
    "12abc", "-5",
    "−5", "9", "10", "0x10", " 7", "7 ", "\t7", "\u00a07", "1,000", "nan", "inf", "-inf", "1e400", "-1e400", "9" * 25,
    "-0", "0", ".5",
    "5.", "e5", "٣", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0" * 5000 + "7",
    "7" * 5000, 1, 2.5, -3, 10**15, 1e20,
]  # fmt: skip
_REALS: list[Cell] = [
    None, 0, 1, 2, 3, 3, -1, -2.5, 0.1, 0.2, 0.3, 10, 9, 1e15, 9e299, -9e299, 2**53, 2**53 + 1, 2**63, -(2**63),
    1e-300, 5e-324,
    -0.0, 0.5, 1 / 3, 1990, 1990.0, "n/a", "N/A", "", " ", "x", "7.", ".5", "1e3", " 5 ", "+3", "-", "0x1f", "١", "5\0",
    "\u00a05", "1,5", "12abc", "é", "inf", "nan", "1e999", " -1E400 ", "7" * 400, "1e999 x", "1e-999",
]  # fmt: skip
_VALUES: list[Any] = [*_TEXTS, *_REALS, "-7 km", "$1,000", "2008-09", "n/a "]
_HEADER = ['a "b', "", "SELECT", "Größe", "größe", "rowid", "a\0", "x" * 80]


def random_table(chance: Random) -> Table:
    """A small table: empty ones, repeated rows and columns that hold one value alone are common."""
    from bonafide.tasks.sql.tables import unique_names

    width = chance.randint(1, 4)
    types = tuple(chance.choice(("text", "real")) for _ in range(width))
    pools = [chance.sample(_TEXTS if kind == "text" else _REALS, chance.choice((1, 2, 4, 8))) for kind in types]
    rows = [tuple(map(chance.choice, pools)) for _ in range(chance.choice((0, 1, 2, 3, 5, 8, 8, 20)))]
    header, _ = unique_names([chance.choice(_HEADER) for _ in types])
    return Table(chance.choice(("t", 'odd "name"', "1-10")), header, types, rows)


def random_query(table: Table, chance: Random) -> Query:
    """A query on a table; most of its values stand in the column that they are compared with."""

    def value(column: int) -> Any:
        cells = [row[column] for row in table.rows if row[column] is not None]
        picked = chance.choice(cells) if cells and chance.random() < 0.7 else chance.choice(_VALUES)
        if isinstance(picked, str) and chance.random() < 0.3:
            return chance.choice((picked.upper(), picked.lower(), picked + " ", f" {picked}"))
        if isinstance(picked, (int, float)) and chance.random() < 0.3:
            return chance.choice((str(picked), picked + 1, -picked, f"{picked:.2f}"))
        return "" if picked is None else picked

    columns = [chance.randrange(len(table.header)) for _ in range(chance.choice((0, 0, 1, 1, 1, 1, 2, 3, 4)))]
    conditions = [[column, chance.randrange(3), value(column)] for column in columns]
    chosen = {"sel": chance.randrange(len(table.header)), "agg": chance.randrange(6), "conds": conditions}
    return parse_query(chosen, table)


def disagreement(table: Table, query: Query, engine: Engine) -> str | None:
    """What the fast executor and real SQLite say of a query where it is not the same; None where it is."""
    fast = execute(query, table)
    try:
        real = engine.run(*query.to_sql(table))
    except BonafideError as error:
        return None if fast is None and "overflow" in str(error) else f"{query}: {fast}, SQLite: {error}"
    if fast is not None and _agree(fast, real, query, table):
        return None
    return f"{query} on {table.types} {table.rows}: {fast}, SQLite: {real}"


def _agree(fast: list[Any], real: list[Any], query: Query, table: Table) -> bool:
    """Exactly, but for sums: these may differ in the last digits, by what is added up."""
    if query.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        return [(isinstance(each, str), each) for each in fast] == [(isinstance(each, str), each) for each in real]
    if same_answer(fast, real):
        return True
    if None in fast or None in real:
        return False
    weight = float(abs(table.columns[query.select].summands[selected_rows(query, table)]).sum())
    return abs(fast[0] - real[0]) <= 1e-12 * weight


def compared(count: int, seed: int) -> tuple[int, list[str]]:
    """So many random queries by both executors: how many were run, and every disagreement."""
    chance = Random(f"{seed}/queries")
    done, found = 0, []
    while done < count:
        table = random_table(chance)
        with Engine(table) as engine:
            for _ in range(min(QUERIES_OF_A_TABLE, count - done)):
                said = disagreement(table, random_query(table, chance), engine)
                done += 1
                if said is not None:
                    found.append(said)
    return done, found
