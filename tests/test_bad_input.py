"""Whatever is wrong with files, options or stores: one paragraph, exit code 2, and nothing left behind."""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bonafide.search.sql import search_sql
from command_line import (
    TABLES,
    WIKISQL,
    Outcome,
    bonafide,
    change_manifest,
    contents,
    examples,
    refused_unchanged,
    write_data,
    write_lines,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path)


@pytest.fixture
def store(data: Path) -> Path:
    search_sql(data / "examples.jsonl", data / "store")
    return data / "store"


def search(data: Path, *more: str | Path, name: str = "examples.jsonl", **options: Any) -> Outcome:
    return bonafide("search", "sql", "--examples", data / name, "--out", data / "new" / "out", *more, **options)


# --- Files that are not there ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["--examples", "nowhere/examples.jsonl"], "nowhere/examples.jsonl"),
        (["--examples", "nowhere/examples.jsonl", "--tables", "tables.jsonl"], "nowhere/examples.jsonl"),
        (["--examples", "examples.jsonl", "--tables", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--examples", "examples.jsonl", "--table", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_a_missing_input_is_named(data: Path, arguments: list[str], missing: str) -> None:
    given = [each if each.startswith("--") else data / each for each in arguments]
    message, _ = refused_unchanged(data, lambda: bonafide("search", "sql", "--out", data / "out", *given))
    assert message == f"Cannot read {data / missing}: there is no such file or folder. Check the path."


def test_examples_without_any_tables_are_told_how_to_name_them(data: Path) -> None:
    (data / "tables.jsonl").unlink()
    message, _ = refused_unchanged(data, lambda: search(data))
    assert "--tables" in message
    assert "--table " in message


def test_a_file_whose_name_is_not_utf_8_is_named(data: Path) -> None:
    odd = data / "caf\udce9" / "north.csv"
    odd.parent.mkdir()
    odd.write_text("City,People\nOslo,7\n")
    message, _ = refused_unchanged(
        data,
        lambda: bonafide("search", "sql", "--table", odd, "--examples", data / "examples.jsonl", "--out", data / "out"),
    )
    assert "a name in it is not UTF-8" in message


@pytest.mark.parametrize("missing", ["questions.jsonl", "tables.jsonl"])
def test_import_names_the_missing_file(data: Path, missing: str) -> None:
    (data / missing).unlink()
    message, _ = refused_unchanged(
        data,
        lambda: bonafide("import", "wikisql", data / "questions.jsonl", data / "tables.jsonl", "--out", data / "o"),
    )
    assert str(data / missing) in message


def test_a_folder_in_place_of_a_file_is_refused(data: Path) -> None:
    message, _ = refused_unchanged(data, lambda: search(data, name="."))
    assert "it is a folder, and a file was expected" in message


# --- Lines that are wrong ----------------------------------------------------------------------------------


def test_wrong_json_is_reported_with_its_line(data: Path) -> None:
    lines = examples()
    lines[6] = '{"id": "q7", "question": '
    write_lines(data / "examples.jsonl", lines)
    message, table = refused_unchanged(data, lambda: search(data))
    assert "has 1 problem; the first is on line 7" in message
    (row,) = table
    assert row[0] == "7"
    assert row[3] == "one JSON object"
    assert row[4].startswith("not JSON: ")


def test_every_problem_of_a_file_is_reported_at_once(data: Path) -> None:
    lines = examples()
    lines[1] = {"question": 5, "answers": "7"}
    lines[3] = [1, 2]
    lines[4]["context"] = "west"
    lines[6] = "not json"
    lines[8]["id"] = "q1"
    write_lines(data / "examples.jsonl", lines)
    message, table = refused_unchanged(data, lambda: search(data))
    assert "has 7 problems; the first is on line 2, id" in message
    assert [row[:3] for row in table] == [
        ["2", "", "id"],
        ["2", "", "question"],
        ["2", "", "answers"],
        ["4", "", "(line)"],
        ["5", "q5", "context"],
        ["7", "", "(line)"],
        ["9", "q1", "id"],
    ]
    assert all(row[3] and row[4] for row in table)
    assert table[0][4] == "nothing"
    assert table[1][4] == "the number 5"
    assert table[4][3:] == ["the name of a table: 'north', 'south'", 'the text "west"']
    assert table[6][3:] == ["an id used once", "also on line 1"]


def test_of_very_many_problems_the_first_twenty_are_shown(data: Path) -> None:
    write_lines(data / "examples.jsonl", ["?"] * 3000)
    message, table = refused_unchanged(data, lambda: search(data))
    assert "has 3,000 problems" in message
    assert len(table) == 20


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ('"Oslo"', 'the text "Oslo"'),
        ("7", "the number 7"),
        ("{}", "an object {}"),
        ("null", "nothing"),
        ("[true]", "the truth value true"),
        ('[{"city": "Oslo"}]', 'an object {"city": "Oslo"}'),
        ("[[7]]", "a list [7]"),
        ('[["Oslo", "Riga"]]', 'a list ["Oslo", "Riga"]'),
        ("[NaN]", "the number NaN"),
        ("[-Infinity]", "the number -Infinity"),
        ("[1e400]", "the number Infinity"),
    ],
)
def test_an_answer_of_the_wrong_type_is_refused(data: Path, answers: str, found: str) -> None:
    line = f'{{"id": "q1", "question": "people of Oslo?", "context": "north", "answers": {answers}}}'
    write_lines(data / "examples.jsonl", [line])
    message, table = refused_unchanged(data, lambda: search(data))
    assert [(row[:3], row[4]) for row in table] == [(["1", "q1", "answers"], found)]
    assert f"found {found}" in message


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (rb'{"id": "q1", "question": "\ud800", "context": "north", "answers": [7]}', "half a character"),
        (b'{"id": "q1", "question": "\xff", "context": "north", "answers": [7]}', "not UTF-8"),
        (b'{"id": "q1", "question": "?", "context": "north", "answers": [' + b"9" * 5000 + b"]}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (bytes(range(256)), "not JSON"),
    ],
)
def test_a_line_that_no_program_wrote_is_refused(data: Path, line: bytes, found: str) -> None:
    (data / "examples.jsonl").write_bytes(line + b"\n")
    message, _ = refused_unchanged(data, lambda: search(data))
    assert found in message


def test_half_a_character_in_a_table_is_refused(data: Path) -> None:
    table = json.dumps(TABLES[0]).replace("Oslo", r"\udc00")
    write_lines(data / "tables.jsonl", [table])
    message, _ = refused_unchanged(data, lambda: search(data))
    assert "half a character" in message


@pytest.mark.parametrize("content", ["", "\n \n\n"])
def test_an_empty_file_of_examples_is_refused(data: Path, content: str) -> None:
    (data / "examples.jsonl").write_text(content)
    message, _ = refused_unchanged(data, lambda: search(data))
    assert "examples.jsonl holds no examples" in message


@pytest.mark.parametrize(
    ("change", "field", "found"),
    [
        ({"rows": []}, "rows", "a list []"),
        ({"types": ["text"]}, "types", 'a list ["text"]'),
        ({"types": ["text", "date"]}, "types", 'a list ["text", "date"]'),
        ({"rows": [["Oslo", 7], ["Riga"]]}, "rows", 'a list ["Riga"]'),
        ({"rows": [["Oslo", True]]}, "rows", "the truth value true"),
        ({"header": []}, "header", "a list []"),
        ({"id": "north"}, "id", "an id used twice"),
    ],
)
def test_a_table_that_is_none_is_refused(data: Path, change: dict[str, Any], field: str, found: str) -> None:
    write_lines(data / "tables.jsonl", [TABLES[0], TABLES[1] | change])
    _, table = refused_unchanged(data, lambda: search(data))
    assert [(row[0], row[2], row[4]) for row in table] == [("2", field, found)]


def test_a_csv_file_without_rows_is_refused(data: Path) -> None:
    (data / "cities.csv").write_text("City,People\n")
    message, _ = refused_unchanged(data, lambda: search(data, "--table", data / "cities.csv"))
    assert "cities.csv: the table is empty" in message


def test_a_csv_file_that_is_binary_is_refused(data: Path) -> None:
    (data / "cities.csv").write_bytes(b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 20)
    message, _ = refused_unchanged(data, lambda: search(data, "--table", data / "cities.csv"))
    assert "cities.csv" in message
    assert "binary file" in message


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("name", ["examples.jsonl", "tables.jsonl", "cities.csv"])
def test_compressed_input_that_is_cut_short_is_refused(
    data: Path, name: str, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    whole = compress((data / name).read_bytes() + b"\n" * 10_000)
    (data / name).unlink()
    (data / f"{name}{suffix}").write_bytes(whole[:-6])
    option = ["--table", data / f"cities.csv{suffix}"] if name == "cities.csv" else []
    examples_name = f"{name}{suffix}" if name == "examples.jsonl" else "examples.jsonl"
    message, _ = refused_unchanged(data, lambda: search(data, *option, name=examples_name))
    assert f"{name}{suffix}: the compressed data is broken or cut short" in message


def test_import_reports_every_problem_of_the_questions(data: Path) -> None:
    lines = [
        *WIKISQL,
        "{",
        WIKISQL[0] | {"table_id": "west"},
        WIKISQL[0] | {"sql": {"sel": 9, "agg": 0, "conds": []}},
        WIKISQL[0] | {"sql": {"sel": 0, "agg": 0, "conds": [[0, 7, "Oslo"]]}},
    ]
    write_lines(data / "questions.jsonl", lines)
    _, table = refused_unchanged(
        data,
        lambda: bonafide("import", "wikisql", data / "questions.jsonl", data / "tables.jsonl", "--out", data / "o"),
    )
    assert [row[:1] + row[2:3] for row in table] == [["2", "(line)"], ["3", "table_id"], ["4", "sql"], ["5", "sql"]]


# --- Options that are wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--type", "People"], "--type takes 'column=text' or 'column=real'; found 'People'."),
        (["--type", "People=date"], "--type takes 'column=text' or 'column=real'; found 'People=date'."),
        (["--type", "People=text", "--type", "People=real"], "the column 'People' is text, and that it is real"),
        (["--type", "Peeple=real"], "Did you mean 'People'?"),
        (["--context", "nowhere"], "--context names no table: expected one of ['cities'], found 'nowhere'."),
        (["--max-conditions", "5"], "--max-conditions is 5."),
    ],
)
def test_a_wrong_option_is_explained(data: Path, given: list[str], said: str) -> None:
    message, _ = refused_unchanged(data, lambda: search(data, "--table", data / "cities.csv", *given))
    assert said in message


def test_types_of_tables_that_state_theirs_are_refused(data: Path) -> None:
    message, _ = refused_unchanged(data, lambda: search(data, "--type", "People=text"))
    assert "--type goes with --table" in message


def test_a_context_that_is_no_table_of_the_file_is_refused(data: Path) -> None:
    message, _ = refused_unchanged(data, lambda: search(data, "--context", "west"))
    assert "--context names no table: expected one of ['north', 'south'], found 'west'." in message


# --- Stores that cannot be read ----------------------------------------------------------------------------


def test_a_store_of_another_format_is_refused(store: Path) -> None:
    change_manifest(store, format=99, tool="bonafide 9.0")
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store))
    assert "was written by bonafide 9.0 in store format 99" in message
    assert "reads format 1" in message


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b"\xff\xfe"])
def test_a_manifest_that_is_none_is_refused(store: Path, content: bytes) -> None:
    (store / "manifest.json").write_bytes(content)
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store))
    assert str(store / "manifest.json") in message


@pytest.mark.parametrize("command", [[], ["--list"]])
@pytest.mark.parametrize("damage", ["cut short", "a bit flipped", "missing", "another shard"])
def test_a_damaged_shard_is_named_and_searched_anew(store: Path, damage: str, command: list[str]) -> None:
    shard = store / "shard-00000.parquet"
    whole = contents(store)
    content = bytearray(shard.read_bytes())
    if damage == "cut short":
        shard.write_bytes(content[: len(content) // 2])
    elif damage == "a bit flipped":
        content[40] ^= 1
        shard.write_bytes(content)
    elif damage == "missing":
        shard.unlink()
    else:
        search_sql(write_lines(store.parent / "fewer.jsonl", examples(9)), store.parent / "other")
        shutil.copy(store.parent / "other" / shard.name, shard)
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store, *command))
    assert f"{shard} is {'missing' if damage == 'missing' else 'damaged'}" in message
    if not command:
        assert bonafide("search", "sql", "--examples", store.parent / "examples.jsonl", "--out", store).code == 0
        repaired = contents(store)
        assert {name: repaired[name] for name in repaired if name != "timings.jsonl"} == {
            name: whole[name] for name in whole if name != "timings.jsonl"
        }


def test_gold_of_other_examples_is_refused(store: Path) -> None:
    gold = write_lines(store.parent / "gold.jsonl", [{"id": "x", "solution": {"sel": 0, "agg": 0, "conds": []}}])
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store, "--gold", gold))
    assert f"{gold} has gold for none of the examples in {store}" in message


def test_gold_of_other_tables_is_refused(store: Path) -> None:
    gold = write_lines(store.parent / "gold.jsonl", [{"id": "q1", "solution": {"sel": 5, "agg": 0, "conds": []}}])
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store, "--gold", gold))
    assert "expected a column number from 0 to 1, found 5" in message


@pytest.mark.parametrize("name", ["examples.jsonl", "tables.jsonl"])
@pytest.mark.parametrize("change", ["moved", "edited"])
def test_inputs_that_are_no_longer_what_was_searched_are_refused(store: Path, name: str, change: str) -> None:
    path = store.parent / name
    if change == "moved":
        path.rename(path.with_name(f"moved-{name}"))
    else:
        path.write_text(path.read_text().replace("Oslo", "Bath"))
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store))
    assert name in message
    assert ("no longer at" if change == "moved" else "its content differs") in message


def test_too_few_tables_for_a_store_are_refused(data: Path) -> None:
    for name in ("north", "south"):
        (data / f"{name}.csv").write_text("City,People\nOslo,7\nRiga,6\n")
    search_sql(data / "examples.jsonl", data / "store", table=[data / "north.csv", data / "south.csv"])
    message, _ = refused_unchanged(data, lambda: bonafide("inspect", data / "store", "--table", data / "north.csv"))
    assert "searched over 2 files of tables; 1 were given" in message


def test_an_unknown_example_is_refused(store: Path) -> None:
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store, "--example", "nobody"))
    assert "There is no example 'nobody'" in message


@pytest.mark.parametrize("only", [("--example", "e0"), ("--list",)])
@pytest.mark.parametrize("whole", [("--html", "page.html"), ("--json",), ("--gold", "nowhere.jsonl")])
def test_what_is_of_a_whole_store_is_not_asked_of_a_part(
    store: Path, only: tuple[str, ...], whole: tuple[str, ...]
) -> None:
    message, _ = refused_unchanged(store.parent, lambda: bonafide("inspect", store, *only, *whole))
    assert "--json, --gold and --html are of a whole store" in message
