"""The plots of a table: a bar a row with a dot a seed; and any chart as a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from bonafide.files import write_whole

_LEFT, _WIDE, _LINE = 250, 340, 24
_FILE_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#1c2330}text.count{fill:#5c6675}rect{fill:#2f6fb3}"
    "line.grid{stroke:#d9dee6}svg{--ink:#1c2330;background:#fff}</style>"
)


def row_bars(title: str, rows: Mapping[str, Sequence[float]]) -> str:
    """One bar a row as long as the mean of its shares, and a dot for each of them."""
    height = _LINE * len(rows) + 30
    parts = []
    for step in range(5):
        x = _LEFT + _WIDE * step / 4
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{height - 22}"/>')
        parts.append(f'<text class="count" x="{x}" y="{height - 6}" text-anchor="middle">{step / 4:.0%}</text>')
    for number, (label, shares) in enumerate(rows.items()):
        top, mean = 4 + _LINE * number, sum(shares) / len(shares)
        middle = top + 8
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="{_LEFT}" y="{top}" width="{_WIDE * mean:.1f}" height="16" opacity=".75"/>')
        parts += [
            f'<circle cx="{_LEFT + _WIDE * each:.1f}" cy="{middle}" r="3.2" fill="#b3402f">'
            f"<title>{each:.1%}</title></circle>"
            for each in shares
        ]
        end = _LEFT + _WIDE * max(*shares, mean) + 8
        parts.append(f'<text class="count" x="{end:.1f}" y="{top + 13}">{mean:.1%}</text>')
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_LEFT + _WIDE + 60} {height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def write_svg(path: Path, figure: str) -> None:
    """Write the chart of a page as a file that is seen the same alone."""
    found = re.search(r"<svg (.*?)>(.*)</svg>", figure, re.DOTALL)
    assert found is not None, "a chart is one <svg>"
    with write_whole(path) as stream:
        stream.write(f'<svg xmlns="http://www.w3.org/2000/svg" {found[1]}>{_FILE_STYLE}{found[2]}</svg>\n'.encode())
