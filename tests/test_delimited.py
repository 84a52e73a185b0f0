"""CSV and its relatives into tables; what all files of tables share."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.tasks.sql.readers import read_tables
from bonafide.tasks.sql.tables import Coercion
from table_files import FILE_FOR_EACH_EXAMPLE, is_read_or_explained, kinds, read, refused


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
