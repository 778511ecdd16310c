"""SIGKILL under load: no acknowledged change is lost, and the model matches the log."""

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

pytestmark = pytest.mark.server  # starts and kills processes

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
N_CLIENTS = {"triplets": 3, "pairs": 2}
ROUNDS = 24


def request(method: str, url: str, **sent: Any) -> httpx.Response:
    """Send a request without TLS certificates, which take longer to load than the request."""
    return httpx.request(method, url, timeout=TIMEOUT, trust_env=False, verify=False, **sent)


class KillScenario:
    """A service that is killed repeatedly while clients use it."""

    def __init__(
        self,
        fork_server: Any,
        clients: Any,
        oracle: Any,
        data: Path,
        configs: list[Json],
        seed: int,
        flush_seconds: float,
    ) -> None:
        self._fork_server, self._module, self._oracle, self._data = fork_server, clients, oracle, data
        self.rng = np.random.default_rng(seed)
        self.endpoint = clients.Endpoint()
        self.n_kills = self.n_commit_kills = 0
        self._settings = {"data": data, "port": 0, "page": False, "refresh_every": 0.01, "refresh_share": 1.0}
        self._settings |= {"snapshot_every": int(self.rng.integers(3, 30)), "keep_snapshots": 3}
        self._settings |= {"flush_seconds": flush_seconds}
        self._address = self.start()
        for config in configs:
            self._request("POST", "/v1/collections", config)
            self._request("PUT", f"/v1/collections/{config['name']}/items", {"items": clients.base_items()})
        self.active_clients = [
            clients.Client(self.endpoint, f"{name}{at}", name, int(self.rng.integers(2**32)), name == "triplets")
            for name, count in N_CLIENTS.items()
            for at in range(count)
        ]

    # -- the service ---------------------------------------------------------------------------------------------

    def start(self) -> str:
        self._fork_server.start(**self._settings)
        self._address = self._fork_server.address()
        return self._address

    def kill(self) -> None:
        os.kill(self._fork_server.pid, signal.SIGKILL)
        self.reap()

    def reap(self) -> None:
        """Wait for the end of the killed service."""
        assert self._fork_server.reap() == -signal.SIGKILL
        self.endpoint.connect(None)
        self.n_kills += 1

    def kill_during_start(self) -> None:
        self._fork_server.start(**self._settings)
        time.sleep(self.rng.uniform(0, 0.15))  # a random moment during the start
        self.kill()

    def kill_at_commit(self, moment: str) -> None:
        """Make the service kill itself at a commit, before it answers the requests."""
        kill = [int(self.rng.integers(1, 30)), moment]
        self._fork_server.start(**self._settings, kill_at_commit=kill)
        self.endpoint.connect(self._fork_server.address())
        self.reap()
        self.n_commit_kills += 1

    def kill_at_answer(self) -> None:
        """Kill the service at the moment when a client receives an answer."""
        pid = self._fork_server.start(**self._settings)
        self.endpoint.connect(self._fork_server.address())
        self.endpoint.wait_for_answers(int(self.rng.integers(1, 40)), lambda: os.kill(pid, signal.SIGKILL))
        self.reap()

    def stop_under_load(self) -> None:
        """Stop the service with SIGTERM during open requests."""
        self.endpoint.connect(self.start())
        self.endpoint.wait_for_answers(int(self.rng.integers(1, 40)))
        assert self._fork_server.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        self.endpoint.connect(None)

    def check_and_kill(self) -> None:
        """Pause the clients, check everything, kill the service, and check that nothing has changed."""
        self.endpoint.connect(self.start())
        self.endpoint.pause(len(self.active_clients))
        before = {name: self._check(name) for name in N_CLIENTS}
        self.kill()
        self.start()
        assert {name: self._observe(name) for name in N_CLIENTS} == before
        self.kill()
        self.endpoint.resume()

    # -- checks --------------------------------------------------------------------------------------------------

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        answer = request(method, f"{self._address}{path}", json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.content

    def _all_pages(self, path: str, field: str) -> list[Json]:
        found: list[Json] = []
        after: int | None = 0
        while after is not None:
            page = self._request("GET", f"{path}?limit=1000&after={after}")
            found += page[field]
            after = page["next"]
        return found

    def _observe(self, name: str) -> tuple[bytes, list[Any]]:
        """Wait until everything is learned and indexed. Return the model and some search results."""
        path = f"/v1/collections/{name}"
        while self._is_behind(state := self._request("GET", path)):
            assert state["learner_error"] is None
        queries: list[Json] = [{"key": f"base-{at}", "k": 20} for at in range(0, 24, 5)]
        queries += [{"vector": self._module.features(f"query-{at}"), "k": 20} for at in range(3)]
        found = [self._request("POST", f"{path}/search", query)["matches"] for query in queries]
        return self._request("GET", f"{path}/model"), found

    @staticmethod
    def _is_behind(state: Json) -> bool:
        """Return whether feedback waits to be learned, or the index is older than the metric."""
        return bool(state["candidates"]["constraints_behind"] or state["pending_feedback"])

    def _check(self, name: str) -> tuple[bytes, list[Any]]:
        """Check the items, the log, the features and the model of a collection."""
        active_clients = [one for one in self.active_clients if one.collection == name]
        self._module.check_items(self._all_pages(f"/v1/collections/{name}/items", "items"), active_clients)
        self._module.check_log(self._all_pages(f"/v1/collections/{name}/feedback", "records"), active_clients)
        observed = self._observe(name)
        stored = self._oracle.read(self._data, name)
        self._check_features(stored, active_clients)
        assert observed[0] == self._oracle.expected_model(stored), "the model does not match the log"
        return observed

    def _check_features(self, stored: Any, active_clients: list[Any]) -> None:
        versions = {key: version for client in active_clients for key, version in client.items.items()}
        for key, (number, _, _) in stored.items.items():
            sent = np.array(self._module.features(key, versions.get(key, 0)), np.float32)
            assert stored.vectors[number] == sent.tobytes(), key


@pytest.mark.parametrize(("seed", "flush_seconds"), [(1, 0.0), (2, 0.01)], ids=["fast disk", "slow disk"])
def test_no_acknowledged_change_is_lost_when_the_service_is_killed(
    fork_server: Any, clients: Any, oracle: Any, data: Path, configs: list[Json], seed: int, flush_seconds: float
) -> None:
    scenario = KillScenario(fork_server, clients, oracle, data, configs, seed, flush_seconds)
    with clients.running(scenario.endpoint, scenario.active_clients):
        scenario.kill()
        for at in range(1, ROUNDS + 1):
            if at % 5 == 0:
                scenario.kill_during_start()
            elif at % 7 == 0:
                scenario.stop_under_load()
            elif at % 4 == 0:
                scenario.kill_at_answer()
            else:
                scenario.kill_at_commit("before" if at % 2 else "after")
            if at % 12 == 0:
                scenario.check_and_kill()
    assert scenario.n_kills >= 25
    assert scenario.n_commit_kills >= 10
    n_unanswered = sum(client.n_unanswered for client in scenario.active_clients)
    assert n_unanswered >= scenario.n_commit_kills


# -- rare operations -----------------------------------------------------------------------------------------


class KillableService:
    """A service that can be killed."""

    def __init__(self, fork_server: Any, data: Path) -> None:
        self.fork_server, self._settings = (
            fork_server,
            {"data": data, "port": 0, "page": False, "refresh_every": 0.01},
        )
        self.address = ""

    def start(self) -> None:
        self.fork_server.start(**self._settings)
        self.address = self.fork_server.address()

    def request(self, method: str, path: str, body: Any = None, content: bytes | None = None) -> httpx.Response:
        url = f"{self.address}/v1/collections{path}"
        return request(method, url, json=body, content=content)

    def kill_after(self, seconds: float, *request: Any) -> httpx.Response | None:
        """Send a request and kill the service after some seconds; return the response, if there was one."""
        timer = Timer(seconds, os.kill, (self.fork_server.pid, signal.SIGKILL))
        timer.start()
        try:
            return self.request(*request)
        except httpx.TransportError:
            return None
        finally:
            timer.join()
            self.fork_server.reap()


@pytest.fixture
def service(fork_server: Any, data: Path) -> KillableService:
    return KillableService(fork_server, data)


def test_kills_during_the_creation_of_the_folder(service: KillableService, config: Json) -> None:
    for at in range(8):
        service.fork_server.start(**service._settings)
        time.sleep(0.012 * at)  # a random moment during the start
        service.fork_server.end()
    service.start()
    assert service.request("POST", "", config).status_code == 201


def test_a_kill_during_the_creation_of_a_collection(service: KillableService, config: Json) -> None:
    for at in range(6):
        service.start()
        answer = service.kill_after(0.005 * at, "POST", "", config | {"name": f"new-{at}"})
        service.start()
        found = service.request("GET", f"/new-{at}")
        assert found.status_code == 200 if answer is not None else found.status_code in (200, 404)
        service.fork_server.end()


def test_a_kill_during_the_deletion_of_a_collection(service: KillableService, clients: Any, config: Json) -> None:
    items = clients.base_items()
    pair = {"first": "base-0", "second": "base-1", "same": False}
    for at in range(6):
        service.start()
        if service.request("GET", "/triplets").status_code == 404:
            assert service.request("POST", "", config).status_code == 201
            assert service.request("PUT", "/triplets/items", {"items": items}).status_code == 200
            assert service.request("POST", "/triplets/feedback", {"feedback": [pair]}).status_code == 200
        answer = service.kill_after(0.004 * at, "DELETE", "/triplets")
        service.start()
        found = service.request("GET", "/triplets")
        if found.status_code == 200:
            assert answer is None
            assert (found.json()["items"], found.json()["last_seq"]) == (len(items), 1)
        else:
            assert found.status_code == 404
        service.fork_server.end()


def test_calibration_restore_and_model_replacement_outlive_a_kill(
    service: KillableService, clients: Any, config: Json
) -> None:
    service.start()
    service.request("POST", "", config)
    service.request("PUT", "/triplets/items", {"items": clients.base_items()})
    triplets = [
        {"anchor": f"base-{at}", "positive": f"base-{at + 4}", "negative": f"base-{at + 1}"} for at in range(8)
    ]
    service.request("POST", "/triplets/feedback", {"feedback": triplets})
    pairs = [{"first": "base-0", "second": f"base-{at}", "same": at % 4 == 0} for at in range(1, 9)]
    compared = {"first": {"key": "base-2"}, "second": {"key": "base-6"}}

    def observed() -> tuple[bytes, Json]:
        answer = service.request("POST", "/triplets/compare", compared).json()
        del answer["candidates"]
        return service.request("GET", "/triplets/model").content, answer

    def outlives_a_kill(method: str, path: str, body: Any = None, content: bytes | None = None) -> bool:
        assert service.request(method, path, body, content).status_code == 200
        before = observed()
        service.fork_server.end()
        service.start()
        return observed() == before

    model = service.request("GET", "/triplets/model").content
    assert outlives_a_kill("POST", "/triplets/calibrate", {"pairs": pairs, "target": "accuracy"})
    assert outlives_a_kill("POST", "/triplets/restore", {"metric_version": 3})
    assert outlives_a_kill("PUT", "/triplets/model", content=model)
    assert service.request("GET", "/triplets/model").content == model
