"""Error responses as RFC 9457 problem details."""

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
from oahu.service.api.request_info import request_id
from oahu.service.errors import InvalidRequestError, ServiceError

__all__ = ["RESPONSES", "Problem", "handle_problems", "problem", "service_problem"]

_MAX_ERRORS = 20  # in one response
_MAX_CHARACTERS = 200  # of a location or a message
_MAX_SHOWN = 100  # of a text in a hint


class Problem(BaseModel):
    """An error response (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(
        description="Kind of error, as an identifier for programs.", examples=["urn:oahu:problem:not-found"]
    )
    title: str = Field(description="Kind of error, as a text for people.", examples=["Not found"])
    status: int = Field(description="HTTP status.", examples=[404])
    detail: str = Field(
        description="Description of the error: what is wrong, where, and what was expected.",
        examples=["There is no item 'sencha' in 'teas'."],
    )
    request_id: str = Field(description="Id of the request in the service log.", examples=["5f0c3d2a9b8e7f61-1c"])


_DESCRIPTIONS = {
    400: "The request body is not valid JSON",
    401: "A valid API key is required",
    403: "The API key does not allow this (role, collections, limit of items), or the page is of another site",
    404: "Not found",
    405: "Method not allowed",
    408: "The request body did not arrive in time",
    409: "The feedback contradicts earlier feedback, or the request conflicts with the current state",
    413: "The request body is too large",
    415: "The Content-Type must be application/json",
    421: "The Host header contains an unknown host name",
    422: "Invalid request",
    429: "Too many requests; see Retry-After",
    502: "The encoder of texts and images failed",
    503: "The service is overloaded or shutting down, or writing to the store failed; see Retry-After",
    504: "The encoder of texts and images took too long",
    507: "The disk is full",
}

#: Possible error responses of every operation.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, description in _DESCRIPTIONS.items()
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
    """Return an error response."""
    fields = {"type": f"urn:oahu:problem:{kind}", "title": title, "status": status, "detail": detail}
    headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    content = orjson.dumps(more | fields | {"request_id": request_id}, default=str)
    return Response(content, status, headers, "application/problem+json")


def service_problem(request_id: str, error: ServiceError) -> Response:
    """Return the response for an error of the service."""
    return problem(request_id, error.status, error.kind, error.title, str(error), error.retry_after, **error.more)


def handle_problems(app: FastAPI) -> None:
    """Register handlers that convert expected errors to problem details."""

    @app.exception_handler(ServiceError)
    async def service_error(request: Request, error: ServiceError) -> Response:
        return service_problem(request_id(request.scope), error)

    @app.exception_handler(InvalidInputError)
    async def invalid_input(request: Request, error: InvalidInputError) -> Response:
        return service_problem(request_id(request.scope), InvalidRequestError(str(error)))

    @app.exception_handler(RequestValidationError)
    async def invalid_request(request: Request, error: RequestValidationError) -> Response:
        id_ = request_id(request.scope)
        errors = [_location_and_message(one) for one in error.errors()[:_MAX_ERRORS]]
        detail = f"{errors[0]['location']}: {errors[0]['message']}"
        if error.errors()[0]["type"] == "json_invalid":
            return problem(id_, 400, "invalid-json", "Invalid JSON", detail, errors=errors)
        return problem(id_, 422, InvalidRequestError.kind, InvalidRequestError.title, detail, errors=errors)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        kind = title.lower().replace(" ", "-")
        detail = f"{error.detail}: {request.method} {request.url.path}" if error.detail == title else error.detail
        response = problem(request_id(request.scope), error.status_code, kind, title, detail)
        response.headers.update(error.headers or {})
        return response


def _list_hint(given: Any) -> str:
    """Return a hint for a value that was sent in place of a list of such values."""
    if isinstance(given, str):
        shown = given if len(given) <= _MAX_SHOWN else "..."
        return f". Got one text instead; write {orjson.dumps([shown]).decode()}"
    return ". Got one object instead; write [{...}]" if isinstance(given, dict) else ""


def _location_and_message(error: Mapping[str, Any]) -> dict[str, str]:
    """Return the location and the message of a validation error."""
    if error["type"] == "json_invalid":
        return {"location": "body", "message": f"invalid JSON at {error['loc'][1]} ({error['ctx']['error']})"}
    location = "/".join(part for part in map(str, error["loc"]) if not part.startswith("<"))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "list_type":
        message += _list_hint(error["input"])
    return {"location": location[:_MAX_CHARACTERS], "message": message[:_MAX_CHARACTERS]}
