"""The shards of a search, and how one is searched: the same for processes of this machine and for a cluster.

The examples are cut into shards of consecutive lines. What is in a shard depends on nothing but the inputs and the
task's options, so it does not matter who searches it, or how often.
"""

from __future__ import annotations

import io
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import Example, ExampleFile
from bonafide.solutions import ShardCounts, SolutionSet, shard_name, write_sets, write_shard
from bonafide.tasks.task import Contexts, Task

SHARD_EXAMPLES = 500
KEPT_WEIGHT = 500_000
"""Cells (or tokens) of prepared contexts that a worker keeps."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is searched: the examples, their contexts, and what the manifest says of them."""

    examples: ExampleFile
    contexts: Contexts
    default_context: str | None
    description: dict[str, Any]

    def context_of(self, example: Example) -> str:
        """The name of the example's context."""
        name = example.context if example.context is not None else self.default_context
        assert name is not None, "the examples were validated"
        return name


@dataclass(frozen=True, slots=True)
class Job:
    """One shard to search, with all that is needed for it."""

    index: int
    path: Path
    identity: str
    examples: list[tuple[Example, str]]
    contexts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """One shard that is in its place."""

    index: int
    counts: ShardCounts
    seconds: float


class SearchWorkerDied(BonafideError):  # noqa: N818
    """Workers are gone; what was finished stays."""


def shard_jobs(inputs: Inputs, out: Path, identity: str, missing: set[int]) -> Iterator[Job]:
    """The shards that are missing, in order, read as they are asked for."""
    stream = iter(inputs.examples)
    for index in range(-(-inputs.examples.count // SHARD_EXAMPLES)):
        shard = list(islice(stream, SHARD_EXAMPLES))
        if index in missing:
            named = [(example, inputs.context_of(example)) for example in shard]
            contexts = {name: inputs.contexts.raw(name) for name in dict.fromkeys(name for _, name in named)}
            yield Job(index, out / shard_name(index), identity, named, contexts)


class Searcher:
    """One process's part of the search; keeps the contexts it prepared, within bounds."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task
        self._prepared: OrderedDict[str, Any] = OrderedDict()
        self._weight = 0

    def write(self, job: Job) -> Done:
        """Search a shard and write it."""
        start = time.perf_counter()
        counts = write_shard(job.path, self._sets(job), self._task.codec, job.identity)
        return Done(job.index, counts, time.perf_counter() - start)

    def encode(self, job: Job) -> tuple[Done, bytes]:
        """Search a shard for somebody else to write."""
        start = time.perf_counter()
        stream = io.BytesIO()
        counts = write_sets(stream, self._sets(job), self._task.codec, job.identity)
        return Done(job.index, counts, time.perf_counter() - start), stream.getvalue()

    def _sets(self, job: Job) -> Iterator[tuple[str, SolutionSet]]:
        for example, name in job.examples:
            yield example.id, self._task.search(example, self._context(name, job.contexts[name]))

    def _context(self, name: str, raw: Any) -> Any:
        if name in self._prepared:
            self._prepared.move_to_end(name)
            return self._prepared[name]
        context = self._prepared[name] = self._task.prepare(raw)
        self._weight += self._task.weight(context)
        while self._weight > KEPT_WEIGHT and len(self._prepared) > 1:
            self._weight -= self._task.weight(self._prepared.popitem(last=False)[1])
        return context
