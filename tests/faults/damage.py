"""Damage to a file: the end is missing, or one bit is another."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from faults.record import HARMLESS, IDENTICAL, REFUSED, WRONG, Fault

Damage = Callable[[Path, random.Random], str]
"""Damages a file and says where."""


def truncate(path: Path, chance: random.Random) -> str:
    """Cut the file at any place."""
    data = path.read_bytes()
    at = chance.randrange(len(data))
    path.write_bytes(data[:at])
    return f"byte {at} of {len(data)}"


def flip(path: Path, chance: random.Random) -> str:
    """Turn one bit over."""
    data = bytearray(path.read_bytes())
    at, bit = chance.randrange(len(data)), chance.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"byte {at} of {len(data)}, bit {bit}"


DAMAGES: dict[str, Damage] = {"truncated file": truncate, "flipped bit": flip}


@dataclass(frozen=True, slots=True)
class Given:
    """What a command printed; or the paragraph with which it was refused; or the traceback that it must not show."""

    said: str = ""
    refused: str = ""
    crashed: str = ""


def called(*arguments: str | Path) -> Given:
    """A command in this process, to its end."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    return _given(done.stdout, None if done.exit_code == 0 else done.exception)


def tried(work: Callable[[], str]) -> Given:
    """The same for a function."""
    try:
        return Given(work())
    except Exception as error:
        return _given("", error)


def _given(said: str, error: BaseException | None) -> Given:
    if error is None:
        return Given(said)
    if isinstance(error, BonafideError):
        return Given(refused=str(error))
    return Given(crashed="".join(traceback.format_exception(error)))


def judged(
    fault: Callable[..., Fault],
    path: Path,
    unread: Mapping[str, str],
    given: Given,
    same: Callable[[str], bool],
    healed: Callable[[], bool] = lambda: False,
    names: Sequence[Path] = (),
) -> Fault:
    """What became of damage to ``path``, from what a command gave after it.

    ``same`` says of what was printed whether the result is the one without damage, ``healed`` whether the file is as it
    was. Damage may stay unseen in the files of ``unread`` alone, which say why. ``names``: what a refusal may name in
    place of the file.
    """
    if given.crashed:
        return fault(WRONG, given.crashed)
    if given.refused:
        known = any(each.name in given.refused for each in (path, *names))
        return fault(REFUSED if known else WRONG, given.refused)
    if not same(given.said):
        return fault(WRONG, "the result is another")
    if healed():
        return fault(IDENTICAL, "")
    return fault(HARMLESS if path.name in unread else WRONG, unread.get(path.name, "the damage went unseen"))
