"""The demo of the reading task: documents in which every answer stands in several places; three methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bonafide.documents import open_documents
from bonafide.examples import Example, open_examples, read_gold
from bonafide.learn.reading import rendered_mention
from bonafide.report.demo import Files, small_recipe
from bonafide.report.learning import Entry, Learned, Shown, Words, choose_examples
from bonafide.report.runs import load_for_evaluation, selections_over_time
from bonafide.report.runs_reading import evaluate_reading
from bonafide.search.reading import search_reading
from bonafide.synth.domains import Split
from bonafide.synth.reading import PLAIN, ReadingBenchmark, write_reading_benchmark
from bonafide.tasks.reading.span import Mention, parse_gold

_DATA = 'task = "reading"\ndev_examples = 24'
_SOLVER = "window = 128\nstride = 128"


@dataclass(frozen=True)
class ReadingDemo:
    """Implements :class:`bonafide.report.demo.Demo`; few topics, so that a small model learns it within minutes."""

    documents: int = 300
    dev_documents: int = 40
    questions: int = 3
    decoys: int = 3
    topics: tuple[str, ...] = ("ships", "plays")
    epochs: float = 7.0
    switch: float = 3.5

    words = Words("documents", "mention", "Mentions", ("first_mention", "first_paragraph"))

    @property
    def methods(self) -> dict[str, str]:
        """First-only, HardEM, and MIMAX as in the paper."""
        return {
            "First-only": small_recipe("first-only", self.epochs, _DATA, _SOLVER),
            "HardEM": small_recipe("hard-em", self.epochs, _DATA, _SOLVER),
            "MIMAX": small_recipe("mimax", self.epochs, _DATA, _SOLVER, options=f"switch = {self.switch}"),
        }

    def write(self, root: Path, seed: int) -> tuple[ReadingBenchmark, ReadingBenchmark]:
        """Documents of a few topics with questions; ``plain`` is like dev, but each answer stands in one place."""

        def split(name: Split, documents: int, plain: bool = False) -> ReadingBenchmark:
            folder, decoys = (root / PLAIN, 0) if plain else (root / name, self.decoys)
            return write_reading_benchmark(folder, seed, documents, self.questions, decoys, name, self.topics)

        split("dev", self.dev_documents, plain=True)
        return split("train", self.documents), split("dev", self.dev_documents)

    def search(self, examples: Path, store: Path, progress: Callable[[float], None]) -> None:
        """Every mention."""
        search_reading(examples, store)
        progress(1.0)

    def learned(self, name: str, run: Path, train: Files, dev: Files) -> Learned:
        """Answers, paragraphs and mentions on dev, answers where there are no decoys; what was chosen from the sets."""
        model, beside = load_for_evaluation(run), dev.examples.parent.with_name(PLAIN) / dev.examples.name
        done = evaluate_reading(model, run, dev.examples, gold=dev.gold)
        plain = evaluate_reading(model, run, beside, out=run / f"predictions-{PLAIN}.jsonl")
        figures = {
            "right answer": done.figures["execution"]["share"],
            "right answer, no decoys": plain.figures["execution"]["share"],
            "right paragraph": done.figures["paragraph"]["share"],
            "right solution": done.figures["mention"]["share"],
            "gold chosen from the set": done.figures["selection"]["solver"]["accuracy"]["share"],
        }
        predicted = {name: None if each is None else each.mention for name, each in done.answers.items()}
        return Learned(name, run, figures, predicted, selections_over_time(run, train.gold))

    def shown(self, methods: Sequence[Learned], dev: Files) -> list[Shown]:
        """Mentions of ten questions."""
        source = open_documents(None, dev.examples)
        examples = list(open_examples(dev.examples))
        known = read_gold(dev.gold)
        gold = {each.id: parse_gold(known[each.id].solution, source.document_of(each)).mentions[0] for each in examples}

        def entry(name: str, example: Example, mention: Mention, right: bool) -> Entry:
            document = source.document_of(example)
            text = document.paragraphs[mention.paragraph]
            low, high = max(0, mention.start - 40), mention.end + 40
            before, said, after = text[low : mention.start], mention.text(document), text[mention.end : high]
            return Entry(name, f"…{before}[{said}]{after}…", right, rendered_mention(mention, document))

        return choose_examples(methods, examples, gold, entry)

    def about(self, seed: int, train: Files, dev: Files) -> str:
        """What was learned from, and measured on."""
        return (
            f"{self.documents * self.questions:,} training questions on {self.documents} synthetic documents (seed "
            f"{seed}), each answer standing in {self.decoys + 1} places; figures on "
            f"{self.dev_documents * self.questions:,} questions about documents, names and some phrasings that were "
            "held out. Without decoys each answer stands in one place, so nothing but the question leads to it."
        )
