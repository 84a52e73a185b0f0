"""Questions to a model that writes its solutions as texts: the text task, and a task of your own that derives from it.

Nothing is searched here: ``/solutions`` ranks the candidates that a request brings.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from bonafide.examples import AcceptedAnswer, Example
from bonafide.learn.learnable import Item, Prediction
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model
from bonafide.rendering import RenderedSet
from bonafide.serve.asked import LIMITS, Predicting, Question, Said, Searching, listed, plain
from bonafide.serve.limits import Limits, at_most
from bonafide.tasks.text.candidates import TextSet
from bonafide.tasks.text.task import TextTask
from bonafide.tasks.text.words import copy_rate, final_answer

_ASKED = "Ada has 12 apples and buys 7 more. How many has she?"


class AboutText(Question):
    """A question that stands alone, or is about a text."""

    context: Annotated[
        str,
        Field(max_length=LIMITS.text, description="What the question is about, where it does not stand alone."),
        AfterValidator(plain),
    ] = ""


class PredictText(AboutText, Predicting):
    """A question to write a solution for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": _ASKED}]})


class RankTexts(AboutText, Searching):
    """A question, and candidates for its solution."""

    candidates: Annotated[
        list[Said],
        Field(
            min_length=1,
            max_length=LIMITS.candidates,
            description="The texts to rank; those that say the same are one.",
        ),
    ]

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": _ASKED, "candidates": ["12 + 7 = 19", "20 - 1 = 19"]}]}
    )


class Candidates:
    """Implements :class:`~bonafide.serve.asked.Kind`; ``own`` where only the task itself knows what a text returns."""

    predicting = PredictText
    searching = RankTexts

    def __init__(self, own: bool, limits: Limits = LIMITS) -> None:
        self._own, self._limits = own, limits

    def context(self, request: AboutText) -> str:
        """The text, perhaps empty."""
        return request.context

    def answers(self, request: RankTexts) -> tuple[AcceptedAnswer, ...]:
        """None is asked for: whatever a candidate arrives at, it is ranked."""
        return ()

    def task(self, model: Model, cap: int) -> TextTask:
        """Candidates."""
        return TextTask()

    def raw(self, context: str, request: RankTexts) -> bytes:
        """The candidates as a line of ``candidates.jsonl``."""
        at_most(sum(map(len, request.candidates)), self._limits.text, "characters in all candidates")
        return json.dumps({"id": "asked", "candidates": request.candidates}).encode()

    def rendered(self, model: Model, solutions: TextSet, context: str, question: str) -> list[RenderedSet]:
        """One set, as the task shows it."""
        recipe = recipe_from(model.about["recipe"], "the model")
        return model.task.rendered(Item(Example("", question, None, ()), context, solutions), recipe)

    def shown(self, solution: str, context: str, question: str) -> dict[str, Any]:
        """The text, the answer that it states, and the share of its words that it copies from the question."""
        answer = None if self._own else [final_answer(solution)]
        return {"solution": solution, "answer": answer, "copy_rate": copy_rate(solution, question)}

    def predicted(self, prediction: Prediction, context: str, question: str) -> dict[str, Any]:
        """The same with the answer that the task gives."""
        answer = prediction.answer
        several = answer if isinstance(answer, (list, tuple)) else [answer]
        values = None if answer is None else listed([_plain(each) for each in several], self._limits)
        return {**self.shown(prediction.text, context, question), "answer": values}


def _plain(value: Any) -> Any:
    """A value of JSON: a task of your own may return anything."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
