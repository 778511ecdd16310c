"""Beyond what may wait nothing is accepted, and that is said; looking and searching go on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

import oahu

ALIKE = {"first": "i0", "second": "i1", "same": True}


@contextmanager
def busy_store(service: Any) -> Iterator[None]:
    """A store whose disk takes its time."""
    begun, go_on = Event(), Event()

    def wait(_: Any) -> None:
        begun.set()
        go_on.wait(60)

    waiting = service.service.store.commit(wait)
    begun.wait(60)
    try:
        yield
    finally:
        go_on.set()
        waiting.result(60)


@pytest.fixture
def busy_learner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Lets learners take their time, from when it is called."""
    go_on = Event()
    learn = oahu.AnchoredOAHU.partial_fit

    def slowly(self: Any, *given: Any) -> Any:
        go_on.wait(60)
        return learn(self, *given)

    yield lambda: monkeypatch.setattr(oahu.AnchoredOAHU, "partial_fit", slowly)
    go_on.set()


def test_what_would_wait_too_long_for_the_disk_is_refused_before_it_is_accepted(start: Any, wait: Any) -> None:
    service = start(max_waiting=5)
    path = service.new(n=3)
    items = {"items": [{"key": f"new{at}", "vector": [1, 2, 3, at]} for at in range(4)]}
    with ThreadPoolExecutor(1) as pool:
        with busy_store(service):
            accepted = pool.submit(service.http.put, f"{path}/items", json=items)
            wait(lambda: service.service.store.waiting == 5)
            for refused in (
                service.http.post(f"{path}/feedback", json={"feedback": [ALIKE]}),
                service.http.put(f"{path}/items", json={"items": [{"key": "more", "vector": [1, 2, 3, 4]}]}),
                service.http.post(f"{path}/items/delete", json={"keys": ["i0"]}),
                service.http.post(f"{path}/restore", json={"metric_version": 0}),
                service.http.post("/v1/collections", json={"name": "more", "dimension": 4}),
                service.http.delete(path),
            ):
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                assert refused.json()["type"] == "urn:oahu:problem:overloaded"
            assert service.http.post(f"{path}/search", json={"key": "i0"}).status_code == 200
            assert service.http.get(f"{path}/items").status_code == 200
        assert accepted.result().status_code == 200
    told = service.ask("GET", path)
    assert (told["items"], told["last_seq"]) == (7, 0)


def test_a_refused_idempotency_key_is_as_good_as_new(start: Any, wait: Any) -> None:
    service = start(max_waiting=1)
    path, once = service.new(n=2), {"Idempotency-Key": "once"}
    with busy_store(service):
        service.say(path, ALIKE, headers=once, status=503)
    assert not service.say(path, ALIKE, headers=once)["replayed"]


def test_one_request_larger_than_what_may_wait_is_taken_when_nothing_waits(start: Any) -> None:
    """Otherwise it would be told to come again forever."""
    service = start(max_waiting=2)
    service.new(n=6)


def test_what_would_wait_too_long_to_be_learned_is_refused(start: Any, busy_learner: Any, wait: Any) -> None:
    service = start(max_behind=3, fresh_wait=0.01)
    path = service.new()
    service.ask("POST", f"{path}/search", json={"key": "i0"})
    busy_learner()
    triplet = {"anchor": "i2", "positive": "i3", "negative": "i4"}
    service.say(path, triplet, triplet, triplet)
    refused = service.http.post(f"{path}/feedback", json={"feedback": [triplet]})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    assert service.ask("GET", path)["last_seq"] == 3


def test_search_does_not_wait_for_a_learner_that_takes_its_time(start: Any, busy_learner: Any) -> None:
    service = start(fresh_wait=0.01)
    path = service.new()
    service.ask("POST", f"{path}/search", json={"key": "i0"})
    busy_learner()
    service.say(path, {"anchor": "i2", "positive": "i3", "negative": "i4"})
    found = service.ask("POST", f"{path}/search", json={"key": "i0"})
    assert (found["metric_version"], len(found["matches"])) == (0, 10)
    assert service.ask("GET", path)["pending_feedback"] == 1


def test_a_learner_that_failed_is_told_and_accepts_nothing(
    start: Any, monkeypatch: pytest.MonkeyPatch, wait: Any
) -> None:
    service = start(fresh_wait=0.01)
    path = service.new()
    service.ask("POST", f"{path}/search", json={"key": "i0"})

    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(oahu.AnchoredOAHU, "partial_fit", fail)
    service.say(path, {"anchor": "i2", "positive": "i3", "negative": "i4"})
    wait(lambda: service.ask("GET", path)["learner_error"])
    assert service.http.get("/readyz").status_code == 503
    assert service.http.get("/healthz").status_code == 200
    refused = service.say(path, ALIKE, status=503)
    assert refused["type"] == "urn:oahu:problem:learner-failed"
    service.ask("POST", f"{path}/search", json={"key": "i0"})  # with what it had learned


def test_what_is_received_at_once_has_a_limit(start: Any) -> None:
    service = start(max_buffered=1_000)
    path = service.new(n=2)
    refused = service.http.post(f"{path}/search", json={"key": "i0" * 1_000})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    service.ask("POST", f"{path}/search", json={"key": "i0"})


def test_whoever_stops_waiting_for_the_disk_does_not_stop_it(start: Any, wait: Any) -> None:
    """What was handed to the store is stored, and the next request too."""
    service = start()
    path = service.new()
    with busy_store(service):
        import httpx

        with pytest.raises(httpx.ReadTimeout):
            service.http.post(f"{path}/feedback", json={"feedback": [ALIKE]}, timeout=0.2)
    wait(lambda: service.ask("GET", path)["last_seq"] == 1)
    service.say(path, ALIKE)
