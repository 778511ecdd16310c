"""Server-sent events: the current metric first, then every change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

TRIPLET = {"anchor": "i0", "positive": "i1", "negative": "i2"}
Event = tuple[str, dict[str, Any]]


@contextmanager
def event_stream(server: Any, path: str, **params: Any) -> Iterator[Iterator[Event]]:
    """Open a stream and yield an iterator of its events."""
    with server.http.stream("GET", f"{path}/events", params=params) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        yield events(response)


def events(response: httpx.Response) -> Iterator[Event]:
    """Parse server-sent events: lines with fields, and an empty line after each event."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields["event"], json.loads(fields["data"])
            fields = {}


def first_event(events: Iterator[Event], kind: str, **fields: Any) -> dict[str, Any]:
    """Return the content of the first event of a kind that has the given fields."""
    for result, content in events:
        if result == kind and content.items() >= fields.items():
            return content
    raise AssertionError(f"the stream ended without {kind} {fields}")


def test_the_first_event_is_the_current_metric(server: Any) -> None:
    path = server.new_collection()
    with event_stream(server, path, limit=1) as events:
        (only,) = list(events)
    result = server.request("GET", path)
    kind, content = only
    assert kind == "metric"
    assert content == {
        name: result[name]
        for name in ("metric_version", "constraints", "weights", "error_rate", "pending_feedback")
    }


def test_feedback_and_metric_events(server: Any) -> None:
    path = server.new_collection(closure=0)
    with event_stream(server, path) as events:
        next(events)
        server.add_feedback(path, TRIPLET)
        assert first_event(events, "feedback") == {"seq": 1, "accepted": 1}
        metric = first_event(events, "metric")
    assert (metric["metric_version"], metric["constraints"]) == (1, 1)
    assert sum(metric["weights"].values()) == pytest.approx(1)
    assert metric["error_rate"] in (0.0, 1.0)


def test_undo_events(server: Any) -> None:
    path = server.new_collection()
    server.add_feedback(path, TRIPLET)
    with event_stream(server, path) as events:
        next(events)
        server.request("DELETE", f"{path}/feedback/1")
        assert first_event(events, "undo") == {"seq": 2}
        assert first_event(events, "metric", metric_version=2)["constraints"] == 0


def test_items_events(server: Any) -> None:
    path = server.new_collection()
    with event_stream(server, path) as events:
        next(events)
        server.request("PUT", f"{path}/items", json={"items": [{"key": "new", "vector": [1, 2, 3, 4]}]})
        assert first_event(events, "items") == {"added": 1, "removed": 0}


def test_refresh_events(server: Any) -> None:
    path = server.new_collection()
    with event_stream(server, path) as events:
        next(events)
        server.add_feedback(path, TRIPLET)
        assert first_event(events, "refresh", metric_version=1)["seconds"] >= 0


def test_no_event_after_the_first_is_missed(server: Any) -> None:
    """The stream contains everything that happens after its first event arrived."""
    path = server.new_collection()
    for seq in range(1, 21):
        with event_stream(server, path) as events:
            next(events)
            server.add_feedback(path, TRIPLET)
            assert first_event(events, "feedback")["seq"] == seq


def test_all_subscribers_get_the_events(server: Any) -> None:
    path = server.new_collection()
    with ExitStack() as stack:
        all_heard = [stack.enter_context(event_stream(server, path)) for _ in range(5)]
        for events in all_heard:
            next(events)
        server.add_feedback(path, TRIPLET)
        assert [first_event(events, "feedback")["seq"] for events in all_heard] == [1] * 5


def test_events_of_other_collections_are_not_sent(server: Any) -> None:
    path, other = server.new_collection(), server.new_collection()
    with event_stream(server, path) as events:
        next(events)
        server.add_feedback(other, TRIPLET, TRIPLET)
        server.add_feedback(path, TRIPLET)
        assert first_event(events, "feedback")["accepted"] == 1


def test_the_limit_ends_the_stream(server: Any) -> None:
    path = server.new_collection()
    with event_stream(server, path, limit=3) as events:
        next(events)
        server.add_feedback(path, TRIPLET)
        assert len(list(events)) == 2


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5"])
def test_invalid_limits_are_rejected(server: Any, limit: str) -> None:
    server.request("GET", f"{server.new_collection()}/events", 422, params={"limit": limit})


def test_deleting_the_collection_ends_the_stream(server: Any) -> None:
    path = server.new_collection()
    with event_stream(server, path) as events:
        next(events)
        server.request("DELETE", path, 204)
        list(events)  # returns when the stream ends


def test_a_closed_connection_ends_the_subscription(server: Any, wait_until: Any) -> None:
    path = server.new_collection()
    collection = server.service.collection(path.rpartition("/")[2])
    with event_stream(server, path) as events:
        next(events)
        assert len(collection.events._subscribers) == 1
    server.add_feedback(path, TRIPLET)
    wait_until(lambda: not collection.events._subscribers, "the end of the subscription")
    wait_until(lambda: server.app.state.open_streams == 0, "the end of the stream")


def test_the_number_of_streams_is_limited(start_server: Any, wait_until: Any) -> None:
    server = start_server(max_streams=2)
    path = server.new_collection()
    with event_stream(server, path) as one, event_stream(server, path) as two:
        next(one), next(two)
        rejected = server.http.get(f"{path}/events")
        assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "10")
    wait_until(lambda: server.app.state.open_streams == 0, "the end of the streams")
    with event_stream(server, path, limit=1) as events:
        next(events)


def test_a_client_that_does_not_read_misses_events(server: Any) -> None:
    """The service buffers at most as many events as fit into the queue and the connection."""
    path = server.new_collection()
    collection = server.service.collection(path.rpartition("/")[2])
    with event_stream(server, path) as events:
        next(events)
        ((_, queue),) = collection.events._subscribers.values()
        large = "x" * 100_000
        for _ in range(2_000):  # 200 MB, far more than a connection buffers
            collection.events.publish("filler", text=large)
        collection.events.publish("last")
        result = [kind for kind, _ in iter(lambda: next(events), ("last", {}))]
        assert len(result) < 1_500
        assert queue.maxsize == 256


def test_an_idle_stream_sends_heartbeats(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.service.api.routes.event_routes._HEARTBEAT_SECONDS", 0.02)
    with server.http.stream("GET", f"{server.new_collection()}/events") as response:
        assert next(line for line in response.iter_lines() if line.startswith(":")) == ": heartbeat"
