"""Euclidean and Cosine: learners that learn nothing, so that every comparison has a floor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.learners.array_state import LEARNED, ArrayLearner, Arrays, ArrayState
from oahu.learners.kinds import PairLearner, WithDistances
from oahu.metrics.fixed import CosineMetric, EuclideanMetric
from oahu.randomness import RandomState

__all__ = ["Cosine", "Euclidean"]


class _Fixed(WithDistances, PairLearner[ArrayState], ArrayLearner):
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

    def _start(self, n_features: int, dtype: np.dtype[Any]) -> Arrays:
        return {}

    def _step(self, arrays: Arrays, block: NDArray[Any], same: Any, used: Any) -> int:
        return LEARNED


@storable
class Euclidean(_Fixed):
    """Plain Euclidean distance under the learners' contract. It takes pairs and triplets, and learns nothing.

    Parameters
    ----------
    n_constraints : int, default=10000
        How many pairs ``fit(X, y)`` draws from labels, and triplets ``score(X, y)``.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The table that constraints of indices point into. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        What it computes in.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seeds the drawing of constraints from labels.

    Examples
    --------
    >>> from oahu import Euclidean
    >>> learner = Euclidean().partial_fit(np.ones((7, 3, 2)))
    >>> learner.n_seen_, learner.utilization_
    (14, 0.0)
    """

    def _made(self, state: ArrayState) -> EuclideanMetric:
        return EuclideanMetric(state.n_features, str(state.dtype), state.n_seen)


@storable
class Cosine(_Fixed):
    """Euclidean distance between items of unit length, under the learners' contract. It learns nothing.

    It ranks as the cosine does. Parameters as for `Euclidean`.

    Examples
    --------
    >>> from oahu import Cosine
    >>> Cosine().initialize(2).pair_distance([[[3.0, 0.0], [9.0, 0.0]]])
    array([0.])
    """

    def _made(self, state: ArrayState) -> CosineMetric:
        return CosineMetric(state.n_features, str(state.dtype), state.n_seen)
