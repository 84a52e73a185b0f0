"""Cells that are spelled almost like a run of the question: an option of the language, off by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from bonafide.tasks.sql.language import Span
from bonafide.tasks.sql.tables import Table


def similar_cells(
    texts: Mapping[str, list[Span]], table: Table, threshold: float
) -> Iterator[tuple[int, str, list[Span]]]:
    """(column, cell, spans of the most similar run) for each text cell at least ``threshold`` similar to a run.

    Similarity is the Dice coefficient of the two sets of letter trigrams, of the lower-cased texts with a
    blank before and after. A cell that is a run of the question, letter for letter, is not listed.
    """
    postings, sizes = _trigram_index(table)
    best: dict[str, tuple[float, list[Span]]] = {}
    for text, spans in texts.items():
        grams = _trigrams(text)
        shared = Counter(cell for gram in grams for cell in postings.get(gram, ()))
        for cell, common in shared.items():
            score = 2 * common / (len(grams) + sizes[cell])
            if score >= threshold and cell not in texts and score > best.get(cell, (0.0, []))[0]:
                best[cell] = (score, spans)
    for cell in sorted(best):
        for column in table.text_cells[cell]:
            yield column, cell, best[cell][1]


def _trigrams(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


@lru_cache(maxsize=16)
def _trigram_index(table: Table) -> tuple[dict[str, list[str]], dict[str, int]]:
    postings: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for cell in table.text_cells:
        grams = _trigrams(cell)
        sizes[cell] = len(grams)
        for gram in grams:
            postings.setdefault(gram, []).append(cell)
    return postings, sizes
