"""Inputs and stores at a URL, through fsspec: ``--examples s3://…``, ``--out s3://…``.

An input at a URL is copied to a temporary folder, block by block, and read there. A store at a URL is searched into
such a folder; each shard is copied to the URL when it is finished, the manifest when all are there, so that a reader
never sees a store that lacks a shard. What an earlier run left at the URL is fetched first and checked as if it lay
here. Nothing at a URL can be locked: two runs of one search write the same bytes, another search is refused.

The temporary folder holds the inputs and the whole store while the command runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bonafide.errors import BonafideError, InvalidFileError
from bonafide.files import explained
from bonafide.solutions import MANIFEST, read_manifest

_COMPRESSED = ("", ".gz", ".xz")
_AT_ONCE = 4
"""Shards that are on their way to a URL."""


class Places:
    """Where a command reads and writes: paths as they are, URLs as copies that last as long as this is open."""

    def __init__(self) -> None:
        self.store: RemoteStore | None = None
        self._stack = ExitStack()
        self._origins: dict[Path, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        if isinstance(error, InvalidFileError) and (path := self._in_users_words(error.path)) != error.path:
            raise InvalidFileError(path, error.problems) from None
        if type(error) is BonafideError and (said := self._in_users_words(str(error))) != str(error):
            raise BonafideError(said) from None

    def file(self, given: str, beside: str | None = None) -> Path:
        """A file to read; with it, where one is there, the file of this name beside it, plain or compressed."""
        if not is_url(given):
            return _path(given)
        folder = self._folder / str(len(self._origins))
        folder.mkdir()
        copy = folder / given.rpartition("/")[2]
        self._origins[copy] = given
        fetch(given, copy)
        for suffix in _COMPRESSED if beside is not None else ():
            other = f"{given.rpartition('/')[0]}/{beside}{suffix}"
            system, path = _opened(other)
            with _told(other, "read"):
                found = system.exists(path)
            if found:
                self._origins[folder / f"{beside}{suffix}"] = other
                fetch(other, folder / f"{beside}{suffix}")
                break
        return copy

    def maybe(self, given: str | None) -> Path | None:
        """A file that may be left out."""
        return None if given is None else self.file(given)

    def files(self, given: Sequence[str] | None) -> list[Path]:
        """Several files."""
        return [self.file(each) for each in given or ()]

    def out(self, given: str) -> Path:
        """Where a search writes; what it writes for a URL is copied there."""
        if not is_url(given):
            return _path(given)
        folder = self._folder / "store"
        self._origins[folder] = given
        self.store = self._stack.enter_context(RemoteStore(given, folder))
        return folder

    def finished(self, given: str) -> Path:
        """A store to read."""
        if not is_url(given):
            return _path(given)
        folder = self._folder / "finished"
        self._origins[folder] = given
        with RemoteStore(given, folder) as store:
            if MANIFEST not in store.names:
                raise BonafideError(
                    f"{given} is not a finished solution store: it has no {MANIFEST}. If a search was interrupted "
                    "here, run the same search command again to finish it."
                )
            store.pull([MANIFEST])
            wanted = [each["file"] for each in read_manifest(folder)["shards"]]
            store.pull([*(name for name in wanted if name in store.names), *store.names & {"timings.jsonl"}])
        return folder

    def described(self, description: dict[str, Any], out: Path) -> dict[str, Any]:
        """What a manifest says of the inputs: those at a URL by it, and for a store at a URL the others in full."""
        named = {os.path.relpath(copy.resolve(), out.resolve()): url for copy, url in self._origins.items()}

        def name(path: str) -> str:
            return named.get(path) or (str((out.resolve() / path).resolve()) if self.store is not None else path)

        return {
            key: [{**each, "path": name(each["path"])} for each in value] if isinstance(value, list) else value
            for key, value in description.items()
        }

    @cached_property
    def _folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bonafide-places-")))

    def _in_users_words(self, text: str) -> str:
        for copy, url in self._origins.items():
            text = text.replace(str(copy), url)
        return text


class RemoteStore:
    """A store at a URL, and the folder here that it is a copy of."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url.rstrip("/")
        self._folder = folder
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._pushed: list[Future[None]] = []
        self._system, self._path = _opened(self.url)
        self._system.invalidate_cache()
        with _told(self.url, "read"):
            try:
                found = self._system.ls(self._path, detail=False)
            except FileNotFoundError:
                found = []
        self.names = {str(each).rstrip("/").rpartition("/")[2] for each in found if str(each) != self._path}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def pull(self, names: Sequence[str]) -> None:
        """Fetch these files."""
        self._folder.mkdir(parents=True, exist_ok=True)

        def fetched(name: str) -> None:
            fetch(f"{self.url}/{name}", self._folder / name)

        list(self._pool.map(fetched, names))

    def push(self, name: str) -> None:
        """Send a finished file, without waiting for it unless several are on their way."""
        while len(self._pushed) >= _AT_ONCE:
            self._pushed.pop(0).result()
        self._pushed.append(self._pool.submit(self._send, name))

    def settle(self) -> None:
        """Wait until everything is there."""
        while self._pushed:
            self._pushed.pop(0).result()

    def drop(self, name: str) -> None:
        """Remove a file, once everything else is there."""
        self.settle()
        if name in self.names:
            with _told(f"{self.url}/{name}", "write"):
                self._system.rm_file(f"{self._path}/{name}")
            self.names.discard(name)

    def _send(self, name: str) -> None:
        with _told(f"{self.url}/{name}", "write"):
            self._system.put_file(str(self._folder / name), f"{self._path}/{name}")
        self.names.add(name)


def is_url(given: str) -> bool:
    """Whether this is read through fsspec; ``file://`` names a path."""
    return "://" in given and not given.startswith("file://")


def fetch(url: str, copy: Path) -> None:
    """Copy a file at a URL to this machine, whole or not at all."""
    system, path = _opened(url)
    with _told(url, "read"):
        size = system.info(path).get("size")
        part = copy.with_name(f".{copy.name}.part")
        system.get_file(path, str(part))
        if size is not None and part.stat().st_size != size:
            raise BonafideError(
                f"Cannot read {url}: expected {size:,} bytes, found {part.stat().st_size:,}. It was cut short, or it "
                "is being written. Try again."
            )
        part.replace(copy)


def _path(given: str) -> Path:
    return Path(given.removeprefix("file://"))


def _opened(url: str) -> tuple[Any, str]:
    """The filesystem of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError as error:
        raise BonafideError(f"Cannot open {url}: its kind of storage needs another package. {error}.") from None
    except ValueError as error:
        raise BonafideError(f"Cannot open {url}: {error}. Expected a URL such as s3://bucket/name.") from None


@contextmanager
def _told(url: str, doing: str) -> Iterator[None]:
    """Each kind of storage has errors of its own: here they become ours."""
    try:
        with explained(url, doing):
            yield
    except BonafideError:
        raise
    except Exception as error:
        raise BonafideError(f"Cannot {doing} {url}: {type(error).__name__}: {error}") from None
