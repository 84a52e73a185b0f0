"""What a vote on the order of predictions gives: of the reconstructor, of single words, of solutions that agree.

    python benchmarks/votes.py runs/a --data data --beam 20 --guided
    python benchmarks/votes.py runs/a --data squad --beam 20 --questions 2000 --weights 0 0.1 0.3 1

Of the ``--beam`` likeliest solutions of each dev question the best by log P(z | d, q) + w · vote is taken, where the
vote is log P(q | d, z) by the reconstructor (where the run has one) or by `learn/words.py`; or what the others of the
same answer add to log P(z | d, q): w = 1 is the likeliest answer, by its likeliest solution. Printed for each weight w:
right solutions among the questions whose gold is known, right answers, F1 where a task has it, and these over the
questions with at least two solutions if ``--solutions`` has the dev questions' sets.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.examples import Example, read_gold
from bonafide.learn.learnable import learnable
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.saved import Model
from bonafide.learn.words import WordModel
from bonafide.report.predicted import asked_beside
from bonafide.report.runs import load_for_evaluation
from bonafide.reproduce.judged import is_gold
from bonafide.tasks.reading.metrics import normalised

BATCH = 64
Figures = dict[tuple[str, float], dict[str, list[float]]]


def measured(
    run: Path, data: Path, weights: Sequence[float], beam: int, guided: bool, questions: int, solutions: Path | None
) -> dict[tuple[str, float], dict[str, float]]:
    """By voter and weight: the share of right solutions and answers."""
    model = load_for_evaluation(run)
    recipe = recipe_from(model.about["recipe"], "the model")
    folder = data / "dev"
    asked, gold = asked_beside(model.task.name, folder / "examples.jsonl", run), {}
    if (folder / "gold.jsonl").exists():
        gold = read_gold(folder / "gold.jsonl")
    split = learnable(model.task.name).open_split(folder)
    several: set[str] = set()
    if solutions is not None:
        store = model.task.open_store(solutions)
        several = {name for name, size in zip(store.ids, store.sizes.tolist(), strict=True) if size > 1}
    train = learnable(model.task.name).open_split(data / "train")
    words = WordModel(example.question for example in train.file)
    examples = list(split.file)
    examples = random.Random(0).sample(examples, min(questions, len(examples)))
    found: Figures = defaultdict(lambda: defaultdict(list))
    for start in range(0, len(examples), BATCH):
        part = examples[start : start + BATCH]
        contexts = [split.context_of(example) for example in part]
        listed = [(context, example.question) for context, example in zip(contexts, part, strict=True)]
        made = model.predict_all(listed, beam, beam, guided)
        votes = {"words": [_by_words(model, each, *one, words, recipe) for each, one in zip(made, listed, strict=True)]}
        votes["answer"] = [by_answer(each) for each in made]
        if model.reconstructor is not None:
            votes["reconstructor"] = model.explained(listed, made)
        for place, (example, predictions) in enumerate(zip(part, made, strict=True)):
            likely = np.array([each.log_probability for each in predictions])
            for voter, vote in votes.items():
                for weight in weights:
                    first = [predictions[int(np.argmax(likely + weight * vote[place]))]] if predictions else []
                    _count(found[voter, weight], model, asked, gold, example, first, example.id in several)
    return {key: {name: float(np.mean(each)) for name, each in figures.items()} for key, figures in found.items()}


def by_answer(predictions: Sequence[Any]) -> np.ndarray[Any, Any]:
    """(predictions,): log P(its answer | d, q), of these predictions, less log P(z | d, q)."""
    likely = np.array([each.log_probability for each in predictions])
    answers = [_answer(each) for each in predictions]
    same = np.array([[one == other for other in answers] for one in answers]).reshape(len(likely), len(likely))
    if not len(likely):
        return likely
    # A little less than all of it: of those with one answer the likeliest stays the first.
    return np.logaddexp.reduce(np.where(same, likely, -np.inf), axis=1) - (1 - 1e-9) * likely


def _answer(prediction: Any) -> Any:
    """What answers are compared by: texts as they are judged."""
    answer = prediction.answer
    if isinstance(answer, str):
        return normalised(answer)
    return sorted(map(str, answer)) if isinstance(answer, list | tuple) else answer


def _by_words(
    model: Model, predictions: Sequence[Any], context: Any, question: str, words: WordModel, recipe: Recipe
) -> np.ndarray[Any, Any]:
    """(predictions,): those of one context are held against each other."""
    scores = np.zeros(len(predictions))
    for places, shown in model.shown(context, question, predictions, recipe):
        scores[places] = words.log_prob(question, shown)
    return scores


def _count(
    figures: dict[str, list[float]],
    model: Model,
    asked: Any,
    gold: dict[str, Any],
    example: Example,
    first: list[Any],
    several: bool,
) -> None:
    scores = model.task.scores(first[0], example) if first else {}
    right = {"answer": scores.get("execution", 0.0)}
    if model.task.name in ("discrete", "reading"):
        right["F1"] = scores.get("f1", 0.0)
    if example.id in gold:
        known, right_one = is_gold(asked, first, asked.gold(gold[example.id], example))
        if known:
            right["solution"] = float(right_one)
    for name, value in right.items():
        figures[name].append(value)
        if several:
            figures[f"{name}, several"].append(value)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=float, nargs="+", default=[0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0])
    parser.add_argument("--beam", type=int, default=20)
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--questions", type=int, default=10**9)
    parser.add_argument("--solutions", type=Path)
    options = parser.parse_args()
    settings = (options.weights, options.beam, options.guided, options.questions, options.solutions)
    for (voter, weight), figures in sorted(measured(options.run, options.data, *settings).items()):
        shown = ", ".join(f"{name} {value:.1%}" for name, value in sorted(figures.items()))
        print(f"{voter:>13} {weight:<5g} {shown}")


if __name__ == "__main__":
    main()
