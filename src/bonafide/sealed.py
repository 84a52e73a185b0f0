"""Files that carry a checksum of themselves, so that one changed bit is found and the file named.

A JSON object has it as its last key, ``checksum``. A Parquet file has it in its footer: 64 digits that are all 0 while
the checksum is taken. A file of lines has a file beside it, ``predictions.sums`` for ``predictions.jsonl`` (of another
type ``predictions.json.sums``), with the checksum of each line: it finds lines that changed and lines that are gone,
also while the file still grows.

What has no checksum, such as a file that was written by hand, is read as it is.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bonafide.errors import BonafideError
from bonafide.files import beside, explained, open_bytes, read_json, write_json, write_whole

CHECKSUM = "checksum"
FOOTER_KEY = "bonafide.checksum"
BLANK = "0" * 64
_BLOCK = 1 << 20


def write_sealed(path: Path, value: dict[str, Any]) -> None:
    """Write one JSON object with its checksum, whole or not at all."""
    write_json(path, {**value, CHECKSUM: _checksum(value)})


def read_sealed(
    path: Path, otherwise: str = "delete the folder and run the command that made it again"
) -> dict[str, Any]:
    """Read one JSON object, without its checksum; ``otherwise``: what to do where it is damaged and has no copy."""
    value = read_json(path, f"It may be damaged: bring back a copy of it, or {otherwise}.")
    expected = value.pop(CHECKSUM, None)
    if expected is not None and expected != _checksum(value):
        raise BonafideError(
            f"{path} is damaged: it does not have the checksum that was written with it. Bring back a copy of it, or "
            f"{otherwise}."
        )
    return value


def _checksum(value: dict[str, Any]) -> str:
    """Of what the object says, however it is written."""
    said = json.dumps(json.loads(json.dumps(value)), sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def sums_of(path: Path) -> Path:
    """Where the checksums of a file of lines are."""
    return beside(path, ".sums")


@contextmanager
def vouched(path: Path) -> Iterator[None]:
    """Write a whole file of lines within this, and its checksums after it."""
    with explained(sums_of(path), "write"):
        sums_of(path).unlink(missing_ok=True)
    yield
    with path.open("rb") as lines, write_whole(sums_of(path)) as stream:
        stream.writelines(map(_sum, lines))


def vouch_for(path: Path, line: bytes) -> None:
    """Add the checksum of a line that was added to a file."""
    with explained(sums_of(path), "write"), sums_of(path).open("ab") as stream:
        stream.write(_sum(line))


def check_lines(path: Path) -> None:
    """Refuse a file that lacks a line which was written to it, or has it otherwise; more lines may be there."""
    sums = sums_of(path)
    if not sums.exists():
        return
    with open_bytes(sums) as stream:
        expected = Counter(each for each in stream if each.endswith(b"\n"))  # a kill can cut the last
    others = 0
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):
            if expected[(found := _sum(line))] > 0:
                expected[found] -= 1
            else:
                others = others or number
    if missing := expected.total():
        where = f", the first at line {others}" if others else ""
        raise BonafideError(
            f"{path} is damaged: {missing:,} of its lines are gone or not as they were written{where}. Bring back a "
            f"copy of it, or make it again; if you changed it yourself, delete {sums}."
        )


def read_log(path: Path) -> list[dict[str, Any]]:
    """The entries of a log; one that a full disk or a kill has cut short is left out."""
    check_lines(path)
    with open_bytes(path) as stream:
        lines = [line for line in stream if line.endswith(b"\n")]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise BonafideError(f"{path} is damaged: expected one JSON object a line, found {error}.") from None


def _sum(line: bytes) -> bytes:
    return hashlib.sha256(line.rstrip(b"\r\n")).hexdigest()[:16].encode() + b"\n"


class SealingStream(io.RawIOBase):
    """Passes on what is written, and takes its checksum; from :meth:`hold` on it waits for :meth:`seal`.

    The footer of a Parquet file is written last, so no more than that is held.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream, self._digest = stream, hashlib.sha256()
        self._held: bytearray | None = None
        self._written = 0

    def writable(self) -> bool:  # noqa: D102
        return True

    def tell(self) -> int:  # noqa: D102
        return self._written

    def write(self, data: Any) -> int:  # noqa: D102
        self._digest.update(data)
        self._written += len(data)
        if self._held is None:
            self._stream.write(data)
        else:
            self._held += data
        return len(data)

    def hold(self) -> None:
        """What comes now is the footer."""
        self._held = bytearray()

    def seal(self) -> None:
        """Put the checksum into the footer, and pass it on."""
        assert self._held is not None
        self._stream.write(_with_digits(bytes(self._held), self._digest.hexdigest()))
        self._held = None


def is_sealed_parquet(path: Path) -> bool:
    """Whether a Parquet file has the checksum that its footer says; False where it says none, or is none."""
    size = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        stream.seek(max(0, size - 8))
        length = int.from_bytes(stream.read(4), "little") + 8
        if length > size:
            return False
        stream.seek(0)
        left = size - length
        while left and (block := stream.read(min(_BLOCK, left))):
            digest.update(block)
            left -= len(block)
        footer = stream.read()
    place = _digits(footer)
    if place is None:
        return False
    digest.update(_with_digits(footer, BLANK))
    return footer[place : place + len(BLANK)] == digest.hexdigest().encode()


def _digits(footer: bytes) -> int | None:
    """Where the digits stand: after the key, and after the length that Parquet writes before a text."""
    key = footer.rfind(FOOTER_KEY.encode())
    place = key + len(FOOTER_KEY) + 2
    return place if key >= 0 and place + len(BLANK) <= len(footer) else None


def _with_digits(footer: bytes, digits: str) -> bytes:
    place = _digits(footer)
    assert place is not None
    return footer[:place] + digits.encode() + footer[place + len(digits) :]
