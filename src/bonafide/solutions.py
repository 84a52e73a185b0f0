"""The solution store: a folder of Parquet shards and a manifest.

    solutions/
      manifest.json          format, tool, task, options, hashes of the inputs, counts, hashes of the shards
      shard-00000.parquet    one row an example, in the order of the examples file; integer columns, no SQL text

A shard appears under its name only when it is whole, and the manifest only when every shard is there, so a
folder is either finished or can be continued (``search.py``). Shards depend on the inputs and options alone:
not on the number of workers, on interruptions or on the clock. What a run took goes to ``timings.jsonl``.

What a row holds beside the example's id and the size of its set is the task's business: its :class:`Codec`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.files import content_hash, write_whole
from bonafide.sealed import BLANK, FOOTER_KEY, SealingStream, is_sealed_parquet, read_sealed, write_sealed

FORMAT = 1
MANIFEST = "manifest.json"
_GROUP_SOLUTIONS = 250_000
_GROUP_EXAMPLES = 250


class SolutionSet(Protocol):
    """Every solution of an example that was found: the task's own sequence of its own solutions.

    ``size`` is the number of solutions before any cap, ``complete`` whether all of them are listed.
    """

    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def complete(self) -> bool: ...  # noqa: D102
    def __len__(self) -> int: ...


S = TypeVar("S", bound=SolutionSet)


class Codec(Protocol[S]):
    """How a task's solution sets become columns of a shard and come back."""

    @property
    def fields(self) -> list[pa.Field]:
        """The task's own columns."""
        ...

    def encode(self, sets: Sequence[S]) -> list[pa.Array]:
        """The columns for these sets, one row a set."""
        ...

    def decode(self, columns: dict[str, Any], size: int, complete: bool) -> S:
        """The set of one row, from that row's scalars."""
        ...


_OWN_FIELDS = [
    pa.field("example", pa.string(), nullable=False),
    pa.field("size", pa.decimal128(38, 0), nullable=False),
    pa.field("complete", pa.bool_(), nullable=False),
]


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """What a shard holds; kept in its footer."""

    examples: int
    covered: int
    capped: int
    solutions: int


def shard_name(index: int) -> str:
    """The file name of a shard."""
    return f"shard-{index:05d}.parquet"


def write_shard(path: Path, sets: Iterable[tuple[str, S]], codec: Codec[S], identity: str) -> ShardCounts:
    """Write one shard, whole or not at all, holding one row group of sets in memory at a time."""
    with write_whole(path) as stream:
        return write_sets(stream, sets, codec, identity)


def write_sets(stream: IO[bytes], sets: Iterable[tuple[str, S]], codec: Codec[S], identity: str) -> ShardCounts:
    """What a shard holds, to any stream."""
    schema = pa.schema([*_OWN_FIELDS, *codec.fields])
    counts = {"examples": 0, "covered": 0, "capped": 0, "solutions": 0}
    sealing = SealingStream(stream)
    with pq.ParquetWriter(sealing, schema, compression="zstd") as writer:
        held: list[tuple[str, S]] = []
        waiting = 0
        for name, solutions in sets:
            held.append((name, solutions))
            waiting += len(solutions)
            counts["examples"] += 1
            counts["covered"] += solutions.size > 0
            counts["capped"] += not solutions.complete
            counts["solutions"] += len(solutions)
            if waiting >= _GROUP_SOLUTIONS or len(held) >= _GROUP_EXAMPLES:
                writer.write_table(_group(held, codec, schema))
                held, waiting = [], 0
        if held:
            writer.write_table(_group(held, codec, schema))
        footer = {
            "bonafide.identity": identity,
            **{f"bonafide.{key}": str(value) for key, value in counts.items()},
            FOOTER_KEY: BLANK,
        }
        writer.add_key_value_metadata(footer)
        sealing.hold()
    sealing.seal()
    return ShardCounts(**counts)


def shard_counts(path: Path, identity: str) -> ShardCounts | None:
    """What the shard at ``path`` holds; None if it is not there, not whole, damaged, or of another search."""
    if not path.exists():
        return None
    try:
        if not is_sealed_parquet(path):
            return None
        footer = pq.read_metadata(path).metadata or {}
        if footer[b"bonafide.identity"].decode() != identity:
            return None
        return ShardCounts(*(int(footer[f"bonafide.{key}".encode()]) for key in ShardCounts.__slots__))
    except (OSError, KeyError, ValueError, pa.ArrowException):
        return None


def write_manifest(folder: Path, search: dict[str, Any], counts: Sequence[ShardCounts]) -> None:
    """Finish a store: every shard is there."""
    shards = [
        {
            "file": shard_name(index),
            "examples": each.examples,
            "solutions": each.solutions,
            "sha256": content_hash(folder / shard_name(index)),
        }
        for index, each in enumerate(counts)
    ]
    totals = {key: sum(getattr(each, key) for each in counts) for key in ShardCounts.__slots__}
    write_sealed(folder / MANIFEST, {**search, "tool": f"bonafide {__version__}", "counts": totals, "shards": shards})


def damaged_shards(folder: Path) -> list[Path]:
    """The shards of a finished store that are missing or are not what the manifest says."""
    return [folder / each["file"] for each in read_manifest(folder)["shards"] if not _is_sound(folder, each)]


class SolutionStore(Generic[S]):
    """A finished store: stream it, or look an example up by its id.

    A shard is checked against the manifest when it is first opened: hashing reads about a gigabyte a second.
    """

    def __init__(self, folder: Path, codec: Codec[S]) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.codec = codec
        self._files: dict[int, pq.ParquetFile] = {}
        self._sound: set[int] = set()

    def __len__(self) -> int:
        return int(self.manifest["counts"]["examples"])

    def __iter__(self) -> Iterator[tuple[str, S]]:
        for shard in range(len(self.manifest["shards"])):
            file = self._file(shard)
            for group in range(file.num_row_groups):
                yield from self._decoded(self._read_group(shard, group))

    def __contains__(self, example: object) -> bool:
        return example in self._place

    def __getitem__(self, example: str) -> S:
        if example not in self._place:
            raise BonafideError(f"There is no example {example!r} in {self.folder}.")
        shard, group, row = self._place[example]
        return next(self._decoded(self._read_group(shard, group).slice(row, 1)))[1]

    @cached_property
    def sizes(self) -> npt.NDArray[np.float64]:
        """The true size of every set, in the order of the examples."""
        sizes = [int(size) for _, column in self._columns(["size"]) for size in column["size"].to_pylist()]
        return np.array(sizes, dtype=np.float64)

    @cached_property
    def ids(self) -> list[str]:
        """The id of every example, in order."""
        return [name for _, column in self._columns(["example"]) for name in column["example"].to_pylist()]

    @cached_property
    def _place(self) -> dict[str, tuple[int, int, int]]:
        return {
            name: (shard, group, row)
            for (shard, group), column in self._columns(["example"])
            for row, name in enumerate(column["example"].to_pylist())
        }

    def _columns(self, names: list[str]) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        for shard in range(len(self.manifest["shards"])):
            for group in range(self._file(shard).num_row_groups):
                yield (shard, group), self._read_group(shard, group, names)

    def _file(self, shard: int) -> pq.ParquetFile:
        if shard not in self._files:
            listed = self.manifest["shards"][shard]
            path = self.folder / listed["file"]
            if shard not in self._sound and not _is_sound(self.folder, listed):
                raise BonafideError(
                    f"{path} is {'damaged' if path.exists() else 'missing'}: expected the SHA-256 that {MANIFEST} "
                    "gives. Run the same search command again: it searches this shard anew and keeps the others."
                )
            self._sound.add(shard)
            with _as_solutions(path):
                self._files = {shard: pq.ParquetFile(path)}  # one open file at a time
        return self._files[shard]

    def _read_group(self, shard: int, group: int, names: list[str] | None = None) -> pa.Table:
        file = self._file(shard)
        with _as_solutions(self._path(shard)):
            return file.read_row_group(group, columns=names)

    def _decoded(self, table: pa.Table) -> Iterator[tuple[str, S]]:
        own = {field.name for field in _OWN_FIELDS}
        columns = {name: table.column(name) for name in table.column_names}
        path = self._path(next(iter(self._files), 0))
        for row in range(len(table)):
            with _as_solutions(path):
                payload = {name: column[row] for name, column in columns.items() if name not in own}
                size: Decimal = columns["size"][row].as_py()
                name = columns["example"][row].as_py()
                solutions = self.codec.decode(payload, int(size), columns["complete"][row].as_py())
            yield name, solutions

    def _path(self, shard: int) -> Path:
        return self.folder / str(self.manifest["shards"][shard]["file"])


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished store of this format."""
    if not (folder / MANIFEST).exists():
        if not folder.is_dir():
            raise BonafideError(f"Cannot read {folder}: there is no such folder. Check the path.")
        raise BonafideError(
            f"{folder} is not a finished solution store: it has no {MANIFEST}. If a search was interrupted here, "
            "run the same search command again to finish it."
        )
    manifest = read_sealed(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise BonafideError(
            f"{folder} was written by {manifest.get('tool', 'an unknown tool')} in store format "
            f"{manifest.get('format')!r}; this is bonafide {__version__}, which reads format {FORMAT}. "
            "Search again with this version, into another folder."
        )
    if missing := {"tool", "task", "options", "inputs", "shard_examples", "counts", "shards"} - set(manifest):
        raise BonafideError(f"{folder / MANIFEST} is damaged: it lacks {', '.join(sorted(missing))}. Search again.")
    if not _is_whole(manifest):
        raise BonafideError(
            f"{folder / MANIFEST} is damaged: its counts or its list of shards are wrong. Search again."
        )
    return manifest


def examples_hash(folder: Path) -> str | None:
    """SHA-256 of the examples that a store holds the solutions of; None where there is no such store."""
    try:
        return str(read_manifest(folder)["inputs"]["examples"][0]["sha256"])
    except (BonafideError, KeyError, IndexError, TypeError):
        return None


def _is_whole(manifest: dict[str, Any]) -> bool:
    counts, shards = manifest["counts"], manifest["shards"]
    if not all(isinstance(manifest[key], dict) for key in ("options", "inputs", "counts")):
        return False
    if not all(type(counts.get(key)) is int and 0 <= counts[key] < 2**63 for key in ShardCounts.__slots__):
        return False
    if not isinstance(shards, list) or not all(isinstance(each, dict) for each in shards):
        return False
    named = all(each.get("file") == shard_name(place) for place, each in enumerate(shards))
    typed = all(isinstance(each.get("sha256"), str) and type(each.get("examples")) is int for each in shards)
    return named and typed and sum(each["examples"] for each in shards) == counts["examples"]


@contextmanager
def _as_solutions(path: Path) -> Iterator[None]:
    """A shard that has its hash and cannot be read was never written by a search."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise BonafideError(
            f"{path} does not hold solutions ({reason}), though {MANIFEST} vouches for it. Search again, into another "
            "folder."
        ) from None


def _is_sound(folder: Path, listed: dict[str, Any]) -> bool:
    path = folder / listed["file"]
    return path.exists() and content_hash(path) == str(listed["sha256"])


def _group(held: list[tuple[str, S]], codec: Codec[S], schema: pa.Schema) -> pa.Table:
    sets = [solutions for _, solutions in held]
    arrays = [
        pa.array([name for name, _ in held], pa.string()),
        pa.array([Decimal(solutions.size) for solutions in sets], pa.decimal128(38, 0)),
        pa.array([solutions.complete for solutions in sets], pa.bool_()),
        *codec.encode(sets),
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
