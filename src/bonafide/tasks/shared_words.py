"""What a question and a text have in common, for a solver that reads both: shared words, and what stands near a piece.

Words that stand in both are numbered, so that a model can tell that two places say the same without having seen the
word before: an encoder from scratch learns that slowly, if at all. What stands around a piece is added to its state,
for the same reason: a number, or a name, is known by the words next to it.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from typing import TypeVar

from torch import Tensor, nn
from torch.nn import functional

SHARED_WORDS = 32
"""Numbers for words that stand in question and text, 0 being that of the others."""
_REACH = 4
"""How many pieces to each side are the surroundings of a piece."""


Word = TypeVar("Word", bound=Hashable)


def numbered(asked: Iterable[Word], there: Container[Word]) -> dict[Word, int]:
    """The words of the question that are ``there`` too, numbered from 1 as they come; the last number is for all."""
    both = [word for word in dict.fromkeys(asked) if word in there]
    return {word: min(place, SHARED_WORDS - 1) for place, word in enumerate(both, start=1)}


class SharedWords(nn.Embedding):
    """What the number of a word adds to the embeddings of its pieces; at first nothing: the encoder reads as before."""

    def __init__(self, width: int) -> None:
        super().__init__(SHARED_WORDS, width)
        nn.init.zeros_(self.weight)


class Surroundings(nn.Module):
    """Adds to the state of each piece what stands next to it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.near = nn.Conv1d(width, width, 2 * _REACH + 1, padding=_REACH, groups=width)
        self.out = nn.Linear(width, width)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(examples, pieces, width) → the same; ``mask`` (examples, pieces) says which pieces are there."""
        near = self.near((self.norm(states) * mask[..., None]).transpose(1, 2)).transpose(1, 2)
        made: Tensor = states + self.out(functional.gelu(near))
        return made
