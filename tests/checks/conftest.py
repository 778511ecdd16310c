"""What the checks share: the learners, some data, and what "bit for bit the same" means.

Every check takes `make` and so runs for every learner. A new learner gets all of them by one line in `LEARNERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import parametrize_with_checks

from oahu import OAHU
from oahu.learners.base import TripletLearner

Learner = TripletLearner[Any]
Factory = Callable[..., Learner]
Snapshot = dict[str, Any]

N_FEATURES = 5


def small_oahu(**parameters: Any) -> OAHU:
    """Small enough to learn thousands of triplets in no time."""
    small = {"n_layers": 2, "hidden_size": 6, "embedding_size": 4, "n_constraints": 60, "random_state": 0}
    return OAHU(**(small | parameters))


#: Every learner, small and seeded; keyword arguments override its parameters.
LEARNERS: dict[str, Factory] = {"OAHU": small_oahu}

#: Checks of scikit-learn that cannot hold for a learner of triplets, and why.
NOT_FOR_TRIPLETS = {
    "check_fit_score_takes_y": (
        "It calls partial_fit(X, y) with items and labels. partial_fit learns the triplets it is given, in order; "
        "labels say nothing about which triplets, and in which order, so they are refused there. "
        "fit and score do take y."
    ),
    "check_n_features_in_after_fitting": (
        "It ends with partial_fit(X, y) on items and labels, which a stream of triplets does not take. That fit, "
        "transform, score and partial_fit refuse another number of features is checked in test_bad_input.py."
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cross scikit-learn's checks with the learners for tests that take ``estimator`` and ``check``."""
    if {"estimator", "check"} <= set(metafunc.fixturenames):
        learners = [make() for make in LEARNERS.values()]
        crossed = parametrize_with_checks(learners, expected_failed_checks=lambda _: NOT_FOR_TRIPLETS)
        metafunc.parametrize(*crossed.mark.args, **crossed.mark.kwargs)


# -- learners --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=LEARNERS.values(), ids=LEARNERS.keys())
def make(request: pytest.FixtureRequest) -> Factory:
    """Makes a small learner, with the parameters it is given."""
    factory: Factory = request.param
    return factory


@pytest.fixture(scope="session")
def make_oahu() -> Factory:
    """Makes a small OAHU, for what only OAHU has."""
    return small_oahu


# -- data: read-only, so that no test can spoil another's ------------------------------------------------


@pytest.fixture(scope="session")
def table() -> NDArray[np.float64]:
    """Items, (40, 5): small whole numbers, which every numeric type can hold."""
    return _read_only(np.random.default_rng(1).integers(0, 16, (40, N_FEATURES)).astype(np.float64))


@pytest.fixture(scope="session")
def labels() -> NDArray[np.int64]:
    """Labels of the table's items."""
    return _read_only(np.arange(40) % 3)


@pytest.fixture(scope="session")
def indices() -> NDArray[np.int64]:
    """Triplets, (300, 3), as rows of the table: more than two blocks of them."""
    return _read_only(np.random.default_rng(2).integers(0, 40, (300, 3)))


@pytest.fixture(scope="session")
def triplets() -> NDArray[np.float64]:
    """Triplets, (300, 3, 5), as values: more than two blocks of them."""
    return _read_only(np.random.default_rng(3).normal(size=(300, 3, N_FEATURES)))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


# -- bit for bit -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def learned() -> Callable[[Learner], Snapshot]:
    """What a learner has learned, as its public attributes show it; nothing if it is not fitted."""
    return _learned


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Learner], bytes]:
    """The bytes of a learner's file: all that it has learned, and its parameters but for the preprocessor."""
    path = tmp_path_factory.mktemp("saved") / "learner"

    def saved(learner: Learner) -> bytes:
        learner.save(path)
        return path.read_bytes()

    return saved


@pytest.fixture(scope="session")
def snapshot(saved: Callable[[Learner], bytes]) -> Callable[[Learner], Snapshot]:
    """Everything there is to a learner: attributes, parameters, and its file if it is fitted."""

    def snapshot(learner: Learner) -> Snapshot:
        return {
            "names": sorted(vars(learner)),
            "learned": _learned(learner),
            "parameters": _frozen(learner.get_params()),
            "file": saved(learner) if hasattr(learner, "n_features_in_") else None,
        }

    return snapshot


def _learned(learner: Learner) -> Snapshot:
    names = [name for name in dir(learner) if name.endswith("_") and not name.startswith("_")]
    return {name: _frozen(getattr(learner, name)) for name in names if hasattr(learner, name)}


def _frozen(value: Any) -> Any:
    """A value that compares by its bits and that nothing can change any more."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: _frozen(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return repr(value)
