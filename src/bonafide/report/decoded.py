"""How a file of predictions was made: on which examples, by which decoding. Beside it, ``predictions.made.json``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bonafide.files import content_hash, explained
from bonafide.sealed import read_sealed, write_sealed

_OF = "predictions"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The hash of the examples, and the options of ``evaluate``."""

    examples: str
    beam: int = 1
    execution_guided: bool = False
    reconstruction: float = 0.0

    @property
    def options(self) -> str:
        """As they are given on the command line; without the vote, which only some models can cast."""
        return f"--beam {self.beam}" + (" --execution-guided" if self.execution_guided else "")


@contextmanager
def decoded(
    path: Path, examples: Path, beam: int, reconstruction: float, execution_guided: bool = False
) -> Iterator[None]:
    """Write the predictions within this, and how they were made after them."""
    with explained(_beside(path), "write"):
        _beside(path).unlink(missing_ok=True)
    yield
    made = Decoded(content_hash(examples), beam, execution_guided, reconstruction)
    write_sealed(_beside(path), {_OF: content_hash(path), **asdict(made)})


def how_decoded(path: Path) -> Decoded | None:
    """How these predictions were made; None where nothing says it, as of a file from elsewhere."""
    if not _beside(path).exists():
        return None
    made = read_sealed(_beside(path))
    return Decoded(**made) if made.pop(_OF) == content_hash(path) else None


def _beside(path: Path) -> Path:
    return path.with_suffix(".made.json")
