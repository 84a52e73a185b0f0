"""Reading plain, .gz and .xz text, and writing files that are either whole or not there.

Everything that bonafide leaves on disk goes through :func:`write_whole`: the bytes go to a temporary
name in the same folder, are flushed to the disk, and the name is changed only then.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import json
import lzma
import os
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from bonafide.errors import BonafideError, InvalidFileError, Problem, shortened


def _usual_mode() -> int:
    """Of the files of :func:`write_whole`. Asked for once: to read the umask is to set it, for all threads."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


_MODE = _usual_mode()


@contextmanager
def explained(path: Path | str, doing: str) -> Iterator[None]:
    """Turn what the operating system says about ``path`` into a :class:`BonafideError`."""
    try:
        yield
    except FileNotFoundError:
        raise BonafideError(f"Cannot {doing} {path}: there is no such file or folder. Check the path.") from None
    except PermissionError:
        raise BonafideError(
            f"Cannot {doing} {path}: permission denied. Change its permissions or name another place."
        ) from None
    except IsADirectoryError:
        raise BonafideError(f"Cannot {doing} {path}: it is a folder, and a file was expected.") from None
    except (NotADirectoryError, FileExistsError):
        raise BonafideError(f"Cannot {doing} {path}: part of this path is a file, not a folder.") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise BonafideError(
            f"Cannot {doing} {path}: the compressed data is broken or cut short ({error}). Copy the file again."
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise BonafideError(
                f"Cannot {doing} {path}: the disk is full. Free some space or name another place, and run again."
            ) from None
        raise BonafideError(f"Cannot {doing} {path}: {error.strerror or error}.") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open ``path`` for reading, decompressed if its name ends in .gz or .xz."""
    with explained(path, "read"):
        if path.suffix == ".gz":
            stream = cast(BinaryIO, gzip.open(path, "rb"))  # noqa: SIM115 (closed below)
        elif path.suffix == ".xz":
            stream = cast(BinaryIO, lzma.open(path, "rb"))  # noqa: SIM115
        else:
            stream = path.open("rb")
        with stream:
            yield stream


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, perhaps compressed, with a newline at the end of each line, whoever wrote it."""
    with open_bytes(path) as stream:
        raw = stream.read()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BonafideError(
            f"Cannot read {path}: expected UTF-8, found the byte {raw[error.start]:#04x} at {error.start + 1:,}. "
            "Save it as UTF-8."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def open_seekable(path: Path) -> BinaryIO:
    """Open ``path`` to jump about in; a compressed one is unpacked once, where the operating system removes it."""
    if path.suffix not in (".gz", ".xz"):
        with open_bytes(path):  # its errors, explained
            return path.open("rb")
    unpacked = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 (the caller closes it)
    with open_bytes(path) as stream:
        while block := stream.read(1 << 20):
            unpacked.write(block)
    unpacked.seek(0)
    return unpacked


class LineFile:
    """A JSONL file whose lines are found by id without holding all in memory.

    Opening it reads every line, remembers where it begins, and raises all problems together; a compressed file is
    unpacked once into a temporary file that the operating system removes. ``read`` gives the id of a line (None where
    it has none) and its problems. ``holds`` is what a file may not be without.
    """

    def __init__(
        self, path: Path, read: Callable[[int, bytes], tuple[str | None, list[Problem]]], holds: str | None = None
    ) -> None:
        self.path = path
        self._lines: dict[str, tuple[int, int]] = {}
        problems: list[Problem] = []
        position = 0
        with open_seekable(path) as stream:
            for line, raw in enumerate(stream, start=1):
                start, position = position, position + len(raw)
                if not raw.strip():
                    continue
                name, found = read(line, raw)
                problems += found
                if name is None:
                    continue
                if name in self._lines:
                    problems.append(Problem(line, name, "id", "an id used once", "an id used twice"))
                self._lines[name] = (start, len(raw))
            self._handle = os.dup(stream.fileno())
        weakref.finalize(self, os.close, self._handle)
        if problems:
            raise InvalidFileError(str(path), problems)
        if holds is not None and not self._lines:
            raise BonafideError(f"{path} holds no {holds}: expected one JSON object a line, found an empty file.")

    def __contains__(self, name: object) -> bool:
        return name in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def raw(self, name: str) -> bytes:
        """The line of this id, for a worker to read."""
        start, length = self._lines[name]
        return os.pread(self._handle, length, start)


def bare_name(path: Path) -> str:
    """The file's name without its folder, its compression and its type: ``train`` for ``a/train.jsonl.xz``."""
    name = path.name
    for suffix in (".gz", ".xz"):
        name = name.removesuffix(suffix)
    return Path(name).stem


def beside(path: Path, ending: str) -> Path:
    """The file that goes with a file of lines: ``a.sums`` with ``a.jsonl``, ``a.json.sums`` with ``a.json``.

    Files that stand side by side have others each: a name without a type gets a dot more (``a..sums``).
    """
    if path.suffix == ".jsonl":
        return path.with_suffix(ending)
    return path.with_name(path.name + ("" if path.suffix else ".") + ending)


def content_hash(path: Path) -> str:
    """SHA-256 of what the file holds: the same for a file and its compressed copy."""
    digest = hashlib.sha256()
    with open_bytes(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def described(paths: Sequence[Path], store: Path) -> list[dict[str, str]]:
    """What a manifest says of input files: path, relative to the store, and content hash of each."""
    real = store.resolve()  # '..' after a symbolic link leads elsewhere
    return [
        {"path": os.path.relpath(path.parent.resolve() / path.name, real), "sha256": content_hash(path)}
        for path in paths
    ]


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and its parents; on any failure, those that are new and empty are removed again."""
    missing: list[Path] = []
    try:
        with explained(folder, "write"):
            missing = [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for each in missing:
            with suppress(OSError):
                each.rmdir()
        raise


@contextmanager
def held_alone(folder: Path, refusal: str) -> Iterator[None]:
    """Hold a folder until this ends, or this process does; who finds it held is refused in these words."""
    with explained(folder, "write"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BonafideError(refusal) from None
        yield
    finally:
        os.close(handle)


@contextmanager
def write_whole(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears under its name only when it is complete; on any failure nothing is left."""
    with made_folder(path.parent), explained(path, "write"):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(_MODE)
            Path(temporary).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(temporary).unlink()
            raise


def decoded(data: bytes) -> tuple[str, str]:
    """A text whose encoding nobody says, and the one that it is read by."""
    for encoding in ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding), encoding
    return data.decode("latin-1"), "latin-1"


def spare_inputs(out: Path, *inputs: Path) -> None:
    """Refuse to write a data set where one of its files is one that it is made from."""
    for name in ("examples", "tables", "documents", "candidates", "gold"):
        target = out / f"{name}.jsonl"
        if target.exists() and any(each.exists() and target.samefile(each) for each in inputs):
            raise BonafideError(f"{target} is read, and would be overwritten: name another folder with --out.")


def check_writable(path: Path) -> None:
    """Refuse now what could not be written after long work, or not be read again."""
    if path.suffix in (".gz", ".xz"):
        raise BonafideError(f"Cannot write {path}: files are written uncompressed. Name it {path.with_suffix('')}.")
    with explained(path, "write"):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.parent.is_dir():
            with tempfile.TemporaryFile(dir=path.parent):
                pass


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write one JSON object, indented, whole or not at all."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=2).encode()
    except UnicodeEncodeError as error:  # of a path: what this program reads and writes itself is UTF-8
        raise BonafideError(
            f"Cannot write {path}: a name in it is not UTF-8: {shortened(error.object[max(0, error.start - 20) :])}. "
            "Rename that file."
        ) from None
    with write_whole(path) as stream:
        stream.write(text + b"\n")


def parse_json(raw: bytes) -> Any:
    """The value of one JSON text in UTF-8; a ValueError says what is wrong, without the number of the line."""
    try:
        value = json.loads(raw.decode())
        if b"\\ud" in raw or b"\\uD" in raw:  # an escape can write half a character, which no file can hold
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1:,}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte {error.start + 1:,} is {raw[error.start]:#04x}") from None
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character: {error.object[error.start]!a}") from None
    except ValueError:  # Python's bound on the digits of an integer
        raise ValueError("a number of too many digits") from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    return value


def read_json(path: Path, remedy: str = "It may be damaged.") -> dict[str, Any]:
    """Read one JSON object; ``remedy``: what to say where it is none."""
    with open_bytes(path) as stream:
        data = stream.read()
    try:
        value = parse_json(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise BonafideError(f"Cannot read {path}: expected JSON, found {error}. {remedy}") from None
    if not isinstance(value, dict):
        raise BonafideError(f"Cannot read {path}: expected a JSON object, found {type(value).__name__}.")
    return value
