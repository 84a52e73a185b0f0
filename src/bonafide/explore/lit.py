"""A context as a page shows it: the cells, or the stretches of text, that a solution touches are lit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Light = Literal["", "touched", "condition", "other", "copied"]
"""Unlit; what the solution returns or points at; what it asks of a row; what another solution points at; what it copies
from the question."""
Pieces = tuple[tuple[str, Light], ...]
"""A text cut where its light changes."""


@dataclass(frozen=True, slots=True)
class LitRow:
    """A row of a table: its number as people count, whether the solution selects it, and its cells."""

    number: int
    lit: bool
    cells: tuple[tuple[str, Light], ...]


@dataclass(frozen=True, slots=True)
class LitTable:
    """A table, or the part of it that a page has room for."""

    name: str
    header: tuple[tuple[str, Light], ...]
    rows: tuple[LitRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class LitParagraph:
    """A paragraph in pieces; its number counts from 1."""

    number: int
    pieces: Pieces


@dataclass(frozen=True, slots=True)
class LitText:
    """A text, or the paragraphs of it that a page has room for."""

    title: str | None
    paragraphs: tuple[LitParagraph, ...]
    total: int


LitContext = LitTable | LitText


def pieces(text: str, touched: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]] = ()) -> Pieces:
    """A text cut where its light changes; ``touched`` goes over ``others``."""
    light: list[Light] = [""] * len(text)
    for spans, kind in ((others, "other"), (touched, "touched")):
        for start, end in spans:
            for place in range(max(0, start), min(len(text), end)):
                light[place] = "touched" if kind == "touched" else "other"
    found: list[tuple[str, Light]] = []
    begin = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or light[place] != light[begin]:
            found.append((text[begin:place], light[begin]))
            begin = place
    return tuple(found)


def shown_places(total: int, lit: Sequence[int], room: int) -> list[int]:
    """Which of ``total`` rows or paragraphs a page shows: all if there is room, else the lit ones and the first."""
    if total <= room:
        return list(range(total))
    chosen = set(lit[: room // 2])
    for place in range(total):
        if len(chosen) >= room:
            break
        chosen.add(place)
    return sorted(chosen)
