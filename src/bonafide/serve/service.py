"""What the server does, without HTTP: a question in, a solution and its answer out; an answer in, its solutions out."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import Example
from bonafide.learn.saved import Model
from bonafide.learn.text import TextLearning
from bonafide.serve.asked import LIMITS, Brought, Kind, Predicting, Searching
from bonafide.serve.candidates import Candidates
from bonafide.serve.contexts import searched
from bonafide.serve.limits import Limits
from bonafide.serve.queue import Asked, ModelQueue
from bonafide.serve.ranking import Ranked, joined, steps
from bonafide.serve.tables import Tables
from bonafide.serve.texts import Documents, Passages
from bonafide.serve.worker import Worker
from bonafide.tasks.sql.tables import Table

_KEPT_SETS = 32
"""Ranked sets that are kept for their next page."""


class Service:
    """A model, the queue before it, and the processes that read and search."""

    def __init__(
        self,
        model: Model,
        tables: Mapping[str, Table] | None = None,
        limits: Limits = LIMITS,
        turn: Callable[[Callable[[], Any]], Any] | None = None,
    ) -> None:
        """``turn`` has work with the model done where others work with it too; nothing is then prepared ahead."""
        self.model, self.limits, self._turn = model, limits, turn
        self.task = model.task.name
        self.kind = _kind(model, self.task, tables if tables is not None else {}, limits, turn is None)
        self.queue = ModelQueue(self._predict_all, limits)
        self._reading = Worker("reading", limits.reading_seconds, limits.memory, limits.waiting_seconds)
        self._search = Worker("search", limits.search_seconds, limits.memory, limits.waiting_seconds)
        self._task = self.kind.task(model, limits.solutions)
        self._ranked: OrderedDict[str, Ranked] = OrderedDict()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer while this lasts."""
        serving = asyncio.create_task(self.queue.serve())
        if self._turn is None:
            self._reading.start()
        try:
            yield
        finally:
            self.queue.stop()
            serving.cancel()
            self._reading.close()
            self._search.close()

    async def made(self, context: Any) -> Any:
        """A context, read by the worker where it was brought."""
        return await self._reading.run(context.make, *context.arguments) if isinstance(context, Brought) else context

    async def predict(self, request: Predicting) -> dict[str, Any]:
        """The best solution and its alternatives, each with what it returns."""
        async with self.queue.admitted():
            context = await self.made(self.kind.context(request))
            return await self.answered(context, request.question, request.alternatives)

    async def answered(self, context: Any, question: str, alternatives: int) -> dict[str, Any]:
        """The same for a context that is there already; the request must have been admitted."""
        found = await self.queue.predict(context, question)
        shown = [
            {**self.kind.predicted(each, context, question), "confidence": each.confidence}
            for each in found[: alternatives + 1]
        ]
        best = shown[0] if shown else {"solution": None, "answer": None, "confidence": 0.0}
        return {"question": question, **best, "alternatives": shown[1:]}

    async def solutions(self, request: Searching) -> dict[str, Any]:
        """The solutions that reach the answer, a page of them."""
        async with self.queue.admitted():
            context = await self.made(self.kind.context(request))
            ranked = await self._ranked_set(request, context)
            page = [
                {**self.kind.shown(ranked.solutions[place], context, request.question), **scores}
                for place, scores in ranked.page(request.order, request.offset, request.limit)
            ]
        end = request.offset + len(page)
        return {
            "question": request.question,
            "found": ranked.solutions.size,
            "complete": ranked.solutions.complete,
            "ranked": len(ranked.solutions),
            "offset": request.offset,
            "next": end if end < len(ranked.solutions) and page else None,
            "solutions": page,
        }

    async def _ranked_set(self, request: Searching, context: Any) -> Ranked:
        key = hashlib.sha256(request.model_dump_json(exclude={"order", "offset", "limit"}).encode()).hexdigest()
        if key in self._ranked:
            self._ranked.move_to_end(key)
            return self._ranked[key]
        question = request.question
        example = Example(key, question, None, self.kind.answers(request))
        solutions = await self._search.run(searched, self._task, example, self.kind.raw(context, request))
        scores = [await self.queue.alone(work) for work in steps(self.model, self.kind, solutions, context, question)]
        ranked = self._ranked[key] = joined(self.model, solutions, scores)
        if len(self._ranked) > _KEPT_SETS:
            self._ranked.popitem(last=False)
        return ranked

    def _predict_all(self, asked: Sequence[Asked]) -> Sequence[Any]:
        """Always as many as anybody may ask for: what one is answered must not depend on who asks with him.

        A query that returns nothing is no answer to a person: it is left out where others return something.
        """

        def predict() -> Sequence[Any]:
            return self.model.predict_all(asked, top=self.limits.alternatives + 1, execution_guided=True)

        return predict() if self._turn is None else self._turn(predict)


def _kind(model: Model, task: str, tables: Mapping[str, Table], limits: Limits, ahead: bool) -> Kind:
    if task == "sql":
        return Tables(tables, limits, ahead)
    if tables:
        raise BonafideError(f"This run answers questions on texts (its task is {task}): leave --table out.")
    if task == "discrete":
        return Passages(model.solver.spec.language)
    if task == "reading":
        return Documents(limits)
    if isinstance(model.task, TextLearning):
        return Candidates(task != TextLearning.name, limits)
    raise BonafideError(
        f"A run of the task {task!r} cannot be served: expected sql, discrete, reading, text, or a task of your own "
        "that derives from bonafide.learn.text.TextLearning. From Python it answers with bonafide.load(run).predict(…)."
    )
