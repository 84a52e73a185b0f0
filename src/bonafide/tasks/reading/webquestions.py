"""WebQuestions into examples; the documents come from ``bonafide retrieve``.

Reads the published JSON (a list of objects with ``utterance`` and ``targetValue``) and JSON Lines with ``question``
and ``answers``. The data set has no dev split of its own: a share of its train questions can be held out as one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import Example, example_to_json, write_jsonl_files
from bonafide.files import bare_name, spare_inputs
from bonafide.tasks.reading.imported import (
    Imported,
    Lines,
    WrongFieldError,
    question_field,
    text_field,
    texts_field,
)

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')


def import_webquestions(path: Path, out: Path, held_out: float = 0.0, seed: int = 0) -> Imported:
    """Write ``examples.jsonl`` into ``out``; its examples name no document yet.

    Where a share is held out, that is drawn by ``seed`` and goes to ``out/dev``, the others to ``out/train``.
    """
    for folder in (out / "train", out / "dev") if held_out else (out,):
        spare_inputs(folder, path)
    lines = Lines(path)
    examples: list[Example] = []
    for line, data in lines:
        name = data.get("id", f"{bare_name(path)}-{line}")
        try:
            if not isinstance(name, str) or not name:
                raise WrongFieldError("id", "a text that is not empty", name)
            if "utterance" in data:
                example = Example(name, question_field(data, "utterance"), None, _listed(data))
            else:
                example = Example(name, question_field(data, "question"), None, texts_field(data, "answers"))
        except WrongFieldError as wrong:
            lines.add(line, str(name), wrong)
            continue
        lines.used_once(line, name)
        examples.append(example)
    lines.check()
    parts = _parts(examples, held_out, seed)
    write_jsonl_files({out / name / "examples.jsonl": map(example_to_json, part) for name, part in parts.items()})
    return Imported(len(parts.get("train", examples)), 0, held_out=len(parts.get("dev", ())))


def _parts(examples: Sequence[Example], share: float, seed: int) -> dict[str, list[Example]]:
    """The examples of each folder below the one that is written to, in their order."""
    if share == 0:
        return {"": list(examples)}
    if not 0 < share < 1 or not 0 < (count := round(share * len(examples))) < len(examples):
        raise BonafideError(
            f"--held-out {share:g} leaves no question on one side of {len(examples):,}: expected a share such as 0.1."
        )
    chance = random.Random(f"bonafide/held-out/{seed}")  # noqa: S311 (a split, not a secret)
    dev = set(chance.sample(range(len(examples)), count))
    return {
        "train": [each for place, each in enumerate(examples) if place not in dev],
        "dev": [each for place, each in enumerate(examples) if place in dev],
    }


def _listed(data: dict[str, Any]) -> tuple[str, ...]:
    """The texts of ``(list (description "Jaxon Bieber") (description Oslo))``."""
    value = text_field(data, "targetValue")
    answers = [re.sub(r"\\(.)", r"\1", quoted) if bare == "" else bare for quoted, bare in _DESCRIPTION.findall(value)]
    if not answers:
        raise WrongFieldError("targetValue", "a list of descriptions, as (list (description Oslo))", value)
    return tuple(answers)
