"""What a request says, in the parts that are common to all tasks: the question, and how much to answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from bonafide.examples import AcceptedAnswer, DateAnswer
from bonafide.learn.learnable import Prediction
from bonafide.learn.saved import Model
from bonafide.rendering import RenderedSet
from bonafide.serve.limits import Limits
from bonafide.tasks.task import Task

LIMITS = Limits()
LARGEST = 1e300
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def plain(text: str) -> str:
    """Text that can be stored and shown: no NUL, no half of a character."""
    if _UNSTORABLE.search(text):
        raise ValueError("text must not hold NUL or unpaired surrogates")
    return text


def said(text: str) -> str:
    """Text that says something."""
    if not text.strip():
        raise ValueError("text must not be blank")
    return plain(text)


Plain = Annotated[str, AfterValidator(plain)]  # where a length is asked too, it comes first: else it counts "items"
Said = Annotated[str, StringConstraints(min_length=1), AfterValidator(said)]
Number = Annotated[float, Field(strict=True, ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
Value = Plain | Whole | Number | None


class Question(BaseModel):
    """What every request says."""

    model_config = ConfigDict(extra="forbid")

    question: Annotated[
        str, Field(min_length=1, max_length=LIMITS.question, description="Your question."), AfterValidator(said)
    ]


class Predicting(Question):
    """A question to answer."""

    alternatives: Annotated[
        int,
        Field(
            strict=True, ge=0, le=LIMITS.alternatives, description="How many other solutions to show, 4 unless told."
        ),
    ] = 4


class Date(BaseModel):
    """A date as an answer; a part may be missing."""

    model_config = ConfigDict(extra="forbid")

    day: Annotated[str, Field(max_length=40), AfterValidator(plain)] = ""
    month: Annotated[str, Field(max_length=40), AfterValidator(plain)] = ""
    year: Annotated[str, Field(max_length=40), AfterValidator(plain)] = ""


class Searching(Question):
    """A question with its answer, to see which solutions reach it."""

    order: Annotated[
        Literal["solver", "reconstructor"],
        Field(description="Whose favourites come first: those of the solver θ, or of the reconstructor φ."),
    ] = "solver"
    offset: Annotated[int, Field(strict=True, ge=0, le=1_000_000, description="How many to pass over.")] = 0
    limit: Annotated[int, Field(strict=True, ge=1, le=LIMITS.page, description="How many to list, 20 unless told.")] = (
        20
    )


Context = Any
"""A task's own: a table, a passage, a document."""


@dataclass(frozen=True, slots=True)
class Brought:
    """A context that is yet to be made of what a request brings, by a function of ``contexts.py``."""

    make: Callable[..., Context]
    arguments: tuple[Any, ...]

    def here(self) -> Context:
        """Make it at once."""
        return self.make(*self.arguments)


class Kind(Protocol):
    """What a task says to be served."""

    @property
    def predicting(self) -> type[Predicting]:
        """The body of ``/predict``."""
        ...

    @property
    def searching(self) -> type[Searching]:
        """The body of ``/solutions``."""
        ...

    def context(self, request: Any) -> Context | Brought:
        """What the request asks about."""
        ...

    def answers(self, request: Any) -> tuple[AcceptedAnswer, ...]:
        """The answers that solutions are searched for."""
        ...

    def task(self, model: Model, cap: int) -> Task[Any]:
        """The search in the solver's language."""
        ...

    def raw(self, context: Context, request: Any) -> Any:
        """The context as the search takes it."""
        ...

    def rendered(self, model: Model, solutions: Any, context: Context, question: str) -> list[RenderedSet]:
        """Solutions for the reconstructor."""
        ...

    def shown(self, solution: Any, context: Context, question: str) -> dict[str, Any]:
        """A solution for the answer: ``solution`` (its text), ``answer`` (a list), and what else the task knows."""
        ...

    def predicted(self, prediction: Prediction, context: Context, question: str) -> dict[str, Any]:
        """The same of a solution that the solver proposes."""
        ...


def listed(answer: Sequence[Any], limits: Limits = LIMITS) -> list[Any]:
    """An answer as JSON has it: whole numbers without a point, no number that JSON does not know."""
    return [_shown(each) for each in answer[: limits.answers]]


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def accepted(value: Any) -> AcceptedAnswer:
    """An answer as examples have it."""
    if isinstance(value, Date):
        return DateAnswer(value.day, value.month, value.year)
    return tuple(value) if isinstance(value, list) else value
