"""Full queues: requests are rejected completely, and searches continue."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from itertools import islice
from threading import Event
from typing import Any

import httpx
import pytest

Json = dict[str, Any]

pytestmark = pytest.mark.server  # runs a real HTTP server

TIMEOUT = 600.0  # seconds; only a real hang exceeds it


@contextmanager
def _writer_blocked(served: Any) -> Iterator[None]:
    """Block the writer. Further commands wait in the queue."""
    blocked, released = Event(), Event()

    def block(transaction: Any) -> None:
        blocked.set()
        assert released.wait(TIMEOUT)

    blocking = served.service.store.commit(block, weight=0)
    assert blocked.wait(TIMEOUT)
    try:
        yield
    finally:
        released.set()
        blocking.result()


class ConcurrentRequests:
    """Requests that are sent concurrently, all with different content."""

    def __init__(self, served: Any, senders: ThreadPoolExecutor) -> None:
        self._served, self._senders = served, senders
        self._sent: list[tuple[list[str], Future[httpx.Response]]] = []

    def put(self, keys: list[str]) -> Future[httpx.Response]:
        items = [{"key": key, "vector": [float(len(key))] * 8} for key in keys]
        return self._send(keys, "PUT", "/items", {"items": items})

    def add_feedback(self, pairs: list[tuple[str, str]]) -> Future[httpx.Response]:
        records = [{"first": first, "second": second, "same": False} for first, second in pairs]
        return self._send(
            [f"{first} {second}" for first, second in pairs], "POST", "/feedback", {"feedback": records}
        )

    def _send(self, content: list[str], *request: Any) -> Future[httpx.Response]:
        answer = self._senders.submit(self._served.request, *request)
        self._sent.append((content, answer))
        return answer

    def first_answers(self, count: int) -> list[httpx.Response]:
        """Return the first ``count`` responses."""
        return [answer.result() for answer in islice(as_completed([answer for _, answer in self._sent]), count)]

    def accepted(self) -> list[str]:
        """Return the content of all successful requests, once all are answered."""
        return [one for content, answer in self._sent if answer.result().status_code == 200 for one in content]

    def rejected(self) -> list[httpx.Response]:
        return [answer.result() for _, answer in self._sent if answer.result().status_code != 200]


@pytest.fixture
def senders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(24) as pool:
        yield pool


@pytest.fixture
def overloaded(serve: Any, senders: ThreadPoolExecutor) -> Iterator[tuple[Any, ConcurrentRequests]]:
    """A service with a write queue of 10, after 24 requests of 3 items or feedback records."""
    with serve(max_write_queue=10, fresh_wait=0.0) as served:
        served.put(10)
        requests = ConcurrentRequests(served, senders)
        with _writer_blocked(served):
            for at in range(12):
                requests.put([f"new {at} {one}" for one in range(3)])
                requests.add_feedback([(f"i{at % 4}", f"i{at % 4 + one}") for one in (1, 2, 3)])
            requests.first_answers(21)
            yield served, requests


def test_a_full_write_queue_rejects_requests_with_a_retry_time(overloaded: tuple[Any, ConcurrentRequests]) -> None:
    _, requests = overloaded
    rejected = requests.first_answers(21)
    assert {answer.status_code for answer in rejected} == {503}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in rejected)
    assert {answer.json()["type"] for answer in rejected} == {"urn:oahu:problem:overloaded"}


def test_searches_continue_while_the_write_queue_is_full(overloaded: tuple[Any, ConcurrentRequests]) -> None:
    served, _ = overloaded
    assert len(served.call("POST", "/search", {"key": "i0", "k": 5})["matches"]) == 5
    assert served.call("GET")["items"] == 10
    assert served.keys() == [f"i{at}" for at in range(10)]


def test_queued_requests_are_stored_and_rejected_ones_are_not(serve: Any, senders: ThreadPoolExecutor) -> None:
    with serve(max_write_queue=10) as served:
        served.put(10)
        requests = ConcurrentRequests(served, senders)
        with _writer_blocked(served):
            for at in range(8):
                requests.put([f"new {at} {one}" for one in range(3)])
            requests.first_answers(8 - 3)
        accepted = requests.accepted()
        assert len(accepted) == 9
        assert sorted(served.keys()) == sorted([*accepted, *(f"i{at}" for at in range(10))])


def test_an_overload_loses_nothing_and_stores_nothing_else(
    serve: Any, senders: ThreadPoolExecutor, expected_model: Any
) -> None:
    with serve(max_write_queue=6, max_learning_lag=30, fresh_wait=0.0) as served:
        served.put(40)
        requests = ConcurrentRequests(served, senders)
        with ExitStack() as holding:
            holding.enter_context(_writer_blocked(served))
            for at in range(160):
                if at == 30:
                    holding.close()  # the rest is sent without blocking
                requests.put([f"new {at} {one}" for one in range(2)])
                requests.add_feedback([(f"i{at % 36}", f"i{at % 36 + 1 + at // 36}")])
        accepted, rejected = requests.accepted(), requests.rejected()
        assert {answer.status_code for answer in rejected} == {503}
        logged = [f"{entry['first']} {entry['second']}" for entry in served.log()]
        assert sorted(logged + served.keys()) == sorted([*accepted, *(f"i{at}" for at in range(40))])
        assert served.model() == expected_model()


# -- the learner ---------------------------------------------------------------------------------------------


@pytest.fixture
def lagging(serve: Any) -> Iterator[Any]:
    """A service with a blocked learner, 12 records behind the log. The limit is 12."""
    with serve(max_learning_lag=12, fresh_wait=0.01) as served:
        served.put(40)
        served.add_feedback(5, seed=1)
        served.model()
        with served.collection.learner._training:
            assert served.add_feedback(12, seed=2, at_once=4) == 17
            yield served


def test_feedback_is_rejected_if_the_learner_is_too_far_behind(lagging: Any) -> None:
    answer = lagging.request("POST", "/feedback", {"feedback": [{"first": "i0", "second": "i1", "same": False}]})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["type"] == "urn:oahu:problem:overloaded"
    assert len(lagging.log()) == 17


def test_searches_continue_while_the_learner_is_behind(lagging: Any) -> None:
    found = lagging.call("POST", "/search", {"key": "i0", "k": 5})
    assert len(found["matches"]) == 5
    assert found["metric_version"] == 5
    assert lagging.call("GET")["pending_feedback"] == 12


def test_feedback_is_accepted_again_once_the_learner_has_caught_up(serve: Any, expected_model: Any) -> None:
    with serve(max_learning_lag=12, fresh_wait=TIMEOUT) as served:
        served.put(40)
        with served.collection.learner._training:
            served.add_feedback(12, seed=2, at_once=4)
            body = {"feedback": [{"first": "i0", "second": "i1", "same": False}]}
            assert served.request("POST", "/feedback", body).status_code == 503
        served.model()
        assert served.call("POST", "/feedback", body)["first_seq"] == 13
        assert served.model() == expected_model()
