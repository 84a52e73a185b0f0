"""Tokens of a text with their character offsets.

A token is a number in digits with its separators (``1,200.50``, ``.75``), a run of letters, an entity that was left
in the text (``&#160;``), or one other sign that is not white space. So ``43-yard`` has three tokens and ``1960s`` two:
a span can begin and end at each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r"(?:[0-9]{1,3}(?:,[0-9]{3}(?![0-9]))+|[0-9]+)(?:\.[0-9]+)?"  # 1,200.50
    r"|(?<![\w.])\.[0-9]+"  # .75
    r"|[^\W0-9_]+"  # letters, and digits of other scripts
    r"|&(?:#[0-9]{1,7}|[a-zA-Z]{1,10});"  # &#160; is no number
    r"|[^\w\s]|_"
)


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text: token *i* is ``text[starts[i]:ends[i]]``."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What each token says."""
        return tuple(self.text[start:end] for start, end in zip(self.starts, self.ends, strict=True))

    @cached_property
    def lower(self) -> tuple[str, ...]:
        """The words in lower case; never empty, and one for each token."""
        return tuple(word.lower() for word in self.words)

    def joined(self, index: int) -> bool:
        """Whether token ``index`` follows the one before it without a space."""
        return index > 0 and self.starts[index] == self.ends[index - 1]

    def covered(self, first: int, last: int) -> str:
        """The text from token ``first`` to token ``last``, both included."""
        return self.text[self.starts[first] : self.ends[last]]


def tokenise(text: str) -> Tokens:
    """The tokens of ``text``, in order; every character that is not white space is in one."""
    spans = [match.span() for match in _TOKEN.finditer(text)]
    return Tokens(text, tuple(start for start, _ in spans), tuple(end for _, end in spans))
