"""A small table of figures, shown in the terminal, as Markdown and as HTML: one content, three looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rich.markup import escape as plain
from rich.table import Table as Grid

from bonafide.report.statistics import Interval


@dataclass(frozen=True, slots=True)
class Tabled:
    """A title, what the reader should know of it, and rows; the first column names the row.

    ``worded`` are the names of further columns that hold words; the others hold figures.
    """

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    worded: tuple[str, ...] = ()

    def terminal(self) -> Grid:
        """For rich's console."""
        grid = Grid(title=plain(self.title), title_justify="left", caption=plain(self.note), caption_justify="left")
        for name, figure in zip(self.head, self._figures, strict=True):
            grid.add_column(plain(name), justify="right" if figure else "left", overflow="fold")
        for row in self.rows:
            grid.add_row(*map(plain, row))
        return grid

    def markdown(self) -> str:
        """As GitHub reads it."""
        lines = [f"### {_cell(self.title)}", "", _line(self.head), "|---" * len(self.head) + "|"]
        return "\n".join([*lines, *map(_line, self.rows), "", *([self.note, ""] if self.note else [])])

    def html(self) -> str:
        """For a page with the style of ``page.py``."""
        kinds = [" class=figure" * figure for figure in self._figures]
        head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, self.head, strict=True))
        rows = "".join(
            f"<tr><th>{escape(row[0])}</th>"
            + "".join(f"<td{kind}>{escape(each)}</td>" for kind, each in zip(kinds[1:], row[1:], strict=True))
            + "</tr>"
            for row in self.rows
        )
        return (
            f"<h2>{escape(self.title)}</h2><article><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            f"</article><p class=note>{escape(self.note)}</p>"
        )

    @property
    def _figures(self) -> list[bool]:
        return [place > 0 and name not in self.worded for place, name in enumerate(self.head)]


def percent(share: float, interval: Interval | None = None) -> str:
    """``70.0 %``, and with an interval ``70.0 % [65.0, 74.5]``."""
    return f"{share:.1%}".replace("%", " %") + (
        "" if interval is None else f" [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
    )


def points(difference: float, interval: Interval | None = None) -> str:
    """A difference of shares in points: ``+12.3``, and with an interval ``+12.3 [+8.0, +16.6]``."""
    shown = "" if interval is None else f" [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
    return f"{100 * difference:+.1f}{shown}"


def p_value(p: float | None) -> str:
    """``0.012``; ``< 0.001`` below that; a dash where there is no test."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _line(row: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, row)) + " |"


def _cell(text: str) -> str:
    for sign in ("\\", "|", "<", "*", "_", "`", "["):
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")
