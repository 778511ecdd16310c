"""Server-sent events: the metric as it is, then everything that happens, until someone leaves."""

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
def listening(service: Any, path: str, **params: Any) -> Iterator[Iterator[Event]]:
    """Events as they come."""
    with service.http.stream("GET", f"{path}/events", params=params) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


def events(answer: httpx.Response) -> Iterator[Event]:
    """As the standard has it: lines of fields, and an empty line behind each event."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields["event"], json.loads(fields["data"])
            fields = {}


def until(heard: Iterator[Event], kind: str, **what: Any) -> dict[str, Any]:
    """The first event of a kind that says something."""
    for told, content in heard:
        if told == kind and content.items() >= what.items():
            return content
    raise AssertionError(f"the stream ended without {kind} {what}")


def test_a_stream_begins_with_the_metric_as_it_is(live: Any) -> None:
    path = live.new()
    with listening(live, path, limit=1) as heard:
        (only,) = list(heard)
    told = live.ask("GET", path)
    kind, content = only
    assert kind == "metric"
    assert content == {
        name: told[name] for name in ("metric_version", "constraints", "weights", "error_rate", "pending_feedback")
    }


def test_feedback_is_told_and_then_the_metric_that_learned_it(live: Any) -> None:
    path = live.new(closure=0)
    with listening(live, path) as heard:
        next(heard)
        live.say(path, TRIPLET)
        assert until(heard, "feedback") == {"seq": 1, "accepted": 1}
        metric = until(heard, "metric")
    assert (metric["metric_version"], metric["constraints"]) == (1, 1)
    assert sum(metric["weights"].values()) == pytest.approx(1)
    assert metric["error_rate"] in (0.0, 1.0)


def test_undoing_is_told(live: Any) -> None:
    path = live.new()
    live.say(path, TRIPLET)
    with listening(live, path) as heard:
        next(heard)
        live.ask("DELETE", f"{path}/feedback/1")
        assert until(heard, "undo") == {"seq": 2}
        assert until(heard, "metric", metric_version=2)["constraints"] == 0


def test_changed_items_are_told(live: Any) -> None:
    path = live.new()
    with listening(live, path) as heard:
        next(heard)
        live.ask("PUT", f"{path}/items", json={"items": [{"key": "new", "vector": [1, 2, 3, 4]}]})
        assert until(heard, "items") == {"added": 1, "removed": 0}


def test_a_catalogue_embedded_anew_is_told(live: Any) -> None:
    path = live.new()
    with listening(live, path) as heard:
        next(heard)
        live.say(path, TRIPLET)
        assert until(heard, "refresh", metric_version=1)["seconds"] >= 0


def test_nothing_is_missed_from_the_first_event_on(live: Any) -> None:
    """Whatever happens after the first event arrived is told, however soon."""
    path = live.new()
    for seq in range(1, 21):
        with listening(live, path) as heard:
            next(heard)
            live.say(path, TRIPLET)
            assert until(heard, "feedback")["seq"] == seq


def test_all_who_listen_are_told(live: Any) -> None:
    path = live.new()
    with ExitStack() as stack:
        all_heard = [stack.enter_context(listening(live, path)) for _ in range(5)]
        for heard in all_heard:
            next(heard)
        live.say(path, TRIPLET)
        assert [until(heard, "feedback")["seq"] for heard in all_heard] == [1] * 5


def test_a_collection_tells_nothing_of_another(live: Any) -> None:
    path, other = live.new(), live.new()
    with listening(live, path) as heard:
        next(heard)
        live.say(other, TRIPLET, TRIPLET)
        live.say(path, TRIPLET)
        assert until(heard, "feedback")["accepted"] == 1


def test_a_stream_ends_after_as_many_events_as_were_asked_for(live: Any) -> None:
    path = live.new()
    with listening(live, path, limit=3) as heard:
        next(heard)
        live.say(path, TRIPLET)
        assert len(list(heard)) == 2


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5"])
def test_a_stream_of_no_length_is_refused(live: Any, limit: str) -> None:
    live.ask("GET", f"{live.new()}/events", 422, params={"limit": limit})


def test_a_stream_ends_with_its_collection(live: Any) -> None:
    path = live.new()
    with listening(live, path) as heard:
        next(heard)
        live.ask("DELETE", path, 204)
        list(heard)  # does not hang


def test_whoever_leaves_is_not_kept(live: Any, wait: Any) -> None:
    path = live.new()
    collection = live.service.collection(path.rpartition("/")[2])
    with listening(live, path) as heard:
        next(heard)
        assert len(collection.events._subscribers) == 1
    live.say(path, TRIPLET)
    wait(lambda: not collection.events._subscribers, "forgetting the listener")
    wait(lambda: live.app.state.open_streams == 0, "counting the stream out")


def test_there_is_a_most_of_streams(start: Any, wait: Any) -> None:
    service = start(max_streams=2)
    path = service.new()
    with listening(service, path) as one, listening(service, path) as two:
        next(one), next(two)
        refused = service.http.get(f"{path}/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    wait(lambda: service.app.state.open_streams == 0, "counting the streams out")
    with listening(service, path, limit=1) as heard:
        next(heard)


def test_a_listener_that_does_not_read_loses_events_and_holds_none_of_them(live: Any) -> None:
    """What waits for it is as much as fits into its queue and the connection, however much happens."""
    path = live.new()
    collection = live.service.collection(path.rpartition("/")[2])
    with listening(live, path) as heard:
        next(heard)
        ((_, queue),) = collection.events._subscribers.values()
        large = "x" * 100_000
        for _ in range(2_000):  # 200 MB: far more than a connection holds
            collection.events.publish("filler", text=large)
        collection.events.publish("last")
        told = [kind for kind, _ in iter(lambda: next(heard), ("last", {}))]
        assert len(told) < 1_500
        assert queue.maxsize == 256


def test_a_stream_that_is_quiet_says_that_it_is_alive(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oahu.service.api.routes.event_routes._HEARTBEAT_SECONDS", 0.02)
    with live.http.stream("GET", f"{live.new()}/events") as answer:
        assert next(line for line in answer.iter_lines() if line.startswith(":")) == ": heartbeat"
