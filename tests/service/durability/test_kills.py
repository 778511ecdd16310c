"""SIGKILL at random moments under load: nothing acknowledged is lost, and the model is the log, learned."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import numpy as np
import pytest

Json = dict[str, Any]

CUSTOMERS = {"triplets": 3, "pairs": 2}
ROUNDS = 24  # most end with a kill; after every eighth everything is counted, with two more


class Storm:
    """A service that is killed again and again, and the people who use it."""

    def __init__(
        self, nursery: Any, customers: Any, oracle: Any, data: Path, configs: list[Json], seed: int, flush: float
    ) -> None:
        self._nursery, self._module, self._oracle, self._data = nursery, customers, oracle, data
        self.rng = np.random.default_rng(seed)
        self.line = customers.Line()
        self.n_kills = 0
        self._settings = {"data": data, "port": 0, "page": False, "refresh_every": 0.01, "refresh_share": 1.0}
        self._settings |= {"snapshot_every": int(self.rng.integers(3, 30)), "keep_snapshots": 3}
        self._settings |= {"flush_seconds": flush}
        self._address = self.start()
        for config in configs:
            self._ask("POST", "/v1/collections", config)
            self._ask("PUT", f"/v1/collections/{config['name']}/items", {"items": customers.base_items()})
        self.people = [
            customers.Customer(self.line, f"{name}{at}", name, int(self.rng.integers(2**32)), name == "triplets")
            for name, count in CUSTOMERS.items()
            for at in range(count)
        ]

    # -- the service -------------------------------------------------------------------------------------

    def start(self) -> str:
        self._nursery.start(**self._settings)
        self._address = self._nursery.address()
        return self._address

    def kill(self) -> None:
        os.kill(self._nursery.pid, signal.SIGKILL)
        self.bury()

    def bury(self) -> None:
        assert self._nursery.reap() == -signal.SIGKILL
        self.line.connect(None)
        self.n_kills += 1

    def kill_while_it_opens(self) -> None:
        self._nursery.start(**self._settings)
        time.sleep(self.rng.uniform(0, 0.15))
        self.kill()

    def kill_under_load(self) -> None:
        self.line.connect(self.start())
        self.line.wait_for_answers(int(self.rng.integers(1, 40)))
        time.sleep(self.rng.uniform(0, 0.01))
        self.kill()

    def kill_with_an_answer(self) -> None:
        """The moment that somebody is told that something is stored."""
        pid = self._nursery.start(**self._settings)
        self.line.connect(self._nursery.address())
        self.line.wait_for_answers(int(self.rng.integers(1, 40)), lambda: os.kill(pid, signal.SIGKILL))
        self.bury()

    def stop_under_load(self) -> None:
        """Stop in good order: everybody who was answered is served, and the others know that they were not."""
        self.line.connect(self.start())
        self.line.wait_for_answers(int(self.rng.integers(1, 40)))
        assert self._nursery.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        self.line.connect(None)

    def kill_when_quiet(self) -> None:
        """Check everything, kill it, and see that nothing has changed."""
        self.line.connect(self.start())
        self.line.pause(len(self.people))
        before = {name: self._check(name) for name in CUSTOMERS}
        self.kill()
        self.start()
        assert {name: self._seen(name) for name in CUSTOMERS} == before
        self.kill()
        self.line.resume()

    # -- what must be ------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{self._address}{path}", json=body, timeout=60, trust_env=False)
        assert answer.status_code in (200, 201), answer.text
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.content

    def _pages(self, path: str, of: str) -> list[Json]:
        found: list[Json] = []
        after: int | None = 0
        while after is not None:
            page = self._ask("GET", f"{path}?limit=1000&after={after}")
            found += page[of]
            after = page["next"]
        return found

    def _seen(self, name: str) -> tuple[bytes, list[Any]]:
        """The model, and what some searches find, when everything is learned and embedded."""
        path = f"/v1/collections/{name}"
        while (state := self._ask("GET", path))["candidates"]["constraints_behind"] or state["pending_feedback"]:
            assert state["learner_error"] is None
        queries: list[Json] = [{"key": f"base-{at}", "k": 20} for at in range(0, 24, 5)]
        queries += [{"vector": self._module.features(f"query-{at}"), "k": 20} for at in range(3)]
        found = [self._ask("POST", f"{path}/search", query)["matches"] for query in queries]
        return self._ask("GET", f"{path}/model"), found

    def _check(self, name: str) -> tuple[bytes, list[Any]]:
        """Count everything."""
        people = [one for one in self.people if one.collection == name]
        self._module.check_items(self._pages(f"/v1/collections/{name}/items", "items"), people)
        self._module.check_log(self._pages(f"/v1/collections/{name}/feedback", "records"), people)
        seen = self._seen(name)
        kept = self._oracle.read(self._data, name)
        self._check_features(kept, people)
        assert seen[0] == self._oracle.learned(kept), "the model is not the log, learned in order"
        return seen

    def _check_features(self, kept: Any, people: list[Any]) -> None:
        versions = {key: version for person in people for key, version in person.items.items()}
        for key, (number, _, _) in kept.items.items():
            sent = np.array(self._module.features(key, versions.get(key, 0)), np.float32)
            assert kept.vectors[number] == sent.tobytes(), key


@pytest.mark.parametrize(("seed", "flush"), [(1, 0.0), (2, 0.01)], ids=["fast disk", "slow disk"])
def test_nothing_acknowledged_is_lost_when_the_service_is_killed(
    nursery: Any, customers: Any, oracle: Any, data: Path, configs: list[Json], seed: int, flush: float
) -> None:
    storm = Storm(nursery, customers, oracle, data, configs, seed, flush)
    with customers.at_work(storm.line, storm.people):
        storm.kill()
        for at in range(1, ROUNDS + 1):
            if at % 5 == 0:
                storm.kill_while_it_opens()
            elif at % 7 == 0:
                storm.stop_under_load()
            elif at % 2 == 0:
                storm.kill_under_load()
            else:
                storm.kill_with_an_answer()
            if at % 8 == 0:
                storm.kill_when_quiet()
    assert storm.n_kills >= 25
    assert sum(person.n_unanswered for person in storm.people) >= 10, "the kills hit nobody"


# -- what happens seldom -------------------------------------------------------------------------------------


class Service:
    """A service that can be killed, and asked."""

    def __init__(self, nursery: Any, data: Path) -> None:
        self.nursery, self._settings = nursery, {"data": data, "port": 0, "page": False, "refresh_every": 0.01}
        self.address = ""

    def start(self) -> None:
        self.nursery.start(**self._settings)
        self.address = self.nursery.address()

    def ask(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> httpx.Response:
        url = f"{self.address}/v1/collections{path}"
        return httpx.request(method, url, json=body, content=content, timeout=60, trust_env=False)

    def kill_after(self, seconds: float, *request: Any) -> httpx.Response | None:
        """Send a request, and kill the service so many seconds later; the answer, if there was one."""
        timer = Timer(seconds, os.kill, (self.nursery.pid, signal.SIGKILL))
        timer.start()
        try:
            return self.ask(*request)
        except httpx.TransportError:
            return None
        finally:
            timer.join()
            self.nursery.reap()


@pytest.fixture
def service(nursery: Any, data: Path) -> Service:
    return Service(nursery, data)


def test_a_folder_whose_making_was_interrupted_again_and_again_can_be_used(service: Service, config: Json) -> None:
    for at in range(12):
        service.nursery.start(**service._settings)
        time.sleep(0.008 * at)
        service.nursery.end()
    service.start()
    assert service.ask("POST", "", config).status_code == 201


def test_a_collection_that_was_being_created_is_there_or_not(service: Service, config: Json) -> None:
    for at in range(8):
        service.start()
        answer = service.kill_after(0.004 * at, "POST", "", config | {"name": f"new-{at}"})
        service.start()
        found = service.ask("GET", f"/new-{at}")
        assert found.status_code == 200 if answer is not None else found.status_code in (200, 404)
        service.nursery.end()


def test_a_collection_that_was_being_deleted_is_there_whole_or_not_at_all(
    service: Service, customers: Any, config: Json
) -> None:
    items = customers.base_items()
    pair = {"first": "base-0", "second": "base-1", "same": False}
    for at in range(8):
        service.start()
        if service.ask("GET", "/triplets").status_code == 404:
            assert service.ask("POST", "", config).status_code == 201
            assert service.ask("PUT", "/triplets/items", {"items": items}).status_code == 200
            assert service.ask("POST", "/triplets/feedback", {"feedback": [pair]}).status_code == 200
        answer = service.kill_after(0.003 * at, "DELETE", "/triplets")
        service.start()
        found = service.ask("GET", "/triplets")
        if found.status_code == 200:
            assert answer is None
            assert (found.json()["items"], found.json()["last_seq"]) == (len(items), 1)
        else:
            assert found.status_code == 404
        service.nursery.end()


def test_thresholds_a_model_and_a_version_that_were_gone_back_to_survive_a_kill(
    service: Service, customers: Any, config: Json
) -> None:
    service.start()
    service.ask("POST", "", config)
    service.ask("PUT", "/triplets/items", {"items": customers.base_items()})
    said = [{"anchor": f"base-{at}", "positive": f"base-{at + 4}", "negative": f"base-{at + 1}"} for at in range(8)]
    service.ask("POST", "/triplets/feedback", {"feedback": said})
    pairs = [{"first": "base-0", "second": f"base-{at}", "same": at % 4 == 0} for at in range(1, 9)]
    compared = {"first": {"key": "base-2"}, "second": {"key": "base-6"}}

    def seen() -> tuple[bytes, Json]:
        answer = service.ask("POST", "/triplets/compare", compared).json()
        del answer["candidates"]
        return service.ask("GET", "/triplets/model").content, answer

    def survives(method: str, path: str, body: Any = None, content: bytes | None = None) -> bool:
        assert service.ask(method, path, body, content).status_code == 200
        before = seen()
        service.nursery.end()
        service.start()
        return seen() == before

    model = service.ask("GET", "/triplets/model").content
    assert survives("POST", "/triplets/calibrate", {"pairs": pairs, "target": "accuracy"})
    assert survives("POST", "/triplets/restore", {"metric_version": 3})
    assert survives("PUT", "/triplets/model", content=model)
    assert service.ask("GET", "/triplets/model").content == model
