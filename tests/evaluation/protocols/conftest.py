"""Fixtures of the protocol tests: small data sets, and learners that record their inputs."""

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


class Recording:
    """Records each learner of its class that learns, and its input."""

    calls: ClassVar[list[Any]]

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        type(self).calls.append((self, np.array(X), None if y is None else np.array(y)))
        return super().partial_fit(X, y)  # type: ignore[misc]


class RecordingOAHU(Recording, oahu.OAHU):
    calls: ClassVar[list[Any]] = []


class RecordingLEGO(Recording, oahu.LEGO):
    calls: ClassVar[list[Any]] = []


class RecordingRDML(Recording, oahu.RDML):
    calls: ClassVar[list[Any]] = []


class RecordingOASIS(Recording, oahu.OASIS):
    calls: ClassVar[list[Any]] = []


class RecordingOPML(Recording, oahu.OPML):
    calls: ClassVar[list[Any]] = []


RECORDING: dict[str, Callable[[], Any]] = {
    "OAHU": lambda: RecordingOAHU(**SMALL_OAHU),
    "LEGO": RecordingLEGO,
    "RDML": RecordingRDML,
    "OASIS": RecordingOASIS,
    "OPML": lambda: RecordingOPML(too_long="skip"),
}


@pytest.fixture
def recording() -> Iterator[Callable[[str], Method]]:
    """Return a method that records its inputs: ``type(method.learner).calls`` has (learner, X, y) of every call."""
    kinds = (RecordingOAHU, RecordingLEGO, RecordingRDML, RecordingOASIS, RecordingOPML)
    for kind in kinds:
        kind.calls = []
    yield lambda name: as_method((name, RECORDING[name]()))
    for kind in kinds:
        kind.calls = []


@pytest.fixture(scope="session")
def digits() -> Dataset:
    """Two hundred handwritten digits."""
    all_digits = datasets.load("digits")
    assert all_digits.X[:200].max() == 16
    return Dataset("some digits", all_digits.X[:200], all_digits.y[:200], scaling="range")


@pytest.fixture(scope="session")
def numbered() -> Dataset:
    """Items that can be identified: the first feature of each is its row number."""
    rng = np.random.default_rng(5)
    y = np.arange(150) % 5
    X = rng.normal(size=(150, 4)) + y[:, None]
    X[:, 0] = np.arange(150)
    return Dataset("numbered", X.astype(np.float32), y, scaling="none")


@pytest.fixture(scope="session")
def measure() -> Callable[..., Outcome]:
    """Return a function that measures one trial of a protocol with changed settings; nothing is stored."""

    def measure(
        protocol: str, dataset: Dataset, method: Any, run: int = 0, stage: str = "result", **changed: Any
    ) -> Outcome:
        evaluation, compared = PROTOCOLS[protocol], as_method(method)
        added = {name: changed.pop(name) for name in ("of", "folds", "tune_items") if name in changed}
        settings = evaluation.settings(dataset, **{"n_constraints": 200, "n_seeds": 100, **changed}) | added
        trial = Trial(protocol, dataset.name, compared.name, run, settings, stage)
        return (evaluation.measure if stage == "result" else evaluation.validate)(
            trial, dataset, compared, ConstraintCache()
        )

    return measure
