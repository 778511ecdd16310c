"""A service in this process, its client over HTTP, and people who say true things."""

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

__all__ = ["Served"]

DIMENSION = 8
CLASSES = 4

Json = dict[str, Any]


def items(count: int, begin: int = 0, payload: Any = None) -> list[Json]:
    """Items i0, i1, ...: i5 is of the class 5 % 4, and near its center."""
    centers = np.random.default_rng(0).normal(size=(CLASSES, DIMENSION))
    made = []
    for at in range(begin, begin + count):
        vector = centers[at % CLASSES] + 0.8 * np.random.default_rng([1, at]).normal(size=DIMENSION)
        made.append({"key": f"i{at}", "vector": np.float32(vector).tolist(), "label": f"class {at % CLASSES}"})
        made[-1]["payload"] = {"at": at} if payload is None else payload
    return made


def pieces(count: int, seed: int, among: int = 40) -> list[Json]:
    """True feedback about the first items, of all three forms."""
    rng = np.random.default_rng(seed)
    made: list[Json] = []
    while len(made) < count:
        drawn = rng.permutation(among)
        anchor, others = drawn[0], drawn[1:]
        alike = [f"i{at}" for at in others if at % CLASSES == anchor % CLASSES]
        unlike = [f"i{at}" for at in others if at % CLASSES != anchor % CLASSES]
        form, n_alike, n_unlike = rng.integers([3, 3, 3])
        if form == 0:
            made.append({"anchor": f"i{anchor}", "positive": alike[0], "negative": unlike[0]})
        elif form == 1:
            same = bool(n_alike)
            made.append({"first": f"i{anchor}", "second": (alike if same else unlike)[0], "same": same})
        else:
            made.append({"query": f"i{anchor}", "positive": alike[:n_alike], "negative": unlike[: n_unlike + 1]})
    return made


class Served:
    """A service in this process, with one collection.

    Parameters
    ----------
    data : Path
    config : dict
        What the collection is created with, if it is not there.
    settings
        Others than these: nothing is embedded anew by itself, and answers wait for what was said.
    """

    def __init__(self, data: Path, config: Json, **settings: Any) -> None:
        told = {"data": data, "page": False, "refresh_every": 3600.0, "fresh_wait": 60.0} | settings
        self.app = create_app(Settings(**told))
        self.service, self.name = self.app.state.service, config["name"]
        options: Json = {"log_config": None, "access_log": False, "ws": "none"}
        self._server = uvicorn.Server(uvicorn.Config(self.app, "127.0.0.1", 0, **options))
        self._thread = Thread(target=self._server.run, name="served")
        self.http = httpx.Client(timeout=60, trust_env=False, verify=False)
        self._thread.start()
        try:
            self._begin(config)
        except BaseException:
            self.close()
            raise

    def _begin(self, config: Json) -> None:
        while not self._server.started:
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

    def ask(self, method: str, path: str = "", body: Any = None, key: str | None = None) -> httpx.Response:
        """Any answer."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.http.request(method, f"{self.url}/collections/{self.name}{path}", json=body, headers=headers)

    def get(self, method: str, path: str = "", body: Any = None, key: str | None = None) -> Any:
        """A good answer: its JSON, or its bytes."""
        answer = self.ask(method, path, body, key)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.headers["content-type"] == "application/json" else answer.content

    def put(self, count: int, begin: int = 0, payload: Any = None) -> None:
        self.get("PUT", "/items", {"items": items(count, begin, payload)})

    def say(self, count: int, seed: int, at_once: int = 5) -> int:
        """Say something, a few pieces at a time; the last sequence number."""
        said = pieces(count, seed)
        for at in range(0, count, at_once):
            last: int = self.get("POST", "/feedback", {"feedback": said[at : at + at_once]})["last_seq"]
        return last

    def log(self) -> list[Json]:
        found: list[Json] = self.get("GET", "/feedback?limit=1000")["records"]
        return found

    def keys(self) -> list[str]:
        return [one["key"] for one in self.get("GET", "/items?limit=1000")["items"]]

    def model(self) -> bytes:
        """The model, when everything that was said is learned."""
        assert self.collection.fresh(60).version == self.service.store.last_seq(self.collection.id)
        found: bytes = self.get("GET", "/model")
        return found

    def ranking(self) -> Any:
        """What some searches find, by the newest metric alone."""
        self.collection.refresh()
        found = [self.get("POST", "/search", {"key": f"i{at}", "k": 20})["matches"] for at in range(5)]
        return [*found, self.get("POST", "/search", {"vector": [0.5] * DIMENSION, "k": 20})["matches"]]

    def close(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join()
