"""The demo of discrete reasoning: passages about games, HardEM and MIMAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bonafide.documents import open_documents
from bonafide.examples import Example, open_examples, read_gold
from bonafide.learn.discrete import passages_of
from bonafide.report.demo import Files, small_recipe
from bonafide.report.learning import Entry, Learned, Shown, Words, choose_examples
from bonafide.report.runs import load_for_evaluation, selections_over_time
from bonafide.report.runs_discrete import evaluate_discrete
from bonafide.search.discrete import search_discrete
from bonafide.synth.discrete import DiscreteBenchmark, write_discrete_benchmark
from bonafide.synth.domains import Split
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import formula, parse_program
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Program
from bonafide.tasks.discrete.rendering import rendered_program

_DATA = 'task = "discrete"\ndev_examples = 60'
_SOLVER = "head_width = 96"
_QUESTIONS = 12


@dataclass(frozen=True)
class DiscreteDemo:
    """Implements :class:`bonafide.report.demo.Demo`; one scene, so that a small model learns it within minutes."""

    passages: int = 80
    dev_passages: int = 20
    coincidence: float = 1.0
    epochs: float = 12.0
    switch: float = 11.0
    scenes: tuple[str, ...] = ("games",)

    words = Words("passages", "program", "Operators", ("value", "subtract", "count", "spans", "max"))

    @property
    def methods(self) -> dict[str, str]:
        """HardEM, and MIMAX as in the paper."""
        return {
            "HardEM": small_recipe("hard-em", self.epochs, _DATA, _SOLVER),
            "MIMAX": small_recipe("mimax", self.epochs, _DATA, _SOLVER, options=f"switch = {self.switch}"),
        }

    def write(self, root: Path, seed: int) -> tuple[DiscreteBenchmark, DiscreteBenchmark]:
        """Passages of one scene with questions."""

        def split(name: Split, passages: int) -> DiscreteBenchmark:
            return write_discrete_benchmark(
                root / name, seed, passages, _QUESTIONS, self.coincidence, name, self.scenes
            )

        return split("train", self.passages), split("dev", self.dev_passages)

    def search(self, examples: Path, store: Path, progress: Callable[[float], None]) -> None:
        """Every program."""
        found = 0

        def searched(count: int, solutions: int) -> None:
            nonlocal found
            found += count
            progress(found / (self.passages * _QUESTIONS))

        search_discrete(examples, store, progress=searched)

    def learned(self, name: str, run: Path, train: Files, dev: Files) -> Learned:
        """Answers and programs on dev; what was chosen from the sets."""
        done = evaluate_discrete(load_for_evaluation(run), run, dev.examples, gold=dev.gold)
        figures = {
            "right answer": done.figures["execution"]["share"],
            "right solution": done.figures["logical_form"]["share"],
            "gold chosen from the set": done.figures["selection"]["solver"]["accuracy"]["share"],
        }
        predicted = {each.example: each.program for each in done.predictions}
        return Learned(name, run, figures, predicted, selections_over_time(run, train.gold))

    def shown(self, methods: Sequence[Learned], dev: Files) -> list[Shown]:
        """Programs of ten questions."""
        examples, language = list(open_examples(dev.examples)), Language()
        passage_of, known = passages_of(open_documents(None, dev.examples)), read_gold(dev.gold)
        readings = {each.id: Reading(Passage(each.question), passage_of(each)) for each in examples}
        gold = {
            each.id: parse_program(known[each.id].solution["program"], readings[each.id], language) for each in examples
        }

        def entry(name: str, example: Example, program: Program, right: bool) -> Entry:
            reading = readings[example.id]
            return Entry(name, formula(program, reading, language), right, rendered_program(program, reading, language))

        return choose_examples(methods, examples, gold, entry)

    def about(self, seed: int, train: Files, dev: Files) -> str:
        """What was learned from, and measured on."""
        return (
            f"{self.passages * _QUESTIONS:,} training questions on {self.passages} synthetic passages (seed {seed}); "
            f"figures on {self.dev_passages * _QUESTIONS:,} questions about passages, names and some phrasings that "
            "were held out."
        )
