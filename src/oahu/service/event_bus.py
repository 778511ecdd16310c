"""The event bus: publishes the events of a collection to subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["EventBus"]

_MAX_QUEUED = 256  # events per subscriber; a slow subscriber loses the oldest events

Event = tuple[str, dict[str, Any]]


class EventBus:
    """Publishes events from any thread to any number of asynchronous subscribers."""

    def __init__(self) -> None:
        self._subscribers: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Queue[Event | None]]] = {}
        self._next, self._closed = 0, False

    def publish(self, kind: str, **data: Any) -> None:
        """Send an event to all subscribers."""
        self._send((kind, data))

    def close(self) -> None:
        """End all subscriptions. Later subscriptions end immediately."""
        self._closed = True
        self._send(None)

    async def subscribe(self) -> AsyncIterator[Event]:
        """Yield new events as (kind, data), until the bus is closed."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(_MAX_QUEUED)
        self._next += 1
        subscriber = self._next
        self._subscribers[subscriber] = (asyncio.get_running_loop(), queue)
        if self._closed:
            _put(queue, None)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._subscribers.pop(subscriber, None)

    def _send(self, event: Event | None) -> None:
        for loop, queue in list(self._subscribers.values()):
            try:
                loop.call_soon_threadsafe(_put, queue, event)
            except RuntimeError:  # the subscriber's event loop is closed
                continue


def _put(queue: asyncio.Queue[Any], event: Any) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)
