"""Your own tables and pairs: what is read, what is refused, and why a pair has no solution."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import Example, open_examples
from bonafide.learn.learnable import learnable
from bonafide.own.pairs import import_pairs, read_pairs
from bonafide.own.unsolved import why_unsolved
from bonafide.search.sql import search_sql
from bonafide.synth.shop import make_shop, write_shop
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import execute, parse_query, same_answer
from bonafide.tasks.sql.search import count
from bonafide.tasks.sql.sources import open_tables
from command_line import contents, write_lines

TYPED = Language(aggregates="typed")


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
