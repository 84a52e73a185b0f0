"""A table for people: Markdown, a page, plots, and the list of all tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from bonafide.files import write_whole
from bonafide.report.charts import grouped_bars
from bonafide.report.compare_page import write_report
from bonafide.report.statistics import how_independent, rank_correlation, wilson
from bonafide.report.tabled import Tabled, p_value, percent, points
from bonafide.reproduce.compared import (
    Results,
    best_baseline,
    by_seed,
    contexts,
    difference,
    genuine,
    mean_interval,
    of_starts,
    settled,
    verdict,
)
from bonafide.reproduce.plots import row_bars, selection_curves, write_svg
from bonafide.reproduce.results import EDGES, Flags, Result
from bonafide.reproduce.runs import Asked, Filled, results_of
from bonafide.reproduce.tables import MEASURES, Row, Table, elsewhere, tables

OVERVIEW, BARS = "Means over seeds", "Bars"
REASONS = "Right answers for the right reasons"
_IN_A_CHART = 4
_RANKED = 5
_STARTS = (2, 3)
_TYPES = ("number", "text", "span", "spans", "several", "date", "nothing")
Groups = Callable[[Result], Mapping[str, Flags]]
"""(examples,) for each group: which of them are in it."""


def listed(asked: Asked, named: Sequence[Table] = ()) -> list[Tabled]:
    """Every table, or these, with its rows and which results there are, and what other commands make."""
    made = []
    for table in named or tables().values():
        there = results_of(table, asked)
        rows = [[row.name, row.label, _recipe(row), f"{len(there[row.name])} of {row.seeds}"] for row in table.rows]
        note = f"Paper: {table.paper}. Data: {table.data} (DIR, or DIR/{table.folder})."
        note += f" All rows: {' '.join(table.common)}."
        if table.checks:
            note += f" Bars: {'; '.join(verdict(table, there, check).bar for check in table.checks)}."
        head = ["row", "method", "recipe", "results"]
        made.append(Tabled(f"{table.name}: {table.title}", note, head, rows, ("method", "recipe")))
    if named:
        return made
    rows = [[what, by] for what, by in elsewhere()]
    return [*made, Tabled("By other commands", "", ["in the paper", "command"], rows, ("command",))]


def tabled(table: Table, results: Results) -> list[Tabled]:
    """What a table says: an overview, each measure with its tests, the curve, the breakdown, the bars, the runs."""
    rows = [row for row in table.rows if results[row.name]]
    made = [_overview(table, rows, results)]
    made += [_measure(table, rows, results, measure) for measure in _measures(table, rows, results)]
    if any(each.content["curve"] for row in rows for each in results[row.name]):
        made.append(_curve_table(rows, results))
    if rows:
        made += _for_the_right_reasons(table, rows, results)
        made += _breakdowns(table, rows, results)
        made += _without_gold(rows, results)
        made += _starts(rows, results)
    if table.checks:
        found = [verdict(table, results, check) for check in table.checks]
        body = [[each.bar, each.found, {"open": "not yet"}.get(each.state, each.state)] for each in found]
        note = (
            "A bar with a p asks it of both tests, one without asks for the mean alone. Ratios are to the other row's "
            "mean. So far: of rows that are not complete."
        )
        made.append(Tabled(BARS, note, ["bar", "found", ""], body, ("found", "")))
    made.append(_runs(rows, results))
    return made


def write_table(table: Table, asked: Asked, filled: Filled | None = None) -> list[Tabled]:
    """Write ``NAME.md``, ``NAME.html`` and the plots from the results that there are; returns what they say."""
    results = results_of(table, asked)
    made, about = tabled(table, results), described(table, results, asked)
    plots = _plots(table, results)
    for name, figure in plots.items():
        write_svg(asked.out / f"{table.name}-{name}.svg", figure)
    lines = [f"## {table.title}", "", about, ""]
    lines += [f"![{name}]({table.name}-{name}.svg)\n" for name in plots]
    failures = [f"### Failed: {name}\n\n```text\n{said}\n```\n" for name, said in (filled or Filled()).failed.items()]
    with write_whole(asked.out / f"{table.name}.md") as stream:
        stream.write("\n".join([*lines, *(each.markdown() for each in made), *failures]).encode())
    body = "".join(each.html() for each in made)
    write_report(asked.out / f"{table.name}.html", table.title, about, body, list(plots.values()))
    return made


def described(table: Table, results: Results, asked: Asked) -> str:
    """What was run, on what, and by which command, in a few sentences."""
    everything = [each for listed in results.values() for each in listed]
    command = ["bonafide", "reproduce", table.name, "--data", "DIR", "--out", "results"]
    command += [part for each in asked.overrides for part in ("--set", each)]
    if asked.bart is not None:
        command += ["--bart", Path(asked.bart).name]
    said = f"Paper: {table.paper}. Data: {table.data}. Made by: {shlex.join(command)}. "
    if not everything:
        return said + "There are no results yet."
    first = everything[0]
    return said + (
        f"{first.content['examples']:,} dev questions (train examples {first.data['train'][:12]}…, dev examples "
        f"{first.data['dev'][:12]}…); {len(everything)} runs. Intervals are at 95 %, differences in points."
    )


def _measures(table: Table, rows: Sequence[Row], results: Results) -> list[str]:
    return [each for each in table.measures if any(by_seed(results[row.name], each) for row in rows)]


def _overview(table: Table, rows: Sequence[Row], results: Results) -> Tabled:
    measures = _measures(table, rows, results)
    body = []
    for row in rows:
        paper, line = dict(row.paper), [row.label, str(len(results[row.name]))]
        for measure in measures:
            figures = by_seed(results[row.name], measure)
            shown = percent(float(np.mean(list(figures.values())))) if figures else "–"
            if 0 < len(figures) < len(results[row.name]):
                shown += f" ({len(figures)} of {len(results[row.name])} seeds)"
            line.append(f"{shown} (paper {paper[measure]:g})" if measure in paper else shown)
        body.append(line)
    return Tabled(OVERVIEW, table.note, ["method", "seeds", *(MEASURES[each] for each in measures)], body)


def _measure(table: Table, rows: Sequence[Row], results: Results, measure: str) -> Tabled:
    base = best_baseline(table, results, measure)
    body = []
    for row in rows:
        figures = by_seed(results[row.name], measure)
        if not figures:
            continue
        average = float(np.mean(list(figures.values())))
        line = [row.label, percent(average, mean_interval(results, row.name, measure)), percent(min(figures.values()))]
        line.append(", ".join(f"{100 * figure:.1f}" for figure in figures.values()))
        found = None if base in (None, row.name) else difference(results, str(base), row.name, measure)
        if found is None:
            line += ["–", "–", "–"]
        else:
            seeds = found.over_seeds
            line += [points(found.difference, found.interval), p_value(None if seeds is None else seeds.p)]
            line.append(p_value(found.over_examples))
        body.append(line)
    head = ["method", "mean", "worst seed", "each seed"]
    drawn = measure.startswith("f1")
    interval = "Wilson's, each example counted once, as if examples were independent"
    if drawn:
        interval = "by the bootstrap over examples"
    note = f"The interval of a mean is {interval}; how seeds differ stands beside it."
    if base is None:
        note += f" {_resampled(results, measure)}" if drawn else ""
        return Tabled(_title(measure), note, head, [line[: len(head)] for line in body])
    against = table.row(base).label
    note += (
        f" Differences are to {against}, the best baseline by this measure, of means over all seeds, with a bootstrap "
        "interval over examples; p is by the t-test over seeds (paired where both have the same, else Welch's), and by "
        f"the permutation test over examples. {_resampled(results, measure)}"
    )
    head += [f"against {against}", "p (seeds)", "p (examples)"]
    return Tabled(_title(measure), note, head, body)


def _resampled(results: Results, measure: str) -> str:
    """What the bootstrap and the permutation test take as independent of each other."""
    found, known = contexts(results, measure), _known(chain.from_iterable(results.values()), measure)
    if found is None or known is None:
        return "Examples are taken as independent; what contexts they are of, these results do not say."
    return how_independent(found[known].tolist()) or "Each example has a context of its own."


def _title(measure: str) -> str:
    return MEASURES[measure][0].upper() + MEASURES[measure][1:]


def _known(results: Iterable[Result], measure: str) -> Flags | None:
    """(examples,): which examples a measure is of, by the first run that has it."""
    return next((found[1] for each in results if (found := each.measured(measure)) is not None), None)


def _curves(rows: Sequence[Row], results: Results, figure: str) -> dict[str, list[tuple[float, float]]]:
    """By row, (epoch, mean over the seeds) of a figure of the selection task."""
    lines = {}
    for row in rows:
        points_of: dict[float, list[float]] = {}
        for result in results[row.name]:
            for point in result.content["curve"]:
                if figure in point:
                    value = point[figure]["share"] if isinstance(point[figure], dict) else point[figure]
                    points_of.setdefault(round(point["epoch"], 2), []).append(float(value))
        if points_of:
            lines[row.label] = [(epoch, float(np.mean(values))) for epoch, values in sorted(points_of.items())]
    return lines


def _curve_table(rows: Sequence[Row], results: Results) -> Tabled:
    solver, sure = _curves(rows, results, "solver"), _curves(rows, results, "confidence")
    epochs = sorted({epoch for line in solver.values() for epoch, _ in line})
    body = []
    for row in rows:
        if row.label not in solver:
            continue
        found, likely = dict(solver[row.label]), dict(sure[row.label])
        body.append([row.label, *(percent(found[each]) if each in found else "–" for each in epochs)])
        body.append(
            [f"{row.label}: confidence", *(f"{likely[each]:.2f}" if each in likely else "–" for each in epochs)]
        )
        if row.paper_curve:
            paper = dict(row.paper_curve)
            body.append([f"{row.label}: in the paper", *(f"{paper[e]:.1f} %" if e in paper else "–" for e in epochs)])
    note = "Gold among at most ten candidates; confidence is the mean log-likelihood of the solution that is selected."
    return Tabled("Selection after so many epochs", note, ["method", *(f"{each:g}" for each in epochs)], body)


def _breakdown(
    rows: Sequence[Row], results: Results, measure: str, groups: Groups
) -> dict[str, dict[str, tuple[float, int]]]:
    """By row and group of examples: a measure, mean over seeds, and of how many examples."""
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for row in rows:
        known = [(groups(each), pair) for each in results[row.name] if (pair := each.measured(measure)) is not None]
        found[row.label] = {}
        for label in known[0][0] if known else ():
            parts = [values[there & of[label]] for of, (values, there) in known]
            if all(map(len, parts)):
                found[row.label][label] = float(np.mean([part.mean() for part in parts])), len(parts[0])
    return found


def _by_size(result: Result) -> dict[str, Flags]:
    return {label: result.sizes == bucket for bucket, label in enumerate(_bucket_names())}


def _by_type(results: Results) -> Groups | None:
    """By the type of the dev questions' answers, as any of the results has it; None where there is one type."""
    said = (each.types for listed in results.values() for each in listed)
    types = next((each for each in said if each is not None), None)
    if types is None:
        return None
    groups = {name: types == name for name in _TYPES if name in types}
    return (lambda result: groups) if len(groups) > 1 else None


def _broken_down(table: Table, rows: Sequence[Row], results: Results) -> str:
    return next((each for each in _measures(table, rows, results) if each in ("solution", "answer")), "selection")


def _breakdowns(table: Table, rows: Sequence[Row], results: Results) -> list[Tabled]:
    measure, by_type = _broken_down(table, rows, results), _by_type(results)
    listed = [measure, *(each for each in _measures(table, rows, results) if each == "f1")]
    made = [
        _breakdown_table(rows, results, each, _by_size, "size of the dev question's solution set") for each in listed
    ]
    if by_type is not None:
        made += [_breakdown_table(rows, results, each, by_type, "type of the dev question's answer") for each in listed]
    return made


def _breakdown_table(rows: Sequence[Row], results: Results, measure: str, groups: Groups, by: str) -> Tabled:
    found = _breakdown(rows, results, measure, groups)
    there = {label: count for group in found.values() for label, (_, count) in group.items()}
    counts = {label: there[label] for label in groups(results[rows[0].name][0]) if label in there}
    body = [
        [row.label, *(percent(found[row.label][label][0]) if label in found[row.label] else "–" for label in counts)]
        for row in rows
    ]
    head = ["method", *(f"{label} ({count:,})" for label, count in counts.items())]
    return Tabled(f"{_title(measure)} by {by}", "", head, body)


def _bucket_names() -> list[str]:
    names = [str(low) if high == low + 1 else f"{low:,}–{high - 1:,}" for low, high in pairwise(EDGES)]
    return [*names, f"{EDGES[-1]:,}+"]


def _for_the_right_reasons(table: Table, rows: Sequence[Row], results: Results) -> list[Tabled]:
    """How many of the right answers have the right solution; and who has it where two methods both answer rightly."""
    base, body = best_baseline(table, results, "answer"), []
    for row in rows:
        shares = genuine(results[row.name])
        if not shares:
            continue
        right, of = settled(results[base], results[row.name]) if base not in (None, row.name) else (0, 0)
        line = [row.label, percent(float(np.mean(list(shares.values())))), percent(min(shares.values()))]
        body.append([*line, f"{percent(right / of)} of {of:,}" if of else "–"])
    if not body:
        return []
    note = "The right solution is gold's. (The paper judged 50 right answers of MIMAX on DROP by hand: 92 %.)"
    head = ["method", "right answers by the right solution", "worst seed"]
    if base is None:
        return [Tabled(REASONS, note, head, [line[:-1] for line in body])]
    label = table.row(base).label
    note += (
        f" The last column: of the questions that a method and {label}, the best baseline by answers, both answer "
        "rightly, over the seeds that both have, those that only one of them answers by the right solution, and how "
        "often it is the method."
    )
    return [Tabled(REASONS, note, [*head, f"against {label}"], body)]


def _without_gold(rows: Sequence[Row], results: Results) -> list[Tabled]:
    """How figures that need no gold rank the runs; nothing where there are fewer than five to rank."""
    body = []
    blind = [row for row in rows if row.role != "gold"]
    for name, kept in [("all", rows), ("not trained on gold", blind)][: 1 if len(blind) == len(rows) else 2]:
        ranked = [
            (solution, -each.content["figures"]["description"], each.content["figures"]["execution"])
            for row in kept
            for each in results[row.name]
            if "description" in each.content["figures"] and (solution := each.figure("solution")) is not None
        ]
        if len(ranked) >= _RANKED:
            right, description, execution = zip(*ranked, strict=True)
            found = [rank_correlation(right, figure) for figure in (description, execution)]
            body.append([name, f"{len(ranked)}", *("–" if each is None else f"{each:.2f}" for each in found)])
    note = "Spearman's correlation, over runs, of a figure on dev with the share of right solutions."
    head = ["runs", "number", "description length", "right answer"]
    return [Tabled("Which run is right for the right reasons, without gold", note, head, body)] if body else []


def _starts(rows: Sequence[Row], results: Results) -> list[Tabled]:
    """What choosing the best of several starts without gold gives; of rows with more seeds than that."""
    body = []
    for row in rows:
        found = {count: of_starts(results[row.name], "solution", count) for count in (1, *_STARTS)}
        if len(found[1]) > _STARTS[-1] and row.role != "gold":
            shown = [f"{percent(float(np.mean(each)))} ({percent(min(each))})" for each in found.values()]
            body.append([row.label, f"{len(found[1])}", *shown])
    note = (
        "Right solutions, mean (worst), of the run with the shortest description among any two and any three of the "
        "seeds: what bonafide train --starts does."
    )
    head = ["method", "seeds", "one start", *(f"best of {count} starts" for count in _STARTS)]
    return [Tabled("Several starts, the best chosen without gold", note, head, body)] if body else []


def _runs(rows: Sequence[Row], results: Results) -> Tabled:
    body = []
    for row in rows:
        runs = [each.content for each in results[row.name]]
        times = [each["seconds"]["training"] for each in runs if not each["seconds"]["resumed"]]
        where = {each["environment"]["gpu"] or f"{each['environment']['cpus']} CPU cores" for each in runs}
        versions = {
            f"bonafide {each['environment']['bonafide']} ({each['environment']['git'] or 'no git'}), "
            f"torch {each['environment']['torch']}"
            for each in runs
        }
        body.append(
            [
                row.label,
                f"{runs[0]['trained_on']['used']:,}",
                f"{np.mean(times):,.0f} ({min(times):,.0f}–{max(times):,.0f})" if times else "–",
                ", ".join(sorted({str(each["seconds"]["side_by_side"]) for each in runs})),
                "; ".join(sorted(where)),
                "; ".join(sorted(versions)),
            ]
        )
    head = ["method", "trained on", "seconds of training", "side by side", "hardware", "versions"]
    note = "Seconds: mean (least–most) of the runs that were not interrupted, with the others on the same device."
    return Tabled("Runs", note, head, body, ("hardware", "versions"))


def _plots(table: Table, results: Results) -> dict[str, str]:
    rows = [row for row in table.rows if results[row.name]]
    plots = {}
    for measure in _measures(table, rows, results):
        shares = {row.label: list(by_seed(results[row.name], measure).values()) for row in rows}
        plots[measure] = row_bars(_title(measure), {name: each for name, each in shares.items() if each})
    chosen, measure, by_type = _charted(table, rows, results), _broken_down(table, rows, results), _by_type(results)
    if chosen:
        title = f"{_title(measure)} by size of the solution set"
        plots["by-size"] = grouped_bars(title, _bars(_breakdown(chosen, results, measure, _by_size)))
        if by_type is not None:
            title = f"{_title(measure)} by type of answer"
            plots["by-type"] = grouped_bars(title, _bars(_breakdown(chosen, results, measure, by_type)))
    if any(each.content["curve"] for row in rows for each in results[row.name]):
        plots["curve"] = selection_curves(
            _curves(rows, results, "solver"),
            _curves(rows, results, "confidence"),
            {row.label: [(epoch, share / 100) for epoch, share in row.paper_curve] for row in rows if row.paper_curve},
        )
    return plots


def _charted(table: Table, rows: Sequence[Row], results: Results) -> list[Row]:
    """The best baseline, the first and the last of what is ours, and the ceiling: as many as a glance tells apart."""
    base = best_baseline(table, results, _broken_down(table, rows, results))
    held = {row.name for row in rows if row.name == base or row.role == "gold"}
    ours = [row.name for row in rows if row.role == "ours"]
    room = max(0, _IN_A_CHART - len(held))
    held |= set(ours if len(ours) <= room else [*ours[: room // 2], *ours[len(ours) - (room - room // 2) :]])
    return [row for row in rows if row.name in held][:_IN_A_CHART]


def _bars(
    groups: Mapping[str, Mapping[str, tuple[float, int]]],
) -> dict[str, dict[str, tuple[float, float, float]]]:
    made = {}
    for name, group in groups.items():
        intervals = {label: wilson(share * of, of) for label, (share, of) in group.items()}
        made[name] = {
            label: (share, intervals[label].low, intervals[label].high) for label, (share, _) in group.items()
        }
    return made


def _recipe(row: Row) -> str:
    return " ".join([row.recipe, *row.set])
