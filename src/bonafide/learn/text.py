"""Learning from candidates that a user brings: what the trainer asks of the text task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.examples import Example, ExampleFile, Gold, describe, open_examples
from bonafide.learn.learnable import Integers, Item, SolverModule, Split, Started
from bonafide.rendering import Literal, RenderedSet
from bonafide.search.run import Progress
from bonafide.search.text import example_check, search_text
from bonafide.solutions import SolutionStore
from bonafide.tasks.text.candidates import TextSet, text_set
from bonafide.tasks.text.solver import TextSolver, TextSpec, build_text_solver
from bonafide.tasks.text.task import TextCodec
from bonafide.tasks.text.words import COPIED_RUN, final_answer, normalised, same_answer, without_copies, words

if TYPE_CHECKING:
    from bonafide.learn.recipe import Recipe


@dataclass(frozen=True, slots=True)
class TextLanguageOptions:
    """Runs of so many words that stand in the question just so are hidden from the reconstructor; 0: none are."""

    copied: int = COPIED_RUN

    def __post_init__(self) -> None:
        if self.copied < 0:
            raise BonafideError(f"language.copied: expected a number of words, or 0 for none, found {self.copied}.")


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """A text that the solver writes for a question, the answer it states, and how likely the solver finds it."""

    text: str
    log_probability: float

    @property
    def solution(self) -> str:
        """The text."""
        return self.text

    @property
    def answer(self) -> str:
        """What it says the answer is."""
        return final_answer(self.text)

    @property
    def confidence(self) -> float:
        """P_θ(z | d, q)."""
        return math.exp(self.log_probability)


class TextLearning:
    """Implements :class:`bonafide.learn.learnable.Learnable`; a context is a text, perhaps empty."""

    name = "text"
    language_options = TextLanguageOptions

    def open_split(self, folder: Path) -> Split:
        """``examples.jsonl``, whose contexts stand in it."""
        return Split(open_examples(folder / "examples.jsonl", example_check(None)), lambda each: each.context or "")

    def open_store(self, folder: Path) -> SolutionStore[TextSet]:
        """A store of candidates."""
        return SolutionStore(folder, TextCodec())

    def search(
        self, recipe: Recipe, file: ExampleFile, out: Path, progress: Progress | None, started: Started | None
    ) -> None:
        """Take the candidates beside the examples."""
        search_text(file.path, out, recipe.data.workers, progress, started)

    def gold_set(self, gold: Gold, example: Example, context: str, recipe: Recipe) -> TextSet:
        """The first gold text alone."""
        return text_set(gold_texts(gold)[:1])

    def places_of_gold(self, gold: Gold, item: Item, recipe: Recipe) -> list[int]:
        """The candidates that say what a gold text says."""
        said = set(map(normalised, gold_texts(gold)))
        return [place for place, text in enumerate(item.solutions) if normalised(text) in said]

    def picked(self, solutions: TextSet, kept: Integers) -> TextSet:
        """Some of the candidates."""
        places = kept.tolist()
        texts, counts = ([each[place] for place in places] for each in (solutions.texts, solutions.counts))
        return TextSet(tuple(texts), tuple(counts), solutions.size, False)

    def operations(self, solutions: TextSet) -> Integers:
        """Words: a text that says more than it needs to is less simple."""
        return np.array([len(words(text)) for text in solutions], np.int64)

    def mix(self, chosen: Sequence[tuple[TextSet, int]]) -> dict[str, float]:
        """How often the shortest candidate is chosen, and the one that was brought most often."""
        seen = max(1, len(chosen))
        shortest = sum(len(words(each[place])) == min(self.operations(each)) for each, place in chosen)
        commonest = sum(each.counts[place] == max(each.counts) for each, place in chosen)
        return {"selected_shortest": shortest / seen, "selected_commonest": commonest / seen}

    def texts(self, items: Sequence[Item]) -> list[str]:
        """Questions, each context once, and every candidate."""
        contexts = dict.fromkeys(item.context for item in items if item.context)
        candidates = [text for item in items for text in item.solutions]
        return [*(item.example.question for item in items), *contexts, *candidates]

    def build_solver(self, recipe: Recipe, store: dict[str, Any], texts: Sequence[str]) -> SolverModule:
        """An encoder–decoder."""
        options = recipe.solver
        spec = TextSpec(options.encoder, options.layers, options.width, options.heads, options.dropout)
        return build_text_solver(spec, texts, recipe.train.seed)

    def load_solver(self, config: dict[str, Any], tokenizer: Path) -> SolverModule:
        """As it was saved."""
        return TextSolver.from_config(config, tokenizer)

    def rendered(self, item: Item, recipe: Recipe) -> list[RenderedSet]:
        """The candidates as they stand, but for what they copy from the question."""
        return [rendered_texts(item.solutions, item.example.question, item.context, recipe.language.copied)]

    def predict(
        self, solver: TextSolver, asked: Sequence[tuple[str, str]], top: int, beam: int, execution_guided: bool
    ) -> list[list[TextAnswer]]:
        """The likeliest texts by beam search."""
        solver.eval()
        device = next(solver.parameters()).device
        batch = solver.collate([solver.features(question, context) for context, question in asked]).to(device)
        return [[TextAnswer(*pair) for pair in found] for found in solver.decode(batch, beam, top)]

    def rendered_prediction(self, prediction: TextAnswer, context: str, question: str, recipe: Recipe) -> RenderedSet:
        """One text."""
        return rendered_texts([prediction.text], question, context, recipe.language.copied)

    def scores(self, prediction: TextAnswer, example: Example) -> dict[str, float]:
        """Whether the stated answer is an accepted one."""
        return {"execution": float(any(same_answer(prediction.answer, each) for each in example.answers))}


def rendered_texts(texts: Sequence[str], question: str, context: str, copied: int) -> RenderedSet:
    """Texts for the reconstructor, without what they copy from the question."""
    shown = [without_copies(text, question, copied) for text in texts]
    return RenderedSet(
        context, tuple((Literal(text),) for text in shown), np.arange(len(shown), dtype=np.int32).reshape(-1, 1)
    )


def gold_texts(gold: Gold) -> tuple[str, ...]:
    """The texts of ``{"texts": […]}``."""
    texts = gold.solution.get("texts")
    if (
        not isinstance(texts, list)
        or not texts
        or not all(isinstance(each, str) and normalised(each) for each in texts)
    ):
        raise BonafideError(
            f"The gold of {gold.id!r} is wrong at texts: expected a list of texts, found {describe(texts)}."
        )
    return tuple(texts)
