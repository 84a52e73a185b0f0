"""What a task must say to be learned, on one page: trainer, objectives and saved models know nothing else of it.

A task's search is in ``tasks/task.py``; here is the rest: where its examples and contexts are read, its solver, how its
solutions are shown to the reconstructor, and when an answer is right. One file a task implements it: ``learn/sql.py``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from bonafide.encoders import Encoder
from bonafide.errors import BonafideError, shortened
from bonafide.examples import Example, ExampleFile, Gold
from bonafide.rendering import RenderedSet
from bonafide.search.run import Progress
from bonafide.solutions import SolutionSet, SolutionStore

if TYPE_CHECKING:
    from bonafide.learn.recipe import Recipe

Started = Callable[[Any, int], None]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Item:
    """A training example: its context, and the solutions that may train on it."""

    example: Example
    context: Any
    solutions: Any


@dataclass(frozen=True, slots=True)
class Split:
    """The examples of a folder, and where their contexts are found."""

    file: ExampleFile
    context_of: Callable[[Example], Any]


class Features(Protocol):
    """What a solver reads of an example, tokenised once."""

    @property
    def cost(self) -> int:
        """How many pieces are read, for the token budget."""
        ...


class SolverBatch(Protocol):
    """Some examples as tensors."""

    @property
    def offsets(self) -> Tensor:
        """(examples + 1,): the solutions of each example."""
        ...

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """The same on a device."""
        ...

    def pin_memory(self) -> Self:
        """The same in memory that a GPU can copy from at once."""
        ...


class Prediction(Protocol):
    """A solution that a solver proposes, and what it returns."""

    @property
    def solution(self) -> Any:
        """The task's own solution."""
        ...

    @property
    def text(self) -> str:
        """The solution as a person reads it."""
        ...

    @property
    def answer(self) -> Any:
        """What it returns; None where it returns nothing."""
        ...

    @property
    def log_probability(self) -> float:
        """log P_θ(z | d, q)."""
        ...

    @property
    def confidence(self) -> float:
        """P_θ(z | d, q)."""
        ...


class Solver(Protocol):
    """P_θ: a torch module that scores all solutions of an example from one pass."""

    @property
    def tokenizer(self) -> Any:
        """As transformers writes it."""
        ...

    @property
    def encoder(self) -> Encoder:
        """The part that has the encoder's learning rate."""
        ...

    def features(self, question: str, context: Any, solutions: Any = None) -> Any:
        """What is read of an example; ``solutions`` are those to score."""
        ...

    def collate(self, features: Sequence[Any], *, draw: int = 0) -> Any:
        """A :class:`SolverBatch` on the CPU; a solver that reads a part of a context reads another in each draw."""
        ...

    def log_prob(self, output: Any, batch: Any) -> Tensor:
        """(solutions,): log P(z | d, q) from the output of a forward pass; −inf where z cannot be produced."""
        ...

    def config(self) -> dict[str, Any]:
        """What is needed to make it again, besides the weights and the tokenizer, as JSON."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A task whose predictions can be held to be longer or shorter (:mod:`bonafide.learn.description`)."""

    def operations_of(self, prediction: Any) -> int:
        """As :meth:`Learnable.operations` counts them."""
        ...


@runtime_checkable
class Placing(Protocol):
    """A task whose predictions are places in a text, which are told by the words around them."""

    def place_of(self, prediction: Any, context: Any) -> RenderedSet:
        """In its text."""
        ...


@runtime_checkable
class Speaking(Protocol):
    """A task that reads gold, or shows its solutions, by the language that they were searched with."""

    def speak(self, options: dict[str, Any]) -> None:
        """Take the language of these options of a store, or of a solver, instead of a recipe's."""
        ...


@runtime_checkable
class Narrowing(Protocol):
    """A solver that reads less of a context to compare solutions with each other than to train on them."""

    def collate_posterior(self, features: Sequence[Any]) -> Any:
        """Like :meth:`Solver.collate`; each example's scores may be off by what is the same for all of its Z."""
        ...


@runtime_checkable
class Selective(Protocol):
    """A solver that computes something for each solution, and can be asked for it for a few alone."""

    def log_prob_of(self, batch: Any, chosen: Tensor) -> Tensor:
        """(chosen,): log P(z | d, q) of these places among the batch's solutions, −inf for −1."""
        ...


SolverModule = Any  # a torch module that is a Solver: Python has no type for both


class Learnable(Protocol):
    """The learning half of a task."""

    @property
    def name(self) -> str:
        """As in ``data.task`` of a recipe."""
        ...

    @property
    def language_options(self) -> type:
        """The dataclass of a recipe's ``[language]`` section."""
        ...

    def open_split(self, folder: Path) -> Split:
        """The examples of a folder, validated, with their contexts."""
        ...

    def open_store(self, folder: Path) -> SolutionStore[Any]:
        """A store of this task's solution sets."""
        ...

    def search(
        self, recipe: Recipe, file: ExampleFile, out: Path, progress: Progress | None, started: Started | None
    ) -> None:
        """Search the examples into a store at ``out``, as the recipe says."""
        ...

    def gold_set(self, gold: Gold, example: Example, context: Any, recipe: Recipe) -> SolutionSet:
        """The set that holds gold alone; empty where the solver's language has no room for it."""
        ...

    def places_of_gold(self, gold: Gold, item: Item, recipe: Recipe) -> list[int]:
        """Where gold stands in the item's set: several places where gold says so, none if it is not in it.

        For evaluation only.
        """
        ...

    def picked(self, solutions: Any, kept: Integers) -> SolutionSet:
        """Some of a set's solutions, by place; its ``size`` stays, and it is no longer complete."""
        ...

    def operations(self, solutions: Any) -> Integers:
        """(solutions,): how many operations each has."""
        ...

    def mix(self, chosen: Sequence[tuple[Any, int]]) -> dict[str, float]:
        """Shares of operations among chosen solutions, each given as a set and a place in it."""
        ...

    def texts(self, items: Sequence[Item]) -> list[str]:
        """What a vocabulary is made from."""
        ...

    def build_solver(self, recipe: Recipe, store: dict[str, Any], texts: Sequence[str]) -> SolverModule:
        """A new solver; ``store`` are the options of the solution store."""
        ...

    def load_solver(self, config: dict[str, Any], tokenizer: Path) -> SolverModule:
        """The solver of a saved configuration, its weights yet to be loaded."""
        ...

    def rendered(self, item: Item, recipe: Recipe) -> list[RenderedSet]:
        """The item's solutions for the reconstructor: one or several sets, in the order of the solutions."""
        ...

    def predict(
        self, solver: Any, asked: Sequence[tuple[Any, str]], top: int, beam: int, execution_guided: bool
    ) -> list[list[Any]]:
        """For each (context, question), the most likely :class:`Prediction` s, best first."""
        ...

    def rendered_prediction(self, prediction: Any, context: Any, question: str, recipe: Recipe) -> RenderedSet:
        """A predicted solution for the reconstructor: a set of one."""
        ...

    def scores(self, prediction: Any, example: Example) -> dict[str, float]:
        """How right an answer is: ``execution`` (0 or 1), and what else the task measures."""
        ...


class Proposing(Protocol):
    """A task whose search leaves out solutions that its solver can produce."""

    def proposal(self, prediction: Any, item: Item) -> str | None:
        """The text of a predicted solution that returns the answer and is not in the item's set; else None."""
        ...

    def extended(self, item: Item, text: str, store: dict[str, Any]) -> Any:
        """The item's set with the solution of this text at its end; ``store`` are the options of the store."""
        ...


def learnable(name: str) -> Learnable:
    """The learning half of the task of this name."""
    if name == "sql":
        from bonafide.learn.sql import SqlLearning

        return SqlLearning()
    if name == "reading":
        from bonafide.learn.reading import ReadingLearning

        return ReadingLearning()
    if name == "discrete":
        from bonafide.learn.discrete import DiscreteLearning

        return DiscreteLearning()
    if name == "text":
        from bonafide.learn.text import TextLearning

        return TextLearning()
    if ":" in name:
        return _own_task(name)
    raise BonafideError(
        f"data.task is {shortened(name)}: expected sql, discrete, reading, text or your own module:Class."
    )


def speaking(task: Learnable, options: dict[str, Any]) -> Learnable:
    """The task, in the language of a store or of a solver where its options name one: a run may be given any store."""
    if "language" in options and isinstance(task, Speaking):
        task.speak(options)
    return task


def import_task(name: str, folder: Path) -> None:
    """Import the module of a task of the user's own, ``module:Class``, from Python's path or from ``folder``.

    Called for a recipe that a user names, and for nothing else: a run or a store that came from elsewhere imports
    nothing by being opened.
    """
    module = name.partition(":")[0]
    if not all(part.isidentifier() for part in module.split(".")):
        raise BonafideError(f"data.task is {shortened(name)}: expected the name of a module before the colon.")
    sys.path.append(str(folder.resolve()))
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise BonafideError(
            f"data.task is {shortened(name)}: the module {shortened(module)} cannot be imported ({error})."
        ) from None
    finally:
        sys.path.pop()


def _own_task(name: str) -> Learnable:
    module, _, attribute = name.partition(":")
    if module not in sys.modules:
        raise BonafideError(
            f"The task {name!r} is in a module of your own, which is not imported yet: import {module} first."
        )
    kind = getattr(sys.modules[module], attribute, None)
    if not isinstance(kind, type) or not hasattr(kind, "build_solver"):
        raise BonafideError(
            f"data.task is {name!r}: expected a class {attribute!r} with the methods of Learnable in {module!r}; "
            "docs/custom-task.md has an example."
        )
    made: Learnable = kind()
    return made
