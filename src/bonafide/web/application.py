"""The app that both web apps begin with: guard, assets, errors, and a plain page of its own for the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.web.answers import RefusedError, error_response, refusal
from bonafide.web.guard import Door, Guard
from bonafide.web.pages import assets, environment

_SHOWN_PROBLEMS = 20  # a few megabytes of cells of the wrong kind have a problem each

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


class Pages:
    """Renders the templates of an app; ``title`` is known to all of them."""

    def __init__(self, packages: Sequence[str], title: str) -> None:
        self._environment = environment(*packages)
        self._environment.globals["title"] = title

    def __call__(self, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """A page."""
        return HTMLResponse(self._environment.get_template(template).render(**values), status)


def make_app(
    title: str, *, hosts: Door, packages: Sequence[str] = (), lifespan: Lifespan | None = None, api_page: bool = False
) -> tuple[FastAPI, Pages]:
    """An app with everything that is common to both, and what renders its pages.

    ``packages`` have the app's own ``templates`` and ``assets``, the first before the others; assets are served at
    ``/assets/NAME``. ``api_page`` serves ``/openapi.json`` and a page of it at ``/api``.
    """
    app = FastAPI(
        title=title,
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json" if api_page else None,
        redirect_slashes=False,
    )
    app.add_middleware(Guard, door=hosts)
    pages = Pages(packages, title)
    held = assets(*packages)

    @app.get("/assets/{name}", include_in_schema=False)
    async def asset(name: str, request: Request) -> Response:
        if name not in held:
            raise RefusedError(404, "There is no such file.")
        found = held[name]
        headers = {"etag": found.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.kind, headers=headers)

    if api_page:

        @app.get("/api", include_in_schema=False)
        async def api() -> HTMLResponse:
            return pages("api.html", spec=app.openapi())

    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(BonafideError, _wrong)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    return app, pages


def _accept(request: Request) -> str:
    return request.headers.get("accept", "")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return refusal(error, _accept(request))


async def _wrong(request: Request, error: Exception) -> Response:
    return error_response(422, str(error), _accept(request))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said: dict[str, dict[str, None]] = {}  # what may be of several kinds has a message of each
    for each in error.errors():
        field = _field(each, error.body)
        if field not in said and len(said) == _SHOWN_PROBLEMS:
            break
        said.setdefault(field, {})[each["msg"]] = None
    looked_into = {field.rpartition(".")[0] for field in said}  # there one kind fitted, but for what is within it
    problems = [
        {"field": field, "expected": " or ".join(messages)}
        for field, messages in said.items()
        if field not in looked_into
    ]
    first = problems[0]
    return error_response(422, f"{first['field']}: {first['expected']}.", _accept(request), problems=problems)


def _field(problem: dict[str, Any], body: Any) -> str:
    """Where in the body a problem is, without the names of the kinds that were tried there."""
    place: list[str] = []
    if problem["type"] == "json_invalid":  # its place is a character
        return "body"
    for part in problem["loc"][1:]:
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            if problem["type"] != "missing":
                continue
        place.append(str(part))
    return ".".join(place) or "body"


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "There is no such page." if error.status_code == 404 else str(error.detail)
    response = error_response(error.status_code, message, _accept(request))
    response.headers.update(error.headers or {})
    return response
