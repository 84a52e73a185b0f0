"""F1 in a comparison: tested and broken down as right answers are, but no share, and with nothing that flips."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bonafide.examples import Example
from bonafide.report.compare import ANSWER, F1, SOLUTION, Comparison, Method
from bonafide.report.compare_page import tables, to_json, write_comparison_page
from bonafide.report.predicted import Asked, Predicted
from bonafide.report.statistics import bootstrap_interval, bootstrap_mean, permutation_p, wilson
from bonafide.report.tabled import percent, points

COUNT = 40
EXAMPLES = [Example(f"q{n}", "how long?", f"passage {n // 2}", ("7 yards" if n % 4 else 7,)) for n in range(COUNT)]
LOW, HIGH = ([[0.0, 0.25, 0.5, 1.0][(n * step) % 4] for n in range(COUNT)] for step in (1, 3))
BETTER = [[min(1.0, each + gain) for each in LOW] for gain in (0.25, 0.5)]


def comparison(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], gold: bool = False) -> Comparison:
    """Two methods, of each the F1 by seed and example; an answer is right where it is 1."""
    methods = [
        Method(
            name,
            {seed: Path(f"{name}-{seed}") for seed in range(len(by_seed))},
            {
                seed: [
                    Predicted(example, None, "", each == 1, each == 1 if gold else None, each)
                    for example, each in zip(EXAMPLES, values, strict=True)
                ]
                for seed, values in enumerate(by_seed)
            },
        )
        for name, by_seed in (("hard-em", first), ("mimax", second))
    ]
    asked = Asked("discrete", {each.id: each for each in EXAMPLES}, lambda example: example.context, {})
    sizes = {each.id: 0.0 if place < 2 else 5.0 for place, each in enumerate(EXAMPLES)}
    return Comparison(methods, asked, sizes, gold)


def test_f1_is_tested_over_examples_and_seeds_as_right_answers_are() -> None:
    found = comparison([LOW, HIGH], BETTER, gold=True)
    assert found.figures == (ANSWER, F1, SOLUTION)
    (contrast,) = [each for each in found.contrasts["mimax"] if each.figure == F1]
    before, after = np.mean([LOW, HIGH], axis=0), np.mean(BETTER, axis=0)
    assert contrast.difference == pytest.approx((after - before).mean())
    assert contrast.interval == bootstrap_interval(before, after, found.units)
    assert contrast.interval != bootstrap_interval(before, after)  # passages go together
    assert contrast.p == permutation_p(before, after, found.units)
    assert contrast.seeds is not None
    paired = stats.ttest_rel([np.mean(each) for each in BETTER], [np.mean(each) for each in (LOW, HIGH)])
    assert contrast.seeds.p == pytest.approx(paired.pvalue)
    (shown,) = [each for each in tables(found) if each.title == "mimax against hard-em"]
    assert [row[:2] for row in shown.rows][1] == [F1, points(contrast.difference, contrast.interval)]


def test_the_interval_of_a_mean_f1_is_no_wilsons() -> None:
    found = comparison(BETTER, [LOW])
    methods = tables(found)[0]
    head, (first, _) = methods.head, methods.rows
    values = np.mean(BETTER, axis=0)
    mean = float(values.mean())
    assert first[head.index(F1)] == percent(mean, bootstrap_mean(values, found.units))
    assert first[head.index(F1)] != percent(mean, wilson(mean * COUNT, COUNT))
    assert first[head.index(f"{F1}, worst seed")] == percent(float(np.mean(BETTER[0])))
    right = float(found.methods[0].right(ANSWER).mean())
    assert first[head.index(ANSWER)] == percent(right, wilson(right * COUNT, COUNT))
    assert "F1 is no proportion: its intervals are by the bootstrap over examples" in methods.note


def test_f1_has_no_flips_and_the_page_says_so() -> None:
    found = comparison([LOW], [HIGH], gold=True)
    assert [bool(each.flips) for each in found.contrasts["mimax"]] == [True, False, True]
    (flips,) = [each for each in tables(found) if "flip" in each.title]
    assert not any(F1 in row[0] for row in flips.rows)
    assert flips.note == "McNemar's exact test, seed by seed. It is of right and wrong: F1 has no flips."


def test_f1_is_broken_down_by_size_and_by_type_in_tables_plots_and_json(tmp_path: Path) -> None:
    flat = [0.5, 0.5, *LOW[2:]]
    found = comparison([flat], [HIGH])
    shown = {each.title: each for each in tables(found)}
    sizes = shown["F1 by size of the solution set"]
    assert [row[:2] for row in sizes.rows] == [["0", "2"], ["2–9", "38"]]
    assert sizes.rows[0][2] == "50.0 %"  # two are too few
    assert sizes.rows[1][2] == percent(np.mean(flat[2:]), bootstrap_mean(flat[2:], found.units[2:] - 1))
    assert "none of fewer than ten examples" in sizes.note
    types = shown["F1 by type of answer"]
    assert [row[:2] for row in types.rows] == [["number", "10"], ["span", "30"]]
    assert types.rows[0][2:] == [percent(np.mean(flat[::4]), bootstrap_mean(flat[::4])), "0.0 %"]  # all have 0
    write_comparison_page(tmp_path / "c.html", found, tables(found), "")
    page = (tmp_path / "c.html").read_text()
    assert page.count("<figcaption>F1 by ") == 2
    said = to_json(found)
    assert said["methods"]["mimax"][F1] == [pytest.approx(np.mean(HIGH))]
    assert said["by_set_size"][F1]["hard-em"]["0"] == {"share": 0.5, "right": 1.0, "of": 2}
    assert said["by_answer_type"][F1]["mimax"]["number"]["share"] == 0.0
