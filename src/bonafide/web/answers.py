"""What the web apps say when something is wrong: a page for people, JSON for programs, by the Accept header."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from bonafide.errors import BonafideError
from bonafide.web.pages import ENVIRONMENT


class RefusedError(BonafideError):
    """A request that is not served, with the HTTP status that says so."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def error_response(
    status: int, message: str, accept: str, retry_after: int | None = None, problems: list[dict[str, Any]] | None = None
) -> Response:
    """``{"error": …, "problems": […]}``, or a page where a browser asks for one."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if "text/html" in accept:
        page = ENVIRONMENT.get_template("error.html")
        html = page.render(status=status, reason=_phrase(status), message=message, problems=problems or ())
        return HTMLResponse(html, status, headers)
    content: dict[str, Any] = {"error": message}
    if problems is not None:
        content["problems"] = problems
    return JSONResponse(content, status, headers)


def refusal(error: RefusedError, accept: str) -> Response:
    """The response to a request that was refused."""
    return error_response(error.status, str(error), accept, error.retry_after)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
