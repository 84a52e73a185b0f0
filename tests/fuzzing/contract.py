"""What everything that reads promises of any input: a value, or an error for the person who can fix it.

The error is a :class:`BonafideError` that can be printed, is not longer than a person reads, and names the file it is
about. Anything else (another exception, a warning, a crash, a hang, memory without bound) is a bug of ours.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from bonafide.errors import BonafideError, InvalidFileError
from fuzzing.mutation import mutated

SECONDS = 2.0
"""Processor time that one input may take."""
MEMORY = 2 << 30
"""Bytes that reading may need beyond what the process has when it begins."""
_LONGEST = 3000

Outcome = Literal["value", "error"]


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads: ``read`` takes any bytes, ``seeds`` are valid ones, errors must name ``file``."""

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    file: str = ""
    as_json: bool = True

    def input(self, chance: Random) -> bytes:
        """A random input."""
        return mutated(self.seeds, chance, self.as_json)


class BrokenContractError(Exception):
    """What was promised and not kept."""


def outcome(target: Target, data: bytes) -> Outcome:
    """Read an input; whatever is neither a value nor an error as it should be comes out as an exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            target.read(data)
        except BonafideError as error:
            _check(error, target.file)
            return "error"
    return "value"


def place_of(error: BaseException) -> str:
    """What an exception is and where in bonafide it came from: the same for the same bug."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/bonafide/" in each.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} at {where}"


def _check(error: BonafideError, file: str) -> None:
    said = str(error)
    if not said.strip():
        raise BrokenContractError("an error that says nothing") from error
    problems = error.problems if isinstance(error, InvalidFileError) else []
    for text in (said, *(part for each in problems for part in (each.id, each.field, each.expected, each.found))):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BrokenContractError(f"an error that cannot be printed: {place_of(error)}") from error
    if len(said) > _LONGEST:
        raise BrokenContractError(f"an error too long to read: {place_of(error)}") from error
    if file not in said:
        raise BrokenContractError(f"an error that does not name {file}: {place_of(error)}") from error
