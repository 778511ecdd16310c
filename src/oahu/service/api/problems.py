"""Errors as RFC 9457 problem details."""

from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from oahu.exceptions import InvalidInputError
from oahu.service.errors import InvalidError, ServiceError

__all__ = ["RESPONSES", "Problem", "handle_problems", "problem", "problem_of"]

_SHOWN = 20  # errors of a request that are told

log = logging.getLogger("oahu.service")


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    request_id: str


_MEANINGS = {
    400: "What was sent cannot be read",
    401: "A valid API key is needed",
    403: "The key does not allow it, or it came from another page",
    404: "There is no such thing",
    405: "The method is not allowed here",
    409: "It contradicts what was said before, or was done already",
    413: "The request is too large",
    421: "The service is not known by that name",
    422: "The request is not valid",
    429: "Too many requests; see Retry-After",
    503: "Busy, shutting down, or the store cannot be written to; see Retry-After",
    507: "The disk is full",
}

#: What every operation may answer, beside what it is for.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, meaning in _MEANINGS.items()
}


def problem(
    request_id: str,
    status: int,
    kind: str,
    title: str,
    detail: str,
    retry_after: float | None = None,
    **more: Any,
) -> Response:
    """A problem as an answer."""
    told = {"type": f"urn:oahu:problem:{kind}", "title": title, "status": status, "detail": detail}
    headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    content = orjson.dumps(more | told | {"request_id": request_id}, default=str)
    return Response(content, status, headers, "application/problem+json")


def problem_of(request_id: str, error: ServiceError) -> Response:
    """What the service refuses, as an answer."""
    return problem(request_id, error.status, error.kind, error.title, str(error), error.retry_after, **error.more)


def handle_problems(app: FastAPI) -> None:
    """Let every error of an app be answered by a problem."""

    @app.exception_handler(ServiceError)
    async def refused(request: Request, error: ServiceError) -> Response:
        return problem_of(_id(request), error)

    @app.exception_handler(InvalidInputError)
    async def invalid(request: Request, error: InvalidInputError) -> Response:
        return problem_of(_id(request), InvalidError(str(error)))

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> Response:
        found = [
            {"where": "/".join(map(str, one["loc"])), "problem": one["msg"]} for one in error.errors()[:_SHOWN]
        ]
        unreadable = any(one["type"] == "json_invalid" for one in error.errors())
        first = f"{found[0]['where']}: {found[0]['problem']}" if found else "it is not valid"
        status = HTTPStatus.BAD_REQUEST if unreadable else HTTPStatus.UNPROCESSABLE_ENTITY
        kind, title = ("unreadable", "The request is not JSON") if unreadable else ("invalid", InvalidError.title)
        return problem(_id(request), status, kind, title, first, errors=found)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        kind = title.lower().replace(" ", "-")
        answer = problem(_id(request), error.status_code, kind, title, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        log.error("request %s failed", _id(request), exc_info=error)
        return problem(_id(request), 500, "internal", "Something went wrong", "See the log, by the request id.")


def _id(request: Request) -> str:
    return str(request.scope.get("oahu_request_id", ""))
