"""Fixtures of the durability tests: a service in this process or in a killable process, and the expected model."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_HERE = Path(__file__).parent

Json = dict[str, Any]

TIMEOUT = 600.0  # seconds; only a real hang exceeds it

TRIPLETS: Json = {
    "name": "triplets",
    "dimension": 8,
    "learner": "AnchoredOAHU",
    "parameters": {"n_random": 8},
    "closure": 1,
    "contradictions": "refuse",
}
PAIRS: Json = {"name": "pairs", "dimension": 8, "learner": "LEGO", "closure": 2, "contradictions": "newest"}


def _module(name: str) -> ModuleType:
    """Import a helper module from this folder, which is not a package."""
    module_name = f"oahu_durability_{name}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, _HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[module_name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[module_name]


@pytest.fixture(autouse=True)
def no_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OAHU_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def oracle() -> Any:
    """Return the module that computes the expected model."""
    return _module("oracle")


@pytest.fixture(scope="session")
def clients() -> Any:
    """Return the module with clients that use a service and record the answers."""
    return _module("clients")


# -- services that can be killed -----------------------------------------------------------------------------


class ForkServer:
    """A process that forks services in milliseconds."""

    def __init__(self, folder: Path, configs: list[Json], **environment: str) -> None:
        self._errors = (folder / "stderr").open("wb")
        self.stderr = folder / "stderr"
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | environment
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(_HERE / "fork_server.py"), json.dumps(configs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=env,
        )
        self._buffer = b""
        self.pid = 0
        assert self._line() == {"ready": True}

    def start(self, **settings: Any) -> int:
        """Fork a service and return its process id."""
        self._request(
            json.dumps({name: str(one) if isinstance(one, Path) else one for name, one in settings.items()})
        )
        self._early_messages: list[Json] = []
        while "forked" not in (message := self._line()):
            self._early_messages.append(message)  # the child wrote before its parent
        self.pid = message["forked"]
        return self.pid

    def address(self) -> str:
        """Wait until the service listens, and return its address."""
        message = self._early_messages.pop() if self._early_messages else self._line()
        assert "address" in message, message.get("failed", message)
        address: str = message["address"]
        return address

    def end(self, signal_number: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal, wait for the end of the service, and return its exit code."""
        os.kill(self.pid, signal_number)
        return self.reap()

    def reap(self) -> int:
        """Wait for the end of the service and return its exit code."""
        self._request("reap")
        while "reaped" not in (message := self._line()):
            pass  # the service had just begun to listen
        self.pid = 0
        status: int = message["reaped"]
        return status

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.pid:
            self.end()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()

    def _request(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _line(self) -> Json:
        assert self._process.stdout is not None
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], TIMEOUT)
            more = os.read(self._process.stdout.fileno(), 65_536) if ready else b""
            assert more, f"no message from the service: {self.stderr.read_text()[-2000:]}"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Json = json.loads(line)
        return message


@pytest.fixture(scope="session")
def shared_fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    made = ForkServer(tmp_path_factory.mktemp("fork_server"), [TRIPLETS, PAIRS])
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def fork_server(shared_fork_server: ForkServer) -> Iterator[ForkServer]:
    """Return a fork server. Its last service is killed after the test."""
    try:
        yield shared_fork_server
    finally:
        if shared_fork_server.pid:
            shared_fork_server.end()


@pytest.fixture
def new_fork_server(tmp_path: Path) -> Iterator[Callable[..., ForkServer]]:
    """Return a function that creates a fork server with additional environment variables."""
    made: list[ForkServer] = []

    def make(**environment: str) -> ForkServer:
        made.append(ForkServer(tmp_path, [TRIPLETS], **environment))
        return made[-1]

    yield make
    for server in made:
        server.close()


# -- a service in this process -------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the data folder of the service."""
    return tmp_path / "data"


@pytest.fixture(scope="session")
def serve_in() -> Callable[..., Any]:
    """Return a context manager that runs a service in this process, with one collection."""

    @contextmanager
    def serving(folder: Path, config: Json = TRIPLETS, **settings: Any) -> Iterator[Any]:
        served = _module("in_process_service").InProcessService(folder, config, **settings)
        try:
            yield served
        finally:
            served.close()

    return serving


@pytest.fixture
def serve(serve_in: Callable[..., Any], data: Path, config: Json) -> Callable[..., Any]:
    """Return a context manager that runs a service with the data folder of the test."""
    return partial(serve_in, data, config)


@pytest.fixture
def config() -> Json:
    """Return the settings of the collection."""
    return TRIPLETS


@pytest.fixture
def expected_model(oracle: Any, data: Path, config: Json) -> Callable[[], bytes]:
    """Return a function that computes the expected model from the log on disk."""
    return lambda: oracle.expected_model(oracle.read(data, config["name"]))


@pytest.fixture
def configs() -> list[Json]:
    """Return the settings of two collections.

    One has a triplet learner and rejects contradictions. The other has a pair learner and keeps the newest
    feedback.
    """
    return [TRIPLETS, PAIRS]
