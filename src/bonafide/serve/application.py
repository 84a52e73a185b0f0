"""The web app: ``/predict``, ``/solutions``, ``/health``, the API's description, and the Ask page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from bonafide import __version__
from bonafide.serve.ask import asked_page, blank_page
from bonafide.serve.service import Service
from bonafide.serve.tables import Tables
from bonafide.web.application import make_app
from bonafide.web.guard import Door
from bonafide.web.hangup import while_asked


class ErrorBody(BaseModel):
    """What went wrong, in a sentence."""

    error: str
    problems: list[dict[str, str]] | None = None


class Shown(BaseModel):
    """A solution, what it returns, and what else the task knows of it."""

    model_config = ConfigDict(extra="allow")

    solution: str
    answer: list[Any] | None


class Predicted(BaseModel):
    """The best solution, how sure the solver is of it, and its alternatives; null where a text offers none."""

    model_config = ConfigDict(extra="allow")

    question: str
    solution: str | None
    answer: list[Any] | None
    confidence: float
    alternatives: list[Shown]


class Found(BaseModel):
    """A page of the solutions that reach an answer.

    ``found``: how many there are; ``complete``: whether all of them were ranked; ``next``: the offset of the next page.
    """

    question: str
    found: int
    complete: bool
    ranked: int
    offset: int
    next: int | None
    solutions: list[Shown]


class Health(BaseModel):
    """Whether the server is well, what it answers, and what it takes."""

    status: str
    version: str
    task: str
    method: str
    tables: dict[str, list[str]]
    waiting: int
    limits: dict[str, int | float]


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in {
        400: "not JSON",
        403: "sent by a page of another site",
        408: "the body came too slowly",
        413: "too much",
        415: "compressed, or of a type that is not taken",
        421: "a host that is not ours",
        422: "a request that cannot be answered, with the reason",
        429: "too many wait; Retry-After says when to come again",
        503: "shutting down, or waited too long",
    }.items()
}


def serve_app(service: Service, hosts: Door) -> FastAPI:
    """The app of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app, pages = make_app("Ask", hosts=hosts, packages=["bonafide.serve"], lifespan=lifespan, api_page=True)

    async def predict(request: Any, connection: Request) -> dict[str, Any]:
        """Answer a question: the solution, what it returns, how sure the solver is, and the alternatives."""
        return await while_asked(connection, service.predict(request))

    async def solutions(request: Any, connection: Request) -> dict[str, Any]:
        """The solutions that reach an answer, ranked by the solver θ and the reconstructor φ, a page at a time."""
        return await while_asked(connection, service.solutions(request))

    @app.get("/health", response_model=Health, responses={421: _ERRORS[421]})
    async def health() -> dict[str, Any]:
        """Whether the server is well, what it answers, and what it takes."""
        tables = service.kind.tables if isinstance(service.kind, Tables) else {}
        return {
            "status": "stopping" if service.queue.stopping else "ok",
            "version": __version__,
            "task": service.task,
            "method": service.model.about["recipe"]["objective"]["method"],
            "tables": {name: list(table.header) for name, table in tables.items()},
            "waiting": service.queue.inside,
            "limits": asdict(service.limits),
        }

    _post(app, "/predict", predict, service.kind.predicting, Predicted)
    _post(app, "/solutions", solutions, service.kind.searching, Found)

    @app.get("/", include_in_schema=False)
    async def blank() -> Response:
        return pages("ask.html", **blank_page(service))

    @app.post("/ask", include_in_schema=False)
    async def ask(request: Request) -> Response:
        return await asked_page(service, request, partial(pages, "ask.html"))

    return app


def _post(
    app: FastAPI, path: str, endpoint: Callable[..., Any], body: type[BaseModel], answer: type[BaseModel]
) -> None:
    """A route whose body is the task's own."""
    endpoint.__annotations__["request"] = body
    app.post(path, response_model=answer, responses=_ERRORS)(endpoint)
