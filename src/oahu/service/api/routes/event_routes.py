"""The operation that streams changes of a collection as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from oahu.service.api.access import CollectionForReading, get_service
from oahu.service.api.routing import new_router
from oahu.service.api.schemas.common_schemas import CollectionName
from oahu.service.collection import Collection
from oahu.service.errors import OverloadedError

__all__ = ["router"]

_HEARTBEAT_SECONDS = 15.0

router = new_router("events")


@router.get(
    "/{name}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "A stream of server-sent events."}},
)
async def stream_events(
    request: Request,
    name: CollectionName,
    collection: CollectionForReading,
    limit: Annotated[int | None, Query(ge=1, description="End the stream after this many events.")] = None,
) -> StreamingResponse:
    """Stream the changes of a collection as events.

    The events are ``metric`` (version, weights, error rate), ``feedback``, ``undo``, ``items`` and ``refresh``.

    The first event is the current metric. If a client reads too slowly, some events are dropped.
    """
    max_streams = get_service(request).settings.max_streams
    if request.app.state.open_streams >= max_streams:
        raise OverloadedError(
            f"Too many event streams are open (limit {max_streams}, OAHU_MAX_STREAMS).", retry_after=10
        )
    return _CountedStream(request.app.state, _events(collection, limit))


class _CountedStream(StreamingResponse):
    """A stream that is counted as open until it ends."""

    def __init__(self, state: Any, content: AsyncIterator[bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, headers=headers, media_type="text/event-stream")
        self._state = state
        state.open_streams += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._state.open_streams -= 1


async def _events(collection: Collection, limit: int | None) -> AsyncIterator[bytes]:
    """Yield the current metric and then all later events.

    The subscription starts before the metric is read. In the opposite order, an event between the two steps would
    be lost.
    """
    subscription = collection.events.subscribe()
    upcoming: asyncio.Future[tuple[str, dict[str, Any]]] = asyncio.ensure_future(anext(subscription))
    try:
        await asyncio.sleep(0)  # let the subscription start
        yield _encode("metric", collection.published.describe(collection.feedback_log.last_seq))
        n_sent = 1
        while limit is None or n_sent < limit:
            done, _ = await asyncio.wait({upcoming}, timeout=_HEARTBEAT_SECONDS)
            if not done:
                yield b": heartbeat\n\n"
                continue
            try:
                kind, content = upcoming.result()
            except StopAsyncIteration:
                return
            upcoming = asyncio.ensure_future(anext(subscription))
            yield _encode(kind, content)
            n_sent += 1
    finally:
        if not upcoming.cancel() and not upcoming.cancelled():
            upcoming.exception()  # mark the exception as retrieved, otherwise asyncio logs it


def _encode(kind: str, content: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(content))
