"""Our executor against SQLite, our metrics against slow ones by their definition, our statistics against scipy."""

from __future__ import annotations

import math
from itertools import permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bonafide.report.statistics import bootstrap_interval, flips, paired_t, permutation_p
from bonafide.tasks.discrete.metrics import exact_match_and_f1, normalised
from bonafide.tasks.reading.metrics import exact_match, f1
from bonafide.tasks.reading.metrics import normalised as normalised_answer
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.query import Aggregate, Query, execute
from bonafide.tasks.sql.tables import Table
from fuzzing.queries import compared, random_query, random_table

WORDS = [
    "the",
    "a",
    "Ann",
    "ann",
    "Lee",
    "78",
    "78.0",
    "1,000",
    "1000",
    "$3.14",
    "3.14",
    "yard",
    "U.S.",
    "-",
    "é",
    "td.",
]
SPANS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4)
FIGURES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)
DIFFERENTIAL = settings(max_examples=150, deadline=None, derandomize=True)


def test_both_executors_return_the_same_for_random_queries_on_random_tables():
    done, found = compared(4_000, seed=0)
    assert (done, found) == (4_000, [])


@pytest.mark.long
def test_both_executors_return_the_same_for_two_hundred_thousand_queries():
    for seed in range(1, 5):
        assert compared(50_000, seed) == (50_000, [])


def test_the_random_queries_are_worth_asking():
    """They select rows, none, and all; return numbers, texts and nothing; and the tables hold all that SQLite knows."""
    chance = Random("worth")
    results = []
    for _ in range(100):
        table = random_table(chance)
        results += [(execute(random_query(table, chance), table), len(table.rows)) for _ in range(20)]
    answers = [result for result, _ in results if result is not None]
    assert sum(rows == 0 for _, rows in results) > 50
    assert sum(result == [] for result in answers) > 100
    assert sum(len(result) > 1 for result in answers) > 100
    for kind in (str, float, type(None)):
        assert sum(isinstance(each, kind) for result in answers for each in result) > 100


@pytest.mark.parametrize(
    ("cells", "kind", "sums"),
    [
        (["5\0"], "real", [5.0]),  # SQLite never sees the NUL
        (["9223372036854775807", "1", "x"], "text", None),  # too wide before the first cell that is no whole number
        (["x", "9223372036854775807", "1"], "text", [2.0**63]),
        (["0" * 5000 + "7", "1"], "text", [8.0]),
        (["7" * 5000], "text", [math.inf]),
        (["1e400", "-1e400"], "text", [None]),  # neither is a number that is none
    ],
)
def test_sums_that_were_wrong(cells, kind, sums):
    table = Table("t", ("a",), (kind,), [(cell,) for cell in cells])
    assert execute(Query(0, Aggregate.SUM, frozenset()), table) == sums
    if sums is not None:
        with Engine(table) as engine:
            assert engine.run('SELECT SUM("a") FROM "t"') == sums


@DIFFERENTIAL
@given(SPANS, SPANS, st.booleans())
def test_drop_s_f1_is_that_of_the_best_of_all_alignments(predicted, gold, official):
    said, meant = ([set(normalised(span, official).split()) for span in spans] for spans in (predicted, gold))
    size = max(len(said), len(meant))
    padded = said + [None] * (size - len(said))
    best = max(
        sum(slow_overlap(wanted, found) for wanted, found in zip(meant, order, strict=False) if found is not None)
        for order in permutations(padded)
    )
    exact, overlap = exact_match_and_f1(predicted, gold, official)
    assert overlap == pytest.approx(best / size, abs=0.00501)
    texts = [[normalised(span, official) for span in spans] for spans in (predicted, gold)]
    if not official or len(set(texts[1])) == len(texts[1]):
        assert exact == float(sorted(texts[0]) == sorted(texts[1]))


def slow_overlap(gold: set[str], predicted: set[str]) -> float:
    numbers = {word for word in gold if word.replace(".", "", 1).isdigit()}
    if numbers and not numbers & predicted:
        return 0.0
    if not gold or not predicted:
        return float(gold == predicted)
    shared = len([word for word in gold if word in predicted])
    return 2 * shared / (len(gold) + len(predicted))


@DIFFERENTIAL
@given(SPANS.map(" ".join), SPANS)
def test_squad_s_f1_takes_each_word_once(said, accepted):
    def overlap(wanted: str) -> float:
        left, words = normalised_answer(wanted).split(), normalised_answer(said).split()
        total, shared = len(left) + len(words), 0
        for word in words:
            if word in left:
                left.remove(word)
                shared += 1
        return 2 * shared / total if total else 1.0

    assert f1(said, accepted) == pytest.approx(max(map(overlap, accepted)))
    same = [normalised_answer(each) == normalised_answer(said) for each in accepted]
    assert exact_match(said, accepted) == float(any(same))


@DIFFERENTIAL
@given(FIGURES)
def test_the_t_test_is_scipy_s_on_any_pairs(pairs):
    first, second = np.array(pairs).T
    found = paired_t(first, second)
    if np.ptp(second - first) < 1e-9:
        return  # no spread: what is said then is tested by hand
    expected = stats.ttest_rel(second, first)
    interval = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-9)


@DIFFERENTIAL
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemar_is_the_binomial_test_and_its_odds_are_clopper_and_pearson_s(pairs):
    first, second = zip(*pairs, strict=True)
    found = flips(first, second)
    lost, gained = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    assert (found.lost, found.gained) == (lost, gained)
    if lost + gained == 0:
        return
    assert found.p == pytest.approx(stats.binomtest(gained, lost + gained, 0.5).pvalue)
    low = stats.beta.ppf(0.025, gained, lost + 1) if gained else 0.0
    high = stats.beta.ppf(0.975, gained + 1, lost) if lost else 1.0
    assert found.interval.low == pytest.approx(low / (1 - low))
    assert found.interval.high == (math.inf if high == 1 else pytest.approx(high / (1 - high)))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=9))
def test_the_permutation_test_counts_all_exchanges(differences):
    moved = [each for each in differences if each]
    zeros = np.zeros(len(differences))
    if len(moved) < 2:
        assert permutation_p(zeros, differences) == 1.0
        return
    signs = 1 - 2 * ((np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved))) & 1)
    sums = signs @ np.array(moved)
    tails = [np.mean(sums >= sum(moved) - 1e-9), np.mean(sums <= sum(moved) + 1e-9)]
    assert permutation_p(zeros, differences) == pytest.approx(min(1.0, 2 * min(tails)))


@pytest.mark.parametrize("seed", range(3))
def test_the_bootstrap_is_that_of_resampling_by_hand(seed):
    chance = np.random.default_rng(seed)
    first, second = chance.random(80), chance.random(80) ** 2
    means = [np.mean(chance.choice(second - first, 80)) for _ in range(6000)]
    found = bootstrap_interval(first, second)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=0.01)
