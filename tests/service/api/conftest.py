"""Running services to ask, and small collections in them."""

from __future__ import annotations

import itertools
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI

from oahu.service.api.app import create_app
from oahu.service.service import Service
from oahu.service.settings import Settings

SMALL = {"n_layers": 2, "hidden_size": 8, "embedding_size": 4}
PATIENCE = 600.0  # seconds after which a test fails instead of hanging; the first search compiles


def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """What a condition comes to, as soon as that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError(f"{what} did not happen")


@dataclass
class Running:
    """A service that answers at a port of this machine."""

    app: FastAPI
    url: str
    http: httpx.Client
    server: uvicorn.Server

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    def ask(self, method: str, path: str, status: int = 200, **sent: Any) -> Any:
        """What is answered, as JSON, if the status is as expected."""
        answer = self.http.request(method, path, **sent)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def create(self, name: str, dimension: int = 4, **config: Any) -> None:
        """A new collection; its learner is a small one, if not another is asked for."""
        small = {} if "learner" in config else {"parameters": SMALL}
        told = {"name": name, "dimension": dimension, **small, **config}
        self.ask("POST", "/v1/collections", 201, json=told)

    def fill(self, name: str, n: int, dimension: int = 4) -> None:
        """Items i0, i1, ... with labels even and odd."""
        rows = np.random.default_rng(n).normal(size=(n, dimension)).round(3).tolist()
        items = [
            {"key": f"i{at}", "vector": row, "label": "odd" if at % 2 else "even", "payload": {"at": at}}
            for at, row in enumerate(rows)
        ]
        self.ask("PUT", f"/v1/collections/{name}/items", json={"items": items})

    def new(self, n: int = 12, dimension: int = 4, **config: Any) -> str:
        """A new collection with items; its path."""
        name = f"c{next(_NUMBERS)}"
        self.create(name, dimension, **config)
        if n:
            self.fill(name, n, dimension)
        return f"/v1/collections/{name}"

    def say(self, path: str, *pieces: dict[str, Any], status: int = 200, **sent: Any) -> Any:
        """Give feedback."""
        return self.ask("POST", f"{path}/feedback", status, json={"feedback": list(pieces)}, **sent)

    def state(self) -> dict[str, list[Any]]:
        """All that is stored. Only the history is left out: it is written when there is time."""
        with closing(sqlite3.connect(self.service.settings.data / "oahu.db")) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name: database.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name != "history"
            }


_NUMBERS = itertools.count()


@contextmanager
def running(app: FastAPI) -> Iterator[Running]:
    """A service in a thread of its own, as long as the block lasts."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=60)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="test-server")
        thread.start()
        until(lambda: server.started or not thread.is_alive(), "the start")
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as http:
                yield Running(app, url, http, server)
        finally:
            for collection in app.state.service.collections:
                collection.events.close()
            server.should_exit = True
            thread.join()


Start = Callable[..., Running]


@pytest.fixture(scope="session")
def wait() -> Callable[..., Any]:
    """Waits until something is so."""
    return until


@pytest.fixture(scope="session")
def run() -> Callable[[FastAPI], Any]:
    """Runs an application as long as a block lasts."""
    return running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts services with settings; those of one test share a folder, one after the other."""
    with ExitStack() as stack:

        def one(**settings: Any) -> Running:
            given = {"data": tmp_path / "data", "page": False, "fresh_wait": PATIENCE, **settings}
            return stack.enter_context(running(create_app(Settings(**given))))

        yield one


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that the tests of a file share."""
    data = tmp_path_factory.mktemp("service")
    settings = Settings(data=data, page=False, fresh_wait=PATIENCE, max_collections=1_000)
    with running(create_app(settings)) as service:
        yield service
