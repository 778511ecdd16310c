"""Clients that use a service while it is killed, and record the answers.

Each client has a thread, and items that no other client changes. All feedback agrees with the classes of the items,
and no two records are equal. The test therefore knows the records that the service must accept, and the client that
sent each log entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

import httpx
import numpy as np

__all__ = ["Client", "Endpoint", "Request", "base_items", "check_items", "check_log", "features", "item"]

DIMENSION = 8
CLASSES = 4
TIMEOUT = 600.0  # seconds; only a real hang exceeds it
_BASE = 24  # items that all clients give feedback about

Json = dict[str, Any]


def class_of(key: str) -> int:
    """Return the class of an item, from the number at the end of its key."""
    return int(key.rsplit("-", 1)[1]) % CLASSES


def features(key: str, version: int = 0) -> list[float]:
    """Return features near the centre of the class of an item. They differ between the versions of the item."""
    centre = np.random.default_rng(class_of(key)).normal(size=DIMENSION)
    noise = np.random.default_rng([version, *key.encode()]).normal(size=DIMENSION)
    return np.float32(centre + 0.8 * noise).tolist()


def item(key: str, version: int = 0) -> Json:
    payload = {"key": key, "version": version}
    return {"key": key, "vector": features(key, version), "label": f"class {class_of(key)}", "payload": payload}


def base_items() -> list[Json]:
    return [item(f"base-{at}") for at in range(_BASE)]


def base_shown(keys: list[str], *marked: list[str]) -> list[str]:
    """Return two items that are not marked."""
    return [key for key in keys if not any(key in part for part in marked)][:2]


class Endpoint:
    """The address of the running service, and a switch to pause and stop the clients."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.address: str | None = None
        self.stopped = False
        self.paused = False
        self.n_waiting = 0
        self.n_answers = 0
        self._target: int | None = None
        self._action: Callable[[], None] = lambda: None
        self.failures: list[BaseException] = []

    def connect(self, address: str | None) -> None:
        """Set the address of the service; None while it is down."""
        with self._changed:
            self.address = address
            self._changed.notify_all()

    def wait_for_answers(self, count: int, action: Callable[[], None] = lambda: None) -> None:
        """Wait until ``count`` more changes were answered. The client with the last answer calls ``action``."""
        with self._changed:
            self._target, self._action = self.n_answers + count, action
            self._wait(lambda: self._target is None or bool(self.failures))

    def pause(self, n_clients: int) -> None:
        """Wait until all clients have finished their current action."""
        with self._changed:
            self.paused = True
            self._wait(lambda: self.n_waiting == n_clients or bool(self.failures))

    def resume(self) -> None:
        with self._changed:
            self.paused = False
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self.stopped, self.paused = True, False
            self._changed.notify_all()

    def wait_while_paused(self) -> None:
        """Wait while the clients are paused."""
        with self._changed:
            self.n_waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self.paused)
            self.n_waiting -= 1

    def wait_for_address(self, old: str | None) -> str | None:
        """Wait for the address of a new service. Return None after `stop`."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped or self.address not in (None, old))
            return None if self.stopped else self.address

    def count_answer(self) -> None:
        with self._changed:
            self.n_answers += 1
            if self.n_answers == self._target:
                self._action()
                self._target = None
                self._changed.notify_all()

    def report_failure(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def raise_failures(self) -> None:
        if self.failures:
            raise self.failures[0]

    def _wait(self, condition: Callable[[], bool]) -> None:
        assert self._changed.wait_for(condition, TIMEOUT), "the clients hang"
        self.raise_failures()


@dataclass
class Request:
    """A feedback request, and its first sequence number once it is known."""

    records: list[Json]
    key: str | None
    first_seq: int | None = None
    undone: set[int] = field(default_factory=set)
    versions: dict[str, int] = field(default_factory=dict)  # versions of the client's items, by key

    @property
    def seqs(self) -> range:
        """The sequence numbers of its records."""
        assert self.first_seq is not None
        return range(self.first_seq, self.first_seq + len(self.records))


class _StoppedError(Exception):
    """The clients were stopped."""


class Client(Thread):
    """A client with items of its own, in a thread.

    Attributes
    ----------
    items : dict
        The expected version of each stored item, by key.
    accepted : list of Request
        Accepted feedback.
    unanswered : list of Request
        Feedback without an answer and without an idempotency key. It cannot be sent again.
    n_unanswered : int
        The number of requests without an answer.
    """

    def __init__(
        self, endpoint: Endpoint, name: str, collection: str, seed: int, rejects_contradictions: bool
    ) -> None:
        super().__init__(name=f"client-{name}", daemon=True)
        self._endpoint, self.prefix, self.collection, self._rejects_contradictions = (
            endpoint,
            name,
            collection,
            rejects_contradictions,
        )
        self._rng = np.random.default_rng(seed)
        self._http = httpx.Client(timeout=TIMEOUT, trust_env=False, verify=False)
        self._old_address: str | None = None
        self.items: dict[str, int] = {}
        self.accepted: list[Request] = []
        self.unanswered: list[Request] = []
        self.n_unanswered = 0
        self._n_items = self._n_keys = 0
        self._versions: dict[str, int] = {}  # including items that were deleted or never stored
        self._sent: set[str] = set()

    def run(self) -> None:
        actions = [
            self.put,
            self.put,
            self.delete,
            self.undo,
            self.contradict,
            self.send_feedback_about_a_missing_item,
            self.search,
            self.search,
        ]
        try:
            self.put()
            while not self._endpoint.stopped:
                if self._endpoint.paused:
                    self._endpoint.wait_while_paused()
                    continue
                action = (
                    actions[self._rng.integers(len(actions))] if self._rng.random() < 0.5 else self.add_feedback
                )
                action()
        except _StoppedError:
            pass
        except BaseException as error:
            self._endpoint.report_failure(error)
        finally:
            self._http.close()

    # -- requests ------------------------------------------------------------------------------------------------

    def _send(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response | None:
        """Return the response, or None if there was none."""
        address = self._endpoint.wait_for_address(self._old_address)
        if address is None:
            raise _StoppedError
        headers = {} if key is None else {"Idempotency-Key": key}
        url = f"{address}/v1/collections/{self.collection}{path}"
        try:
            answer = self._http.request(method, url, json=body, headers=headers)
        except httpx.TransportError as error:
            self._old_address = address
            self.n_unanswered += not isinstance(error, httpx.ConnectError)
            return None
        if method != "GET" and path != "/search":
            self._endpoint.count_answer()
        return answer

    def _send_until_answered(
        self, method: str, path: str, body: Any = None, key: str | None = None
    ) -> httpx.Response:
        """Repeat a request until there is a response."""
        while (answer := self._send(method, path, body, key)) is None:
            pass
        return answer

    @staticmethod
    def _expect(answer: httpx.Response, *statuses: int) -> Any:
        assert answer.status_code in statuses, f"{answer.request.url}: {answer.status_code} {answer.text}"
        return answer.json()

    # -- items ---------------------------------------------------------------------------------------------------

    def put(self) -> None:
        """Store some new items, and sometimes a new version of an existing item, in one request."""
        changed = {f"{self.prefix}-{self._n_items + at}": 0 for at in range(self._rng.integers(1, 4))}
        self._n_items += len(changed)
        if self.items and self._rng.random() < 0.5:
            key = self._rng.choice(list(self.items))
            changed[key] = self._versions[key] + 1
        self._versions |= changed
        answer = self._send("PUT", "/items", {"items": [item(*one) for one in changed.items()]})
        if answer is not None:
            assert self._expect(answer, 200) == {"stored": len(changed)}
        elif not self._is_stored(changed):
            return
        self.items |= changed

    def _is_stored(self, changed: dict[str, int]) -> bool:
        """Return whether the items of an unanswered request were stored. All or none must be stored."""
        stored = []
        for key, version in changed.items():
            found = self._send_until_answered("GET", f"/items/{key}")
            self._expect(found, 200, 404)
            stored.append(found.status_code == 200 and found.json()["payload"]["version"] == version)
        assert all(stored) or not any(stored), f"a part of {changed} was stored: {stored}"
        return all(stored)

    def delete(self) -> None:
        if len(self.items) < 5:
            return
        deleted = self._rng.choice(list(self.items), 2, replace=False).tolist()
        answer = self._send("POST", "/items/delete", {"keys": deleted})
        if answer is not None:
            assert self._expect(answer, 200) == {"deleted": 2}
        else:
            left = [self._send_until_answered("GET", f"/items/{key}").status_code == 200 for key in deleted]
            assert all(left) or not any(left), f"a part of {deleted} was deleted: {left}"
            if any(left):
                return
        for key in deleted:
            del self.items[key]

    # -- feedback ------------------------------------------------------------------------------------------------

    def add_feedback(self) -> None:
        """Add feedback records, mostly with an idempotency key, which allows to send them again."""
        if not self.items:
            return
        records = [self._record() for _ in range(1 if self._rng.random() < 0.5 else self._rng.integers(2, 7))]
        key = None
        if self._rng.random() < 0.6:
            self._n_keys += 1
            key = f"{self.prefix}:{self._n_keys}"
        request = Request(records, key, versions=dict(self.items))
        answer = self._send("POST", "/feedback", {"feedback": records}, key)
        if answer is None and key is None:
            self.unanswered.append(request)
            return
        if answer is None or (key is not None and self._rng.random() < 0.2):
            answer = self._send_until_answered(
                "POST", "/feedback", {"feedback": records}, key
            )  # a repeated request counts once
        receipt = self._expect(answer, 200)
        assert receipt["last_seq"] - receipt["first_seq"] + 1 == receipt["accepted"] == len(records)
        request.first_seq = receipt["first_seq"]
        self.accepted.append(request)

    def _record(self) -> Json:
        """Return a consistent record that was not sent before."""
        while True:
            record = {"weight": self._weight(), "source": self.prefix, **self._draw()}
            if repr(record) not in self._sent:
                self._sent.add(repr(record))
                return record

    def _draw(self) -> Json:
        anchor = str(self._rng.choice(list(self.items)))
        base = [f"base-{at}" for at in self._rng.permutation(_BASE)]
        alike = [key for key in base if class_of(key) == class_of(anchor)]
        not_alike = [key for key in base if class_of(key) != class_of(anchor)]
        form = self._rng.integers(4)
        if form == 0:
            return {"anchor": anchor, "positive": alike[0], "negative": not_alike[0]}
        if form == 1:
            return {"first": anchor, "second": base[0], "same": class_of(base[0]) == class_of(anchor)}
        n_positive, n_negative = self._rng.integers(0, 3), self._rng.integers(1, 4)
        query: Any = anchor
        if self._rng.random() < 0.5:  # a query that is no item, of the same class
            query = {"vector": features(f"{self.prefix}-query-{class_of(anchor)}", self._rng.integers(5))}
        return {
            "query": query,
            "positive": alike[:n_positive],
            "negative": not_alike[:n_negative],
            "shown": base_shown(base, alike[:n_positive], not_alike[:n_negative]),
        }

    def _weight(self) -> float:
        """Return a weight. Only the learner of the collection that rejects contradictions learns weights."""
        return float(self._rng.choice([0.5, 1.0])) if self._rejects_contradictions else 1.0

    def _active(self) -> list[tuple[Request, int]]:
        """Return the recent records that are not undone, as pairs of a request and an index in it."""
        return [
            (request, at)
            for request in self.accepted[-20:]
            for at in range(len(request.records))
            if at not in request.undone
        ]

    def undo(self) -> None:
        active = self._active()
        if not active:
            return
        request, at = active[self._rng.integers(len(active))]
        path = f"/feedback/{request.seqs[at]}"
        answer = self._send("DELETE", path)
        if answer is None:  # the first request may have undone it: then 409
            self._expect(self._send_until_answered("DELETE", path), 200, 409)
        else:
            assert self._expect(answer, 200)["seq"] > request.seqs[at]
        request.undone.add(at)

    def contradict(self) -> None:
        """Send the opposite of an earlier record. The service must reject the whole request."""
        active = [
            (request, request.records[at])
            for request, at in self._active()
            if "same" in request.records[at] and self._is_unchanged(request, request.records[at]["first"])
        ]
        if not active or not self._rejects_contradictions:
            return
        _, record = active[self._rng.integers(len(active))]
        opposite = record | {"same": not record["same"]}
        body = {"feedback": [self._record(), opposite], "all_or_nothing": True}
        answer = self._send("POST", "/feedback", body)
        if answer is not None:
            assert self._expect(answer, 409)["type"].endswith("contradiction")

    def _is_unchanged(self, request: Request, key: str) -> bool:
        return self.items.get(key) == request.versions[key]

    def send_feedback_about_a_missing_item(self) -> None:
        """Send feedback about a missing item. The service must reject the whole request."""
        if self.items:
            missing = {"first": "base-0", "second": f"missing-{self._rng.integers(100)}", "same": True}
            answer = self._send("POST", "/feedback", {"feedback": [self._record(), missing]})
            if answer is not None:
                self._expect(answer, 404)

    def search(self) -> None:
        answer = self._send("POST", "/search", {"key": f"base-{self._rng.integers(_BASE)}", "k": 5})
        if answer is not None:
            keys = [match["key"] for match in self._expect(answer, 200)["matches"]]
            assert 0 < len(set(keys)) == len(keys) <= 5, answer.text  # fewer if items are deleted during the search


@contextmanager
def running(endpoint: Endpoint, active_clients: list[Client]) -> Iterator[None]:
    """Run the clients during the block; raise the first failure of a client."""
    for client in active_clients:
        client.start()
    try:
        yield
    finally:
        endpoint.stop()
        for client in active_clients:
            client.join()
    endpoint.raise_failures()


# -- checks --------------------------------------------------------------------------------------------------


def check_items(found: list[Json], active_clients: list[Client]) -> None:
    """Check that the store holds exactly the acknowledged items, unchanged."""
    expected = [item(*one) for client in active_clients for one in client.items.items()] + base_items()
    sent = {one["key"]: (one["label"], one["payload"]) for one in expected}
    assert sorted(one["key"] for one in found) == sorted(sent)
    assert {one["key"]: (one["label"], one["payload"]) for one in found} == sent


def check_log(entries: list[Json], active_clients: list[Client]) -> None:
    """Check that the log holds every acknowledged record at its sequence number, and nothing that was rejected.

    An unanswered request must be in the log completely or not at all.
    """
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    by_content = {repr(_content(entry)): entry["seq"] for entry in entries if entry["kind"] != "undo"}
    for client in active_clients:
        _find_unanswered(client, by_content)
    expected: set[int] = set()
    for request in (request for client in active_clients for request in client.accepted):
        assert [_content(entries[seq - 1]) for seq in request.seqs] == request.records
        assert expected.isdisjoint(request.seqs), "two requests have the same sequence number"
        expected.update(request.seqs)
    _check_undone(entries, active_clients)
    others = {entry["kind"] for entry in entries if entry["seq"] not in expected}
    assert others <= {"undo"}, "the log holds a record that no client sent, or that was rejected"


def _content(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if name not in ("seq", "time", "kind", "active")}


def _find_unanswered(client: Client, by_content: dict[str, int]) -> None:
    """Add the unanswered requests that are in the log to the accepted requests."""
    for request in client.unanswered:
        request.first_seq = by_content.get(repr(request.records[0]))
        if request.first_seq is None:
            assert not any(repr(record) in by_content for record in request.records), "a part was stored"
        else:
            client.accepted.append(request)
    client.unanswered.clear()


def _check_undone(entries: list[Json], active_clients: list[Client]) -> None:
    undone = {request.seqs[at] for client in active_clients for request in client.accepted for at in request.undone}
    undos = [entry for entry in entries if entry["kind"] == "undo"]
    assert sorted(entry["first"] for entry in undos) == sorted(undone), "every undone record was undone once"
    assert {entry["seq"] for entry in entries if not entry["active"]} == undone
