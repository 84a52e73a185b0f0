"""Judge a text solver: the answer that its text states, the text against gold, and selection among the candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.evaluate.selection import selection
from bonafide.evaluate.sql import Accuracy
from bonafide.examples import Example, open_examples, read_gold, write_jsonl
from bonafide.learn.learnable import Item
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model
from bonafide.learn.text import TextAnswer, gold_texts
from bonafide.reconstruct.layout import tokenise
from bonafide.report.decoded import decoded
from bonafide.sealed import vouched
from bonafide.search.text import example_check
from bonafide.tasks.text.candidates import FILE_NAME, CandidateFile, TextSet, candidates_beside, reaching
from bonafide.tasks.text.words import normalised

Scores = npt.NDArray[np.float64]
_BATCH = 32


@dataclass(frozen=True)
class TextEvaluation:
    """A text solver on a file of examples."""

    figures: dict[str, Any]
    answers: dict[str, list[TextAnswer]]  # by example, best first


def evaluate_text(
    model: Model,
    run: Path,
    examples: Path,
    gold: Path | None = None,
    out: Path | None = None,
    beam: int = 1,
    progress: Callable[[int, int], None] | None = None,
    reconstruction: float = 0.0,
) -> TextEvaluation:
    """Write a text for every example; with gold, also whether it is a gold text, and selection among the candidates.

    Selection needs ``candidates.jsonl`` beside the examples. Predictions are written to ``out`` (default:
    ``predictions.jsonl`` in the run's folder). ``reconstruction``: see :meth:`Model.predict_all`.
    """
    listed = list(open_examples(examples, example_check(None)))
    known = {name: gold_texts(each) for name, each in (read_gold(gold) if gold is not None else {}).items()}
    judged = [each for each in listed if each.id in known]
    if gold is not None and not judged:
        raise BonafideError(f"{gold} has gold for none of the examples in {examples}: it belongs to others.")
    answers: dict[str, list[TextAnswer]] = {}
    for start in range(0, len(listed), _BATCH):
        part = listed[start : start + _BATCH]
        asked = [(each.context or "", each.question) for each in part]
        found = model.predict_all(asked, max(1, beam), beam, reconstruction=reconstruction)
        answers |= {each.id: predictions for each, predictions in zip(part, found, strict=True)}
        if progress is not None:
            progress(len(answers), len(listed))
    right = sum(bool(model.task.scores(answers[each.id][0], each)["execution"]) for each in listed)
    figures: dict[str, Any] = {
        "run": str(run),
        "method": model.about["recipe"]["objective"]["method"],
        "examples": len(listed),
        "execution": Accuracy(right, len(listed)).to_json(),
    }
    if judged:
        said = [normalised(answers[each.id][0].text) in map(normalised, known[each.id]) for each in judged]
        figures["logical_form"] = Accuracy(sum(said), len(judged)).to_json()
        if any((examples.parent / f"{FILE_NAME}{suffix}").exists() for suffix in ("", ".gz", ".xz")):
            figures["selection"] = _selection(model, judged, known, CandidateFile(candidates_beside(examples)))
    path = out or run / "predictions.jsonl"
    with decoded(path, run, examples, beam, reconstruction), vouched(path):
        write_jsonl(path, (_line(each, answers[each.id]) for each in listed))
    return TextEvaluation(figures, answers)


def _line(example: Example, found: Sequence[TextAnswer]) -> dict[str, Any]:
    def entry(answer: TextAnswer) -> dict[str, Any]:
        return {"text": answer.text, "answer": answer.answer, "log_probability": answer.log_probability}

    return {"example": example.id, **entry(found[0]), "alternatives": [entry(each) for each in found[1:]]}


def _selection(
    model: Model, judged: Sequence[Example], gold: dict[str, tuple[str, ...]], candidates: CandidateFile
) -> dict[str, Any]:
    """How often the best of the candidates under θ and under φ is a gold text; all gold texts count as the best one."""
    sets, solver, reconstructor, true = [], [], [], []
    for example in judged:
        if example.id not in candidates:
            continue
        solutions = reaching(candidates[example.id], example.answers)
        if not len(solutions):
            continue
        likely, explained = _scores(model, example, solutions)
        sets.append(solutions)
        solver.append(likely)
        reconstructor.append(explained)
        true.append(gold[example.id])
    figures = {"solver": selection(solver, sets, _best_gold(solver, sets, true)).to_json()}
    known = [each for each in reconstructor if each is not None]
    if known and len(known) == len(sets):
        figures["reconstructor"] = selection(known, sets, _best_gold(known, sets, true)).to_json()
    return figures


def _best_gold(scores: Sequence[Scores], sets: Sequence[TextSet], gold: Sequence[tuple[str, ...]]) -> list[str | None]:
    """Of several texts that are gold, the one with the highest score."""
    found: list[str | None] = []
    for each, solutions, texts in zip(scores, sets, gold, strict=True):
        places = [place for text in texts if (place := solutions.index_of(text)) is not None]
        found.append(solutions[max(places, key=lambda place: each[place])] if places else None)
    return found


def _scores(model: Model, example: Example, solutions: TextSet) -> tuple[Scores, Scores | None]:
    """(candidates,): log P_θ(z | d, q) and, where there is a reconstructor, log P_φ(q | d, z)."""
    solver, context = model.solver, example.context or ""
    device = next(solver.parameters()).device
    with torch.no_grad():
        batch = solver.collate([solver.features(example.question, context, solutions)]).to(device)
        likely = solver.log_prob(solver(batch), batch).double().cpu().numpy()
        if model.reconstructor is None:
            return likely, None
        recipe = recipe_from(model.about["recipe"], "the model")
        layouts = [
            tokenise(shown, example.question, model.reconstructor_tokenizer)
            for shown in model.task.rendered(Item(example, context, solutions), recipe)
        ]
        ready = model.reconstructor.batch(layouts, [np.arange(len(each)) for each in layouts])
        return likely, model.reconstructor.log_prob(ready, full_precision=True).double().cpu().numpy()
