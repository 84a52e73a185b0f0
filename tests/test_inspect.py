"""The figures, lines and pages that a user sees of a store are what the store holds."""

from __future__ import annotations

import json
import statistics
from contextlib import closing
from html.parser import HTMLParser

import pytest

from bonafide.errors import BonafideError
from bonafide.examples import Example, example_to_json, write_jsonl
from bonafide.explore.workspace import Workspace
from bonafide.report.inspect import Inspection, histogram
from bonafide.report.page import write_page
from bonafide.search.sql import search_sql
from bonafide.synth.sql import generate
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import same_answer
from bonafide.tasks.sql.search import count
from bonafide.tasks.sql.sources import open_tables, shown_by
from bonafide.tasks.sql.tables import Table, table_to_json


def searched(folder, tables, pairs, **options):
    write_jsonl(folder / "tables.jsonl", map(table_to_json, tables))
    write_jsonl(folder / "examples.jsonl", (example_to_json(example) for example, _ in pairs))
    write_jsonl(folder / "gold.jsonl", ({"id": gold.id, "solution": gold.solution} for _, gold in pairs))
    search_sql(folder / "examples.jsonl", folder / "store", **options)
    return Inspection(folder / "store")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    tables, pairs = generate(tables=8, questions=6, seed=1, spuriousness=0.8)
    return searched(tmp_path_factory.mktemp("small"), tables, pairs), tables, pairs


def test_the_figures_are_those_of_the_sets(small):
    inspection, tables, pairs = small
    by_id = {table.id: table for table in tables}
    sizes = [count(e.question, e.answers, by_id[e.context], Language()) for e, _ in pairs]
    figures = inspection.figures(inspection.folder.parent / "gold.jsonl")
    assert figures["examples"] == len(pairs)
    assert figures["coverage"] == sum(size > 0 for size in sizes) / len(sizes)
    assert figures["mean"] == pytest.approx(statistics.mean(sizes))
    assert figures["median"] == statistics.median(sizes)
    assert figures["max"] == max(sizes)
    assert figures["gold_in_set"] == 1.0
    assert sum(number for _, number in histogram(inspection.store.sizes)) == len(pairs)


def test_listed_lines_are_the_sql_of_each_query_and_return_the_answer_in_sqlite(small):
    inspection, tables, pairs = small
    by_id = {table.id: table for table in tables}
    lines = [json.loads(line) for line in inspection.listed()]
    place = 0
    for example, _ in pairs:
        table = by_id[example.context]
        with Engine(table) as engine:
            for query in inspection.store[example.id]:
                sql, parameters = query.to_sql(table)
                assert lines[place] == {"example": example.id, "sql": sql, "parameters": parameters}
                assert same_answer(engine.run(sql, parameters), example.answers)
                place += 1
    assert place == len(lines)


def test_awkward_names_and_values_are_listed_as_json(tmp_path):
    table = Table('a"b\\', ('x"y\n', "é?"), ("text", "real"), [('say "hi"\\', 1), ("\u2028", 2)])
    (tmp_path / "examples.jsonl").write_text(
        json.dumps({"id": 'i"d', "question": 'say "hi"\\ 1?', "context": table.id, "answers": [1]}) + "\n"
    )
    write_jsonl(tmp_path / "tables.jsonl", [table_to_json(table)])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", language=Language(repeat_columns=True))
    inspection = Inspection(tmp_path / "store")
    table = inspection.table_of('i"d')
    lines = list(inspection.listed())
    for line, query in zip(lines, inspection.store['i"d'], strict=True):
        sql, parameters = query.to_sql(table)
        assert line == json.dumps({"example": 'i"d', "sql": sql, "parameters": parameters}, ensure_ascii=False)
    assert len(lines) > 5


class Checker(HTMLParser):
    """Counts elements, and remembers what would run."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


def test_the_page_shows_what_users_wrote_and_runs_none_of_it(tmp_path):
    attack = "<script>alert(1)</script>"
    table = Table(attack, (attack, "n"), ("text", "real"), [(attack, 1), ("b", 2)])
    (tmp_path / "examples.jsonl").write_text(
        json.dumps({"id": attack, "question": f"n of {attack}", "context": attack, "answers": [1]}) + "\n"
    )
    write_jsonl(tmp_path / "tables.jsonl", [table_to_json(table)])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store")
    inspection = Inspection(tmp_path / "store")
    write_page(inspection, inspection.figures(), tmp_path / "page.html")
    checker = Checker()
    checker.feed((tmp_path / "page.html").read_text())
    assert "script" not in checker.found
    assert checker.found.count("article") == 1
    assert "svg" in checker.found


def test_a_store_whose_inputs_changed_is_refused(tmp_path):
    tables, pairs = generate(tables=1, questions=2, seed=1)
    inspection = searched(tmp_path, tables, pairs)
    with (tmp_path / "tables.jsonl").open("a") as stream:
        stream.write("\n")
    with pytest.raises(BonafideError, match="content differs"):
        list(inspection.listed())
    moved = tmp_path / "elsewhere.jsonl"
    (tmp_path / "examples.jsonl").rename(moved)
    with pytest.raises(BonafideError, match="--examples"):
        _ = Inspection(tmp_path / "store").examples
    assert len(Inspection(tmp_path / "store", examples_path=moved).examples) == 2


def test_a_small_cap_is_reported(tmp_path):
    tables, pairs = generate(tables=2, questions=10, seed=5, spuriousness=1.0)
    inspection = searched(tmp_path, tables, pairs, cap=3)
    whole = [count(e.question, e.answers, inspection.table_of(e.id), Language()) for e, _ in pairs]
    figures = inspection.figures()
    assert figures["max"] == max(whole) > 3
    assert figures["complete"] == sum(size <= 3 for size in whole) / len(whole) < 1
    assert figures["solutions"] == sum(min(3, size) for size in whole)


def own_files(folder, **contents):
    """Files of one column and one row each."""
    for name, cell in contents.items():
        (folder / f"{name}.csv").write_text(f"city,units\n{cell},1\n")
    return [folder / f"{name}.csv" for name in contents]


def test_files_that_were_moved_and_renamed_are_inspected_under_their_old_names(tmp_path):
    asked = [{"id": name, "question": "which city?", "context": name, "answers": [name]} for name in ("oslo", "lyon")]
    write_jsonl(tmp_path / "examples.jsonl", asked)
    tables = own_files(tmp_path, oslo="Oslo", lyon="Lyon")
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=tables)
    before = list(Inspection(tmp_path / "store").listed())
    moved = [table.rename(tmp_path / f"{number}.csv") for number, table in enumerate(tables)]
    with pytest.raises(BonafideError, match="Say where they are now"):
        list(Inspection(tmp_path / "store").listed())
    assert list(Inspection(tmp_path / "store", table_paths=moved).listed()) == before != []
    with pytest.raises(BonafideError, match=r"Give them all, in this order: oslo\.csv, lyon\.csv"):
        list(Inspection(tmp_path / "store", table_paths=moved[::-1]).listed())
    with closing(Workspace(tmp_path / "store", contexts=moved)) as workspace:
        assert workspace.context_of(Example("lyon", "which city?", "lyon", ())).rows == [("Lyon", 1)]


def test_one_file_that_was_renamed_is_inspected_though_examples_name_no_table(tmp_path):
    write_jsonl(tmp_path / "examples.jsonl", [{"id": "a", "question": "which city?", "answers": ["Oslo"]}])
    (table,) = own_files(tmp_path, sales="Oslo")
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[table])
    moved = table.rename(tmp_path / "other.csv")
    (line, *_) = Inspection(tmp_path / "store", table_paths=[moved]).listed()
    assert json.loads(line)["sql"] == 'SELECT "city" FROM "sales"'


def test_the_same_files_under_exchanged_names_are_another_search(tmp_path):
    asked = [{"id": "a", "question": "which city?", "context": "one", "answers": ["Oslo"]}]
    write_jsonl(tmp_path / "examples.jsonl", asked)
    one, two = own_files(tmp_path, one="Oslo", two="Lyon")
    manifest = search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[one, two])
    assert manifest["counts"]["covered"] == 1
    assert search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[one, two]) == manifest
    one, two = own_files(tmp_path, two="Oslo", one="Lyon")
    with pytest.raises(BonafideError, match="already holds solutions of other inputs"):
        search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[one, two])
    assert search_sql(tmp_path / "examples.jsonl", tmp_path / "new", table=[one, two])["counts"]["covered"] == 0


def test_the_command_that_shows_how_tables_were_read_has_the_types_that_were_asked_for(tmp_path):
    path = tmp_path / "my sales.csv"
    path.write_text("order no,units\n007,1\n")
    source = open_tables(None, [path], {"order no": "real"})
    assert shown_by(source) == f"bonafide table '{path}' --type 'order no=real'"
