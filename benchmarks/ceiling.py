"""What a perfect choice among the mentions of an answer would be worth: sets that hold what gold leaves possible.

    bonafide subset solutions --largest 0.192 --out most
    python benchmarks/ceiling.py most --data squad --out narrowed
    bonafide train squad-article-hard-em --set data.root=squad --set data.solutions=narrowed --set data.largest=1.0 \
        --out runs/ceiling

Of each set those mentions are kept that overlap gold's; where none does, as where gold names the paragraph alone, those
in that paragraph, among which HardEM has to choose; where none is left, all. A reader that is trained so says about
what a perfect choice of mentions would give on the same questions. It is trained on gold: nothing that learns from
answers may read such a store.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.examples import Gold, read_gold
from bonafide.learn.learnable import learnable
from bonafide.report.subset import content_of, write_part
from bonafide.tasks.reading.span import MentionSet, parse_gold

KINDS = ("gold's mention", "gold's paragraph", "nothing")
"""What gold says of a set."""


def possible(mentions: MentionSet, gold: Gold, document: Document) -> tuple[np.ndarray, str]:
    """The places of the mentions that gold leaves possible, and by which of :data:`KINDS`."""
    said = parse_gold(gold.solution, document)
    right, kind = said.overlap(mentions), KINDS[0]
    if not right.any():
        right, kind = mentions.paragraph == said.paragraph, KINDS[1]
    if not right.any():
        right, kind = ~right, KINDS[2]
    return np.flatnonzero(right), kind


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
            kept, kind = possible(mentions, gold[name], split.context_of(examples[name]))
            counted[kind] += 1
            counted["mentions"] += len(kept)
            yield name, replace(task.picked(mentions, kept), size=len(kept), complete=True)

    write_part(whole, out, {"narrowed by gold": content_of(whole)}, sets(), len(whole))
    return counted


def main() -> None:
    """Narrow a store, and say by what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train/, as import squad-article writes")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = write_narrowed(given.store, given.data, given.out)
    print(", ".join(f"{found[kind]:,} by {kind}" for kind in KINDS) + f"; {found['mentions']:,} mentions left")


if __name__ == "__main__":
    main()
