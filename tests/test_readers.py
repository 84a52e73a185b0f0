"""CSV, Parquet and SQLite files into tables."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import lzma
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.report.inspect import bound_sql
from bonafide.tasks.sql import readers
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query
from bonafide.tasks.sql.readers import read_tables
from bonafide.tasks.sql.tables import Coercion, Table

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


# --- CSV ---


def test_a_csv_file_is_one_table_named_after_it(tmp_path: Path) -> None:
    table = read(tmp_path, "city,people\nOslo,709037\nRome,\n")
    assert table.id == "sales"
    assert table.header == ("city", "people")
    assert table.types == ("text", "real")
    assert table.rows == [("Oslo", 709037), ("Rome", None)]
    assert table.coercions == (Coercion("people", "empty", 1, "'' → NULL"),)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.psv", "a.txt", "a.data", "a"])
def test_the_delimiter_is_found_whatever_the_name(tmp_path: Path, delimiter: str, name: str) -> None:
    text = "name,note,x\nAnn,hello,1\nBob,bye,2\n".replace(",", delimiter)
    assert read(tmp_path, text, name).rows == [("Ann", "hello", 1), ("Bob", "bye", 2)]


def test_a_decimal_comma_is_no_delimiter(tmp_path: Path) -> None:
    assert read(tmp_path, "price;weight\n1,5;2,5\n3,0;4,0\n").rows == [(1.5, 2.5), (3.0, 4.0)]
    assert read(tmp_path, "price, EUR;weight, kg\n1,5;2,5\n").header == ("price, EUR", "weight, kg")


def test_commas_in_text_do_not_win_over_the_delimiter(tmp_path: Path) -> None:
    table = read(tmp_path, "city, state\tx\nParis, France\t1\nRome, Italy\t2\n")
    assert table.rows == [("Paris, France", 1), ("Rome, Italy", 2)]


def test_a_file_with_one_column_is_fine(tmp_path: Path) -> None:
    assert read(tmp_path, "x\n1\n2\n").rows == [(1,), (2,)]
    assert read(tmp_path, 'x\n"a, b"\nc\n').rows == [("a, b",), ("c",)]
    assert read(tmp_path, "x\na, b\nc\n", "a.tsv").rows == [("a, b",), ("c",)]


def test_quotes_may_hold_delimiters_line_ends_and_doubled_quotes(tmp_path: Path) -> None:
    table = read(tmp_path, 'a,b\n"x, y","say ""hi""\nand go"\n5" pipe,z\n')
    assert table.rows == [("x, y", 'say "hi"\nand go'), ('5" pipe', "z")]


@pytest.mark.parametrize("first", ["x, y", "x"])
def test_spaces_between_delimiter_and_quotes_are_understood_and_reported(tmp_path: Path, first: str) -> None:
    table = read(tmp_path, f'a, b, c\n"{first}", 1, "z"\n"u", 2, "{first}"\n')
    assert table.rows == [(first, 1, "z"), ("u", 2, first)]
    assert ("(file)", "space before quotes") in kinds(table)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_line_ending_is_read_and_blank_lines_are_skipped(tmp_path: Path, ending: str) -> None:
    text = ending.join(["", "  ", "a,b", "", "1,2", "   ", "3,4", ""])
    assert read(tmp_path, text).rows == [(1, 2), (3, 4)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_read_with_and_without_a_mark(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding[-2:] in ("le", "be") else ""
    table = read(tmp_path, f"{mark}naïve,b\nŁódź,€5\n".encode(encoding))
    assert (table.header, table.rows) == (("naïve", "b"), [("Łódź", 5)])
    assert ("(file)", "encoding") not in kinds(table)


@pytest.mark.parametrize("text", ['{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n', '[\n  {\n    "a": 1},\n  {"a": 2}]\n'])
def test_json_is_no_table_of_one_row_less(tmp_path: Path, text: str) -> None:
    assert "found JSON" in refused(tmp_path, text, "rows.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("first", ["sep={}", '"SEP={}"', "\ufeffsep={}\r"])
def test_the_line_that_tells_excel_the_delimiter_is_no_header(tmp_path: Path, delimiter: str, first: str) -> None:
    lines = [first.format(delimiter), delimiter.join(["city", "units"]), delimiter.join(["Oslo", "5"])]
    table = read(tmp_path, "\n".join(lines))
    assert (table.header, table.rows) == (("city", "units"), [("Oslo", 5)])


def test_other_text_is_read_as_cp1252_or_latin_1_and_reported(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b\ncafé “x”,1\n".encode("cp1252"))
    assert table.rows == [("café “x”", 1)]
    assert Coercion("(file)", "encoding", 1, "read as cp1252") in table.coercions
    table = read(tmp_path, b"a,b\ncaf\xe9 \x81,1\n")
    assert Coercion("(file)", "encoding", 1, "read as latin-1") in table.coercions


@pytest.mark.parametrize(
    "content", [b"a,b\n1,\x00\n", bytes(range(1, 32)) * 9, b"PK\x03\x04\x00\x00", "a,\0b\n".encode("utf-16")]
)
def test_a_binary_file_and_broken_utf_16_are_refused(tmp_path: Path, content: bytes) -> None:
    assert "binary file" in refused(tmp_path, content)
    assert "begins as UTF-16" in refused(tmp_path, b"\xff\xfea\x00,\x00b")


@pytest.mark.parametrize("content", ["", "\n\n", "  \n", "\ufeff", "a,b\n", "a,b", "a,b\n\n  \n"])
def test_a_file_without_a_row_is_refused(tmp_path: Path, content: str) -> None:
    assert "the table is empty" in refused(tmp_path, content)


def test_short_rows_are_padded_long_ones_cut_where_nothing_is_lost_and_both_counted(tmp_path: Path) -> None:
    table = read(tmp_path, "a,b\n1,2\n4\n5\n6,7,, \n")
    assert table.rows == [(1, 2), (4, None), (5, None), (6, 7)]
    assert table.coercions == (
        Coercion("(file)", "short row", 2, "line 3: 1 of 2 fields"),
        Coercion("(file)", "long row", 1, "line 5: 2 empty fields cut"),
    )


def test_a_long_row_that_would_lose_something_is_refused_with_its_line(tmp_path: Path) -> None:
    message = refused(tmp_path, 'a,b\n"x\ny",2\n3,4\n5,6,7\n')
    assert "line 5: expected 2 fields as in the header, found 3" in message


def test_names_are_made_unique_and_never_empty(tmp_path: Path) -> None:
    table = read(tmp_path, "a,A,, b \n1,2,3,4\n")
    assert table.header == ("a", "A (2)", "column 3", "b")
    renamed = {("b", "white space in name"), ("A (2)", "name used twice"), ("column 3", "empty name")}
    assert set(kinds(table)) == renamed


@pytest.mark.parametrize(
    ("text", "words"),
    [('a,b\n1,2\n"x,2\n3,4\n', "line 3 opens a quote"), ('a,b\n1,2\n"x"y,2\n', "line 3 goes on after")],
)
def test_broken_quotes_are_refused_with_the_line_where_they_begin(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text)


def test_a_large_field_is_read_a_larger_one_refused_and_the_process_limit_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    assert len(str(read(tmp_path, f"a,b\n1,{'x' * 9_000_000}\n").rows[0][1])) == 9_000_000
    assert "more than 10,000,000 characters" in refused(tmp_path, f"a,b\n1,{'x' * 10_000_001}\n")
    assert csv.field_size_limit() == before


def test_more_columns_than_sqlite_allows_are_refused(tmp_path: Path) -> None:
    wide = ",".join(f"c{number}" for number in range(2001))
    assert "2,001 columns; expected at most 2,000" in refused(tmp_path, f"{wide}\n{wide}\n")


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_compressed_file_is_read_and_a_broken_one_refused(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(b"a|b\n1|x\n")
    table = read(tmp_path, packed, f"trips.psv{suffix}")
    assert (table.id, table.rows) == ("trips", [(1, "x")])
    assert "broken or cut short" in refused(tmp_path, packed[:-9], f"trips.psv{suffix}")


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BonafideError, match="no such file"):
        read_tables(tmp_path / "nothing.csv")
    with pytest.raises(BonafideError, match="it is a folder"):
        read_tables(tmp_path)


def test_an_override_is_found_by_its_exact_name_or_without_regard_to_case(tmp_path: Path) -> None:
    text = "Code,Price\n7,n/a\n8,5\n"
    table = read(tmp_path, text, types={"code": "text", "PRICE": "real"})
    assert table.types == ("text", "real")
    assert table.rows == [("7", "n/a"), ("8", 5)]
    assert kinds(table) == {("Price", "no number"): 1}
    assert read(tmp_path, text, types={"code": "real", "Code": "text"}).types[0] == "text"


def test_an_override_that_names_no_column_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    message = refused(tmp_path, "city,price\nRome,1\n", types={"prize": "real"})
    assert "no column 'prize' to give a type to; expected one of 'city', 'price'. Did you mean 'price'?" in message
    wrong: Any = {"price": "number"}
    with pytest.raises(BonafideError, match="'text' or 'real'"):
        read(tmp_path, "city,price\nRome,1\n", types=wrong)


CELLS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\r\t"))


@FILE_FOR_EACH_EXAMPLE
@given(
    rows=st.lists(st.lists(CELLS | st.text(" \",;|'a1", max_size=6), min_size=3, max_size=3), min_size=1),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_csv_writer_writes_is_read_back(
    tmp_path: Path, rows: list[list[str]], delimiter: str, quoting: Any, encoding: str
) -> None:
    header = ["first", "second", "third"]
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, quoting=quoting).writerows([header, *rows])
    table = read(tmp_path, stream.getvalue().encode(encoding), types=dict.fromkeys(header, "text"))
    assert table.header == tuple(header)
    assert table.rows == [tuple(cell or None for cell in row) for row in rows]


@FILE_FOR_EACH_EXAMPLE
@given(
    content=st.binary()
    | st.text('ab12,;|\t\n\r" .%$é', min_size=1).map(str.encode)
    | st.text().map(lambda text: text.encode("utf-16"))
    | st.binary().map(lambda tail: b"PAR1\x15" + tail + b"PAR1")
    | st.binary().map(lambda tail: b"SQLite format 3\0" + tail)
)
def test_any_bytes_give_tables_or_an_explained_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    assert is_read_or_explained(path)


def test_a_hundred_thousand_rows_of_twenty_columns_are_read_in_seconds(tmp_path: Path) -> None:
    chance = random.Random(0)
    path = tmp_path / "big.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([f"c{number}" for number in range(20)])
        for number in range(100_000):
            plain = [chance.random() for _ in range(14)]
            written = [
                f"${number:,}.50",
                f"{number % 97}%",
                f"2020-01-{number % 28 + 1}",
                number,
                "",
                f"n {number}",
            ]
            writer.writerow(plain + written)
    start = time.perf_counter()
    (table,) = read_tables(path).values()
    assert time.perf_counter() - start < 20
    assert len(table.rows) == 100_000
    assert table.types == ("real",) * 16 + ("text", "real", "text", "text")


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
        """CREATE TABLE " t" ("price " REAL, price REAL, "É" TEXT, "é" TEXT, "new?" TEXT);
        INSERT INTO " t" VALUES (1, 2, 'x', 'y', 'Yes'), (3, 4, 'v', 'w', 'No');""",
    )
    (table,) = read_tables(path).values()
    assert table.header == ("price", "price (2)", "É", "é (2)", "new?")
    chosen = frozenset({Condition(4, Operator.EQUAL, "yes")})
    with closing(sqlite3.connect(path)) as theirs, Engine(table) as ours:
        for column, cell in enumerate((1, 2, "x", "y", "yes")):
            query = Query(column, Aggregate.NONE, chosen)
            assert ours.run(*query.to_sql(table)) == [cell]
            for sql in (query.to_sql(table), (bound_sql(query, table),)):
                assert [row[0] for row in theirs.execute(*sql)] == ["Yes" if cell == "yes" else cell]


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
