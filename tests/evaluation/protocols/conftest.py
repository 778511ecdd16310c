"""What the tests of protocols share: small data sets, and learners that tell what they were fed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import oahu
from oahu.evaluation import datasets
from oahu.evaluation.datasets import Dataset
from oahu.evaluation.protocols import PROTOCOLS, Method, as_method
from oahu.evaluation.protocols.constraint_streams import ConstraintCache
from oahu.evaluation.trials import Outcome, Trial

SMALL_OAHU = {"n_layers": 2, "hidden_size": 8, "embedding_size": 4}


class Told:
    """Keeps every learner of its kind that was fed, and what with."""

    fed: ClassVar[list[Any]]

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        type(self).fed.append((self, np.array(X), None if y is None else np.array(y)))
        return super().partial_fit(X, y)  # type: ignore[misc]


class ToldOAHU(Told, oahu.OAHU):
    fed: ClassVar[list[Any]] = []


class ToldLEGO(Told, oahu.LEGO):
    fed: ClassVar[list[Any]] = []


class ToldRDML(Told, oahu.RDML):
    fed: ClassVar[list[Any]] = []


class ToldOASIS(Told, oahu.OASIS):
    fed: ClassVar[list[Any]] = []


class ToldOPML(Told, oahu.OPML):
    fed: ClassVar[list[Any]] = []


TOLD: dict[str, Callable[[], Any]] = {
    "OAHU": lambda: ToldOAHU(**SMALL_OAHU),
    "LEGO": ToldLEGO,
    "RDML": ToldRDML,
    "OASIS": ToldOASIS,
    "OPML": lambda: ToldOPML(too_long="skip"),
}


@pytest.fixture
def told() -> Iterator[Callable[[str], Method]]:
    """A method that tells what it was fed: ``type(method.learner).fed`` has (learner, X, y) of every call."""
    kinds = (ToldOAHU, ToldLEGO, ToldRDML, ToldOASIS, ToldOPML)
    for kind in kinds:
        kind.fed = []
    yield lambda name: as_method((name, TOLD[name]()))
    for kind in kinds:
        kind.fed = []


@pytest.fixture(scope="session")
def digits() -> Dataset:
    """Two hundred handwritten digits."""
    whole = datasets.load("digits")
    assert whole.X[:200].max() == 16
    return Dataset("some digits", whole.X[:200], whole.y[:200], scaling="range")


@pytest.fixture(scope="session")
def numbered() -> Dataset:
    """Items that can be told apart whatever is done with them: the first feature of each is its row."""
    rng = np.random.default_rng(5)
    y = np.arange(150) % 5
    X = rng.normal(size=(150, 4)) + y[:, None]
    X[:, 0] = np.arange(150)
    return Dataset("numbered", X.astype(np.float32), y, scaling="none")


@pytest.fixture(scope="session")
def measure() -> Callable[..., Outcome]:
    """Measure one trial of a protocol with its settings, some of them changed; nothing is kept."""

    def measure(
        protocol: str, dataset: Dataset, method: Any, run: int = 0, stage: str = "result", **changed: Any
    ) -> Outcome:
        how, row = PROTOCOLS[protocol], as_method(method)
        added = {name: changed.pop(name) for name in ("of", "folds", "tune_items") if name in changed}
        settings = how.settings(dataset, **{"n_constraints": 200, "n_seeds": 100, **changed}) | added
        trial = Trial(protocol, dataset.name, row.name, run, settings, stage)
        return (how.measure if stage == "result" else how.validate)(trial, dataset, row, ConstraintCache())

    return measure
