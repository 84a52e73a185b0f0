"""Reading one column of written cells."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.tasks.sql.cells import Tally, is_date, read_column, read_number, stored_column
from bonafide.tasks.sql.tables import Coercion


def kinds(coercions: list[Coercion]) -> dict[str, int]:
    return {coercion.kind: coercion.count for coercion in coercions}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("−12", -12),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e5", 1e5),
        ("-2.5E-3", -0.0025),
        ("1,234,567.89", 1234567.89),
        ("1,234", 1234),
        ("1 234 567", 1234567),
        ("1\u00a0234\u00a0567", 1234567),
        ("1\u2009234", 1234),
        ("1\u202f234,".rstrip(","), 1234),
        ("1'234", 1234),
        ("1’234’567.5", 1234567.5),
        ("$1,200", 1200),
        ("-$1,200.50", -1200.5),
        ("$-5", -5),
        ("€ 5", 5),
        ("5 €", 5),
        ("USD 1,000", 1000),
        ("1,000 EUR", 1000),
        ("US$3", 3),
        ("45%", 45),
        ("4.5 %", 4.5),
        ("(1,200)", -1200),
        ("($1,200)", -1200),
        ("$(1,200)", -1200),
        ("(1,200) USD", -1200),
        ("(4.5%)", -4.5),
        ("  7 ", 7),
    ],
)
def test_a_number_is_read_as_people_write_it(text: str, number: float) -> None:
    found = read_number(text)
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "-", "%", "$", "()", "nan", "NaN", "inf", "-Infinity", "1_000", "0x10", "٣", "½"),
        *("1.2.3", "1.234.567", "10.0.0.1", "2020-01-31", "31/01/2020", "01.02.2020", "12:30", "1:02:03"),
        *("007", "00", "-01", "00.5", "0,234", "1,23", "12,34,567", "1,2345", "1,234 567", "1234,567"),
        *("555-1234", "(555) 123-4567", "+49 170 123 456", "+4915112345678", "555 123 4567"),
        *(
            "--5",
            "+-5",
            "(-5)",
            "(5",
            "5)",
            "((5))",
            "-(5)",
            "$5%",
            "$5 USD",
            "5 5",
            "5 kg",
            "TOP 10",
            "usd 5",
        ),
        *(
            "1e400",
            "1e-400",
            "1e300",
            "9" * 5000,
            "12345678901234567890",
            "9007199254740993",
            "5\n6",
            "1.234,56",
        ),
    ],
)
def test_what_may_be_something_else_is_no_number(text: str) -> None:
    assert read_number(text) is None


@given(st.integers(-(2**53), 2**53))
def test_every_whole_number_that_floats_can_tell_apart_is_read_plain_and_grouped(number: int) -> None:
    assert read_number(str(number)) == number
    assert read_number(f"{number:,}") == number
    assert read_number(f"{number:,}".replace(",", "\u202f")) == number


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e299, max_value=1e299))
def test_every_float_is_read_back_as_python_writes_it(number: float) -> None:
    assert read_number(repr(number)) == number


@given(st.text() | st.text("0123456789.,'()-+$€%eE \u00a0USD", max_size=12))
def test_reading_a_number_never_fails_and_never_gives_what_a_table_refuses(text: str) -> None:
    number = read_number(text)
    assert number is None or -1e300 < number < 1e300


@given(
    st.lists(st.none() | st.text() | st.text("01234.,$% ()-", max_size=8)),
    st.sampled_from([None, "text", "real"]),
)
def test_a_column_keeps_its_length_and_a_real_column_without_override_holds_only_numbers(
    cells: list[str | None], wanted: Literal["text", "real"] | None
) -> None:
    kind, read, coercions = read_column("x", cells, wanted)
    assert len(read) == len(cells)
    assert all(coercion.column == "x" and coercion.count > 0 and coercion.example for coercion in coercions)
    if wanted is None:
        allowed: tuple[type, ...] = (int, float) if kind == "real" else (str,)
        assert all(cell is None or isinstance(cell, allowed) for cell in read)
    else:
        assert kind == wanted
    for before, after in zip(cells, read, strict=True):
        if after != before:  # nothing is changed silently
            assert coercions or read_number(before or "") == after


def test_numbers_make_a_real_column_and_whole_ones_stay_whole() -> None:
    assert read_column("x", ["1", "2.5", "-3"], None) == ("real", [1, 2.5, -3], [])


def test_one_cell_that_is_no_number_makes_a_text_column() -> None:
    assert read_column("x", ["1", "n/a", "1,200"], None) == ("text", ["1", "n/a", "1,200"], [])


def test_an_empty_column_is_text() -> None:
    assert read_column("x", ["", " ", None], None) == (
        "text",
        [None, None, None],
        [Coercion("x", "empty", 2, "'' → NULL")],
    )


def test_every_way_of_writing_is_counted_with_its_first_example() -> None:
    kind, cells, coercions = read_column("x", ["1,200", "$5", "(1,300)", "45%", "1,200", "−7", "8", ""], None)
    assert (kind, cells) == ("real", [1200, 5, -1300, 45, 1200, -7, 8, None])
    assert kinds(coercions) == {
        "empty": 1,
        "thousands separator": 3,
        "currency": 1,
        "accounting negative": 1,
        "percent": 1,
        "minus sign": 1,
    }
    examples = {coercion.kind: coercion.example for coercion in coercions}
    assert examples["thousands separator"] == "'1,200' → 1200"
    assert examples["accounting negative"] == "'(1,300)' → -1300"


def test_white_space_around_a_cell_is_stripped_and_counted() -> None:
    assert read_column("x", [" a", "b\t", "c"], None) == (
        "text",
        ["a", "b", "c"],
        [Coercion("x", "white space", 2, "' a' → 'a'")],
    )


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1.234,56", "7"], [1234.56, 7]),
        (["0,5", "1,234"], [0.5, 1.234]),
        (["1.234", "2,5"], [1234, 2.5]),
        (["1.234.567", "0,25 €"], [1234567, 0.25]),
        (["1 234,5", "-2"], [1234.5, -2]),
    ],
)
def test_a_cell_that_proves_the_decimal_comma_decides_for_the_whole_column(
    cells: list[str], numbers: list[float]
) -> None:
    kind, read, coercions = read_column("x", cells, None)
    assert (kind, read) == ("real", numbers)
    assert "decimal comma" in kinds(coercions)


@pytest.mark.parametrize("cells", [["1,234"], ["1,234", "5,678"], ["1,234", "1.5"], ["1,234.5", "2"]])
def test_a_comma_that_may_separate_thousands_does(cells: list[str]) -> None:
    kind, read, coercions = read_column("x", cells, None)
    assert (kind, read[0]) == ("real", 1234.5 if "." in cells[0] else 1234)
    assert "thousands separator" in kinds(coercions)


@pytest.mark.parametrize(
    "cells",
    [
        ["1.234,56", "1,234.56"],  # two conventions
        ["1.5", "2,5"],
        ["1.234.567", "2.345.678"],  # no decimal comma proves that these are no versions
        ["1.234.567", "1,234"],
        ["$5", "€5"],  # two currencies
        ["007", "8"],  # ids
        ["1", "12345678901234567890"],
        ["+4915112345678", "+4915112345679"],
    ],
)
def test_a_doubtful_column_stays_text_exactly_as_written(cells: list[str]) -> None:
    assert read_column("x", cells, None) == ("text", cells, [])


def test_an_override_to_real_reads_what_inference_doubts_and_counts_it() -> None:
    kind, cells, coercions = read_column("x", ["007", "12345678901234567890", "+4915112345678"], "real")
    assert (kind, cells) == ("real", [7, 12345678901234567890.0, 4915112345678])
    assert kinds(coercions) == {"leading zeros": 1, "rounded": 1, "telephone number": 1}
    assert read_column("x", ["3.669.491", "593.085"], "real")[1] == [3669491, 593085]


def test_an_override_to_real_keeps_cells_that_are_no_numbers_as_text_and_counts_them() -> None:
    kind, cells, coercions = read_column("x", ["1,200", "n/a", "n/a", " -", ""], "real")
    assert (kind, cells) == ("real", [1200, "n/a", "n/a", "-", None])
    assert kinds(coercions) == {"white space": 1, "empty": 1, "thousands separator": 1, "no number": 3}
    assert Coercion("x", "no number", 3, "'n/a'") in coercions


def test_an_override_to_text_keeps_cells_exactly_as_written() -> None:
    assert read_column("x", ["1,200", " 5 ", "  ", "007"], "text") == (
        "text",
        ["1,200", " 5 ", "  ", "007"],
        [],
    )
    assert read_column("x", ["a", ""], "text") == (
        "text",
        ["a", None],
        [Coercion("x", "empty", 1, "'' → NULL")],
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2020-01-31",
            "2020/1/31",
            "2020.01.31",
            "31.01.2020",
            "31/01/2020",
            "01/31/2020",
            "31-01-20",
            "01.02.20",
        ),
        *("31 Jan 2020", "31-Jan-20", "Jan 31, 2020", "January 31 2020", "31st March, 2020", "2020-Jan-31"),
        *("2020-01-31T10:20:30Z", "2020-01-31 10:20", "2020-01-31 10:20:30.123+02:00", "1/31/2020 1:05 PM"),
    ],
)
def test_a_date_is_recognised_in_the_usual_orders(text: str) -> None:
    assert is_date(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020",
        "2020-13-31",
        "2021-02-29",
        "32/01/2020",
        "13/13/2020",
        "1.2.10",
        "1.2.3",
        "2003-04",
        "10:20",
        "May",
    ],
)
def test_what_is_no_day_is_no_date(text: str) -> None:
    assert not is_date(text)


def test_a_column_of_dates_stays_text_as_written_and_is_reported() -> None:
    cells = ["31.01.2020", "", "1.2.2021", "31.01.2020"]
    kind, read, coercions = read_column("day", cells, None)
    assert (kind, read) == ("text", ["31.01.2020", None, "1.2.2021", "31.01.2020"])
    assert Coercion("day", "dates kept as text", 3, "'31.01.2020'") in coercions


def test_a_column_with_one_cell_that_is_no_date_is_not_reported_as_dates() -> None:
    assert read_column("day", ["2020-01-31", "unknown"], None)[2] == []


def test_a_long_cell_is_shortened_in_its_example() -> None:
    (coercion,) = read_column("x", [" " + "a" * 5000], None)[2]
    assert len(coercion.example) < 130


def test_stored_numbers_are_real_and_text_is_never_read_as_numbers() -> None:
    assert stored_column("x", [1, 2.5, None], False, None, Tally("x")) == ("real", [1, 2.5, None], [])
    assert stored_column("x", ["1", None], True, None, Tally("x")) == ("text", ["1", None], [])
    assert stored_column("x", [None], True, None, Tally("x"))[0] == "real"
    assert stored_column("x", [None], False, None, Tally("x"))[0] == "text"


def test_stored_whole_numbers_that_floats_hold_are_numbers_whatever_their_size() -> None:
    for values in ([2**53, -(2**53)], [2**53 + 2, 1], [2**62, None], [Decimal(10**18)]):
        assert stored_column("x", values, True, None, Tally("x")) == ("real", values, [])


def test_stored_values_that_cannot_stay_what_they_are_are_counted() -> None:
    values = [2**53 + 1, float("nan"), float("inf"), 1]
    kind, cells, coercions = stored_column("x", values, True, "real", Tally("x"))
    assert (kind, cells) == ("real", [2.0**53, None, None, 1])
    assert kinds(coercions) == {"rounded": 1, "NaN": 1, "beyond 1e300": 1}
    kind, cells, coercions = stored_column("x", [1, "n/a", b"\x00\xff"], True, None, Tally("x"))
    assert (kind, cells) == ("text", ["1", "n/a", "00ff"])
    assert kinds(coercions) == {"blob": 1, "number as text": 1}


def test_an_override_reads_stored_text_as_numbers_and_writes_stored_numbers_as_text() -> None:
    assert stored_column("x", [1, "1,200", "n/a"], False, "real", Tally("x"))[1] == [1, 1200, "n/a"]
    assert stored_column("x", [1, 2.5], True, "text", Tally("x"))[1] == ["1", "2.5"]


def test_a_few_cells_that_make_a_column_of_numbers_text_are_named() -> None:
    kind, cells, changed = read_column("catch", ["1,200", "7", "-", "315,000", "12", "9", "", "8"], None)
    assert kind == "text"
    assert cells[:3] == ["1,200", "7", "-"]
    (noted,) = [each for each in changed if "no number" in each.kind]
    assert (noted.kind, noted.count, noted.example) == ("no number, unlike 6 others: so all are text", 1, "'-'")
    for texts in (["a", "1", "b", "2"], ["x"], ["2021-05-01", "2021-06-01"], ["007", "008"]):
        assert not any("no number" in each.kind for each in read_column("c", texts, None)[2])


@pytest.mark.parametrize(("others", "wanted"), [((7,), "text"), (("a",), None), ((7,), None), ((Decimal(8),), None)])
@pytest.mark.parametrize("ids", [(2**60 + 1, 2**60 + 2), (-(2**53) - 1, Decimal(10**20 + 1))])
def test_large_ids_stay_apart(ids, others, wanted) -> None:
    kind, cells, coercions = stored_column("id", [*ids, *others], True, wanted, Tally("id"))
    assert (kind, cells) == ("text", [*map(str, ids), *map(str, others)])
    assert {each.kind for each in coercions} == {"number as text"}
