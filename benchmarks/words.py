"""How often the reconstructor of single words (`learn/words.py`), which is not trained, finds gold among all solutions.

    python benchmarks/words.py wikisql-hard-mimax+ --data data --solutions solutions
    python benchmarks/words.py squad-article-mimax --data squad --solutions squad-solutions --questions 1000

Asked are train questions of a recipe (`--questions`: a sample) with at least two solutions and gold among them. Without
`--solutions` they are searched. Chance: what drawing one of the solutions would find.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.examples import read_gold
from bonafide.learn.data import load_training_data, word_scores
from bonafide.learn.learnable import learnable
from bonafide.learn.recipe import read_recipe
from bonafide.learn.words import WordModel

FIRST = (1, 5, 10, 30, 60, 100)
ALL = 10**9


def measured(recipe_name: str, overrides: list[str], questions: int) -> dict[str, float]:
    """Questions, seconds of one core, chance, and for each of ``FIRST`` the share with gold among so many."""
    recipe = read_recipe(recipe_name, [*overrides, f"data.max_solutions={ALL}"])
    task = learnable(recipe.data.task)
    gold = read_gold(Path(recipe.data.root, recipe.data.train, "gold.jsonl"))
    with tempfile.TemporaryDirectory() as folder:
        items = load_training_data(recipe, Path(folder)).items
    words = WordModel(item.example.question for item in items)
    asked = random.Random(0).sample(items, min(questions, len(items)))
    better, chance, started = [], [], time.process_time()
    for item in asked:
        place = task.place_of_gold(gold[item.example.id], item, recipe) if item.example.id in gold else None
        if place is None or len(item.solutions) < 2:
            continue
        scores = word_scores(task, item, recipe, words)
        first = int((scores > scores[place]).sum() + (scores[:place] == scores[place]).sum())
        better.append(first)
        chance.append(1 / len(scores))
    found = {f"first {count}": float(np.mean(np.array(better) < count)) for count in FIRST}
    seconds = time.process_time() - started
    return {"questions": len(better), "seconds": seconds, "chance": float(np.mean(chance)), **found}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--data", required=True)
    parser.add_argument("--solutions", default="")
    parser.add_argument("--questions", type=int, default=2000)
    options = parser.parse_args()
    overrides = [f"data.root={options.data}", f"data.solutions={options.solutions}"]
    for name, figure in measured(options.recipe, overrides, options.questions).items():
        shown = f"{figure:.1f}" if name == "seconds" else f"{figure:,}" if name == "questions" else f"{figure:.1%}"
        print(f"{name:>10}  {shown}")


if __name__ == "__main__":
    main()
