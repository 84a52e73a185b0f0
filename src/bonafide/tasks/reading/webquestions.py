"""WebQuestions into examples; the documents come from ``bonafide retrieve``.

Reads the published JSON (a list of objects with ``utterance`` and ``targetValue``) and JSON Lines with ``question``
and ``answers``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bonafide.examples import Example
from bonafide.files import bare_name, spare_inputs
from bonafide.tasks.reading.imported import (
    Imported,
    Lines,
    WrongFieldError,
    question_field,
    text_field,
    texts_field,
    write_data,
)

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')


def import_webquestions(path: Path, out: Path) -> Imported:
    """Write ``examples.jsonl`` into ``out``; its examples name no document yet."""
    spare_inputs(out, path)
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
    write_data(out, examples, None)
    return Imported(len(examples), 0)


def _listed(data: dict[str, Any]) -> tuple[str, ...]:
    """The texts of ``(list (description "Jaxon Bieber") (description Oslo))``."""
    value = text_field(data, "targetValue")
    answers = [re.sub(r"\\(.)", r"\1", quoted) if bare == "" else bare for quoted, bare in _DESCRIPTION.findall(value)]
    if not answers:
        raise WrongFieldError("targetValue", "a list of descriptions, as (list (description Oslo))", value)
    return tuple(answers)
