"""RDML: Regularized Distance Metric Learning (Jin, Wang and Zhou, 2009)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.jit import kernel
from oahu.learners.array_state import LEARNED, Arrays
from oahu.learners.linear import STARTS, MahalanobisLearner, Start, start_matrix
from oahu.learners.matrix import add_square, dot, limit, project, solve_along, subtract_square
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["RDML"]

Floats = NDArray[np.floating]


@storable
class RDML(MahalanobisLearner):
    """Regularized Distance Metric Learning (RDML) learns a Mahalanobis metric from pairs.

    A pair is right if it is similar and nearer than 1, or dissimilar and farther, in squared distance. A pair that
    is not moves the matrix to the nearest positive semi-definite one of ``A - lambda y (x - x')(x - x')^T``.

    A dissimilar pair costs O(d^2) time. A similar one leaves at most one negative eigenvalue, and only that one is
    looked for, by O(d^2) products. The model takes O(d^2) memory.

    Parameters
    ----------
    learning_rate : float, default=0.1
        lambda.
    mode : {"project", "ray"}, default="project"
        How A stays positive semi-definite when a similar pair is pulled together. "project" takes the whole step
        and removes the negative eigenvalue. "ray" shortens the step to the longest that keeps A positive
        semi-definite, ``min(lambda, 1 / z^T A^-1 z)``. A shortened step makes A singular, and from then on nearly
        every step has length 0: "ray" soon learns next to nothing from similar pairs.
    start : {"identity", "zero"}, default="identity"
        The first A. From 0, similar pairs do nothing until dissimilar ones have given A directions.
    n_constraints : int, default=10000
        How many pairs ``fit(X, y)`` draws from labels, and triplets ``score(X, y)``.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The table that constraints of indices point into. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        What the model computes in.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seeds the drawing of pairs from labels.

    Attributes
    ----------
    matrix_ : ndarray of shape (d, d)
        A, a copy.
    n_seen_, utilization_, utilization_similar_, utilization_dissimilar_
        How many pairs were learned, and the share of them that changed the model.

    Notes
    -----
    The threshold of 1 is a squared distance: scale the features so that it separates pairs, for instance to unit
    length.

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

    def _check_parameters(self) -> None:
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_choice(self, "mode", self.mode, ("project", "ray"))
        check_choice(self, "start", self.start, STARTS)
        super()._check_parameters()

    def _start(self, n_features: int, dtype: np.dtype[Any]) -> Arrays:
        return {"matrix": start_matrix(self.start, n_features, dtype)}

    def _step(self, arrays: Arrays, block: Floats, same: Any, used: Any) -> int:
        return int(_learn(block, same, arrays["matrix"], float(self.learning_rate), self.mode == "ray", used))


@kernel
def _learn(
    pairs: Floats, same: NDArray[np.bool_], matrix: Floats, rate: float, ray: bool, used: NDArray[np.bool_]
) -> int:
    d = matrix.shape[0]
    dtype = matrix.dtype
    z, along, direction = np.empty(d, dtype), np.empty(d, dtype), np.empty(d, dtype)
    left, right = np.empty(d, dtype), np.empty(d, dtype)
    most = limit(matrix)
    for t in range(pairs.shape[0]):
        for j in range(d):
            z[j] = pairs[t, 0, j] - pairs[t, 1, j]
        project(matrix, z, along)
        apart = float(dot(z, along))  # z^T A z
        squared = float(dot(z, z))
        if not (apart < most and squared * (1.0 + rate) < most):  # also when one is NaN
            return t
        if (apart < 1.0 if same[t] else apart > 1.0) or squared == 0.0:
            continue  # right, or two items that are one
        if not same[t]:
            add_square(matrix, rate, z, left, right)
        elif not ray:
            subtract_square(matrix, rate, z, direction, left, right)
        else:
            step = min(rate, 1.0 / solve_along(matrix, z))
            # A step below rounding is the 0 of a z that is not in the range of A.
            if not step * squared > np.finfo(dtype).eps * apart / squared * 10.0:
                continue
            add_square(matrix, -step, z, left, right)
        used[t] = True
    return LEARNED
