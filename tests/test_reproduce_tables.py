"""What a table says of results that are there, and what it refuses; nothing is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.report.statistics import bootstrap_interval, bootstrap_mean, permutation_p, units, wilson
from bonafide.reproduce.compared import difference, genuine, mean_interval, of_starts, settled, verdict
from bonafide.reproduce.results import Result, comparable, numbered, packed, packed_bytes, result_name, typed
from bonafide.reproduce.runs import Asked, Filled, fill, missing
from bonafide.reproduce.shown import listed, tabled
from bonafide.reproduce.tables import Check, table, tables
from made_results import SMALL, made, rows_of


def test_right_answers_are_asked_for_their_reasons(tmp_path: Path) -> None:
    answers = [True, True, True, True, False, False]
    low = [made(tmp_path / "a", 0, [True, False, False, False, False, False], answers)]
    ours = [
        made(tmp_path / "b", 0, [False, True, True, False, True, False], answers),
        made(tmp_path / "c", 1, [True] * 6, answers),  # no baseline of this seed
    ]
    assert genuine(low) == {0: 0.25}
    assert genuine(ours) == {0: 0.5, 1: 1.0}
    assert settled(low, ours) == (2, 3)
    assert genuine([made(tmp_path / "d", 0, [], [], flags={"answer": packed(answers)}, examples=6)]) == {}
    (told,) = (
        each
        for each in tabled(SMALL, {"low": low, "high": [], "ours": ours, "gold": []})
        if each.title == "Right answers for the right reasons"
    )
    assert told.rows == [["Low", "25.0 %", "25.0 %", "–"], ["Ours", "75.0 %", "50.0 %", "66.7 % of 3"]]


@pytest.mark.parametrize(
    ("check", "state"),
    [
        (Check("ours", "solution", 60, worst=50), "met"),
        (Check("ours", "solution", 60, worst=56), "missed"),
        (Check("ours", "solution", 61), "missed"),
        (Check("ours", "solution", 0.75, over="gold"), "met"),
        (Check("ours", "solution", 0.75, worst=0.7, over="gold"), "missed"),
        (Check("ours", "solution", 20, against="best baseline"), "met"),
        (Check("ours", "solution", 20.5, against="best baseline"), "missed"),
        (Check("ours", "solution", 27, against="low", p=0.01), "met"),
        (Check("ours", "solution", 27, against="low", p=0.009), "missed"),  # over seeds; over examples it is small
        (Check("ours", "selection", 1), "open"),
        (Check("low", "selection", 0, against="best baseline"), "open"),
    ],
)
def test_bars_are_met_or_missed_by_the_figures(check: Check, state: str) -> None:
    results = rows_of({"low": [0.3, 0.3], "high": [0.39, 0.41], "ours": [0.55, 0.6, 0.65], "gold": [0.8]})
    found = verdict(SMALL, results, check)
    assert found.state == state, found


def test_a_bar_that_is_met_to_the_digit_is_shown_as_any_other() -> None:
    results = rows_of({"low": [], "high": [], "ours": [0.05, 0.3, 0.7], "gold": []})
    assert 100 * float(np.mean([0.05, 0.3, 0.7])) < 35  # by a rounding
    assert verdict(SMALL, results, Check("ours", "solution", 35)).found == "mean 35.0 %, worst seed 5.0 %"


@pytest.mark.parametrize(
    ("check", "found"),
    [
        (Check("ours", "solution", 0.625, over="gold"), "mean 0.6249, worst seed 0.625"),  # 0.625 would look as if met
        (Check("ours", "solution", 0.625, worst=0.625, over="gold"), "mean 0.6249, worst seed 0.6249"),
        (Check("ours", "solution", 0.6245, over="gold"), "mean 0.625, worst seed 0.625"),
        (Check("ours", "solution", 50), "mean 49.99 %, worst seed 50.0 %"),
    ],
)
def test_what_misses_a_bar_by_a_hair_does_not_look_as_if_it_met_it(check: Check, found: str) -> None:
    results = rows_of({"low": [], "high": [], "ours": [0.4999], "gold": [0.8]}, count=10_000)
    shown = verdict(SMALL, results, check)
    assert shown.found.removesuffix(" (so far; Ours: 1 of 3 seeds)") == found


def test_a_bar_says_how_many_seeds_it_was_held_against() -> None:
    results = rows_of({"low": [], "high": [], "ours": [0.7], "gold": []})
    assert verdict(SMALL, results, Check("ours", "solution", 60)).found == (
        "mean 70.0 %, worst seed 70.0 % (so far; Ours: 1 of 3 seeds)"
    )
    both = rows_of({"low": [], "high": [0.4, 0.4], "ours": [0.7, 0.7, 0.7], "gold": []})
    against = verdict(SMALL, both, Check("ours", "solution", 10, against="best baseline"))
    assert against.found.endswith("(so far; Low: 0 of 2 seeds)")  # it may be the best
    nothing = verdict(SMALL, results, Check("ours", "solution", 1, over="gold"))
    assert (nothing.state, nothing.found) == ("open", "Ours: 1 of 3 seeds; Gold: 0 of 1 seeds")


def test_a_bar_counts_the_seeds_that_have_its_measure() -> None:
    results = rows_of({"low": [0.2, 0.2], "high": [0.4, 0.4], "ours": [0.7, 0.7, 0.7], "gold": [0.8]})
    for each in (*results["low"][:1], *results["high"], *results["ours"]):  # one of Low is older
        each.content["flags"]["guided_answer"] = each.content["flags"]["answer"]
    guided = Check("ours", "answer-guided", 10, against="best baseline")
    assert verdict(SMALL, results, guided).found.endswith("(so far; Low: 1 of 2 seeds)")
    assert verdict(SMALL, results, Check("gold", "answer-guided", 10)).found == "Gold: 0 of 1 seeds"
    assert "so far" not in verdict(SMALL, results, Check("ours", "answer", 10, against="best baseline")).found


def test_a_bar_on_time_counts_runs_that_were_alone_and_not_interrupted() -> None:
    results = rows_of({"low": [], "high": [], "ours": [0.5, 0.5, 0.5], "gold": []})
    check = Check("ours", seconds=10)
    for result, training, together, resumed in zip(
        results["ours"], (9, 99, 1), (1, 4, 1), (False, False, True), strict=True
    ):
        result.content["seconds"] = {"training": training, "side_by_side": together, "resumed": resumed}
    assert verdict(SMALL, results, check).found == "at most 9 s of 1 (2 CPU cores)"
    assert verdict(SMALL, results, check).state == "met"
    results["ours"][0].content["seconds"]["training"] = 11
    assert verdict(SMALL, results, check).state == "missed"
    assert verdict(SMALL, {**results, "ours": results["ours"][1:]}, check).state == "open"
    for ours, found in ((results["ours"][1:2], "no run was alone"), ([], "Ours: 0 of 3 seeds")):
        assert verdict(SMALL, {**results, "ours": ours}, check).found == found
    interrupted = verdict(SMALL, {**results, "ours": results["ours"][2:]}, check)
    assert interrupted.found == "those that were alone were interrupted"


@pytest.mark.parametrize(("ours", "test"), [([0.5, 0.55], stats.ttest_rel), ([0.5, 0.55, 0.9], stats.ttest_ind)])
def test_a_difference_is_that_of_the_means_and_pairs_seeds_where_it_can(ours: list[float], test: Any) -> None:
    results = rows_of({"low": [0.3, 0.4], "ours": ours})
    found = difference(results, "low", "ours", "solution")
    assert found is not None
    assert found.difference == pytest.approx(sum(ours) / len(ours) - 0.35)
    assert found.over_seeds is not None
    options = {} if test is stats.ttest_rel else {"equal_var": False}
    assert found.over_seeds.p == pytest.approx(float(test(ours, [0.3, 0.4], **options).pvalue))
    assert found.p == max(found.over_examples, found.over_seeds.p)
    assert found.interval.low < found.difference < found.interval.high


def test_the_examples_of_one_context_go_together_once_a_result_says_their_contexts() -> None:
    results = rows_of({"low": [0.3, 0.4], "ours": [0.5, 0.55]})
    alone = difference(results, "low", "ours", "solution")
    results["ours"][1].content["contexts"] = numbered([None] * 200)
    assert difference(results, "low", "ours", "solution") == alone
    names = [f"passage {place // 8}" for place in range(200)]
    results["ours"][1].content["contexts"] = numbered(names)
    found = difference(results, "low", "ours", "solution")
    assert found is not None
    assert alone is not None
    base, ours = (np.mean([each.flags("solution") for each in results[row]], axis=0) for row in ("low", "ours"))
    assert found.interval == bootstrap_interval(base, ours, units(names)) != alone.interval
    assert found.over_examples == permutation_p(base, ours, units(names))
    assert (found.difference, found.over_seeds) == (alone.difference, alone.over_seeds)
    results["ours"][1].content["contexts"] = numbered([f"article {place // 50}" for place in range(200)])
    assert difference(results, "low", "ours", "solution") == alone  # four articles are too few to resample


def test_a_table_says_what_its_tests_take_as_independent() -> None:
    results = {name: [] for name in ("high", "ours", "gold")} | rows_of({"low": [0.4], "ours": [0.5]})

    def note() -> str:
        return next(each for each in tabled(SMALL, results) if "against Low" in each.head).note

    assert note().endswith("Examples are taken as independent; what contexts they are of, these results do not say.")
    results["low"][0].content["contexts"] = numbered([f"passage {place // 8}" for place in range(200)])
    assert note().endswith("The examples of one context are resampled and exchanged together (25 contexts).")
    for each in (*results["low"], *results["ours"]):  # gold is known of half of the examples: the others are not asked
        each.content["flags"]["known"] = packed([place < 100 for place in range(200)])
    assert note().endswith("The examples of one context are resampled and exchanged together (13 contexts).")
    results["low"][0].content["contexts"] = numbered([None] * 200)
    assert note().endswith("Each example has a context of its own.")


def test_without_a_spread_over_seeds_the_test_over_examples_decides() -> None:
    results = rows_of({"low": [0.3, 0.4], "ours": [0.5, 0.6]})
    found = difference(results, "low", "ours", "solution")
    assert found is not None
    assert found.over_seeds is not None
    assert found.over_seeds.p is None
    assert found.p == found.over_examples > 0
    shown = verdict(SMALL, results, Check("ours", "solution", 10, against="low", p=0.05))
    assert "over examples" in shown.found
    assert "over seeds" not in shown.found


def test_tables_break_down_by_the_type_of_the_answer_which_one_result_is_enough_to_know(tmp_path: Path) -> None:
    def run(seed: int, right: list[bool], **types: Any) -> Result:
        f1 = packed_bytes(np.array([1.0 if each else 0.5 for each in right], dtype=np.float16))
        return made(tmp_path / f"{seed}", seed, [False] * 5, right, values={"f1": f1}, **types)

    def of(**types: Any) -> dict[str, list[list[str]]]:
        low, ours = (
            [run(0, [True, False, True, False, True])],
            [run(0, [True] * 5), run(1, [True] * 4 + [False], **types)],
        )
        found = tabled(passages, {"low": low, "high": [], "ours": ours, "gold": []})
        return {each.title: [each.head, *each.rows] for each in found if "type of" in each.title}

    passages = dataclasses.replace(SMALL, measures=("answer", "f1"))
    assert of() == {}  # as of results that were made before they said it
    assert of(types=typed(["span"] * 5)) == {}
    assert of(types=typed(["span", "date", "number", "span", "number"])) == {
        "Right answer by type of the dev question's answer": [
            ["method", "number (2)", "span (2)", "date (1)"],
            ["Low", "100.0 %", "50.0 %", "0.0 %"],
            ["Ours", "75.0 %", "100.0 %", "100.0 %"],
        ],
        "F1 by type of the dev question's answer": [
            ["method", "number (2)", "span (2)", "date (1)"],
            ["Low", "100.0 %", "75.0 %", "50.0 %"],
            ["Ours", "87.5 %", "100.0 %", "100.0 %"],
        ],
    }


def test_f1_is_broken_down_by_the_size_of_the_set_where_there_is_f1(tmp_path: Path) -> None:
    f1 = {"f1": packed_bytes(np.array([0.0, 0.25, 0.5, 1.0], dtype=np.float16))}
    low = made(tmp_path / "low", 0, [False] * 4, [False, False, False, True], values=f1)  # sizes 0, 1, 2, 3
    results = {"low": [low], "high": [], "ours": [], "gold": []}

    def by_size(*measures: str) -> dict[str, list[Sequence[str]]]:
        found = tabled(dataclasses.replace(SMALL, measures=measures), results)
        return {each.title: [each.head, *each.rows] for each in found if "by size" in each.title}

    title = "by size of the dev question's solution set"
    assert by_size("answer", "f1") == {
        f"Right answer {title}": [["method", "0 (1)", "1 (1)", "2–9 (2)"], ["Low", "0.0 %", "0.0 %", "50.0 %"]],
        f"F1 {title}": [["method", "0 (1)", "1 (1)", "2–9 (2)"], ["Low", "0.0 %", "25.0 %", "75.0 %"]],
    }
    assert list(by_size("answer")) == [f"Right answer {title}"]


def test_the_interval_of_a_mean_f1_takes_the_examples_of_a_context_together(tmp_path: Path) -> None:
    chance, number = np.random.default_rng(0), np.repeat(np.arange(12), 5)
    drawn = np.clip(np.repeat(chance.random(12), 5) + 0.1 * chance.random((2, 60)), 0, 1).astype(np.float16)
    ours = [
        made(
            tmp_path / f"{seed}", seed, [False] * 60, [False] * 60,
            values={"f1": packed_bytes(values)}, contexts=numbered([str(each) for each in number]),
        )
        for seed, values in enumerate(drawn)
    ]  # fmt: skip
    results = {"low": [], "high": [], "ours": ours, "gold": []}
    found, means = mean_interval(results, "ours", "f1"), drawn.astype(np.float64).mean(axis=0)
    assert found == bootstrap_mean(means, units(number.tolist()))
    alone = bootstrap_mean(means)
    assert found is not None
    assert alone is not None
    assert found.high - found.low > 1.5 * (alone.high - alone.low)
    assert mean_interval(results, "ours", "answer") == wilson(0, 60)
    shown = tabled(dataclasses.replace(SMALL, measures=("answer", "f1")), results)
    notes = {each.title: each.note for each in shown}
    assert "Wilson's" in notes["Right answer"]
    assert "by the bootstrap over examples; " in notes["F1"]
    assert "12 contexts" in notes["F1"]  # also where there is no baseline to differ from


def test_measures_of_a_part_are_over_that_part(tmp_path: Path) -> None:
    result = made(tmp_path / "a.json", 0, [True, True, False, True], [True, False, False, True])  # sizes 0, 1, 2, 3
    assert result.figure("solution-several") == 0.5
    assert result.figure("answer-several") == 0.5
    assert result.figure("solution") == 0.75
    assert result.figure("selection") is None
    known = made(tmp_path / "b.json", 0, [True, False, False, False], [True] * 4)
    known.content["flags"]["known"] = packed([True, True, False, False])
    assert known.figure("solution") == 0.5


def test_a_page_holds_every_row_with_its_seeds_and_the_paper_beside_it() -> None:
    results = rows_of({"low": [0.3, 0.2], "high": [0.39, 0.41], "ours": [0.55, 0.6], "gold": []})
    pages = {each.title: each for each in tabled(SMALL, results)}
    assert pages["Means over seeds"].rows[2][2] == "57.5 % (paper 45.8)"
    rows = {row[0]: row for row in pages["Right solution"].rows}
    assert set(rows) == {"Low", "High", "Ours"}
    assert rows["Low"][2:4] == ["20.0 %", "30.0, 20.0"]
    assert pages["Right solution"].head[4] == "against High"
    assert rows["High"][4:] == ["–", "–", "–"]
    assert rows["Ours"][4].startswith("+17.5 [")


def test_a_measure_that_the_first_seed_lacks_is_that_of_the_others_and_says_so() -> None:
    results = rows_of({"low": [0.3, 0.2], "high": [0.4], "ours": [], "gold": []})
    del results["low"][0].content["flags"]["solution"]
    pages = {each.title: each for each in tabled(SMALL, results)}
    assert pages["Means over seeds"].rows[0][2:] == ["20.0 % (1 of 2 seeds)", "25.0 %"]
    assert pages["Right solution"].rows[0][1] == "20.0 % [15.0, 26.1]"  # of 200 examples


def test_runs_are_ranked_by_what_needs_no_gold() -> None:
    results = rows_of({"low": [0.1, 0.2], "high": [0.3, 0.4], "ours": [0.5], "gold": [0.6]})
    described = {"low": [9.0, 8.0], "high": [6.0, 7.0], "ours": [5.0], "gold": [1.0]}  # one pair is exchanged
    for name, found in results.items():
        for each, length in zip(found, described[name], strict=True):
            each.content["figures"] = {"description": length, "execution": 0.5 if name == "gold" else 0.7}
    (page,) = (each for each in tabled(SMALL, results) if "without gold" in each.title)
    assert page.rows == [["all", "6", "0.94", "-0.65"], ["not trained on gold", "5", "0.90", "–"]]
    few = rows_of({"low": [0.1, 0.2], "high": [0.3, 0.4], "ours": [], "gold": []})
    assert not any("without gold" in each.title for each in tabled(SMALL, few))


def test_the_best_of_several_starts_is_the_one_that_is_described_shortest() -> None:
    shares, descriptions = [0.5, 0.1, 0.6, 0.2, 0.4], [58.0, 63.0, 59.0, 58.5, 70.0]
    results = rows_of({"low": [0.1, 0.2], "high": [], "ours": shares, "gold": [0.9] * 5})
    for row in ("ours", "gold"):
        for each, description in zip(results[row], descriptions, strict=True):
            each.content["figures"] = {"description": description, "execution": 0.5}
    pairs = [0.5, 0.5, 0.5, 0.5, 0.6, 0.2, 0.1, 0.2, 0.6, 0.2]
    assert of_starts(results["ours"], "solution", 2) == pytest.approx(pairs)
    (starts,) = [each for each in tabled(SMALL, results) if each.title.startswith("Several starts")]
    assert starts.rows == [["Ours", "5", "36.0 % (10.0 %)", "39.0 % (10.0 %)", "42.0 % (20.0 %)"]]


def test_results_that_are_there_need_no_data_and_what_is_missing_is_told(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path, rows=("mimax",), seeds=1)
    with pytest.raises(BonafideError, match="1 run of sql-hard is missing: say where its data is with --data DIR"):
        fill([wanted], asked)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    made(asked.folder / result_name(row.recipe, settings, 0), 0, [True, False], [True, True], settings=settings).write()
    said: list[str] = []
    assert fill([wanted], asked, report=said.append) == {"sql-hard": Filled()}
    assert not said
    more = dataclasses.replace(asked, rows=("mimax", "gold"), seeds=2)
    assert fill([wanted], more, report=said.append) == {"sql-hard": Filled()}
    assert said == ["3 runs of sql-hard are missing; with --data DIR they are run."]
    shown = CliRunner().invoke(app, ["reproduce", "sql-hard", "--out", str(tmp_path)])
    assert (shown.exit_code, "with --data DIR they are run" in shown.stderr) == (0, True)
    assert (
        "| MIMAX (the paper's) | 1 | 50.0 % (paper 45.8) | 100.0 % (paper 69.1) |"
        in (tmp_path / "sql-hard.md").read_text()
    )


def test_every_table_is_made_of_recipes_that_exist(tmp_path: Path) -> None:
    known = tables()
    assert {"sql-hard", "sql-full-typed", "sql-full-untyped", "sql-selection", "discrete", "reading"} <= set(known)
    for each in known.values():
        names = [row.name for row in each.rows]
        assert len(set(names)) == len(names)
        for row in each.rows:
            recipe = row.settings(each.common, (), "some/bart")
            assert "BART" not in recipe.reconstructor.path
            assert (recipe.objective.method == "supervised") == (row.role == "gold")
            assert {measure for measure, _ in row.paper} <= set(each.measures)
    shown = listed(Asked(tmp_path))
    assert len(shown) == len(known) + 1
    (one,) = listed(Asked(tmp_path, overrides=("language.max_conditions=2",)), [table("sql-hard")])
    assert one.title.startswith("sql-hard: ")


def test_what_is_not_a_table_or_a_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BonafideError, match="There is no table 'sql-hrad': expected one of sql-hard"):
        table("sql-hrad")
    with pytest.raises(BonafideError, match="has no row 'mimaxx'"):
        missing(table("sql-hard"), Asked(tmp_path, rows=("mimaxx",)))
    with pytest.raises(BonafideError, match="must hold train/ and dev/"):
        fill([table("sql-hard")], Asked(tmp_path, tmp_path))


def test_the_table_whose_data_is_not_there_is_named_before_anything_is_searched(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / "data" / "wikisql" / split).mkdir(parents=True)
        (tmp_path / "data" / "wikisql" / split / "examples.jsonl").touch()
    missing_one = "There is no data of reading: .* must hold train/ and dev/ .* or a folder squad-article with these"
    with pytest.raises(BonafideError, match=missing_one):
        fill([table("sql-hard"), table("reading")], Asked(tmp_path / "out", tmp_path / "data"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rows", ["", " , "])
def test_no_rows_are_not_all_rows(tmp_path: Path, rows: str) -> None:
    """As of a variable of the shell that was never set: else all of a table would be trained."""
    done = CliRunner().invoke(app, ["reproduce", "sql-hard", "--out", str(tmp_path), "--rows", rows])
    assert "--rows names no row" in str(done.exception)


def test_a_row_that_is_named_twice_is_missing_once(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "sql-hard", "--out", str(tmp_path), "--rows", "gold,gold"])
    assert "5 runs of sql-hard are missing" in str(done.exception)
