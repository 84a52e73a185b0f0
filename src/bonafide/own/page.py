"""A run on your own tables as one HTML page: how much to expect of it, what it gets wrong, what it could not learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bonafide.examples import Answer
from bonafide.files import write_whole
from bonafide.own.training import HeldOut, Prepared
from bonafide.report.page import STYLE
from bonafide.report.terminal import few


def write_own_page(path: Path, prepared: Prepared, held: Sequence[HeldOut], figures: dict[str, Any]) -> None:
    """Write figures, held-out pairs and pairs without a solution as one page that needs nothing else."""
    low, high = figures["interval"]
    tiles = [
        ("pairs", f"{figures['pairs']:,}"),
        ("with a solution", f"{figures['covered'] / figures['pairs']:.1%}"),
        ("solutions a pair, median", f"{figures['median_solutions']:,.0f}"),
        ("held-out answers right", f"{figures['right'] / figures['held_out']:.1%}"),
        ("95 % interval", f"{low:.0%} to {high:.0%}"),
    ]
    body = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    wrong = sorted((each for each in held if not each.right), key=lambda each: -each.confidence)
    right = sorted((each for each in held if each.right), key=lambda each: each.confidence)
    notes = "".join(f"<p class=note>{count:,} {escape(note)}.</p>" for note, count in prepared.notes.items())
    unsolved = _rows(
        ("id", "question", "answer", "why"),
        ((each.example.id, each.example.question, _shown(each.example.values), each.why) for each in prepared.unsolved),
    )
    how = {0: "the pairs of the dev file", 1: "a third of the pairs, by a model that learned from the others"}.get(
        figures["folds"],
        f"all pairs, each by one of {figures['folds']} models that had not seen it (cross-validation)",
    )
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>A model of your own tables</title><style>{STYLE}</style></head><body>
<h1>A model of your own tables</h1>
<p class="note">Held out: {escape(how)}. The final model learned from all {figures["pairs"]:,} pairs
but those below that no query answers, by the recipe
{escape(" ".join(figures["recipe"]))}.</p>
<dl>{body}</dl>{notes}
<h2>Wrong held-out answers, the surest first</h2>
<p class="note">A sure and wrong answer is where to look first: the pair may be mislabelled, or ask in words that no
other pair has.</p>
<article>{_held(wrong)}</article>
<h2>Right held-out answers, the least sure first</h2>
<article>{_held(right)}</article>
<h2>Pairs without a solution</h2>
<p class="note">No query of the language returns their answer, so nothing is learned from them.</p>
<article>{unsolved}</article>
</body></html>
"""
    with write_whole(path) as stream:
        stream.write(html.encode())


def _held(pairs: Sequence[HeldOut]) -> str:
    titles = ("id", "question", "answer", "predicted", "sure", "query")
    rows = (
        (
            each.id,
            each.question,
            _shown(each.answer),
            "error" if each.predicted is None else _shown(each.predicted),
            f"{each.confidence:.0%}",
            each.sql or "none",
        )
        for each in pairs
    )
    return _rows(titles, rows, code=5)


def _rows(titles: Sequence[str], rows: Iterable[Sequence[str]], code: int | None = None) -> str:
    body = "".join(
        "<tr>" + "".join(_cell(text, place == code) for place, text in enumerate(row)) + "</tr>" for row in rows
    )
    if not body:
        return "<p>None.</p>"
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str, code: bool) -> str:
    return f"<td><code>{escape(text)}</code></td>" if code else f"<td>{escape(text)}</td>"


def _shown(values: Sequence[Answer]) -> str:
    texts = ["NULL" if each is None else f"{each:.15g}" if isinstance(each, float) else str(each) for each in values]
    return few(texts) or "nothing"
