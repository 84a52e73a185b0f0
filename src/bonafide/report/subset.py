"""A part of a solution store: the examples with the largest sets, the paper's hard train set.

The part is a store like any other: it names the examples and contexts of the whole, so that it trains with
``--set data.solutions=hard`` where the whole did. Its bytes depend on the whole and on the share alone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.files import explained, made_folder
from bonafide.learn.learnable import learnable
from bonafide.solutions import FORMAT, MANIFEST, SolutionStore, read_manifest, shard_name, write_manifest, write_shard


def write_subset(store: Path, out: Path, largest: float) -> dict[str, Any]:
    """Write the ``largest`` share of a store's examples, by the size of their sets, to ``out``; returns the manifest.

    The order stays that of the whole; of equal sizes the earlier examples are taken, as ``data.largest`` does.
    """
    if not 0 < largest <= 1:
        raise BonafideError(f"--largest is a share of the examples: expected more than 0, at most 1; found {largest}.")
    whole = learnable(read_manifest(store)["task"]).open_store(store)
    with explained(out, "write"):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise _there(out)
    kept = _largest(whole, largest)
    chosen = {"largest": largest, "examples": len(whole), "of": content_of(whole)}
    return write_part(whole, out, {"subset": chosen}, _sets(whole, kept), len(kept))


def content_of(store: SolutionStore[Any]) -> str:
    """A hash that tells a store's sets from others."""
    return hashlib.sha256(json.dumps([each["sha256"] for each in store.manifest["shards"]]).encode()).hexdigest()


def write_part(
    whole: SolutionStore[Any], out: Path, chosen: dict[str, Any], sets: Iterator[tuple[str, Any]], count: int
) -> dict[str, Any]:
    """Write ``count`` sets that were made of a store's; ``chosen`` is put among its options and says which they are."""
    source = whole.manifest
    about = {
        "format": FORMAT,
        "task": source["task"],
        "options": {**source["options"], **chosen},
        "inputs": _moved(source["inputs"], whole.folder, out),
        "shard_examples": source["shard_examples"],
    }
    identity = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()
    place = out.resolve()
    with made_folder(place.parent), explained(out, "write"):
        held = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent))
        try:
            part = held / "store"  # with the usual permissions, which a temporary folder has not
            part.mkdir()
            most = source["shard_examples"]
            counts = [
                write_shard(part / shard_name(number), islice(sets, most), whole.codec, identity)
                for number in range(-(-count // most))
            ]
            write_manifest(part, about, counts)
            _put(part, place)
        finally:
            shutil.rmtree(held, ignore_errors=True)
    return read_manifest(out)


def _put(part: Path, place: Path) -> None:
    """Move a finished store to its place, whole; into the folder that the user stands in, the manifest last."""
    if place == Path.cwd():  # a folder put in its stead would be another one
        for path in sorted(part.iterdir(), key=lambda each: each.name == MANIFEST):
            path.replace(place / path.name)
        return
    try:
        part.replace(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise _there(place) from None
        raise


def _there(out: Path) -> BonafideError:
    return BonafideError(f"{out} is already there. Name another folder, or delete it first.")


def _largest(store: SolutionStore[Any], share: float) -> set[str]:
    sizes = dict(zip(store.ids, store.sizes.tolist(), strict=True))
    order = sorted(sizes, key=lambda name: -sizes[name])
    kept = order[: round(share * len(order))]
    if not kept:
        raise BonafideError(f"--largest {share} of {len(order):,} examples is none of them. Give a larger share.")
    return set(kept)


def _sets(store: SolutionStore[Any], kept: set[str]) -> Iterator[tuple[str, Any]]:
    return ((name, solutions) for name, solutions in store if name in kept)


def _moved(inputs: dict[str, Any], store: Path, out: Path) -> dict[str, Any]:
    """The inputs of a manifest as seen from another folder."""

    def seen(each: dict[str, str]) -> dict[str, str]:
        path = store.resolve() / each["path"]
        return {**each, "path": os.path.relpath(path.parent.resolve() / path.name, out.resolve())}

    return {key: list(map(seen, value)) if isinstance(value, list) else value for key, value in inputs.items()}
