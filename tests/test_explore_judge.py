"""Judging: sheets, judgements that are on the disk at once, figures of them, and tables on which two queries differ."""

from __future__ import annotations

import dataclasses
import getpass
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bonafide.cli import app, exploring
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import write_jsonl
from bonafide.explore import judging
from bonafide.explore.distinguish import distinguish
from bonafide.explore.index import Row
from bonafide.explore.judge import Sheet, make_sheet
from bonafide.explore.judging import Bench, SheetInUse, open_sheet
from bonafide.explore.queries import parse_sql, plain_sql
from bonafide.explore.scoring import Scorer
from bonafide.explore.workspace import Workspace
from bonafide.learn.trainer import train
from bonafide.report.judging import Verdict, read_judgements
from bonafide.sealed import sums_of
from bonafide.search.sql import search_sql
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute, same_answer
from bonafide.tasks.sql.tables import Table
from explored import opened_app
from tiny_runs import recipe, write_data

SALES = Table(
    "sales",
    ("City", "Month", "Units"),
    ("text", "text", "real"),
    [("Oslo", "May", 3), ("Lyon", "May", 1), ("Oslo", "June", 2)],
)


def pair(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "id": name, "example": "q1", "question": "how many?", "context": "sales", "answer": [3], "left": "l",
        "right": "r", "left_from": "hard-em", "right_from": "mimax", **changed,
    }  # fmt: skip


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    swapped = {"left_from": "mimax", "right_from": "hard-em"}
    write_jsonl(tmp_path / "judge.jsonl", [pair("1"), pair("2", **swapped), pair("3"), pair("4")])
    return tmp_path / "judge.jsonl"


def test_a_judgement_is_in_the_file_at_once_and_known_after_a_new_start(sheet: Path) -> None:
    opened = Sheet(sheet, "ada")
    assert opened.next() == 0
    opened.record(0, "right")
    (line,) = sheet.with_name("judge.judged.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert set(entry) == {"id", "choice", "judge", "time"}
    assert (entry["id"], entry["choice"], entry["judge"]) == ("1", "right", "ada")
    again = Sheet(sheet, "ada")
    assert again.choice(again.pairs[0]) == "right"
    assert (again.next(), again.done) == (1, 1)
    assert Sheet(sheet, "bo").next() == 0
    again.record(0, "left")
    assert len(sheet.with_name("judge.judged.jsonl").read_text().splitlines()) == 2  # nothing is ever overwritten
    assert Sheet(sheet, "ada").choice(again.pairs[0]) == "left"


def test_a_line_that_was_cut_short_costs_that_judgement_alone_whoever_reads_it(
    sheet: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judged = sheet.with_name("judge.judged.jsonl")
    Sheet(sheet, "ada").record(0, "both")
    with judged.open("ab") as stream:
        stream.write('{"id": "2", "choice": "left", "judge": "a}é'.encode()[:-1])
    opened = Sheet(sheet, "ada")
    assert opened.done == 1
    assert [each.right for each in read_judgements(judged).verdicts] == [1, 1]
    for command in (["compare", "nowhere"], ["audit", "nowhere.jsonl", "--solutions", "nowhere"]):
        done = CliRunner().invoke(app, [*command, "--judged", str(judged)])
        assert "nowhere" in str(done.exception)  # it goes on to what is really wrong
    assert len(caplog.messages) == 4
    assert all(re.search(r"judged.jsonl, line 2 was cut short", each) for each in caplog.messages)
    opened.record(2, "neither")  # it stays a line of its own
    assert Sheet(sheet, "ada").done == 2
    assert len(read_judgements(judged).choices) == 2
    judged.write_text('no judgement\n{"id": "1", "choice": "left"}\n')
    with pytest.raises(BonafideError, match="2 of its lines are gone"):
        read_judgements(judged)
    sums_of(judged).unlink()
    with pytest.raises(InvalidFileError, match="line 1"):
        read_judgements(judged)
    with pytest.raises(InvalidFileError, match="line 1"):
        Sheet(sheet, "ada")


def test_accuracy_goes_to_the_method_wherever_its_solution_stood(sheet: Path) -> None:
    opened = Sheet(sheet, "ada")
    for place, choice in enumerate(["right", "left", "both", "unsure"]):
        opened.record(place, choice)
    hard, mimax = opened.accuracies()
    assert (hard.name, hard.right, hard.of) == ("hard-em", 1, 3)
    assert (mimax.name, mimax.right, mimax.of) == ("mimax", 3, 3)
    assert (round(mimax.low, 4), round(mimax.high, 4)) == (0.4385, 1.0)  # Wilson's interval of 3 of 3
    assert opened.next() is None


def test_agreement_is_over_pairs_that_two_judges_saw(sheet: Path) -> None:
    for place, choice in enumerate(["right", "left", "both"]):
        Sheet(sheet, "ada").record(place, choice)
    assert Sheet(sheet, "ada").agreement() is None
    for place, choice in enumerate(["right", "right", "unsure"]):
        Sheet(sheet, "bo").record(place, choice)
    found = Sheet(sheet, "ada").agreement()
    assert found is not None
    assert (found.right, found.of) == (1, 3)


def test_compare_reads_the_judgements_and_counts_them_the_same(sheet: Path) -> None:
    for judge, choices in (
        ("ada", "left right both unsure"),
        ("bo", "left left both left"),
        ("cy", "left left neither both"),
    ):
        for place, choice in enumerate(choices.split()):
            Sheet(sheet, judge).record(place, choice)
    opened = Sheet(sheet, "ada")
    read = read_judgements(opened.judged)
    theirs = {each.method: (each.right, each.of, each.interval.low, each.interval.high) for each in read.verdicts}
    assert {each.name: (each.right, each.of, each.low, each.high) for each in opened.accuracies()} == theirs
    agreed = opened.agreement()
    assert agreed is not None
    assert (agreed.of, agreed.right) == (read.judged_by_several, read.agreement)


def test_wrong_sheets_and_judgements_are_refused_with_their_line(sheet: Path, tmp_path: Path) -> None:
    opened = Sheet(sheet, "ada")
    with pytest.raises(BonafideError, match="one of left, right"):
        opened.record(0, "<b>")
    assert not opened.judged.exists()
    bad = tmp_path / "bad.jsonl"
    write_jsonl(bad, [pair("1"), pair("1"), pair("2", left=3)])
    with pytest.raises(InvalidFileError) as error:
        Sheet(bad, "ada")
    assert [(each.line, each.field) for each in error.value.problems] == [(2, "id"), (3, "left")]
    opened.judged.write_text('{"id": "1", "choice": "perhaps", "judge": "ada"}\n')
    with pytest.raises(BonafideError, match="line 1"):
        Sheet(sheet, "ada")


def queries(table: Table) -> st.SearchStrategy[Query]:
    conditions = st.one_of(
        st.builds(Condition, st.just(0), st.just(Operator.EQUAL), st.sampled_from(["oslo", "lyon", "x"])),
        st.builds(Condition, st.just(1), st.just(Operator.EQUAL), st.sampled_from(["may", "june"])),
        st.builds(Condition, st.just(2), st.sampled_from(Operator), st.sampled_from([1.0, 2.0, 3.0])),
    )
    return st.builds(
        Query,
        st.integers(0, len(table.header) - 1),
        st.sampled_from(Aggregate),
        st.frozensets(conditions, max_size=2),
    )


@settings(max_examples=60, deadline=None)
@given(queries(SALES), queries(SALES))
def test_on_a_distinguishing_table_real_sqlite_gives_two_answers(left: Query, right: Query) -> None:
    found = distinguish(left, right, SALES, seconds=0.1)
    if found is None:
        return
    assert left != right
    with Engine(found.table) as engine:
        results = [engine.run(*query.to_sql(found.table)) for query in (left, right)]
    assert results == [found.left, found.right]
    assert not same_answer(*results)
    assert 1 <= len(found.changes) <= 2
    assert len(found.sentences) == len(found.changes)
    changed = {row for row, _ in found.touched}
    kept = [row for place, row in enumerate(found.table.rows) if place not in changed]
    assert all(row in SALES.rows for row in kept)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ('SELECT MAX("Units") FROM "sales"', 'SELECT "Units" FROM "sales" WHERE "Units" > 2'),
        ('SELECT COUNT("Units") FROM "sales"', 'SELECT MAX("Units") FROM "sales"'),
        ('SELECT MIN("Units") FROM "sales"', 'SELECT MIN("Units") FROM "sales" WHERE "Month" = \'may\''),
        ('SELECT "City" FROM "sales" WHERE "Units" > 2', 'SELECT "City" FROM "sales" WHERE "Units" = 3'),
    ],
)  # fmt: skip
def test_queries_that_agree_by_accident_are_told_apart(left: str, right: str) -> None:
    first, second = parse_sql(left, SALES), parse_sql(right, SALES)
    assert same_answer(execute(first, SALES) or [], execute(second, SALES) or [])
    found = distinguish(first, second, SALES, seconds=5)
    assert found is not None
    assert len(found.changes) == 1


def test_the_same_meaning_in_two_queries_has_no_distinguishing_table() -> None:
    query = parse_sql('SELECT "Units" FROM "sales" WHERE "City" = \'lyon\'', SALES)
    assert distinguish(query, query, SALES, seconds=0.2) is None


@pytest.mark.parametrize("name", ["sqlite_master", "sqlite_sales", "SQLITE_x", "a\0b", 'a"b', ""])
def test_queries_are_told_apart_whatever_the_table_is_called(name: str) -> None:
    table = dataclasses.replace(SALES, id=name)
    first, second = (Query(2, each, frozenset()) for each in (Aggregate.MAX, Aggregate.COUNT))
    assert parse_sql(plain_sql(first, table), table) == first
    found = distinguish(first, second, table, seconds=5)
    assert found is not None
    assert found.table.id == name


def test_a_judge_without_a_name_is_called_me(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyError("getpwuid(): uid not found: 54321"), OSError("No username set in the environment")):
        monkeypatch.setattr(getpass, "getuser", Mock(side_effect=error))
        assert exploring.own_name() == "me"
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert exploring.own_name() == "ada"


def test_a_pair_is_shown_with_its_table_and_what_cannot_be_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("City,Month,Units\nOslo,May,3\nLyon,May,1\nOslo,June,2\n")
    write_jsonl(tmp_path / "examples.jsonl", [{"id": "q1", "question": "how many in Oslo in May?", "answers": [3]}])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[tmp_path / "sales.csv"])
    workspace = Workspace(tmp_path / "store")
    queries = {"left": 'SELECT MAX("Units") FROM "sales"', "right": 'SELECT COUNT("City") FROM "sales"'}
    rows = [pair("1", **queries), pair("2", example="elsewhere"), pair("3")]
    write_jsonl(tmp_path / "judge.jsonl", rows)
    sheet, bench = Sheet(tmp_path / "judge.jsonl", "ada"), Bench(workspace)
    shown = bench.shown(sheet.pairs[0])
    assert (shown.left.returns, shown.right.returns, shown.compared) == ("3", "3", True)
    assert shown.distinction is not None
    assert len(shown.cells) == len(shown.distinction.shown)
    for other in sheet.pairs[1:]:
        plain = bench.shown(other)
        assert (plain.left.pieces, plain.left.lit, plain.compared) == ((("l", ""),), None, False)
    workspace.close()


def test_a_solution_alone_is_shown_once_and_asked_whether_it_is_right(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("City,Month,Units\nOslo,May,3\nLyon,May,1\n")
    write_jsonl(tmp_path / "examples.jsonl", [{"id": "q1", "question": "how many in Oslo in May?", "answers": [3]}])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[tmp_path / "sales.csv"])
    query = 'SELECT MAX("Units") FROM "sales"'
    same = {"left": query, "right": query, "left_from": "mimax", "right_from": "mimax"}
    write_jsonl(tmp_path / "right.jsonl", [pair("1", **same)])
    with opened_app(Workspace(tmp_path / "store"), sheet=tmp_path / "right.jsonl") as client:
        page = client.get("/judge/0").text
        assert page.count("<article>") == 1
        assert re.findall('<button name="choice" value="(.*?)"', page) == ["both", "neither", "unsure"]
        assert "distinguishing" not in page
        client.post("/judge/0", data={"choice": "neither"})
        page = client.get("/judge/0").text
    assert "you said: <b>wrong</b>" in page
    assert "How often a right answer has a right solution" in page
    assert read_judgements(tmp_path / "right.judged.jsonl").verdicts == [Verdict("mimax", 0, 1)]


def test_the_runs_own_sheet_holds_the_disagreements_in_random_order(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "tables.jsonl", [{"id": "sales", "header": list(SALES.header), "types": list(SALES.types),
                                             "rows": [list(row) for row in SALES.rows]}])  # fmt: skip
    write_jsonl(
        tmp_path / "examples.jsonl",
        [
            {"id": f"q{n}", "question": "how many in Oslo in May?", "context": "sales", "answers": [3]}
            for n in range(40)
        ],
    )
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store")
    workspace = Workspace(tmp_path / "store")
    assert open_sheet(workspace, "ada") is None
    workspace.index.change("UPDATE examples SET solver = 0, reconstructor = (place < 30)", [])
    path = tmp_path / "own.jsonl"
    assert make_sheet(workspace, path) == 30
    pairs = Sheet(path, "ada").pairs
    drawn = [row.id for row in workspace.index.rows("ORDER BY turn, place") if row.place < 30]
    assert [each.example for each in pairs] == drawn
    assert sorted(drawn) == sorted(f"q{n}" for n in range(30)) != drawn
    solutions = workspace.open(0).solutions
    texts = [workspace.view.text(solutions[place], workspace.open(0).example, SALES) for place in (0, 1)]
    for each in pairs:
        sides = {each.left_from: each.left, each.right_from: each.right}
        assert sides == {"solver": texts[0], "reconstructor": texts[1]}
    assert 5 < sum(each.left_from == "solver" for each in pairs) < 25
    workspace.close()


@pytest.fixture
def scored_run(tmp_path: Path) -> Workspace:
    """A run whose model scores nobody in passing, so that a test says what is scored."""
    root = write_data(tmp_path / "data")
    train(recipe(root, "mimax", train={"epochs": 0.2, "checkpoint_every": 1000}), tmp_path / "run")
    return Workspace(tmp_path / "run")


def test_no_sheet_is_made_while_pairs_may_be_missing(scored_run: Workspace) -> None:
    path, count = scored_run.cache / "judge.jsonl", scored_run.index.count
    scored_run.index.change("UPDATE examples SET solver = 0, reconstructor = (size > 1), scored = (place < 3)", [])
    with opened_app(scored_run, in_passing=False) as client:
        page = client.get("/judge").text
        done = int(scored_run.index.value("SELECT sum(scored) FROM examples"))  # the test has the model look at one
        said = re.search(r"\d+ of 200 pairs found, (\d+) of (\d+) examples scored\.", page)
        assert said is not None
        assert [int(each) for each in said.groups()] == [done, count]
        assert client.get("/judge/state").json() == {"finished": False, "text": said.group()}
        assert client.get("/judge/0").status_code == 404
        assert not path.exists()
        scored_run.index.change("UPDATE examples SET scored = 1", [])
        assert client.get("/judge/state").json()["finished"] is True
        assert client.get("/judge", follow_redirects=False).headers["location"] == "/judge/0"
        many = scored_run.index.value("SELECT count(*) FROM examples WHERE solver <> reconstructor")
        assert len(path.read_text().splitlines()) == many > 3


def test_a_full_sheet_is_made_early_of_the_first_that_differ_once_all_before_are_scored(
    scored_run: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bonafide.explore.judge.MOST_PAIRS", 3)
    monkeypatch.setattr("bonafide.explore.judging.MOST_PAIRS", 3)
    index = scored_run.index
    index.change("UPDATE examples SET scored = 0, solver = 0, reconstructor = 1", [])  # training chose so
    order = [row for row in index.rows("ORDER BY turn, place") if row.stored > 1]
    assert [row.place for row in order] != sorted(row.place for row in order)
    in_use = SheetInUse(scored_run, Scorer(scored_run, in_passing=False), "ada")

    def scored(row: Row, differing: bool) -> None:
        index.change("UPDATE examples SET scored = 1, reconstructor = ? WHERE place = ?", [int(differing), row.place])

    index.change("UPDATE examples SET scored = 1, reconstructor = 0 WHERE stored < 2", [])
    scored(order[-1], True)  # somebody looked at it: it is scored before its turn
    for at, row in enumerate(order[:5]):
        assert in_use.waits
        assert in_use.progress.startswith(f"{(at + 1) // 2} of 3 pairs found")
        assert in_use.open() is None
        scored(row, at % 2 == 0)
    assert not in_use.waits
    sheet = in_use.open()
    assert sheet is not None
    assert [pair.example for pair in sheet.pairs] == [order[at].id for at in (0, 2, 4)]
    scored_run.close()


def test_a_pair_that_is_one_no_more_while_the_sheet_is_made_is_not_made_up_for(scored_run: Workspace) -> None:
    scored_run.index.change("UPDATE examples SET scored = 1, solver = 0, reconstructor = 1", [])
    second = scored_run.index.value("SELECT turn FROM examples ORDER BY turn LIMIT 1 OFFSET 1")
    path = scored_run.cache / "judge.jsonl"
    assert make_sheet(scored_run, path, before=second) == 0
    assert not path.exists()
    scored_run.close()


def test_nobody_waits_for_pairs_where_there_is_no_reconstructor(tmp_path: Path) -> None:
    root = write_data(tmp_path / "data")
    train(recipe(root, "mml", train={"epochs": 0.2, "checkpoint_every": 1000}), tmp_path / "run")
    workspace = Workspace(tmp_path / "run")
    with opened_app(workspace, in_passing=False) as client:
        assert client.get("/judge/state").json()["finished"] is True
        assert "There is nothing to judge" in client.get("/judge").text


def test_who_waits_for_a_sheet_is_told_that_the_model_could_not_be_loaded(scored_run: Workspace) -> None:
    (scored_run.folder / "model/model.json").write_text("{}")
    with opened_app(scored_run, in_passing=False) as client:
        assert client.get("/judge/state").json()["finished"] is True  # a page that waits is loaded again
        page = client.get("/judge").text
        assert "The model could not be loaded" in page
        assert "data-poll" not in page


def test_two_who_come_first_make_one_sheet(scored_run: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    scored_run.index.change("UPDATE examples SET solver = 0, reconstructor = (size > 1), scored = 1", [])
    together, made = threading.Barrier(2), []

    def slowly(*arguments: Any) -> int:
        made.append(arguments)
        with suppress(threading.BrokenBarrierError):
            together.wait(0.5)  # who else makes one comes here too
        return make_sheet(*arguments)

    monkeypatch.setattr(judging, "make_sheet", slowly)
    in_use = SheetInUse(scored_run, Scorer(scored_run, in_passing=False), "ada")
    with ThreadPoolExecutor(2) as pool:
        first, second = [each.result() for each in [pool.submit(in_use.open) for _ in range(2)]]
    assert first is second is not None
    assert len(made) == 1
    scored_run.close()
