"""Data and helper functions for the checks."""

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
    "Samples",
    "constraints_per_triplet",
    "expect_error",
    "learned_attributes",
    "model_bytes",
    "outputs_of",
    "temporary_path",
    "unfitted_copy",
]  # fmt: skip

Floats = NDArray[np.floating]
N_FEATURES = 5


@dataclass(frozen=True)
class Samples:
    """Read-only data with 5 features per item.

    Attributes
    ----------
    triplets : ndarray of shape (300, 3, 5)
        Triplets of feature values. Learners process them in more than two blocks.
    table : ndarray of shape (40, 5)
        Feature table of small integers, which every numeric type can represent.
    labels : ndarray of shape (40,)
        Labels of the items in ``table``. There are three classes.
    indices : ndarray of shape (300, 3)
        Triplets of items, given by row numbers of ``table``.
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


def unfitted_copy(learner: Learner[Any], **parameters: Any) -> Learner[Any]:
    """Return an unfitted copy of a learner, with a fixed random seed and a small ``n_constraints``."""
    copy: Learner[Any] = clone(learner)
    return copy.set_params(**({"random_state": 0, "n_constraints": 60} | parameters))


def model_bytes(learner: Learner[Any]) -> bytes:
    """Return the bytes of a model file of the learner. They contain the learned state and the parameters."""
    return model_files.to_bytes(learner)


def outputs_of(model: Any, items: Floats) -> NDArray[Any]:
    """Return the vectors of the items. If the learner or metric computes no vectors, return pair scores instead."""
    others = np.roll(items, 1, axis=0)
    if isinstance(model, ScoresOnlyMixin):
        return np.asarray(model.pair_score(np.stack([items, others], axis=1)))  # type: ignore[attr-defined]
    if isinstance(model, Metric) and not isinstance(model, DistanceMetric):
        return np.asarray(model.score(items, others))
    return np.asarray(model.transform(items))


def learned_attributes(learner: Learner[Any]) -> dict[str, Any]:
    """Return the public attributes with names that end with an underscore, by name."""
    names = [name for name in dir(learner) if name.endswith("_") and not name.startswith("_")]
    return {name: getattr(learner, name) for name in names if hasattr(learner, name)}


def constraints_per_triplet(learner: Learner[Any]) -> int:
    """Return the number of constraints that the learner counts for one triplet."""
    return 2 if isinstance(learner, PairLearner) else 1


@contextmanager
def temporary_path() -> Any:
    """Yield the path of a file in a temporary folder. The folder is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "learner"


def expect_error(kind: type[BaseException], action: Callable[..., Any], *arguments: Any) -> None:
    """Raise AssertionError if ``action(*arguments)`` does not raise an error of type ``kind``."""
    try:
        action(*arguments)
    except kind:
        return
    raise AssertionError(f"Expected {kind.__name__}, but nothing was raised.")
