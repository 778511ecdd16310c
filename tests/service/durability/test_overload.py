"""More than may wait: it is refused before anything of it is accepted, and searching goes on."""

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


@contextmanager
def _held(served: Any) -> Iterator[None]:
    """Nothing is stored meanwhile: whatever comes waits."""
    begun, go_on = Event(), Event()

    def hold(transaction: Any) -> None:
        begun.set()
        assert go_on.wait(60)

    holding = served.service.store.commit(hold, weight=0)
    assert begun.wait(60)
    try:
        yield
    finally:
        go_on.set()
        holding.result()


class Flood:
    """Many who send at once, each with what nobody else sends."""

    def __init__(self, served: Any, senders: ThreadPoolExecutor) -> None:
        self._served, self._senders = served, senders
        self._sent: list[tuple[list[str], Future[httpx.Response]]] = []

    def put(self, keys: list[str]) -> Future[httpx.Response]:
        items = [{"key": key, "vector": [float(len(key))] * 8} for key in keys]
        return self._send(keys, "PUT", "/items", {"items": items})

    def say(self, pairs: list[tuple[str, str]]) -> Future[httpx.Response]:
        said = [{"first": first, "second": second, "same": False} for first, second in pairs]
        return self._send([f"{first} {second}" for first, second in pairs], "POST", "/feedback", {"feedback": said})

    def _send(self, what: list[str], *request: Any) -> Future[httpx.Response]:
        answer = self._senders.submit(self._served.ask, *request)
        self._sent.append((what, answer))
        return answer

    def first_answers(self, count: int) -> list[httpx.Response]:
        """What was answered first, when so many were."""
        return [answer.result() for answer in islice(as_completed([answer for _, answer in self._sent]), count)]

    def accepted(self) -> list[str]:
        """What was answered well, when all are answered."""
        return [one for what, answer in self._sent if answer.result().status_code == 200 for one in what]

    def refused(self) -> list[httpx.Response]:
        return [answer.result() for _, answer in self._sent if answer.result().status_code != 200]


@pytest.fixture
def senders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(24) as pool:
        yield pool


@pytest.fixture
def flooded(serve: Any, senders: ThreadPoolExecutor) -> Iterator[tuple[Any, Flood]]:
    """A service that lets 10 wait, when 24 requests of 3 items or pieces of feedback have come at once."""
    with serve(max_waiting=10, fresh_wait=0.0) as served:
        served.put(10)
        flood = Flood(served, senders)
        with _held(served):
            for at in range(12):
                flood.put([f"new {at} {one}" for one in range(3)])
                flood.say([(f"i{at % 4}", f"i{at % 4 + one}") for one in (1, 2, 3)])
            flood.first_answers(21)
            yield served, flood


def test_beyond_the_bound_requests_are_refused_with_a_time_to_try_again(flooded: tuple[Any, Flood]) -> None:
    _, flood = flooded
    refused = flood.first_answers(21)
    assert {answer.status_code for answer in refused} == {503}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
    assert {answer.json()["type"] for answer in refused} == {"urn:oahu:problem:overloaded"}


def test_searching_goes_on_while_what_comes_is_refused(flooded: tuple[Any, Flood]) -> None:
    served, _ = flooded
    assert len(served.get("POST", "/search", {"key": "i0", "k": 5})["matches"]) == 5
    assert served.get("GET")["items"] == 10
    assert served.keys() == [f"i{at}" for at in range(10)]


def test_what_waits_is_stored_and_what_was_refused_is_not(serve: Any, senders: ThreadPoolExecutor) -> None:
    with serve(max_waiting=10) as served:
        served.put(10)
        flood = Flood(served, senders)
        with _held(served):
            for at in range(8):
                flood.put([f"new {at} {one}" for one in range(3)])
            flood.first_answers(8 - 3)
        accepted = flood.accepted()
        assert len(accepted) == 9
        assert sorted(served.keys()) == sorted([*accepted, *(f"i{at}" for at in range(10))])


def test_a_flood_loses_nothing_and_stores_nothing_else(
    serve: Any, senders: ThreadPoolExecutor, must_be: Any
) -> None:
    with serve(max_waiting=6, max_behind=30, fresh_wait=0.0) as served:
        served.put(40)
        flood = Flood(served, senders)
        with ExitStack() as holding:
            holding.enter_context(_held(served))
            for at in range(160):
                if at == 30:
                    holding.close()  # from here on as fast as it goes
                flood.put([f"new {at} {one}" for one in range(2)])
                flood.say([(f"i{at % 36}", f"i{at % 36 + 1 + at // 36}")])
        accepted, refused = flood.accepted(), flood.refused()
        assert {answer.status_code for answer in refused} == {503}
        said = [f"{entry['first']} {entry['second']}" for entry in served.log()]
        assert sorted(said + served.keys()) == sorted([*accepted, *(f"i{at}" for at in range(40))])
        assert served.model() == must_be()


# -- the learner ---------------------------------------------------------------------------------------------


@pytest.fixture
def behind(serve: Any) -> Iterator[Any]:
    """A service whose learner cannot go on, and lets 12 wait for it."""
    with serve(max_behind=12, fresh_wait=0.01) as served:
        served.put(40)
        served.say(5, seed=1)
        served.model()
        with served.collection._loop._learning:
            assert served.say(12, seed=2, at_once=4) == 17
            yield served


def test_feedback_that_the_learner_does_not_keep_up_with_is_refused(behind: Any) -> None:
    answer = behind.ask("POST", "/feedback", {"feedback": [{"first": "i0", "second": "i1", "same": False}]})
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["type"] == "urn:oahu:problem:overloaded"
    assert len(behind.log()) == 17


def test_searching_goes_on_while_the_learner_is_behind(behind: Any) -> None:
    found = behind.get("POST", "/search", {"key": "i0", "k": 5})
    assert len(found["matches"]) == 5
    assert found["metric_version"] == 5
    assert behind.get("GET")["pending_feedback"] == 12


def test_when_the_learner_has_caught_up_feedback_is_accepted_again(serve: Any, must_be: Any) -> None:
    with serve(max_behind=12, fresh_wait=60) as served:
        served.put(40)
        with served.collection._loop._learning:
            served.say(12, seed=2, at_once=4)
            said = {"feedback": [{"first": "i0", "second": "i1", "same": False}]}
            assert served.ask("POST", "/feedback", said).status_code == 503
        served.model()
        assert served.get("POST", "/feedback", said)["first_seq"] == 13
        assert served.model() == must_be()
