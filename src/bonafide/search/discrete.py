"""Search for programs over numbers, dates and spans: ``bonafide search discrete``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bonafide.documents import DocumentSource, open_documents
from bonafide.errors import BonafideError
from bonafide.examples import Check, Example, open_examples
from bonafide.files import described
from bonafide.search.cluster import Cluster
from bonafide.search.places import Places
from bonafide.search.run import Inputs, Progress, run_search
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.task import DiscreteTask

DEFAULT_CAP = 10_000


def search_discrete(
    examples: Path,
    out: Path,
    documents: Path | None = None,
    language: Language | None = None,
    cap: int | None = DEFAULT_CAP,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
    started: Callable[[DocumentSource, int], None] | None = None,
    cluster: Cluster | None = None,
    places: Places | None = None,
) -> dict[str, Any]:
    """Find every program that returns an accepted answer of each example, and store them at ``out``.

    Returns the manifest. The passages are those of ``documents`` (a ``documents.jsonl``; found beside the examples if
    none is given) or, where there is none, the examples' own texts. ``started`` is told the documents and the number
    of examples once both are known to be valid.
    """
    if workers < 1:
        raise BonafideError(f"At least one worker is needed; --workers is {workers}.")
    task, inputs = open_discrete(examples, out, documents, language, cap, seed, started)
    return run_search(task, inputs, out, workers, progress, cluster, places)


def open_discrete(
    examples: Path,
    out: Path,
    documents: Path | None = None,
    language: Language | None = None,
    cap: int | None = DEFAULT_CAP,
    seed: int = 0,
    started: Callable[[DocumentSource, int], None] | None = None,
) -> tuple[DiscreteTask, Inputs]:
    """The search that these options of :func:`search_discrete` ask for, its inputs validated; nothing is written."""
    source = open_documents(documents, examples)
    opened = open_examples(examples, example_check(source))
    if started is not None:
        started(source, opened.count)
    description = {"examples": described([examples], out), **source.description(out)}
    return DiscreteTask(language or Language(), cap, seed), Inputs(opened, source.documents, None, description)


def example_check(source: DocumentSource) -> Check:
    """Examples must name their document and have an answer."""

    def demands(example: Example) -> Iterator[tuple[str, str, str]]:
        yield from source.check(example)
        if all(answer is None for answer in example.answers):
            yield "answers", "at least one number, text, list of texts or date", "no answer"

    return demands
