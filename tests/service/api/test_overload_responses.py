"""An overloaded service rejects writes with status 503 and still answers reads and searches."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Event
from typing import Any

import pytest

import oahu

ALIKE = {"first": "i0", "second": "i1", "same": True}


@contextmanager
def blocked_store(server: Any) -> Iterator[None]:
    """Block the writer thread of the store."""
    started, release = Event(), Event()

    def block(_: Any) -> None:
        started.set()
        release.wait()

    commit = server.service.store.commit(block)
    started.wait()
    try:
        yield
    finally:
        release.set()
        commit.result()


@pytest.fixture
def block_learner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that blocks learners until the test ends."""
    release = Event()
    learn = oahu.AnchoredOAHU.partial_fit

    def blocked(self: Any, *given: Any) -> Any:
        release.wait()
        return learn(self, *given)

    yield lambda: monkeypatch.setattr(oahu.AnchoredOAHU, "partial_fit", blocked)
    release.set()


def test_requests_are_rejected_when_the_write_queue_is_full(start_server: Any, wait_until: Any) -> None:
    server = start_server(max_write_queue=5)
    path = server.new_collection(n=3)
    items = {"items": [{"key": f"new{at}", "vector": [1, 2, 3, at]} for at in range(4)]}
    with ThreadPoolExecutor(1) as pool:
        with blocked_store(server):
            accepted = pool.submit(server.http.put, f"{path}/items", json=items)
            wait_until(lambda: server.service.store.queue_weight == 5)
            for rejected in (
                server.http.post(f"{path}/feedback", json={"feedback": [ALIKE]}),
                server.http.put(f"{path}/items", json={"items": [{"key": "more", "vector": [1, 2, 3, 4]}]}),
                server.http.post(f"{path}/items/delete", json={"keys": ["i0"]}),
                server.http.post(f"{path}/restore", json={"metric_version": 0}),
                server.http.post("/v1/collections", json={"name": "more", "dimension": 4}),
                server.http.delete(path),
            ):
                assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "1")
                assert rejected.json()["type"] == "urn:oahu:problem:overloaded"
            assert server.http.post(f"{path}/search", json={"key": "i0"}).status_code == 200
            assert server.http.get(f"{path}/items").status_code == 200
        assert accepted.result().status_code == 200
    result = server.request("GET", path)
    assert (result["items"], result["last_seq"]) == (7, 0)


def test_the_idempotency_key_of_a_rejected_request_is_not_used_up(start_server: Any, wait_until: Any) -> None:
    server = start_server(max_write_queue=1)
    path, once = server.new_collection(n=2), {"Idempotency-Key": "once"}
    with blocked_store(server):
        server.add_feedback(path, ALIKE, headers=once, status=503)
    assert not server.add_feedback(path, ALIKE, headers=once)["replayed"]


def test_a_request_larger_than_the_write_queue_is_accepted_when_it_is_empty(start_server: Any) -> None:
    """Otherwise the request would never be accepted."""
    server = start_server(max_write_queue=2)
    server.new_collection(n=6)


def test_feedback_is_rejected_when_too_much_is_pending(
    start_server: Any, block_learner: Any, wait_until: Any
) -> None:
    server = start_server(max_learning_lag=3, fresh_wait=0.01)
    path = server.new_collection()
    server.request("POST", f"{path}/search", json={"key": "i0"})
    block_learner()
    triplet = {"anchor": "i2", "positive": "i3", "negative": "i4"}
    server.add_feedback(path, triplet, triplet, triplet)
    rejected = server.http.post(f"{path}/feedback", json={"feedback": [triplet]})
    assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "2")
    assert server.request("GET", path)["last_seq"] == 3


def test_a_search_does_not_wait_for_a_slow_learner(start_server: Any, block_learner: Any) -> None:
    server = start_server(fresh_wait=0.01)
    path = server.new_collection()
    server.request("POST", f"{path}/search", json={"key": "i0"})
    block_learner()
    server.add_feedback(path, {"anchor": "i2", "positive": "i3", "negative": "i4"})
    found = server.request("POST", f"{path}/search", json={"key": "i0"})
    assert (found["metric_version"], len(found["matches"])) == (0, 10)
    assert server.request("GET", path)["pending_feedback"] == 1


def test_a_failed_learner_is_reported_and_accepts_no_feedback(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, wait_until: Any
) -> None:
    server = start_server(fresh_wait=0.01)
    path = server.new_collection()
    server.request("POST", f"{path}/search", json={"key": "i0"})

    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(oahu.AnchoredOAHU, "partial_fit", fail)
    server.add_feedback(path, {"anchor": "i2", "positive": "i3", "negative": "i4"})
    wait_until(lambda: server.request("GET", path)["learner_error"])
    assert server.http.get("/readyz").status_code == 503
    assert server.http.get("/healthz").status_code == 200
    rejected = server.add_feedback(path, ALIKE, status=503)
    assert rejected["type"] == "urn:oahu:problem:learner-failed"
    server.request("POST", f"{path}/search", json={"key": "i0"})  # with the last metric


def test_the_total_size_of_received_bodies_is_limited(start_server: Any) -> None:
    server = start_server(max_buffered=1_000)
    path = server.new_collection(n=2)
    rejected = server.http.post(f"{path}/search", json={"key": "i0" * 1_000})
    assert (rejected.status_code, rejected.headers["retry-after"]) == (503, "1")
    server.request("POST", f"{path}/search", json={"key": "i0"})


def test_a_client_that_disconnects_does_not_stop_a_commit(start_server: Any, wait_until: Any) -> None:
    """Its feedback and the next request are stored."""
    server = start_server()
    path = server.new_collection()
    body = json.dumps({"feedback": [ALIKE]}).encode()
    head = f"POST {path}/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    host, port = server.url.removeprefix("http://").split(":")
    with blocked_store(server), closing(socket.create_connection((host, int(port)))) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: server.service.store.queue_weight == 2)  # the blocking commit and the feedback
    wait_until(lambda: server.request("GET", path)["last_seq"] == 1)
    server.add_feedback(path, ALIKE)
