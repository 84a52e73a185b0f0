"""Metrics of discrete reasoning: DROP's exact match and F1 by type of answer, and programs against gold programs.

An example counts by the type of the accepted answer that the prediction is closest to, as in the official
evaluator. Solution accuracy, over the examples with gold, is whether the program is the gold program; it is also given
by the operator and by the number of operands of gold, since it is there that methods differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.evaluate.sql import Accuracy
from bonafide.examples import Example, write_jsonl
from bonafide.sealed import vouched
from bonafide.tasks.discrete.evidence import operands
from bonafide.tasks.discrete.execution import execute
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.metrics import ANSWER_TYPES, AnswerType, score, value_texts
from bonafide.tasks.discrete.notation import formula, program_text
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import Program

_MOST_OPERANDS = 5
"""More operands are counted as that many."""


@dataclass(frozen=True, slots=True)
class DiscretePrediction:
    """What a solver predicts for the example of this id; ``alternatives`` are further programs, best first.

    ``rank_of_gold`` is gold's place in the example's solution set by probability, 1 the best; None: not known.
    """

    example: str
    program: Program
    log_probability: float
    alternatives: tuple[tuple[Program, float], ...] = ()
    rank_of_gold: int | None = None


@dataclass(frozen=True, slots=True)
class DiscreteOutcome:
    """What is right about one prediction; ``solution`` is None where gold is not known.

    ``gold`` is None there too, and where the language has no room for it.
    """

    example: str
    exact_match: float
    f1: float
    answer_type: AnswerType
    gold: Program | None
    solution: bool | None


def judge(
    prediction: DiscretePrediction,
    example: Example,
    reading: Reading,
    language: Language,
    gold: Program | None,
    known: bool,
) -> DiscreteOutcome:
    """Execute the prediction and compare; where gold is known and the language has no room for it, it is wrong."""
    answer = value_texts(execute(prediction.program, reading, language))
    found = score(answer, example.answers)
    right = prediction.program == gold if known else None
    return DiscreteOutcome(example.id, found.exact_match, found.f1, found.answer_type, gold, right)


def total(outcomes: Sequence[DiscreteOutcome]) -> dict[str, Any]:
    """The figures over examples, with their counts; solutions only where there is gold."""
    known = [each for each in outcomes if each.solution is not None]
    said = [each for each in known if each.gold is not None]
    figures: dict[str, Any] = {
        "examples": len(outcomes),
        **_answers(outcomes),
        "answer_types": {
            kind: _answers(mine)
            for kind in ANSWER_TYPES
            if (mine := [each for each in outcomes if each.answer_type == kind])
        },
    }
    if known:
        figures["logical_form"] = _solutions(known)
        figures["operators"] = _grouped(said, lambda each: _gold(each).operator.name.lower())
        figures["operands"] = _grouped(said, lambda each: str(min(_MOST_OPERANDS, _gold(each).operands)))
    return figures


def write_predictions(
    path: Path,
    predictions: Iterable[DiscretePrediction],
    reading_of: Callable[[str], Reading],
    language: Language,
) -> None:
    """Write ``predictions.jsonl``, whole or not at all: one prediction a line, with its evidence."""
    with vouched(path):
        write_jsonl(path, (_line(each, reading_of(each.example), language) for each in predictions))


def described(program: Program, reading: Reading, language: Language) -> dict[str, Any]:
    """A program as people and other tools read it, with what it returns and where its operands stand."""
    return {
        "program": program_text(program, reading, language),
        "formula": formula(program, reading, language),
        "answer": list(value_texts(execute(program, reading, language))),
        "operands": [each.to_json() for each in operands(program, reading, language)],
    }


def _line(prediction: DiscretePrediction, reading: Reading, language: Language) -> dict[str, Any]:
    line = {
        "example": prediction.example,
        **described(prediction.program, reading, language),
        "log_probability": prediction.log_probability,
        "alternatives": [
            {"program": program_text(program, reading, language), "log_probability": log_probability}
            for program, log_probability in prediction.alternatives
        ],
    }
    if prediction.rank_of_gold is not None:
        line["rank_of_gold"] = prediction.rank_of_gold
    return line


def _answers(outcomes: Sequence[DiscreteOutcome]) -> dict[str, Any]:
    exact = Accuracy(round(sum(each.exact_match for each in outcomes)), len(outcomes))
    return {"execution": exact.to_json(), "f1": sum(each.f1 for each in outcomes) / max(1, len(outcomes))}


def _solutions(outcomes: Sequence[DiscreteOutcome]) -> dict[str, Any]:
    return Accuracy(sum(bool(each.solution) for each in outcomes), len(outcomes)).to_json()


def _grouped(outcomes: Sequence[DiscreteOutcome], group: Callable[[DiscreteOutcome], str]) -> dict[str, Any]:
    names = sorted({group(each) for each in outcomes})
    return {name: _solutions([each for each in outcomes if group(each) == name]) for name in names}


def _gold(outcome: DiscreteOutcome) -> Program:
    assert outcome.gold is not None
    return outcome.gold
