"""Euclidean and Cosine: baselines that have the interface of a learner but learn nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.learners.base import M
from oahu.learners.kinds import PairLearner
from oahu.learners.state import Arrays, LearnerState
from oahu.metrics.fixed_metrics import CosineMetric, EuclideanMetric
from oahu.randomness import RandomState

__all__ = ["Cosine", "Euclidean"]


class _FixedLearner(PairLearner[M]):
    """Base class of learners without learned arrays."""

    rejects_overflow = True

    def __init__(
        self,
        *,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {}

    def learn_pairs(
        self, arrays: Arrays, pairs: NDArray[Any], similar: NDArray[np.bool_], used: NDArray[np.bool_]
    ) -> None:
        used[:] = False

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        return True


@storable
class Euclidean(_FixedLearner[EuclideanMetric]):
    """Euclidean distance between items, as a baseline. This learner accepts constraints but learns nothing.

    Parameters
    ----------
    n_constraints : int, default=10000
        Number of pairs that ``fit(X, y)`` draws from labels, and number of triplets that ``score(X, y)`` draws.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the drawing of constraints from labels.

    Examples
    --------
    >>> from oahu import Euclidean
    >>> learner = Euclidean().partial_fit(np.ones((7, 3, 2)))
    >>> learner.n_seen_, learner.utilization_
    (14, 0.0)
    """

    def build_metric(self, arrays: Arrays, version: int) -> EuclideanMetric:
        return EuclideanMetric(self.n_features_in_, str(self._dtype), version)


@storable
class Cosine(_FixedLearner[CosineMetric]):
    """Euclidean distance between items scaled to unit length, as a baseline. This learner learns nothing.

    This distance and cosine similarity rank items in the same order. `Cosine` has the same parameters as
    `Euclidean`.

    Examples
    --------
    >>> from oahu import Cosine
    >>> Cosine().initialize(2).pair_distance([[[3.0, 0.0], [9.0, 0.0]]])
    array([0.])
    """

    def build_metric(self, arrays: Arrays, version: int) -> CosineMetric:
        return CosineMetric(self.n_features_in_, str(self._dtype), version)
