"""Questions on texts: a passage, for models of discrete reasoning; a document in paragraphs, for readers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from bonafide.documents import Document
from bonafide.evaluate.discrete import described
from bonafide.examples import AcceptedAnswer, Example
from bonafide.learn.learnable import Item, Prediction
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model
from bonafide.rendering import RenderedSet
from bonafide.serve.asked import (
    LIMITS,
    Brought,
    Date,
    Plain,
    Predicting,
    Question,
    Said,
    Searching,
    Value,
    accepted,
    plain,
    said,
)
from bonafide.serve.contexts import passage_of
from bonafide.serve.limits import Limits, at_most
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Program
from bonafide.tasks.discrete.programset import ProgramSet
from bonafide.tasks.discrete.rendering import rendered
from bonafide.tasks.discrete.task import DiscreteTask
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.span import Mention, MentionSet
from bonafide.tasks.reading.task import ReadingTask

_PASSAGE = "The siege began in 1648. Five towns fell. The treaty was signed in 1653."
_ASKED = "how many years after the siege was the treaty signed?"
_WHO = "who signs travel claims?"
_PARAGRAPHS: list[JsonValue] = ["Ada Lund runs the archive.", "Travel claims are signed by Ada Lund."]


class AboutPassage(Question):
    """A passage to ask about."""

    passage: Annotated[
        str, Field(min_length=1, max_length=LIMITS.text, description="The text to ask about."), AfterValidator(said)
    ]


class PredictOnPassage(AboutPassage, Predicting):
    """A question on a passage."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": _ASKED, "passage": _PASSAGE}]})


class SearchOnPassage(AboutPassage, Searching):
    """A question on a passage, and its answer."""

    answers: Annotated[
        list[Value | Annotated[list[Plain], Field(min_length=1, max_length=50)] | Date],
        Field(min_length=1, max_length=20, description="The answers that are accepted: texts, numbers, lists, dates."),
    ]

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": _ASKED, "passage": _PASSAGE, "answers": [5]}]}
    )


class AboutDocument(Question):
    """A document to ask about."""

    paragraphs: Annotated[
        list[Said], Field(min_length=1, max_length=LIMITS.paragraphs, description="The text, in paragraphs.")
    ]
    title: Annotated[
        Annotated[str, Field(max_length=LIMITS.cell), AfterValidator(plain)] | None,
        Field(description="The title, where there is one."),
    ] = None


class PredictOnDocument(AboutDocument, Predicting):
    """A question on a document."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": _WHO, "paragraphs": _PARAGRAPHS}]})


class SearchOnDocument(AboutDocument, Searching):
    """A question on a document, and its answer."""

    answers: Annotated[
        list[Said], Field(min_length=1, max_length=100, description="The answers that are accepted, as texts.")
    ]

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": _WHO, "paragraphs": _PARAGRAPHS, "answers": ["Ada Lund"]}]}
    )


class Passages:
    """Implements :class:`~bonafide.serve.asked.Kind`."""

    predicting = PredictOnPassage
    searching = SearchOnPassage

    def __init__(self, language: Language) -> None:
        self._language = language

    def context(self, request: AboutPassage) -> Brought:
        """The passage, with its numbers and dates found."""
        return Brought(passage_of, (request.passage,))

    def answers(self, request: SearchOnPassage) -> tuple[AcceptedAnswer, ...]:
        """Any of them."""
        return tuple(accepted(each) for each in request.answers)

    def task(self, model: Model, cap: int) -> DiscreteTask:
        """Programs."""
        return DiscreteTask(model.solver.spec.language, cap)

    def raw(self, context: Passage, request: SearchOnPassage) -> Document:
        """As a document."""
        return Document("", None, (context.text,))

    def rendered(self, model: Model, solutions: ProgramSet, context: Passage, question: str) -> list[RenderedSet]:
        """One set, over the passage."""
        return [rendered(solutions, Reading(Passage(question), context), model.solver.spec.language)]

    def shown(self, solution: Program, context: Passage, question: str) -> dict[str, Any]:
        """The formula, what it gives, and where its operands stand."""
        reading = Reading(Passage(question), context)
        about = described(solution, reading, self._language)
        return {"solution": about.pop("formula"), **about}

    def predicted(self, prediction: Prediction, context: Passage, question: str) -> dict[str, Any]:
        """What is shown of its program."""
        return self.shown(prediction.solution, context, question)


class Documents:
    """Implements :class:`~bonafide.serve.asked.Kind`."""

    predicting = PredictOnDocument
    searching = SearchOnDocument

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits

    def context(self, request: AboutDocument) -> Document:
        """The document."""
        at_most(sum(map(len, request.paragraphs)), self._limits.text, "characters in all paragraphs")
        return Document("document", request.title, tuple(request.paragraphs))

    def answers(self, request: SearchOnDocument) -> tuple[AcceptedAnswer, ...]:
        """Any of them."""
        return tuple(request.answers)

    def task(self, model: Model, cap: int) -> ReadingTask:
        """Mentions, matched as the recipe says."""
        return ReadingTask(Matching(**asdict(_recipe(model).language)), cap)

    def raw(self, context: Document, request: SearchOnDocument) -> Document:
        """The document itself."""
        return context

    def rendered(self, model: Model, solutions: MentionSet, context: Document, question: str) -> list[RenderedSet]:
        """One set a paragraph that has a mention."""
        return model.task.rendered(Item(Example("", question, None, ()), context, solutions), _recipe(model))

    def shown(self, solution: Mention, context: Document, question: str) -> dict[str, Any]:
        """What the mention says, and where it stands; paragraphs count from 0."""
        text = solution.text(context)
        return {
            "solution": f"{text} [paragraph {solution.paragraph + 1}, {solution.start}–{solution.end}]",
            "answer": [text],
            "paragraph": solution.paragraph,
            "start": solution.start,
            "end": solution.end,
        }

    def predicted(self, prediction: Prediction, context: Document, question: str) -> dict[str, Any]:
        """What is shown of its mention."""
        return self.shown(prediction.solution, context, question)


def _recipe(model: Model) -> Any:
    return recipe_from(model.about["recipe"], "the model")
