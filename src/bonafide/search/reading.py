"""Search for mentions in documents: ``bonafide search reading``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bonafide.documents import DocumentSource, open_documents
from bonafide.errors import BonafideError
from bonafide.examples import Check, Example, answer_to_json, describe, open_examples
from bonafide.files import described
from bonafide.search.cluster import Cluster
from bonafide.search.places import Places
from bonafide.search.run import Inputs, Progress, run_search
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.task import ReadingTask

DEFAULT_CAP = 100_000


def search_reading(
    examples: Path,
    out: Path,
    documents: Path | None = None,
    matching: Matching | None = None,
    cap: int | None = DEFAULT_CAP,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
    started: Callable[[DocumentSource, int], None] | None = None,
    cluster: Cluster | None = None,
    places: Places | None = None,
) -> dict[str, Any]:
    """Find every mention of each example's accepted answers, and store them at ``out``; returns the manifest.

    The documents are those of ``documents`` (a ``documents.jsonl``; found beside the examples if it is not given) or
    the examples' own texts. ``started`` is told the documents and the number of examples once both are known to be
    valid.
    """
    if workers < 1:
        raise BonafideError(f"At least one worker is needed; --workers is {workers}.")
    task, inputs = open_reading(examples, out, documents, matching, cap, seed, started)
    return run_search(task, inputs, out, workers, progress, cluster, places)


def open_reading(
    examples: Path,
    out: Path,
    documents: Path | None = None,
    matching: Matching | None = None,
    cap: int | None = DEFAULT_CAP,
    seed: int = 0,
    started: Callable[[DocumentSource, int], None] | None = None,
) -> tuple[ReadingTask, Inputs]:
    """The search that these options of :func:`search_reading` ask for, its inputs validated; nothing is written."""
    source = open_documents(documents, examples)
    opened = open_examples(examples, _demands(source.check))
    if started is not None:
        started(source, opened.count)
    description = {"examples": described([examples], out), **source.description(out)}
    return ReadingTask(matching or Matching(), cap, seed), Inputs(opened, source.documents, None, description)


def _demands(of_documents: Check) -> Check:
    def demands(example: Example) -> Iterator[tuple[str, str, str]]:
        yield from of_documents(example)
        for answer in example.answers:
            if not isinstance(answer, str):
                yield "answers", "accepted answers, as texts", describe(answer_to_json(answer))
                break

    return demands
