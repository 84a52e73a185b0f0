"""The model's part of the explorer: scores of solutions, and of the question's tokens, from a trained run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.explore.workspace import Opened
from bonafide.learn.learnable import Item
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.saved import Model, load
from bonafide.reconstruct.layout import Layout, tokenise
from bonafide.rendering import RenderedSet
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.rendering import rendered as rendered_programs

Floats = npt.NDArray[np.float64]
_SOLVED_AT_ONCE = 4096


def load_model(run: Path) -> tuple[Model, Recipe]:
    """The model of a run, on the CPU, and its recipe."""
    model = load(run)
    return model, recipe_from(model.about["recipe"], str(run))


def solver_scores(model: Model, opened: Opened, count: int) -> Floats:
    """(count,): log P_θ(z | d, q) of the first solutions; −inf where the solver cannot produce one."""
    if not count:
        return np.zeros(0)
    solver, parts = model.solver, []
    with torch.inference_mode():
        for start in range(0, count, _SOLVED_AT_ONCE):
            places = np.arange(start, min(count, start + _SOLVED_AT_ONCE))
            some = _picked(model, opened, places).solutions if count > _SOLVED_AT_ONCE else _first(model, opened, count)
            batch = solver.collate([solver.features(opened.example.question, opened.context, some)])
            parts.append(solver.log_prob(solver(batch), batch).double().cpu().numpy())
    return np.concatenate(parts)


class Layouts:
    """An example's first solutions as the reconstructor reads them; tokenised once, scored in parts."""

    def __init__(self, model: Model, recipe: Recipe, opened: Opened, count: int) -> None:
        self._model = model
        self._layouts: list[Layout] = []
        if model.reconstructor is not None and count:
            self._layouts = [
                tokenise(each, opened.example.question, model.reconstructor_tokenizer)
                for each in _rendered(model, recipe, opened, count)
            ]
        self._starts = np.cumsum([0, *map(len, self._layouts)])

    @property
    def tokens(self) -> int:
        """Of the question; what is longer than the reconstructor's positions is not scored, and not counted."""
        return len(self._question()) if self._layouts else 0

    def scores(self, start: int, end: int) -> Floats:
        """(end − start,): log P_φ(q | d, z) of these solutions."""
        reconstructor = self._model.reconstructor
        assert reconstructor is not None
        layouts, places = self._between(start, end)
        with torch.inference_mode():
            scores = reconstructor.log_prob(reconstructor.batch(layouts, places), full_precision=True)
        found: Floats = scores.double().cpu().numpy()
        return found

    def token_scores(self, place: int) -> tuple[npt.NDArray[np.int32], Floats]:
        """The question's tokens, and the log-probability of each given one solution."""
        reconstructor = self._model.reconstructor
        assert reconstructor is not None
        layouts, places = self._between(place, place + 1)
        with torch.inference_mode():
            scores = reconstructor.token_log_prob(reconstructor.batch(layouts, places), full_precision=True)
        return self._question(), scores[0].double().cpu().numpy()

    def _question(self) -> npt.NDArray[np.int32]:
        assert self._model.reconstructor is not None
        return self._layouts[0].question[: self._model.reconstructor.markers.positions]

    def _between(self, start: int, end: int) -> tuple[list[Layout], list[npt.NDArray[np.int64]]]:
        layouts, places = [], []
        for layout, first in zip(self._layouts, self._starts.tolist(), strict=False):
            low, high = max(start, first) - first, min(end, first + len(layout)) - first
            if low < high:
                layouts.append(layout)
                places.append(np.arange(low, high))
        return layouts, places


def token_scores(model: Model, recipe: Recipe, opened: Opened, places: Sequence[int]) -> tuple[list[str], Floats]:
    """The question's tokens as text, and (solutions, tokens): the log-probability of each given each solution."""
    tokenizer = model.reconstructor_tokenizer
    rows = []
    question: npt.NDArray[np.int32] = np.zeros(0, np.int32)
    for place in places:
        one = _picked(model, opened, np.array([place]))
        layouts = Layouts(model, recipe, one, 1)
        question, scores = layouts.token_scores(0)
        rows.append(scores[: len(question) - 1])
    return [tokenizer.decode([token]) for token in question.tolist()[:-1]], np.stack(rows)


def _rendered(model: Model, recipe: Recipe, opened: Opened, count: int) -> list[RenderedSet]:
    solutions = _first(model, opened, count)
    if model.task.name == "discrete":  # the solver knows the language that the run learned
        reading = Reading(Passage(opened.example.question), opened.context)
        return [rendered_programs(solutions, reading, model.solver.spec.language)]
    return model.task.rendered(Item(opened.example, opened.context, solutions), recipe)


def _first(model: Model, opened: Opened, count: int) -> Any:
    if count >= len(opened.solutions):
        return opened.solutions
    return model.task.picked(opened.solutions, np.arange(count))


def _picked(model: Model, opened: Opened, places: npt.NDArray[np.int64]) -> Opened:
    solutions = model.task.picked(opened.solutions, places)
    return Opened(opened.row, opened.example, opened.context, solutions, opened.gold)
