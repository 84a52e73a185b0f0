"""Quasar-T's official files into examples and documents.

The questions are one object a line (``uid``, ``question``, ``answer``), the contexts another (``uid``, and
``contexts``: pairs of score and sentence). As in the paper, all sentences of a question are joined into one
paragraph, in decreasing score; ``group`` says how many to a paragraph instead.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bonafide.documents import Document
from bonafide.errors import BonafideError, shortened
from bonafide.examples import Example
from bonafide.files import spare_inputs
from bonafide.tasks.reading.imported import (
    Imported,
    Lines,
    WrongFieldError,
    grouped,
    question_field,
    text_field,
    write_data,
)


def import_quasar(questions: Path, contexts: Path, out: Path, group: int = 0) -> Imported:
    """Write ``examples.jsonl`` and ``documents.jsonl`` into ``out``: both, or none."""
    spare_inputs(out, questions, contexts)
    asked = Lines(questions)
    examples: dict[str, Example] = {}
    for line, data in asked:
        try:
            name = text_field(data, "uid")
            example = Example(name, question_field(data, "question"), name, (text_field(data, "answer"),))
        except WrongFieldError as wrong:
            asked.add(line, str(data.get("uid", "")), wrong)
            continue
        asked.used_once(line, name)
        examples[name] = example
    asked.check()
    given = Lines(contexts)
    documents: dict[str, Document] = {}
    for line, data in given:
        try:
            name = text_field(data, "uid")
            sentences = _sentences(data)
        except WrongFieldError as wrong:
            given.add(line, str(data.get("uid", "")), wrong)
            continue
        given.used_once(line, name)
        if name in examples:
            documents[name] = Document(name, None, grouped(sentences, group))
    given.check()
    if missing := [name for name in examples if name not in documents]:
        raise BonafideError(
            f"{contexts} lacks the contexts of {len(missing):,} questions of {questions}, the first of them "
            f"{shortened(missing[0])}. Give the two files of the same split."
        )
    write_data(out, list(examples.values()), (documents[name] for name in examples))
    return Imported(len(examples), len(documents))


def _sentences(data: dict[str, Any]) -> list[str]:
    """The sentences, in decreasing score; equal scores keep their order."""
    contexts = data.get("contexts")
    if not isinstance(contexts, list) or not contexts:
        raise WrongFieldError("contexts", "a list of pairs of score and text", contexts)
    pairs: list[tuple[float, str]] = []
    for pair in contexts:
        match pair:
            case [int() | float() as score, str() as text] if abs(score) <= sys.float_info.max:  # so no NaN
                pairs.append((float(score), text))
            case _:
                raise WrongFieldError("contexts", "pairs of score and text, the score finite", pair)
    return [text for _, text in sorted(pairs, key=lambda pair: -pair[0])]
