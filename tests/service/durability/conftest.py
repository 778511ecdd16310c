"""What the tests of durability share: a service in this process, services that can be killed, and what must be."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import httpx
import pytest

_HERE = Path(__file__).parent

Json = dict[str, Any]

#: Small enough to learn thousands of constraints in no time.
SMALL = {"n_layers": 1, "hidden_size": 6, "embedding_size": 4}
TRIPLETS: Json = {
    "name": "triplets",
    "dimension": 8,
    "learner": "AnchoredOAHU",
    "parameters": SMALL | {"window": 7},
}
PAIRS: Json = {"name": "pairs", "dimension": 8, "learner": "LEGO", "closure": 2, "contradictions": "newest"}


def _module(name: str) -> ModuleType:
    """A helper beside this file: tests are no packages."""
    full = f"oahu_durability_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, _HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OAHU_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def oracle() -> Any:
    """What the model must be."""
    return _module("oracle")


@pytest.fixture(scope="session")
def customers() -> Any:
    """People who use a service, and remember what they were told."""
    return _module("customers")


# -- services that can be killed -----------------------------------------------------------------------------


class Nursery:
    """A process that forks services."""

    def __init__(self, folder: Path, configs: list[Json]) -> None:
        self._errors = (folder / "stderr").open("wb")
        self.stderr = folder / "stderr"
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(_HERE / "nursery.py"), json.dumps(configs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
        )
        self._read = b""
        self.pid = 0
        assert self._line(300) == {"ready": True}

    def start(self, **settings: Any) -> int:
        """Fork a service; its process."""
        self._order(
            json.dumps({name: str(one) if isinstance(one, Path) else one for name, one in settings.items()})
        )
        self._early: list[Json] = []
        while "forked" not in (told := self._line()):
            self._early.append(told)  # the child was faster
        self.pid = told["forked"]
        return self.pid

    def address(self) -> str:
        """Where the service listens, when it does."""
        told = self._early.pop() if self._early else self._line()
        assert "address" in told, told.get("failed", told)
        address: str = told["address"]
        return address

    def end(self, by: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal, and wait for the end; what the service returned."""
        os.kill(self.pid, by)
        return self.reap()

    def reap(self) -> int:
        self._order("reap")
        while "reaped" not in (told := self._line()):
            pass  # it had just begun to listen
        self.pid = 0
        status: int = told["reaped"]
        return status

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _line(self, patience: float = 60) -> Json:
        assert self._process.stdout is not None
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._process.stdout], [], [], patience)
            more = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            assert more, f"no word from the service: {self.stderr.read_text()[-2000:]}"
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        told: Json = json.loads(line)
        return told


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    """Services that can be killed, in no time."""
    folder = tmp_path / "nursery"
    folder.mkdir()
    made = Nursery(folder, [TRIPLETS, PAIRS])
    try:
        yield made
    finally:
        made.close()


# -- a service in this process -------------------------------------------------------------------------------


class Served:
    """A service in this process, and its client over HTTP."""

    def __init__(self, settings: Any) -> None:
        import uvicorn

        from oahu.service.api.app import create_app

        self.app = create_app(settings)
        self.service = self.app.state.service
        config = uvicorn.Config(
            self.app, "127.0.0.1", 0, log_config=None, access_log=False, ws="none", lifespan="on"
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, name="served")
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the service did not start"
            time.sleep(0.005)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False, verify=False)

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> httpx.Response:
        """Any answer."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.http.request(method, f"/v1{path}", json=body, headers=headers)

    def get(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """A good answer: its JSON, or its bytes."""
        answer = self.ask(method, path, body, key)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        if answer.headers.get("content-type") == "application/json":
            return answer.json()
        return answer.content

    def learned(self, name: str) -> bytes:
        """The model, when everything that was said is learned."""
        collection = self.service.collection(name)
        assert collection.fresh(60).version == self.service.store.last_seq(collection.id)
        model: bytes = self.get("GET", f"/collections/{name}/model")
        return model

    def close(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder that a service keeps everything in."""
    return tmp_path / "data"


@pytest.fixture
def serve(data: Path) -> Callable[..., Any]:
    """Makes a context: a service in this process."""
    from oahu.service.settings import Settings

    @contextmanager
    def serving(**settings: Any) -> Iterator[Served]:
        served = Served(Settings(**({"data": data, "page": False} | settings)))
        try:
            yield served
        finally:
            served.close()

    return serving


@pytest.fixture
def configs() -> list[Json]:
    """A collection of each kind of learner: of triplets and of pairs, one that refuses and one that believes."""
    return [TRIPLETS, PAIRS]
