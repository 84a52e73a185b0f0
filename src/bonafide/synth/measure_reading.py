"""How misleading synthetic documents are, by the number of decoys.

``python -m bonafide.synth.measure_reading`` prints the table of ``docs/reading.md``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bonafide.documents import Document
from bonafide.examples import Example, Gold
from bonafide.synth.domains import SPLITS
from bonafide.synth.reading import generate
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import Mention, parse_gold


@dataclass(frozen=True, slots=True)
class Misleading:
    """Sizes of the mention sets, and how often a simple rule picks the genuine mention.

    ``gold_in_set``: share of examples whose gold mention is in the set. ``first``: share where it is the first.
    ``alike``: share where its sentence has the most words of the question, ties counting as wrong.
    """

    examples: int
    words: float
    mean: float
    gold_in_set: float
    first: float
    alike: float


def measure(documents: Sequence[Document], pairs: Sequence[tuple[Example, Gold]]) -> Misleading:
    """Search every example, and try the rules."""
    indexes = {document.name: DocumentIndex(document, Matching()) for document in documents}
    sizes = found = first = alike = 0
    for example, gold in pairs:
        index = indexes[example.context or ""]
        mentions = search(example.answers, index)
        place = parse_gold(gold.solution, index.document).place_in(mentions)
        sizes += mentions.size
        found += place is not None
        first += place == 0
        shared = [_words_in_common(mention, index.document, example.question) for mention in mentions]
        alike += place is not None and shared[place] > max((*shared[:place], *shared[place + 1 :]), default=-1)
    words = sum(len(document.text.split()) for document in documents) / len(documents)
    count = len(pairs)
    return Misleading(count, words, sizes / count, found / count, first / count, alike / count)


def _words_in_common(mention: Mention, document: Document, question: str) -> int:
    paragraph = document.paragraphs[mention.paragraph]
    start = paragraph.rfind(". ", 0, mention.start) + 2 if ". " in paragraph[: mention.start] else 0
    stop = paragraph.find(". ", mention.end)
    sentence = paragraph[start : stop if stop >= 0 else len(paragraph)]
    return len(set(re.findall(r"\w+", sentence.lower())) & set(re.findall(r"\w+", question.lower())))


def _main() -> None:
    print(
        "| split | decoys | examples | words a document | mentions | gold in Z | first is gold | most alike is gold |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for split in SPLITS:
        for decoys in (0, 1, 3, 5):
            found = measure(*generate(documents=120, questions=8, seed=0, decoys=decoys, split=split))
            shares = " | ".join(f"{each:.1%}" for each in (found.gold_in_set, found.first, found.alike))
            print(f"| {split} | {decoys} | {found.examples:,} | {found.words:.0f} | {found.mean:.1f} | {shares} |")


if __name__ == "__main__":
    _main()
