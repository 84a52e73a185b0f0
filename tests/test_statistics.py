"""The statistics of a comparison: against scipy's own, and against cases that were worked by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from bonafide.errors import BonafideError
from bonafide.report.statistics import (
    bootstrap_interval,
    bootstrap_mean,
    flips,
    how_independent,
    over_seeds,
    paired_t,
    permutation_p,
    units,
    wilson,
)


@given(some.integers(1, 500).flatmap(lambda of: some.tuples(some.integers(0, of), some.just(of))))
def test_wilson_is_scipys(counts):
    right, of = counts
    expected = stats.binomtest(right, of).proportion_ci(0.95, "wilson")
    found = wilson(right, of)
    assert found.low == pytest.approx(expected.low, abs=1e-12)
    assert found.high == pytest.approx(expected.high, abs=1e-12)


def test_wilson_by_hand():
    found = wilson(8, 10)  # z = 1.96: centre (0.8 + 0.19207) / 1.38415, half 0.22660
    assert (round(found.low, 3), round(found.high, 3)) == (0.490, 0.943)
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)
    with pytest.raises(BonafideError, match="between 0 and 3, found 4"):
        wilson(4, 3)


def test_the_t_test_is_scipys_on_pairs():
    first, second = np.array([0.61, 0.58, 0.65, 0.60, 0.57]), np.array([0.66, 0.64, 0.66, 0.67, 0.60])
    found, expected = paired_t(first, second), stats.ttest_rel(second, first)
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    assert found.effect == pytest.approx(expected.statistic / math.sqrt(5))
    assert found.difference == pytest.approx(0.044)


def test_the_t_test_by_hand():
    found = paired_t([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])  # differences 1, 2, 3: mean 2, sd 1, t = 2√3 with 2 degrees
    assert found.difference == 2.0
    assert found.effect == pytest.approx(2.0)
    assert found.p == pytest.approx(2 * (0.5 - 2 * math.sqrt(3) / (2 * math.sqrt(2 + 12))))


def test_the_t_test_where_there_is_no_spread_or_no_pair():
    assert paired_t([0.5], [0.6]) is None
    assert paired_t([0.5, 0.6], [0.5, 0.6]).p == 1.0
    same = paired_t([0.5, 0.6], [0.6, 0.7])
    assert same.difference == pytest.approx(0.1)
    assert (same.pairs, same.interval, same.p, same.effect) == (2, None, None, None)


def test_without_the_same_seeds_the_t_test_is_welchs_on_all_of_them():
    first, second = {0: 0.1, 1: 0.2, 2: 0.15}, {0: 0.3, 1: 0.5, 2: 0.35, 3: 0.05, 4: 0.4}
    found = over_seeds(first, second)
    expected = stats.ttest_ind(list(second.values()), list(first.values()), equal_var=False)
    assert found.pairs == 0
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(0.17)
    low, high = expected.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert over_seeds(first, {seed: second[seed] for seed in (2, 1, 0)}) == paired_t([0.1, 0.2, 0.15], [0.3, 0.5, 0.35])
    assert over_seeds(first, {3: 0.4}) is None
    assert over_seeds({0: 0.5, 1: 0.5}, {2: 0.5, 3: 0.5}).p == 1.0
    same = over_seeds({0: 0.5, 1: 0.5}, {2: 0.7, 3: 0.7})
    assert same.difference == pytest.approx(0.2)
    assert (same.pairs, same.interval, same.p, same.effect) == (0, None, None, None)


def test_the_permutation_test_of_one_pair_that_differs_says_nothing():
    assert permutation_p([1, 0, 1], [1, 1, 1]) == 1.0


def test_the_permutation_test_is_exact_where_few_pairs_differ():
    first, second = [0.0, 0.0, 0.5, 1.0, 1.0], [1.0, 0.5, 1.0, 1.0, 0.5]
    differences = np.subtract(second, first)
    moved = differences[differences != 0]
    sums = [np.dot(signs, moved) for signs in product((-1, 1), repeat=len(moved))]
    tail = np.mean([each >= moved.sum() - 1e-12 for each in sums])
    assert permutation_p(first, second) == pytest.approx(min(1.0, 2 * tail))


def test_differences_that_cancel_out_but_for_rounding_are_no_difference():
    first, second = np.array([2, 1, 1, 2, 3]) / 3, np.array([3, 0, 0, 3, 3]) / 3
    assert permutation_p(first, second) == 1.0


def test_the_permutation_test_of_many_pairs_is_that_of_scipy_on_two_samples():
    chance = np.random.default_rng(0)
    first = (chance.random(300) < 0.5).astype(float)
    second = np.where(chance.random(300) < 0.15, 1.0, first)
    expected = stats.permutation_test(
        (second, first),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    assert permutation_p(first, second) == pytest.approx(expected.pvalue, abs=2e-3)
    assert permutation_p(first, second) == permutation_p(first, second)
    assert permutation_p(first, first) == 1.0


def test_the_bootstrap_is_close_to_the_normal_interval_of_a_mean():
    chance = np.random.default_rng(2)
    first, second = chance.random(2000), chance.random(2000) + 0.1
    found, difference = bootstrap_interval(first, second), second - first
    half = 1.96 * difference.std(ddof=1) / math.sqrt(2000)
    assert found.low == pytest.approx(difference.mean() - half, abs=0.002)
    assert found.high == pytest.approx(difference.mean() + half, abs=0.002)
    with pytest.raises(BonafideError, match="at least two"):
        bootstrap_interval([1.0], [0.0])


def test_the_interval_of_a_mean_is_narrower_than_wilsons_and_wider_where_contexts_go_together():
    values = np.random.default_rng(3).random(200).repeat(5)
    alone, together = bootstrap_mean(values), bootstrap_mean(values, np.arange(200).repeat(5))
    for found, width in ((alone, values.std(ddof=1) / math.sqrt(1000)), (together, values[::5].std() / math.sqrt(200))):
        assert found.low == pytest.approx(values.mean() - 1.96 * width, abs=0.003)
        assert found.high == pytest.approx(values.mean() + 1.96 * width, abs=0.003)
    assert wilson(values.sum(), 1000).low < alone.low < alone.high < wilson(values.sum(), 1000).high
    assert [bootstrap_mean(each) for each in ([], values[:9], [0.3, 0.1 + 0.2] * 10)] == [None, None, None]


def test_examples_of_one_context_go_together_where_there_are_ten_contexts():
    names = [f"table {place // 3}" for place in range(30)]
    assert units(names).tolist() == [place // 3 for place in range(30)]
    assert how_independent(names) == "The examples of one context are resampled and exchanged together (10 contexts)."
    assert units([*names, None, None]).tolist() == [*(place // 3 for place in range(30)), 10, 11]
    assert units(names[:27]) is None
    assert how_independent(names[:27]).startswith("The examples are of 9 contexts and taken as independent")
    for alone in (names[::3], [None] * 40):
        assert units(alone) is None
        assert how_independent(alone) == ""


@given(some.lists(some.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=12, max_size=40), some.integers(0, 99))
def test_the_permutation_test_exchanges_whole_contexts(differences, seed):
    second, of = np.array(differences), np.random.default_rng(seed).integers(0, 7, len(differences))
    sums = [second[of == unit].sum() for unit in range(7)]
    signed = np.array(list(product((-1, 1), repeat=7))) @ sums
    tail = min((signed >= sum(sums) - 1e-9).mean(), (signed <= sum(sums) + 1e-9).mean())
    expected = min(1.0, 2 * tail) if np.count_nonzero(sums) > 1 else 1.0
    assert permutation_p(np.zeros(len(second)), second, of) == pytest.approx(expected)


def test_examples_that_say_the_same_ten_times_say_it_once():
    chance = np.random.default_rng(4)
    first, second = chance.random(60), chance.random(60) + 0.05
    many, of = [np.repeat(each, 10) for each in (first, second)], np.repeat(np.arange(60), 10)
    assert permutation_p(*many, of) == permutation_p(first, second)
    found, expected = bootstrap_interval(*many, of), bootstrap_interval(first, second)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert permutation_p(*many) < permutation_p(first, second)
    assert found.high - found.low > 3 * (bootstrap_interval(*many).high - bootstrap_interval(*many).low)


def test_the_bootstrap_over_contexts_of_different_sizes_is_close_to_the_sandwich_estimate():
    chance = np.random.default_rng(5)
    of = np.repeat(np.arange(400), chance.integers(1, 9, 400)) + 3  # numbers may begin anywhere
    difference = chance.normal(0, 0.3, 403)[of] + chance.normal(0.1, 0.5, len(of))
    residuals = np.bincount(of, weights=difference - difference.mean())
    half = 1.96 * math.sqrt((residuals**2).sum()) / len(of)
    found = bootstrap_interval(np.zeros(len(of)), difference, of)
    assert found.low == pytest.approx(difference.mean() - half, abs=0.006)
    assert found.high == pytest.approx(difference.mean() + half, abs=0.006)


def test_flips_by_hand():
    first = [True] * 5 + [False] * 9
    second = [True] * 4 + [False] + [True] * 6 + [False] * 3
    found = flips(first, second)
    assert (found.lost, found.gained, found.odds) == (1, 6, pytest.approx(6.0))
    assert found.p == pytest.approx(2 * (1 + 7) / 2**7)  # 0 or 1 of 7, both sides
    assert found.interval.low < 6 < found.interval.high
    assert flips(first, first).p == 1.0
    assert flips(first, first).odds is None
    assert flips([False, False], [True, True]).odds == math.inf


def test_what_is_not_in_pairs_is_refused():
    for test in (paired_t, permutation_p, bootstrap_interval, flips):
        with pytest.raises(BonafideError, match=r"shapes \(2,\) and \(3,\)"):
            test([1, 0], [1, 0, 1])
