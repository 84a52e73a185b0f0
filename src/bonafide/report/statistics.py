"""The tests and intervals behind a comparison: small functions on arrays, in pairs, second minus first.

Two methods are compared over seeds (:func:`over_seeds`, in pairs where both have the same), over examples
(:func:`permutation_p` and :func:`bootstrap_interval`), and by the examples on which one is right and the other is not
(:func:`flips`). Intervals are at 95 %. The arithmetic is scipy's, but for the permutation test; what is ours is which
pairs go in, and what is said where a test has no answer: without two pairs, without any difference, without any spread.

Questions on one passage are not independent of each other. So where examples have contexts in common, whole contexts
are exchanged and resampled (:func:`units`); of few contexts that would say little, and examples are. Wilson's intervals
and McNemar's test know of no contexts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]

from bonafide.errors import BonafideError

Values = npt.NDArray[np.float64]
CONFIDENCE = 0.95
RESAMPLES = 9999
LEAST_CONTEXTS = 10
"""With fewer, examples are taken as independent: what is said then is of these contexts alone."""
LEAST_EXAMPLES = 10
"""Resampled, fewer would give an interval that is far too narrow."""
_BLOCK = 4_000_000
"""Numbers that are held at once while resampling."""
Units = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SeedTest:
    """A t-test over seeds. ``effect`` is Cohen's d: the mean difference in standard deviations.

    ``pairs``: 0 where the seeds are not the same, and the figures in no pairs. Where there is a difference and no
    spread to hold it against, there is no test: ``interval``, ``p`` and ``effect`` are None.
    """

    pairs: int
    difference: float
    interval: Interval | None
    p: float | None
    effect: float | None


@dataclass(frozen=True, slots=True)
class Flips:
    """McNemar's exact test: examples that only the first gets right (lost), and only the second (gained).

    ``odds`` is gained / lost, with its exact interval; None where nothing flips.
    """

    lost: int
    gained: int
    p: float
    odds: float | None
    interval: Interval | None


def wilson(right: float, of: float) -> Interval:
    """Wilson's interval of the share ``right / of``; of nothing, everything is possible."""
    if not 0 <= right <= of:
        raise BonafideError(f"Expected a count between 0 and {of}, found {right}.")
    if of == 0:
        return Interval(0.0, 1.0)
    z = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
    share, weight = right / of, z * z / of
    centre = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def paired_t(first: npt.ArrayLike, second: npt.ArrayLike) -> SeedTest | None:
    """The t-test of paired figures, one a seed; None of fewer than two pairs."""
    difference = differences(first, second)
    if len(difference) < 2:
        return None
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    if spread <= 1e-12 * max(1.0, abs(mean)):
        return _without_spread(len(difference), mean)
    found = stats.ttest_1samp(difference, 0.0)
    low, high = found.confidence_interval(CONFIDENCE)
    return SeedTest(len(difference), mean, Interval(float(low), float(high)), float(found.pvalue), mean / spread)


def over_seeds(first: Mapping[int, float], second: Mapping[int, float]) -> SeedTest | None:
    """The t-test of figures by seed: paired where both have the same seeds, else Welch's, of all that there are.

    None where one of them has fewer than two.
    """
    if set(first) == set(second):
        return paired_t([first[seed] for seed in sorted(first)], [second[seed] for seed in sorted(first)])
    before, after = np.array(list(first.values())), np.array(list(second.values()))
    if min(len(before), len(after)) < 2:
        return None
    mean = float(after.mean() - before.mean())
    spread = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / 2)
    if spread <= 1e-12 * max(1.0, abs(mean)):
        return _without_spread(0, mean)
    own = [each.var(ddof=1) / len(each) for each in (before, after)]
    error = math.sqrt(sum(own))
    freedom = sum(own) ** 2 / sum(each**2 / (len(of) - 1) for each, of in zip(own, (before, after), strict=True))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, freedom))
    return SeedTest(0, mean, Interval(mean - half, mean + half), p, mean / spread)


def units(contexts: Sequence[Hashable]) -> Units | None:
    """(examples,): the number of each example's context, where None is one of its own.

    None of all where examples stand for themselves: each has a context of its own, or there are fewer than ten.
    """
    names: dict[Hashable, int] = {}
    own = ((place, None) if name is None else name for place, name in enumerate(contexts))
    found = [names.setdefault(name, len(names)) for name in own]
    return None if len(names) < LEAST_CONTEXTS or len(names) == len(found) else np.array(found, dtype=np.intp)


def how_independent(contexts: Sequence[Hashable]) -> str:
    """A sentence on what is resampled and exchanged: examples, or whole contexts; empty where they are the same."""
    count = len(set(contexts) - {None}) + sum(each is None for each in contexts)
    if count == len(contexts):
        return ""
    if units(contexts) is None:
        some = "1 context" if count == 1 else f"{count} contexts"
        return f"The examples are of {some} and taken as independent: nothing is said of other contexts."
    return f"The examples of one context are resampled and exchanged together ({count:,} contexts)."


def permutation_p(first: npt.ArrayLike, second: npt.ArrayLike, of: Units | None = None, seed: int = 0) -> float:
    """Two-sided p of the mean difference under random exchange of the two figures of each example, or of all in a unit.

    Exact where there are few that differ; else from 9,999 random exchanges. Of those that differ by as much, how many
    keep their sign is one binomial draw.
    """
    difference = differences(first, second)
    if of is not None:
        sums = np.bincount(of, weights=difference).astype(np.float64)
        difference = np.round(sums, 12)  # those that are equal but for rounding are equal
    difference = difference[difference != 0]  # exchanging equal figures changes nothing
    if len(difference) < 2:
        return 1.0  # of one pair that differs nothing follows
    if 2 ** len(difference) <= RESAMPLES:
        signs = 1 - 2 * (np.arange(2 ** len(difference))[:, None] >> np.arange(len(difference)) & 1)
        return min(1.0, 2 * min(_tails(signs @ difference, difference)) / len(signs))
    chance = np.random.default_rng(seed)
    sizes, counts = np.unique(np.abs(difference), return_counts=True)
    rows = [len(each) for each in np.array_split(np.arange(RESAMPLES), -(-RESAMPLES // _rows(len(counts))))]
    kept = (chance.binomial(counts, 0.5, (many, len(counts))) for many in rows)
    sums = np.concatenate([(2 * each - counts) @ sizes for each in kept])
    return min(1.0, 2 * (1 + min(_tails(sums, difference))) / (1 + RESAMPLES))


def _tails(sums: Values, difference: Values) -> tuple[int, int]:
    """How many sums are at most, and at least, that of the differences; what is equal but for rounding is equal."""
    observed, near = difference.sum(), 1e-9 * np.abs(difference).max()
    return int((sums <= observed + near).sum()), int((sums >= observed - near).sum())


def bootstrap_interval(first: npt.ArrayLike, second: npt.ArrayLike, of: Units | None = None, seed: int = 0) -> Interval:
    """The interval of the mean difference over examples, by the percentiles of 9,999 resamplings of pairs or units."""
    difference = differences(first, second)
    if len(difference) < 2:
        raise BonafideError(f"A bootstrap over examples needs at least two of them; found {len(difference)}.")
    return _bootstrapped(difference, of, seed)


def bootstrap_mean(values: npt.ArrayLike, of: Units | None = None, seed: int = 0) -> Interval | None:
    """The same of a mean that is no proportion; None of few examples, and where all say the same."""
    drawn = np.asarray(values, dtype=np.float64)
    return None if len(drawn) < LEAST_EXAMPLES or np.ptp(drawn) <= 1e-12 else _bootstrapped(drawn, of, seed)


def _bootstrapped(values: Values, of: Units | None, seed: int) -> Interval:
    drawn: tuple[Values, ...] = (values,)
    if of is not None:
        sums, counts = np.bincount(of, weights=values), np.bincount(of).astype(np.float64)
        drawn = sums[counts > 0].astype(np.float64), counts[counts > 0]
    found = stats.bootstrap(
        drawn,
        np.mean if of is None else lambda sums, counts, axis: sums.sum(axis) / counts.sum(axis),
        n_resamples=RESAMPLES,
        batch=_rows(len(drawn[0])),
        method="percentile",
        confidence_level=CONFIDENCE,
        vectorized=True,
        paired=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))


def flips(first: npt.ArrayLike, second: npt.ArrayLike) -> Flips:
    """McNemar's test on which examples are right (true or false), in the same order."""
    before, after = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    differences(before, after)  # their shapes
    lost, gained = int((before & ~after).sum()), int((~before & after).sum())
    if lost + gained == 0:
        return Flips(0, 0, 1.0, None, None)
    found = stats.binomtest(gained, lost + gained)
    share = found.proportion_ci(CONFIDENCE, "exact")
    low, high = _odds(float(share.low)), _odds(float(share.high))
    return Flips(lost, gained, float(found.pvalue), _odds(gained / (lost + gained)), Interval(low, high))


def differences(first: npt.ArrayLike, second: npt.ArrayLike) -> Values:
    """(pairs,): second minus first."""
    before, after = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if before.ndim != 1 or before.shape != after.shape:
        raise BonafideError(f"Expected figures in pairs, found the shapes {before.shape} and {after.shape}.")
    return after - before


def _without_spread(pairs: int, mean: float) -> SeedTest:
    """Of seeds that all say the same: there is a test only where that is no difference at all."""
    if abs(mean) <= 1e-12:
        return SeedTest(pairs, mean, Interval(mean, mean), 1.0, 0.0)
    return SeedTest(pairs, mean, None, None, None)


def _odds(share: float) -> float:
    return math.inf if share == 1 else share / (1 - share)


def _rows(width: int) -> int:
    """Of such a width, that are held at once."""
    return max(1, _BLOCK // width)


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Spearman's; None where one of them is the same throughout."""
    if not np.ptp(first) or not np.ptp(second):
        return None
    return float(stats.spearmanr(first, second).statistic)
