"""What a perfect choice among the mentions of an answer would be worth: readers that are told what gold leaves.

    python benchmarks/ceiling.py train --data squad --out ceiling --seeds 2
    python benchmarks/ceiling.py compare ceiling/gold-as-prior-*.json --with docs/results

``train`` trains and judges the row ``mml-words`` of the table ``reading`` with gold as the prior, where it would be the
question's words: it reads the same windows, those of the wrong mentions too, and the right mention has to win against
them. Possible are the mentions that overlap gold's; where none does, as where gold names the paragraph alone, those in
that paragraph; where there is none, all. ``compare`` holds such results against the rows of the table.

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
from bonafide.learn.recipe import Recipe
from bonafide.learn.words import Floats, WordModel
from bonafide.report.subset import content_of, write_part
from bonafide.report.tabled import p_value, points
from bonafide.reproduce.compared import by_seed, difference
from bonafide.reproduce.one_run import run_job
from bonafide.reproduce.results import Result, read_result
from bonafide.reproduce.runs import Asked, planned, results_of
from bonafide.reproduce.tables import MEASURES
from bonafide.reproduce.tables import table as named_table
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


def train_told(asked: Asked) -> Counter[str]:
    """Train and judge what the row of MML with words would be; the results are beside the table's, not among them."""
    table = named_table("reading")
    data = asked.data_of(table)
    assert data is not None
    with gold_for_words(data) as counted:
        for job in planned(table, asked, report=print):
            job.content["result"] = str((asked.out / f"gold-as-prior-{job.seed}.json").resolve())
            job.content["run"] = str((asked.work / "runs" / f"gold-as-prior-{job.seed}").resolve())
            if not Path(job.content["result"]).exists():
                print(f"Seed {job.seed}.")
                run_job(job.content)
    return counted


def compared(results: list[Result], asked: Asked) -> Iterator[str]:
    """Each measure, and its difference to each row of the table, in points."""
    table = named_table("reading")
    rows = results_of(table, asked)
    together = {**rows, "these": results}
    for measure in table.measures:
        figures = ", ".join(f"{100 * each:.1f}" for each in by_seed(results, measure).values())
        yield f"{MEASURES[measure]}: {figures}"
        for row in table.rows:
            if (found := difference(together, row.name, "these", measure)) is not None:
                seeds = p_value(None if found.over_seeds is None else found.over_seeds.p)
                yield (
                    f"  to {row.label} ({len(rows[row.name])}): {points(found.difference, found.interval)}, "
                    f"p {p_value(found.over_examples)} over examples, {seeds} over seeds"
                )


def main() -> None:
    """Train, narrow a store and say what gold said, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "narrow"):
        command = commands.add_parser(name)
        command.add_argument("--data", type=Path, required=True, help="with train/, as import squad-article writes it")
        command.add_argument("--out", type=Path, required=True)
    commands.choices["narrow"].add_argument("store", type=Path)
    commands.choices["train"].add_argument("--seeds", type=int, default=1)
    commands.choices["train"].add_argument("--set", action="append", default=[], help="SECTION.KEY=VALUE of the recipe")
    command = commands.add_parser("compare")
    command.add_argument("results", type=Path, nargs="+")
    command.add_argument("--with", dest="out", type=Path, required=True, help="the folder with rows/ of the table")
    command.add_argument("--bart", default="wiki-bart-small", help="that of its rows")
    given = parser.parse_args()
    if given.command == "compare":
        results = [read_result(path) for path in given.results]
        print("\n".join(compared(results, Asked(given.out, bart=given.bart))))
        return
    if given.command == "narrow":
        found = write_narrowed(given.store, given.data, given.out)
    else:
        found = train_told(Asked(given.out, given.data, given.seeds, ("mml-words",), tuple(given.set)))
    print(", ".join(f"{found[kind]:,} by {kind}" for kind in KINDS) + f"; {found['mentions']:,} mentions possible")


if __name__ == "__main__":
    main()
