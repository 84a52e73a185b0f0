"""Parquet and SQLite files into tables."""

from __future__ import annotations

import datetime
import gzip
import io
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.report.inspect import bound_sql
from bonafide.tasks.sql import readers
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, answer_as_written
from bonafide.tasks.sql.readers import read_tables
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Coercion, Table
from table_files import FILE_FOR_EACH_EXAMPLE, is_read_or_explained, kinds, read, refused

# --- Parquet ---


def parquet(folder: Path, columns: dict[str, Any], name: str = "sales.parquet", **options: Any) -> Table:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return read(folder, stream.getvalue(), name, **options)


def test_parquet_numbers_are_real_and_text_stays_as_stored_whatever_the_name(tmp_path: Path) -> None:
    columns = {
        "whole": pa.array([1, None], pa.int16()),
        "half": [0.5, float("nan")],
        "text": ["1,200", " x "],
        "money": pa.array([Decimal("1.10"), None], pa.decimal128(9, 2)),
        "count": pa.array([Decimal(12), Decimal(13)], pa.decimal128(9, 0)),
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "none": pa.nulls(2),
    }
    table = parquet(tmp_path, columns, "sales.csv")
    assert table.id == "sales"
    assert table.types == ("real", "real", "text", "real", "real", "text", "text")
    assert table.rows == [(1, 0.5, "1,200", 1.1, 12, "a", None), (None, None, " x ", None, 13, "b", None)]
    assert table.coercions == (Coercion("half", "NaN", 1, "nan → NULL"),)


def test_parquet_numbers_of_fewer_or_more_digits_than_floats_are_counted(tmp_path: Path) -> None:
    long = pa.array([Decimal("0.12345678901234567890")], pa.decimal128(38, 20))
    table = parquet(tmp_path, {"single": pa.array([0.1], pa.float32()), "long": long})
    assert table.rows == [(0.1, 0.12345678901234568)]
    assert kinds(table) == {("single", "single precision"): 1, ("long", "rounded"): 1}


def test_parquet_truth_values_dates_and_times_are_text_and_counted(tmp_path: Path) -> None:
    moment = datetime.datetime(2020, 1, 31, 10, 20, 30)
    columns = {
        "yes": [True, None],
        "day": [moment.date(), None],
        "clock": [moment.time(), None],
        "moment": pa.array([moment, None], pa.timestamp("ns")),
        "zone": pa.array([moment, None], pa.timestamp("us", "+02:00")),
        "exact": pa.array([moment.replace(microsecond=250_000), None], pa.timestamp("ms")),
    }
    table = parquet(tmp_path, columns)
    assert set(table.types) == {"text"}
    assert table.rows[0] == (
        *("true", "2020-01-31", "10:20:30", "2020-01-31T10:20:30", "2020-01-31T12:20:30+02:00"),
        "2020-01-31T10:20:30.250",
    )
    assert table.rows[1] == (None,) * 6
    assert kinds(table)[("yes", "truth value")] == 1
    assert [kind for _, kind in kinds(table)].count("date or time") == 5


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, b"bytes", datetime.timedelta(1)])
def test_parquet_columns_that_are_no_cells_are_refused_by_name(tmp_path: Path, cell: object) -> None:
    with pytest.raises(BonafideError, match=r"sales\.parquet: the column 'odd' has the type"):
        parquet(tmp_path, {"fine": [1], "odd": [cell]})


def test_parquet_types_are_overridden(tmp_path: Path) -> None:
    table = parquet(tmp_path, {"a": ["1,200", "n/a"], "b": [1, 2]}, types={"A": "real", "b": "text"})
    assert table.types == ("real", "text")
    assert table.rows == [(1200, "1"), ("n/a", "2")]
    assert kinds(table) == {
        ("a", "thousands separator"): 1,
        ("a", "no number"): 1,
        ("b", "number as text"): 2,
    }


def test_parquet_decimals_as_text_keep_every_digit_that_they_are_stored_with(tmp_path: Path) -> None:
    cells = [Decimal("1.50"), Decimal("2.00"), Decimal("0E-2"), Decimal("123456789012345678.90"), None]
    table = parquet(tmp_path, {"price": pa.array(cells, pa.decimal128(38, 2))}, types={"price": "text"})
    assert [cell for (cell,) in table.rows] == ["1.50", "2.00", "0.00", "123456789012345678.90", None]
    assert table.coercions == (Coercion("price", "number as text", 4, "1.50 → '1.50'"),)


def test_empty_and_broken_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BonafideError, match="the table is empty"):
        parquet(tmp_path, {"a": pa.array([], pa.int64())})
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), stream)
    assert "as a Parquet file" in refused(tmp_path, stream.getvalue()[:-20])
    assert read(tmp_path, "PAR1,b\n1,2\n").header == ("PAR1", "b")


# --- SQLite ---


def sqlite(folder: Path, script: str, name: str = "shop.db") -> Path:
    path = folder / name
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path


def test_a_sqlite_file_gives_every_table_and_view_whatever_its_name(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        """CREATE TABLE "my ""table"
            (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, price NUMERIC, empty REAL);
        INSERT INTO "my ""table" (name, price) VALUES ('Ann', 1.5), (' 1,200 ', 2);
        CREATE VIEW dear AS SELECT name, price FROM "my ""table" WHERE price > 1.7;""",
        "what? #1 %41.csv",
    )
    tables = read_tables(path)
    assert list(tables) == ['my "table', "dear"]
    table = tables['my "table']
    assert table.header == ("id", "name", "price", "empty")
    assert table.types == ("real", "text", "real", "real")
    assert table.rows == [(1, "Ann", 1.5, None), (2, " 1,200 ", 2, None)]
    assert tables["dear"].rows == [(" 1,200 ", 2)]
    assert table.coercions == ()


def test_printed_sql_runs_on_the_sqlite_table_that_was_read(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        """CREATE TABLE " t" ("price " REAL, price REAL, "É" TEXT, "é" TEXT, "new?" TEXT, "" TEXT);
        INSERT INTO " t" VALUES (1, 2, 'x', 'y', 'Yes', 'z'), (3, 4, 'v', 'w', 'No', 'u');""",
    )
    (table,) = read_tables(path).values()
    assert table.header == ("price", "price (2)", "É", "é (2)", "new?", "column 6")
    chosen = frozenset({Condition(4, Operator.EQUAL, "yes")})
    with closing(sqlite3.connect(path)) as theirs, Engine(table) as ours:
        for column, cell in enumerate((1, 2, "x", "y", "yes", "z")):
            query = Query(column, Aggregate.NONE, chosen)
            assert ours.run(*query.to_sql(table)) == [cell]
            for sql in (query.to_sql(table), (bound_sql(query, table),)):
                assert [row[0] for row in theirs.execute(*sql)] == ["Yes" if cell == "yes" else cell]


def test_long_ids_stay_apart_and_printed_sql_finds_them_among_stored_numbers(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        """CREATE TABLE tweets (id INTEGER PRIMARY KEY, author TEXT); INSERT INTO tweets VALUES
        (1234567890123456789, 'Ann'), (1234567890123456790, 'Ben'), (1234567890123456791, 'Cy');""",
    )
    (table,) = read_tables(path).values()
    assert table.types == ("text", "text")
    typed = Language(aggregates="typed")
    with closing(sqlite3.connect(path)) as theirs:
        for question, answer in (("who wrote 1234567890123456790?", "Ben"), ("id by Ben?", "1234567890123456790")):
            (query,) = search(question, [answer], table, typed)
            for sql in (query.to_sql(table), (bound_sql(query, table),)):
                assert [str(cell) for (cell,) in theirs.execute(*sql)] == [answer]


def test_printed_sql_finds_texts_whose_case_sqlite_cannot_fold(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        "CREATE TABLE t (city TEXT, units REAL); INSERT INTO t VALUES ('Москва', 1), ('ÅLESUND', 2), ('ÅLesund', 4);",
    )
    (table,) = read_tables(path).values()
    with closing(sqlite3.connect(path)) as theirs:
        for city, units in (("москва", 1.0), ("ålesund", 6.0)):
            query = Query(1, Aggregate.SUM, frozenset({Condition(0, Operator.EQUAL, city)}))
            assert theirs.execute(bound_sql(query, table)).fetchall() == [(units,)]


def test_printed_sql_differs_on_the_users_file_where_the_documentation_says_so(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        """CREATE TABLE t (word TEXT, code, data BLOB, id INTEGER, n REAL, name TEXT);
        INSERT INTO t VALUES ('Ärger', 5, x'00ff', 10, 3, 'Ann'), ('ärger', 'x', 'y', 9, 2, 'Ben');
        CREATE INDEX i ON t (n);""",
    )
    (table,) = read_tables(path, {"id": "text"}).values()
    above = Condition(4, Operator.ABOVE, 1.0)
    cases: list[tuple[int, Aggregate, Condition, list[Any], list[Any]]] = [
        (5, Aggregate.NONE, Condition(0, Operator.EQUAL, "ärger"), ["Ann", "Ben"], ["Ben"]),
        (5, Aggregate.NONE, Condition(1, Operator.EQUAL, "5"), ["Ann"], []),
        (5, Aggregate.NONE, Condition(2, Operator.EQUAL, "00ff"), ["Ann"], []),
        (3, Aggregate.MAX, above, ["9"], [10]),
        (5, Aggregate.NONE, above, ["Ann", "Ben"], ["Ben", "Ann"]),
    ]
    with closing(sqlite3.connect(path)) as theirs:
        for select, aggregate, condition, here, there in cases:
            query = Query(select, aggregate, frozenset({condition}))
            assert answer_as_written(query, table) == here
            assert [cell for (cell,) in theirs.execute(bound_sql(query, table))] == there


def test_sql_calls_columns_as_the_file_does_where_it_can_tell_them_apart(tmp_path: Path) -> None:
    table = read(tmp_path, " city , price,,a,A, a\nOslo,5,1,2,3,4\n")
    assert table.header == ("city", "price", "column 3", "a", "A (2)", "a (3)")
    assert table.sql_names == (" city ", " price", "column 3", "a", "A (2)", " a")
    assert read(tmp_path, "a,a,a (2)\n1,2,3\n").sql_names == ("a", "a (2)", "a (2) (2)")


def test_sqlite_blobs_are_hexadecimal_and_text_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    script = "CREATE TABLE t (raw BLOB, odd); INSERT INTO t VALUES (x'00ff', CAST(x'e9' AS TEXT));"
    (table,) = read_tables(sqlite(tmp_path, script)).values()
    assert table.rows == [("00ff", "é")]
    assert kinds(table) == {("raw", "blob"): 1, ("odd", "encoding"): 1}


def test_sqlite_overrides_need_a_column_in_some_table(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        "CREATE TABLE a (x, y TEXT); INSERT INTO a VALUES (1, '5'); CREATE TABLE b (z); INSERT INTO b VALUES (2);",
    )
    tables = read_tables(path, {"Y": "real", "z": "text"})
    assert tables["a"].rows == [(1, 5)]
    assert tables["b"].rows == [("2",)]
    with pytest.raises(BonafideError, match=r"expected one of 'x', 'y', 'z'\. Did you mean"):
        read_tables(path, {"w": "real"})


def test_empty_sqlite_tables_are_left_out_and_reported(tmp_path: Path) -> None:
    path = sqlite(tmp_path, "CREATE TABLE a (x); CREATE TABLE b (x); INSERT INTO b VALUES (1);")
    tables = read_tables(path)
    assert list(tables) == ["b"]
    assert tables["b"].coercions == (Coercion("(file)", "empty table left out", 1, "a"),)
    for script in ("CREATE TABLE a (x);", "CREATE TABLE a (x); DROP TABLE a;"):
        with pytest.raises(BonafideError, match="the table is empty"):
            read_tables(sqlite(tmp_path, script, f"{len(script)}.db"))


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_reading_sqlite_leaves_the_file_and_its_folder_as_they_were(tmp_path: Path, mode: str) -> None:
    path = sqlite(tmp_path, f"PRAGMA journal_mode={mode}; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    before = path.read_bytes()
    assert read_tables(path)["t"].rows == [(1,)]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_still_in_the_write_ahead_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.executescript("PRAGMA journal_mode=wal; CREATE TABLE t (x); INSERT INTO t VALUES (1);")
        assert read_tables(path)["t"].rows == [(1,)]


def test_the_connection_can_neither_write_nor_attach(tmp_path: Path) -> None:
    path = sqlite(tmp_path, "CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    with closing(readers._connect(path)) as connection:
        statements = (
            "INSERT INTO t VALUES (2)",
            "CREATE TEMP TABLE u (x)",
            f"ATTACH '{tmp_path / 'other.db'}' AS other",
            "SELECT load_extension('x')",
        )
        for statement in statements:
            with pytest.raises(sqlite3.Error):
                connection.execute(statement)


@pytest.mark.parametrize("result", ["n", "max(n)"])
def test_a_view_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: str) -> None:
    monkeypatch.setattr(readers, "VIEW_SECONDS", 0.2)
    path = sqlite(
        tmp_path,
        "CREATE VIEW endless AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
        f"SELECT {result} FROM c;",
    )
    with pytest.raises(BonafideError, match=r"shop\.db: the view 'endless' was stopped"):
        read_tables(path)


def test_a_view_with_too_many_rows_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "VIEW_ROWS", 3)
    with pytest.raises(BonafideError, match="was stopped"):
        read_tables(sqlite(tmp_path, "CREATE VIEW v(x) AS VALUES (1), (2), (3), (4);"))


def test_a_broken_view_is_left_out_and_alone_refused(tmp_path: Path) -> None:
    broken = "CREATE VIEW v AS SELECT * FROM gone;"
    with pytest.raises(BonafideError, match=r"views or tables that cannot be read \(v\)"):
        read_tables(sqlite(tmp_path, broken))
    (tmp_path / "shop.db").unlink()
    (table,) = read_tables(sqlite(tmp_path, f"CREATE TABLE t (x); INSERT INTO t VALUES (1); {broken}")).values()
    assert Coercion("(file)", "view or table that cannot be read left out", 1, "v") in table.coercions


def test_a_table_of_an_extension_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path,
        """CREATE TABLE t (x); INSERT INTO t VALUES (1); PRAGMA writable_schema = ON; INSERT INTO sqlite_master
        VALUES ('table', 'idx', 'idx', 0, 'CREATE VIRTUAL TABLE idx USING VirtualSpatialIndex()');""",
    )
    (table,) = read_tables(path).values()
    assert table.rows == [(1,)]
    assert table.coercions == (Coercion("(file)", "view or table that cannot be read left out", 1, "idx"),)


def test_a_sqlite_file_that_is_locked_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sqlite(tmp_path, "CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, timeout=0))
    with closing(connect(path)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BonafideError, match=r"shop\.db: another program is writing to it"):
            read_tables(path)


def test_a_compressed_sqlite_file_is_read(tmp_path: Path) -> None:
    path = sqlite(tmp_path, "CREATE TABLE t (x); INSERT INTO t VALUES (1);")
    packed = tmp_path / "shop.db.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_tables(packed)["t"].rows == [(1,)]


@FILE_FOR_EACH_EXAMPLE
@given(data=st.data())
def test_a_damaged_sqlite_or_parquet_file_gives_tables_or_an_explained_error(
    tmp_path: Path, whole: list[bytes], data: st.DataObject
) -> None:
    content = bytearray(data.draw(st.sampled_from(whole)))
    for place in data.draw(st.lists(st.integers(16, len(content) - 5), max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    path.write_bytes(content[: data.draw(st.none() | st.integers(0, len(content)))])
    assert is_read_or_explained(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    script = "PRAGMA page_size=512; CREATE TABLE t (x, y TEXT); CREATE VIEW v AS SELECT y FROM t;"
    values = ", ".join(f"({number}, 'text {number}')" for number in range(60))
    path = sqlite(tmp_path_factory.mktemp("whole"), f"{script} INSERT INTO t VALUES {values};")
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, None], "b": ["x", "y", "x"]}), stream)
    return [path.read_bytes(), stream.getvalue()]
