"""Judge a model of discrete reasoning: predictions, accuracies by type and operator, and selection over the sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.documents import open_documents
from bonafide.errors import BonafideError
from bonafide.evaluate.discrete import DiscreteOutcome, DiscretePrediction, judge, total, write_predictions
from bonafide.evaluate.selection import rank_of_gold, selection
from bonafide.examples import Example, open_examples, read_gold
from bonafide.learn.data import thinned
from bonafide.learn.discrete import gold_program, passages_of
from bonafide.learn.saved import Model
from bonafide.reconstruct.layout import tokenise
from bonafide.report.decoded import decoded, hash_of_documents
from bonafide.search.discrete import DEFAULT_CAP, example_check
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Program
from bonafide.tasks.discrete.programset import ProgramSet
from bonafide.tasks.discrete.rendering import rendered
from bonafide.tasks.discrete.search import search

Scores = npt.NDArray[np.float64]
_BATCH = 32
_MOST = 2000
"""Solutions of an example over which solver and reconstructor are ranked."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The solution set of an example, under θ and, where there is a reconstructor, under φ."""

    solutions: ProgramSet
    solver: Scores
    reconstructor: Scores | None


@dataclass(frozen=True)
class DiscreteEvaluation:
    """A model on a file of examples."""

    figures: dict[str, Any]
    outcomes: list[DiscreteOutcome]
    predictions: list[DiscretePrediction]
    ranked: dict[str, Ranked]  # by example, where there is gold


def evaluate_discrete(
    model: Model,
    run: Path,
    examples: Path,
    documents: Path | None = None,
    gold: Path | None = None,
    out: Path | None = None,
    beam: int = 1,
    progress: Callable[[int, int], None] | None = None,
    reconstruction: float = 0.0,
) -> DiscreteEvaluation:
    """Predict every example; with gold, also the programs, and selection over the solution sets.

    Predictions are written to ``out`` (default: ``predictions.jsonl`` in the run's folder). ``reconstruction``: see
    :meth:`Model.predict_all`.
    """
    source = open_documents(documents, examples)
    listed, passage_of = list(open_examples(examples, example_check(source))), passages_of(source)
    readings = {each.id: Reading(Passage(each.question), passage_of(each)) for each in listed}
    language = model.solver.spec.language
    programs = _gold(gold, examples, readings, model)
    known = {name: program for name, program in programs.items() if program is not None}
    predictions: list[DiscretePrediction] = []
    ranked: dict[str, Ranked] = {}
    cut = 0  # questions of which the model could not read all
    for start in range(0, len(listed), _BATCH):
        part = listed[start : start + _BATCH]
        for example in part:
            if example.id in known:
                ranked[example.id] = _ranked(model, example, readings[example.id])
        asked = [(readings[each.id].passage, each.question) for each in part]
        predicted = model.predict_all(asked, max(1, beam), beam, reconstruction=reconstruction)
        for example, found in zip(part, predicted, strict=True):
            cut += found[0].cut
            others = tuple((each.program, each.log_probability) for each in found[1:])
            rank, true = None, known.get(example.id)
            if true is not None:
                rank = rank_of_gold(ranked[example.id].solver, ranked[example.id].solutions, true)
            predictions.append(DiscretePrediction(example.id, found[0].program, found[0].log_probability, others, rank))
        if progress is not None:
            progress(len(predictions), len(listed))
    outcomes = [
        judge(prediction, example, readings[example.id], language, known.get(example.id), example.id in programs)
        for prediction, example in zip(predictions, listed, strict=True)
    ]
    figures = {"run": str(run), "method": model.about["recipe"]["objective"]["method"], **total(outcomes), "cut": cut}
    if known:
        figures["selection"] = _selection([ranked[name] for name in known], list(known.values()))
    path = out or run / "predictions.jsonl"
    read = hash_of_documents(source.path)
    with decoded(path, run, examples, beam, reconstruction, documents=read):
        write_predictions(path, predictions, readings.__getitem__, language)
    return DiscreteEvaluation(figures, outcomes, predictions, ranked)


def _gold(path: Path | None, examples: Path, readings: dict[str, Reading], model: Model) -> dict[str, Program | None]:
    """Gold programs by example; None for one that the solver's language has no room for."""
    if path is None:
        return {}
    gold = {name: each for name, each in read_gold(path).items() if name in readings}
    if not gold:
        raise BonafideError(f"{path} has gold for none of the examples in {examples}: it belongs to others.")
    return {name: gold_program(each, readings[name], model.solver.spec.language) for name, each in gold.items()}


def _ranked(model: Model, example: Example, reading: Reading) -> Ranked:
    """The example's solution set in the solver's language, and every solution's score under θ and φ."""
    language = model.solver.spec.language
    solutions = search(reading, example.answers, language, DEFAULT_CAP, f"0/{example.id}")
    if len(solutions) > _MOST:
        solutions = thinned(model.task, solutions, _MOST, example.id, 0)
    if not len(solutions):
        return Ranked(solutions, np.zeros(0), None if model.reconstructor is None else np.zeros(0))
    solver, explained = model.solver, None
    device = next(solver.parameters()).device
    with torch.no_grad():
        batch = solver.collate([solver.features(example.question, reading.passage, solutions)]).to(device)
        scores = solver.log_prob(solver(batch), batch).double().cpu().numpy()
        if model.reconstructor is not None:
            shown = rendered(solutions, reading, language)
            layout = tokenise(shown, example.question, model.reconstructor_tokenizer)
            ready = model.reconstructor.batch([layout], [np.arange(len(solutions))])
            explained = model.reconstructor.log_prob(ready, full_precision=True).double().cpu().numpy()
    return Ranked(solutions, scores, explained)


def _selection(ranked: Sequence[Ranked], gold: Sequence[Program]) -> dict[str, Any]:
    sets = [each.solutions for each in ranked]
    figures = {"solver": selection([each.solver for each in ranked], sets, gold).to_json()}
    explained = [each.reconstructor for each in ranked if each.reconstructor is not None]
    if len(explained) == len(ranked):
        figures["reconstructor"] = selection(explained, sets, gold).to_json()
    return figures
