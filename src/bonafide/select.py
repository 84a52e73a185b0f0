"""Pick the best-supported of several candidates for each question: ``bonafide select``.

Nothing is needed but questions, answers and candidates. A reconstructor and a solver are trained on the file itself
with MIMAX (the recipe ``text-mimax``), or a given language model is used as it is. A candidate's support is

    log P(question | context, candidate) − simplicity · words of the candidate

where runs of words that the candidate copies from the question are not shown to the model. The prior and the mask are
there because a candidate that repeats the question would explain it best of all (log P(question | context) cannot help:
it is the same for every candidate). The copy rate of each pick is reported.

*How sure*: ``confidence`` is the pick's share of the softmax of support over the question's candidates. It grows with
the margin, so it ranks picks; it is not calibrated, since nothing here knows how often a pick is right. A question
with one candidate has neither margin nor confidence.

The work is kept in a folder beside the output: the same command goes on where it was interrupted, and the output
appears when it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.examples import Example, answer_to_json, write_jsonl
from bonafide.learn.learnable import Item
from bonafide.learn.recipe import Recipe, read_recipe
from bonafide.learn.saved import Model, load
from bonafide.learn.trainer import Watcher, train
from bonafide.reconstruct.layout import tokenise
from bonafide.search.text import import_candidates
from bonafide.tasks.text.candidates import TextSet, reaching
from bonafide.tasks.text.imported import Question, read_questions
from bonafide.tasks.text.language_model import LanguageModel
from bonafide.tasks.text.words import COPIED_RUN, copy_rate, without_copies, words

Scores = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]
RECIPE = "text-mimax"
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Scored:
    """One candidate and what speaks for it."""

    text: str
    support: float
    reconstruction: float  # log P(question | context, candidate)
    log_probability: float  # of the candidate, under the solver
    votes: int  # how often it was brought
    copy_rate: float

    def to_json(self) -> dict[str, Any]:
        """As in the output; a text that the solver cannot write has no log-probability."""
        known = {name: getattr(self, name) for name in self.__slots__}
        return known | {"log_probability": self.log_probability if np.isfinite(self.log_probability) else None}


@dataclass(frozen=True, slots=True)
class Pick:
    """A question's candidates that reach the answer, best supported first."""

    example: Example
    candidates: tuple[Scored, ...]

    @property
    def best(self) -> Scored | None:
        """The pick; None where no candidate reaches the answer."""
        return self.candidates[0] if self.candidates else None

    @property
    def margin(self) -> float | None:
        """By how much the pick's support exceeds the second's, in nats; None without a second."""
        if len(self.candidates) < 2:
            return None
        return self.candidates[0].support - self.candidates[1].support

    @property
    def confidence(self) -> float | None:
        """The pick's share of the softmax of support; None without a second candidate."""
        if len(self.candidates) < 2:
            return None
        support = np.array([each.support for each in self.candidates])
        return float(1 / np.exp(support - support[0]).sum())

    @property
    def solver_rank(self) -> int | None:
        """The pick's place by the solver's likelihood, 1 the best."""
        if not self.candidates:
            return None
        return 1 + sum(each.log_probability > self.candidates[0].log_probability for each in self.candidates)

    def to_json(self) -> dict[str, Any]:
        """The line of the output."""
        best = self.best
        return {
            "id": self.example.id,
            "question": self.example.question,
            "answers": [answer_to_json(each) for each in self.example.answers],
            "picked": None if best is None else best.text,
            "confidence": self.confidence,
            "margin": self.margin,
            "solver_rank": self.solver_rank,
            "copy_rate": None if best is None else best.copy_rate,
            "candidates": [each.to_json() for each in self.candidates],
        }


def select(
    path: Path,
    out: Path,
    model: str | None = None,
    overrides: Sequence[str] = (),
    work: Path | None = None,
    watcher: Watcher | None = None,
    progress: Progress | None = None,
) -> list[Pick]:
    """Pick a candidate for each question of ``path`` and write them to ``out``.

    ``model`` is a causal or encoder–decoder language model by hub name or folder, to score without training; else
    models are trained in the folder ``work`` (default: ``out`` with the ending ``.work``) by the recipe, with
    ``section.key=value`` overrides.
    """
    questions = read_questions(path)
    if model is not None:
        picks = zero_shot(questions, model, read_recipe(RECIPE, overrides), progress)
    else:
        folder = work or out.with_suffix(".work")
        picks = _trained(path, questions, folder, overrides, watcher, progress)
    write_jsonl(out, (pick.to_json() for pick in picks))
    return picks


def _trained(
    path: Path,
    questions: Sequence[Question],
    folder: Path,
    overrides: Sequence[str],
    watcher: Watcher | None,
    progress: Progress | None,
) -> list[Pick]:
    import_candidates(path, folder / "data/train")
    places = [f"data.root={folder / 'data'}", f"data.solutions={folder / 'data/train/solutions'}"]
    recipe = read_recipe(RECIPE, [*places, *overrides])
    if recipe.objective.method != "mimax":
        raise BonafideError(
            f"select needs a reconstructor, which objective.method {recipe.objective.method!r} does not train."
        )
    run = folder / "run"
    train(recipe, run, resume=(run / "recipe.json").exists(), watcher=watcher)
    return score(load(run), questions, recipe, progress)


def score(model: Model, questions: Sequence[Question], recipe: Recipe, progress: Progress | None = None) -> list[Pick]:
    """The picks of a trained model."""
    sets = [reaching(each.candidates, each.example.answers) for each in questions]
    picks: list[Pick] = []
    for start in range(0, len(questions), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        held = [
            (question.example, candidates) for question, candidates in zip(questions[part], sets[part], strict=True)
        ]
        reconstruction, solver = _model_scores(model, held, recipe)
        picks += _picks(held, reconstruction, solver, recipe)
        if progress is not None:
            progress(len(picks), len(questions))
    return picks


def zero_shot(questions: Sequence[Question], name: str, recipe: Recipe, progress: Progress | None = None) -> list[Pick]:
    """The picks of a language model as it is."""
    held = [(each.example, reaching(each.candidates, each.example.answers)) for each in questions]
    pairs: list[tuple[str, str]] = []
    for example, candidates in held:
        given = f"{example.context}\n\n" if example.context else ""
        for text in candidates:
            shown = without_copies(text, example.question, recipe.language.copied)
            pairs.append((f"{given}Solution: {shown}\n\nQuestion:", example.question))
            pairs.append((f"{given}Question: {example.question}\n\nSolution:", text))
    scores = LanguageModel(name).log_prob(pairs, progress)
    return list(_picks(held, scores[::2], scores[1::2], recipe))


def _model_scores(model: Model, held: Sequence[tuple[Example, TextSet]], recipe: Recipe) -> tuple[Scores, Scores]:
    """(candidates,): log P_φ(q | d, z) and log P_θ(z | d, q), of all candidates end to end."""
    assert model.reconstructor is not None, "MIMAX trains one"
    full = [(example, candidates) for example, candidates in held if len(candidates)]
    if not full:
        return np.zeros(0), np.zeros(0)
    solver, device = model.solver, next(model.solver.parameters()).device
    layouts = [
        tokenise(shown, example.question, model.reconstructor_tokenizer)
        for example, candidates in full
        for shown in model.task.rendered(Item(example, example.context or "", candidates), recipe)
    ]
    with torch.no_grad():
        ready = model.reconstructor.batch(layouts, [np.arange(len(each)) for each in layouts])
        explained = model.reconstructor.log_prob(ready, full_precision=True)
        features = [solver.features(each.question, each.context or "", candidates) for each, candidates in full]
        batch = solver.collate(features).to(device)
        likely = solver.log_prob(solver(batch), batch)
    return explained.double().cpu().numpy(), likely.double().cpu().numpy()


def _picks(
    held: Sequence[tuple[Example, TextSet]], reconstruction: Scores, solver: Scores, recipe: Recipe
) -> Iterator[Pick]:
    simplicity = float(recipe.objective.options.get("simplicity", 0.0))
    place = 0
    for example, candidates in held:
        scored = []
        for text, votes in zip(candidates.texts, candidates.counts, strict=True):
            explained = float(reconstruction[place])
            support = explained - simplicity * len(words(text))
            copied = copy_rate(text, example.question, recipe.language.copied or COPIED_RUN)
            scored.append(Scored(text, support, explained, float(solver[place]), votes, copied))
            place += 1
        yield Pick(example, tuple(sorted(scored, key=lambda each: -each.support)))


def summary(picks: Sequence[Pick]) -> dict[str, Any]:
    """How many questions have a pick, how sure the picks are, and how much they copy."""
    found = [pick.best for pick in picks if pick.best is not None]
    sure = [pick.confidence for pick in picks if pick.confidence is not None]
    return {
        "questions": len(picks),
        "picked": len(found),
        "single_candidate": sum(len(pick.candidates) == 1 for pick in picks),
        "median_confidence": float(np.median(sure)) if sure else 0.0,
        "mean_copy_rate": float(np.mean([each.copy_rate for each in found])) if found else 0.0,
        "agrees_with_solver": sum(pick.solver_rank == 1 for pick in picks) / max(1, len(found)),
    }
