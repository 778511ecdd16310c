"""Fixtures of the API tests: running servers and small collections."""

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

TIMEOUT = 600.0  # seconds; only a real hang exceeds it


def wait_until_true(condition: Callable[[], Any], event: str = "the event") -> Any:
    """Wait until a condition is true. Return its value."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError(f"{event} did not happen")


@dataclass
class RunningServer:
    """A server on a local port."""

    app: FastAPI
    url: str
    http: httpx.Client
    server: uvicorn.Server

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    def request(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """Send a request, check the status of the response, and return its JSON."""
        response = self.http.request(method, path, **options)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def send(self, method: str = "GET", path: str = "/v1/collections", **headers: str) -> httpx.Response:
        """Send a request with headers. Underscores in the names become hyphens."""
        return self.http.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )

    def create_collection(self, name: str, dimension: int = 4, **config: Any) -> None:
        """Create a collection, by default with the default learner."""
        self.request("POST", "/v1/collections", 201, json={"name": name, "dimension": dimension, **config})

    def add_items(self, name: str, n: int, dimension: int = 4) -> None:
        """Add items i0, i1, ... with labels even and odd."""
        rows = np.random.default_rng(n).normal(size=(n, dimension)).round(3).tolist()
        items = [
            {"key": f"i{at}", "vector": row, "label": "odd" if at % 2 else "even", "payload": {"at": at}}
            for at, row in enumerate(rows)
        ]
        self.request("PUT", f"/v1/collections/{name}/items", json={"items": items})

    def new_collection(self, n: int = 12, dimension: int = 4, **config: Any) -> str:
        """Create a collection with items and return its path."""
        name = f"c{next(_NUMBERS)}"
        self.create_collection(name, dimension, **config)
        if n:
            self.add_items(name, n, dimension)
        return f"/v1/collections/{name}"

    def add_feedback(self, path: str, *feedback: dict[str, Any], status: int = 200, **options: Any) -> Any:
        """Add feedback."""
        return self.request("POST", f"{path}/feedback", status, json={"feedback": list(feedback)}, **options)

    def stored_rows(self) -> dict[str, list[Any]]:
        """Return all rows of the database, except for the history, which a background thread writes."""
        with closing(sqlite3.connect(self.service.settings.data / "oahu.db")) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name: database.execute(f"SELECT * FROM {name}").fetchall() for name in tables if name != "history"
            }


_NUMBERS = itertools.count()


@contextmanager
def running(app: FastAPI) -> Iterator[RunningServer]:
    """Run a server in a thread."""
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=60)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="test-server")
        thread.start()
        wait_until_true(lambda: server.started or not thread.is_alive(), "the start")
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False) as http:
                yield RunningServer(app, url, http, server)
        finally:
            for collection in app.state.service.collections:
                collection.events.close()
            server.should_exit = True
            thread.join()


Start = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., Any]:
    """A function that waits until a condition is true."""
    return wait_until_true


@pytest.fixture(scope="session")
def run_app() -> Callable[[FastAPI], Any]:
    """A context manager that runs an application."""
    return running


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Start]:
    """A function that starts servers. All servers of a test use the same folder."""
    with ExitStack() as stack:

        def start(**settings: Any) -> RunningServer:
            values = {"data": tmp_path / "data", "page": False, "fresh_wait": TIMEOUT, **settings}
            return stack.enter_context(running(create_app(Settings(**values))))

        yield start


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that the tests of a module share."""
    data = tmp_path_factory.mktemp("service")
    settings = Settings(data=data, page=False, fresh_wait=TIMEOUT, refresh_every=0.05, max_collections=1_000)
    with running(create_app(settings)) as running_server:
        yield running_server
