"""The explorer's Ask page: that of ``bonafide serve``, on the model of the run and the tables of its examples.

The same code reads the form, keeps the limits and makes the answer; what is brought is read by the same process apart,
which is started when it is first needed. The model is asked in the scorer's thread, between two parts of a set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from bonafide.documents import Document
from bonafide.explore.scoring import Scorer
from bonafide.explore.workspace import Workspace
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.sql.tables import Table
from bonafide.web.answers import RefusedError

if TYPE_CHECKING:  # these import torch, which takes seconds: they come with the model
    from bonafide.serve.ask import Form
    from bonafide.serve.service import Service


class Asking:
    """A service that begins when somebody asks."""

    def __init__(self, workspace: Workspace, scorer: Scorer) -> None:
        self._workspace, self._scorer = workspace, scorer
        self._service: Service | None = None
        self._ending = AsyncExitStack()
        self._beginning = asyncio.Lock()

    async def service(self) -> Service:
        """The service; the first who asks waits for the model."""
        async with self._beginning:
            if self._service is None:
                model = await asyncio.wrap_future(self._scorer.turn(lambda model: model))
                from bonafide.serve.service import Service

                tables = TablesOfRun(self._workspace) if self._workspace.task == "sql" else None
                made = Service(model, tables, turn=self._in_turn)
                await self._ending.enter_async_context(made.running())
                self._service = made
        return self._service

    async def end(self) -> None:
        """End it, where it began."""
        await self._ending.aclose()

    def form(self, place: int | None) -> Form | None:
        """The form with the question and the context of an example put in; None: an empty one."""
        from bonafide.serve.ask import Form

        if place is None:
            return None
        check_place(self._workspace, place)
        opened = self._workspace.open(place)
        context = opened.context
        if isinstance(context, Table):
            return Form(opened.example.question, context.id, "", None)
        return Form(opened.example.question, "", _text(context), None)

    def _in_turn(self, work: Callable[[], Any]) -> Any:
        return self._scorer.turn(lambda _: work()).result()


def check_place(workspace: Workspace, place: int) -> None:
    """Refuse the number of an example that is not there."""
    if not 0 <= place < workspace.index.count:
        raise RefusedError(404, f"There is no example {place}: they are numbered 0 to {workspace.index.count - 1}.")


class TablesOfRun(Mapping[str, Table]):
    """The tables that the examples ask about, read when they are needed."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def __getitem__(self, name: str) -> Table:
        found: Table = self._workspace.context_named(name)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._workspace.has_context(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._workspace.context_names())

    def __len__(self) -> int:
        return self._workspace.contexts


def add_ask(app: FastAPI, asking: Asking, page: Callable[..., Response]) -> None:
    """The routes of the page; ``page`` takes status and values."""

    @app.get("/ask")
    async def blank(example: int | None = None) -> Response:
        service = await asking.service()
        from bonafide.serve.ask import blank_page

        return page(200, **blank_page(service, asking.form(example)))

    @app.post("/ask")
    async def ask(request: Request) -> Response:
        service = await asking.service()
        from bonafide.serve.ask import asked_page

        return await asked_page(service, request, page)


def _text(context: Any) -> str:
    if isinstance(context, Document):
        return "\n\n".join(context.paragraphs)
    return context.text if isinstance(context, Passage) else str(context)
