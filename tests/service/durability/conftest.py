"""What the tests of durability share: a service in this process, services that can be killed, and what must be."""

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

    def __init__(self, folder: Path, configs: list[Json], **environment: str) -> None:
        self._errors = (folder / "stderr").open("wb")
        self.stderr = folder / "stderr"
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | environment
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
        if self.pid:
            self.end()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
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


@pytest.fixture(scope="session")
def one_nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("nursery"), [TRIPLETS, PAIRS])
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def nursery(one_nursery: Nursery) -> Iterator[Nursery]:
    """Services that can be killed, in no time; none is left behind."""
    try:
        yield one_nursery
    finally:
        if one_nursery.pid:
            one_nursery.end()


@pytest.fixture
def new_nursery(tmp_path: Path) -> Iterator[Callable[..., Nursery]]:
    """Makes one whose services have something else in their environment."""
    made: list[Nursery] = []

    def make(**environment: str) -> Nursery:
        made.append(Nursery(tmp_path, [TRIPLETS], **environment))
        return made[-1]

    yield make
    for one in made:
        one.close()


# -- a service in this process -------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder that a service keeps everything in."""
    return tmp_path / "data"


@pytest.fixture(scope="session")
def serve_in() -> Callable[..., Any]:
    """Makes a context: a service in this process, on a folder, with one collection."""

    @contextmanager
    def serving(folder: Path, config: Json = TRIPLETS, **settings: Any) -> Iterator[Any]:
        served = _module("served").Served(folder, config, **settings)
        try:
            yield served
        finally:
            served.close()

    return serving


@pytest.fixture
def serve(serve_in: Callable[..., Any], data: Path, config: Json) -> Callable[..., Any]:
    """The same, on the test's own folder."""
    return partial(serve_in, data, config)


@pytest.fixture
def config() -> Json:
    """What the one collection is created with."""
    return TRIPLETS


@pytest.fixture
def must_be(oracle: Any, data: Path, config: Json) -> Callable[[], bytes]:
    """The model that the log on disk makes."""
    return lambda: oracle.learned(oracle.read(data, config["name"]))


@pytest.fixture
def configs() -> list[Json]:
    """A collection of each kind of learner: of triplets and of pairs, one that refuses and one that believes."""
    return [TRIPLETS, PAIRS]
