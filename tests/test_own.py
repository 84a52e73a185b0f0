"""Your own tables and pairs to a model: what is read, what is refused, what is said, and that it can go on."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import Example, open_examples
from bonafide.learn.learnable import learnable
from bonafide.learn.saved import load
from bonafide.own.pairs import import_pairs, read_pairs
from bonafide.own.training import _folds, claimed, learn, prepare
from bonafide.own.unsolved import why_unsolved
from bonafide.search.sql import search_sql
from bonafide.synth.shop import make_shop, write_shop
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import execute, parse_query, same_answer
from bonafide.tasks.sql.search import count
from bonafide.tasks.sql.sources import open_tables
from command_line import BONAFIDE, contents, write_lines

TYPED = Language(aggregates="typed")
TINY = [
    "table-scratch-mimax", "--set", "train.epochs=2", "--set", "solver.width=16", "--set", "solver.layers=1",
    "--set", "reconstructor.width=16", "--folds", "2",
]  # fmt: skip


@pytest.fixture
def shop(tmp_path):
    write_shop(tmp_path, pairs=40)
    return tmp_path


@pytest.fixture
def source(shop):
    return open_tables(None, [shop / "orders.csv"])


def pairs(shop: Path, *objects, source=None):
    return read_pairs(
        write_lines(shop / "mine.jsonl", objects), source or open_tables(None, [shop / "orders.csv"]), TYPED
    )


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000))
def test_every_answer_of_the_shop_is_what_its_query_returns(seed):
    table, made = make_shop(seed, pairs=60)
    assert len({pair.question for pair in made}) == 60
    for pair in made:
        query = parse_query(pair.query, table)
        assert same_answer(execute(query, table), pair.answer)
        assert count(pair.question, pair.answer, table, TYPED)


def test_the_shop_is_the_same_for_the_same_seed(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_shop(tmp_path / name, seed, pairs=20)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a").keys() == contents(tmp_path / "c").keys()
    assert contents(tmp_path / "a") != contents(tmp_path / "c")


def test_ids_and_tables_may_be_left_out_and_lists_and_single_answers_are_read(shop):
    read = pairs(
        shop,
        {"question": "who placed order 1001?", "answer": "Ben Roy"},
        {"question": "what does order 1001 contain?", "answers": ["shelf"], "id": "mine", "table": "orders.csv"},
    ).examples
    assert [(each.id, each.context, each.values) for each in read] == [
        ("q1", "orders", ("Ben Roy",)),
        ("mine", "orders", ("shelf",)),
    ]


def test_a_text_that_is_a_number_is_read_as_one_unless_a_cell_is_that_text(shop):
    read = pairs(shop, {"question": "what did order 1001 cost?", "answer": "$ 779"}, {"question": "a?", "answer": "x7"})
    assert [each.values for each in read.examples] == [(779.0,), ("x7",)]
    assert list(read.notes.values()) == [1]
    (shop / "codes.csv").write_text("Code,Name\n007,Ada\n0x8,Ben\n")
    codes = open_tables(None, [shop / "codes.csv"], {"Code": "text"})
    assert pairs(shop, {"question": "code of Ada?", "answer": "007"}, source=codes).examples[0].values == ("007",)


@pytest.mark.parametrize(
    ("written", "number"),
    [("3,0", 3), ("99,90", 99.9), ("2000,00", 2000), ("1.200,50 €", 1200.5), ("-0,5", -0.5), ("1,200", 1200),
     ("1,200.5", 1200.5), ("007", 7), ("1,2,3", "1,2,3"), ("12,34,567", "12,34,567")],
)  # fmt: skip
def test_an_answer_with_a_comma_is_read_as_a_cell_of_a_table_is(shop, written, number):
    (shop / "prices.csv").write_text("Product;Price\nlamp;3,0\nrug;30,0\nshelf;12,5\n")
    prices = open_tables(None, [shop / "prices.csv"])
    assert prices.tables["prices"].rows[0][1] == 3.0
    assert pairs(shop, {"question": "a?", "answer": written}, source=prices).examples[0].values == (number,)


def test_an_answer_that_is_a_long_id_is_the_text_of_its_column(shop):
    ids = (1234567890123456789, 2**60 + 256)  # floats hold the second
    (shop / "tweets.csv").write_text(f"Id,Author\n{ids[0]},Ann\n{ids[1]},Ben\n")
    tweets = open_tables(None, [shop / "tweets.csv"])
    for name, number in zip(("Ann", "Ben"), ids, strict=True):
        read = pairs(shop, {"question": f"tweet of {name}?", "answer": number}, source=tweets)
        assert read.examples[0].values == (str(number),)
        assert list(read.notes.values()) == [1]


def test_an_id_that_is_made_up_is_none_that_another_line_has(shop):
    named = [{"id": name, "question": f"who is {name}?", "answer": "Ben Roy"} for name in ("q2", "q2_", "q5")]
    unnamed = [{"question": f"who is {name}?", "answer": "Ben Roy"} for name in "ab"]
    read = pairs(shop, named[0], unnamed[0], named[1], named[2], unnamed[1]).examples
    assert [each.id for each in read] == ["q2", "q2__", "q2_", "q5", "q5_"]


def test_a_list_in_another_order_than_the_rows_is_put_in_order(shop):
    (shop / "cities.csv").write_text("City,Land\nOslo,Norway\nRiga,Latvia\nBergen,Norway\n")
    cities = open_tables(None, [shop / "cities.csv"])
    read = pairs(shop, {"question": "cities of Norway?", "answer": ["Bergen", "Oslo"]}, source=cities)
    assert read.examples[0].values == ("Oslo", "Bergen")
    assert list(read.notes.values()) == [1]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["Lima", "rome", "Oslo", "Kyiv", "Bonn"], ["Oslo", "Bonn", "rome", "Kyiv", "Lima"]),  # Rome stands above Oslo
        (["Oslo", "Bonn", "Rome", "Kyiv", "Lima"], ["Oslo", "Bonn", "Rome", "Kyiv", "Lima"]),
        (["Oslo", "Oslo", "Bonn", "Bonn", "Bonn"], ["Bonn", "Oslo", "Bonn", "Oslo", "Bonn"]),
        (["Bern", "Nice"], ["Nice", "Bern"]),
        (["Oslo", "Bonn", "Rome", "Kyiv", "Nice"], ["Oslo", "Bonn", "Rome", "Kyiv", "Nice"]),  # no query returns them
    ],
)
def test_a_list_of_any_length_is_put_in_the_order_in_which_a_query_returns_it(shop, given, wanted):
    by_year = {
        2019: ["Rome", "Lima", "Oslo"],
        2020: ["Oslo", "Bonn", "Rome", "Kyiv", "Lima"],
        2021: ["Bonn", "Oslo", "Bonn", "Oslo", "Bonn"],
        2022: ["Nice", "Bern"],
    }
    (shop / "tours.csv").write_text(
        "Year,City\n" + "".join(f"{year},{city}\n" for year, cities in by_year.items() for city in cities)
    )
    tours = open_tables(None, [shop / "tours.csv"])
    read = pairs(shop, {"question": "cities of 2019, 2020, 2021 or 2022?", "answer": given}, source=tours)
    assert read.examples[0].values == tuple(wanted)
    assert len(read.notes) == (given != wanted)


def test_a_repeated_pair_is_left_out_and_a_contradiction_is_refused(shop):
    once = {"question": "who placed order 1001?", "answer": "Ben Roy"}
    read = pairs(shop, once, {**once, "question": "Who  placed order 1001?"})
    assert (len(read.examples), list(read.notes.values())) == (1, [1])
    with pytest.raises(BonafideError, match="the answer of line 1, where the same question stands"):
        pairs(shop, once, {**once, "answer": "Ada Lund"})


def test_pairs_become_examples_of_every_other_command(shop, tmp_path):
    units = open_tables(None, [shop / "orders.csv"]).tables["orders"].rows[0][-2]
    lines = [
        {"question": "how many units had order 1001?", "answer": f"{units:g}", "table": "orders.csv"},
        {"question": "who placed order 1001?", "answer": "Ben Roy"},
    ]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    given = [str(tmp_path / "qa.jsonl"), "--table", str(shop / "orders.csv"), "--out", str(tmp_path / "data")]
    done = CliRunner().invoke(app, ["import", "pairs", *given])
    assert done.exit_code == 0, done.output
    assert "2 examples, written to" in done.stderr
    assert "1 answers are texts that read as numbers" in done.stderr
    written = list(open_examples(tmp_path / "data/examples.jsonl", open_tables(tmp_path / "data/tables.jsonl").check))
    assert written == [
        Example("q1", lines[0]["question"], "orders", (units,)),
        Example("q2", lines[1]["question"], "orders", ("Ben Roy",)),
    ]
    search_sql(tmp_path / "data/examples.jsonl", tmp_path / "solutions")
    assert all(len(solutions) for _, solutions in learnable("sql").open_store(tmp_path / "solutions"))
    refused = CliRunner().invoke(app, ["search", "sql", "--examples", *given[:-1], str(tmp_path / "none")])
    assert "a list of values (pairs: bonafide import pairs)" in [each.expected for each in refused.exception.problems]
    as_text = CliRunner().invoke(app, ["import", "pairs", *given[:-1], str(tmp_path / "typed"), "--type", "Units=text"])
    assert as_text.exit_code == 0, as_text.output
    types = [open_tables(tmp_path / name / "tables.jsonl").tables["orders"].types[-2] for name in ("data", "typed")]
    assert types == ["real", "text"]


def test_sql_calls_columns_as_the_file_does_from_which_pairs_were_imported(tmp_path):
    (tmp_path / "sales.csv").write_text(" City , Units,units,units,, City\nOslo,1,2,3,4,5\n")
    (tmp_path / "qa.jsonl").write_text('{"question": "how many in Oslo?", "answer": 1}\n')
    import_pairs(tmp_path / "qa.jsonl", [tmp_path / "sales.csv"], tmp_path / "data")
    own = open_tables(None, [tmp_path / "sales.csv"]).tables["sales"]
    imported = open_tables(tmp_path / "data/tables.jsonl").tables["sales"]
    assert own.sql_names[:2] == (" City ", " Units")
    assert imported.sql_names == own.sql_names
    assert imported.header == own.header


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("[1]", "(line)", "one JSON object"),
        ("{", "(line)", "one JSON object"),
        ({"question": "", "answer": 1}, "question", "a text that is not empty"),
        ({"question": "who?"}, "answer", "either an answer or a list of answers"),
        ({"question": "who?", "answer": 1, "answers": [1]}, "answer", "either an answer or a list of answers"),
        ({"question": "who?", "answer": True}, "answer", "a text, a number, or a list of them"),
        ({"question": "who?", "answer": []}, "answer", "at least one value"),
        ({"question": "who?", "answer": 1, "table": "stock"}, "table", "one of orders"),
        ({"question": "who?", "answer": 1, "id": 7}, "id", "a text that is not empty, or no id"),
    ],
)
def test_a_wrong_line_is_refused(shop, line, field, expected):
    with pytest.raises(InvalidFileError) as refusal:
        pairs(shop, {"question": "who placed order 1001?", "answer": "Ben Roy"}, line)
    (problem,) = refusal.value.problems
    assert (problem.line, problem.field, problem.expected) == (2, field, expected)


def test_several_tables_need_a_name_on_each_line(shop):
    (shop / "stock.csv").write_text("Product,Pieces\nlamp,4\n")
    both = open_tables(None, [shop / "orders.csv", shop / "stock.csv"])
    read = pairs(shop, {"question": "pieces of lamp?", "answer": 4, "table": "stock"}, source=both)
    assert read.examples[0].context == "stock"
    with pytest.raises(BonafideError, match="expected one of orders, stock, found nothing"):
        pairs(shop, {"question": "pieces of lamp?", "answer": 4}, source=both)


def test_a_type_is_of_a_column_of_any_of_them(shop):
    (shop / "stock.csv").write_text("Product,Pieces\nlamp,4\n")
    files = [shop / "orders.csv", shop / "stock.csv"]
    assert open_tables(None, files, {"pieces": "text"}).tables["stock"].types == ("text", "text")
    with pytest.raises(BonafideError, match=r"stock.csv: no column 'pieses' to give a type to.*Did you mean 'Pieces'"):
        open_tables(None, files, {"pieses": "text"})


@pytest.mark.parametrize(
    ("question", "answer", "why"),
    [
        ("who placed order 1001?", "Ben Ray", "no cell of the table is 'Ben Ray'; the nearest is 'ben roy'"),
        ("who placed order 1001?", "a stranger called Zoe", "an answer is a cell, a list of cells"),
        ("what did order 1001 cost?", "779 euros", "write a number as a number, without its unit"),
        ("what did order 1001 cost?", "€ 779 net", "write a number as a number, without its unit"),
        ("how fast was order 1001?", "12.5 km/h", "write a number as a number, without its unit"),
        ("when was order 1001 placed?", "2024-03-15", "an answer is a cell, a list of cells"),
        ("when was order 1001 placed?", "15 March 2024", "an answer is a cell, a list of cells"),
        ("who placed order 1001?", "Nobody12", "an answer is a cell, a list of cells"),
        ("who placed orders 1001 and 1002?", ["Ben Roy", "Oslo"], "do not stand in one column"),
        ("who placed order 1001?", ["Ben Roy", "Ben Roy", "Ada Lund"], "may have to be repeated"),
        ("which totals are there?", [3.125, 7.125], "do not stand in one column"),
        ("what is the mean total in May?", 479.37, "it may be rounded"),
        ("how many?", 3.25, "the question names no cell"),
        ("how many orders from Oslo in May?", 123456, "no query of at most 3 conditions"),
    ],
)
def test_it_says_why_a_pair_has_no_solution(source, shop, question, answer, why):
    table = source.tables["orders"]
    if "rounded" in why:
        conditions = [[4, 0, "May"]]
        answer = round(execute(parse_query({"sel": 6, "agg": 5, "conds": conditions}, table), table)[0], 2)
    (example,) = pairs(shop, {"question": question, "answer": answer}).examples
    assert not count(example.question, example.values, table, TYPED)
    assert why in why_unsolved(example, table, TYPED)


def test_answers_are_read_as_the_cells_of_a_table_with_decimal_commas(tmp_path):
    (tmp_path / "sales.csv").write_text("Stadt;Umsatz\nOslo;1.234\nLyon;2.345,5\nBonn;1.000\n")
    source = open_tables(None, [tmp_path / "sales.csv"])
    asked = [
        {"question": f"Umsatz in {city}?", "answer": text} for city, text in (("Oslo", "1.234"), ("Bonn", "1.000"))
    ]
    found = pairs(tmp_path, *asked, source=source).examples
    assert [each.values for each in found] == [(1234.0,), (1000.0,)]


def test_pairs_are_not_written_over_themselves(tmp_path):
    (tmp_path / "codes.csv").write_text("Code,Name\n70,Ada\n80,Ben\n")
    write_lines(tmp_path / "examples.jsonl", [{"question": "code of Ada?", "answer": 70, "mine": 1}])
    with pytest.raises(BonafideError, match=r"examples\.jsonl is read, and would be overwritten"):
        import_pairs(tmp_path / "examples.jsonl", [tmp_path / "codes.csv"], tmp_path)


def test_a_number_in_a_text_column_is_explained(tmp_path):
    (tmp_path / "codes.csv").write_text("Code,Name\n70,Ada\n80,Ben\n")
    codes = open_tables(None, [tmp_path / "codes.csv"], {"Code": "text"})
    (example,) = pairs(tmp_path, {"question": "code of Ada?", "answer": 70}, source=codes).examples
    assert "--type 'Code=real'" in why_unsolved(example, codes.tables["codes"], TYPED)


@given(st.integers(2, 60), st.integers(2, 7))
def test_folds_hold_every_pair_out_once(size, wanted):
    examples = [f"q{number}" for number in range(size)]
    parts = _folds(examples, wanted)
    assert sorted(each for part in parts for each in part) == sorted(examples)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_many_pairs_are_held_out_once_only():
    parts = _folds([f"q{number}" for number in range(2000)], None)
    assert [len(part) for part in parts] == [667]


@pytest.mark.slow
def test_the_command_trains_tests_says_how_to_ask_and_goes_on(shop, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    mislabelled = {"question": "who bought order 1001?", "answer": "Ben Ray"}
    with (shop / "qa.jsonl").open("a") as stream:
        stream.write(json.dumps(mislabelled) + "\n")
    command = ["train", "--table", shop / "orders.csv", "--examples", shop / "qa.jsonl", "--out", shop / "run", *TINY]
    train = [*(str(each) for each in command), "--type", "Units=real"]
    app(train, standalone_mode=False)
    shown = capsys.readouterr()
    assert "41 pairs on 1 table; 40 have a solution." in shown.err
    assert "no cell of the table is 'Ben Ray'; the nearest is 'ben roy'" in shown.err
    assert "of 41 answers held out in 2-fold cross-validation are right" in shown.out
    held = [json.loads(line) for line in (shop / "run" / "held-out.jsonl").read_text().splitlines()]
    assert sorted(each["id"] for each in held) == sorted(f"q{line}" for line in range(1, 42))
    figures = json.loads((shop / "run" / "own.json").read_text())
    assert (figures["right"], figures["held_out"]) == (sum(each["right"] for each in held), 41)
    assert "the nearest is &#x27;ben roy&#x27;" in (shop / "run" / "report.html").read_text()

    told = next(line for line in shown.out.splitlines() if line.startswith("Ask it: bonafide "))
    app(shlex.split(told)[3:], standalone_mode=False)
    assert "SELECT" in capsys.readouterr().out
    assert (
        f"In the browser: bonafide serve {shop / 'run'} --table {shop / 'orders.csv'} --type Units=real"
        in shown.out.splitlines()
    )

    with pytest.raises(BonafideError, match="already holds a run"):
        app(train, standalone_mode=False)
    shutil.rmtree(shop / "run" / "data" / "folds" / "2" / "run")
    capsys.readouterr()
    app([*train, "--resume"], standalone_mode=False)
    assert capsys.readouterr().out == shown.out
    assert [json.loads(line) for line in (shop / "run" / "held-out.jsonl").read_text().splitlines()] == held
    with pytest.raises(
        BonafideError, match=r"was started with --folds 2; now there are 3 folds\. Resume with --folds 2"
    ):
        app([*train, "--folds", "3", "--resume"], standalone_mode=False)
    with pytest.raises(BonafideError, match=r"was started with other settings in \[train\]: epochs"):
        app([*train, "--set", "train.epochs=3", "--resume"], standalone_mode=False)
    assert json.loads((shop / "run" / "own.json").read_text())["recipe"] == figures["recipe"]
    write_lines(shop / "qa.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    with pytest.raises(BonafideError, match="other tables or pairs"):
        app([*train, "--resume"], standalone_mode=False)


def _children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _is_training(process: int) -> bool:
    try:
        return "train" in Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_no_training_outlives_the_command_that_started_it(shop, number, to_all):
    """``to_all``: as a terminal does, which sends Ctrl-C to everything that it runs."""
    command = [BONAFIDE, "train", "--table", "orders.csv", "--examples", "qa.jsonl", "--out", "run", *TINY]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (shop / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--set", "train.epochs=500"],
            cwd=shop,
            stdout=said,
            stderr=said,
            env=environment,
            process_group=0,
        )
    end = time.monotonic() + 60
    while not (shop / "run" / "metrics.jsonl").exists():  # the trainings are under way
        assert process.poll() is None, (shop / "said").read_text()
        assert time.monotonic() < end
        time.sleep(0.05)
    trainings = _children(process.pid)
    assert len(trainings) == min(3, len(os.sched_getaffinity(0)))
    assert all(map(_is_training, trainings))
    (os.killpg if to_all else os.kill)(process.pid, number)
    assert process.wait(timeout=30) == 128 + number
    assert not any(map(_is_training, trainings))
    assert "Stopped. Add --resume to go on with what is in run." in (shop / "said").read_text()
    assert "Error" not in (shop / "said").read_text()


def test_a_second_command_on_the_same_folder_is_refused_and_touches_nothing(shop):
    command = ["train", "--table", str(shop / "orders.csv"), "--examples", str(shop / "qa.jsonl"), *TINY]
    with claimed(shop / "run"):
        prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run")
        written = contents(shop / "run")
        with pytest.raises(BonafideError, match=r"Another command is training in .*run right now"):
            app([*command, "--out", str(shop / "run"), "--resume"], standalone_mode=False)
        assert contents(shop / "run") == written
    with pytest.raises(BonafideError, match="already holds a run"), claimed(shop / "run"):
        pass
    with pytest.raises(KeyboardInterrupt), claimed(shop / "other"):
        raise KeyboardInterrupt
    assert not (shop / "other").exists()


def test_a_dev_file_takes_the_place_of_cross_validation(shop):
    write_lines(shop / "dev.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    overrides = [each for each in TINY if "=" in each]
    prepared = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run", shop / "dev.jsonl",
                       recipe="table-scratch-mimax", overrides=overrides)  # fmt: skip
    held, figures = learn(prepared)
    assert [each.question for each in held] == ["who placed order 1001?"]
    assert (figures["folds"], figures["held_out"], figures["pairs"]) == (0, 1, 40)
    assert not (shop / "run" / "data" / "folds").exists()
    assert load(shop / "run").task.name == "sql"
    written = contents(shop / "run")
    changed = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run", shop / "dev.jsonl", resume=True,
                      recipe="table-scratch-mimax", overrides=[*overrides, "train.epochs=3"])  # fmt: skip
    with pytest.raises(BonafideError, match=r"run was started with other settings in \[train\]: epochs"):
        learn(changed)
    assert contents(shop / "run") == written
    shutil.move(shop / "run", shop / "moved")
    moved = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "moved", shop / "dev.jsonl", resume=True,
                    recipe="table-scratch-mimax", overrides=overrides)  # fmt: skip
    assert learn(moved)[0] == held


def test_how_a_dev_file_was_read_and_what_of_it_is_learned_from_is_said(shop):
    first = json.loads((shop / "qa.jsonl").read_text().splitlines()[0])
    asked = {**first, "question": first["question"].upper()}
    wrong = {"question": "who placed order 1002?", "answer": "nobody of that name"}
    write_lines(shop / "dev.jsonl", [asked, asked, {"question": "what did order 1001 cost?", "answer": "$ 779"}, wrong])
    prepared = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run", shop / "dev.jsonl")
    twice, as_number, seen, unreached = prepared.notes.items()
    assert twice == ("pairs stand in the file twice: the second was left out (in the dev file)", 1)
    assert (as_number[0].endswith("they are read as numbers (in the dev file)"), as_number[1]) == (True, 1)
    assert (seen[0].startswith("dev pairs are training pairs too (same table and question)"), seen[1]) == (True, 1)
    assert (unreached[0].startswith("dev pairs have no solution"), unreached[1]) == (True, 1)
    alone = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "alone")
    assert not alone.notes


def test_after_too_few_pairs_had_a_solution_others_can_be_tried_in_the_same_folder(shop, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(shop)
    right = {"question": "who placed order 1001?", "answer": "Ben Roy"}
    command = ["train", "--table", "orders.csv", "--examples", "few.jsonl", "--out", "run"]
    unsolved = [{"question": f"who is number {number}?", "answer": f"stranger {number}"} for number in range(30)]
    write_lines(shop / "few.jsonl", [right, *unsolved])
    with pytest.raises(BonafideError, match=r"Only 1 of 31 pairs have a solution.*See why the others have none, above"):
        app(command, standalone_mode=False)
    shown = capsys.readouterr().err
    assert all(each["question"] in shown for each in unsolved)
    assert "report.html" not in shown
    assert not (shop / "run").exists()
    write_lines(shop / "few.jsonl", [right])
    with pytest.raises(BonafideError, match=r"Only 1 of 1 pairs have a solution.* to learn from\.$"):
        app(command, standalone_mode=False)


def test_what_is_not_ours_stays_where_too_few_pairs_have_a_solution(shop):
    mine = shop / "run" / "data" / "train" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    write_lines(shop / "few.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    with pytest.raises(BonafideError, match="Only 1 of 1"):
        learn(prepare([shop / "orders.csv"], shop / "few.jsonl", shop / "run", resume=True))
    assert [path for path in (shop / "run").rglob("*") if path.is_file()] == [mine]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "run"], "Name a recipe"),
        (["--out", "run", "--table", "orders.csv"], "give both --table FILE and --examples FILE"),
        (["--out", "run", "--examples", "qa.jsonl"], "give both --table FILE and --examples FILE"),
        (["wikisql-hard-mimax", "--out", "run", "--folds", "3"], "go with --table and --examples"),
        (["--out", "run", "--table", "none.csv", "--examples", "qa.jsonl"], "there is no such file"),
        (["drop-mimax", "--out", "run", "--table", "orders.csv", "--examples", "qa.jsonl"], "are for the task sql"),
        (["--out", "run", "--table", "orders.csv", "--examples", "empty.jsonl"], "holds no pairs"),
        (["--out", "run", "--table", "orders.csv", "--examples", "few.jsonl"], "Only 1 of 1 pairs have a solution"),
        (
            ["--out", "run", "--table", "orders.csv", "--examples", "qa.jsonl", "--dev", "qa.jsonl", "--folds", "4"],
            "give either --dev FILE or --folds",
        ),
        (["--out", ".", "--table", "orders.csv", "--examples", "qa.jsonl"], "is not empty and holds no run"),
    ],
)
def test_what_cannot_be_done_is_refused(shop, monkeypatch, arguments, message):
    monkeypatch.chdir(shop)
    (shop / "empty.jsonl").write_text("\n")
    write_lines(shop / "few.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    with pytest.raises(BonafideError, match=message):
        app(["train", *arguments], standalone_mode=False)
    assert not (shop / "run" / "model").exists()
