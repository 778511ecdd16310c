"""The data and helpers that the checks use."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.learners.kinds import PairLearner, ScoresOnlyMixin
from oahu.metrics import DistanceMetric, Metric

__all__ = [
    "Samples", "bits", "expect_error", "fresh", "learned_attributes", "per_triplet", "temporary_path", "view_of",
]  # fmt: skip

Floats = NDArray[np.floating]
N_FEATURES = 5


@dataclass(frozen=True)
class Samples:
    """Read-only data of 5 features.

    Attributes
    ----------
    triplets : ndarray of shape (300, 3, 5)
        More than two blocks of triplets.
    table : ndarray of shape (40, 5)
        Items with small integer values, which every numeric type can represent.
    labels : ndarray of shape (40,)
        Three classes.
    indices : ndarray of shape (300, 3)
        Triplets as row numbers in the table.
    """

    triplets: Floats
    table: Floats
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]

    @classmethod
    def create(cls) -> Samples:
        arrays = (
            np.random.default_rng(3).normal(size=(300, 3, N_FEATURES)),
            np.random.default_rng(1).integers(0, 16, (40, N_FEATURES)).astype(np.float64),
            np.arange(40) % 3,
            np.random.default_rng(2).integers(0, 40, (300, 3)),
        )
        for array in arrays:
            array.flags.writeable = False
        return cls(*arrays)


def fresh(learner: Learner[Any], **parameters: Any) -> Learner[Any]:
    """Return an unfitted copy of a learner, with a seed and a few constraints to draw."""
    copy: Learner[Any] = clone(learner)
    return copy.set_params(**({"random_state": 0, "n_constraints": 60} | parameters))


def bits(learner: Learner[Any]) -> bytes:
    """Return the bytes of the learner's file: everything that it has learned, and its parameters."""
    return model_files.to_bytes(learner)


def view_of(model: Any, items: Floats) -> NDArray[Any]:
    """Return the vectors that a learner or metric computes, or scores of neighbouring items if it has none."""
    after = np.roll(items, 1, axis=0)
    if isinstance(model, ScoresOnlyMixin):
        return np.asarray(model.pair_score(np.stack([items, after], axis=1)))  # type: ignore[attr-defined]
    if isinstance(model, Metric) and not isinstance(model, DistanceMetric):
        return np.asarray(model.score(items, after))
    return np.asarray(model.transform(items))


def learned_attributes(learner: Learner[Any]) -> dict[str, Any]:
    """Return the values of the public attributes that end with an underscore."""
    names = [name for name in dir(learner) if name.endswith("_") and not name.startswith("_")]
    return {name: getattr(learner, name) for name in names if hasattr(learner, name)}


def per_triplet(learner: Learner[Any]) -> int:
    """Return how many constraints a triplet counts as."""
    return 2 if isinstance(learner, PairLearner) else 1


@contextmanager
def temporary_path() -> Any:
    """Yield the path of a file in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "learner"


def expect_error(kind: type[BaseException], action: Callable[..., Any], *arguments: Any) -> None:
    """Call an action that must raise an error of this kind."""
    try:
        action(*arguments)
    except kind:
        return
    raise AssertionError(f"Nothing was raised where {kind.__name__} was expected.")
