"""Search finds exactly what brute force over the whole language finds, and SQLite agrees."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.tasks.sql import conjunctions
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language, question_runs, question_tokens
from bonafide.tasks.sql.query import (
    Aggregate,
    Condition,
    Operator,
    Query,
    execute,
    same_answer,
    selected_rows,
    sorting,
)
from bonafide.tasks.sql.search import candidates, count, in_returned_order, search
from bonafide.tasks.sql.tables import Table

WORDS = ["red", "Blue", "5", "-2", "10", "0.5", "blue red", "1,000", "n/a", "x", "É", ""]
CELLS = {
    "text": st.one_of(st.sampled_from([*WORDS, "5 red", "9", "12abc", "1e2"]), st.none()),
    "real": st.one_of(
        st.sampled_from([0, 1, 2, 5, 10, 1000, -2, 0.5, 0.25, "n/a", "7.", "", "x"]),
        st.none(),
        st.integers(-3, 3),
    ),
}


@st.composite
def tables(draw, max_rows=6, max_columns=4):
    types = draw(st.lists(st.sampled_from(["text", "real"]), min_size=1, max_size=max_columns))
    rows = draw(st.lists(st.tuples(*(CELLS[kind] for kind in types)), min_size=1, max_size=max_rows))
    return Table("a table", tuple(f'c"{index}' for index in range(len(types))), tuple(types), rows)


questions = st.lists(st.sampled_from([w for w in WORDS if w]), min_size=1, max_size=4).map(" ".join)
languages = st.builds(
    Language,
    aggregates=st.sampled_from(["typed", "untyped"]),
    max_conditions=st.integers(0, 3),
    repeat_columns=st.booleans(),
    order_text=st.booleans(),
    unmatched_values=st.booleans(),
)


def all_conditions(question, table, language):
    for condition in conditions_on_any_row(question, table, language):
        if language.unmatched_values or selected_rows(Query(0, Aggregate.NONE, frozenset({condition})), table).any():
            yield condition


def conditions_on_any_row(question, table, language):
    runs = question_runs(question)
    for column, kind in enumerate(table.types):
        for value in runs.numbers if kind == "real" else runs.texts:
            yield Condition(column, Operator.EQUAL, value)
            if kind == "real" or language.order_text:
                yield Condition(column, Operator.ABOVE, value)
                yield Condition(column, Operator.BELOW, value)


def all_queries(question, table, language):
    conditions = list(all_conditions(question, table, language))
    for size in range(language.max_conditions + 1):
        for chosen in combinations(conditions, size):
            if len({each.column for each in chosen}) < size and not language.repeat_columns:
                continue
            for select, kind in enumerate(table.types):
                for aggregate in Aggregate:
                    if language.allows(aggregate, kind):
                        yield Query(select, aggregate, frozenset(chosen))


def all_answers(question, table, language, limit):
    """Brute force: every query of the language by what it returns."""
    found = {}
    for number, query in enumerate(all_queries(question, table, language)):
        if number > limit:
            return None
        result = execute(query, table)
        if result is not None:
            found.setdefault(tuple(result), []).append(query)
    return found


def pick_answers(draw, found):
    keys = sorted(found, key=repr)
    return draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3, unique=True)) if keys else []


@pytest.mark.parametrize("way", ["bits", "cubes"])
@given(tables(), questions, languages, st.data())
@settings(max_examples=150, deadline=None)
def test_search_finds_exactly_what_brute_force_finds(way, table, question, language, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjunctions, "_bits_are_cheaper", lambda *_: way == "bits")
        check_against_brute_force(table, question, language, data)


def check_against_brute_force(table, question, language, data):
    found = all_answers(question, table, language, limit=20_000)
    if found is None:
        return
    for answers in pick_answers(data.draw, found):
        expected = {query for result, queries in found.items() if same_answer(result, answers) for query in queries}
        solutions = search(question, answers, table, language)
        assert set(solutions) == expected
        assert len(solutions) == len(expected) == solutions.size == count(question, answers, table, language)
        assert solutions.complete
        keys = [(query.operations, query.select, query.aggregate) for query in solutions]
        assert keys == sorted(keys)


@pytest.mark.parametrize("way", ["bits", "cubes"])
@given(st.sampled_from([5551230001, 1718000001000, 2**53 - 3, 4 * 10**15, 2**60]), st.data())
@settings(max_examples=60, deadline=None)
def test_search_finds_exactly_what_brute_force_finds_among_large_numbers(way, near, data):
    some = st.integers(-4, 4).map(lambda by: near + by) | st.sampled_from(
        [0, 1, near + 0.25, near + 0.5, near / 2, None]
    )
    rows = data.draw(st.lists(st.tuples(some, some, st.sampled_from("ab")), min_size=1, max_size=8))
    table = Table("t", ("x", "y", "z"), ("real", "real", "text"), rows)
    question = f"a with {near} or b"
    found = all_answers(question, table, Language(max_conditions=2), limit=20_000)
    answer = data.draw(st.sampled_from(sorted((each for each in found if len(each) == 1), key=repr)))[0]
    if isinstance(answer, float):
        answer += data.draw(st.sampled_from([0, 0.25, 0.5, 1, -1, 3]))
    expected = {query for result, queries in found.items() if same_answer(result, [answer]) for query in queries}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjunctions, "_bits_are_cheaper", lambda *_: way == "bits")
        assert set(search(question, [answer], table, Language(max_conditions=2))) == expected


def test_the_neighbour_of_a_large_whole_number_is_another_answer():
    rows = [("Oslo", 5551230001, 1718000001), ("Lyon", 5551230002, 1718000002), ("Rome", 5551230003, 1718000003)]
    table = Table("t", ("city", "phone", "started"), ("text", "real", "real"), rows)
    assert not {query for query in search("phone of Lyon?", [5551230001], table, Language()) if query.conditions}
    assert len(search("phone of Lyon?", [5551230002], table, Language())) > 0


@given(tables(), questions, languages, st.data())
@settings(max_examples=60, deadline=None)
def test_every_solution_returns_the_answer_in_real_sqlite(table, question, language, data):
    found = all_answers(question, table, language, limit=3_000)
    if found is None:
        return
    with Engine(table) as engine:
        for answers in pick_answers(data.draw, found):
            for query in search(question, answers, table, language):
                assert same_answer(engine.run(*query.to_sql(table)), answers), (query, answers)


@given(tables(), questions, languages)
@settings(max_examples=60, deadline=None)
def test_the_fast_executor_and_real_sqlite_return_the_same(table, question, language):
    with Engine(table) as engine:
        for number, query in enumerate(all_queries(question, table, language)):
            if number > 400:
                break
            fast = execute(query, table)
            if fast is None:
                with pytest.raises(BonafideError, match="overflow"):
                    engine.run(*query.to_sql(table))
            else:
                assert same_answer(engine.run(*query.to_sql(table)), fast), query


@given(tables(max_rows=6, max_columns=3), questions, languages, st.data())
@settings(max_examples=60, deadline=None)
def test_values_in_any_order_are_put_in_one_in_which_a_query_returns_them(table, question, language, data):
    found = all_answers(question, table, language, limit=3_000)
    for result in pick_answers(data.draw, {each: [] for each in found or () if len(each) > 1}):
        ordered = in_returned_order(question, data.draw(st.permutations(result)), table, language)
        assert sorted(ordered, key=sorting) == sorted(result, key=sorting)
        assert any(same_answer(ordered, each) for each in found)
        assert in_returned_order(question, [*result, "nowhere"], table, language) is None


@given(tables(max_rows=4, max_columns=3), questions, languages)
@settings(max_examples=60, deadline=None)
def test_the_number_of_candidates_is_the_number_of_queries_of_the_language(table, question, language):
    if candidates(question, table, language) <= 20_000:
        assert candidates(question, table, language) == len(set(all_queries(question, table, language)))


@given(tables(max_rows=3, max_columns=3), questions, languages, st.integers(0, 7), st.data())
@settings(max_examples=60, deadline=None)
def test_merging_rows_changes_nothing(table, question, language, copies, data):
    """The same table with each row repeated is over the limit from which rows are merged."""
    long = Table(table.id, table.header, table.types, [row for row in table.rows for _ in range(65 + copies)])
    found = all_answers(question, long, language, limit=3_000)
    if found is None:
        return
    for answers in pick_answers(data.draw, found):
        expected = {query for result, queries in found.items() if same_answer(result, answers) for query in queries}
        assert set(search(question, answers, long, language)) == expected


def test_a_cap_gives_a_uniform_sample_and_says_so():
    table = Table("t", ("a", "b", "c"), ("text", "real", "real"), [("x", 1, 2), ("y", 2, 2), ("x", 3, 0)])
    question = "x y 1 2 3"
    everything = search(question, [2], table, Language())
    tally = np.zeros(everything.size)
    for seed in range(600):
        sample = search(question, [2], table, Language(), cap=20, seed=seed)
        assert (len(sample), sample.size, sample.complete) == (20, everything.size, False)
        assert len(set(sample)) == 20
        for query in sample:
            tally[everything.index_of(query)] += 1
    expected = 600 * 20 / everything.size
    assert tally.min() > expected - 6 * expected**0.5
    assert tally.max() < expected + 6 * expected**0.5
    again = search(question, [2], table, Language(), cap=20, seed=7)
    assert list(again) == list(search(question, [2], table, Language(), cap=20, seed=7))


def test_a_set_too_large_to_list_is_counted_and_sampled():
    """An answer of 0 is also the count of nothing, so every run of the question is a value that hits."""
    question = " ".join(f"word{index}" for index in range(80))
    table = Table("t", tuple("abcde"), ("text",) * 5, [("q", "r", "s", "t", "u")])
    language = Language(repeat_columns=True, max_conditions=4, unmatched_values=True)
    solutions = search(question, [0], table, language, cap=100, seed=1)
    assert solutions.size == count(question, [0], table, language) > 10**15
    assert len(set(solutions)) == 100
    with Engine(table) as engine:
        assert all(engine.run(*query.to_sql(table)) == [0] for query in solutions)


def test_a_value_at_two_places_is_one_solution_with_two_groundings():
    table = Table("t", ("city", "n"), ("text", "real"), [("Oslo", 1), ("Rome", 2)])
    solutions = search("is oslo Oslo ?", ["oslo"], table, Language(aggregates="typed"))
    assert [grounded.spans for grounded in solutions.conditions] == [((3, 7), (8, 12))]


def test_similar_cells_are_values_grounded_in_the_run_they_resemble():
    table = Table("t", ("city", "n"), ("text", "real"), [("Saint Petersburg", 1), ("Rome", 2)])
    question = "what is n in saint petersberg?"
    assert len(search(question, [1], table, Language(aggregates="typed"))) == len(
        [q for q in search(question, [1], table, Language(aggregates="typed")) if not q.conditions]
    )
    solutions = search(question, [1], table, Language(aggregates="typed", similar_cells=0.6))
    wanted = Query(1, Aggregate.NONE, frozenset({Condition(0, Operator.EQUAL, "saint petersburg")}))
    assert wanted in solutions
    (grounded,) = solutions.conditions
    assert [question[start:end] for start, end in grounded.spans] == ["saint petersberg"]


def test_index_of_finds_each_query_and_nothing_else():
    table = Table("t", ("a", "b"), ("text", "real"), [("x", 1), ("y", 2)])
    solutions = search("x y 1 2", [1], table, Language())
    assert [solutions.index_of(query) for query in solutions] == list(range(len(solutions)))
    assert Query(0, Aggregate.SUM, frozenset({Condition(0, Operator.EQUAL, "z")})) not in solutions


@pytest.mark.parametrize(
    ("question", "answers", "wanted"),
    [
        ("上海有什么产品？", ["茶"], Condition(0, Operator.EQUAL, "上海")),
        ("数量大于4的城市有哪些？", ["上海", "北京"], Condition(2, Operator.ABOVE, 4.0)),
        ("气温低于-5度的城市？", ["北京"], Condition(3, Operator.BELOW, -5.0)),
        ("上海iPhone2024年的数量?", [5], Condition(1, Operator.EQUAL, "茶")),
    ],
)
def test_scripts_without_spaces_name_cells_and_numbers(question, answers, wanted):
    rows = [("大阪", "米", 3, -5), ("上海", "茶", 5, 2), ("北京", "米", 9, -7)]
    table = Table("t", ("城市", "产品", "数量", "气温"), ("text", "text", "real", "real"), rows)
    found = search(question, answers, table, Language(aggregates="typed"))
    assert any(query.conditions == {wanted} for query in found) == (wanted.value != "茶")


def test_a_character_of_a_script_without_spaces_is_a_token():
    question = "上海iPhone 12手机, カタカナ 3.5月 ไทย x-5 和-5"
    tokens = [question[start:end] for start, end in question_tokens(question)]
    assert tokens == [*"上海", "iPhone", "12", *"手机,カタカナ", "3.5", "月", *"ไทย", "x", "-", "5", "和", "-", "5"]
    assert set(question_runs(question).numbers) == {12.0, 3.5, 5.0, -5.0}


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("99,90", 99.9), ("99,90,", 99.9), ("1.940,13", 1940.13), ("1.940.000,5", 1940000.5), ("€ 1.234,567", 1234.567),
        ("0,125", 0.125), ("-0,5 %", -0.5), ("1234,567", 1234.567), ("1,2345", 1.2345), ("1,5", 1.5),
        ("1,234", 1234), ("1,234,567.5", 1234567.5), ("12,34,567", 1234567), ("3,4,5", 345), ("5,", 5), ("1.940", 1.94),
    ],
)  # fmt: skip
def test_a_comma_that_separates_no_group_of_three_digits_is_a_decimal_comma(written, number):
    runs = question_runs(f"welche Nr kostet {written} oder mehr?")
    assert [value for value in runs.numbers if value >= 0 or number < 0][:1] == [number]
    assert {abs(value) for value in runs.numbers} == {abs(number)}


def test_a_question_with_a_decimal_comma_finds_the_cell():
    table = Table("t", ("Nr", "Preis"), ("real", "real"), [(1, 99.9), (2, 9990), (3, 100)])
    wanted = Query(0, Aggregate.NONE, frozenset({Condition(1, Operator.EQUAL, 99.9)}))
    assert wanted in search("welche Nr kostet 99,90 €?", [1], table, Language())


def test_a_long_question_has_runs_of_up_to_a_hundred_tokens():
    runs = question_runs(" ".join(f"w{number}" for number in range(400)))
    assert max(text.count(" ") + 1 for text in runs.texts) == 100
    assert len(runs.texts) == 300 * 100 + sum(range(1, 101))
