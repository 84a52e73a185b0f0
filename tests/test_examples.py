"""Examples are read whole or refused with every problem; what is written comes back."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError, InvalidFileError, Problem
from bonafide.examples import (
    DateAnswer,
    Example,
    Gold,
    example_to_json,
    open_examples,
    read_gold,
    write_jsonl,
    write_jsonl_files,
)

FILE_FOR_EACH_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
GOOD = {"id": "q1", "question": "who?", "context": "t", "answers": ["Ada", 1, 2.5, None]}

texts = st.text(min_size=1).filter(lambda text: bool(text.strip()) and "\0" not in text)
numbers = st.integers(-(10**300), 10**300) | st.floats(allow_nan=False, allow_infinity=False)
dates = st.builds(DateAnswer, st.text(), st.text(), st.text(min_size=1)).filter(lambda date: bool(date.text.strip()))
several = st.lists(st.text(), min_size=1, max_size=3).map(tuple)
answers = st.lists(st.text() | numbers | st.none() | several | dates, max_size=5).map(tuple)
examples = st.builds(Example, st.text(min_size=1), texts, st.none() | st.text(), answers)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def lines(*objects: Any) -> bytes:
    return b"".join((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in objects)


def read(path: Path, content: bytes, **options: Any) -> list[Example]:
    path.write_bytes(content)
    return list(open_examples(path, **options))


def read_or_refused(path: Path, content: bytes) -> list[Example] | BonafideError:
    try:
        return read(path, content)
    except BonafideError as error:
        return error


def problems(path: Path, content: bytes, **options: Any) -> list[Problem]:
    with pytest.raises(InvalidFileError) as caught:
        read(path, content, **options)
    return caught.value.problems


def test_every_problem_of_every_line_is_reported(tmp_path: Path) -> None:
    content = lines(
        GOOD,
        b"",
        {"id": 5, "question": " ", "context": 7, "answers": [True, {"a": 1}, float("nan")]},
        b"{",
        b'"text"',
        GOOD,
        {},
    )
    found = problems(tmp_path / "examples.jsonl", content)
    assert [(each.line, each.id, each.field) for each in found] == [
        *[(3, "", "id"), (3, "", "question"), (3, "", "context")],
        *[(3, "", "answers"), (3, "", "answers"), (3, "", "answers")],
        *[(4, "", "(line)"), (5, "", "(line)"), (6, "q1", "id")],
        *[(7, "", "id"), (7, "", "question"), (7, "", "answers")],
    ]
    assert [each.found for each in found[3:6]] == ["the truth value true", 'an object {"a": 1}', "the number NaN"]
    assert found[8].found == "also on line 1"


def test_several_texts_and_dates_are_answers_and_other_lists_and_objects_are_not(tmp_path: Path) -> None:
    date = {"month": "May", "year": "1644"}
    good = GOOD | {"answers": [["Oslo", "Riga"], date, 3]}
    (example,) = read(tmp_path / "good.jsonl", lines(good))
    assert example.answers == (("Oslo", "Riga"), DateAnswer("", "May", "1644"), 3)
    assert example.values == (3,)
    assert example.answers[1].text == "May 1644"  # type: ignore[union-attr]
    wrong: list[Any] = [[], [1], ["a", None], {}, {"day": 3}, {"day": "3", "hour": "4"}, {"day": " ", "year": ""}]
    found = problems(tmp_path / "wrong.jsonl", lines(GOOD | {"answers": wrong}))
    assert [each.field for each in found] == ["answers"] * len(wrong)
    assert found[-1].expected == "a date with a day, a month or a year"


def test_the_demands_of_a_task_are_checked_with_the_rest(tmp_path: Path) -> None:
    def check(example: Example) -> Iterator[tuple[str, str, str]]:
        if example.context != "t":
            yield "context", "the table t", repr(example.context)

    found = problems(tmp_path / "e.jsonl", lines(GOOD, GOOD | {"id": "q2", "context": "u"}), check=check)
    assert found == [Problem(2, "q2", "context", "the table t", "'u'")]


def test_a_gold_query_left_on_the_line_is_dropped(tmp_path: Path) -> None:
    extra = {"sql": {"sel": 0, "agg": 0, "conds": []}, "table_id": "t", "solution": "SELECT"}
    assert read(tmp_path / "e.jsonl", lines(GOOD | extra)) == read(tmp_path / "e.jsonl", lines(GOOD))


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_examples_are_read_and_hash_like_plain_ones(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    content = lines(GOOD, GOOD | {"id": "q2", "context": None})
    path = tmp_path / f"examples.jsonl{suffix}"
    path.write_bytes(compress(content))
    opened = open_examples(path)
    assert [example.id for example in opened] == ["q1", "q2"]
    assert (opened.count, opened.sha256) == (2, hashlib.sha256(content).hexdigest())


def test_a_byte_order_mark_blank_lines_and_any_line_ends_are_no_problem(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + lines(GOOD).strip() + b"\r\n  \r\n\n" + lines(GOOD | {"id": "q2"}).strip()
    assert [example.id for example in read(tmp_path / "e.jsonl", content)] == ["q1", "q2"]


def test_a_file_that_changes_while_it_is_used_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(lines(GOOD))
    opened = open_examples(path)
    path.write_bytes(b"{}\n")
    with pytest.raises(InvalidFileError, match="The file changed while it was being used"):
        list(opened)


@FILE_FOR_EACH_EXAMPLE
@given(st.lists(examples, min_size=1, max_size=5, unique_by=lambda example: example.id))
def test_what_is_written_comes_back(tmp_path: Path, written: list[Example]) -> None:
    path = tmp_path / "examples.jsonl"
    write_jsonl(path, map(example_to_json, written))
    opened = open_examples(path)
    assert opened.count == len(written)
    for _ in range(2):
        found = list(opened)
        assert found == written
        assert [[type(value) for value in each.answers] for each in found] == [
            [type(value) for value in each.answers] for each in written
        ]


@FILE_FOR_EACH_EXAMPLE
@given(st.binary(max_size=200) | st.lists(json_values, max_size=4).map(lambda values: lines(*values)))
def test_any_bytes_are_read_or_refused_with_a_line(tmp_path: Path, content: bytes) -> None:
    outcome = read_or_refused(tmp_path / "e.jsonl", content)
    if isinstance(outcome, InvalidFileError):
        last = content.count(b"\n") + 1
        assert all(1 <= each.line <= last and each.field and each.expected and each.found for each in outcome.problems)
    elif isinstance(outcome, BonafideError):
        assert "holds no examples" in str(outcome)


@FILE_FOR_EACH_EXAMPLE
@given(json_values)
def test_any_field_is_read_or_named(tmp_path: Path, value: Any) -> None:
    for field in GOOD:
        outcome = read_or_refused(tmp_path / "e.jsonl", lines(GOOD | {field: value}))
        if isinstance(outcome, InvalidFileError):
            assert {each.field for each in outcome.problems} == {field}
        else:
            assert isinstance(outcome, list)
            assert example_to_json(outcome[0])[field] == value


def test_problems_travel_between_processes(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError) as caught:
        read(tmp_path / "e.jsonl", b"{}\n")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.path, copy.problems) == (str(caught.value), caught.value.path, caught.value.problems)


def test_gold_is_read_or_refused_with_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_bytes(lines({"id": "q1", "solution": {"sel": 0}}))
    assert read_gold(path) == {"q1": Gold("q1", {"sel": 0})}
    good = {"id": "q1", "solution": {}}
    path.write_bytes(lines(good, b"?", {"solution": {}}, {"id": "q2", "solution": []}, good, 5))
    with pytest.raises(InvalidFileError) as caught:
        read_gold(path)
    assert [(each.line, each.field) for each in caught.value.problems] == [
        *[(2, "(line)"), (3, "id"), (4, "solution"), (5, "id"), (6, "(line)")]
    ]


def failing() -> Iterator[dict[str, Any]]:
    yield {"a": 1}
    raise BonafideError("no more")


def test_a_file_that_could_not_be_written_whole_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BonafideError):
        write_jsonl(tmp_path / "a" / "b" / "e.jsonl", failing())
    assert list(tmp_path.iterdir()) == []


def test_of_several_files_all_are_written_or_all_stay_as_they_were(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    write_jsonl(first, [{"old": 1}])
    with pytest.raises(BonafideError):
        write_jsonl_files({first: [{"new": 1}], second: failing()})
    assert [path.name for path in tmp_path.iterdir()] == ["1.jsonl"]
    assert first.read_text() == '{"old": 1}\n'
    write_jsonl_files({first: [{"new": 1}], second: [{"new": 2}]})
    assert (first.read_text(), second.read_text()) == ('{"new": 1}\n', '{"new": 2}\n')
