"""What all operations share: how they read JSON, wait for the store, and do what takes a while."""

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

from oahu.service.api.access import service_of
from oahu.service.api.problems import RESPONSES
from oahu.service.errors import InvalidRequestError, OverloadedError

__all__ = ["asked", "check_batch", "done", "new_router"]

T = TypeVar("T")


class _Request(Request):
    """A request whose JSON is read strictly: UTF-8, no NaN, not too deep."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = orjson.loads(await self.body())
        return self._json


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle, takes_json = super().get_route_handler(), self.body_field is not None

        async def strictly(request: Request) -> Response:
            strict = _Request(request.scope, request.receive)
            if takes_json and await strict.body() and not _is_json(strict.headers.get("content-type", "")):
                kind = strict.headers.get("content-type")
                raise HTTPException(415, f"Content-Type must be application/json. Got {kind!r}.")
            return await handle(strict)

        return strictly


def _is_json(content_type: str) -> bool:
    message = Message()
    message["content-type"] = content_type
    return message.get_content_type() == "application/json"


def new_router(tag: str) -> APIRouter:
    """For operations under /v1/collections. Paths are whole in every router: gauges are told by them."""
    return APIRouter(prefix="/v1/collections", tags=[tag], route_class=_Route, responses=RESPONSES)


async def done(future: Future[T]) -> T:
    """What a future of the store comes to."""
    return await asyncio.wrap_future(future)


async def asked(request: Request, work: Callable[[], T]) -> T:
    """Do what takes a while in a thread, if not too much is going on."""
    state = request.app.state
    if state.asking >= service_of(request).settings.max_searches:
        raise OverloadedError("Too many searches at once.", retry_after=1)
    state.asking += 1
    try:
        return await to_thread.run_sync(work)
    finally:
        state.asking -= 1


def check_batch(request: Request, count: int, what: str) -> None:
    """Refuse more in a request than there may be."""
    most = service_of(request).settings.max_batch
    if count > most:
        raise InvalidRequestError(f"A request may have {most} {what}. Got {count}.")
