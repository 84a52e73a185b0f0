"""How often the reconstructor of single words (`learn/words.py`), which is not trained, finds gold among all solutions.

    python benchmarks/words.py wikisql-hard-mimax+ --data data --solutions solutions
    python benchmarks/words.py squad-article-mimax --data squad --solutions squad-solutions --questions 1000
    python benchmarks/words.py wikisql-hard-mimax+ --data data --solutions solutions --kept 60

Asked are train questions of a recipe (`--questions`: a sample) with at least two solutions and gold among them. Without
`--solutions` they are searched. Chance: what drawing one of the solutions would find. With `--kept`, of SQL: the mix of
aggregates among so many solutions of a question, drawn at random and the likeliest, by the aggregate of its gold query.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.examples import read_gold
from bonafide.learn.data import load_training_data, word_scores
from bonafide.learn.learnable import Item, learnable
from bonafide.learn.recipe import Recipe, read_recipe
from bonafide.learn.words import WordModel

FIRST = (1, 5, 10, 30, 60, 100)
ALL = 10**9


def measured(recipe_name: str, overrides: list[str], questions: int) -> dict[str, float]:
    """Questions, seconds of one core, chance, and for each of ``FIRST`` the share with gold among so many."""
    recipe = read_recipe(recipe_name, [*overrides, f"data.max_solutions={ALL}"])
    better, chance, started = [], [], 0.0
    for _, place, scores in scored(recipe, questions):
        started = started or time.process_time()
        first = int((scores > scores[place]).sum() + (scores[:place] == scores[place]).sum())
        better.append(first)
        chance.append(1 / len(scores))
    found = {f"first {count}": float(np.mean(np.array(better) < count)) for count in FIRST}
    seconds = time.process_time() - started
    return {"questions": len(better), "seconds": seconds, "chance": float(np.mean(chance)), **found}


def scored(recipe: Recipe, questions: int) -> Iterator[tuple[Item, int, Any]]:
    """Questions with at least two solutions and gold among them: gold's place, and how likely each makes the words."""
    task = learnable(recipe.data.task)
    gold = read_gold(Path(recipe.data.root, recipe.data.train, "gold.jsonl"))
    with tempfile.TemporaryDirectory() as folder:
        items = load_training_data(recipe, Path(folder)).items
    words = WordModel(item.example.question for item in items)
    for item in random.Random(0).sample(items, min(questions, len(items))):
        places = task.places_of_gold(gold[item.example.id], item, recipe) if item.example.id in gold else []
        if places and len(item.solutions) > 1:
            yield item, places[0], word_scores(task, item, recipe, words)


def mixes(recipe_name: str, overrides: list[str], questions: int, kept: int) -> dict[tuple[str, str], dict[str, float]]:
    """By gold's aggregate and by what is kept: the mean shares of the aggregates, and how many questions there are."""
    recipe = read_recipe(recipe_name, [*overrides, f"data.max_solutions={ALL}"])
    task, chance = learnable(recipe.data.task), np.random.default_rng(0)
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for item, place, scores in scored(recipe, questions):
        own = task.mix([(item.solutions, place)])
        name = next(each for each, share in own.items() if share == 1)
        order = np.argsort(-scores, kind="stable")
        for how, places in (("at random", chance.permutation(len(scores))), ("likeliest", order)):
            found[name, how].append(task.mix([(item.solutions, each) for each in places[:kept].tolist()]))
    return {
        key: {"questions": len(each), **{name: float(np.mean([one[name] for one in each])) for name in each[0]}}
        for key, each in found.items()
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--data", required=True)
    parser.add_argument("--solutions", default="")
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--kept", type=int)
    options = parser.parse_args()
    overrides = [f"data.root={options.data}", f"data.solutions={options.solutions}"]
    if options.kept:
        for (name, how), shares in sorted(mixes(options.recipe, overrides, options.questions, options.kept).items()):
            mix = ", ".join(f"{each} {share:.3f}" for each, share in shares.items() if each != "questions")
            print(f"gold {name}, {options.kept} {how} ({shares['questions']:,.0f} questions): {mix}")
        return
    for name, figure in measured(options.recipe, overrides, options.questions).items():
        shown = f"{figure:.1f}" if name == "seconds" else f"{figure:,}" if name == "questions" else f"{figure:.1%}"
        print(f"{name:>10}  {shown}")


if __name__ == "__main__":
    main()
