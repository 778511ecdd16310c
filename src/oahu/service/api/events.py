"""What happens, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from oahu.service.api import models as m
from oahu.service.api.access import Reader, service_of
from oahu.service.api.routing import new_router
from oahu.service.collection import Collection
from oahu.service.errors import OverloadedError

__all__ = ["router"]

_BEAT = 15.0  # seconds between signs of life

router = new_router("metric")


@router.get(
    "/{name}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events."}},
)
async def events(
    request: Request,
    name: m.Name,
    collection: Reader,
    limit: Annotated[int | None, Query(ge=1, description="End after so many events.")] = None,
) -> StreamingResponse:
    """Server-sent events: ``metric`` (weights, loss, version), ``feedback``, ``undo``, ``items``, ``refresh``."""
    if request.app.state.streams >= service_of(request).settings.max_streams:
        raise OverloadedError("Too many streams of events are open.", retry_after=10)
    return _Stream(request.app.state, _told(collection, limit))


class _Stream(StreamingResponse):
    """A stream that is counted from when it is let in until it ends, however it ends."""

    def __init__(self, state: Any, content: AsyncIterator[bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, headers=headers, media_type="text/event-stream")
        self._state = state
        state.streams += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._state.streams -= 1


async def _told(collection: Collection, limit: int | None) -> AsyncIterator[bytes]:
    """The metric as it is, then what happens. It listens before it looks at the metric: nothing is missed."""
    coming = collection.events.subscribe()
    next_: asyncio.Future[tuple[str, dict[str, Any]]] = asyncio.ensure_future(anext(coming))
    try:
        await asyncio.sleep(0)  # it listens now
        yield _event("metric", collection.metric_state(collection.published))
        n = 1
        while limit is None or n < limit:
            done, _ = await asyncio.wait({next_}, timeout=_BEAT)
            if not done:
                yield b": still here\n\n"
                continue
            try:
                kind, what = next_.result()
            except StopAsyncIteration:
                return
            next_ = asyncio.ensure_future(anext(coming))
            yield _event(kind, what)
            n += 1
    finally:
        if not next_.cancel() and not next_.cancelled():
            next_.exception()  # an event that came too late, or the end


def _event(kind: str, what: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(what))
