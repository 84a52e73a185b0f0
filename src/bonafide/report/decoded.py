"""How a file of predictions was made: on what, by which model and decoding. Beside it, ``predictions.made.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_type_hints

from bonafide.errors import BonafideError
from bonafide.files import bare_name, beside, content_hash, explained
from bonafide.sealed import read_sealed, write_sealed

_OF = "predictions"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Hashes of the examples, their tables or documents, and the model, and the options of ``evaluate``.

    "" is not known; of documents also that they stand in the examples.
    """

    examples: str
    beam: int = 1
    execution_guided: bool = False
    reconstruction: float = 0.0
    tables: str = ""
    model: str = ""
    documents: str = ""

    @property
    def options(self) -> str:
        """As they are given on the command line; without the vote, which only some models can cast."""
        return f"--beam {self.beam}" + (" --execution-guided" if self.execution_guided else "")

    @property
    def vote(self) -> str:
        """The weight of the reconstructor's vote, as it is given on the command line."""
        return f"--reconstruction {self.reconstruction:g}"


def hash_of_tables(paths: Sequence[Path], types: Mapping[str, str]) -> str:
    """Tells tables apart, and how they are read; of several files also by their names, which the examples name."""
    hashes = [content_hash(path) for path in paths]
    named = sorted(zip(map(bare_name, paths), hashes, strict=True))
    read = {"tables": named if len(paths) > 1 else hashes, "types": dict(types)}
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def hash_of_documents(path: Path | None) -> str:
    """Tells documents apart; "" where they stand in the examples themselves, whose hash tells it."""
    return "" if path is None else content_hash(path)


def hash_of_model(run: Path) -> str:
    """Tells a run's model from an earlier one of the same run; "" where there is none."""
    about = run / "model" / "model.json"  # it holds the hashes of the weights
    return content_hash(about) if about.exists() else ""


@contextmanager
def decoded(
    path: Path,
    run: Path,
    examples: Path,
    beam: int,
    reconstruction: float,
    execution_guided: bool = False,
    tables: str = "",
    documents: str = "",
) -> Iterator[None]:
    """Write the predictions within this, and how they were made after them."""
    with explained(_beside(path), "write"):
        _beside(path).unlink(missing_ok=True)
    yield
    model = hash_of_model(run)
    made = Decoded(content_hash(examples), beam, execution_guided, reconstruction, tables, model, documents)
    write_sealed(_beside(path), {_OF: content_hash(path), **asdict(made)})


def how_decoded(path: Path) -> Decoded | None:
    """How these predictions were made; None where nothing says it, as of a file from elsewhere."""
    if not _beside(path).exists():
        return None
    made = read_sealed(_beside(path))
    kinds = {_OF: str, **get_type_hints(Decoded)}
    told = {_OF, "examples"} <= set(made) <= set(kinds)
    if not told or not all(isinstance(value, kinds[name] | int) for name, value in made.items()):
        raise BonafideError(
            f"{_beside(path)} is not as bonafide evaluate writes it. Run bonafide evaluate again, or delete it: then "
            "nothing is known of how these predictions were made."
        )
    return Decoded(**made) if made.pop(_OF) == content_hash(path) else None


def _beside(path: Path) -> Path:
    return beside(path, ".made.json")
