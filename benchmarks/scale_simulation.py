"""A search of many machines and a training of many GPUs, from measured costs.

For ``benchmarks/scale.py``, which says what is measured, fitted and assumed. The search is simulated shard by shard.
One process reads and ships all inputs and hears all results: a queue of its own. A worker has two shards at a time.
Shards take the mean of the curves times a factor drawn from the shards of the measured workload, so that its tail is
kept. A lost worker loses what it had begun, and starts again after a while.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bonafide.search.cluster import TRIES, UNDER_WAY
from bonafide.search.shards import KEPT_WEIGHT, SHARD_EXAMPLES

GIB, HOUR = 2**30, 3600.0
WORKER_BYTES = 707 * 2**20
"""The most that a process held in a search of WikiSQL, uncapped: docs/results/search-sql.md."""
STEPS = {
    "sql": (0.187, 32, "docs/results/learning-sql.md, 384 wide, with graphs"),
    "discrete": (0.241, 64, "docs/results/learning-discrete.md, with graphs"),
    "reading": (0.156, 32, "docs/results/learning-reading.md"),
}
"""Of MIMAX, alone on an H200: seconds a step, examples of it, where that was measured."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A cost at a few sizes."""

    per: str
    by: str
    at: str
    points: list[list[float]]

    def slopes(self) -> list[float]:
        """The exponent between each two neighbours."""
        return [
            math.log(late[1] / early[1]) / math.log(late[0] / early[0])
            for early, late in itertools.pairwise(self.points)
        ]

    def exponent(self) -> float:
        """The exponent over all sizes, by least squares."""
        x, y = np.log(np.array(self.points)).T
        return float(np.polyfit(x, y, 1)[0])

    def value(self, size: float) -> tuple[float, float]:
        """The two ends of a range, equal within what was measured; below it, the smallest size's."""
        x, y = np.array(self.points).T
        if size <= x[-1]:
            inside = float(np.exp(np.interp(math.log(max(size, x[0])), np.log(x), np.log(y))))
            return inside, inside
        growing = 0.0 if self.by.startswith(self.per) else 1.0  # the cost of each cell stays, that of a table grows
        ends = sorted(y[-1] * (size / x[-1]) ** slope for slope in (self.slopes()[-1], growing))
        return float(ends[0]), float(ends[1])

    def doubled(self) -> float | None:
        """The size at which the cost is twice that of the smallest: from there on most of it grows."""
        aim = 2 * self.points[0][1]
        for early, late in itertools.pairwise(self.points):
            if late[1] >= aim:
                share = math.log(aim / early[1]) / math.log(late[1] / early[1])
                return float(early[0] * (late[0] / early[0]) ** share)
        return None


@dataclass(frozen=True, slots=True)
class Load:
    """What is searched and trained on."""

    examples: float
    rows: float
    columns: float = 7.0
    solutions: float = 32.0
    per_table: float = 50.0

    @property
    def cells(self) -> float:
        """Of a table."""
        return self.rows * self.columns

    @property
    def tables(self) -> float:
        """Of all examples."""
        return math.ceil(self.examples / self.per_table)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Machines for the search. ``shipped``: tables travel with every shard, as they do now; else workers find them."""

    machines: int
    cores: int = 16
    memory_gib: float = 64.0
    network_gbit: float = 10.0
    losses_an_hour: float = 0.001
    restart: float = 60.0
    shipped: bool = True

    @property
    def bandwidth(self) -> float:
        """Bytes a second."""
        return self.network_gbit * 1e9 / 8


@dataclass(frozen=True, slots=True)
class Searched:
    """A search of many machines."""

    hours: float
    before: float  # hours of one process, before the first shard
    driving: float  # hours of one process, beside the workers
    searching: float  # core-hours
    wasted: float  # core-hours of what lost workers had begun
    lost: int
    workers: int
    stopped: bool  # a shard ended its worker too often


class Costs:
    """The measured figures, and what follows from them for a load."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.curves = {name: Curve(**each) for name, each in data["curves"].items()}
        self.bytes: dict[str, float] = data["bytes"]
        taken = data["workloads"][-1]["shards"]
        whole = [spent for spent, count, _ in taken if count == SHARD_EXAMPLES] or [spent for spent, _, _ in taken]
        self.factors = [spent * len(whole) / sum(whole) for spent in whole]

    def _both(self, name: str, size: float) -> np.ndarray:
        return np.array(self.curves[name].value(size))

    def example(self, load: Load) -> np.ndarray:
        """Seconds of a worker for an example whose table is ready: the ends of a range."""
        columns = self._both("search sql: by columns", load.columns) / self._both("search sql: by columns", 7.0)
        listed = self.curves["search sql: by solutions listed"].points
        one = (listed[-1][1] - listed[0][1]) / (listed[-1][0] - listed[0][0])
        stored = self._both("store: write", load.solutions)
        return self._both("search sql: by rows", load.rows) * columns + load.solutions * (one + stored)

    def prepare(self, load: Load) -> np.ndarray:
        """Seconds of a worker to make a table ready."""
        return self._both("search sql: prepare a table", load.cells) * load.cells

    def shard(self, load: Load, workers: int) -> np.ndarray:
        """Seconds of a worker for a shard, with the tables that it must prepare for it."""
        spread = min(1.0, workers * SHARD_EXAMPLES / load.per_table)  # a table of many shards is met by many workers
        return SHARD_EXAMPLES * self.example(load) + self.prepare(load) * max(SHARD_EXAMPLES / load.per_table, spread)

    def shipped_bytes(self, load: Load, fleet: Fleet) -> float:
        """Of the tables that travel with a shard."""
        return fleet.shipped * max(1.0, SHARD_EXAMPLES / load.per_table) * load.cells * self.bytes["cell as JSON"]

    def driver_shard(self, load: Load, fleet: Fleet) -> float:
        """Seconds of the first process for a shard."""
        small = self.curves["drive two workers"].points[-1][1] * SHARD_EXAMPLES
        return small + self.shipped_bytes(load, fleet) / fleet.bandwidth

    def before(self, load: Load, fleet: Fleet) -> float:
        """Seconds of one process before the first shard: everything is validated, in one process."""
        each = sum(self.curves[f"read: {name} examples"].value(load.examples)[1] for name in ("validate", "hash"))
        tables = load.tables * load.cells * self.curves["read: validate a table"].value(load.cells)[1]
        return load.examples * each + tables * fleet.shipped

    def worker_bytes(self, load: Load) -> float:
        """The most that a worker holds: what it keeps prepared, and one table more while it is made."""
        kept = max(KEPT_WEIGHT, load.cells) * self.bytes["cell of a prepared table"]
        return WORKER_BYTES + kept + load.cells * self.bytes["cell while a table is prepared"]

    def tokenise(self, load: Load) -> float:
        """Seconds of a process for an example that it trains on."""
        return self.curves["tokenise for θ and φ"].value(load.solutions)[1]

    def store_bytes(self, load: Load) -> float:
        """On disk."""
        curve = Curve(**self.data["bytes of a stored solution"])
        return load.examples * load.solutions * curve.value(load.solutions)[1]


def workers_of(costs: Costs, load: Load, fleet: Fleet) -> int:
    """Processes that have a core and the memory they need."""
    return fleet.machines * min(fleet.cores, int(fleet.memory_gib * GIB / costs.worker_bytes(load)))


def search(costs: Costs, load: Load, fleet: Fleet, high: bool = True, seed: int = 0) -> Searched | None:
    """Simulate a search at one end of the range of costs; None where no worker fits a machine's memory."""
    workers = workers_of(costs, load, fleet)
    if workers == 0:
        return None
    chance = random.Random(seed)
    mean, driver = float(costs.shard(load, workers)[int(high)]), costs.driver_shard(load, fleet)
    work = [mean * chance.choice(costs.factors) for _ in range(math.ceil(load.examples / SHARD_EXAMPLES))]
    work[-1] *= load.examples / SHARD_EXAMPLES % 1 or 1.0
    before = costs.before(load, fleet)
    slots = [(0.0, turn, worker) for turn in range(UNDER_WAY) for worker in range(workers)]  # a heap
    free = [0.0] * workers
    clock = driving = wasted = end = 0.0
    fresh, again = 0, list[tuple[float, int]]()  # what was lost, by the time at which that is known: a heap
    losses: Counter[int] = Counter()
    while (fresh < len(work) or again) and TRIES not in losses.values():
        when, _, worker = heapq.heappop(slots)
        clock = max(clock, when)
        if again and (again[0][0] <= clock or fresh == len(work)):
            known, number = heapq.heappop(again)
            clock = max(clock, known)
        else:
            number, fresh = fresh, fresh + 1
        clock += driver
        driving += driver
        start = max(clock, free[worker])
        survives = chance.expovariate(fleet.losses_an_hour / HOUR) if fleet.losses_an_hour else math.inf
        if survives < work[number]:
            wasted += survives
            losses[number] += 1
            heapq.heappush(again, (start + survives, number))
            free[worker] = start + survives + fleet.restart
        else:
            free[worker] = start + work[number]
            end = max(end, free[worker])
        heapq.heappush(slots, (free[worker], 0, worker))
    hours = [each / HOUR for each in (before + end, before, driving, sum(work), wasted)]
    return Searched(*hours, losses.total(), workers, TRIES in losses.values())


def training_hours(costs: Costs, task: str, examples: float, epochs: float, gpus: int, network_gbit: float) -> float:
    """Of MIMAX on so many GPUs, a batch each: the measured step, and the gradients' way around the ring."""
    step, batch, _ = STEPS[task]
    gradients = 4 * sum(costs.data["weights"].values()) * 2 * (gpus - 1) / gpus / (network_gbit * 1e9 / 8)
    return epochs * examples / (batch * gpus) * (step + gradients) / HOUR


def breaks(costs: Costs, load: Load, fleet: Fleet) -> list[tuple[float, str, str]]:
    """(Examples at which it ends, what, why) for each part that one process or one machine must hold; least first."""
    memory, day = fleet.memory_gib * GIB, 24 * HOUR
    held, per_table = costs.bytes, load.per_table
    tokenised = held["tokenised example"] + load.solutions * held["tokenised solution"]
    table_seconds = load.cells * costs.curves["read: validate a table"].value(load.cells)[1] / per_table
    shipped = costs.driver_shard(load, fleet) / SHARD_EXAMPLES
    limits = [
        ("training: every process loads all examples, contexts and sets", held["example to train on"], memory),
        ("training on one GPU: all examples are held tokenised", tokenised, memory),
        ("training on one GPU: all examples are tokenised before the first step", costs.tokenise(load), day),
        ("search: ids of all examples, to find duplicates", held["id while a file is validated"], memory),
        ("search: where each context begins", held["place of a context"] / per_table, memory),
        ("search: one process validates all tables", table_seconds, day),
        ("search: one process reads and ships all inputs, tables with each shard", shipped, day),
        ("store: the manifest lists every shard", costs.data["workloads"][-1]["manifest"] / SHARD_EXAMPLES, GIB),
    ]
    found = []
    for what, each, limit in limits:
        size = f"{each * 1e6:,.3g} µs of a day" if limit == day else f"{each:,.3g} bytes of {limit / GIB:g} GiB"
        found.append((limit / each, what, f"{size}, an example"))
    return sorted(found)


def day_machines(costs: Costs, load: Load, fleet: Fleet, high: bool, hours: float = 24.0) -> int | str:
    """The fewest machines that finish in so many hours, or why there are none."""
    if workers_of(costs, load, replace(fleet, machines=1)) == 0:
        return "memory"
    if (costs.before(load, fleet) + costs.driver_shard(load, fleet) * load.examples / SHARD_EXAMPLES) / HOUR > hours:
        return "driver"
    low, top = 0, 1
    while (
        (found := search(costs, load, replace(fleet, machines=top), high)) is None
        or found.stopped
        or found.hours > hours
    ):
        low, top = top, top * 2
        if top > 10**5:
            return "stragglers"
    while top - low > max(1, top // 20):
        middle = (low + top) // 2
        found = search(costs, load, replace(fleet, machines=middle), high)
        low, top = (low, middle) if found is not None and found.hours <= hours and not found.stopped else (middle, top)
    return top


def load_of(workload: dict[str, Any]) -> Load:
    """A search that was measured."""
    count = workload["examples"]
    return Load(count, workload["rows"], workload["columns"], workload["solutions"] / count, count / workload["tables"])


def predicted(costs: Costs, load: Load) -> float:
    """Seconds of one core, from the curves alone."""
    each = float(costs.example(load).mean() + costs.prepare(load).mean() / load.per_table)
    driven = costs.driver_shard(load, Fleet(1, shipped=False)) / SHARD_EXAMPLES
    return load.examples * (each + driven) + costs.before(load, Fleet(1))
