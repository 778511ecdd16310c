"""What the tests of the service share: small stores and collections that are closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oahu.service.collection import Collection
from oahu.service.records import Config, NewItem
from oahu.service.service import Service
from oahu.service.settings import Settings
from oahu.service.store import SQLiteStore


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
        collection = service.create(Config(name, **{"dimension": 4, "learner": "Euclidean", **config}))
        collection.put_items(items(n, collection.config.dimension)).result()
        return collection

    return make
