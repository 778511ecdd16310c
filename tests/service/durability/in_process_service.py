"""A service in this process, an HTTP client for it, and consistent feedback."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import uvicorn

from oahu.service.api.app import create_app
from oahu.service.settings import Settings

__all__ = ["InProcessService"]

DIMENSION = 8
CLASSES = 4
TIMEOUT = 600.0  # seconds; only a real hang exceeds it

Json = dict[str, Any]


def items(count: int, begin: int = 0, payload: Any = None) -> list[Json]:
    """Return items i0, i1, ... near the centres of their classes. The class of item i5 is 5 % 4."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, DIMENSION))
    made = []
    for at in range(begin, begin + count):
        vector = centres[at % CLASSES] + 0.8 * np.random.default_rng([1, at]).normal(size=DIMENSION)
        made.append({"key": f"i{at}", "vector": np.float32(vector).tolist(), "label": f"class {at % CLASSES}"})
        made[-1]["payload"] = {"at": at} if payload is None else payload
    return made


def records(count: int, seed: int, n_items: int = 40) -> list[Json]:
    """Return feedback of all three forms that agrees with the classes of the first items."""
    rng = np.random.default_rng(seed)
    made: list[Json] = []
    while len(made) < count:
        drawn = rng.permutation(n_items)
        anchor, others = drawn[0], drawn[1:]
        alike = [f"i{at}" for at in others if at % CLASSES == anchor % CLASSES]
        not_alike = [f"i{at}" for at in others if at % CLASSES != anchor % CLASSES]
        form, n_positive, n_negative = rng.integers([3, 3, 3])
        if form == 0:
            made.append({"anchor": f"i{anchor}", "positive": alike[0], "negative": not_alike[0]})
        elif form == 1:
            same = bool(n_positive)
            made.append({"first": f"i{anchor}", "second": (alike if same else not_alike)[0], "same": same})
        else:
            made.append(
                {"query": f"i{anchor}", "positive": alike[:n_positive], "negative": not_alike[: n_negative + 1]}
            )
    return made


class InProcessService:
    """A service in this process, with one collection.

    Parameters
    ----------
    data : Path
    config : dict
        The settings of the collection. The collection is created if it does not exist.
    settings
        Further settings. By default indexes are not refreshed, and queries wait for all feedback.
    """

    def __init__(self, data: Path, config: Json, **settings: Any) -> None:
        defaults = {"data": data, "page": False, "refresh_every": 3600.0, "fresh_wait": TIMEOUT}
        self.app = create_app(Settings(**(defaults | settings)))
        self.service, self.name = self.app.state.service, config["name"]
        options: Json = {"log_config": None, "access_log": False, "ws": "none"}
        self._server = uvicorn.Server(uvicorn.Config(self.app, "127.0.0.1", 0, **options))
        self._thread = Thread(target=self._server.run, name="in_process_service")
        self.http = httpx.Client(timeout=TIMEOUT, trust_env=False, verify=False)
        self._thread.start()
        try:
            self._start(config)
        except BaseException:
            self.close()
            raise

    def _start(self, config: Json) -> None:
        while not self._server.started:  # uvicorn offers no event for this
            assert self._thread.is_alive(), "the service did not start"
            time.sleep(0.002)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        if not self.service.collections:
            made = self.http.post(f"{self.url}/collections", json=config)
            assert made.status_code == 201, made.text

    @property
    def collection(self) -> Any:
        return self.service.collection(self.name)

    def request(self, method: str, path: str = "", body: Any = None, key: str | None = None) -> httpx.Response:
        """Send a request and return the response."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.http.request(method, f"{self.url}/collections/{self.name}{path}", json=body, headers=headers)

    def call(self, method: str, path: str = "", body: Any = None, key: str | None = None) -> Any:
        """Send a request that must succeed; return its JSON or its bytes."""
        response = self.request(method, path, body, key)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.headers["content-type"] == "application/json" else response.content

    def put(self, count: int, begin: int = 0, payload: Any = None) -> None:
        self.call("PUT", "/items", {"items": items(count, begin, payload)})

    def add_feedback(self, count: int, seed: int, at_once: int = 5) -> int:
        """Add feedback, a few records per request; return the last sequence number."""
        added = records(count, seed)
        for at in range(0, count, at_once):
            last: int = self.call("POST", "/feedback", {"feedback": added[at : at + at_once]})["last_seq"]
        return last

    def log(self) -> list[Json]:
        found: list[Json] = self.call("GET", "/feedback?limit=1000")["records"]
        return found

    def keys(self) -> list[str]:
        return [one["key"] for one in self.call("GET", "/items?limit=1000")["items"]]

    def model(self) -> bytes:
        """Wait until the whole log is learned. Return the model file."""
        last_seq = self.service.store.last_seq(self.collection.id)
        assert self.collection.learner.wait_for(last_seq, TIMEOUT).version == last_seq
        found: bytes = self.call("GET", "/model")
        return found

    def ranking(self) -> Any:
        """Refresh the index. Return the results of some searches."""
        self.collection.refresh_index()
        found = [self.call("POST", "/search", {"key": f"i{at}", "k": 20})["matches"] for at in range(5)]
        return [*found, self.call("POST", "/search", {"vector": [0.5] * DIMENSION, "k": 20})["matches"]]

    def close(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join()
