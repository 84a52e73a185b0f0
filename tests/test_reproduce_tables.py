"""What a table says of results that are there, and what it refuses; nothing is trained."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.files import write_json
from bonafide.learn.recipe import read_recipe
from bonafide.report.charts import grouped_bars, line_chart
from bonafide.reproduce import shown
from bonafide.reproduce.compared import difference, genuine, of_starts, settled, verdict
from bonafide.reproduce.plots import row_bars, selection_curves
from bonafide.reproduce.results import (
    Result,
    buckets,
    comparable,
    packed,
    packed_bytes,
    read_result,
    result_name,
    typed,
    unpacked,
    unpacked_bytes,
)
from bonafide.reproduce.runs import Asked, Filled, fill, missing, results_of
from bonafide.reproduce.shown import listed, tabled, write_table
from bonafide.reproduce.tables import Check, Row, Table, table, tables
from browser import CHROMIUM, browser


def made(path: Path, seed: int, solution: list[bool], answer: list[bool], **changed: Any) -> Result:
    """A result of which only what was right matters."""
    count = len(answer)
    content = {
        "recipe_name": "wikisql-hard-mimax", "settings": {}, "seed": seed, "data": {"train": "a" * 64, "dev": "b" * 64},
        "examples": count, "ids": "c", "figures": {}, "values": {}, "curve": [],
        "flags": {"answer": packed(answer), "solution": packed(solution), "known": packed([True] * count)},
        "sizes": packed_bytes(buckets(range(count))), "trained_on": {"used": 7},
        "seconds": {"training": 3.0, "resumed": False, "side_by_side": 1},
        "environment": {"gpu": None, "cpus": 2, "bonafide": "0", "git": None, "torch": "2"}, **changed,
    }  # fmt: skip
    return Result(path, content)


def rows_of(figures: dict[str, list[float]], count: int = 200) -> dict[str, list[Result]]:
    """By row and seed, results with this share right; which examples is drawn."""
    chance = np.random.default_rng(0)
    found = {}
    for name, shares in figures.items():
        found[name] = []
        for seed, share in enumerate(shares):
            right = (chance.permutation(count) < round(share * count)).tolist()
            found[name].append(made(Path(f"{name}-{seed}.json"), seed, right, right))
    return found


SMALL = Table(
    "small", "A small table", "none", "none", "small", ("solution", "answer"), (),
    (
        Row("low", "Low", "wikisql-hard-mml", 2, role="baseline"),
        Row("high", "High", "wikisql-hard-hard-em", 2, role="baseline"),
        Row("ours", "Ours", "wikisql-hard-mimax", 3, paper=(("solution", 45.8),)),
        Row("gold", "Gold", "wikisql-hard-supervised", 1, role="gold"),
    ),
)  # fmt: skip


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
    found = difference(results["low"], results["ours"], "solution")
    assert found is not None
    assert found.difference == pytest.approx(sum(ours) / len(ours) - 0.35)
    assert found.over_seeds is not None
    options = {} if test is stats.ttest_rel else {"equal_var": False}
    assert found.over_seeds.p == pytest.approx(float(test(ours, [0.3, 0.4], **options).pvalue))
    assert found.p == max(found.over_examples, found.over_seeds.p)
    assert found.interval.low < found.difference < found.interval.high


def test_without_a_spread_over_seeds_the_test_over_examples_decides() -> None:
    results = rows_of({"low": [0.3, 0.4], "ours": [0.5, 0.6]})
    found = difference(results["low"], results["ours"], "solution")
    assert found is not None
    assert found.over_seeds is not None
    assert found.over_seeds.p is None
    assert found.p == found.over_examples > 0
    shown = verdict(SMALL, results, Check("ours", "solution", 10, against="low", p=0.05))
    assert "over examples" in shown.found
    assert "over seeds" not in shown.found


@pytest.mark.parametrize("damage", ["", "AAAA", "%%%%", "A"])
def test_a_damaged_row_is_named(tmp_path: Path, damage: str) -> None:
    result = made(tmp_path / "a.json", 0, [True] * 9, [True] * 9)
    result.write()
    assert read_result(result.path).flags("answer").all()
    result.content["flags"]["answer"] = damage
    result.write()
    with pytest.raises(BonafideError, match=r"a\.json is damaged"):
        read_result(result.path)


def changed(text: str, place: int) -> str:
    """One character of it is another."""
    return f"{text[:place]}{'A' if text[place] != 'A' else 'B'}{text[place + 1 :]}"


def halves(count: int) -> str:
    """F1 of so many examples, none of them alike."""
    return packed_bytes(np.linspace(0, 1, count).astype(np.float16))


def damaged(content: dict[str, Any], name: str) -> None:
    """Remove what is named, or set it to what it cannot be."""
    *folders, key = name.split(".")
    for each in folders:
        content = content[each]
    if key.endswith("?"):
        content[key[:-1]] = changed(content[key[:-1]], 12)
    elif key.endswith("!"):
        content[key[:-1]] = [None]
    else:
        del content[key]


NEEDED = (
    "settings", "seed", "data", "data.train", "data.dev", "examples", "ids", "figures", "flags", "flags.answer",
    "values", "sizes", "curve", "trained_on", "trained_on.used", "seconds", "seconds.training", "seconds.resumed",
    "seconds.side_by_side", "environment", "environment.gpu", "environment.cpus", "environment.bonafide",
    "environment.git", "environment.torch",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *NEEDED, *(f"{each}!" for each in NEEDED), "sizes?", "values.f1?", "values.f1!", "plain.answer", "plain!",
        "types.of", "types.names", "types.names!", "types.of?", "types!",
    ],
)  # fmt: skip
def test_a_row_that_lacks_what_a_table_needs_or_has_it_otherwise_is_named(tmp_path: Path, name: str) -> None:
    result = made(
        tmp_path / "a.json", 0, [True] * 9, [True] * 9, values={"f1": halves(9)},
        plain={"examples": 2, "ids": "d", "answer": packed([True, False])}, types=typed(["number", *8 * ["text"]]),
    )  # fmt: skip
    write_json(result.path, {"format": 1, **result.content})  # as before rows had checksums
    assert read_result(result.path).figure("f1") == pytest.approx(0.5, abs=1e-3)
    damaged(result.content, name)
    write_json(result.path, {"format": 1, **result.content})
    with pytest.raises(BonafideError, match=r"a\.json is damaged.*Delete it and run its row again\."):
        read_result(result.path)


@pytest.mark.parametrize("curve", [[1], [{}], [{"epoch": 1.0, "solver": {"share": 0.5}}], [{"epoch": "1"}]])
@pytest.mark.parametrize("key", ["curve", "figures"])
def test_a_row_with_a_damaged_figure_is_named(tmp_path: Path, key: str, curve: list[Any]) -> None:
    figures: Any = {"description": curve}
    result = made(tmp_path / "a.json", 0, [True], [True], **{key: curve if key == "curve" else figures})
    result.write()
    with pytest.raises(BonafideError, match=rf"a\.json is damaged.* {key}"):
        read_result(result.path)


def test_a_row_in_which_one_bit_has_changed_is_named(tmp_path: Path) -> None:
    result = made(tmp_path / "a.json", 0, [True] * 90, [True] * 90)
    result.write()
    right = result.content["flags"]["solution"]
    result.path.write_text(result.path.read_text().replace(right, changed(right, 3), 1))
    with pytest.raises(BonafideError, match=r"a\.json is damaged: .*checksum.* delete it and run its row again\."):
        read_result(result.path)


def test_a_copy_of_a_row_is_not_another_seed(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    path = asked.folder / result_name(row.recipe, settings, 0)
    made(path, 0, [True, False], [True, True], settings=settings).write()
    copy = path.with_name(f"{path.stem} (1).json")
    shutil.copy(path, copy)
    with pytest.raises(BonafideError) as refused:
        results_of(wanted, asked)
    for each in (path, copy):
        assert str(each) in str(refused.value)
    assert "both of seed 0" in str(refused.value)


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


def test_a_chart_with_too_many_rows_keeps_the_best_baseline_the_first_and_last_of_ours_and_gold() -> None:
    roles = {"a": "baseline", "b": "baseline", "c": "ours", "d": "ours", "e": "control", "f": "ours", "g": "gold"}
    many = dataclasses.replace(
        table("sql-hard"), rows=tuple(Row(name, name, "wikisql-hard-mml", 1, role=role) for name, role in roles.items())
    )
    results = rows_of({name: [0.5 + place / 20] for place, name in enumerate(roles)})
    chart = shown._plots(many, results)["by-size"]
    assert [name for name in roles if f">{name}</text>" in chart] == ["b", "c", "f", "g"]


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


@given(st.lists(st.booleans(), min_size=1, max_size=70), st.lists(st.floats(0, 1, width=16), min_size=1, max_size=40))
def test_what_was_right_survives_packing(flags: list[bool], values: list[float]) -> None:
    assert unpacked(packed(flags), len(flags)).tolist() == flags
    halves = np.array(values, np.float16)
    assert unpacked_bytes(packed_bytes(halves)).view(np.float16).tolist() == halves.tolist()


def test_results_are_told_apart_by_what_matters_and_not_by_places() -> None:
    def name(*settings: str) -> str:
        return result_name("drop-mimax", comparable(read_recipe("drop-mimax", settings), False), 0)

    usual = name()
    assert name("data.root=/here", "data.solutions=/there", "train.checkpoint_every=7", "train.seed=3") == usual
    assert name("reconstructor.path=/models/bart-base") == usual
    assert name("reconstructor.path=/models/other") != usual
    assert name("train.epochs=3.0") != usual
    assert usual.startswith("drop-mimax-")


def test_results_of_another_machine_are_used_and_those_of_other_settings_or_data_are_not(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    path = asked.folder / result_name(row.recipe, settings, 0)
    made(path, 0, [True, False], [True, True], settings=settings).write()
    assert [each.seed for each in results_of(wanted, asked)["mimax"]] == [0]
    assert [seed for row, seed in missing(wanted, asked) if row.name == "mimax"] == [1, 2, 3, 4]
    assert not results_of(wanted, dataclasses.replace(asked, overrides=("train.epochs=2.0",)))["mimax"]
    older = {**settings, "train": {key: value for key, value in settings["train"].items() if key != "graphs"}}
    made(path, 0, [True], [True], settings=older).write()  # from before there was this setting
    assert results_of(wanted, asked)["mimax"]
    made(path, 0, [True], [True], settings={**settings, "train": {**settings["train"], "epochs": 2.0}}).write()
    assert not results_of(wanted, asked)["mimax"]
    made(path, 0, [True], [True], settings=settings).write()
    made(path.with_name(path.name.replace("-0.json", "-1.json")), 1, [True], [True], settings=settings, ids="d").write()
    with pytest.raises(BonafideError, match="was made on other data than"):
        results_of(wanted, asked)


@pytest.mark.parametrize(
    ("key", "called"),
    [("train_contexts", "train contexts"), ("dev_contexts", "dev contexts"), ("dev_gold", "dev gold")],
)
def test_results_of_other_contexts_or_gold_are_refused_where_both_say_which(
    tmp_path: Path, key: str, called: str
) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    examples = {"train": "a" * 64, "dev": "b" * 64}
    for seed, data in enumerate((examples, {**examples, key: "c" * 64}, {**examples, key: "c" * 64})):
        path = asked.folder / result_name(row.recipe, settings, seed)
        made(path, seed, [True], [True], settings=settings, data=data).write()
    assert len(results_of(wanted, asked)["mimax"]) == 3  # the first is older, and says nothing of it
    made(path, 2, [True], [True], settings=settings, data={**examples, key: "d" * 64}).write()
    with pytest.raises(BonafideError, match=rf"was made on other data than .*-1\.json \({called}\)"):
        results_of(wanted, asked)


def test_results_that_know_the_truth_of_other_questions_are_refused(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    paths = [asked.folder / result_name(row.recipe, settings, seed) for seed in range(3)]
    for seed, path in enumerate(paths):
        made(path, seed, [True, False], [True, True], settings=settings).write()
    without = made(paths[0], 0, [], [True, True], settings=settings)
    for name in ("solution", "known"):
        del without.content["flags"][name]  # judged without gold
    without.write()
    with pytest.raises(BonafideError, match=r"than .*-0\.json \(dev questions with gold\)"):
        results_of(wanted, asked)
    paths[0].unlink()
    assert len(results_of(wanted, asked)["mimax"]) == 2
    other = made(paths[2], 2, [True, False], [True, True], settings=settings)
    other.content["flags"]["known"] = packed([True, False])
    other.write()
    with pytest.raises(BonafideError, match=r"than .*-1\.json \(dev questions with gold\)"):
        results_of(wanted, asked)


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


def test_curves_stand_where_their_figures_say() -> None:
    shares = {"A": [(2.0, 0.0), (4.0, 1.0)], "B": [(2.0, 0.5), (4.0, 0.5)]}
    sure = {"A": [(2.0, -4.0), (4.0, -2.0)], "B": [(2.0, -math.inf), (4.0, 0.0)]}
    figure = selection_curves(shares, sure, {"B": [(2.0, 0.25), (4.0, 0.25), (10.0, 0.9)]})
    lines = [
        [tuple(map(float, point.split(","))) for point in path.split()]
        for path in re.findall(r'<polyline points="([^"]*)"', figure)
    ]
    rising, level, paper, surer, sure_once = lines
    top, bottom = rising[1][1], rising[0][1]
    assert level[0][1] == level[1][1] == pytest.approx((top + bottom) / 2, abs=0.1)
    assert [y for _, y in paper] == pytest.approx([bottom - 0.25 * (bottom - top)] * 2, abs=0.1)
    assert len(sure_once) == 1  # what has no likelihood is not drawn
    assert surer[0][1] - surer[1][1] == pytest.approx(surer[1][1] - sure_once[0][1], abs=0.1)
    assert sure_once[0][1] > bottom, "the second panel is below the first"
    assert figure.count("stroke-dasharray") == 1


def test_a_long_label_is_cut_in_its_middle_and_whole_where_a_reader_points_at_it() -> None:
    label = "a method whose label goes on and on and on and on"
    drawn = row_bars("Right solution", {label: [0.5], "short": [0.25]})
    assert f"<title>{label}</title>{label}</text>" in drawn, "bars leave labels more room than legends"
    assert "<title>short</title>short</text>" in drawn
    assert f"{label[:-7]}…" in row_bars("Right solution", {2 * label: [0.5]})
    curves = selection_curves({label: [(2, 0.5)]}, {label: [(2, -1.0)]}, {})
    groups = grouped_bars("By size", {label: {"2–9": (0.5, 0.4, 0.6)}})
    for chart in (curves, groups, line_chart("Dev", {label: [(1, 0.5)]})):
        assert f"<title>{label}</title>a method whose la…n and on</text>" in chart


def test_every_curve_of_a_table_has_its_own_colour() -> None:
    most = max(len(each.rows) for each in tables().values() if each.curve)
    shares = {str(number): [(2.0, 0.5), (4.0, number / most)] for number in range(most)}
    figure = selection_curves(shares, {}, {})
    assert len(set(re.findall(r'<polyline[^>]*stroke="(#[0-9a-f]+)"', figure))) == most > 6


def test_every_method_of_a_chart_has_its_own_colour() -> None:
    bars = {f"method {number}": {"2–9": (0.5, 0.4, 0.6)} for number in range(8)}
    lines = {name: [(1.0, 0.5)] for name in bars}
    for chart in (grouped_bars("By size", bars), line_chart("Dev", lines)):
        assert len(set(re.findall(r'style="fill:(#[0-9a-f]+)"', chart))) == 8


@pytest.mark.parametrize("name", tables())
def test_the_rows_of_a_table_can_be_told_apart_in_its_plots(name: str) -> None:
    shown = re.findall("</title>([^<]+)</text>", row_bars("", {row.label: [0.5] for row in table(name).rows}))
    assert len(set(shown)) == len(shown) == len(table(name).rows)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_page_with_many_measures_fits_a_window(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for path in Path(__file__).parents[1].glob("docs/results/rows/wikisql-full-*.json"):
        shutil.copy(path, tmp_path / "rows")
    write_table(table("sql-full-typed"), Asked(tmp_path))
    with browser(tmp_path / "profile") as page:
        page.size(1200, 1000)
        page.open((tmp_path / "sql-full-typed.html").as_uri())
        over = page.run("[...document.querySelectorAll('article')].map(each => each.scrollWidth - each.clientWidth)")
    assert len(over) > 8
    assert max(over) == 0
