"""DROP's official file into examples and documents.

The official file is one JSON object: for each passage its text and its ``qa_pairs``, each with a question, a
``query_id``, an ``answer`` and perhaps ``validated_answers``. Questions without an answer, and passages and questions
that lack a field, are left out, counted, and reported: a published file may hold some, and one of them should not
keep the others from being used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bonafide.documents import Document, document_to_json
from bonafide.errors import BonafideError
from bonafide.examples import AcceptedAnswer, DateAnswer, Example, example_to_json, write_jsonl_files
from bonafide.files import read_json, spare_inputs
from bonafide.tasks.discrete.numbers import plain_number

_LARGEST = sys.float_info.max
_DATE_PARTS = ("day", "month", "year")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that was left out: where it stands, and why."""

    place: str
    reason: str


@dataclass
class Imported:
    """What an import wrote, and what it could not."""

    examples: int = 0
    documents: int = 0
    left_out: list[LeftOut] = field(default_factory=list)

    def reasons(self) -> dict[str, int]:
        """How often each reason kept something out."""
        counts: dict[str, int] = {}
        for each in self.left_out:
            counts[each.reason] = counts.get(each.reason, 0) + 1
        return counts


def import_drop(path: Path, out: Path) -> Imported:
    """Write ``examples.jsonl`` and ``documents.jsonl`` into ``out``: both of them, or none."""
    spare_inputs(out, path)
    data = read_json(path)
    done = Imported()
    documents: list[Document] = []
    examples: list[Example] = []
    taken: set[str] = set()
    for name, entry in data.items():
        found = list(_read_passage(name, entry, taken, done))
        if found:
            documents.append(Document(name, None, (entry["passage"],)))
            examples += found
    if not examples:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in done.reasons().items()) or "it is empty"
        raise BonafideError(
            f"{path} holds no question that can be used: {reasons}. Expected DROP's official form, an object of "
            "passages, each with 'passage' and 'qa_pairs'."
        )
    done.examples, done.documents = len(examples), len(documents)
    write_jsonl_files(
        {
            out / "documents.jsonl": map(document_to_json, documents),
            out / "examples.jsonl": map(example_to_json, examples),
        }
    )
    return done


def _read_passage(name: str, entry: Any, taken: set[str], done: Imported) -> Iterator[Example]:
    if not name or not isinstance(entry, dict):
        done.left_out.append(LeftOut(f"passage {name!r}", "a passage that is no object, or has no id"))
        return
    text, pairs = entry.get("passage"), entry.get("qa_pairs")
    if not isinstance(text, str) or not text.strip():
        done.left_out.append(LeftOut(f"passage {name!r}", "a passage without a text"))
        return
    if not isinstance(pairs, list):
        done.left_out.append(LeftOut(f"passage {name!r}", "a passage without a list of questions"))
        return
    for number, pair in enumerate(pairs, start=1):
        place = f"question {number} of passage {name!r}"
        example = _read_question(pair, name, f"{name}-{number}")
        if isinstance(example, str):
            done.left_out.append(LeftOut(place, example))
        elif example.id in taken:
            done.left_out.append(LeftOut(place, "a question whose query_id was used before"))
        else:
            taken.add(example.id)
            yield example


def _read_question(pair: Any, passage: str, name: str) -> Example | str:
    """The example, or why there is none; a question without a ``query_id`` goes by its place."""
    if not isinstance(pair, dict):
        return "a question that is no object"
    question, query = pair.get("question"), pair.get("query_id")
    if not isinstance(question, str) or not question.strip() or "\0" in question:
        return "a question without a text"
    validated = pair.get("validated_answers")
    given = [pair.get("answer"), *(validated if isinstance(validated, list) else [])]
    answers = dict.fromkeys(answer for answer in map(read_answer, given) if answer is not None)
    if not answers:
        return "a question without an answer"
    return Example(query if isinstance(query, str) and query else name, question, passage, tuple(answers))


def read_answer(answer: Any) -> AcceptedAnswer:
    """An answer of the official file; None where it says nothing. A number comes before spans, spans before a date."""
    if not isinstance(answer, dict):
        return None
    number, spans, date = answer.get("number"), answer.get("spans"), answer.get("date")
    if isinstance(number, (int, float)) and not isinstance(number, bool) and abs(number) <= _LARGEST:  # no NaN
        return number
    if isinstance(number, str) and number.strip():
        return _number(number.strip())
    texts = tuple(span for span in spans if isinstance(span, str) and span.strip()) if isinstance(spans, list) else ()
    if texts:
        return texts if len(texts) > 1 else texts[0]
    if isinstance(date, dict):
        parts = [part.strip() if isinstance(part := date.get(name), str) else "" for name in _DATE_PARTS]
        if any(parts):
            return DateAnswer(*parts)
    return None


def _number(text: str) -> int | float | str:
    """A number as JSON writes it; the text itself where it reads as none (it is still an answer)."""
    value = plain_number(text)
    if value is None:
        return text
    return int(value) if value.denominator == 1 and "." not in text else float(value)
