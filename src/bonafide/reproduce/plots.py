"""The plots of a table: a bar a row with a dot a seed, curves by epoch; and any chart as a file of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from bonafide.files import write_whole
from bonafide.report.charts import shortened

_WIDE, _LINE, _LETTER = 340, 24, 6.7
_LETTERS, _LETTERS_RIGHT = 64, 26  # of a label at most, in the room on its left, and in that of a legend
_COLOURS = (
    "#b3402f", "#c98a1b", "#2f6fb3", "#5c8a3a", "#8a5ca8", "#3a8a8a", "#1c2330", "#d0699a", "#8b6b4a", "#7f8896",
)  # fmt: skip
_AXIS, _PANEL_WIDE, _PANEL_HIGH, _LEGEND = 52, 400, 190, 200
Lines = Mapping[str, Sequence[tuple[float, float]]]
"""By row, (epoch, value)."""
_FILE_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1c2330}text.count{fill:#5c6675}rect{fill:#2f6fb3}"
    "line.grid{stroke:#d9dee6}svg{--ink:#1c2330;background:#fff}</style>"
)


def row_bars(title: str, rows: Mapping[str, Sequence[float]]) -> str:
    """One bar a row as long as the mean of its shares, and a dot for each of them."""
    height = _LINE * len(rows) + 30
    left = round(8 + _LETTER * min(_LETTERS, max([36, *map(len, rows)])))
    parts = []
    for step in range(5):
        x = left + _WIDE * step / 4
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{height - 22}"/>')
        parts.append(f'<text class="count" x="{x}" y="{height - 6}" text-anchor="middle">{step / 4:.0%}</text>')
    for number, (label, shares) in enumerate(rows.items()):
        top, mean = 4 + _LINE * number, sum(shares) / len(shares)
        middle = top + 8
        name = shortened(label, _LETTERS)
        parts.append(f'<text x="{left - 8}" y="{top + 13}" text-anchor="end">{name}</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="{_WIDE * mean:.1f}" height="16" opacity=".75"/>')
        parts += [
            f'<circle cx="{left + _WIDE * each:.1f}" cy="{middle}" r="3.2" fill="#b3402f">'
            f"<title>{each:.1%}</title></circle>"
            for each in shares
        ]
        end = left + _WIDE * max(*shares, mean) + 8
        parts.append(f'<text class="count" x="{end:.1f}" y="{top + 13}">{mean:.1%}</text>')
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {left + _WIDE + 60} {height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def selection_curves(shares: Lines, confidence: Lines, paper: Lines) -> str:
    """Which share of gold is selected after so many epochs, and below it how sure the solver is of what it selects.

    ``confidence`` is in mean log-likelihoods; ``paper`` has shares to draw beside ours, dotted.
    """
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(shares)}
    sure = {name: [point for point in line if math.isfinite(point[1])] for name, line in confidence.items()}
    epochs = sorted({epoch for line in shares.values() for epoch, _ in line})
    likely = [value for line in sure.values() for _, value in line]
    bottom = 4 * min(-1, math.floor(min(likely, default=-1) / 4))  # so that the four steps up to 0 are whole
    below = _PANEL_HIGH + 70
    parts = [
        *_panel("gold selected from at most ten", 24, epochs, (0, 1), "{:.0%}"),
        *_drawn(shares, colours, 24, epochs, (0, 1)),
        *_drawn(paper, colours, 24, epochs, (0, 1), dotted=True),
        *_panel("mean log-likelihood of what is selected", below, epochs, (bottom, 0), "{:.0f}"),
        *_drawn(sure, colours, below, epochs, (bottom, 0)),
    ]
    right, high = _AXIS + _PANEL_WIDE + 14, below + _PANEL_HIGH + 36
    for place, (name, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{right}" y="{28 + 20 * place}" width="12" height="12" style="fill:{colour}"/>')
        parts.append(f'<text x="{right + 18}" y="{38 + 20 * place}">{shortened(name, _LETTERS_RIGHT)}</text>')
    if paper:
        parts.append(f'<text class="count" x="{right}" y="{44 + 20 * len(colours)}">dotted: in the paper</text>')
    parts.append(f'<text class="count" x="{_AXIS + _PANEL_WIDE / 2}" y="{high - 2}" text-anchor="middle">epochs</text>')
    title = "Selection and confidence by epoch"
    return (
        f'<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {right + _LEGEND} {high}" role="img" '
        f'aria-label="{title}">{"".join(parts)}</svg></figure>'
    )


def _panel(title: str, top: int, epochs: Sequence[float], span: tuple[float, float], shown: str) -> list[str]:
    """Title, grid and axes."""
    parts = [f'<text x="{_AXIS}" y="{top - 8}">{escape(title)}</text>']
    for step in range(5):
        value = span[0] + (span[1] - span[0]) * step / 4
        y = _place(epochs[0], value, top, epochs, span)[1]
        parts.append(f'<line class="grid" x1="{_AXIS}" x2="{_AXIS + _PANEL_WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = shown.format(value)
        parts.append(f'<text class="count" x="{_AXIS - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for epoch in epochs:
        x = _place(epoch, span[0], top, epochs, span)[0]
        parts.append(
            f'<text class="count" x="{x:.1f}" y="{top + _PANEL_HIGH + 16}" text-anchor="middle">{epoch:g}</text>'
        )
    return parts


def _drawn(
    lines: Lines,
    colours: Mapping[str, str],
    top: int,
    epochs: Sequence[float],
    span: tuple[float, float],
    dotted: bool = False,
) -> list[str]:
    parts = []
    for name, line in lines.items():
        inside = [point for point in line if epochs[0] <= point[0] <= epochs[-1]]
        places = [_place(epoch, value, top, epochs, span) for epoch, value in inside]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        style = 'stroke-width="1.5" stroke-dasharray="2 4"' if dotted else 'stroke-width="2.5"'
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" {style}/>')
        if not dotted:
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[name]}"><title>{escape(name)}</title></circle>'
                for x, y in places
            ]
    return parts


def _place(
    epoch: float, value: float, top: int, epochs: Sequence[float], span: tuple[float, float]
) -> tuple[float, float]:
    wide = (epochs[-1] - epochs[0]) or 1.0
    share = (value - span[0]) / (span[1] - span[0])
    return _AXIS + 12 + (_PANEL_WIDE - 24) * (epoch - epochs[0]) / wide, top + _PANEL_HIGH * (1 - share)


def write_svg(path: Path, figure: str) -> None:
    """Write the chart of a page as a file that is seen the same alone."""
    found = re.search(r"<svg (.*?)>(.*)</svg>", figure, re.DOTALL)
    assert found is not None, "a chart is one <svg>"
    with write_whole(path) as stream:
        stream.write(f'<svg xmlns="http://www.w3.org/2000/svg" {found[1]}>{_FILE_STYLE}{found[2]}</svg>\n'.encode())
