"""Helpers for all operations: parse strict JSON, wait for the store, and limit the number of worker threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from email.message import Message
from typing import Any, TypeVar

import orjson
from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from oahu.service.api.access import get_service
from oahu.service.api.problems import RESPONSES
from oahu.service.errors import InvalidRequestError, OverloadedError

__all__ = ["check_batch_size", "new_router", "run_search", "wait_for"]

T = TypeVar("T")


class _StrictRequest(Request):
    """A request with a body of strict JSON: UTF-8, no NaN, limited nesting depth."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = orjson.loads(await self.body())
        return self._json


class _StrictRoute(APIRoute):
    """A route that reads its body as strict JSON and requires the Content-Type ``application/json``."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle, takes_json = super().get_route_handler(), self.body_field is not None

        async def handle_strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if takes_json and await strict.body() and not _is_json(strict.headers.get("content-type", "")):
                content_type = strict.headers.get("content-type")
                raise HTTPException(
                    415, f"The Content-Type must be application/json. Got {content_type!r} instead."
                )
            return await handle(strict)

        return handle_strictly


def _is_json(content_type: str) -> bool:
    message = Message()
    message["content-type"] = content_type
    return message.get_content_type() == "application/json"


def new_router(tag: str) -> APIRouter:
    """Return a router for operations under /v1/collections.

    Every router has the complete prefix, because the Prometheus metrics use the path of the route as a label.
    """
    return APIRouter(prefix="/v1/collections", tags=[tag], route_class=_StrictRoute, responses=RESPONSES)


async def wait_for(future: Future[T]) -> T:
    """Wait until the store has committed a command. Return the result of the command."""
    return await asyncio.wrap_future(future)


async def run_search(request: Request, work: Callable[[], T]) -> T:
    """Run a search or another long computation in a worker thread.

    At most ``max_searches`` computations run at the same time.
    """
    state, limit = request.app.state, get_service(request).settings.max_searches
    if state.running_searches >= limit:
        raise OverloadedError(f"Too many searches are running (limit {limit}, OAHU_MAX_SEARCHES).", retry_after=1)
    state.running_searches += 1
    try:
        return await to_thread.run_sync(work)
    finally:
        state.running_searches -= 1


def check_batch_size(request: Request, count: int, what: str) -> None:
    """Raise an error if a request has too many items, keys or feedback records."""
    limit = get_service(request).settings.max_batch
    if count > limit:
        raise InvalidRequestError(
            f"A request may contain up to {limit} {what} (OAHU_MAX_BATCH). Got {count} instead."
        )
