"""What happens, for whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["EventBus"]

_MOST = 256  # events that wait for a slow listener; then the oldest are lost


class EventBus:
    """Events of a collection, told from any thread to any number of listeners."""

    def __init__(self) -> None:
        self._listeners: dict[
            int, tuple[asyncio.AbstractEventLoop, asyncio.Queue[tuple[str, dict[str, Any]] | None]]
        ] = {}
        self._next, self._closed = 0, False

    def publish(self, kind: str, **what: Any) -> None:
        self._send((kind, what))

    def close(self) -> None:
        """Let all listeners go, and whoever comes later."""
        self._closed = True
        self._send(None)

    async def subscribe(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Events from now on, until the listener leaves or the collection closes."""
        queue: asyncio.Queue[tuple[str, dict[str, Any]] | None] = asyncio.Queue(_MOST)
        self._next += 1
        me = self._next
        self._listeners[me] = (asyncio.get_running_loop(), queue)
        if self._closed:
            _put(queue, None)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.pop(me, None)

    def _send(self, event: tuple[str, dict[str, Any]] | None) -> None:
        for loop, queue in list(self._listeners.values()):
            try:
                loop.call_soon_threadsafe(_put, queue, event)
            except RuntimeError:  # its loop is closed
                continue


def _put(queue: asyncio.Queue[Any], event: Any) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)
