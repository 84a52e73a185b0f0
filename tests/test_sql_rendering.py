"""How queries are shown to the reconstructor."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide import rendering
from bonafide.rendering import Literal, SpanReference, Word, joined
from bonafide.synth.sql import generate
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.rendering import rendered, rendered_query
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table

TABLE = Table("orders", ("City", "Order price", "Weight"), ("text", "real", "real"), [("Oslo", 12, 2.5)])


def shown(rendering, context) -> str:
    return " ".join(
        f"<{context[piece.start : piece.end]}>" if isinstance(piece, SpanReference) else piece.text
        for piece in rendering
    )


def test_a_query_reads_as_the_released_code_writes_it():
    query = Query(
        1,
        Aggregate.MEAN,
        frozenset({Condition(2, Operator.BELOW, 2.5), Condition(0, Operator.EQUAL, "oslo")}),
    )
    result = rendered_query(query, TABLE)
    assert result.context == "City ; Order price ; Weight"
    assert shown(result[0], result.context) == (
        "select average ( <Order price> ) where <City> = oslo and <Weight> < 2.5"
    )
    asked = rendered_query(query, TABLE, verbalised=True)
    assert shown(asked[0], asked.context) == (
        "select average mean ( <Order price> ) where <City> = oslo "
        "and <Weight> less smaller fewer under below before 2.5"
    )


def test_where_stands_even_before_nothing_and_whole_numbers_have_no_point():
    plain = rendered_query(Query(0, Aggregate.NONE, frozenset()), TABLE)
    assert shown(plain[0], plain.context) == "select none ( <City> ) where"
    number = rendered_query(Query(0, Aggregate.COUNT, frozenset({Condition(1, Operator.ABOVE, 1200.0)})), TABLE, True)
    assert shown(number[0], number.context) == (
        "select many number ( <City> ) where <Order price> more greater larger over above after 1200"
    )


def test_words_literals_and_references_are_told_apart():
    query = Query(0, Aggregate.MAX, frozenset({Condition(0, Operator.EQUAL, "where")}))
    pieces = rendered_query(query, TABLE)[0]
    assert pieces[1] == Word("max")
    assert pieces[-1] == Literal("where")
    assert pieces[3] == SpanReference(0, 4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), verbalised=st.booleans(), repeat=st.booleans())
def test_a_rendered_set_says_of_each_solution_what_rendering_it_alone_says(seed, verbalised, repeat):
    [table], pairs = generate(1, 2, seed)
    for example, _ in pairs:
        language = Language(repeat_columns=repeat, max_conditions=2)
        queries = search(example.question, example.answers, table, language, cap=60)
        together = rendered(queries, table, verbalised)
        assert len(together) == len(queries)
        heads = len(set(zip(queries.select.tolist(), queries.aggregate.tolist(), strict=True)))
        assert len(together.segments) == heads + 2 * len(queries.conditions)
        for place, query in enumerate(queries):
            alone = rendered_query(query, table, verbalised)
            if repeat:  # conditions of one column may come in another order
                assert len(together[place]) == len(alone[0])
            else:
                assert together[place] == alone[0]
                assert together.context == alone.context


def test_a_set_without_solutions_renders_to_nothing():
    empty = QuerySet((), np.zeros(0, np.int32), np.zeros(0, np.int8), np.zeros((0, 0), np.int32), 0, True)
    assert len(rendered(empty, TABLE)) == 0


def test_sets_of_one_query_joined_say_what_they_said_and_say_it_once() -> None:
    oslo, light = Condition(0, Operator.EQUAL, "oslo"), Condition(2, Operator.BELOW, 2.5)
    queries = [
        Query(1, Aggregate.NONE, frozenset()),
        Query(1, Aggregate.MEAN, frozenset({oslo, light})),
        Query(1, Aggregate.MEAN, frozenset({oslo})),
    ]
    sets = [rendered_query(query, TABLE, verbalised=True) for query in queries]
    (same,), together = rendering.together(sets), joined(sets)
    assert [same[place] for place in range(3)] == [together[place] for place in range(3)]
    other = rendered_query(queries[0], Table("other", ("a", "b", "c"), ("text",) * 3, ()), verbalised=True)
    assert [len(each) for each in rendering.together([sets[0], other])] == [1, 1]
    assert [together[place] for place in range(3)] == [each[0] for each in sets]
    assert len(together.segments) == 4  # two heads, two conditions
