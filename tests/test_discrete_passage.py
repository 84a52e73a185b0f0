"""Tokens, numbers and dates stand where the text says, and are worth what it says."""

from __future__ import annotations

import datetime
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.tasks.discrete.dates import MONTHS, comparable, days_between, months_between, years_between
from bonafide.tasks.discrete.numbers import NumberKind, plain_number
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.discrete.tokens import tokenise

SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
anything = st.text(max_size=80) | st.text(alphabet="0123456789,.-–%/ ½a$thsMay", max_size=40)


def numbers(text: str) -> list[tuple[str, str]]:
    passage = Passage(text)
    return [(text[each.start : each.end], str(each.value)) for each in passage.numbers]


def dates(text: str, whole: bool = True) -> list[tuple[str, int | None, int | None, int | None]]:
    passage = Passage(text)
    return [
        (" … ".join(passage.span_text(*piece) for piece in each.pieces), each.day, each.month, each.year)
        for each in passage.dates
        if each.whole or not whole
    ]


@given(anything)
def test_tokens_cover_all_that_is_not_white_space_in_order(text):
    tokens = tokenise(text)
    assert "".join(tokens.words) == "".join(text.split())
    assert all(start < end for start, end in zip(tokens.starts, tokens.ends, strict=True))
    assert list(tokens.starts) == sorted(tokens.starts)
    assert all(not word.isspace() for word in tokens.words)


@given(anything)
def test_mentions_stand_at_their_tokens(text):
    passage = Passage(text)
    tokens = passage.tokens
    for number in passage.numbers:
        assert 0 <= number.first <= number.last < len(tokens)
        assert (number.start, number.end) == (tokens.starts[number.first], tokens.ends[number.last])
    positions = [(number.first, number.last) for number in passage.numbers]
    assert positions == sorted(positions)
    for date in passage.dates:
        flat = [token for piece in date.pieces for token in piece]
        assert flat == sorted(flat)
        assert 0 <= date.first <= date.last < len(tokens)
        assert any(part is not None for part in (date.day, date.month, date.year))
        assert date.day is None or date.month is not None


@given(st.decimals(0, 10**12, allow_nan=False, places=3), st.booleans(), st.sampled_from(["", "-yard", " men", ")"]))
def test_digits_are_worth_what_they_say(value, grouped, after):
    written = f"{value:,}" if grouped else str(value)
    (found,) = [each for each in Passage(f"about {written}{after}.").numbers if each.kind is not NumberKind.RANGE]
    assert found.value == Fraction(value)
    assert plain_number(written) == Fraction(value)


@given(st.integers(1, 999_999))
def test_numbers_in_words_are_worth_what_they_say(value):
    text = in_words(value)
    assert numbers(f"some {text} sheep") == [(text, str(value))]
    capital = text.capitalize()
    assert numbers(capital) == [(capital, str(value))]


def in_words(value: int) -> str:
    """English for a number below a million, with hyphens and *and* as books write them."""
    if value < 20:
        return SMALL[value]
    if value < 100:
        return TENS[value // 10] + (f"-{SMALL[value % 10]}" if value % 10 else "")
    for scale, name in ((1000, "thousand"), (100, "hundred")):
        if value >= scale:
            rest = value % scale
            joint = " and " if rest and rest < 100 else " "
            return f"{in_words(value // scale)} {name}" + (joint + in_words(rest) if rest else "")
    raise AssertionError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.3 million", [("2.3", "23/10"), ("2.3 million", "2300000")]),
        ("a 43-yard run", [("43", "43")]),
        ("won 21–7", [("21", "21"), ("7", "7")]),
        ("aged 10-14", [("10", "10"), ("14", "14")]),
        ("1914–18", [("1914", "1914"), ("18", "18"), ("18", "1918")]),
        ("the 1960s", [("1960s", "1960")]),
        ("the 3rd and twenty-first", [("3rd", "3"), ("twenty-first", "21")]),
        ("12.5% or 12 per cent", [("12.5%", "25/2"), ("12 per cent", "12")]),
        ("twelve percent", [("twelve percent", "12")]),
        ("one-third, two thirds, a third of", [("one-third", "1/3"), ("two thirds", "2/3"), ("a third", "1/3")]),
        ("one third-quarter goal", [("one", "1"), ("third", "3")]),
        ("3/4 and 24/37", [("3", "3"), ("3/4", "3/4"), ("4", "4"), ("24", "24"), ("37", "37")]),
        ("2 1/2", [("2", "2"), ("2 1/2", "5/2"), ("1", "1"), ("1/2", "1/2"), ("2", "2")]),
        ("2½", [("2", "2"), ("2½", "5/2"), ("½", "1/2")]),
        ("it was -5 °C", [("-5", "-5"), ("5", "5")]),
        ("minus 5", [("minus 5", "-5"), ("5", "5")]),
        ("a dozen, two dozen", [("a dozen", "12"), ("two dozen", "24")]),
        ("a hundred men", [("a hundred", "100")]),
        ("half of them, in the second half", [("half", "1/2"), ("second", "2")]),
        ("$5m but 5m", [("5", "5"), ("5m", "5000000"), ("5", "5")]),
        ("a B52 and .75", [(".75", "3/4")]),
        ("twice a pair of goals", [("twice", "2"), ("pair", "2")]),
        ("1,865 attempts in 2007,2008", [("1,865", "1865"), ("2007", "2007"), ("2008", "2008")]),
        ("103&#160;yards", [("103", "103")]),
        ("9" * 40, []),
        ("km² ² 🙂 \x00\x01", []),
        ("no numbers here", []),
    ],
)
def test_the_usual_ways_to_write_a_number(text, expected):
    assert numbers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("half a million men", [("half a million", "500000")]),
        ("a half-million, half million", [("a half-million", "500000"), ("half million", "500000")]),
        ("half a dozen or half-dozen", [("half a dozen", "6"), ("half-dozen", "6")]),
        ("a quarter of a million", [("a quarter of a million", "250000")]),
        ("a quarter million", [("a quarter million", "250000")]),
        ("three-quarters of a million", [("three-quarters of a million", "750000")]),
        ("two thirds of a billion", [("two thirds of a billion", "2000000000/3")]),
        ("one and a half million", [("one and a half million", "1500000")]),
        ("a million and a half", [("a million and a half", "1500000")]),
        ("2 and a half million", [("2", "2"), ("2 and a half million", "2500000")]),
        ("2½ million", [("2", "2"), ("2½", "5/2"), ("2½ million", "2500000")]),
        ("2 ½ million", [("2", "2"), ("2 ½", "5/2"), ("2 ½ million", "2500000")]),
        ("3/4 million", [("3", "3"), ("3/4", "3/4"), ("3/4 million", "750000")]),
        ("2 dozen", [("2", "2"), ("2 dozen", "24")]),
        ("half of them, half an hour", [("half", "1/2"), ("half", "1/2")]),
        ("a third million, the third quarter", [("third", "3"), ("third", "3")]),
    ],
)
def test_a_part_of_a_scale_is_one_number(text, expected):
    assert numbers(text) == expected


def test_years_are_told_from_other_numbers():
    passage = Passage("In 1648 a total of 1,648 men, 1648% more, paid $1648; year 846, 44 BC.")
    years = [passage.text[each.start : each.end] for each in passage.numbers if each.kind is NumberKind.YEAR]
    assert years == ["1648", "846", "44"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("44 BC, 30 B.C., 5 BCE, 3 bc, 10,000 BC, the 440s BC", [-43, -29, -4, -2, -9999, -439]),
        ("from 264–146 BC, 2181 to 2055 BC", [-263, -145, -2180, -2054]),
        ("from 10,000 to 8,000 BC, 12,000–900 BC", [-9999, -7999, -11999, -899]),
        ("from about 1700 to about 1500 BC, 1300–c. 1200 BC", [-1699, -1499, -1299, -1199]),
        ("1260s–1250s BC, between the 300s and the 200s BC", [-1259, -1249, -299, -199]),
        ("14–37 AD, from 98 to 117 AD, AD 161–180, 44 to 20 AD", [14, 37, 98, 117, 161, 180, 20]),
        ("1014–18 AD, 1014–1018 AD", [1014, 1018, 1014, 1018]),
        ("AD 14, A.D. 15, 16 AD, 17 CE, 18 A.D. it was", [14, 15, 16, 17, 18]),
        ("31 BC to 14 AD", [-30, 14]),
        ("30 ad campaigns, 12 to 44 kings, BC 5", []),
        ("In 79 AD the city had 20 baths, in A.D. 80 it had 30", [79, 80]),
    ],
)
def test_years_before_the_era_are_ordered_by_time(text, expected):
    years = (NumberKind.YEAR, NumberKind.DECADE)
    assert [each.rank for each in Passage(text).numbers if each.kind in years] == expected


@pytest.mark.parametrize(
    ("text", "days", "months", "years"),
    [
        ("15 March 44 BC; 2 September 31 BC", 4919, 162, 13),
        ("2 September 31 BC; 15 March 44 BC", 4919, 162, 13),
        ("31 December 1 BC; 1 January 1 AD", 1, 1, 0),
        ("15 March 44 BC; 15 March 44 AD", 31777, 1044, 87),
        ("15 March 44 BC; 17 March", 2, 0, None),
        ("19 August AD 14; October 19, A.D. 16", 792, 26, 2),
    ],
)
def test_there_is_no_year_between_1_bc_and_1_ad(text, days, months, years):
    first, second = whole_dates(text)
    assert days_between(first, second) == days
    assert months_between(first, second) == months
    assert years_between(first, second) == years


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24 October 1596", [("24 October 1596", 24, 10, 1596)]),
        ("October 24, 1596", [("October 24, 1596", 24, 10, 1596)]),
        ("the 24th of October, 1596", [("24th of October, 1596", 24, 10, 1596)]),
        ("24–26 October 1596", [("24 … October 1596", 24, 10, 1596), ("26 October 1596", 26, 10, 1596)]),
        ("October 24-26, 1596", [("October … 26, 1596", 26, 10, 1596), ("October 24 … 1596", 24, 10, 1596)]),
        ("1 May to 3 June 1644", [("1 May … 1644", 1, 5, 1644), ("3 June 1644", 3, 6, 1644)]),
        ("1 May 2000–2 June 2001", [("1 May 2000", 1, 5, 2000), ("2 June 2001", 2, 6, 2001)]),
        ("May and June 1644", [("June 1644", None, 6, 1644)]),
        ("in May and June 1644", [("May … 1644", None, 5, 1644), ("June 1644", None, 6, 1644)]),
        ("1596-10-24", [("1596-10-24", 24, 10, 1596)]),
        ("on September 2, 31 BC", [("September 2, 31", 2, 9, -31)]),
        ("on August 1, 30 B.C. or August 19, 14 AD", [("August 1, 30", 1, 8, -30), ("August 19, 14", 19, 8, 14)]),
        ("from 19 August AD 14", [("19 August AD 14", 19, 8, 14)]),
        ("June 9, A.D. 68; June AD 69", [("June 9, A.D. 68", 9, 6, 68), ("June AD 69", None, 6, 69)]),
        ("9–11 June A.D. 68", [("9 … June A.D. 68", 9, 6, 68), ("11 June A.D. 68", 11, 6, 68)]),
        ("on 5 May AD, 9 June A.D.", [("5 May", 5, 5, None), ("9 June", 9, 6, None)]),
        ("in Sept. 1596", [("Sept. 1596", None, 9, 1596)]),
        ("on 31 June 1596", [("June 1596", None, 6, 1596)]),
        ("on 29 February 2001", [("February 2001", None, 2, 2001)]),
        ("February 29, 2001", [("February", None, 2, None), ("2001", None, None, 2001)]),
        ("28–29 February 2001", [("28 … February 2001", 28, 2, 2001)]),
        ("29 February 2000, 1900", [("29 February 2000", 29, 2, 2000), ("1900", None, None, 1900)]),
        ("29 February 1900 (Julian)", [("29 February 1900", 29, 2, 1900)]),
        ("29 February to 3 March 2001", [("29 February", 29, 2, None), ("3 March 2001", 3, 3, 2001)]),
        ("29 February to 3 March 2000", [("29 February … 2000", 29, 2, 2000), ("3 March 2000", 3, 3, 2000)]),
        ("2000-02-29", [("2000-02-29", 29, 2, 2000)]),
        ("29 February 5 BC; 29 February", [("29 February 5", 29, 2, -5), ("29 February", 29, 2, None)]),
        ("They may march on.", []),
        ("In July they rest", [("July", None, 7, None)]),
        ("1596", [("1596", None, None, 1596)]),
    ],
)
def test_the_usual_ways_to_write_a_date(text, expected):
    assert dates(text) == expected


def test_the_parts_of_a_date_can_be_asked_for():
    assert dates("24 October 1596", whole=False) == [
        ("24 October 1596", 24, 10, 1596),
        ("24 October", 24, 10, None),
        ("October", None, 10, None),
        ("October 1596", None, 10, 1596),
        ("1596", None, None, 1596),
    ]


@given(st.dates(datetime.date(1000, 1, 1)), st.dates(datetime.date(1000, 1, 1)), st.booleans())
def test_differences_of_dates_are_those_of_the_calendar(one, other, american):
    def written(date: datetime.date) -> str:
        name = MONTHS[date.month - 1]
        return f"{name} {date.day}, {date.year} AD" if american else f"{date.day} {name} {date.year} AD"

    first, second = (each for each in Passage(f"{written(one)}; {written(other)}").dates if each.whole)
    assert days_between(first, second) == abs((one - other).days)
    assert months_between(first, second) == abs(12 * (one.year - other.year) + one.month - other.month)
    early, late = sorted((one, other))
    passed = late.year - early.year - ((late.month, late.day) < (early.month, early.day))
    assert years_between(first, second) == passed
    assert comparable(first, second)


def whole_dates(text: str):
    return [each for each in Passage(text).dates if each.whole]


@pytest.mark.parametrize(
    ("text", "days", "months"),
    [
        ("3 March 1521; 9 August", 159, 5),
        ("20 December; 4 January 1611", 15, 1),
        ("2 December 1820; 5 January", 34, 1),
        ("28 December; 7 January", 10, 1),
        ("3 May; 3 May 1700", 0, 0),
        ("in June; 11 October", None, 4),
        ("11 October; in June", None, 8),
        ("in May 1700; 3 May", None, 0),
        ("held May 5-7.", 2, 0),
        ("on May 5 and 7.", 2, 0),
    ],
)
def test_where_a_year_is_not_said_what_is_told_later_is_later(text, days, months):
    first, second = whole_dates(text)
    assert days_between(first, second) == days_between(second, first) == days
    assert months_between(first, second) == months_between(second, first) == months


def test_differences_need_what_they_count():
    first, second, third = whole_dates("3 March 1521; 9 August; June")
    assert days_between(first, third) is None
    assert years_between(first, second) is None
    assert not comparable(first, second)


def test_a_list_of_days_without_end_is_read_in_time():
    started = time.process_time()
    assert not Passage("1," * 20_000).dates
    assert time.process_time() - started < 10
