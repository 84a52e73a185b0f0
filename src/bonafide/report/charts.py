"""Line charts as inline SVG, for pages that need nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_COLOURS = (
    "#b3402f", "#2f6fb3", "#5c8a3a", "#8a5ca8", "#c98a1b", "#3a8a8a", "#d0699a", "#a0a03a", "#8b6b4a", "#7f8896",
)  # fmt: skip
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT = 460, 250, 46, 34, 204
_LETTERS = 26  # of a name, in the room on the right


def line_chart(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], unit: str = "epoch") -> str:
    """One line a name through its (x, share) points; shares are between 0 and 1."""
    points = [point for line in lines.values() for point in line]
    last = max((x for x, _ in points), default=1.0) or 1.0
    top = max(0.1, min(1.0, 1.15 * max((y for _, y in points), default=1.0)))

    def place(x: float, y: float) -> str:
        return f"{_LEFT + (_WIDTH - _LEFT - 12) * x / last:.1f},{(_HEIGHT - _BOTTOM) * (1 - y / top) + 8:.1f}"

    parts = []
    for step in range(5):
        value = top * step / 4
        _, y = place(0, value).split(",")
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="count" x="{_LEFT - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{value:.0%}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [
            f'<circle cx="{xy.split(",")[0]}" cy="{xy.split(",")[1]}" r="3" fill="{colour}"/>' for xy in path.split()
        ]
        parts.append(_legend(number, name))
    parts.append(
        f'<text class="count" x="{_WIDTH - 12}" y="{_HEIGHT - 4}" text-anchor="end">{last:g} {escape(unit)}s</text>'
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH + _RIGHT} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def grouped_bars(title: str, groups: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> str:
    """One colour a name, one group of bars a label: (share, low, high), the last two the ends of its interval."""
    labels = list(dict.fromkeys(label for group in groups.values() for label in group))
    room = (_WIDTH - _LEFT - 12) / max(1, len(labels))
    wide = 0.8 * room / max(1, len(groups))

    def height(share: float) -> float:
        return (_HEIGHT - _BOTTOM) * (1 - share) + 8

    parts = []
    for step in range(5):
        y = height(step / 4)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 12}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="count" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{step / 4:.0%}</text>')
    for number, (name, group) in enumerate(groups.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        for place, label in enumerate(labels):
            if label not in group:
                continue
            share, low, high = group[label]
            left = _LEFT + room * (place + 0.1) + wide * number
            middle = left + wide / 2
            parts.append(
                f'<rect x="{left:.1f}" y="{height(share):.1f}" width="{wide:.1f}" '
                f'height="{height(0) - height(share):.1f}" style="fill:{colour}"><title>'
                f"{escape(name)}, {escape(label)}: {share:.1%}</title></rect>"
                f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="{height(high):.1f}" y2="{height(low):.1f}" '
                'style="stroke:var(--ink);stroke-width:1.2"/>'
            )
        parts.append(_legend(number, name))
    for place, label in enumerate(labels):
        x = _LEFT + room * (place + 0.5)
        parts.append(f'<text class="count" x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(label)}</text>')
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH + _RIGHT} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def shortened(label: str, letters: int) -> str:
    """A label in the room there is, as SVG, without its middle where it is too long; whole where the pointer rests."""
    end = letters // 3  # what tells labels apart often stands there
    shown = label if len(label) <= letters else f"{label[: letters - 1 - end].rstrip()}…{label[-end:].lstrip()}"
    return f"<title>{escape(label)}</title>{escape(shown)}"


def _legend(number: int, name: str) -> str:
    y, colour = 64 + 18 * number, _COLOURS[number % len(_COLOURS)]
    return (
        f'<rect x="{_WIDTH + 6}" y="{y - 10}" width="12" height="12" style="fill:{colour}"/>'
        f'<text x="{_WIDTH + 24}" y="{y}">{shortened(name, _LETTERS)}</text>'
    )
