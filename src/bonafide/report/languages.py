"""Programs of runs whose languages differ, brought into one that has room for all of them.

A run's predictions are read in the language of its own model; what they are then compared in has the constants of every
run, and the widest bound of each kind. Runs on other tasks have nothing of the sort.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from bonafide.report.predicted import Asked, Predicted
from bonafide.sealed import read_sealed
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.program import Constant, Program, canonical
from bonafide.tasks.discrete.task import language_of


def asked_by_run(asked: Asked, runs: Iterable[Path]) -> dict[Path, Asked]:
    """The examples as the model of each run reads them; where a run has no model, as they are asked."""
    models = {run: run / "model" / "model.json" for run in runs}
    if asked.task != "discrete":
        return dict.fromkeys(models, asked)
    return {
        run: replace(asked, options={"language": read_sealed(path)["solver"]["spec"]["language"]})
        if path.exists()
        else asked
        for run, path in models.items()
    }


def asked_by_all(listed: Sequence[Asked]) -> Asked:
    """The examples in a language that has room for the programs of all."""
    if listed[0].task != "discrete":
        return listed[0]
    languages = [language_of(each.options) for each in listed]
    return replace(listed[0], options={"language": asdict(_widest(languages))})


def brought(predicted: Predicted, before: Asked, after: Asked) -> Predicted:
    """A prediction of one language in the other, which must have room for it."""
    if before.task != "discrete" or predicted.solution is None:
        return predicted
    old, new = language_of(before.options), language_of(after.options)
    if old.constants == new.constants:
        return predicted
    program = _brought(predicted.solution, old, new)
    return replace(predicted, solution=program, text=after.text(program, predicted.example))


def _widest(languages: Sequence[Language]) -> Language:
    return replace(
        languages[0],
        constants=tuple(dict.fromkeys(constant for each in languages for constant in each.constants)),
        max_operands=max(each.max_operands for each in languages),
        question_numbers=any(each.question_numbers for each in languages),
        max_span_tokens=max(each.max_span_tokens for each in languages),
        max_items=max(each.max_items for each in languages),
    )


def _brought(program: Program, old: Language, new: Language) -> Program:
    arguments = (
        Constant(new.constants.index(old.constants[each.index])) if isinstance(each, Constant) else each
        for each in program.arguments
    )
    return canonical(replace(program, arguments=tuple(arguments)))
