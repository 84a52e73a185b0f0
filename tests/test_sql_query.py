"""The query language: values, SQL text, WikiSQL's dictionaries, and SQLite's golden behaviours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.query import (
    Aggregate,
    Condition,
    Operator,
    Query,
    answer_as_written,
    bound_value,
    execute,
    parse_query,
    same_answer,
)
from bonafide.tasks.sql.tables import Column, Table, same_number, unique_names

GOLDEN = Table(
    "golden",
    ("col0", "col1", "col2"),
    ("text", "real", "text"),
    [("a", 1, "10"), ("b", 2, "9"), ("b", "n/a", "x"), ("c", None, "8")],
)


def ask(select, aggregate=0, *conditions):
    return parse_query({"sel": select, "agg": aggregate, "conds": [list(each) for each in conditions]}, GOLDEN)


@pytest.mark.parametrize(
    ("query", "result"),
    [
        (ask(1, 1), ["n/a"]),
        (ask(1, 3), [3]),
        (ask(0, 4), [0.0]),
        (ask(2, 5), [6.75]),
        (ask(2, 2), ["10"]),
        (ask(0, 0, (1, 1, 1.5)), ["b", "b"]),
        (ask(2, 0, (1, 1, "abc")), ["x"]),
        (ask(0, 0, (1, 0, "2")), ["b"]),
        (ask(2, 0, (2, 1, 5)), ["9", "x", "8"]),
        (ask(2, 0, (2, 1, "5")), ["9", "x", "8"]),
        (ask(0, 3, (0, 0, "z")), [0]),
        (ask(1, 1, (0, 0, "z")), [None]),
        (ask(1, 4, (0, 0, "z")), [None]),
    ],
)
def test_golden_behaviours_of_sqlite_hold_in_both_executors(query, result):
    assert same_answer(execute(query, GOLDEN), result)
    with Engine(GOLDEN) as engine:
        assert same_answer(engine.run(*query.to_sql(GOLDEN)), result)


def test_queries_are_equal_in_canonical_form():
    one = ask(0, 0, (1, 0, "2"), (2, 0, "Nine"))
    other = ask(0, 0, (2, 0, "nine"), (1, 0, "2.0"))
    assert one == other
    assert len({one, other}) == 1
    assert one != ask(0, 0, (2, 0, "nine"))


def test_each_condition_binds_its_own_value():
    """WikiSQL's engine names the bound value after the column, so both conditions would get the last one."""
    query = ask(0, 0, (1, 1, 0), (1, 2, 2))
    assert execute(query, GOLDEN) == ["a"]
    with Engine(GOLDEN) as engine:
        assert engine.run(*query.to_sql(GOLDEN)) == ["a"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-5", -5), ("-5 km", -5), ("−5", -5), ("covid-19", 19), ("1,234.5", 1234.5), ("$1,000", 1000), ("5th", 5),
        ("45%", 45), (".5", 0.5), ("1e3", 1000), ("2008-09", 2008), ("n/a", "n/a"), ("N/A", "n/a"),
        ("nan", "nan"), ("infinity", "infinity"), ("", ""),
    ],
)  # fmt: skip
def test_a_value_on_a_real_column_is_the_number_it_holds(text, number):
    assert bound_value(text, GOLDEN, 1) == number


@pytest.mark.parametrize("beyond", ["1e999", " -1E400 ", "7" * 400, "1e9\x0099"])
@pytest.mark.parametrize("aggregate", range(6))
def test_a_text_beyond_all_floats_in_a_real_column_is_null_to_both_executors(beyond, aggregate):
    table = Table("t", ("a",), ("real",), [(beyond,), (1,), (2,)])
    with Engine(table) as engine:
        for conditions in ([], [[0, 1, 0]], [[0, 2, 5]], [[0, 0, beyond]], [[0, 1, beyond]]):
            query = parse_query({"sel": 0, "agg": aggregate, "conds": conditions}, table)
            assert execute(query, table) == engine.run(*query.to_sql(table))
    assert execute(ask(0, 3), table) == [2]


def test_a_text_beyond_all_floats_stays_a_text_in_a_text_column():
    table = Table("t", ("a",), ("text",), [("1e999",)])
    assert execute(parse_query({"sel": 0, "agg": 0, "conds": [[0, 0, "1E999"]]}, table), table) == ["1e999"]


def test_sql_quotes_identifiers_and_binds_values():
    table = Table('t"1', ('a"b', "SELECT"), ("text", "real"), [("x'; DROP TABLE t", 2)])
    query = parse_query({"sel": 1, "agg": 0, "conds": [[0, 0, "X'; drop TABLE t"]]}, table)
    sql, parameters = query.to_sql(table)
    assert sql == 'SELECT "SELECT" FROM "t""1" WHERE "a""b" = ? COLLATE NOCASE'
    with Engine(table) as engine:
        assert engine.run(sql, parameters) == [2]


def test_the_sql_also_runs_on_data_in_its_original_case():
    import sqlite3

    table = Table("people", ("Name", "Age"), ("text", "real"), [("Zed", 3), ("amy", 4)])
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE people ("Name" TEXT, "Age" REAL)')
    connection.executemany("INSERT INTO people VALUES (?, ?)", table.rows)
    for query in (
        Query(1, Aggregate.NONE, frozenset({Condition(0, Operator.EQUAL, "zed")})),
        Query(0, Aggregate.MAX, frozenset()),
    ):
        found = [row[0] for row in connection.execute(*query.to_sql(table))]
        assert same_answer(found, execute(query, table))
    connection.close()


@pytest.mark.parametrize(
    "solution",
    [
        {},
        {"sel": 9, "agg": 0, "conds": []},
        {"sel": 0, "agg": 6, "conds": []},
        {"sel": True, "agg": 0, "conds": []},
        {"sel": 0, "agg": 0, "conds": [[0, 0]]},
        {"sel": 0, "agg": 0, "conds": [[0, 3, "x"]]},
        {"sel": 0, "agg": 0, "conds": [[0, 0, None]]},
    ],
)
def test_a_wrong_dictionary_is_an_error_that_says_what_was_expected(solution):
    with pytest.raises(BonafideError, match="expected"):
        parse_query(solution, GOLDEN)


def test_answers_compare_by_order_type_and_tolerance():
    assert same_answer([3], [3.0])
    assert same_answer(["Oslo"], ["oslo"])
    assert same_answer([0.1 + 0.2], [0.3])
    assert not same_answer(["3"], [3])
    assert not same_answer(["a", "b"], ["b", "a"])
    assert not same_answer([1.0], [1.0000001])
    assert not same_answer([None], [0])


@given(st.integers(-(2**53), 2**53 - 1), st.floats(-0.49, 0.49))
def test_whole_numbers_that_floats_tell_apart_are_never_the_same_answer(number, rest):
    assert not same_answer([number], [number + 1])
    near = number + rest  # a large float rounds to the next half
    same = abs(near - number) < 0.5 and math.isclose(number, near, rel_tol=1e-9)
    assert same_answer([number], [near]) == same


def test_a_large_answer_is_right_to_ten_digits_and_beyond_all_whole_floats_too():
    assert same_answer([5551230001], [5551230001.3])
    assert not same_answer([5551230001], [5551230001.5])
    assert same_answer([2e18], [2e18 + 1e9])
    assert not same_answer([2e18], [2e18 + 1e10])
    assert not same_answer([2**53 - 1], [2**53 + 2])
    assert same_answer([math.inf], [math.inf])


LARGE = [5551230001.0, 2.0**53, 2.0**53 - 1, -(2.0**53), 1718000001000.0, 4e15, 0.5e9, 2e18]


@given(
    st.sampled_from(LARGE).flatmap(
        lambda near: st.tuples(
            st.floats(near - 20, near + 20) | st.integers(-20, 20).map(lambda by: near + by),
            st.lists(st.integers(-40, 40).map(lambda quarters: near + quarters / 4), max_size=20),
        )
    )
)
def test_a_band_is_the_values_that_are_the_same_answer(drawn):
    answer, cells = drawn
    column = Column(list(cells))
    low, high = column.band(answer)
    assert column.values[low:high] == [value for value in column.values if same_number(value, answer)]


@pytest.mark.parametrize(
    ("select", "aggregate", "answer"),
    [(0, 0, ["Łódź", "N/A"]), (0, 1, ["Łódź"]), (0, 3, [2.0]), (1, 0, [2**60 + 1, "N/A"]), (1, 1, ["N/A"]),
     (1, 2, [2**60 + 1]), (2, 0, ["5", None]), (2, 2, ["5"]), (3, 0, [7.0, 8]), (3, 1, [8]), (3, 5, [7.5])],
)  # fmt: skip
def test_answers_are_shown_as_the_table_writes_them_and_stay_the_same_answers(select, aggregate, answer):
    rows = [("Łódź", 2**60 + 1, 5, " 7. "), ("N/A", "N/A", None, 8), ("Oslo", 1, 2, 3)]
    table = Table("t", ("a", "b", "c", "d"), ("text", "real", "text", "real"), rows)
    query = Query(select, Aggregate(aggregate), frozenset({Condition(3, Operator.ABOVE, 3.0)}))
    written = answer_as_written(query, table)
    assert [(type(each), each) for each in written] == [(type(each), each) for each in answer]
    assert same_answer(written, execute(query, table))


def test_an_answer_of_nothing_is_shown_as_it_is():
    nothing = frozenset({Condition(1, Operator.EQUAL, 9.0)})
    assert answer_as_written(Query(0, Aggregate.NONE, nothing), GOLDEN) == []
    assert answer_as_written(Query(0, Aggregate.MAX, nothing), GOLDEN) == [None]
    assert answer_as_written(Query(1, Aggregate.MAX, frozenset({Condition(0, Operator.EQUAL, "c")})), GOLDEN) == [None]


def test_large_sums_of_decimals_are_exact_to_less_than_whole_numbers_differ():
    cells = [(-1.0) ** place * (9e15 / 3 + place) + 0.25 for place in range(1001)]
    table = Table("t", ("a",), ("real",), [(cell,) for cell in cells])
    (total,) = execute(Query(0, Aggregate.SUM, frozenset()), table)
    assert total == math.fsum(cells)


@pytest.mark.parametrize("beyond", [[1, 1, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0], [1, -1, 1], [-1, -1, 1, 1]])
def test_sums_beyond_all_floats_are_those_of_sqlite(beyond):
    table = Table("t", ("a",), ("real",), [(f"{each}.5e308",) for each in beyond])
    query = Query(0, Aggregate.SUM, frozenset())
    with Engine(table) as engine:
        assert execute(query, table) == engine.run(*query.to_sql(table))


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE other (a)",
        "DELETE FROM golden",
        "ATTACH DATABASE ':memory:' AS other",
        "PRAGMA query_only = OFF",
        "SELECT load_extension('x')",
        "INSERT INTO golden VALUES (1, 2, 3)",
        "DROP TABLE golden",
    ],
)
def test_the_engine_can_only_read(sql):
    with Engine(GOLDEN) as engine:
        with pytest.raises(BonafideError):
            engine.run(sql)
        assert engine.run("SELECT COUNT(*) FROM golden") == [4]


def test_the_engine_stops_a_query_that_runs_forever():
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
    with Engine(GOLDEN, work_limit=1_000_000) as engine:
        with pytest.raises(BonafideError, match="too long"):
            engine.run(endless)
        assert engine.run("SELECT COUNT(*) FROM golden") == [4]


def test_sums_that_sqlite_refuses_are_no_result():
    table = Table("t", ("a",), ("text",), [(str(2**62),), (str(2**62),)])
    query = Query(0, Aggregate.SUM, frozenset())
    assert execute(query, table) is None
    with Engine(table) as engine, pytest.raises(BonafideError, match="overflow"):
        engine.run(*query.to_sql(table))


def test_column_names_become_unique_and_say_so():
    names, coercions = unique_names(["a", "A", "", " a ", "b"])
    assert names == ("a", "A (2)", "column 3", "a (3)", "b")
    assert [each.kind for each in coercions] == ["name used twice", "empty name", "name used twice"]
