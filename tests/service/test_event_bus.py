"""Events reach all subscribers, from any thread, and a slow subscriber does not block the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any

from oahu.service.event_bus import EventBus

TIMEOUT = 600.0  # seconds; only a real hang exceeds it


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def with_timeout() -> Any:
        return await asyncio.wait_for(work, TIMEOUT)

    return asyncio.run(with_timeout())


async def received(events: EventBus) -> list[tuple[str, dict[str, Any]]]:
    """Return all events until the bus is closed."""
    return [event async for event in events.subscribe()]


async def wait_for_subscribers(events: EventBus, n: int) -> None:
    """Wait until there are n subscribers."""
    while len(events._subscribers) < n:
        await asyncio.sleep(0)


def test_all_subscribers_receive_all_events_in_order() -> None:
    async def work() -> None:
        events = EventBus()
        subscribers = [asyncio.ensure_future(received(events)) for _ in range(3)]
        await wait_for_subscribers(events, 3)
        for i in range(5):
            events.publish("metric", version=i)
        events.close()
        for found in await asyncio.gather(*subscribers):
            assert found == [("metric", {"version": i}) for i in range(5)]

    run(work())


def test_another_thread_can_publish() -> None:
    async def work() -> None:
        events = EventBus()
        subscriber = asyncio.ensure_future(received(events))
        await wait_for_subscribers(events, 1)
        publisher = Thread(target=lambda: [events.publish("items", added=i) for i in range(100)] and events.close())
        publisher.start()
        assert [data["added"] for _, data in await subscriber] == list(range(100))
        publisher.join()

    run(work())


def test_earlier_events_are_not_received() -> None:
    async def work() -> None:
        events = EventBus()
        events.publish("metric", version=1)
        subscriber = asyncio.ensure_future(received(events))
        await wait_for_subscribers(events, 1)
        events.close()
        assert await subscriber == []

    run(work())


def test_a_closed_subscription_is_removed() -> None:
    async def work() -> None:
        events = EventBus()
        subscriber = events.subscribe()
        first = asyncio.ensure_future(anext(subscriber))
        await wait_for_subscribers(events, 1)
        events.publish("metric", version=1)
        await first
        await subscriber.aclose()  # type: ignore[attr-defined]
        assert not events._subscribers

    run(work())


def test_a_cancelled_subscription_is_removed() -> None:
    async def work() -> None:
        events = EventBus()
        subscriber = asyncio.ensure_future(received(events))
        await wait_for_subscribers(events, 1)
        subscriber.cancel()
        await asyncio.wait([subscriber])
        assert not events._subscribers

    run(work())


def test_a_slow_subscriber_loses_the_oldest_events() -> None:
    async def work() -> None:
        events = EventBus()
        subscriber = events.subscribe()
        first = asyncio.ensure_future(anext(subscriber))
        await wait_for_subscribers(events, 1)
        for i in range(1000):
            events.publish("metric", version=i)
        events.close()
        found = [await first, *[event async for event in subscriber]]
        versions = [data["version"] for _, data in found]
        assert versions == list(range(1000 - len(versions), 1000))
        assert 100 < len(versions) < 1000

    run(work())


def test_publishing_to_a_closed_event_loop_is_no_error() -> None:
    events = EventBus()
    subscriber = events.subscribe()

    async def begin() -> None:
        waiting = asyncio.ensure_future(anext(subscriber))
        await wait_for_subscribers(events, 1)
        events._subscribers[99] = events._subscribers[1]  # a subscription that could not be removed
        waiting.cancel()
        await asyncio.wait([waiting])

    run(begin())
    events.publish("metric", version=1)
    assert 99 in events._subscribers


def test_a_subscription_to_a_closed_bus_ends_at_once() -> None:
    events = EventBus()
    events.close()
    assert run(received(events)) == []
