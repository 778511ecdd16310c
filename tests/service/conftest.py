"""What the tests of the service share: small stores and collections that are closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.constraints import Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.feature_store import FeatureStore
from oahu.service.learner_loop import LearnerLoop, new_learner
from oahu.service.records import Click, CollectionConfig, NewItem, PublishedMetric
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore

PATIENCE = 120.0
DIMENSION = 5
N_ITEMS = 24
SMALL = {"n_layers": 2, "hidden_size": 6, "embedding_size": 4}


# -- stores, services and collections --------------------------------------------------------------------------


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., SQLiteStore]]:
    """Opens a store in a folder of the test's, by name; those that are left open are closed."""
    opened: list[SQLiteStore] = []

    def make(name: str = "data", **options: Any) -> SQLiteStore:
        opened.append(SQLiteStore(tmp_path / name, **options))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., SQLiteStore]) -> SQLiteStore:
    return open_store()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Answers wait as long as it takes for feedback to be learned; nothing is refreshed by itself."""
    return Settings(data=tmp_path / "data", fresh_wait=60, refresh_every=3600)


@pytest.fixture
def open_service(settings: Settings) -> Iterator[Callable[..., Service]]:
    """Opens a service in the test's folder; those that are left open are closed."""
    opened: list[Service] = []

    def make(**changes: Any) -> Service:
        opened.append(Service(settings.model_copy(update=changes)))
        opened[-1].open()
        return opened[-1]

    yield make
    for service in opened:
        service.close()


@pytest.fixture
def service(open_service: Callable[..., Service]) -> Service:
    return open_service()


@pytest.fixture
def items() -> Callable[..., list[NewItem]]:
    """Makes n items of two clouds: keys i0, i1, ..., every other one labelled even, the others odd."""

    def make(n: int, dimension: int = 4, seed: int = 0, labels: bool = True) -> list[NewItem]:
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, dimension)) + 2 * (np.arange(n) % 2)[:, None] * (np.arange(dimension) == 0)
        return [
            NewItem(f"i{at}", row.astype(np.float32).tobytes(), ("even", "odd")[at % 2] if labels else None)
            for at, row in enumerate(rows)
        ]

    return make


@pytest.fixture
def filled(service: Service, items: Callable[..., list[NewItem]]) -> Callable[..., Collection]:
    """Makes a collection with n items."""

    def make(n: int = 20, name: str = "things", **config: Any) -> Collection:
        collection = service.create(CollectionConfig(name, **{"dimension": 4, "learner": "Euclidean", **config}))
        collection.put_items(items(n, collection.config.dimension)).result()
        return collection

    return make


# -- a log and its loop ----------------------------------------------------------------------------------------


class Lab:
    """A log in a store, with a loop that learns it and can be stopped, killed and started again."""

    def __init__(
        self, open_store: Callable[..., SQLiteStore], config: CollectionConfig, rows: Any, **options: Any
    ) -> None:
        self._open, self.config, self.options = open_store, config, options
        self.rows = np.concatenate([np.zeros((1, rows.shape[1])), rows]).astype(np.float32)  # numbers begin at 1
        self.store = open_store()
        self.id = self.store.commit(lambda t: t.create(config)).result(PATIENCE).id
        self.log: list[Any] = []
        self.models: dict[int, bytes] = {}
        self.published: list[PublishedMetric] = []
        self._start()

    def _start(self) -> None:
        self.vectors = FeatureStore(self.config.dimension, np.dtype(np.float32))
        numbers = list(range(1, len(self.rows)))
        self.vectors.add(numbers, [f"i{n}" for n in numbers], self.rows[1:].tobytes())
        self.loop = LearnerLoop(
            self.store, self.id, self.config, self.vectors, self.published.append, **self.options
        )

    def say(self, *changes: Any, model: bytes | None = None) -> None:
        """Append to the log, without waking anyone."""
        at = len(self.log) + 1

        def command(transaction: Any) -> None:
            transaction.append(self.id, at, changes)
            if model is not None:
                transaction.keep_model(self.id, at, model)

        self.store.commit(command).result(PATIENCE)
        self.log += changes
        if model is not None:
            self.models[at] = model

    @staticmethod
    def pieces(n: int, seed: int = 0) -> list[Any]:
        """Triplets, pairs and clicks that are true of three classes: an item's number modulo 3."""
        rng = np.random.default_rng(seed)
        made: list[Any] = []
        while len(made) < n:
            query, *others = (1 + rng.permutation(N_ITEMS)[:6]).tolist()
            likes = tuple(other for other in others if other % 3 == query % 3)
            unlikes = tuple(other for other in others if other % 3 != query % 3)
            kind = rng.integers(4)
            if kind == 0 and likes and unlikes:
                made.append(Triplet(query, likes[0], unlikes[0]))
            elif kind == 1:
                made.append(Pair(query, others[0], others[0] % 3 == query % 3))
            elif kind == 2:
                made.append(Click(query, likes, unlikes))
            elif kind == 3:
                made.append(Click(query, likes, ()) if likes else Click(query, (), unlikes[:2]))
        return made

    def learn(self) -> PublishedMetric:
        """Learn all of it."""
        if self.loop._thread.ident is None:
            self.loop.start()
        self.loop.wake(len(self.log))
        published = self.loop.wait_for(len(self.log), PATIENCE)
        assert published.version == len(self.log)
        return published

    def model(self) -> bytes:
        self.learn()
        return self.loop.file()

    def restart(self, kill: bool = False) -> None:
        """As a service that is shut down and started; if killed, nothing is kept but the log."""
        self.loop.stop() if kill else self.loop.close()
        self.store.close()
        self.store = self._open()
        self._start()

    def close(self) -> None:
        self.loop.stop()


@pytest.fixture
def lab(open_store: Callable[..., SQLiteStore]) -> Iterator[Callable[..., Lab]]:
    """Makes a log of its own, of random items of three classes by default."""
    made: list[Lab] = []

    def make(learner: str = "OASIS", rows: Any = None, options: Any = None, **config: Any) -> Lab:
        rows = np.random.default_rng(1).normal(size=(N_ITEMS, DIMENSION)) if rows is None else rows
        parameters = {**(SMALL if learner in ("OAHU", "AnchoredOAHU") else {}), **config.pop("parameters", {})}
        told = CollectionConfig(config.pop("name", "things"), rows.shape[1], learner, parameters, **config)
        made.append(Lab(open_store, told, rows, **(options or {})))
        return made[-1]

    yield make
    for one in made:
        one.close()


# -- metrics ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def trained() -> Callable[..., PublishedMetric]:
    """Makes a metric that has learned n random triplets, as it is handed out."""

    def make(learner: str, n: int = 0, version: int | None = None, dimension: int = DIMENSION) -> PublishedMetric:
        parameters = SMALL if learner in ("OAHU", "AnchoredOAHU") else {}
        made = new_learner(CollectionConfig("things", dimension, learner, parameters))
        if n:
            made.partial_fit(np.random.default_rng(n).normal(size=(n, 3, dimension)).astype(np.float32))
        return PublishedMetric(made.metric(), n if version is None else version, n, None, 0.0)

    return make
