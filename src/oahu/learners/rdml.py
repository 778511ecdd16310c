"""RDML: Regularized Distance Metric Learning (Jin, Wang and Zhou, 2009)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.jit import helper, kernel
from oahu.learners.matrix_kernels import (
    add_square,
    dot,
    inverse_quadratic_form,
    overflow_limit,
    project,
    subtract_square,
)
from oahu.learners.matrix_learners import STARTS, MahalanobisLearner, Start, start_matrix
from oahu.learners.state import LEARNED, Arrays
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["RDML"]

Floats = NDArray[np.floating]


@storable
class RDML(MahalanobisLearner):
    """Regularized Distance Metric Learning (RDML) learns a Mahalanobis metric from pairs.

    A similar pair is correct if its squared distance is below 1. A dissimilar pair is correct if its squared
    distance is above 1. For an incorrect pair (x, x') with label y, the matrix A of the metric is replaced by the
    positive semi-definite matrix nearest to ``A - lambda y (x - x')(x - x')^T``.

    Learning from a pair takes O(d^2) time. The step for a similar pair gives A at most one negative eigenvalue. A
    few matrix-vector products find this eigenvalue. The model takes O(d^2) memory.

    Parameters
    ----------
    learning_rate : float, default=0.1
        lambda: the step size.
    mode : {"project", "ray"}, default="project"
        The method that keeps A positive semi-definite after a similar pair. "project" makes the full step and
        removes the negative eigenvalue. "ray" makes the longest step up to lambda that keeps A positive
        semi-definite, ``min(lambda, 1 / z^T A^-1 z)`` with z = x - x'. A shortened step makes A singular. Nearly
        all later steps for similar pairs then have length 0, so "ray" soon learns almost nothing from similar
        pairs.
    start : {"identity", "zero"}, default="identity"
        The initial A. With "zero", similar pairs change nothing until dissimilar pairs have raised the rank of A.
    n_constraints : int, default=10000
        Number of pairs that ``fit(X, y)`` draws from labels, and number of triplets that ``score(X, y)`` draws.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the drawing of pairs from labels.

    Attributes
    ----------
    matrix_ : ndarray of shape (d, d)
        A copy of A.
    n_seen_, utilization_, utilization_similar_, utilization_dissimilar_
        Number of pairs learned, and the share that changed the model: of all pairs, of similar pairs and of
        dissimilar pairs.

    Notes
    -----
    The threshold is a squared distance of 1. Scale the features so that this threshold separates similar from
    dissimilar pairs. For example, scale items to unit length.

    References
    ----------
    R. Jin, S. Wang, Y. Zhou: Regularized Distance Metric Learning: Theory and Algorithm. NIPS, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import RDML
    >>> X, y = load_iris(return_X_y=True)
    >>> RDML(0.01, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        learning_rate: float = 0.1,
        *,
        mode: Literal["project", "ray"] = "project",
        start: Start = "identity",
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.mode = mode
        self.start = start
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    def check_parameters(self) -> None:
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_choice(self, "mode", self.mode, ("project", "ray"))
        check_choice(self, "start", self.start, STARTS)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {"matrix": start_matrix(self.start, n_features, dtype)}

    def learn_pairs(
        self, arrays: Arrays, pairs: Floats, similar: NDArray[np.bool_], used: NDArray[np.bool_]
    ) -> int:
        learn = _learn_ray if self.mode == "ray" else _learn_project
        return int(learn(pairs, similar, arrays["matrix"], float(self.learning_rate), used))


@kernel("RDML's update step")
def _learn_project(
    pairs: Floats, similar: NDArray[np.bool_], matrix: Floats, rate: float, used: NDArray[np.bool_]
) -> int:
    d = matrix.shape[0]
    z, direction = np.empty(d, matrix.dtype), np.empty(d, matrix.dtype)
    left, right = np.empty(d, matrix.dtype), np.empty(d, matrix.dtype)
    for t in range(pairs.shape[0]):
        distance = _distance(pairs[t], matrix, rate, z, left)
        if not distance < math.inf:
            return t
        used[t] = (
            _is_violated(distance, similar[t]) and float(dot(z, z)) > 0.0
        )  # the gradient of two equal items is 0
        if used[t] and similar[t]:
            subtract_square(matrix, rate, z, direction, left, right)
        elif used[t]:
            add_square(matrix, rate, z, left, right)
    return LEARNED


@kernel("RDML's update step")
def _learn_ray(
    pairs: Floats, similar: NDArray[np.bool_], matrix: Floats, rate: float, used: NDArray[np.bool_]
) -> int:
    d = matrix.shape[0]
    z, left, right = np.empty(d, matrix.dtype), np.empty(d, matrix.dtype), np.empty(d, matrix.dtype)
    for t in range(pairs.shape[0]):
        distance = _distance(pairs[t], matrix, rate, z, left)
        if not distance < math.inf:
            return t
        used[t] = (
            _is_violated(distance, similar[t]) and float(dot(z, z)) > 0.0
        )  # the gradient of two equal items is 0
        step = rate
        if used[t] and similar[t]:
            squared_length = float(dot(z, z))
            step = -min(rate, 1.0 / inverse_quadratic_form(matrix, z))
            # If z is not in the range of A, the step is 0 up to rounding.
            used[t] = -step * squared_length > np.finfo(matrix.dtype).eps * distance / squared_length * 10.0
        if used[t]:
            add_square(matrix, step, z, left, right)
    return LEARNED


@helper
def _distance(pair: Floats, matrix: Floats, rate: float, z: Floats, product: Floats) -> float:
    """Return the squared distance of a pair, or infinity if the distance or the update might overflow.

    Write the difference of the items to ``z``.
    """
    for j in range(z.shape[0]):
        z[j] = pair[0, j] - pair[1, j]
    project(matrix, z, product)
    distance = float(dot(z, product))  # z^T A z
    limit = overflow_limit(matrix)
    within = distance < limit and float(dot(z, z)) * (1.0 + rate) < limit  # False for NaN
    return distance if within else math.inf


@helper
def _is_violated(distance: float, similar: bool) -> bool:
    return distance >= 1.0 if similar else distance <= 1.0
