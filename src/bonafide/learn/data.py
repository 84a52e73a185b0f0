"""What a training run reads: examples with their solution sets, and the dev examples that steer it.

Gold is read in one place only, for the supervised upper bound, where it takes the place of the solution sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.examples import Example, ExampleFile, read_gold
from bonafide.files import content_hash
from bonafide.learn import draws
from bonafide.learn.kept import Integers, writing_kept
from bonafide.learn.learnable import Item, Learnable, Started, learnable, speaking
from bonafide.learn.methods import build_objective
from bonafide.learn.recipe import Data, Recipe
from bonafide.learn.words import Floats, WordModel
from bonafide.search.run import Progress
from bonafide.solutions import SolutionStore


@dataclass(frozen=True, slots=True)
class Dev:
    """The dev examples that are decoded at each evaluation, and where their contexts are found."""

    examples: list[Example]
    context_of: Callable[[Example], Any]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The items to train on, the dev split, the options of the solution store, and what was left out on the way."""

    items: list[Item]
    dev: Dev | None
    store: dict[str, Any]
    report: dict[str, Any]
    words: WordModel | None = None  # where the objective chooses by it


def load_training_data(
    recipe: Recipe,
    out: Path,
    progress: Progress | None = None,
    started: Started | None = None,
    kept: Path | None = None,
) -> TrainingData:
    """Read everything that a run learns from; search for the solutions first where no store is named.

    ``kept``: where to write which solutions of the store are used (``kept.py``); of gold, which is in none, nothing.
    """
    task = learnable(recipe.data.task)
    root = Path(recipe.data.root)
    if not recipe.data.root or not root.is_dir():
        raise BonafideError(
            f"data.root must be a folder with {recipe.data.train}/examples.jsonl and its contexts; found "
            f"{recipe.data.root!r}. Give it with --set data.root=FOLDER."
        )
    split = task.open_split(root / recipe.data.train)
    dev = open_dev(recipe)  # its errors before the search
    store = _store(task, recipe, split.file, out, progress, started)
    speaking(task, store.manifest["options"])
    sizes = dict(zip(store.ids, store.sizes.tolist(), strict=True))
    hardest = _largest(sizes, recipe.data.largest)
    contexts: dict[str, Any] = {}
    items: list[Item] = []
    empty = capped = 0
    solved = recipe.objective.method == "supervised"
    gold = read_gold(root / recipe.data.train / "gold.jsonl") if solved else {}
    objective = build_objective(recipe.objective.method, recipe.objective.options)
    chooses = any(getattr(objective, name, 0.0) > 0 for name in ("words", "told"))
    words = None
    if chooses or recipe.data.likeliest:
        words = WordModel(example.question for example in split.file if example.id in hardest)
    sets = iter(store)
    with nullcontext() if kept is None or solved else writing_kept(kept) as note:
        for example in split.file:
            if example.id not in sizes:
                continue  # the store is a part of one: bonafide subset
            name, solutions = next(sets)
            assert name == example.id, "the store follows the examples file, by its hash"
            if name not in hardest:
                continue
            key = example.context or ""
            if key not in contexts:
                contexts[key] = split.context_of(example)
            if solved:
                if name not in gold:
                    continue
                solutions = task.gold_set(gold[name], example, contexts[key], recipe)
            item, places = Item(example, contexts[key], solutions), None
            if not len(solutions):
                empty += 1
                continue
            if len(solutions) > recipe.data.max_solutions:
                places = _cut(task, item, recipe, words)
                item = replace(item, solutions=task.picked(solutions, places))
                capped += 1
            if note is not None:
                note(name, len(solutions), places)
            items.append(item)
        if not items:
            raise BonafideError(
                "No training example has a solution: there is nothing to learn from. Look at the search."
            )
    report = {
        "examples": split.file.count,
        "used": len(items),
        "without_solution": empty,
        "capped": capped,
        "solutions": int(sum(len(item.solutions) for item in items)),
        "search": store.manifest["options"],
        "largest": recipe.data.largest,
        "gold": solved,
    }
    return TrainingData(items, dev, store.manifest["options"], report, words if chooses else None)


def likeliest_sets(recipe: Recipe, store: SolutionStore[Any]) -> Iterator[tuple[str, Any]]:
    """The sets of a store, which may be a part of one, cut as ``data.likeliest`` cuts them where a run reads them."""
    task = speaking(learnable(recipe.data.task), store.manifest["options"])
    split = task.open_split(Path(recipe.data.root) / recipe.data.train)
    kept = set(store.ids)
    words = WordModel(example.question for example in split.file if example.id in kept)
    examples = (example for example in split.file if example.id in kept)
    for example, (name, solutions) in zip(examples, store, strict=True):
        item = Item(example, split.context_of(example), solutions)
        if len(solutions) > recipe.data.max_solutions:
            solutions = task.picked(solutions, _likeliest(task, item, recipe, words))
        yield name, solutions


def word_scores(task: Learnable, item: Item, recipe: Recipe, words: WordModel) -> Floats:
    """(solutions,): log P of the question's words under each solution."""
    question = item.example.question
    return np.concatenate([words.log_prob(question, shown) for shown in task.rendered(item, recipe)] or [np.zeros(0)])


def thinned(task: Learnable, solutions: Any, most: int, name: str, seed: int, simplest: float = 0.0) -> Any:
    """A uniform sample of a set, in order, by a seed that depends on the example.

    ``simplest``: this share of it are the solutions with the fewest operations, drawn where several have as many.
    """
    return task.picked(solutions, _sample(task, solutions, most, name, seed, simplest))


def _cut(task: Learnable, item: Item, recipe: Recipe, words: WordModel | None) -> Integers:
    """The places of the solutions of a set that are used, ascending."""
    data = recipe.data
    if data.likeliest and words is not None:
        return _likeliest(task, item, recipe, words)
    return _sample(task, item.solutions, data.max_solutions, item.example.id, recipe.train.seed, data.simplest)


def _likeliest(task: Learnable, item: Item, recipe: Recipe, words: WordModel) -> Integers:
    """Those that make the question's words likeliest; of equal ones, the first."""
    order = np.argsort(-word_scores(task, item, recipe, words), kind="stable")
    return np.sort(order[: recipe.data.max_solutions])


def _sample(task: Learnable, solutions: Any, most: int, name: str, seed: int, simplest: float) -> Integers:
    chance = np.random.default_rng(draws.key(f"{seed}/kept/{name}"))
    if not simplest:
        return np.sort(chance.choice(len(solutions), most, replace=False))
    first = round(simplest * most)
    shuffled = chance.permutation(len(solutions))
    order = shuffled[np.argsort(task.operations(solutions)[shuffled], kind="stable")]
    others = chance.choice(order[first:], most - first, replace=False)
    return np.sort(np.concatenate([order[:first], others]))


def _store(
    task: Learnable,
    recipe: Recipe,
    file: ExampleFile,
    out: Path,
    progress: Progress | None,
    started: Started | None,
) -> SolutionStore[Any]:
    if recipe.data.solutions:
        store = task.open_store(Path(recipe.data.solutions))
    else:
        task.search(recipe, file, out / "solutions", progress, started)
        store = task.open_store(out / "solutions")
    if store.manifest["task"] != task.name:
        raise BonafideError(
            f"The solution store {store.folder} is of the task {store.manifest['task']!r}; this recipe's data.task is "
            f"{task.name!r}."
        )
    if store.manifest["inputs"]["examples"][0]["sha256"] != file.sha256:
        raise BonafideError(
            f"The solution store {store.folder} does not belong to {file.path}: it was searched over other examples. "
            "Name the right store with --set data.solutions=FOLDER, or leave it out to search anew."
        )
    _check_contexts(store, file.path.parent)
    return store


def _check_contexts(store: SolutionStore[Any], folder: Path) -> None:
    """Solutions point into their contexts: in others they would say something else."""
    inputs = store.manifest["inputs"]
    for kind in ("tables", "documents"):
        if not inputs.get(kind) or not inputs.get("jsonl", True):  # in the examples; or the user's own CSV files
            continue
        names = [folder / f"{kind}.jsonl{suffix}" for suffix in ("", ".gz", ".xz")]
        path = next((each for each in names if each.exists()), names[0])
        if not path.exists() or content_hash(path) != inputs[kind][0]["sha256"]:
            raise BonafideError(
                f"The solution store {store.folder} does not belong to {path}: it was "
                f"searched over other {kind}. Search anew, or bring back the {kind} that were searched."
            )


def _largest(sizes: dict[str, float], share: float) -> set[str]:
    order = sorted(sizes, key=lambda name: -sizes[name])
    return set(order[: max(1, round(share * len(order)))])


def open_dev(recipe: Recipe) -> Dev | None:
    """The dev questions that a recipe has decoded during training; None where it has none."""
    folder = Path(recipe.data.root, recipe.data.dev)
    if not recipe.data.dev:
        return None
    if not folder.is_dir():
        if recipe.data.dev == Data().dev:
            return None
        raise BonafideError(f"data.dev is {recipe.data.dev!r}, and there is no folder {folder}.")
    split = learnable(recipe.data.task).open_split(folder)
    examples = list(split.file)
    if recipe.data.dev_examples:
        examples = examples[: recipe.data.dev_examples]
    return Dev(examples, split.context_of)
