"""Charts and curves of a table: what stands where, in which colour, under which label."""

from __future__ import annotations

import dataclasses
import math
import re
import shutil
from pathlib import Path

import pytest

from bonafide.report.charts import grouped_bars, line_chart
from bonafide.reproduce import shown
from bonafide.reproduce.plots import row_bars, selection_curves
from bonafide.reproduce.runs import Asked
from bonafide.reproduce.shown import write_table
from bonafide.reproduce.tables import Row, table, tables
from browser import CHROMIUM, browser
from made_results import rows_of


def test_a_chart_with_too_many_rows_keeps_the_best_baseline_the_first_and_last_of_ours_and_gold() -> None:
    roles = {"a": "baseline", "b": "baseline", "c": "ours", "d": "ours", "e": "control", "f": "ours", "g": "gold"}
    many = dataclasses.replace(
        table("sql-hard"), rows=tuple(Row(name, name, "wikisql-hard-mml", 1, role=role) for name, role in roles.items())
    )
    results = rows_of({name: [0.5 + place / 20] for place, name in enumerate(roles)})
    chart = shown._plots(many, results)["by-size"]
    assert [name for name in roles if f">{name}</text>" in chart] == ["b", "c", "f", "g"]


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
