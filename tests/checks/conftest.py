"""Fixtures of the behaviour tests: learners, data, and snapshots that compare bit for bit.

A test with the fixture `make` runs for one learner of each code path in learners/base.py and learners/kinds.py. The
checks of `oahu.checks` cover the same behaviour for every learner. A test of something that each learner defines
itself uses `make_every`, or one of the other `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import parametrize_with_checks

import oahu
from oahu.checks import yield_checks
from oahu.io import model_files
from oahu.learners import LEARNERS as NAMES
from oahu.learners.base import Learner as AnyLearner
from oahu.learners.kinds import ClickLearner, PairLearner, ScoresOnlyMixin

Learner = AnyLearner[Any]
Factory = Callable[..., Learner]
Snapshot = dict[str, Any]

N_FEATURES = 5


#: Parameters that make a learner small and fit the data below.
SMALL: dict[str, dict[str, Any]] = {
    "OAHU": {"n_layers": 2, "hidden_size": 6, "embedding_size": 4},
    "AnchoredOAHU": {"batch_size": 4, "n_random": 8},
    "OPML": {"gamma": 1e-4, "too_long": "skip"},
}


def small(name: str) -> Factory:
    """Return a function that makes a small and seeded learner; keyword arguments override its parameters."""
    learner_class = getattr(oahu, name)
    defaults = {"n_constraints": 60, "random_state": 0} | SMALL.get(name, {})

    def make(**parameters: Any) -> Learner:
        learner: Learner = learner_class(**(defaults | parameters))
        return learner

    make.__name__ = name
    return make


#: Every learner, small and seeded.
LEARNERS: dict[str, Factory] = {name: small(name) for name in NAMES}

#: Learners by what they are, as fixtures that make them.
KINDS: dict[str, Callable[[type], bool]] = {
    # OAHU: triplets, a postponed update. OPML: labelled streams, a state of its own. LEGO: pairs.
    "make": lambda learner: learner in (oahu.OAHU, oahu.OPML, oahu.LEGO),
    "make_every": lambda learner: True,
    "make_other": lambda learner: learner not in (oahu.OAHU, oahu.OPML, oahu.LEGO),
    "make_in_place": lambda learner: not issubclass(learner, ClickLearner),
    "make_typical": lambda learner: learner in (oahu.OAHU, oahu.LEGO),  # one for triplets, one for pairs
    "make_learning": lambda learner: learner not in (oahu.Euclidean, oahu.Cosine),
    "make_with_distances": lambda learner: not issubclass(learner, ScoresOnlyMixin),
    "make_scores_only": lambda learner: issubclass(learner, ScoresOnlyMixin),
    "make_of_pairs": lambda learner: learner in (oahu.LEGO, oahu.POLA, oahu.Euclidean),
    "make_of_triplets": lambda learner: learner in (oahu.OAHU, oahu.OASIS, oahu.OPML),
    "make_dense": lambda learner: learner in (oahu.OAHU, oahu.LEGO, oahu.SOML),
    "make_drawing": lambda learner: learner in (oahu.OAHU, oahu.OASIS, oahu.LEGO),  # OPML constructs its triplets
    "make_on_sphere": lambda learner: "normalize" in learner().get_params() or learner is oahu.Cosine,
    "make_off_sphere": lambda learner: learner in (oahu.OAHU, oahu.LEGO, oahu.RDML, oahu.OPML, oahu.POLA),
    "make_oahu": lambda learner: learner is oahu.OAHU,
}

_LABELS_ARE_NOT_CONSTRAINTS = (
    "It calls partial_fit(X, y) with items and labels. partial_fit learns the constraints it is given, in order; "
    "labels say nothing about which constraints, and in which order, so they are refused there. fit and score do "
    "take y."
)

#: Checks of scikit-learn that cannot hold for a learner of constraints, and why.
NOT_FOR_CONSTRAINTS = {
    "check_fit_score_takes_y": _LABELS_ARE_NOT_CONSTRAINTS,
    "check_n_features_in_after_fitting": (
        "It ends with partial_fit(X, y) on items and labels, which a stream of constraints does not take. That "
        "fit, transform, score and partial_fit refuse another number of features is checked in test_bad_input.py."
    ),
}


#: Ways to learn, for tests that take ``learn``: from triplets, and from labelled items.
LEARNING: dict[str, Callable[..., Learner]] = {
    "triplets": lambda learner, triplets, table, labels: learner.partial_fit(triplets),
    "labels": lambda learner, triplets, table, labels: learner.fit(table, labels),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cross tests with the learners that they ask for, and scikit-learn's checks with one of each code path."""
    if {"estimator", "check"} <= set(metafunc.fixturenames):
        crossed = parametrize_with_checks(
            [LEARNERS[name]() for name in NAMES if KINDS["make"](getattr(oahu, name))],
            # OPML takes labelled streams, so it passes them all.
            expected_failed_checks=lambda learner: {} if isinstance(learner, oahu.OPML) else NOT_FOR_CONSTRAINTS,
        )
        metafunc.parametrize(*crossed.mark.args, **crossed.mark.kwargs)
    if "checked" in metafunc.fixturenames:
        cases = [(make(), check) for make in LEARNERS.values() for check in yield_checks(make())]
        metafunc.parametrize("checked", cases, ids=[f"{type(one).__name__}-{check.name}" for one, check in cases])
    if "learn" in metafunc.fixturenames:
        metafunc.parametrize("learn", LEARNING.values(), ids=LEARNING.keys())
    for kind, belongs in KINDS.items():
        if kind in metafunc.fixturenames:
            chosen = [name for name in NAMES if belongs(getattr(oahu, name))]
            metafunc.parametrize(kind, [LEARNERS[name] for name in chosen], ids=chosen)


# -- learners --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def not_for_constraints() -> dict[str, str]:
    """Checks of scikit-learn that cannot hold for a learner of constraints, and why."""
    return NOT_FOR_CONSTRAINTS


@pytest.fixture(scope="session")
def factories() -> dict[str, Factory]:
    """The factory of each learner, by name."""
    return LEARNERS


@pytest.fixture(scope="session")
def per_triplet() -> Callable[[Learner], int]:
    """Number of constraints that a triplet counts as."""
    return lambda learner: 2 if isinstance(learner, PairLearner) else 1


@pytest.fixture(scope="session")
def seen() -> Callable[[Any, Any], NDArray[Any]]:
    """What a learner or its metric makes of items: their vectors, or if it has scores only, those of neighbours."""

    def seen(model: Any, items: NDArray[Any]) -> NDArray[Any]:
        if not isinstance(model, ScoresOnlyMixin | oahu.BilinearMetric):
            return np.asarray(model.transform(items))
        if isinstance(model, oahu.BilinearMetric):
            return np.asarray(model.score(items, np.roll(items, 1, axis=0)))
        return np.asarray(model.pair_score(np.stack([items, np.roll(items, 1, axis=0)], axis=1)))

    return seen


# -- data: read-only, so that no test can change it for another ------------------------------------------------


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
    """The public learned attributes of a learner; empty if it is not fitted."""
    return _learned


@pytest.fixture(scope="session")
def saved() -> Callable[[Learner], bytes]:
    """The bytes of a learner's file: all that it has learned, and its parameters but for the preprocessor."""
    return model_files.to_bytes


@pytest.fixture(scope="session")
def snapshot(saved: Callable[[Learner], bytes]) -> Callable[[Learner], Snapshot]:
    """Attributes, parameters, and the bytes of the file if the learner is fitted."""

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
    """Return an immutable value that compares bit for bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {name: _frozen(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return repr(value)
