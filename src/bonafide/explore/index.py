"""Where everything about an example lies, so that a page reads only what it shows.

One SQLite file in the run's folder: for each example its question, the place of its line, the place of its solution set
in the store, the size of the set, and what solver and reconstructor choose from it; for each context the place of its
line. It is built when it is missing or when a file it was built from has changed, under another name, and then renamed;
no page ever reads a whole store.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bonafide.errors import BonafideError
from bonafide.explore.chosen import Kept, last_choices
from bonafide.files import explained, open_seekable, parse_json
from bonafide.solutions import Codec, SolutionSet, SolutionStore

FORMAT = 3
LARGEST = 2**62
"""Larger sets are sorted as if they had this size."""
NO_TURN = 2**56
"""Every example has its turn before this one."""

_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE examples (
    place INTEGER PRIMARY KEY, turn INTEGER NOT NULL, id TEXT NOT NULL, question TEXT NOT NULL, start INTEGER NOT NULL,
    length INTEGER NOT NULL, shard INTEGER NOT NULL, part INTEGER NOT NULL, line INTEGER NOT NULL,
    size INTEGER NOT NULL, stored INTEGER NOT NULL, trained INTEGER, solver INTEGER, reconstructor INTEGER,
    explained REAL, wrong INTEGER, gold TEXT, scored INTEGER NOT NULL DEFAULT 0);
CREATE TABLE contexts (name TEXT PRIMARY KEY, start INTEGER NOT NULL, length INTEGER NOT NULL) WITHOUT ROWID;
"""
_KEYS = """
CREATE UNIQUE INDEX by_id ON examples (id);
CREATE INDEX by_size ON examples (size);
CREATE INDEX by_choice ON examples (place) WHERE solver <> reconstructor;
CREATE INDEX differing ON examples (turn) WHERE solver <> reconstructor;
CREATE INDEX unscored ON examples (turn) WHERE scored = 0;
CREATE INDEX by_explained ON examples (explained) WHERE explained IS NOT NULL;
CREATE INDEX by_wrong ON examples (place) WHERE wrong = 1;
"""

Progress = Callable[[int, int], None]
S = TypeVar("S", bound=SolutionSet)


@dataclass(frozen=True, slots=True)
class Sources:
    """The files that an index is built from; ``contexts`` is None where contexts are found without an index."""

    store: Path
    examples: Path
    contexts: Path | None
    selections: Path | None
    gold: Path | None
    kept: Kept | None  # of the run whose selections these are
    model: Path | None  # what the scores in the index are of: a run that goes on writes another

    def key(self) -> str:
        """Changes when a file, or what is made of it, changes."""
        written = self.kept.path if self.kept is not None else None
        read = (self.store / "manifest.json", self.examples, self.contexts, self.selections, written, self.gold)
        files = (*read, self.model)
        states = [(str(path.resolve()), *_state(path)) if path is not None else None for path in files]
        rule = asdict(self.kept) if self.kept is not None else None
        return hashlib.sha256(json.dumps([FORMAT, states, rule], default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """What the index knows of an example."""

    place: int
    id: str
    question: str
    start: int
    length: int
    shard: int
    part: int
    line: int
    size: int
    stored: int
    trained: int | None
    solver: int | None
    reconstructor: int | None
    explained: float | None
    wrong: int | None
    gold: str | None
    scored: int


_COLUMNS = ", ".join(Row.__slots__)


class Index:
    """An index that was built; many threads may ask it."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")  # it can be built again
        self.count = int(self.value("SELECT count(*) FROM examples") or 0)

    def rows(self, where: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Examples by what follows FROM; values are bound."""
        return [Row(*row) for row in self.query(f"SELECT {_COLUMNS} FROM examples {where}", parameters)]

    def row(self, place: int) -> Row:
        """The example at this place."""
        found = self.rows("WHERE place = ?", [place])
        if not found:
            raise BonafideError(f"There is no example {place}: expected a number from 0 to {self.count - 1}.")
        return found[0]

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        with self._lock:
            return self._connection.execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """The first value of a statement; None where it gives no row."""
        rows = self.query(sql, parameters)
        return rows[0][0] if rows else None

    def change(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement that changes something."""
        with self._lock, self._connection:
            self._connection.execute(sql, parameters)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


class PlacedStore(SolutionStore[S], Generic[S]):
    """A solution store whose sets are found by their place, which the index knows.

    ``each`` is a column that has one entry a solution.
    """

    def __init__(self, folder: Path, codec: Codec[S], each: str) -> None:
        super().__init__(folder, codec)
        self._each = each
        self._reading = threading.Lock()

    def at(self, shard: int, part: int, line: int) -> S:
        """The set of a line of a row group."""
        with self._reading:
            return next(self._decoded(self._read_group(shard, part).slice(line, 1)))[1]

    def _file(self, shard: int) -> pq.ParquetFile:
        if shard not in self._files:
            super()._file(shard)
            path = self.folder / self.manifest["shards"][shard]["file"]
            self._files = {shard: pq.ParquetFile(path, memory_map=True)}  # reads without a copy of its own
        return self._files[shard]

    def _read_group(self, shard: int, group: int, names: list[str] | None = None) -> pa.Table:
        return self._file(shard).read_row_group(group, columns=names, use_threads=False)  # threads keep memory each

    def placed(self) -> Iterator[tuple[str, int, int, int, int, int]]:
        """(id, size, how many are stored, shard, row group, line) of every example, in order."""
        for (shard, part), columns in self._columns(["example", "size", self._each]):
            names, sizes = columns["example"].to_pylist(), columns["size"].to_pylist()
            counts = pc.list_value_length(columns[self._each]).to_pylist()
            for line, (name, size, stored) in enumerate(zip(names, sizes, counts, strict=True)):
                yield name, int(size), stored, shard, part, line


def open_index(sources: Sources, folder: Path, store: PlacedStore[Any], progress: Progress | None = None) -> Index:
    """The index of these files in ``folder``, built first if it is missing or out of date."""
    key, path = sources.key(), folder / "index.sqlite"
    if _kept_key(path) == key:
        return Index(path)
    part = folder / ".index.sqlite.part"
    with explained(folder, "write"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (part, *(folder / f"index.sqlite{end}" for end in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(part, isolation_level=None)) as connection:
                connection.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;" + _SCHEMA)
                connection.execute("BEGIN")
                _fill(connection, sources, store, progress)
                connection.execute("INSERT INTO about VALUES ('key', ?)", [key])
                connection.execute("COMMIT")
                connection.executescript(_KEYS)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    return Index(path)


def _kept_key(path: Path) -> str | None:
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("SELECT value FROM about WHERE key = 'key'").fetchone()
    except sqlite3.Error:
        return None  # damaged: it is built again
    return str(found[0]) if found else None


def _state(path: Path) -> tuple[int, int]:
    with explained(path, "read"):
        found = path.stat()
    return found.st_size, found.st_mtime_ns


def _fill(connection: sqlite3.Connection, sources: Sources, store: PlacedStore[Any], progress: Progress | None) -> None:
    gold = dict(_gold_lines(sources.gold)) if sources.gold is not None else {}
    placed = store.placed()
    total = len(store)

    def rows() -> Iterator[tuple[Any, ...]]:
        some = "subset" in store.manifest["options"]  # of the examples in the file, in their order
        place, held = 0, next(placed, None)
        for start, length, data in _lines(sources.examples, store):
            name, size, stored, shard, part, line = held or ("", 0, 0, 0, 0, 0)
            if data.get("id") != name and some:
                continue
            if data.get("id") != name:
                raise BonafideError(
                    f"{sources.examples} does not belong to the solution store {store.folder}: example {place + 1} is "
                    f"{data.get('id')!r} there and {name!r} in the store. Name the right file with --examples."
                )
            if progress is not None and place % 1000 == 0:
                progress(place, total)
            question = str(data.get("question", ""))
            where = start, length, shard, part, line
            yield place, _turn(name), name, question, *where, min(size, LARGEST), stored, gold.get(name)
            place, held = place + 1, next(placed, None)
        if progress is not None:
            progress(total, total)

    connection.executemany(
        "INSERT INTO examples (place, turn, id, question, start, length, shard, part, line, size, stored, gold) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows(),
    )
    if gold and not connection.execute("SELECT 1 FROM examples WHERE gold IS NOT NULL LIMIT 1").fetchone():
        raise BonafideError(f"{sources.gold} has gold for none of the examples: it belongs to others.")
    if sources.contexts is not None:
        lines = ((str(data.get("id")), start, length) for start, length, data in _objects(sources.contexts))
        connection.executemany("INSERT OR REPLACE INTO contexts VALUES (?, ?, ?)", lines)
    if sources.selections is not None and sources.kept is not None:
        _fill_selections(connection, sources.selections, sources.kept)


def _turn(name: str) -> int:
    """Where an example comes in an order that hangs on nothing but its id: the first of them are a random sample."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest())


def _lines(path: Path, store: PlacedStore[Any]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The objects of the examples file, which must be the one that was searched."""
    digest = hashlib.sha256()
    yield from _objects(path, digest)
    if digest.hexdigest() != store.manifest["inputs"]["examples"][0]["sha256"]:
        raise BonafideError(f"{path} is not the file that {store.folder} was searched over: its content differs.")


def _objects(path: Path, digest: Any = None) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(start, length, object) of each line that is not blank."""
    position = 0
    with open_seekable(path) as stream:
        for number, raw in enumerate(stream, start=1):
            start, position = position, position + len(raw)
            if digest is not None:
                digest.update(raw)
            text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            if not text.strip():
                continue
            try:
                data = parse_json(text)
            except ValueError as error:
                raise BonafideError(f"{path}, line {number}: expected one JSON object, found {error}.") from None
            if not isinstance(data, dict):
                raise BonafideError(f"{path}, line {number}: expected one JSON object, found {type(data).__name__}.")
            yield start, len(raw), data


def _gold_lines(path: Path) -> Iterator[tuple[str, str]]:
    for _, _, data in _objects(path):
        if not isinstance(data.get("id"), str) or not isinstance(data.get("solution"), dict):
            raise BonafideError(f"{path}: expected lines with an id and a solution, found {str(data)[:80]}.")
        yield data["id"], json.dumps(data["solution"])


def _fill_selections(connection: sqlite3.Connection, path: Path, kept: Kept) -> None:
    """What was last chosen while the run trained, for the examples that it trained on."""
    sets = connection.execute("SELECT id, size, stored FROM examples ORDER BY place").fetchall()
    for place, trained, solver, reconstructor in last_choices(path, sets, kept):
        connection.execute(
            "UPDATE examples SET trained = ?, solver = ?, reconstructor = ? WHERE place = ?",
            [trained, solver, reconstructor, place],
        )
