"""POLA: Pseudo-metric Online Learning Algorithm (Shalev-Shwartz, Singer and Ng, 2004)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.jit import kernel
from oahu.learners.array_state import LEARNED, Arrays
from oahu.learners.linear import STARTS, MahalanobisLearner, Start, start_matrix
from oahu.learners.matrix import add_square, dot, limit, project, subtract_square
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["POLA"]

Floats = NDArray[np.floating]


@storable
class POLA(MahalanobisLearner):
    """The Pseudo-metric Online Learning Algorithm (POLA) learns a Mahalanobis metric and a threshold from pairs.

    The loss of a pair is ``[y (z^T A z - b) + 1]_+`` with z = x - x': similar pairs should be nearer than b - 1,
    dissimilar ones farther than b + 1, in squared distance. A pair with a loss moves (A, b) to the nearest point
    without, and then to the nearest with A positive semi-definite and b >= 1.

    A dissimilar pair costs O(d^2) time. A similar one leaves at most one negative eigenvalue, and only that one is
    looked for, by O(d^2) products. The model takes O(d^2) memory.

    Parameters
    ----------
    relaxation : float, default=0
        gamma: the step is ``loss / (||z||^4 + 1 + gamma)``. 0 goes all the way to the nearest point without loss,
        which follows wrong feedback as readily as right; larger values go part of the way.
    start : {"identity", "zero"}, default="identity"
        The first A. b starts at 1.
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
    threshold_ : float
        b: pairs within a squared distance of b are taken to be alike.
    n_seen_, utilization_, utilization_similar_, utilization_dissimilar_
        How many pairs were learned, and the share of them that changed the model.

    Notes
    -----
    The step shrinks with ||z||^4: with raw pixels hardly anything moves. Scale the features so that distances are
    about 1.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, A. Ng: Online and Batch Learning of Pseudo-Metrics. ICML, 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import POLA
    >>> X, y = load_iris(return_X_y=True)
    >>> POLA(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        relaxation: float = 0.0,
        *,
        start: Start = "identity",
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.relaxation = relaxation
        self.start = start
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def threshold_(self) -> float:
        return float(self._require_fitted().arrays["threshold"][0])

    def _check_parameters(self) -> None:
        check_real(self, "relaxation", self.relaxation, 0.0, np.inf, closed="left")
        check_choice(self, "start", self.start, STARTS)
        super()._check_parameters()

    def _start(self, n_features: int, dtype: np.dtype[Any]) -> Arrays:
        return {"matrix": start_matrix(self.start, n_features, dtype), "threshold": np.ones(1)}

    def _check_arrays(self, arrays: Arrays) -> None:
        super()._check_arrays(arrays)
        if arrays["threshold"][0] < 1:
            raise ValueError("its threshold is below 1")

    def _step(self, arrays: Arrays, block: Floats, same: Any, used: Any) -> int:
        return int(_learn(block, same, arrays["matrix"], arrays["threshold"], float(self.relaxation), used))


@kernel
def _learn(
    pairs: Floats,
    same: NDArray[np.bool_],
    matrix: Floats,
    threshold: NDArray[np.float64],
    relaxation: float,
    used: NDArray[np.bool_],
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
        if not (apart < most and squared < most):  # also when one is NaN
            return t
        sign = 1.0 if same[t] else -1.0
        loss = sign * (apart - threshold[0]) + 1.0
        if not loss > 0.0:
            continue
        # To the nearest point without loss, and from there to the nearest with A positive semi-definite and b >= 1.
        step = loss / (squared * squared + 1.0 + relaxation)
        if not same[t]:
            add_square(matrix, step, z, left, right)
        elif squared > 0.0:
            subtract_square(matrix, step, z, direction, left, right)
        before = threshold[0]
        threshold[0] = max(1.0, before + sign * step)
        used[t] = squared > 0.0 or threshold[0] != before
    return LEARNED
