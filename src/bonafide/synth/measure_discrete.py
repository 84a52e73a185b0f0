"""How coincidental synthetic passages are at each setting of the dial.

``python -m bonafide.synth.measure_discrete`` prints the tables of ``docs/synth.md``.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bonafide.documents import Document
from bonafide.examples import Example, Gold
from bonafide.synth.discrete import generate_discrete
from bonafide.synth.domains import SPLITS
from bonafide.synth.scenes import SCENES
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import parse_program
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Operator
from bonafide.tasks.discrete.search import search


@dataclass(frozen=True, slots=True)
class Coincidence:
    """Sizes of the solution sets, and how they mislead.

    ``gold_in_set``: share of examples whose gold program is in the set. ``alone``: share where nothing else is.
    ``simpler``: share whose set holds a program with fewer operations than gold. ``other_operator``: share whose set
    holds a program with another operator.
    """

    examples: int
    mean: float
    median: float
    ninetieth: float
    largest: int
    gold_in_set: float
    alone: float
    simpler: float
    other_operator: float


def measure_discrete(
    documents: Sequence[Document],
    pairs: Sequence[tuple[Example, Gold]],
    language: Language | None = None,
    operators: Sequence[Operator] = tuple(Operator),
) -> Coincidence:
    """Search every example in ``language`` (by default the default one); of some gold ``operators`` alone."""
    language = language or Language()
    passages = {document.name: Passage(document.text) for document in documents}
    sizes: list[int] = []
    kept = alone = simpler = other = 0
    for example, gold in pairs:
        reading = Reading(Passage(example.question), passages[example.context or ""])
        program = parse_program(gold.solution["program"], reading, language)
        if program.operator not in operators:
            continue
        found = search(reading, example.answers, language)
        sizes.append(found.size)
        kept += program in found
        alone += list(found) == [program]
        simpler += any(each.operations < program.operations for each in found)
        other += any(each.operator != program.operator for each in found)
    shares = (each / len(sizes) for each in (kept, alone, simpler, other))
    ninetieth = float(np.percentile(sizes, 90))
    return Coincidence(len(sizes), statistics.mean(sizes), statistics.median(sizes), ninetieth, max(sizes), *shares)


def _row(name: str, found: Coincidence) -> str:
    sizes = f"{found.mean:.1f} | {found.median:.0f} | {found.ninetieth:.0f} | {found.largest:,}"
    shares = " | ".join(f"{each:.1%}" for each in (found.gold_in_set, found.alone, found.simpler, found.other_operator))
    return f"| {name} | {found.examples:,} | {sizes} | {shares} |"


def _main() -> None:
    heads = "examples | mean | median | p90 | largest | gold in Z | gold alone | simpler | other operator |"
    print(f"| scenes | split | dial | {heads}\n|{'---|' * 12}")
    for name, scenes in (("all", tuple(SCENES)), ("games", ("games",))):
        for split in SPLITS:
            for dial in (0.0, 0.5, 1.0):
                made = generate_discrete(
                    passages=105, questions=12, seed=0, coincidence=dial, split=split, scenes=scenes
                )
                print(_row(f"{name} | {split} | {dial}", measure_discrete(*made)))
    print(f"\n| gold | {heads}\n|{'---|' * 10}")
    made = generate_discrete(passages=420, questions=12, seed=0)
    for operator in Operator:
        print(_row(operator.name, measure_discrete(*made, operators=(operator,))))


if __name__ == "__main__":
    _main()
