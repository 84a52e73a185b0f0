"""A passage: the context of discrete reasoning, with its tokens, numbers and dates found once.

A question is read in the same way; both together are the :class:`Reading` that a program is executed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bonafide.tasks.discrete.dates import DateMention, find_dates
from bonafide.tasks.discrete.numbers import NumberMention, find_numbers
from bonafide.tasks.discrete.tokens import Tokens, tokenise


@dataclass(frozen=True)
class Passage:
    """A text and what stands in it. Mentions count tokens from 0 and include both their first and last token."""

    text: str

    @cached_property
    def tokens(self) -> Tokens:
        """Its tokens, with their character offsets."""
        return tokenise(self.text)

    @cached_property
    def numbers(self) -> tuple[NumberMention, ...]:
        """Its numbers, by position."""
        return find_numbers(self.tokens)

    @cached_property
    def dates(self) -> tuple[DateMention, ...]:
        """Its dates, by position; each whole date is followed by its parts."""
        return find_dates(self.tokens, self.numbers)

    def __len__(self) -> int:
        return len(self.tokens)

    def span_text(self, first: int, last: int) -> str:
        """The text from token ``first`` to token ``last``, both included."""
        return self.tokens.covered(first, last)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a program refers to: the question and the passage."""

    question: Passage
    passage: Passage


def read(question: str, passage: str) -> Reading:
    """The reading of two texts."""
    return Reading(Passage(question), Passage(passage))
