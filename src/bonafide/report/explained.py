"""How well the solutions of a set explain their question, under the reconstructor and the solver of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.examples import Example
from bonafide.learn import draws
from bonafide.learn.learnable import Item
from bonafide.learn.reading import rendered_mention
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.saved import Model
from bonafide.learn.text import rendered_texts
from bonafide.reconstruct.layout import tokenise
from bonafide.rendering import RenderedSet, together
from bonafide.report.predicted import Asked
from bonafide.report.runs import load_for_evaluation
from bonafide.tasks.discrete.rendering import rendered as rendered_programs
from bonafide.tasks.discrete.rendering import rendered_program
from bonafide.tasks.discrete.task import language_of
from bonafide.tasks.sql.rendering import rendered_query

Scores = npt.NDArray[np.float64]
MOST = 2000
"""Solutions of an example that are scored; of more, a uniform sample with the one that is asked about."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A solution set under φ: log P_φ(question | solution). ``agrees``: θ favours the same solution.

    ``place`` is that of the solution that was asked about; where it is not in the set, ``outside`` is its score.
    """

    solutions: Sequence[Any]
    scores: Scores  # (solutions,)
    place: int | None
    outside: float | None
    agrees: bool


@dataclass(frozen=True)
class Explainer:
    """The model of a run that has a reconstructor, for one file of examples."""

    model: Model
    asked: Asked
    recipe: Recipe

    @classmethod
    def open(cls, run: Path, asked: Asked) -> Explainer:
        """The model of a run."""
        model = load_for_evaluation(run)
        if model.reconstructor is None:
            raise BonafideError(
                f"{run} has no reconstructor, so it cannot say which solution explains a question: expected a run of a "
                "method that trains one, such as mimax. It may be of another method than the predictions."
            )
        if model.task.name != asked.task:
            raise BonafideError(f"{run} is of the task {model.task.name!r}; the solutions are of {asked.task!r}.")
        return cls(model, asked, recipe_from(model.about["recipe"], str(run)))

    def explain(self, example: Example, solutions: Any, asked: Any = None) -> Explained | None:
        """Every solution of a set; None where there is none."""
        if not len(solutions):
            return None
        place = None if asked is None else solutions.index_of(asked)
        if len(solutions) > MOST:
            chance = np.random.default_rng(draws.key(f"audit/{example.id}"))
            kept = set(chance.choice(len(solutions), MOST, replace=False).tolist())
            places = np.array(sorted(kept if place is None else kept | {place}))
            solutions = self.model.task.picked(solutions, places)
            place = None if place is None else int(np.searchsorted(places, place))
        rendered = self._rendered(example, solutions)
        scores = self.reconstructed(example, rendered)
        outside = None
        if asked is not None and place is None:
            beside = together([*rendered, self.rendered_one(example, asked)])
            outside = float(self.reconstructed(example, beside)[-1])
        agrees = bool(self._solved(example, solutions).argmax() == scores.argmax())
        return Explained(solutions, scores, place, outside, agrees)

    def _rendered(self, example: Example, solutions: Any) -> list[RenderedSet]:
        context = self.asked.context(example)
        if self.asked.task == "discrete":
            return [rendered_programs(solutions, context, language_of(self.asked.options))]
        return self.model.task.rendered(Item(example, context, solutions), self.recipe)

    def rendered_one(self, example: Example, solution: Any) -> RenderedSet:
        """A solution as the reconstructor reads it, in the set or not."""
        context = self.asked.context(example)
        if self.asked.task == "sql":
            return rendered_query(solution, context, verbalised=self.recipe.reconstructor.verbalised)
        if self.asked.task == "discrete":
            return rendered_program(solution, context, language_of(self.asked.options))
        if self.asked.task == "text":
            return rendered_texts([solution], example.question, context, self.recipe.language.copied)
        return rendered_mention(solution, context)

    def reconstructed(self, example: Example, shown: Sequence[RenderedSet]) -> Scores:
        """log P_φ(question | solution) of all solutions of some sets, one after the other."""
        reconstructor = self.model.reconstructor
        assert reconstructor is not None
        layouts = [tokenise(each, example.question, self.model.reconstructor_tokenizer) for each in shown]
        with torch.no_grad():
            batch = reconstructor.batch(layouts, [np.arange(len(each)) for each in layouts])
            scores: Scores = reconstructor.log_prob(batch, full_precision=True).double().cpu().numpy()
        return scores

    def _solved(self, example: Example, solutions: Any) -> Scores:
        solver, context = self.model.solver, self.asked.context_of(example)
        device = next(solver.parameters()).device
        with torch.no_grad():
            batch = solver.collate([solver.features(example.question, context, solutions)]).to(device)
            scores: Scores = solver.log_prob(solver(batch), batch).double().cpu().numpy()
        return scores
