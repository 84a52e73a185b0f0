"""Charts of a run: what to draw, in the units of an SVG. The templates draw it, without a style of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 200, 54, 10, 10, 26
_MOST_POINTS = 400


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its name, its points as SVG writes them, and its last value as text."""

    name: str
    points: str
    last: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over epochs, with the labels of the axis: (height, text)."""

    title: str
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...]
    end: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Sets of these sizes: from, to, how many, and the share of the longest bar."""

    label: str
    low: int
    high: int
    count: int
    share: float


_CHARTS: tuple[tuple[str, tuple[tuple[str, str], ...], bool], ...] = (
    (
        "Right on dev, and solver and reconstructor choosing the same",
        (("dev_execution", "right answers on dev"), ("dev_f1", "F1 on dev"), ("agreement", "agreement on train")),
        True,
    ),
    ("How well questions are reconstructed on dev (log P)", (("dev_reconstruction", "reconstruction"),), False),
    ("How undecided the solver is over Z (nats)", (("entropy", "entropy"),), False),
    ("Loss", (("loss", "solver"), ("reconstructor_loss", "reconstructor")), False),
)


def curves(metrics: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """The charts for which a run has at least two points."""
    made = []
    for title, names, share in _CHARTS:
        lines = {label: _points(metrics, name) for name, label in names}
        lines = {label: points for label, points in lines.items() if len(points) > 1}
        if lines:
            made.append(_chart(title, lines, share))
    return made


_COMPARED: tuple[tuple[str, str, bool], ...] = (
    ("dev_execution", "Right answers on dev", True),
    ("dev_reconstruction", "How well questions are reconstructed on dev (log P)", False),
    ("entropy", "How undecided the solver is over Z (nats)", False),
)
CHOSEN = "Solutions that trained the solver and are gold"


def compared_curves(
    metrics: Mapping[str, Sequence[Mapping[str, Any]]], chosen: Mapping[str, Sequence[tuple[float, float]]]
) -> list[Chart]:
    """A chart a figure with a line a run, where two runs have it; ``chosen`` is how often gold trained the solver."""
    found = [(CHOSEN, chosen, True)]
    for figure, title, share in _COMPARED:
        found.append((title, {name: _points(entries, figure) for name, entries in metrics.items()}, share))
    made = []
    for title, points, share in found:
        lines = {name: each for name, each in points.items() if len(each) > 1}
        if len(lines) > 1:
            made.append(_chart(title, lines, share))
    return made


def bars(sizes: Sequence[tuple[int, int]]) -> list[Bar]:
    """How many sets have 0, 1, 2, 3–4, 5–8, … solutions; ``sizes`` are (size, how many)."""
    largest = max((size for size, _ in sizes), default=0)
    bounds, low, high = [(0, 0)], 1, 1
    while low <= largest:
        bounds.append((low, high))
        low, high = high + 1, high * 2
    counts = [sum(count for size, count in sizes if low <= size <= high) for low, high in bounds]
    most = max(counts, default=0) or 1
    return [
        Bar(f"{low:,}" if low == high else f"{low:,}–{high:,}", low, high, count, count / most)
        for (low, high), count in zip(bounds, counts, strict=True)
    ]


def _points(metrics: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    found = []
    for entry in metrics:
        figures = {**entry, **entry.get("evaluation", {})}
        if isinstance(figures.get(name), (int, float)) and isinstance(entry.get("epoch"), (int, float)):
            found.append((float(entry["epoch"]), float(figures[name])))
    step = -(-len(found) // _MOST_POINTS) or 1
    return found[::step] if len(found) % step == 1 or step == 1 else [*found[::step], found[-1]]


def _chart(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], share: bool) -> Chart:
    values = [y for points in lines.values() for _, y in points]
    low, high = (0.0, max(0.1, *values)) if share or min(values) >= 0 else (min(values), max(values))
    last = max(x for points in lines.values() for x, _ in points) or 1.0
    spread = (high - low) or 1.0

    def place(x: float, y: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * x / last:.1f},{_height(y, low, spread):.1f}"

    def text(value: float) -> str:
        return f"{value:.0%}" if share else f"{value:.3g}"

    marks = [low + spread * step / 4 for step in range(5)]
    return Chart(
        title,
        tuple(
            Line(name, " ".join(place(*point) for point in points), text(points[-1][1]))
            for name, points in lines.items()
        ),
        tuple((_height(mark, low, spread), text(mark)) for mark in marks),
        f"{last:g} epochs",
    )


def _height(value: float, low: float, spread: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / spread)
