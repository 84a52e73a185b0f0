"""What a search will cost, before it starts: ``bonafide search … --dry-run``.

A sample of the examples is searched, and encoded as the store would hold it, in memory; nothing is written. Time is
that of a core, whatever else the machine does now, and is extrapolated by its parts, as they do not grow with the same
thing: reading with the file, preparing with the contexts, searching and encoding with the examples. Sizes can have a
heavy tail, where a sample says little of the largest set or of the sum: both are extrapolated by a Pareto tail, the
largest as its quantile (Weissman 1978; the tail's weight by Hill 1975), the sum as the upper end of a range.
"""

from __future__ import annotations

import gc
import io
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from bonafide.examples import Example
from bonafide.search.shards import KEPT_WEIGHT, SHARD_EXAMPLES, Inputs
from bonafide.solutions import SolutionSet, write_sets
from bonafide.tasks.task import Task

SAMPLE = 200
_TAIL = 0.1
"""The share of the sample that the tail's weight is taken from."""
_RESAMPLES = 1000
_UNUSUAL, _PAUSE = 20.0, 2.0
"""An example that takes so many times the median, but less than so many seconds, is timed again: it may have been a
pause of the process that had nothing to do with it."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A search, extrapolated from a sample. A range is where 95 % of resampled samples fall, with a heavy tail more."""

    examples: int
    sampled: int
    coverage: float
    seconds: float
    """Of one core; several workers share it."""
    seconds_range: tuple[float, float]
    solutions: float
    """That the store will hold, after the cap."""
    solutions_range: tuple[float, float]
    disk: float
    """Bytes."""
    disk_range: tuple[float, float]
    capped: float
    """Share of the sets that are larger than the cap."""
    largest: tuple[tuple[str, int], ...]
    """The largest sets of the sample, before the cap: example and size."""
    largest_expected: float
    """About the size of the largest set of the whole file, before the cap."""
    tail: float
    """The weight of the sizes' tail: above a half a few large sets decide the sum, and a sample can miss them."""

    @property
    def heavy(self) -> bool:
        """Whether a few sets that are not in the sample may hold most of the solutions."""
        return self.sampled < self.examples and self.tail > 0.5

    def seconds_with(self, workers: int) -> float:
        """Time with so many workers: a shard is searched by one of them."""
        return self.seconds / min(workers, math.ceil(self.examples / SHARD_EXAMPLES))


def estimate_search(
    task: Task[Any], inputs: Inputs, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Estimate:
    """Search :data:`SAMPLE` examples, drawn by ``seed``, and say what the search of all of them will take."""
    sample, passes, names = _drawn(inputs, seed)
    deque(_Meter(task, inputs, sample[:1], None).sets())  # what only the first search of a process takes
    meter = _Meter(task, inputs, sample, progress)
    stream = io.BytesIO()
    with _no_other_garbage():
        start = time.process_time()
        counts = write_sets(stream, meter.sets(), task.codec, "")
        encoding = time.process_time() - start - meter.working
    data, footer = _parts(stream)
    count, scale = inputs.examples.count, inputs.examples.count / len(sample)
    preparations = names.distinct if names.distinct * meter.mean_weight <= KEPT_WEIGHT else names.changes
    fixed = passes + preparations * meter.preparing / meter.prepared
    each = np.array(meter.searching) + encoding / len(sample)
    stored = np.array(meter.stored, dtype=np.float64)
    sizes = sorted(meter.sizes, key=lambda pair: -pair[1])
    time_low, time_high = _range(each, count, seed)
    least, most = _range(stored, count, seed)
    weight, largest = tail_of([size for _, size in sizes], count)
    rest = np.sort(stored)[: len(stored) - round(len(largest) / scale)].sum() * scale
    with_tail = rest + np.minimum(largest, task.options.get("cap") or math.inf).sum()
    solutions_range = (least * count, max(most * count, float(with_tail)))
    disk = data * scale + footer * math.ceil(count / SHARD_EXAMPLES)
    return Estimate(
        examples=count,
        sampled=len(sample),
        coverage=counts.covered / len(sample),
        seconds=fixed + float(each.sum()) * scale,
        seconds_range=(fixed + time_low * count, fixed + time_high * count),
        solutions=counts.solutions * scale,
        solutions_range=solutions_range,
        disk=disk,
        disk_range=_scaled(disk, counts.solutions * scale, solutions_range),
        capped=counts.capped / len(sample),
        largest=tuple(sizes[:3]),
        largest_expected=max(float(sizes[0][1]), float(largest[0])),
        tail=weight,
    )


@contextmanager
def _no_other_garbage() -> Iterator[None]:
    """A process that holds much else, a notebook, looks through all of it now and then: a worker has nothing else."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class _Names:
    """How often the whole file names another context."""

    distinct: int
    changes: int


def _drawn(inputs: Inputs, seed: int) -> tuple[list[Example], float, _Names]:
    """The sample in the order of the file, what one pass over the file takes, and what it says of its contexts."""
    count = inputs.examples.count
    chosen = np.random.default_rng(seed).choice(count, min(SAMPLE, count), replace=False)
    places = set(chosen.tolist())
    sample: list[Example] = []
    distinct: set[int] = set()
    last, changes = None, 0
    start = time.process_time()
    for place, example in enumerate(inputs.examples):
        name = hash(inputs.context_of(example))  # a context's name can be its whole text
        distinct.add(name)
        changes += name != last
        last = name
        if place in places:
            sample.append(example)
    return sample, time.process_time() - start, _Names(len(distinct), changes)


class _Meter:
    """Searches a sample as a worker does, and notes what each part takes."""

    def __init__(
        self, task: Task[Any], inputs: Inputs, sample: list[Example], progress: Callable[[int, int], None] | None
    ) -> None:
        self._task, self._inputs, self._sample, self._progress = task, inputs, sample, progress
        self.preparing = self.working = 0.0
        self.prepared = 0
        self.searching: list[float] = []
        self.stored: list[int] = []
        self.sizes: list[tuple[str, int]] = []
        self._weight = 0

    @property
    def mean_weight(self) -> float:
        return self._weight / self.prepared

    def sets(self) -> Iterator[tuple[str, SolutionSet]]:
        last, context = None, None
        for done, example in enumerate(self._sample, 1):
            began = time.process_time()
            name = self._inputs.context_of(example)
            first = 0.0
            if name != last:
                last, context = name, self._task.prepare(self._inputs.contexts.raw(name))
                self._task.search(example, context)  # it also makes what the context's other examples find ready
                first = time.process_time() - began
                self._weight += self._task.weight(context)
                self.prepared += 1
            found, taken = self._timed(example, context)
            if _UNUSUAL * float(np.median([*self.searching, taken])) < taken < _PAUSE:
                taken = min(taken, self._timed(example, context)[1])
            self.searching.append(taken)
            self.preparing += max(0.0, first - taken)
            self.working += time.process_time() - began
            self.stored.append(len(found))
            self.sizes.append((example.id, int(found.size)))
            if self._progress is not None:
                self._progress(done, len(self._sample))
            yield example.id, found

    def _timed(self, example: Example, context: Any) -> tuple[SolutionSet, float]:
        start = time.process_time()
        found = self._task.search(example, context)
        return found, time.process_time() - start


def _parts(stream: io.BytesIO) -> tuple[int, int]:
    """Bytes of a shard that grow with its examples, and those that every shard has."""
    size = stream.tell()
    stream.seek(0)
    metadata = pq.read_metadata(stream)
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    data = sum(group.column(place).total_compressed_size for group in groups for place in range(group.num_columns))
    return data, size - data


def _scaled(disk: float, solutions: float, ends: tuple[float, float]) -> tuple[float, float]:
    return (disk * ends[0] / solutions, disk * ends[1] / solutions) if solutions else (disk, disk)


def _range(each: Floats, count: int, seed: int) -> tuple[float, float]:
    """Where the mean of a file of ``count`` lies, by the bootstrap."""
    if len(each) == count:
        return float(each.mean()), float(each.mean())
    drawn = np.random.default_rng(seed).integers(len(each), size=(_RESAMPLES, len(each)))
    low, high = np.quantile(each[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def tail_of(sizes: list[int], count: int) -> tuple[float, Floats]:
    """The weight of the tail of a sample's sizes, largest first, and the largest sets that a file of ``count`` has."""
    kept = max(1, round(_TAIL * len(sizes)))
    if count <= len(sizes) or kept >= len(sizes) or sizes[kept] == 0:
        return 0.0, np.array(sizes[:kept], dtype=np.float64)
    weight = float(np.mean(np.log(np.array(sizes[:kept], dtype=np.float64) / sizes[kept])))
    places = np.arange(1, round(count * kept / len(sizes)) + 1)
    return weight, sizes[kept] * (len(places) / places) ** weight
