"""A comparison for people: tables for the terminal, Markdown and a page, with plots of where methods part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.files import write_whole
from bonafide.report.cases import case_studies
from bonafide.report.charts import grouped_bars
from bonafide.report.compare import F1, Comparison, Contrast, Part, part_of
from bonafide.report.decoded import how_decoded
from bonafide.report.judging import Judgements, judged_flips
from bonafide.report.learning import CASE_STYLE
from bonafide.report.page import STYLE
from bonafide.report.statistics import Flips, Interval, how_independent
from bonafide.report.tabled import Tabled, p_value, percent, points
from bonafide.report.trained import trained_on

_WILSONS = "Means over seeds; intervals are Wilson's, each example counted once, as if examples were independent."
_F1S = " F1 is no proportion: its intervals are by the bootstrap over examples, as those of differences."
_F1S_OF_PARTS = (
    "Bootstrap intervals; none of fewer than ten examples, nor where all have the same F1. Of fewer than ten contexts, "
    "examples are taken as independent."
)
_MCNEMARS = "McNemar's exact test, seed by seed."
FIGURE_STYLE = """
figure { margin: .8rem 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
svg line.grid { stroke: var(--line); }
.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead th { vertical-align: bottom; } thead .figure { white-space: normal; }
tbody th { font-weight: 600; min-width: 7rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
"""


def tables(comparison: Comparison, judgements: Judgements | None = None) -> list[Tabled]:
    """Everything that a comparison says, as tables."""
    made = [_methods(comparison)]
    for name, contrasts in comparison.contrasts.items():
        made.append(_tests(comparison, name, contrasts))
        if contrasts[0].flips:
            listed = {f"{each.figure}, seed {seed}": found for each in contrasts for seed, found in each.flips.items()}
            for seed, each in comparison.reasons.get(name, {}).items():
                listed[f"right solution where both answers are right, seed {seed}"] = each
            note = f"{_MCNEMARS} It is of right and wrong: F1 has no flips." if comparison.has_f1 else _MCNEMARS
            made.append(_flips(comparison.methods[0].name, name, listed, note))
    for figure in comparison.figures:
        note = _F1S_OF_PARTS if figure == F1 else ""
        for title, found in _breakdowns(comparison, figure):
            made.append(_breakdown(title, found, note))
    if judgements is not None:
        made += _verdicts(comparison, judgements)
    return made


def write_markdown(path: Path, made: Sequence[Tabled], about: str) -> None:
    """Write the tables as Markdown, whole or not at all."""
    with write_whole(path) as stream:
        stream.write("\n".join(["## Comparison", "", about, "", *(each.markdown() for each in made)]).encode())


def write_comparison_page(path: Path, comparison: Comparison, made: Sequence[Tabled], about: str) -> None:
    """Write the tables and plots as one page that needs nothing else."""
    charts = [
        grouped_bars(title, {name: _bars(group) for name, group in found.items()})
        for figure in comparison.figures
        for title, found in _breakdowns(comparison, figure)
    ]
    cases = case_studies(comparison)
    body = "".join(each.html() for each in made) + ("" if cases is None else cases.html())
    write_report(path, "Comparison of methods", about, body, charts)


def write_report(path: Path, title: str, about: str, body: str, charts: Sequence[str] = ()) -> None:
    """Write a page in the look of the others; ``title`` and ``about`` are plain text, ``body`` is HTML."""
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}{FIGURE_STYLE}{CASE_STYLE}</style></head><body>
<h1>{escape(title)}</h1><p class="note">{escape(about)}</p>
<div class="charts">{"".join(charts)}</div>{body}
</body></html>
"""
    with write_whole(path) as stream:
        stream.write(html.encode())


def described(comparison: Comparison) -> str:
    """What was compared, in a sentence."""
    runs = ", ".join(
        f"{each.name} ({len(each.runs)} {'seed' if len(each.runs) == 1 else 'seeds'})" for each in comparison.methods
    )
    return (
        f"{runs} on {len(comparison.asked.examples):,} examples of the task {comparison.asked.task}. "
        f"{_training(comparison)}{_decoding(comparison)}{_judging(comparison)}"
        "Intervals are at 95 %; differences are in points."
    )


def _training(comparison: Comparison) -> str:
    """Whether the runs learned from other examples or other solution sets, where that is known."""
    found = [trained_on(run) for each in comparison.methods for run in each.runs.values()]
    known = [each for each in found if each is not None]
    searched = [each.search for each in known if each.search is not None]
    said = ""
    if len({(each.examples, each.contexts) for each in known}) > 1:
        said = "Not all were trained on the same examples. "
    elif any(each != searched[0] for each in searched):
        said = "Not all were trained on the same solution sets. "
    if unknown := len(found) - len(known):
        said += f"What {unknown:,} of the {len(found):,} runs were trained on is not known: their stores are gone. "
    return said


def _decoding(comparison: Comparison) -> str:
    """How the predictions were made, where that is known; the vote of a reconstructor method by method."""
    made = {
        (each.name, found.options, found.vote if found.reconstruction else "")
        for each in comparison.methods
        for run in each.runs.values()
        if (found := how_decoded(run / "predictions.jsonl")) is not None
    }
    if not made:
        return ""
    votes = "".join(f", {name} with {vote}" for name, _, vote in sorted(made) if vote)
    return f"Decoded with {' and '.join(sorted({options for _, options, _ in made}))}{votes}. "


def _judging(comparison: Comparison) -> str:
    """What is a right solution, where that is not gold's alone."""
    if comparison.asked.task != "reading" or not comparison.has_gold:
        return ""
    return "A mention is right where it overlaps gold's; where gold has its paragraph alone, anywhere in it. "


def to_json(comparison: Comparison, judgements: Judgements | None = None) -> dict[str, Any]:
    """The figures for other tools."""
    found: dict[str, Any] = {
        "examples": len(comparison.asked.examples),
        "methods": {
            each.name: {
                "runs": {str(seed): str(run) for seed, run in sorted(each.runs.items())},  # as the figures
                **{name: each.values(name).mean(axis=1).tolist() for name in comparison.figures},
            }
            for each in comparison.methods
        },
        "contrasts": {
            name: [_finite(asdict(each)) for each in listed] for name, listed in comparison.contrasts.items()
        },
        "reasons": {
            name: {str(seed): _finite(asdict(each)) for seed, each in by_seed.items()}
            for name, by_seed in comparison.reasons.items()
        },
        "by_answer_type": {name: _shares(comparison.by_answer_type(name)) for name in comparison.figures},
        "by_set_size": {name: _shares(comparison.by_set_size(name)) for name in comparison.figures},
    }
    if judgements is not None:
        found["judged"] = [{**asdict(each), **asdict(each.interval)} for each in judgements.verdicts]
        found["judged_flips"] = [
            {"first": first, "second": second, **_finite(asdict(each))}
            for first, second, each in _judged_flips(comparison, judgements)
        ]
    return found


def _methods(comparison: Comparison) -> Tabled:
    several = any(len(method.runs) > 1 for method in comparison.methods)
    parts = ("", ", worst seed") if several else ("",)
    head = ["method", "runs (seeds)", *(f"{name}{part}" for name in comparison.figures for part in parts)]
    rows = []
    for method in comparison.methods:
        row = [method.name, f"{len(method.runs)} ({', '.join(map(str, sorted(method.runs)))})"]
        for name in comparison.figures:
            values = method.values(name)
            by_seed, every = values.mean(axis=1), part_of(name, values.mean(axis=0), comparison.contexts)
            row += [percent(float(by_seed.mean()), every.interval), percent(float(by_seed.min()))][: len(parts)]
        if comparison.has_gold:
            row.append(percent(*found) if (found := method.genuine_when_right()) else "–")
        rows.append(row)
    if comparison.has_gold:
        head.append("right solution of right answers")
    return Tabled("Methods", _WILSONS + (_F1S if comparison.has_f1 else ""), head, rows)


def _tests(comparison: Comparison, second: str, contrasts: Sequence[Contrast]) -> Tabled:
    head = ["figure", "difference", "p (permutation)", "over seeds", "p (t-test)", "Cohen's d"]
    rows = []
    for each in contrasts:
        seeds = each.seeds
        rows.append(
            [
                each.figure,
                points(each.difference, each.interval),
                p_value(each.p),
                "–" if seeds is None else points(seeds.difference, seeds.interval),
                p_value(None if seeds is None else seeds.p),
                "–" if seeds is None or seeds.effect is None else f"{seeds.effect:+.2f}",
            ]
        )
    pairs = contrasts[0].seeds
    note = (
        "The t-test over seeds needs two seeds of each method."
        if pairs is None
        else f"The t-test is over {pairs.pairs} pairs of seeds."
        if pairs.pairs
        else "The t-test over seeds is Welch's, since the methods have not the same seeds."
    )
    if any(each.seeds is not None and each.seeds.p is None for each in contrasts):
        note += " Where the difference is the same for all seeds, there is no spread to test it by, and no t-test."
    resampled = how_independent(comparison.contexts)
    about = f"Difference: over examples, with its bootstrap interval. {resampled} {note}".replace("  ", " ")
    return Tabled(f"{second} against {comparison.methods[0].name}", about, head, rows)


def _flips(first: str, second: str, listed: Mapping[str, Flips], note: str) -> Tabled:
    rows = [
        [
            figure,
            f"{found.gained:,}",
            f"{found.lost:,}",
            "–" if found.odds is None or found.interval is None
            else f"{_odds(found.odds)} [{_odds(found.interval.low)}, {_odds(found.interval.high)}]",
            p_value(found.p),
        ]
        for figure, found in listed.items()
    ]  # fmt: skip
    head = ["figure", f"only {second}", f"only {first}", "odds", "p (McNemar)"]
    return Tabled(f"Examples that flip from {first} to {second}", note, head, rows)


def _breakdowns(comparison: Comparison, figure: str) -> list[tuple[str, dict[str, dict[str, Part]]]]:
    return [
        (f"{figure.capitalize()} by size of the solution set", comparison.by_set_size(figure)),
        (f"{figure.capitalize()} by type of answer", comparison.by_answer_type(figure)),
    ]


def _breakdown(title: str, found: Mapping[str, Mapping[str, Part]], note: str) -> Tabled:
    methods = list(found)
    rows = [
        [label, f"{found[methods[0]][label].of:,}", *(
            percent(each.share, each.interval) for each in (found[name][label] for name in methods)
        )]
        for label in found[methods[0]]
    ]  # fmt: skip
    return Tabled(title, note, [title.rsplit(" by ", 1)[-1], "examples", *methods], rows)


def _verdicts(comparison: Comparison, judgements: Judgements) -> list[Tabled]:
    names = [each.name for each in comparison.methods]
    if judgements.methods - set(names):
        raise BonafideError(
            f"The judged sheet is of {' and '.join(sorted(judgements.methods))}, and compared are {', '.join(names)}: "
            "expected a sheet of compared methods. Compare the runs that it was made of, or leave --judged out."
        )
    rows = [
        [each.method, f"{each.right:,} of {each.of:,}", percent(each.right / each.of, each.interval)]
        for each in judgements.verdicts
    ]
    sure = sum(each != "unsure" for each in judgements.choices.values())
    title, note = (
        "Right solutions of right answers, as people judge them",
        "Of a random sample of each method's answers.",
    )
    if not judgements.singly:
        title = "Whose solution is right, as people judge it"
        note = (
            "Only of questions that both methods answer alike and rightly by different solutions: it tells the two "
            "apart, and does not say how often a method is right."
        )
    note += f" {sure:,} of {len(judgements.pairs):,} were judged with certainty."
    if judgements.judged_by_several:
        note += f" Of {judgements.judged_by_several:,} that several judged, they agree on {judgements.agreement:,}."
    made = [Tabled(title, note, ["method", "right", "share"], rows)]
    for first, second, found in _judged_flips(comparison, judgements):
        paired = "McNemar's exact test over the judged pairs: whose solution alone is right."
        made.append(_flips(first, second, {"right solution, as people judge it": found}, paired))
    return made


def _judged_flips(comparison: Comparison, judgements: Judgements) -> list[tuple[str, str, Flips]]:
    names = [each.name for each in comparison.methods]
    found = [(*pair, judged_flips(judgements, *pair)) for pair in combinations(names, 2)]
    return [(first, second, each) for first, second, each in found if each is not None]


def _bars(group: Mapping[str, Part]) -> dict[str, tuple[float, float, float]]:
    ends = {label: each.interval or Interval(each.share, each.share) for label, each in group.items()}
    return {label: (group[label].share, each.low, each.high) for label, each in ends.items()}


def _shares(found: Mapping[str, Mapping[str, Part]]) -> dict[str, Any]:
    return {name: {label: each.to_json() for label, each in group.items()} for name, group in found.items()}


def _odds(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.2f}"


def _finite(value: Any) -> Any:
    """JSON has no infinity: the word in its place, since null says that there is no figure."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    return "Infinity" if isinstance(value, float) and math.isinf(value) else value
