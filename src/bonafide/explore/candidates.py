"""How the text task speaks in the explorer: candidates with their votes; what they copy from the question is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bonafide.examples import Example
from bonafide.explore.lit import LitParagraph, LitText, Pieces
from bonafide.tasks.text.candidates import TextSet
from bonafide.tasks.text.task import TextCodec
from bonafide.tasks.text.words import COPIED_RUN, copied_pieces, copy_rate, final_answer, normalised


@dataclass(frozen=True)
class TextView:
    """Candidates that a user brought; runs of ``copied`` words of the question count as copied."""

    copied: int = COPIED_RUN

    codec = TextCodec()
    each = "count"
    solution = "candidate"
    contexts = "documents"
    order = "as they were brought"

    def read(self, raw: bytes) -> str:
        """A text; the contexts of this task stand in the examples themselves."""
        return raw.decode()

    def text(self, solution: str, example: Example, context: str) -> str:
        """As it was brought."""
        return solution

    def texts(self, solutions: TextSet, places: Sequence[int], example: Example, context: str) -> list[str]:
        """The same."""
        return [solutions[place] for place in places]

    def pieces(self, text: str, example: Example) -> Pieces:
        """What it copies from the question is marked; the reconstructor does not see it."""
        found = copied_pieces(text, example.question, self.copied)
        return tuple((piece, "copied" if copied else "") for piece, copied in found)

    def marks(self, solutions: TextSet, place: int, example: Example) -> tuple[str, ...]:
        """How often it was brought, and how much of it is copied."""
        votes, rate = solutions.counts[place], copy_rate(solutions[place], example.question, self.copied)
        return (f"{votes:,} {'vote' if votes == 1 else 'votes'}", *([f"{rate:.0%} copied"] if rate else []))

    def returns(self, solution: str, example: Example, context: str) -> str:
        """The answer that it states."""
        return final_answer(solution)

    def lit(self, solution: str | None, solutions: TextSet | None, example: Example, context: str) -> LitText | None:
        """The text that the question is about, where there is one; a candidate does not say what it took from it."""
        lines = [line for line in context.split("\n") if line.strip()]
        paragraphs = tuple(LitParagraph(number, ((line, ""),)) for number, line in enumerate(lines, start=1))
        return LitText(None, paragraphs, len(paragraphs)) if paragraphs else None

    def gold_places(self, gold: dict[str, Any], solutions: TextSet, example: Example, context: str) -> list[int]:
        """Every candidate that says what a gold text says."""
        wanted = {normalised(str(each)) for each in gold.get("texts", ())}
        return [place for place, text in enumerate(solutions) if normalised(text) in wanted]

    def parse(self, text: str, example: Example, context: str) -> str:
        """The text itself."""
        return text
