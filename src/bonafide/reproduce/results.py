"""The result of one run: a small file that says all a table needs, whatever machine it was made on.

    rows/wikisql-hard-mimax-3fa9c1d2-0.json     the recipe, what tells its settings apart, the seed

It holds the settings, the figures, where and how fast they were made, and, example by example, what was right: bits in
base64, with hashes of the examples, their contexts and gold. So methods can be compared in pairs later, without
predictions. Where a machine keeps its files is no part of a result, nor of the settings that tell results apart.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.sealed import read_sealed, write_sealed

FORMAT = 1
Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
EDGES = (0, 1, 2, 10, 100, 1000)
"""Where the buckets of solution set sizes begin."""
BESIDE = {"headers": "official dev", "plain": "plain"}
"""Questions beside the dev split that a run is judged on too, where there are any."""
_LOCAL = {"data": ("root", "solutions", "workers"), "train": ("seed", "checkpoint_every", "log_every")}
_AGAIN = "delete it and run its row again"
_SHAPE: dict[str, Any] = {
    "settings": dict, "seed": int, "data": {"train": str, "dev": str}, "examples": int, "ids": str, "figures": dict,
    "flags": {"answer": str}, "values": dict, "sizes": str, "curve": list, "trained_on": {"used": int},
    "seconds": {"training": float | int, "resumed": bool, "side_by_side": int},
    "environment": {"gpu": str | None, "cpus": int | None, "bonafide": str, "git": str | None, "torch": str},
}  # fmt: skip
_RIGHT_BESIDE = {"headers": "solution", "plain": "answer"}
_POINT = {"epoch": float | int, "solver": {"share": float | int}, "confidence": float | int}
_DESCRIBED = {"description": float | int, "execution": float | int}
_TYPES = {"names": list, "of": str}


def comparable(recipe: Recipe, curve: bool) -> dict[str, Any]:
    """The settings that tell results apart: without seed and places, models by their last name."""
    return {**without_places(recipe.to_json()), "curve": curve}


def without_places(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a recipe as it is written."""
    settings: dict[str, Any] = json.loads(json.dumps(recipe))
    for section, keys in _LOCAL.items():
        for key in keys:
            settings[section].pop(key, None)
    for section, key in (("reconstructor", "path"), ("solver", "encoder")):
        settings[section][key] = settings[section][key].rstrip("/").rpartition("/")[2]
    return settings


def result_name(recipe_name: str, settings: Mapping[str, Any], seed: int) -> str:
    """The file of a result: settings that are as by default have no part in its name, so that it outlives new ones."""
    usual = comparable(recipe_from({"data": {"task": settings["data"]["task"]}}, "the defaults"), False)
    digest = hashlib.sha256(json.dumps(_departures(settings, usual), sort_keys=True).encode()).hexdigest()
    return f"{Path(recipe_name).stem}-{digest[:8]}-{seed}.json"


def _departures(settings: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and isinstance(usual.get(key), dict):
            if inner := _departures(value, usual[key]):
                found[key] = inner
        elif value != usual.get(key):
            found[key] = value
    return found


@dataclass(frozen=True)
class Result:
    """What a result file says."""

    path: Path
    content: dict[str, Any]

    @property
    def seed(self) -> int:
        """Of the training."""
        return int(self.content["seed"])

    @property
    def data(self) -> dict[str, str]:
        """Hashes of the train and dev examples; of their contexts and of dev gold, where newer results have any."""
        return dict(self.content["data"])

    @property
    def judged_on(self) -> dict[str, str]:
        """What results of one table must have in common, where they say it; by what it is called."""
        called = {key: key.replace("_", " ") for key in self.data} | {"train": "train examples", "dev": "dev examples"}
        said = {called[key]: value for key, value in self.data.items()} | {"dev ids": self.content["ids"]}
        return {**said, "dev questions with gold": self.content["flags"].get("known", "")}

    @property
    def knows_gold(self) -> bool:
        """Whether it was judged with gold."""
        return "known" in self.content["flags"]

    def made_with(self, settings: Mapping[str, Any]) -> bool:
        """Whether these are its settings; of those that are new since it was made nothing is known."""
        return agree(self.content["settings"], settings)

    @cached_property
    def sizes(self) -> npt.NDArray[np.uint8]:
        """(examples,): the bucket of each example's solution set, by :data:`EDGES`."""
        return unpacked_bytes(self.content["sizes"])

    @cached_property
    def types(self) -> npt.NDArray[np.str_] | None:
        """(examples,): the type of each example's answer; older results do not say it."""
        said = self.content.get("types")
        return None if said is None else np.array(said["names"])[unpacked_bytes(said["of"])]

    def contexts(self, measure: str) -> npt.NDArray[np.uint32] | None:
        """(examples,): which of those that a measure is of have a context in common; older results do not say it."""
        beside = next((each for each in measure.split("-")[1:] if each in BESIDE), None)
        said = (self.content if beside is None else self.content.get(beside, {})).get("contexts")
        return None if said is None else unpacked_bytes(said).view(np.uint32)

    @property
    def _voted(self) -> bool:
        """Whether guiding changed anything: of what it did to F1 older results say nothing."""
        flags = self.content["flags"]
        return bool(flags.get("guided_answer") != flags["answer"])

    def flags(self, name: str) -> Flags | None:
        """(examples,): what is known under a name; None where nothing is."""
        packed = self.content["flags"].get(name)
        return None if packed is None else unpacked(packed, self.content["examples"])

    def measured(self, measure: str) -> tuple[Values, Flags] | None:
        """(examples,): a measure, and of which examples it is; None where the run does not have it."""
        kind, *parts = measure.split("-")
        every = np.ones(self.content["examples"], dtype=bool)
        if kind == "f1":
            values = self.content["values"]
            guided = bool(parts) and ("guided_f1" in values or self._voted)
            packed = values.get("guided_f1" if guided else "f1")
            return None if packed is None else (unpacked_bytes(packed).view(np.float16).astype(np.float64), every)
        if parts and parts[0] in BESIDE:
            found = self.content.get(parts[0])
            if found is None:
                return None
            return unpacked(found[kind], found["examples"]).astype(np.float64), np.ones(found["examples"], bool)
        if kind == "selection":
            flags, of = self.flags("reconstructor_selects" if parts else "solver_selects"), self.flags("asked")
        else:
            flags = self.flags(f"guided_{kind}" if "guided" in parts else kind)
            of = self.flags("known") if kind == "solution" else every
        if flags is None or of is None:
            return None
        return flags.astype(np.float64), of & (self.sizes >= EDGES.index(2)) if "several" in parts else of

    def figure(self, measure: str) -> float | None:
        """The mean of a measure, as a share; None where the run does not have it."""
        found = self.measured(measure)
        return None if found is None or not found[1].any() else float(found[0][found[1]].mean())

    def write(self) -> None:
        """Write the file with its checksum, whole or not at all."""
        write_sealed(self.path, {"format": FORMAT, **self.content})


def agree(before: Any, now: Any) -> bool:
    """Whether settings are the same as far as they were known before."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return all(key in now and agree(value, now[key]) for key, value in before.items())
    return bool(before == now)


def read_result(path: Path) -> Result:
    """The result of a file; of one that has no checksum, all that a table needs is looked at."""
    content = read_sealed(path, _AGAIN)
    if content.get("format") != FORMAT:
        raise BonafideError(
            f"{path} is a result in format {content.get('format')!r}; this version reads {FORMAT}. "
            f"{_AGAIN.capitalize()}."
        )
    if (misfit := next(_misfits(content), None)) is not None:
        raise BonafideError(
            f"{path} is damaged: {misfit} is missing, or not what a result has there. {_AGAIN.capitalize()}."
        )
    result = Result(path, content)
    try:
        whole = _is_whole(result)
    except (ValueError, TypeError, IndexError, zlib.error) as error:  # also what base64 raises
        raise BonafideError(f"{path} is damaged ({error}). {_AGAIN.capitalize()}.") from error
    if not whole:
        raise BonafideError(f"{path} is damaged: it is not of all examples. {_AGAIN.capitalize()}.")
    return result


def _misfits(content: dict[str, Any]) -> Iterator[str]:
    """Places of what is used and not there, or of another type."""
    yield from _unlike(content, _SHAPE)
    for key, right in _RIGHT_BESIDE.items():
        if key in content:
            yield from _unlike(content[key], {"examples": int, "ids": str, right: str}, key)
    for place, point in enumerate(content["curve"]):
        yield from _unlike(point, _POINT, f"curve.{place}")
    if "description" in content["figures"]:
        yield from _unlike(content["figures"], _DESCRIBED, "figures")
    if "types" in content:
        yield from _unlike(content["types"], _TYPES, "types")


def _unlike(value: Any, shape: Any, name: str = "") -> Iterator[str]:
    if not isinstance(shape, dict):
        if not isinstance(value, shape):
            yield name
    elif not isinstance(value, dict):
        yield name
    else:
        for key, inner in shape.items():
            yield from _unlike(value.get(key, ...), inner, f"{name}.{key}".lstrip("."))


def _is_whole(result: Result) -> bool:
    """Whether all that is packed can be unpacked, and is of all examples."""
    content, count = result.content, result.content["examples"]
    for flags in content["flags"].values():
        unpacked(flags, count)
    for key, right in _RIGHT_BESIDE.items():
        if key in content:
            unpacked(content[key][right], content[key]["examples"])
            if (of := result.contexts(f"{right}-{key}")) is not None and len(of) != content[key]["examples"]:
                return False
    halves = [unpacked_bytes(each) for each in content["values"].values()]
    if any(each is not None and len(each) != count for each in (result.types, result.contexts("answer"))):
        return False
    return len(result.sizes) == count and all(len(each) == 2 * count for each in halves)


def hash_of(ids: Iterable[str]) -> str:
    """Of the examples' ids, in order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()


def packed(flags: Sequence[bool] | Flags) -> str:
    """Flags as bits in base64."""
    return base64.b64encode(np.packbits(np.asarray(flags, dtype=bool)).tobytes()).decode()


def unpacked(text: str, count: int) -> Flags:
    """Back again."""
    bits = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    if len(bits) != -(-count // 8):
        raise ValueError(f"expected {count} flags, found {8 * len(bits)} or fewer")
    return np.unpackbits(bits, count=count).astype(bool)


def packed_bytes(values: npt.NDArray[Any]) -> str:
    """Small numbers, compressed, in base64."""
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()


def unpacked_bytes(text: str) -> npt.NDArray[np.uint8]:
    """Back again, as bytes."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), dtype=np.uint8)


def typed(types: Sequence[str]) -> dict[str, Any]:
    """The types of all answers, as a result keeps them."""
    names, of = np.unique(types, return_inverse=True)
    return {"names": names.tolist(), "of": packed_bytes(of.astype(np.uint8))}


def numbered(contexts: Sequence[str | None]) -> str:
    """Which examples have a context in common, as a result keeps it; one without is one of its own."""
    first: dict[str, int] = {}  # by name, which may be a long text: an array of names would be as wide as the longest
    own = [place if name is None else first.setdefault(name, place) for place, name in enumerate(contexts)]
    return packed_bytes(np.array(own, dtype=np.uint32))


def buckets(sizes: Iterable[float]) -> npt.NDArray[np.uint8]:
    """(examples,): which of the buckets of :data:`EDGES` each size is in."""
    return (np.searchsorted(EDGES, list(sizes), side="right") - 1).astype(np.uint8)
