"""EventBus reach whoever listens, from any thread, and nobody who does not listen holds anyone up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any

from oahu.service.event_bus import EventBus

PATIENCE = 30.0


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def patiently() -> Any:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(patiently())


async def heard(events: EventBus) -> list[tuple[str, dict[str, Any]]]:
    """All events until the end."""
    return [event async for event in events.subscribe()]


async def listening(events: EventBus, n: int) -> None:
    """Wait until n are listening."""
    while len(events._listeners) < n:
        await asyncio.sleep(0)


def test_all_that_listen_hear_everything_in_order() -> None:
    async def work() -> None:
        events = EventBus()
        listeners = [asyncio.ensure_future(heard(events)) for _ in range(3)]
        await listening(events, 3)
        for i in range(5):
            events.publish("metric", version=i)
        events.close()
        for found in await asyncio.gather(*listeners):
            assert found == [("metric", {"version": i}) for i in range(5)]

    run(work())


def test_another_thread_can_tell() -> None:
    async def work() -> None:
        events = EventBus()
        listener = asyncio.ensure_future(heard(events))
        await listening(events, 1)
        teller = Thread(target=lambda: [events.publish("items", added=i) for i in range(100)] and events.close())
        teller.start()
        assert [what["added"] for _, what in await listener] == list(range(100))
        teller.join()

    run(work())


def test_what_was_told_before_is_not_heard() -> None:
    async def work() -> None:
        events = EventBus()
        events.publish("metric", version=1)
        listener = asyncio.ensure_future(heard(events))
        await listening(events, 1)
        events.close()
        assert await listener == []

    run(work())


def test_a_listener_that_leaves_is_forgotten() -> None:
    async def work() -> None:
        events = EventBus()
        listener = events.subscribe()
        first = asyncio.ensure_future(anext(listener))
        await listening(events, 1)
        events.publish("metric", version=1)
        await first
        await listener.aclose()  # type: ignore[attr-defined]
        assert not events._listeners

    run(work())


def test_a_listener_that_is_cancelled_is_forgotten() -> None:
    async def work() -> None:
        events = EventBus()
        listener = asyncio.ensure_future(heard(events))
        await listening(events, 1)
        listener.cancel()
        await asyncio.wait([listener])
        assert not events._listeners

    run(work())


def test_one_that_is_slow_loses_the_oldest_only() -> None:
    async def work() -> None:
        events = EventBus()
        listener = events.subscribe()
        first = asyncio.ensure_future(anext(listener))
        await listening(events, 1)
        for i in range(1000):
            events.publish("metric", version=i)
        events.close()
        found = [await first, *[event async for event in listener]]
        versions = [what["version"] for _, what in found]
        assert versions == list(range(1000 - len(versions), 1000))
        assert 100 < len(versions) < 1000

    run(work())


def test_telling_after_the_loop_of_a_listener_is_closed_is_no_error() -> None:
    events = EventBus()
    listener = events.subscribe()

    async def begin() -> None:
        waiting = asyncio.ensure_future(anext(listener))
        await listening(events, 1)
        events._listeners[99] = events._listeners[1]  # as if it could not say goodbye
        waiting.cancel()
        await asyncio.wait([waiting])

    run(begin())
    events.publish("metric", version=1)
    assert 99 in events._listeners


def test_who_comes_after_the_end_does_not_wait() -> None:
    events = EventBus()
    events.close()
    assert run(heard(events)) == []
