"""Pick the best-supported of several candidates for each question: ``bonafide select``.

Nothing is needed but questions, answers and candidates. A reconstructor learns from the questions to use the words it
reads (``learn/fragments.py``), then it and a solver are trained on the file itself with MIMAX (the recipe
``text-mimax``); or a given language model is used as it is. A candidate's support is

    log P(question | context, candidate) − simplicity · words of the candidate + vote weight · log votes

where runs of words that the candidate copies from the question are not shown to the model. The prior and the mask are
there because a candidate that repeats the question would explain it best of all (log P(question | context) cannot help:
it is the same for every candidate). The copy rate of each pick is reported.

*Votes* say how likely the sampler finds a candidate. Whether that speaks for it is asked of the file, without gold
(:func:`vote_weight`): where the candidates that explain their questions are the frequent ones, votes count, and where
they are not, as with a sampler of bad habits, votes count nothing.

*How sure*: ``confidence`` is the pick's share of the softmax of support over the question's candidates. It grows with
the margin, so it ranks picks; it is not calibrated, since nothing here knows how often a pick is right. A question
with one candidate has neither margin nor confidence.

The work is kept in a folder beside the output: the same command goes on where it was interrupted, and the output
appears when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.examples import Example, answer_to_json, write_jsonl
from bonafide.files import check_writable, content_hash
from bonafide.learn.fragments import BATCH, save_taught, teach, without_bars
from bonafide.learn.learnable import Item
from bonafide.learn.learned_from import check_learned_from
from bonafide.learn.methods import build_objective
from bonafide.learn.recipe import Recipe, read_recipe
from bonafide.learn.runfolder import check_same
from bonafide.learn.saved import Model, load
from bonafide.learn.steps import Watcher
from bonafide.learn.trainer import train
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.layout import tokenise
from bonafide.sealed import read_sealed, vouched, write_sealed
from bonafide.search.text import import_candidates
from bonafide.tasks.text.candidates import TextSet, reaching
from bonafide.tasks.text.imported import Question, read_questions
from bonafide.tasks.text.language_model import LanguageModel
from bonafide.tasks.text.words import COPIED_RUN, copy_rate, without_copies, words

Scores = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]
RECIPE = "text-mimax"
FRAGMENTS = 800
"""Fragments that the reconstructor sees before the candidates, for each epoch over these, however small the file is; of
a large one, a fragment of each question at least."""
_NOTE = "taught.json"
_AT_ONCE = 32
_WEIGHTS = np.arange(0.0, 8.25, 0.25).tolist()


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
    vote_weight: float = 0.0  # of log votes in the support, the same for the whole file
    left_out: int = 0  # candidates that arrive at another answer

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
            "vote_weight": self.vote_weight,
            "copy_rate": None if best is None else best.copy_rate,
            "left_out": self.left_out,
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
    if out.exists() and out.samefile(path):
        raise BonafideError(f"--out is the file of the candidates, {path}: it would be overwritten. Name another one.")
    folder = work or out.with_suffix(".work")
    if model is None and folder == out:
        raise BonafideError(f"--out is {out}, the folder of the models that are trained. Name another file.")
    check_writable(out)
    if model is not None:
        picks = zero_shot(questions, model, read_recipe(RECIPE, overrides), progress)
    else:
        picks = _trained(path, questions, folder, overrides, watcher, progress)
    picks = [
        replace(pick, left_out=len(each.candidates) - sum(scored.votes for scored in pick.candidates))
        for pick, each in zip(picks, questions, strict=True)
    ]
    with vouched(out):
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
    import_candidates(path, folder / "data/train", folder)
    places = [f"data.root={folder / 'data'}", f"data.solutions={folder / 'data/train/solutions'}"]
    recipe = read_recipe(RECIPE, [*places, *overrides])
    if not build_objective(recipe.objective.method, recipe.objective.options).needs_reconstructor:
        raise BonafideError(
            f"select needs a reconstructor, which objective.method {recipe.objective.method!r} does not train."
        )
    held = _held(questions)
    if not any(len(candidates) for _, candidates in held):
        return _picks(held, np.zeros(0), np.zeros(0), recipe)  # nothing to choose from, nor to learn from
    run, taught, scratch = folder / "run", folder / "reconstructor", recipe
    teaches = recipe.reconstructor.kind == "t-scratch"
    if teaches:
        recipe = replace(recipe, reconstructor=replace(recipe.reconstructor, kind="bart", path=str(taught)))
    resume = (run / "recipe.json").exists()
    if resume:
        check_same(run, read_sealed(run / "recipe.json"), recipe)
        check_learned_from(run, recipe)
    if teaches:
        _teach(questions, scratch, taught, progress)
    with without_bars():
        train(recipe, run, resume=resume, watcher=watcher)
    return score(load(run), questions, recipe, progress)


def _teach(questions: Sequence[Question], recipe: Recipe, folder: Path, progress: Progress | None) -> None:
    """Write a reconstructor that has learned to use what it reads, from the questions alone, where it is not there."""
    options, seed = recipe.reconstructor, recipe.train.seed
    steps = math.ceil(max(FRAGMENTS * recipe.train.epochs, len(questions)) / BATCH)
    asked = [(each.example.question, each.example.context or "") for each in questions]
    candidates = [one.text for each in questions for one in each.candidates]
    made = {**asdict(options), "steps": steps, "rate": recipe.train.reconstructor_rate, "seed": seed}
    made["texts"] = hashlib.sha256(json.dumps([asked, candidates]).encode()).hexdigest()
    if not _is_taught(folder, made):
        texts = [text for pair in asked for text in pair if text] + candidates
        spec = ReconstructorSpec(
            layers=options.layers,
            width=options.width,
            heads=options.heads,
            feed_forward=4 * options.width,
            dropout=options.dropout,
        )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        reconstructor, tokenizer = build_reconstructor(spec, texts=texts, seed=seed, device=device)
        teach(reconstructor, tokenizer, asked, steps, recipe.train.reconstructor_rate, seed, progress)
        save_taught(folder, reconstructor, tokenizer)
        hashes = {each.name: content_hash(each) for each in sorted(folder.glob("*")) if each.name != _NOTE}
        write_sealed(folder / _NOTE, {"made": made, "files": hashes})


def _is_taught(folder: Path, made: dict[str, Any]) -> bool:
    """Whether the reconstructor that was made so is there; refused where one of its files is not as it was written."""
    note = read_sealed(folder / _NOTE) if (folder / _NOTE).exists() else {}
    if note.get("made") != made:
        return False
    for name, sha256 in note["files"].items():
        if not (folder / name).exists() or content_hash(folder / name) != sha256:
            raise BonafideError(
                f"{folder / name} is damaged: it is not as it was written. Bring back a copy of it, or delete {folder} "
                "and run the command again."
            )
    return True


def _held(questions: Sequence[Question]) -> list[tuple[Example, TextSet]]:
    return [(each.example, reaching(each.candidates, each.example.answers)) for each in questions]


def score(model: Model, questions: Sequence[Question], recipe: Recipe, progress: Progress | None = None) -> list[Pick]:
    """The picks of a trained model."""
    held = _held(questions)
    parts: list[tuple[Scores, Scores]] = []
    for start in range(0, len(held), _AT_ONCE):
        parts.append(_model_scores(model, held[start : start + _AT_ONCE], recipe))
        if progress is not None:
            progress(min(start + _AT_ONCE, len(held)), len(held))
    reconstruction, solver = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _picks(held, reconstruction, solver, recipe)


def zero_shot(questions: Sequence[Question], name: str, recipe: Recipe, progress: Progress | None = None) -> list[Pick]:
    """The picks of a language model as it is."""
    held = _held(questions)
    pairs: list[tuple[str, str]] = []
    for example, candidates in held:
        given = f"{example.context}\n\n" if example.context else ""
        for text in candidates:
            shown = without_copies(text, example.question, recipe.language.copied)
            pairs.append((f"{given}Solution: {shown}\n\nQuestion:", example.question))
            pairs.append((f"{given}Question: {example.question}\n\nSolution:", text))
    scores = LanguageModel(name).log_prob(pairs, progress)
    return _picks(held, scores[::2], scores[1::2], recipe)


def _model_scores(model: Model, held: Sequence[tuple[Example, TextSet]], recipe: Recipe) -> tuple[Scores, Scores]:
    """(candidates,): log P_φ(q | d, z) and log P_θ(z | d, q), of all candidates end to end."""
    assert model.reconstructor is not None, "the method trains one"
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


def vote_weight(support: Sequence[Scores], votes: Sequence[Scores]) -> float:
    """The α for which the questions are likeliest, if the solution of each is drawn in proportion to votes^α.

    One array a question; ``support`` is the logarithm of how well each candidate explains it. α has an exponential
    prior with mean 1, so that few questions do not make votes decide; being frequent is never held against a candidate.
    """
    known = [(each, np.log(count)) for each, count in zip(support, votes, strict=True) if len(each) > 1]
    if not known:
        return 0.0
    explained, logs = (np.concatenate(each) for each in zip(*known, strict=True))
    starts = np.cumsum([0, *(len(each) for each, _ in known)])[:-1]

    def posterior(weight: float) -> float:
        drawn = _log_sums(explained + weight * logs, starts) - _log_sums(weight * logs, starts)
        return float(drawn.sum()) - weight

    return float(max(_WEIGHTS, key=posterior))


def _log_sums(values: Scores, starts: npt.NDArray[np.int64]) -> Scores:
    """(questions,): log Σ exp of the values from each start to the next."""
    most = np.maximum.reduceat(values, starts)
    shares = np.exp(values - np.repeat(most, np.diff([*starts, len(values)])))
    found: Scores = most + np.log(np.add.reduceat(shares, starts))
    return found


def _picks(
    held: Sequence[tuple[Example, TextSet]], reconstruction: Scores, solver: Scores, recipe: Recipe
) -> list[Pick]:
    simplicity = float(recipe.objective.options.get("simplicity", 0.0))
    ends = np.cumsum([len(candidates) for _, candidates in held])[:-1]
    lengths = np.array([len(words(text)) for _, candidates in held for text in candidates], np.float64)
    support = np.split(reconstruction - simplicity * lengths, ends)
    votes = [np.array(candidates.counts, np.float64) for _, candidates in held]
    weight = vote_weight(support, votes)
    picks = []
    for (example, candidates), plain, brought, explained, likely in zip(
        held, support, votes, np.split(reconstruction, ends), np.split(solver, ends), strict=True
    ):
        supported = plain + weight * np.log(brought)
        scored = [
            Scored(
                text,
                float(supported[place]),
                float(explained[place]),
                float(likely[place]),
                candidates.counts[place],
                copy_rate(text, example.question, recipe.language.copied or COPIED_RUN),
            )
            for place, text in enumerate(candidates)
        ]
        picks.append(Pick(example, tuple(sorted(scored, key=lambda each: -each.support)), weight))
    return picks


def summary(picks: Sequence[Pick]) -> dict[str, Any]:
    """How many questions have a pick, how many candidates were left out, how sure the picks are, how much they copy."""
    found = [pick.best for pick in picks if pick.best is not None]
    sure = [pick.confidence for pick in picks if pick.confidence is not None]
    return {
        "questions": len(picks),
        "picked": len(found),
        "left_out": sum(pick.left_out for pick in picks),
        "single_candidate": sum(len(pick.candidates) == 1 for pick in picks),
        "vote_weight": picks[0].vote_weight,
        "median_confidence": float(np.median(sure)) if sure else None,
        "mean_copy_rate": float(np.mean([each.copy_rate for each in found])) if found else 0.0,
        "agrees_with_solver": sum(pick.solver_rank == 1 for pick in picks) / max(1, len(found)),
    }
