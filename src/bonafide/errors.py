"""Errors for the person who can fix them.

The command line prints a :class:`BonafideError` as one paragraph and exits with code 2; anything else
is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 2000
"""Characters of the longest error: what quotes a whole file is read by nobody."""


class BonafideError(Exception):
    """What is wrong, where, what was expected, what was found and what to do, in one paragraph."""

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= LONGEST else f"{message[: LONGEST - 400]} … {message[-390:]}")


class MemoryShortageError(BonafideError):
    """There is not enough memory now; there may be later, where others use it too."""


_SAYINGS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "bad_alloc",
    "could not create a primitive",  # oneDNN, which says no more than that
)


def out_of_memory(error: BaseException) -> bool:
    """Whether this is what torch or numpy raise where memory cannot be had, of a GPU or of the machine."""
    if isinstance(error, (MemoryError, MemoryShortageError)):
        return True
    return isinstance(error, RuntimeError) and any(saying in str(error) for saying in _SAYINGS)


def shortened(value: object, most: int = 120) -> str:
    """A value as Python writes it, for an error: of a long one its beginning."""
    try:
        text = value[: most + 1] if isinstance(value, str) else value
        shown = repr(text)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one line of a file."""

    line: int
    id: str
    field: str
    expected: str
    found: str


class InvalidFileError(BonafideError):
    """A file with problems, all of them: the command line shows them as a table."""

    def __init__(self, path: str, problems: list[Problem], hint: str = "") -> None:
        self.path = path
        self.problems = problems
        first = problems[0]
        count = "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"
        super().__init__(
            f"{path} has {count}; the first is on line {first.line}, {first.field}: expected {first.expected}, "
            f"found {first.found}. Nothing was done." + (f" {hint}" if hint else "")
        )
        self._arguments = path, problems, hint

    def __reduce__(self) -> tuple[type[InvalidFileError], tuple[str, list[Problem], str]]:
        return InvalidFileError, self._arguments  # a worker sends it to its parent
