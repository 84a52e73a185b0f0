"""Learning discrete reasoning: what the trainer asks of the task of programs over passages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bonafide.documents import Document, DocumentSource, open_documents
from bonafide.errors import BonafideError
from bonafide.examples import Example, ExampleFile, Gold, open_examples
from bonafide.learn.learnable import Integers, Item, SolverModule, Split, Started
from bonafide.rendering import RenderedSet
from bonafide.search.discrete import example_check, search_discrete
from bonafide.search.run import Progress
from bonafide.solutions import SolutionStore
from bonafide.tasks.discrete.execution import Value, execute
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.metrics import score, value_texts
from bonafide.tasks.discrete.notation import formula, parse_program, program_text
from bonafide.tasks.discrete.options import Readable
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Operator, Program
from bonafide.tasks.discrete.programset import ProgramSet, program_set
from bonafide.tasks.discrete.rendering import rendered, rendered_program
from bonafide.tasks.discrete.solver import DiscreteSolver, DiscreteSpec, build_discrete_solver
from bonafide.tasks.discrete.task import ProgramCodec, language_of

if TYPE_CHECKING:
    from bonafide.learn.recipe import Recipe

_KEPT_PASSAGES = 4096
_ANY_SIZE = 1 << 30


@dataclass(frozen=True, slots=True)
class DiscreteLanguageOptions:
    """The programs of a search that the run makes itself; what they mean is said in ``tasks/discrete/language.py``."""

    max_operands: int = 3
    operands: str = "alike"
    question_numbers: bool = True
    max_choices: int = 35

    def __post_init__(self) -> None:
        if self.operands not in ("alike", "any"):
            raise BonafideError(f"language.operands: expected alike or any, found {self.operands!r}.")
        self.language()

    def language(self) -> Language:
        """The language of these options."""
        return Language(
            max_operands=self.max_operands,
            operands="any" if self.operands == "any" else "alike",
            question_numbers=self.question_numbers,
            max_choices=self.max_choices,
        )


@dataclass(frozen=True, slots=True)
class DiscreteAnswer:
    """A program that answers a question, what it returns, and how likely the solver finds it."""

    program: Program
    reading: Reading
    language: Language
    log_probability: float
    read: Readable  # what the solver read of question and passage; less than all where they are very long

    @property
    def solution(self) -> Program:
        """The program."""
        return self.program

    @property
    def text(self) -> str:
        """The program in readable syntax."""
        return program_text(self.program, self.reading, self.language)

    @property
    def formula(self) -> str:
        """The program as a person would write it."""
        return formula(self.program, self.reading, self.language)

    @property
    def value(self) -> Value:
        """What it returns."""
        return execute(self.program, self.reading, self.language)

    @property
    def answer(self) -> tuple[str, ...]:
        """What it returns, as texts: one, or several spans."""
        return value_texts(self.value)

    @property
    def confidence(self) -> float:
        """P_θ(z | d, q)."""
        return math.exp(self.log_probability)

    @property
    def cut(self) -> bool:
        """Whether something was not read."""
        return self.read != Readable(len(self.reading.question), len(self.reading.passage))


class DiscreteLearning:
    """Implements :class:`bonafide.learn.learnable.Learnable`; a context is a passage."""

    name = "discrete"
    language_options = DiscreteLanguageOptions

    def __init__(self) -> None:
        self._language: Language | None = None  # of a store: its constants have no other home

    def speak(self, options: dict[str, Any]) -> None:
        """Constants stand in programs by their number."""
        self._language = language_of(options)

    def open_split(self, folder: Path) -> Split:
        """``examples.jsonl`` and ``documents.jsonl``."""
        source = open_documents(None, folder / "examples.jsonl")
        return Split(open_examples(folder / "examples.jsonl", example_check(source)), passages_of(source))

    def open_store(self, folder: Path) -> SolutionStore[ProgramSet]:
        """A store of program sets."""
        return SolutionStore(folder, ProgramCodec())

    def search(
        self, recipe: Recipe, file: ExampleFile, out: Path, progress: Progress | None, started: Started | None
    ) -> None:
        """Every program of the language."""
        language = self._spoken(recipe)
        search_discrete(
            file.path, out, language=language, workers=recipe.data.workers, progress=progress, started=started
        )

    def gold_set(self, gold: Gold, example: Example, context: Passage, recipe: Recipe) -> ProgramSet:
        """The set that holds one program alone; empty if it goes beyond the language."""
        reading, language = Reading(Passage(example.question), context), self._spoken(recipe)
        program = gold_program(gold, reading, language)
        return program_set([] if program is None else [(program, Rule.MODEL)])

    def places_of_gold(self, gold: Gold, item: Item, recipe: Recipe) -> list[int]:
        """The program itself."""
        alone, solutions = self.gold_set(gold, item.example, item.context, recipe), item.solutions
        place = solutions.index_of(alone[0]) if len(alone) else None
        return [] if place is None else [place]

    def proposal(self, prediction: DiscreteAnswer, item: Item) -> str | None:
        """The search's rules leave programs out, which the solver may find."""
        if self.scores(prediction, item.example)["execution"] < 1 or prediction.program in item.solutions:
            return None
        return prediction.text

    def extended(self, item: Item, text: str, store: dict[str, Any]) -> ProgramSet:
        """Marked as the model's."""
        solutions: ProgramSet = item.solutions
        reading = Reading(Passage(item.example.question), item.context)
        return solutions.with_program(parse_program(text, reading, language_of(store)), Rule.MODEL)

    def picked(self, solutions: ProgramSet, kept: Integers) -> ProgramSet:
        """Some of the programs."""
        return solutions.picked(kept)

    def operations(self, solutions: ProgramSet) -> Integers:
        """Operands, and what is done with them."""
        return solutions.operations()

    def mix(self, chosen: Sequence[tuple[ProgramSet, int]]) -> dict[str, float]:
        """Operators, and how much is done; more than 5 operations are counted as 5."""
        operators, operations = np.zeros(len(Operator)), np.zeros(6)
        for solutions, index in chosen:
            one = solutions.picked(np.array([index]))
            operators[int(one.operators()[0])] += 1
            operations[min(5, int(one.operations()[0]))] += 1
        seen = max(1, len(chosen))
        figures = {f"selected_{each.name.lower()}": float(operators[each] / seen) for each in Operator}
        return figures | {f"selected_{count}_operations": float(each / seen) for count, each in enumerate(operations)}

    def texts(self, items: Sequence[Item]) -> list[str]:
        """Questions, and each passage once."""
        return [
            *(item.example.question for item in items),
            *dict.fromkeys(item.context.text for item in items),
        ]

    def build_solver(self, recipe: Recipe, store: dict[str, Any], texts: Sequence[str]) -> SolverModule:
        """A decoder of programs on an encoder."""
        options = recipe.solver
        self.speak(store)
        spec = DiscreteSpec(
            encoder=options.encoder,
            layers=options.layers,
            width=options.width,
            heads=options.heads,
            decoder_width=options.head_width,
            dropout=options.dropout,
            language=language_of(store),
        )
        return build_discrete_solver(spec, texts=texts, seed=recipe.train.seed)

    def load_solver(self, config: dict[str, Any], tokenizer: Path) -> SolverModule:
        """As it was saved."""
        return DiscreteSolver.from_config(config, tokenizer)

    def rendered(self, item: Item, recipe: Recipe) -> list[RenderedSet]:
        """One set, over the passage."""
        reading = Reading(Passage(item.example.question), item.context)
        return [rendered(item.solutions, reading, self._spoken(recipe))]

    def _spoken(self, recipe: Recipe) -> Language:
        return self._language or recipe.language.language()

    def predict(
        self, solver: DiscreteSolver, asked: Sequence[tuple[Passage, str]], top: int, beam: int, execution_guided: bool
    ) -> list[list[DiscreteAnswer]]:
        """Programs with what they return, by greedy search or beam; every program can be executed anyway."""
        device = next(solver.parameters()).device
        batch = solver.collate([solver.features(question, passage, None) for passage, question in asked]).to(device)
        solver.eval()
        with torch.no_grad():
            decoded = solver.decode(solver(batch), batch, beam=max(beam, top))
        language = solver.spec.language
        return [
            [
                DiscreteAnswer(
                    each.program,
                    Reading(Passage(question), passage),
                    language,
                    each.log_probability,
                    features.windows.readable,
                )
                for each in programs[:top]
            ]
            for (passage, question), programs, features in zip(asked, decoded, batch.features, strict=True)
        ]

    def rendered_prediction(
        self, prediction: DiscreteAnswer, context: Passage, question: str, recipe: Recipe
    ) -> RenderedSet:
        """One program."""
        return rendered_program(prediction.program, prediction.reading, prediction.language)

    def operations_of(self, prediction: DiscreteAnswer) -> int:
        """Of the program."""
        return prediction.program.operations

    def scores(self, prediction: DiscreteAnswer, example: Example) -> dict[str, float]:
        """DROP's exact match, under the name that all tasks share, and F1."""
        found = score(prediction.answer, example.answers)
        return {"execution": found.exact_match, "f1": found.f1}


def passages_of(source: DocumentSource) -> Callable[[Example], Passage]:
    """Where examples find their passages; those that were used are kept, with what was found in them."""

    @lru_cache(maxsize=_KEPT_PASSAGES)
    def passage(name: str | None) -> Passage:
        document: Document = source.documents[name or ""]
        return Passage(document.text)

    return lambda example: passage(example.context)


def gold_program(gold: Gold, reading: Reading, language: Language) -> Program | None:
    """The program of ``{"program": …}``; None where it is one, but not of this language."""
    text = gold.solution.get("program")
    if not isinstance(text, str):
        raise BonafideError(f"The gold of {gold.id!r} has no program: expected {{'program': 'subtract(…)'}}.")
    try:
        return parse_program(text, reading, language)
    except BonafideError:
        wide = replace(language, max_operands=3, question_numbers=True, max_span_tokens=_ANY_SIZE, max_items=_ANY_SIZE)
        try:
            parse_program(text, reading, wide)
        except BonafideError as error:
            raise BonafideError(f"The gold of {gold.id!r} is no program of its passage: {error}") from None
        return None
