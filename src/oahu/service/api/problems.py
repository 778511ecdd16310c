"""Errors as RFC 9457 problem details."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from oahu.exceptions import InvalidInputError
from oahu.service.errors import InvalidRequestError, ServiceError

__all__ = ["RESPONSES", "Problem", "handle_problems", "problem", "problem_of"]

_SHOWN = 20  # errors of a request that are told
_LONGEST = 200  # characters of a place in a request, or of what is said of it


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="What programs tell problems apart by.")
    title: str
    status: int
    detail: str = Field(description="What was wrong, where, and what was expected.")
    request_id: str = Field(description="By which the log tells more.")


_MEANINGS = {
    400: "What was sent cannot be read",
    401: "A valid API key is needed",
    403: "The key does not allow it, or it came from another page",
    404: "There is no such thing",
    405: "The method is not allowed here",
    408: "The request did not arrive in time",
    409: "It contradicts what was said before, or was done already",
    413: "The request is too large",
    415: "The request is not JSON, by its Content-Type",
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
    """Let every error of an app that is meant for whoever asks be answered by a problem."""

    @app.exception_handler(ServiceError)
    async def refused(request: Request, error: ServiceError) -> Response:
        return problem_of(_id(request), error)

    @app.exception_handler(InvalidInputError)
    async def invalid(request: Request, error: InvalidInputError) -> Response:
        return problem_of(_id(request), InvalidRequestError(str(error)))

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> Response:
        found = [_told(one) for one in error.errors()[:_SHOWN]]
        first = f"{found[0]['where']}: {found[0]['problem']}"
        if error.errors()[0]["type"] == "json_invalid":
            return problem(_id(request), 400, "unreadable", "The request is not JSON", first, errors=found)
        return problem(_id(request), 422, InvalidRequestError.kind, InvalidRequestError.title, first, errors=found)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        kind = title.lower().replace(" ", "-")
        detail = f"{error.detail}: {request.method} {request.url.path}" if error.detail == title else error.detail
        answer = problem(_id(request), error.status_code, kind, title, detail)
        answer.headers.update(error.headers or {})
        return answer


def _told(error: Mapping[str, Any]) -> dict[str, str]:
    """Where a request is not valid, and why."""
    if error["type"] == "json_invalid":
        return {"where": "body", "problem": f"not JSON at {error['loc'][1]} ({error['ctx']['error']})"}
    where = "/".join(part for part in map(str, error["loc"]) if not part.startswith("<"))
    return {"where": where[:_LONGEST], "problem": error["msg"].removeprefix("Value error, ")[:_LONGEST]}


def _id(request: Request) -> str:
    return str(request.scope.get("oahu_request_id", ""))
