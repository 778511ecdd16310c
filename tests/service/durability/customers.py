"""People who use a service that dies under them, and remember what they were told.

Each has a thread, and items of their own that nobody else changes. All that they say is true of the classes that
the items are of, and no two pieces of feedback are the same: so it is known what must be accepted, and who said
what is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

import httpx
import numpy as np

__all__ = ["Customer", "Line", "Request", "base_items", "check_items", "check_log", "features", "item"]

DIMENSION = 8
CLASSES = 4
_BASE = 24  # items that everybody speaks about

Json = dict[str, Any]


def class_of(key: str) -> int:
    """The class that an item is of: its key ends with a number."""
    return int(key.rsplit("-", 1)[1]) % CLASSES


def features(key: str, version: int = 0) -> list[float]:
    """An item's features: near the center of its class. Versions are for replacing it."""
    center = np.random.default_rng(class_of(key)).normal(size=DIMENSION)
    noise = np.random.default_rng([version, *key.encode()]).normal(size=DIMENSION)
    return np.float32(center + 0.8 * noise).tolist()


def item(key: str, version: int = 0) -> Json:
    payload = {"of": key, "version": version}
    return {"key": key, "vector": features(key, version), "label": f"class {class_of(key)}", "payload": payload}


def base_items() -> list[Json]:
    return [item(f"base-{at}") for at in range(_BASE)]


class Line:
    """How to reach the service: its address, while it is there."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.address: str | None = None
        self.is_over = False
        self.paused = False
        self.n_parked = 0
        self.n_answers = 0
        self._end: int | None = None
        self._then: Callable[[], None] = lambda: None
        self.failures: list[BaseException] = []

    def connect(self, address: str | None) -> None:
        with self._changed:
            self.address = address
            self._changed.notify_all()

    def wait_for_answers(self, count: int, then: Callable[[], None] = lambda: None) -> None:
        """Until so many more changes were acknowledged; whoever is told of the last calls ``then``, at once."""
        with self._changed:
            self._end, self._then = self.n_answers + count, then
            self._wait(lambda: self._end is None or bool(self.failures))

    def pause(self, n_customers: int) -> None:
        """Until everybody has done what they were about, and knows how it ended."""
        with self._changed:
            self.paused = True
            self._wait(lambda: self.n_parked == n_customers or bool(self.failures))

    def resume(self) -> None:
        with self._changed:
            self.paused = False
            self._changed.notify_all()

    def hang_up(self) -> None:
        with self._changed:
            self.is_over, self.paused = True, False
            self._changed.notify_all()

    def park(self) -> None:
        """Customers wait here while it is paused."""
        with self._changed:
            self.n_parked += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self.paused)
            self.n_parked -= 1

    def up(self, dead: str | None) -> str | None:
        """The address, when there is one that is not known to be dead; None if it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or self.address not in (None, dead))
            return None if self.is_over else self.address

    def answered(self) -> None:
        with self._changed:
            self.n_answers += 1
            if self.n_answers == self._end:
                self._then()
                self._end = None
                self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def raise_failures(self) -> None:
        if self.failures:
            raise self.failures[0]

    def _wait(self, condition: Callable[[], bool]) -> None:
        assert self._changed.wait_for(condition, 120), "customers are stuck"
        self.raise_failures()


@dataclass
class Request:
    """Feedback that was sent, and where in the log it is if that is known."""

    pieces: list[Json]
    key: str | None
    first_seq: int | None = None
    undone: set[int] = field(default_factory=set)
    versions: dict[str, int] = field(default_factory=dict)  # of the sender's items that it is about

    @property
    def seqs(self) -> range:
        """Where in the log its pieces are."""
        assert self.first_seq is not None
        return range(self.first_seq, self.first_seq + len(self.pieces))


class _OverError(Exception):
    """There is nobody to ask any more."""


class Customer(Thread):
    """Somebody with items and opinions.

    Attributes
    ----------
    items : dict
        By key, the version that must be there.
    said : list of Request
        Feedback that was accepted.
    unknown : list of Request
        Feedback that was not answered, and cannot be sent again because it has no key.
    n_unanswered : int
        How many requests were sent, and died with the service.
    """

    def __init__(self, line: Line, name: str, collection: str, seed: int, refuses: bool) -> None:
        super().__init__(name=f"customer-{name}", daemon=True)
        self._line, self.me, self.collection, self._refuses = line, name, collection, refuses
        self._rng = np.random.default_rng(seed)
        self._http = httpx.Client(timeout=60, trust_env=False, verify=False)
        self._dead: str | None = None
        self.items: dict[str, int] = {}
        self.said: list[Request] = []
        self.unknown: list[Request] = []
        self.n_unanswered = 0
        self._n_items = self._n_keys = 0
        self._versions: dict[str, int] = {}  # also of what was deleted or never became
        self._used: set[str] = set()

    def run(self) -> None:
        actions = [self.put, self.put, self.delete, self.undo, self.lie, self.err, self.search, self.search]
        try:
            self.put()
            while not self._line.is_over:
                if self._line.paused:
                    self._line.park()
                    continue
                chosen = actions[self._rng.integers(len(actions))] if self._rng.random() < 0.5 else self.say
                chosen()
        except _OverError:
            pass
        except BaseException as error:
            self._line.failed(error)
        finally:
            self._http.close()

    # -- asking ------------------------------------------------------------------------------------------

    def _send(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response | None:
        """The answer, or None if there was none."""
        address = self._line.up(self._dead)
        if address is None:
            raise _OverError
        headers = {} if key is None else {"Idempotency-Key": key}
        url = f"{address}/v1/collections/{self.collection}{path}"
        try:
            answer = self._http.request(method, url, json=body, headers=headers)
        except httpx.TransportError as error:
            self._dead = address
            self.n_unanswered += not isinstance(error, httpx.ConnectError)
            return None
        if method != "GET" and path != "/search":
            self._line.answered()
        return answer

    def _insist(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        """The answer, however often it takes."""
        while (answer := self._send(method, path, body, key)) is None:
            pass
        return answer

    @staticmethod
    def _expect(answer: httpx.Response, *statuses: int) -> Any:
        assert answer.status_code in statuses, f"{answer.request.url}: {answer.status_code} {answer.text}"
        return answer.json()

    # -- items -------------------------------------------------------------------------------------------

    def put(self) -> None:
        """Some new items, and perhaps one with other features: all of them or none."""
        changed = {f"{self.me}-{self._n_items + at}": 0 for at in range(self._rng.integers(1, 4))}
        self._n_items += len(changed)
        if self.items and self._rng.random() < 0.5:
            key = self._rng.choice(list(self.items))
            changed[key] = self._versions[key] + 1
        self._versions |= changed
        answer = self._send("PUT", "/items", {"items": [item(*one) for one in changed.items()]})
        if answer is not None:
            assert self._expect(answer, 200) == {"stored": len(changed)}
        elif not self._became(changed):
            return
        self.items |= changed

    def _became(self, changed: dict[str, int]) -> bool:
        """Whether all items of a request that was not answered are there, or none."""
        there = []
        for key, version in changed.items():
            found = self._insist("GET", f"/items/{key}")
            self._expect(found, 200, 404)
            there.append(found.status_code == 200 and found.json()["payload"]["version"] == version)
        assert all(there) or not any(there), f"a part of {changed} is there: {there}"
        return all(there)

    def delete(self) -> None:
        if len(self.items) < 5:
            return
        gone = self._rng.choice(list(self.items), 2, replace=False).tolist()
        answer = self._send("POST", "/items/delete", {"keys": gone})
        if answer is not None:
            assert self._expect(answer, 200) == {"deleted": 2}
        else:
            left = [self._insist("GET", f"/items/{key}").status_code == 200 for key in gone]
            assert all(left) or not any(left), f"a part of {gone} is there: {left}"
            if any(left):
                return
        for key in gone:
            del self.items[key]

    # -- feedback ----------------------------------------------------------------------------------------

    def say(self) -> None:
        """One or several pieces of feedback; mostly with a key, so that they can be sent again."""
        if not self.items:
            return
        pieces = [self._piece() for _ in range(1 if self._rng.random() < 0.5 else self._rng.integers(2, 7))]
        key = None
        if self._rng.random() < 0.6:
            self._n_keys += 1
            key = f"{self.me}:{self._n_keys}"
        request = Request(pieces, key, versions=dict(self.items))
        answer = self._send("POST", "/feedback", {"feedback": pieces}, key)
        if answer is None and key is None:
            self.unknown.append(request)
            return
        if answer is None or (key is not None and self._rng.random() < 0.2):
            answer = self._insist("POST", "/feedback", {"feedback": pieces}, key)  # counts once all the same
        receipt = self._expect(answer, 200)
        assert receipt["last_seq"] - receipt["first_seq"] + 1 == receipt["accepted"] == len(pieces)
        request.first_seq = receipt["first_seq"]
        self.said.append(request)

    def _piece(self) -> Json:
        """Something true that was not said before."""
        while True:
            made = self._draw()
            if repr(made) not in self._used:
                self._used.add(repr(made))
                return made

    def _draw(self) -> Json:
        anchor = str(self._rng.choice(list(self.items)))
        base = [f"base-{at}" for at in self._rng.permutation(_BASE)]
        alike = [key for key in base if class_of(key) == class_of(anchor)]
        unlike = [key for key in base if class_of(key) != class_of(anchor)]
        form = self._rng.integers(4)
        if form == 0:
            return {"anchor": anchor, "positive": alike[0], "negative": unlike[0]}
        if form == 1:
            return {"first": anchor, "second": base[0], "same": class_of(base[0]) == class_of(anchor)}
        n_alike, n_unlike = self._rng.integers(0, 3), self._rng.integers(1, 4)
        return {"query": anchor, "positive": alike[:n_alike], "negative": unlike[:n_unlike]}

    def _standing(self) -> list[tuple[Request, int]]:
        """What was said and still counts: the request, and the place of the piece in it."""
        return [
            (request, at)
            for request in self.said[-20:]
            for at in range(len(request.pieces))
            if at not in request.undone
        ]

    def undo(self) -> None:
        standing = self._standing()
        if not standing:
            return
        request, at = standing[self._rng.integers(len(standing))]
        path = f"/feedback/{request.seqs[at]}"
        answer = self._send("DELETE", path)
        if answer is None:  # it was done, or it can be done now
            self._expect(self._insist("DELETE", path), 200, 409)
        else:
            assert self._expect(answer, 200)["seq"] > request.seqs[at]
        request.undone.add(at)

    def lie(self) -> None:
        """The contrary of what was said: it must be refused, with what was said before in its place or not."""
        standing = [
            (request, request.pieces[at])
            for request, at in self._standing()
            if "same" in request.pieces[at] and self._is_unchanged(request, request.pieces[at]["first"])
        ]
        if not standing or not self._refuses:
            return
        _, piece = standing[self._rng.integers(len(standing))]
        lie = piece | {"same": not piece["same"]}
        answer = self._send("POST", "/feedback", {"feedback": [self._piece(), lie]})
        if answer is not None:
            assert self._expect(answer, 409)["type"].endswith("contradiction")

    def _is_unchanged(self, request: Request, key: str) -> bool:
        return self.items.get(key) == request.versions[key]

    def err(self) -> None:
        """Feedback about an item that is not there: none of the request is accepted."""
        if self.items:
            unknown = {"first": "base-0", "second": f"nobody-{self._rng.integers(100)}", "same": True}
            answer = self._send("POST", "/feedback", {"feedback": [self._piece(), unknown]})
            if answer is not None:
                self._expect(answer, 404)

    def search(self) -> None:
        answer = self._send("POST", "/search", {"key": f"base-{self._rng.integers(_BASE)}", "k": 5})
        if answer is not None:
            keys = [match["key"] for match in self._expect(answer, 200)["matches"]]
            assert 0 < len(set(keys)) == len(keys) <= 5, answer.text  # fewer if some are deleted meanwhile


@contextmanager
def at_work(line: Line, people: list[Customer]) -> Iterator[None]:
    """While they use the service; what went wrong for one of them is raised."""
    for person in people:
        person.start()
    try:
        yield
    finally:
        line.hang_up()
        for person in people:
            person.join()
    line.raise_failures()


# -- what must be --------------------------------------------------------------------------------------------


def check_items(found: list[Json], people: list[Customer]) -> None:
    """Every item that was stored is there once, as it was sent, and no other."""
    wanted = [item(*one) for person in people for one in person.items.items()] + base_items()
    sent = {one["key"]: (one["label"], one["payload"]) for one in wanted}
    assert sorted(one["key"] for one in found) == sorted(sent)
    assert {one["key"]: (one["label"], one["payload"]) for one in found} == sent


def check_log(entries: list[Json], people: list[Customer]) -> None:
    """Every piece is where its sender was told, once; what was not answered is there whole or not at all; and that
    is all there is."""
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    by_content = {repr(_said(entry)): entry["seq"] for entry in entries if entry["kind"] != "undo"}
    for person in people:
        _find_unknown(person, by_content)
    known: set[int] = set()
    for request in (request for person in people for request in person.said):
        assert [_said(entries[seq - 1]) for seq in request.seqs] == request.pieces
        assert known.isdisjoint(request.seqs), "two requests have the same place"
        known.update(request.seqs)
    _check_undone(entries, people)
    others = {entry["kind"] for entry in entries if entry["seq"] not in known}
    assert others <= {"undo"}, "there is what nobody said, or what was refused"


def _said(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if name not in ("seq", "time", "kind", "active")}


def _find_unknown(person: Customer, by_content: dict[str, int]) -> None:
    """See which requests that were not answered were accepted all the same."""
    for request in person.unknown:
        request.first_seq = by_content.get(repr(request.pieces[0]))
        if request.first_seq is None:
            assert not any(repr(piece) in by_content for piece in request.pieces), "a part was stored"
        else:
            person.said.append(request)
    person.unknown.clear()


def _check_undone(entries: list[Json], people: list[Customer]) -> None:
    undone = {request.seqs[at] for person in people for request in person.said for at in request.undone}
    undos = [entry for entry in entries if entry["kind"] == "undo"]
    assert sorted(entry["first"] for entry in undos) == sorted(undone), "what was undone was undone once"
    assert {entry["seq"] for entry in entries if not entry["active"]} == undone
