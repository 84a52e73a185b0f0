"""Rows of a table against each other, and against its bars.

Over seeds a t-test, paired where both rows have the same seeds, Welch's where they have not; over examples a
permutation test and a bootstrap interval of each example's mean over all seeds of a row, in which the examples of one
context go together. A bar on p asks it of both tests: of the larger p. Where a row has one seed, or all seeds differ by
the same, there is no t-test, and the permutation test alone decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from bonafide.report.statistics import (
    Interval,
    SeedTest,
    bootstrap_interval,
    bootstrap_mean,
    over_seeds,
    permutation_p,
    units,
    wilson,
)
from bonafide.report.tabled import p_value, points
from bonafide.reproduce.results import Flags, Result
from bonafide.reproduce.tables import BEST_BASELINE, MEASURES, Check, Table

Results = Mapping[str, Sequence[Result]]
"""By row, in the order of the seeds."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """A row minus another, as a share."""

    difference: float
    interval: Interval
    over_examples: float
    over_seeds: SeedTest | None

    @property
    def p(self) -> float:
        """The larger of both tests; of the one over examples where there is no t-test."""
        seeds = None if self.over_seeds is None else self.over_seeds.p
        return self.over_examples if seeds is None else max(self.over_examples, seeds)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar in words, what was found, and whether it is met; ``open``: there is nothing to hold against it yet."""

    bar: str
    found: str
    state: Literal["met", "missed", "open"]


def by_seed(results: Sequence[Result], measure: str) -> dict[int, float]:
    """A measure of each seed, as a share."""
    figures = {each.seed: each.figure(measure) for each in results}
    return {seed: figure for seed, figure in figures.items() if figure is not None}


def mean(results: Sequence[Result], measure: str) -> float | None:
    """Over seeds; None where no run has it."""
    figures = by_seed(results, measure)
    return float(np.mean(list(figures.values()))) if figures else None


def of_starts(results: Sequence[Result], measure: str, starts: int) -> list[float]:
    """A measure of the run with the shortest description, of any so many runs together; none of runs without one."""
    known = [each for each in results if "description" in each.content["figures"]]
    chosen = [
        min(together, key=lambda each: float(each.content["figures"]["description"]))
        for together in itertools.combinations(known, starts)
    ]
    return [figure for each in chosen if (figure := each.figure(measure)) is not None]


def best_baseline(table: Table, results: Results, measure: str) -> str | None:
    """The baseline with the highest mean."""
    means = {row.name: mean(results[row.name], measure) for row in table.rows if row.role == "baseline"}
    known = {name: each for name, each in means.items() if each is not None}
    return max(known, key=lambda name: known[name]) if known else None


def genuine(results: Sequence[Result]) -> dict[int, float]:
    """By seed, how many of the right answers are given by the right solution, as a share."""
    shares = {}
    for each in results:
        if (found := _reasons(each)) is not None and found[0].any():
            shares[each.seed] = float(found[1][found[0]].mean())
    return shares


def settled(first: Sequence[Result], second: Sequence[Result]) -> tuple[int, int]:
    """Of questions that both answer rightly, but one alone by the right solution: how often second, and how many."""
    seeds = {each.seed: _reasons(each) for each in first}
    right = of = 0
    for each in second:
        one, other = seeds.get(each.seed), _reasons(each)
        if one is not None and other is not None:
            differ = one[0] & other[0] & (one[1] != other[1])
            right, of = right + int((differ & other[1]).sum()), of + int(differ.sum())
    return right, of


def _reasons(result: Result) -> tuple[Flags, Flags] | None:
    """(examples,): which answers are right, of questions with gold, and which solutions."""
    answer, solution, known = (result.flags(name) for name in ("answer", "solution", "known"))
    return None if answer is None or solution is None or known is None else (answer & known, solution)


def contexts(results: Results, measure: str) -> npt.NDArray[np.uint32] | None:
    """(examples,): the context of each example that a measure is of, as any of the results has it."""
    said = (each.contexts(measure) for listed in results.values() for each in listed)
    return next((each for each in said if each is not None), None)


def mean_interval(results: Results, name: str, measure: str) -> Interval | None:
    """Of a row's mean, each example counted once: Wilson's; of F1, which is no proportion, the bootstrap's."""
    found = [each for result in results[name] if (each := result.measured(measure)) is not None]
    if not measure.startswith("f1"):
        average, of = mean(results[name], measure), int(found[0][1].sum()) if found else 0
        return None if average is None else wilson(average * of, of)
    known = np.logical_and.reduce([each for _, each in found])
    numbers = contexts(results, measure)
    together = None if numbers is None else units(numbers[known].tolist())
    return bootstrap_mean(np.mean([values[known] for values, _ in found], axis=0), together)


def difference(results: Results, first: str, second: str, measure: str) -> Difference | None:
    """Second row minus first; None where one of them has no run with this measure."""
    one, other = results[first], results[second]
    before, after = by_seed(one, measure), by_seed(other, measure)
    if not before or not after:
        return None
    left, right = ([found for each in row if (found := each.measured(measure)) is not None] for row in (one, other))
    of = np.logical_and.reduce([known for _, known in (*left, *right)])
    if of.sum() < 2:
        return None
    base, figures = (np.mean([values[of] for values, _ in row], axis=0) for row in (left, right))
    numbers = contexts(results, measure)
    together = None if numbers is None else units(numbers[of].tolist())
    return Difference(
        float(figures.mean() - base.mean()),
        bootstrap_interval(base, figures, together),
        permutation_p(base, figures, together),
        over_seeds(before, after),
    )


def verdict(table: Table, results: Results, check: Check) -> Verdict:
    """A bar, held against what there is."""
    if check.seconds is not None:
        return _time_verdict(table, results, check, check.seconds)
    if check.against:
        return _difference_verdict(table, results, check)
    label, figures = table.row(check.row).label, by_seed(results[check.row], check.measure)
    ceiling = mean(results[check.over], check.measure) if check.over else 1.0
    subject = f"{label} / {table.row(check.over).label}" if check.over else label
    bar = f"{subject}: {MEASURES[check.measure]}, mean ≥ {_bar(check, check.mean)}"
    if check.worst is not None:
        bar += f", worst seed ≥ {_bar(check, check.worst)}"
    if not figures or not ceiling:
        return Verdict(bar, _seeds(table, results, check), "open")
    average, worst = float(np.mean(list(figures.values()))) / ceiling, min(figures.values()) / ceiling
    scale = 1.0 if check.over else 0.01
    met = average >= scale * check.mean - _ROUNDING
    met &= check.worst is None or worst >= scale * check.worst - _ROUNDING
    found = f"mean {_shown(check, average, check.mean)}, worst seed {_shown(check, worst, check.worst)}"
    return Verdict(bar, f"{found}{_so_far(table, results, check)}", "met" if met else "missed")


def _time_verdict(table: Table, results: Results, check: Check, most: float) -> Verdict:
    """Of the runs that had the device to themselves, and were not interrupted."""
    bar = f"{table.row(check.row).label}: trained in ≤ {most:g} s, alone on its device"
    alone = [each.content for each in results[check.row] if each.content["seconds"]["side_by_side"] == 1]
    times = [(each["seconds"]["training"], each) for each in alone if not each["seconds"]["resumed"]]
    if not times:
        there = "no run was alone" if results[check.row] else _seeds(table, results, check)
        return Verdict(bar, "those that were alone were interrupted" if alone else there, "open")
    slowest, content = max(times, key=lambda each: each[0])
    where = content["environment"]["gpu"] or f"{content['environment']['cpus']} CPU cores"
    return Verdict(bar, f"at most {slowest:,.0f} s of {len(times)} ({where})", "met" if slowest <= most else "missed")


def _difference_verdict(table: Table, results: Results, check: Check) -> Verdict:
    other: str | None = check.against
    if check.against == BEST_BASELINE:
        other = best_baseline(table, results, check.measure)
    against = check.against if other is None or check.against != BEST_BASELINE else f"best baseline ({other})"
    named = table.row(check.against).label if check.against != BEST_BASELINE else against
    bar = f"{table.row(check.row).label} − {named}: {MEASURES[check.measure]} ≥ {check.mean:+g} points"
    if check.p is not None:
        bar += f", p < {check.p:g}"
    found = None if other is None else difference(results, other, check.row, check.measure)
    if found is None:
        return Verdict(bar, _seeds(table, results, check), "open")
    met = found.difference >= 0.01 * check.mean - _ROUNDING and (check.p is None or found.p < check.p)
    test = found.over_seeds
    seeds = "" if test is None or test.p is None else f", p {p_value(test.p)} over seeds"
    words = f"{points(found.difference, found.interval)}, p {p_value(found.over_examples)} over examples{seeds}"
    return Verdict(bar, f"{words}{_so_far(table, results, check)}", "met" if met else "missed")


def _bar(check: Check, value: float) -> str:
    return f"{value:g}" if check.over else f"{value:g} %"


def _shown(check: Check, value: float, least: float | None) -> str:
    """With as many digits as it takes to see on which side of the bar it lies."""
    figure, digits, unit = (value, 3, "") if check.over else (100 * value, 1, " %")
    while least is not None and digits < 6 and (round(figure, digits) >= least) != (figure >= least - 100 * _ROUNDING):
        digits += 1
    return f"{figure:.{digits}f}{unit}"


def _involved(table: Table, check: Check) -> list[str]:
    if check.against == BEST_BASELINE:  # which of them it is can change with each
        return [check.row, *(row.name for row in table.rows if row.role == "baseline")]
    return [each for each in (check.row, check.over, check.against) if each]


def _seeds(table: Table, results: Results, check: Check) -> str:
    rows = [table.row(each) for each in _involved(table, check)]
    there = {row.name: len(by_seed(results[row.name], check.measure)) for row in rows}  # not all runs have each measure
    few = [row for row in rows if there[row.name] < row.seeds]
    return "; ".join(f"{row.label}: {there[row.name]} of {row.seeds} seeds" for row in few or rows)


def _so_far(table: Table, results: Results, check: Check) -> str:
    rows = [table.row(each) for each in _involved(table, check)]
    if all(len(by_seed(results[row.name], check.measure)) >= row.seeds for row in rows):
        return ""
    return f" (so far; {_seeds(table, results, check)})"
