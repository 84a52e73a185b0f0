"""What a perfect choice among the mentions of an answer would be worth: readers that are told what gold leaves.

    python benchmarks/ceiling.py train --data squad --out runs/ceiling
    bonafide evaluate runs/ceiling --examples squad/dev/examples.jsonl --gold squad/dev/gold.jsonl

``train`` is ``squad-article-mml`` whose prior is gold, where it would be the question's words: it reads the same
windows, those of the wrong mentions too, and the right mention has to win against them. Possible are the mentions that
overlap gold's; where none does, as where gold names the paragraph alone, those in that paragraph; where there is none,
all.

    bonafide subset solutions --largest 0.192 --out most
    python benchmarks/ceiling.py narrow most --data squad --out narrowed
    bonafide train squad-article-hard-em --set data.root=squad --set data.solutions=narrowed --set data.largest=1.0 \
        --out runs/narrowed

``narrow`` leaves out what is not possible instead. Then the windows of wrong mentions are not read either, and what is
left of a question are two windows instead of fourteen: that is no ceiling, as its figures say.

Both are trained on gold: nothing that learns from answers may be taught so.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.examples import Gold, read_gold
from bonafide.learn import building
from bonafide.learn.learnable import Item, Learnable, learnable
from bonafide.learn.recipe import Recipe, read_recipe
from bonafide.learn.trainer import train
from bonafide.learn.words import Floats, WordModel
from bonafide.report.subset import content_of, write_part
from bonafide.tasks.reading.span import MentionSet, parse_gold

KINDS = ("gold's mention", "gold's paragraph", "nothing")
"""What gold says of a set."""
_IMPOSSIBLE = -1e4
"""Of the logarithm of a prior."""


def possible(mentions: MentionSet, gold: Gold, document: Document, counted: Counter[str]) -> np.ndarray:
    """The places of the mentions that gold leaves possible; counts them, and by which of :data:`KINDS` they are."""
    said = parse_gold(gold.solution, document)
    right, kind = said.overlap(mentions), KINDS[0]
    if not right.any():
        right, kind = mentions.paragraph == said.paragraph, KINDS[1]
    if not right.any():
        right, kind = ~right, KINDS[2]
    counted.update({kind: 1, "mentions": int(right.sum())})
    return np.flatnonzero(right)


@contextmanager
def gold_for_words(data: Path) -> Iterator[Counter[str]]:
    """Gold speaks where the question's words would, in all training within; counts by what it spoke."""
    gold, counted = read_gold(data / "train" / "gold.jsonl"), Counter[str]()

    def scores(task: Learnable, item: Item, recipe: Recipe, words: WordModel) -> Floats:
        prior = np.full(len(item.solutions), _IMPOSSIBLE)
        prior[possible(item.solutions, gold[item.example.id], item.context, counted)] = 0.0
        return prior

    with patch.object(building, "word_scores", scores):
        yield counted


def write_narrowed(store: Path, data: Path, out: Path) -> Counter[str]:
    """Write the narrowed sets of a store of mentions; returns how many were narrowed by what, and what is left."""
    task = learnable("reading")
    split = task.open_split(data / "train")
    gold, whole, counted = read_gold(data / "train" / "gold.jsonl"), task.open_store(store), Counter[str]()
    examples = {example.id: example for example in split.file}
    if missing := [name for name in whole.ids if name not in gold]:
        raise BonafideError(f"There is no gold for {len(missing):,} examples of {store}, such as {missing[0]!r}.")
    if out.exists():
        raise BonafideError(f"{out} is already there. Name another folder, or delete it first.")

    def sets() -> Iterator[tuple[str, MentionSet]]:
        for name, mentions in whole:
            kept = possible(mentions, gold[name], split.context_of(examples[name]), counted)
            yield name, replace(task.picked(mentions, kept), size=len(kept), complete=True)

    write_part(whole, out, {"narrowed by gold": content_of(whole)}, sets(), len(whole))
    return counted


def main() -> None:
    """Train, or narrow a store, and say what gold said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "narrow"):
        command = commands.add_parser(name)
        command.add_argument("--data", type=Path, required=True, help="with train/, as import squad-article writes it")
        command.add_argument("--out", type=Path, required=True)
    commands.choices["narrow"].add_argument("store", type=Path)
    commands.choices["train"].add_argument("--set", action="append", default=[], help="SECTION.KEY=VALUE of the recipe")
    given = parser.parse_args()
    if given.command == "narrow":
        found = write_narrowed(given.store, given.data, given.out)
    else:
        settings = [f"data.root={given.data}", "objective.options.words=1.0", *given.set]
        with gold_for_words(given.data) as found:
            train(read_recipe("squad-article-mml", settings), given.out)
    print(", ".join(f"{found[kind]:,} by {kind}" for kind in KINDS) + f"; {found['mentions']:,} mentions possible")


if __name__ == "__main__":
    main()
