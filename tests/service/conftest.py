"""Fixtures of the service tests: small stores, services and collections that are closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.constraints import Pair, Triplet
from oahu.service.collection import Collection
from oahu.service.feature_store import FeatureStore
from oahu.service.feedback_log import FeedbackLog
from oahu.service.learner_factory import new_learner
from oahu.service.learner_loop import LearnerLoop
from oahu.service.records import (
    Click,
    CollectionConfig,
    ModelReplacement,
    NewItem,
    PublishedMetric,
    QueryVector,
    SettingsChange,
    SourceWeight,
    Undo,
)
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore

TIMEOUT = 600.0  # seconds; only a real hang exceeds it
DIMENSION = 5
N_ITEMS = 24
SMALL = {"n_layers": 2, "hidden_size": 6, "embedding_size": 4}


# -- stores, services and collections --------------------------------------------------------------------------


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., SQLiteStore]]:
    """A function that opens a store in the folder of the test. Open stores are closed after the test."""
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
    """Settings: queries wait until all feedback is learned, and only the test refreshes indexes."""
    return Settings(data=tmp_path / "data", fresh_wait=TIMEOUT, refresh_every=3600)


@pytest.fixture
def open_service(settings: Settings) -> Iterator[Callable[..., Service]]:
    """A function that opens a service in the folder of the test. Open services are closed after the test."""
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
    """A function that returns n items of two clusters, with keys i0, i1, ... and labels even and odd."""

    def make(n: int, dimension: int = 4, seed: int = 0, labels: bool = True) -> list[NewItem]:
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, dimension)) + 2 * (np.arange(n) % 2)[:, None] * (np.arange(dimension) == 0)
        return [
            NewItem(f"i{at}", row.astype(np.float32).tobytes(), ("even", "odd")[at % 2] if labels else None)
            for at, row in enumerate(rows)
        ]

    return make


@pytest.fixture
def make_collection(service: Service, items: Callable[..., list[NewItem]]) -> Callable[..., Collection]:
    """A function that creates a collection with n items."""

    def make(n: int = 20, name: str = "things", **config: Any) -> Collection:
        collection = service.create(CollectionConfig(name, **{"dimension": 4, "learner": "Euclidean", **config}))
        collection.put_items(items(n, collection.config.dimension)).result()
        return collection

    return make


# -- a log and its learner -------------------------------------------------------------------------------------


class _NumbersAsKeys:
    """Items with their numbers as keys."""

    def number_of(self, transaction: Any, key: Any, where: str, at: int) -> int:
        return int(key)

    def number_of_vector(self, transaction: Any, vector: QueryVector) -> int:
        raise AssertionError("the items of these tests are numbers")

    def item_of(self, number: int) -> str:
        return str(number)


class LearnerHarness:
    """A feedback log in a store, with a learner loop that can be stopped, killed and started again."""

    def __init__(
        self, open_store: Callable[..., SQLiteStore], config: CollectionConfig, rows: Any, **options: Any
    ) -> None:
        self._open_store, self.config, self.options = open_store, config, options
        self.rows = np.concatenate([np.zeros((1, rows.shape[1])), rows]).astype(np.float32)  # numbers begin at 1
        self.store = open_store()
        self.id = self.store.commit(lambda t: t.create(config)).result(TIMEOUT).id
        self.log: list[Any] = []
        self.models: dict[int, bytes] = {}
        self.published: list[PublishedMetric] = []
        self._load()

    def _load(self) -> None:
        self.feedback_log = FeedbackLog(self.store, self.id, self.config, _NumbersAsKeys())
        self.feedback_log.load()
        features = FeatureStore(self.config.dimension, np.dtype(np.float32))
        numbers = list(range(1, len(self.rows)))
        features.add(numbers, [f"i{n}" for n in numbers], self.rows[1:].tobytes())
        self.loop = LearnerLoop(self.store, self.id, self.config, features, self.published.append, **self.options)

    def append(self, *changes: Any, model: bytes | None = None) -> None:
        """Append changes to the log in one transaction, without notifying the learner."""

        def command(transaction: Any) -> None:
            for kind, group in groupby(changes, lambda change: isinstance(change, Undo | ModelReplacement)):
                if not kind:
                    self.feedback_log.append(transaction, list(group))
                    continue
                for change in group:
                    if isinstance(change, Undo):
                        self.feedback_log._append_undo(transaction, change)
                    else:
                        self.models[self.feedback_log.replace_model(transaction, model or b"")] = model or b""

        self.store.commit(command).result(TIMEOUT)
        self.log += changes

    @staticmethod
    def records(n: int, seed: int = 0) -> list[Any]:
        """Return triplets, pairs and clicks that agree with three classes: the item number modulo 3."""
        rng = np.random.default_rng(seed)
        made: list[Any] = []
        while len(made) < n:
            query, *others = (1 + rng.permutation(N_ITEMS)[:6]).tolist()
            positive = tuple(other for other in others if other % 3 == query % 3)
            negative = tuple(other for other in others if other % 3 != query % 3)
            kind = rng.integers(4)
            if kind == 0 and positive and negative:
                made.append(Triplet(query, positive[0], negative[0]))
            elif kind == 1:
                made.append(Pair(query, others[0], others[0] % 3 == query % 3))
            elif kind == 2:
                made.append(Click(query, positive[:1], negative[:2], positive[1:] + negative[2:]))
            elif kind == 3:
                made.append(Click(query, positive, ()) if positive else Click(query, (), negative[:2]))
        return made

    def learn(self) -> PublishedMetric:
        """Learn the whole log."""
        if self.loop._thread.ident is None:
            self.loop.start()
        self.loop.notify(len(self.log))
        published = self.loop.wait_for(len(self.log), TIMEOUT)
        assert published.version == len(self.log)
        with self.loop._training:  # held until the callback for this metric has returned
            return published

    def model(self) -> bytes:
        """Learn the whole log and return the model file."""
        self.learn()
        return self.loop.model_file()

    def weigh_source(self, source: str, weight: float) -> None:
        """Set the weight of a source, without notifying the learner."""
        before = len(self.log)
        seq = self.store.commit(lambda t: self.feedback_log.weigh_source(t, source, weight)).result(TIMEOUT)
        if seq > before:  # otherwise nothing changed
            self.log.append(SourceWeight(source, weight))

    def change_settings(self, **changed: Any) -> None:
        """Change settings, without notifying the learner."""
        config = replace(self.config, **changed)
        before = len(self.log)
        seq, self.config = self.store.commit(
            lambda t: self.feedback_log.change_settings(t, config, changed)
        ).result(TIMEOUT)
        if seq > before:  # otherwise nothing is learned again
            self.log.append(SettingsChange(changed))

    def restart(self, kill: bool = False) -> None:
        """Close and reopen the store. With ``kill``, no snapshot is saved before."""
        self.loop.stop() if kill else self.loop.close()
        self.store.close()
        self.store = self._open_store()
        self._load()

    def close(self) -> None:
        self.loop.stop()


@pytest.fixture
def make_harness(open_store: Callable[..., SQLiteStore]) -> Iterator[Callable[..., LearnerHarness]]:
    """A function that creates a harness with an empty log. The items are random by default."""
    made: list[LearnerHarness] = []

    def make(learner: str = "OASIS", rows: Any = None, options: Any = None, **config: Any) -> LearnerHarness:
        rows = np.random.default_rng(1).normal(size=(N_ITEMS, DIMENSION)) if rows is None else rows
        parameters = {**(SMALL if learner == "OAHU" else {}), **config.pop("parameters", {})}
        name = config.pop("name", "things")
        harness = LearnerHarness(
            open_store,
            CollectionConfig(name, rows.shape[1], learner, parameters, **config),
            rows,
            **(options or {}),
        )
        made.append(harness)
        return harness

    yield make
    for harness in made:
        harness.close()


# -- metrics ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def trained_metric() -> Callable[..., PublishedMetric]:
    """A function that returns a published metric after learning n random triplets."""

    def make(learner: str, n: int = 0, version: int | None = None, dimension: int = DIMENSION) -> PublishedMetric:
        parameters = SMALL if learner == "OAHU" else {}
        made = new_learner(CollectionConfig("things", dimension, learner, parameters))
        if n:
            made.partial_fit(np.random.default_rng(n).normal(size=(n, 3, dimension)).astype(np.float32))
        return PublishedMetric(made.metric(), n if version is None else version, n, None, 0.0)

    return make
