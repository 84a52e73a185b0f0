"""From a file of candidates to examples and solution sets: ``bonafide import candidates``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import Check, Example, open_examples
from bonafide.files import content_hash, described, read_json, spare_inputs, write_json
from bonafide.search.run import Inputs, Progress, run_search
from bonafide.tasks.text.candidates import CandidateFile, candidates_beside
from bonafide.tasks.text.imported import Counts, read_questions, write_questions
from bonafide.tasks.text.task import TextTask

_NOTE = "import.json"


def import_candidates(path: Path, out: Path, whole: Path | None = None) -> Counts:
    """Write ``examples.jsonl``, ``candidates.jsonl``, ``gold.jsonl`` and the store ``solutions/`` into a folder.

    ``whole``: the folder that it is a part of, with what was learned from it; both go together.
    """
    spare_inputs(out, path)
    source = content_hash(path)
    if (out / _NOTE).exists() and read_json(out / _NOTE).get("sha256") != source:
        held = whole or out
        raise BonafideError(f"{held} already holds the candidates of another file. Name another folder, or delete it.")
    counts = write_questions(read_questions(path), out)
    write_json(out / _NOTE, {"sha256": source})
    search_text(out / "examples.jsonl", out / "solutions")
    return counts


def search_text(
    examples: Path,
    out: Path,
    workers: int = 1,
    progress: Progress | None = None,
    started: Callable[[Any, int], None] | None = None,
) -> dict[str, Any]:
    """Keep the candidates beside the examples that reach the answer, and store them at ``out``; the manifest."""
    path = candidates_beside(examples)
    candidates = CandidateFile(path)
    opened = open_examples(examples, example_check(candidates))
    if started is not None:
        started(candidates, opened.count)
    description = {"examples": described([examples], out), "candidates": described([path], out)}
    return run_search(TextTask(), _ById(opened, candidates, None, description), out, workers, progress)


def example_check(candidates: CandidateFile | None) -> Check:
    """Examples must have an answer and, where these are needed, candidates."""

    def demands(example: Example) -> Iterator[tuple[str, str, str]]:
        if not example.answers:
            yield "answers", "at least one accepted answer", "none"
        if candidates is not None and example.id not in candidates:
            yield "id", f"an id of {candidates.path.name}", repr(example.id)

    return demands


class _ById(Inputs):
    """What is searched of an example is its own line of candidates."""

    def context_of(self, example: Example) -> str:
        return example.id
