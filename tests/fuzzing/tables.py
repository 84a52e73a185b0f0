"""Readers of tables, and of WikiSQL."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path

from bonafide.errors import BonafideError
from bonafide.examples import open_examples, read_gold
from bonafide.tasks.sql.readers import read_tables
from bonafide.tasks.sql.tables import TableFile
from bonafide.tasks.sql.wikisql import import_wikisql
from fuzzing.contract import BrokenContractError, Target

TABLES = [
    {
        "id": "1-10",
        "header": ["Player", "Goals", "Club"],
        "types": ["text", "real", "text"],
        "rows": [["Ann Lee", 12, "Oslo"], ["Bo Ray", 7.5, "Riga"], ["Cy", "n/a", None]],
    },
    {"id": "1-11", "header": ["Year", "year"], "types": ["real", "text"], "rows": [[1990, "1,990"], [-2, ""]]},
]
QUESTIONS = [
    {"question": "goals of ann lee?", "table_id": "1-10", "sql": {"sel": 1, "agg": 1, "conds": [[0, 0, "Ann Lee"]]}},
    {"question": "how many", "table_id": "1-11", "sql": {"sel": 0, "agg": 3, "conds": [[0, 1, 5], [1, 2, "x"]]}},
    {"question": "sum?", "table_id": "1-11", "sql": {"sel": 0, "agg": 4, "conds": []}},
]
CSVS = [
    b'city,price,day\nOslo,"1,200",2024-01-02\nLyon,350,2024-02-03\n,,\n',
    b"a;b;c\n1,5;x;(3)\n2,5;y;4%\n",
    b'name\tvalue\n"x ""y"""\t$3.50\nz\t-\n',
    "Ort|Größe\nKöln|1.234,5\n".encode("cp1252"),
    "a,b\n1,é\n".encode("utf-16"),
    b'a, "b c", d\r\n1, "x, y", 2\r\n',
    b"one\n1\n2\nthree\n",
    b"a,b,a,\n" + b"".join(b"%d,%d.5,x%d,\n" % (each, each, each) for each in range(40)),
]


def csv(folder: Path) -> Target:
    """CSV and its relatives."""
    path = folder / "prices.csv"
    return Target(lambda data: _tables(path, data), CSVS, path.name, as_json=False)


def parquet(folder: Path) -> Target:
    """Parquet files."""
    import datetime

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "number": [1, 2, None], "share": [0.5, float("nan"), 1e300], "text": ["x", None, "é"], "yes": [True, None,
        False],
        "day": [datetime.date(2024, 1, 2), None, datetime.date(1, 1, 1)],
        "time": [datetime.datetime(2024, 1, 2, 3, 4, 5, 6), None, datetime.datetime(1, 1, 1)],
    }  # fmt: skip
    small = pa.table({"a": pa.array([1.5, 2.5], pa.float32()), "b": pa.array(["x", "x"]).dictionary_encode()})
    nested = pa.table({"a": [[1], [2, 3]], "b": [{"c": 1}, {"c": 2}]})
    seeds = []
    for table, compression in (
        (pa.table(columns), "none"),
        (pa.table(columns), "snappy"),
        (small, "zstd"),
        (nested, "none"),
    ):
        stream = io.BytesIO()
        pq.write_table(table, stream, compression=compression, write_page_checksum=compression == "zstd")
        seeds.append(stream.getvalue())
    path = folder / "prices.parquet"
    return Target(lambda data: _tables(path, data), seeds, path.name, as_json=False)


def sqlite(folder: Path) -> Target:
    """SQLite files."""
    script = """PRAGMA page_size = 512;
        CREATE TABLE sold (id INTEGER PRIMARY KEY, city TEXT, price REAL, day DATE, blobbed BLOB);
        CREATE TABLE empty (a);
        CREATE TABLE "odd "" name" ("a b", [c]) ;
        CREATE VIEW dear AS SELECT city, price * 2 AS twice FROM sold WHERE price > 1;
        CREATE INDEX by_city ON sold (city);
        INSERT INTO "odd "" name" VALUES (1, 'x'), (NULL, x'ff');"""
    source = folder / "source.db"
    seeds = []
    for rows in (1, 60):
        source.unlink(missing_ok=True)
        connection = sqlite3.connect(source)
        connection.executescript(script)
        made = ((f"city {each}", each / 4, "2024-01-02", b"\xff\x00") for each in range(rows))
        connection.executemany("INSERT INTO sold (city, price, day, blobbed) VALUES (?, ?, ?, ?)", made)
        connection.commit()
        connection.close()
        seeds.append(source.read_bytes())
    path = folder / "shop.db"
    return Target(lambda data: _tables(path, data), seeds, path.name, as_json=False)


def tables_jsonl(folder: Path) -> Target:
    """``tables.jsonl``."""
    path = folder / "tables.jsonl"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        tables = TableFile(path)
        for name in tables:
            tables[name].codes  # noqa: B018 (the columns as queries see them)

    return Target(read, [lines(TABLES), lines(TABLES[:1])], path.name)


def wikisql(folder: Path) -> Target:
    """WikiSQL's questions, on tables that are right."""
    tables, path = folder / "dev.tables.jsonl", folder / "dev.jsonl"
    tables.write_bytes(lines(TABLES))

    def read(data: bytes) -> None:
        path.write_bytes(data)
        import_wikisql(path, tables, folder / "out")
        try:
            open_examples(folder / "out" / "examples.jsonl")
            read_gold(folder / "out" / "gold.jsonl")
            TableFile(folder / "out" / "tables.jsonl")
        except BonafideError as error:
            raise BrokenContractError(f"what was written cannot be read: {str(error)[-120:]}") from error

    return Target(read, [lines(QUESTIONS), lines(QUESTIONS[:1])], path.name)


def lines(values: list[dict[str, object]]) -> bytes:
    """Values as JSON lines."""
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in values)


def _tables(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for table in read_tables(path).values():
        for column in table.columns:
            column.summands  # noqa: B018
