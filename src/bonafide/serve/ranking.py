"""The solutions that reach an answer, scored by the solver θ and by the reconstructor φ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.learn.saved import Model
from bonafide.reconstruct.layout import tokenise
from bonafide.serve.asked import Kind

Scores = npt.NDArray[np.float64]
_AT_ONCE = 128
"""Solutions that φ scores in one go: questions that wait are answered in between."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A solution set; log P of each solution under θ and, where there is a reconstructor, of the question under φ."""

    solutions: Any
    solver: Scores
    reconstructor: Scores | None

    def page(self, order: str, offset: int, limit: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """(place in the set, scores and ranks) of the solutions on a page; ranks count from 1."""
        by_solver = _ranks(self.solver)
        by_reconstructor = None if self.reconstructor is None else _ranks(self.reconstructor)
        ranks = by_solver if order == "solver" or by_reconstructor is None else by_reconstructor
        for place in np.argsort(ranks, kind="stable")[offset : offset + limit].tolist():
            scores = {"solver_rank": int(by_solver[place]), "solver_log_probability": _finite(self.solver[place])}
            if self.reconstructor is not None and by_reconstructor is not None:
                scores["reconstructor_rank"] = int(by_reconstructor[place])
                scores["reconstructor_log_probability"] = _finite(self.reconstructor[place])
            yield place, scores


def steps(model: Model, kind: Kind, solutions: Any, context: Any, question: str) -> list[Callable[[], Scores]]:
    """The work of scoring a set in parts: first all solutions under θ, then some at a time under φ."""
    places = np.arange(len(solutions))
    parts = [places[start : start + _AT_ONCE] for start in range(0, len(places), _AT_ONCE)]
    work: list[Callable[[], Scores]] = [lambda: _under_solver(model, solutions, context, question)]
    if model.reconstructor is not None:
        work += [
            lambda part=part: _under_reconstructor(model, kind, model.task.picked(solutions, part), context, question)  # type: ignore[misc]
            for part in parts
        ]
    return work


def joined(model: Model, solutions: Any, scores: list[Scores]) -> Ranked:
    """The results of :func:`steps` together."""
    first, *others = scores
    return Ranked(solutions, first, None if model.reconstructor is None else np.concatenate([np.zeros(0), *others]))


def _under_solver(model: Model, solutions: Any, context: Any, question: str) -> Scores:
    if not len(solutions):
        return np.zeros(0)
    solver = model.solver
    with torch.no_grad():
        batch = solver.collate([solver.features(question, context, solutions)])
        if not len(getattr(batch, "lengths", (1,))):  # a text of signs that the encoder does not know: nothing is read
            return np.full(len(solutions), -np.inf)
        batch = batch.to(next(solver.parameters()).device)
        scores: Scores = solver.log_prob(solver(batch), batch).double().cpu().numpy()
    return scores


def _under_reconstructor(model: Model, kind: Kind, solutions: Any, context: Any, question: str) -> Scores:
    assert model.reconstructor is not None
    sets = kind.rendered(model, solutions, context, question)
    layouts = [tokenise(each, question, model.reconstructor_tokenizer) for each in sets]
    with torch.no_grad():
        batch = model.reconstructor.batch(layouts, [np.arange(len(each)) for each in layouts])
        scores: Scores = model.reconstructor.log_prob(batch, full_precision=True).double().cpu().numpy()
    return scores


def _ranks(scores: Scores) -> npt.NDArray[np.int64]:
    """1 for the best; solutions with the same score keep their order."""
    ranks = np.empty(len(scores), np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks


def _finite(score: float) -> float | None:
    return float(score) if math.isfinite(score) else None
