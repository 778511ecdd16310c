"""POLA: Pseudo-metric Online Learning Algorithm (Shalev-Shwartz, Singer and Ng, 2004)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.jit import kernel
from oahu.learners.matrix_kernels import add_square, dot, overflow_limit, project, subtract_square
from oahu.learners.matrix_learners import STARTS, MahalanobisLearner, Start, start_matrix
from oahu.learners.state import LEARNED, Arrays
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["POLA"]

Floats = NDArray[np.floating]


@storable
class POLA(MahalanobisLearner):
    """The Pseudo-metric Online Learning Algorithm (POLA) learns a Mahalanobis metric and a threshold from pairs.

    The loss of a pair (x, x') with label y is ``[y (z^T A z - b) + 1]_+`` with z = x - x'. A is the matrix of the
    metric, and b is the threshold. z^T A z is the squared distance of the pair. A similar pair has no loss if its
    squared distance is at most b - 1. A dissimilar pair has no loss if its squared distance is at least b + 1. If
    the loss of a pair is positive, (A, b) moves to the nearest point at which this loss is 0, and then to the
    nearest point with a positive semi-definite A and b >= 1.

    Learning from a pair takes O(d^2) time. The step for a similar pair gives A at most one negative eigenvalue. A
    few matrix-vector products find this eigenvalue. The model takes O(d^2) memory.

    Parameters
    ----------
    relaxation : float, default=0
        gamma: the step size is ``loss / (||z||^4 + 1 + gamma)``. With gamma = 0, each
        step reduces the loss of the pair to 0, even if the label of the pair is wrong. The projection of A and b
        comes after the step. Larger values shorten the step.
    start : {"identity", "zero"}, default="identity"
        The initial A. The initial b is 1.
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
    threshold_ : float
        b: pairs with a squared distance below b count as similar.
    n_seen_, utilization_, utilization_similar_, utilization_dissimilar_
        Number of pairs learned, and the share that changed the model: of all pairs, of similar pairs and of
        dissimilar pairs.

    Notes
    -----
    The step size decreases with ||z||^4. With raw pixel values, the model therefore hardly changes. Scale the
    features so that distances are about 1.

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
        return float(self._fitted_state().arrays["threshold"][0])

    def check_parameters(self) -> None:
        check_real(self, "relaxation", self.relaxation, 0.0, np.inf, closed="left")
        check_choice(self, "start", self.start, STARTS)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {"matrix": start_matrix(self.start, n_features, dtype), "threshold": np.ones(1)}

    def check_arrays(self, arrays: Arrays) -> None:
        super().check_arrays(arrays)
        if arrays["threshold"][0] < 1:
            raise ValueError(
                f"its threshold is {arrays['threshold'][0]:g}, but a POLA threshold must be at least 1"
            )

    def learn_pairs(
        self, arrays: Arrays, pairs: Floats, similar: NDArray[np.bool_], used: NDArray[np.bool_]
    ) -> int:
        return int(_learn(pairs, similar, arrays["matrix"], arrays["threshold"], float(self.relaxation), used))


@kernel("POLA's update step")
def _learn(
    pairs: Floats,
    similar: NDArray[np.bool_],
    matrix: Floats,
    threshold: NDArray[np.float64],
    relaxation: float,
    used: NDArray[np.bool_],
) -> int:
    d = matrix.shape[0]
    dtype = matrix.dtype
    z, product, direction = np.empty(d, dtype), np.empty(d, dtype), np.empty(d, dtype)
    left, right = np.empty(d, dtype), np.empty(d, dtype)
    limit = overflow_limit(matrix)
    for t in range(pairs.shape[0]):
        for j in range(d):
            z[j] = pairs[t, 0, j] - pairs[t, 1, j]
        project(matrix, z, product)
        squared_distance = float(dot(z, product))  # z^T A z
        squared_length = float(dot(z, z))
        if not (squared_distance < limit and squared_length < limit):  # true for NaN too
            return t
        used[t] = False
        sign = 1.0 if similar[t] else -1.0
        loss = sign * (squared_distance - threshold[0]) + 1.0
        if not loss > 0.0:
            continue
        # Move to the nearest point of zero loss, then project onto A positive semi-definite and b >= 1.
        step = loss / (squared_length * squared_length + 1.0 + relaxation)
        if not similar[t]:
            add_square(matrix, step, z, left, right)
        elif squared_length > 0.0:
            subtract_square(matrix, step, z, direction, left, right)
        before = threshold[0]
        threshold[0] = max(1.0, before + sign * step)
        used[t] = squared_length > 0.0 or threshold[0] != before
    return LEARNED
