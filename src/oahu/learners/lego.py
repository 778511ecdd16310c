"""LEGO: LogDet Exact Gradient Online metric learning (Jain, Kulis, Dhillon and Grauman, 2008)."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidInputError
from oahu.io.model_files import storable
from oahu.jit import helper, kernel
from oahu.learners.kinds import PairLearner
from oahu.learners.matrix_kernels import dot, largest, overflow_limit, project_transposed, update_then_project
from oahu.learners.state import LEARNED, Arrays, LearnerState
from oahu.messages import shorten
from oahu.metrics.linear_metrics import MahalanobisMetric
from oahu.parameters import check_real
from oahu.randomness import RandomState

__all__ = ["LEGO"]

Floats = NDArray[np.floating]

_N_DISTANCES: Final = 1000  # number of first pairs; the targets are percentiles of their distances


@storable
class LEGO(PairLearner[MahalanobisMetric]):
    """LogDet Exact Gradient Online (LEGO) learns a Mahalanobis metric from pairs.

    A pair (x, x') changes the matrix A of the metric if the pair is similar with a distance above u, or dissimilar
    with a distance below l. The new matrix is

        argmin over A > 0 of  D_ld(A, A_t) + eta / 2 (z^T A z - target)^2,   z = x - x',

    where the target is u for a similar pair and l for a dissimilar pair. A_t is the old matrix, and D_ld is the
    LogDet divergence. The closed-form solution keeps A positive definite for every eta. A is stored as L^T L, so
    that rounding cannot make A indefinite. All distances are squared distances. Learning from a pair takes O(d^2)
    time. The model takes O(d^2) memory.

    Parameters
    ----------
    learning_rate : float, default=0.1
        eta: the step size.
    bounds : None or (u, l), default=None
        The targets for squared distances: at most u for similar pairs, at least l for dissimilar pairs. With None,
        the targets are percentiles of the squared Euclidean distances of the stream's first pairs (at most 1,000).
    percentiles : (float, float), default=(5, 95)
        The two percentiles that give u and l if ``bounds`` is None. The default values are those of ITML.
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
    factor_ : ndarray of shape (d, d)
        A copy of L.
    matrix_ : ndarray of shape (d, d)
        A = L^T L.
    bounds_ : (float, float)
        The current u and l. Both are NaN before the first pair.
    n_seen_, utilization_, utilization_similar_, utilization_dissimilar_
        Number of pairs learned, and the share that changed the model: of all pairs, of similar pairs and of
        dissimilar pairs.

    Notes
    -----
    The paper's regret bound uses an adaptive step size. In this class, the step size is constant. The targets adapt
    to the scale of the features, but eta does not. Scale the features, for example to [0, 1].

    References
    ----------
    P. Jain, B. Kulis, I. Dhillon, K. Grauman: Online Metric Learning and Fast Similarity Search. NIPS, 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import LEGO
    >>> X, y = load_iris(return_X_y=True)
    >>> LEGO(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    rejects_overflow = True

    def __init__(
        self,
        learning_rate: float = 0.1,
        *,
        bounds: tuple[float, float] | None = None,
        percentiles: tuple[float, float] = (5, 95),
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.bounds = bounds
        self.percentiles = percentiles
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def factor_(self) -> Floats:
        return self._fitted_state().arrays["factor"].copy()

    @property
    def matrix_(self) -> Floats:
        factor = self._fitted_state().arrays["factor"]
        return np.asarray(factor.T @ factor)

    @property
    def bounds_(self) -> tuple[float, float]:
        arrays = self._fitted_state().arrays
        if self.bounds is not None:
            return float(self.bounds[0]), float(self.bounds[1])
        distances = arrays["distances"][: int(arrays["n_distances"][0])]
        if not len(distances):
            return math.nan, math.nan
        low, high = np.percentile(distances, self.percentiles)
        return float(low), float(high)

    def check_parameters(self) -> None:
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        if self.bounds is not None:
            _check_two(self, "bounds", self.bounds, np.inf)
        _check_two(self, "percentiles", self.percentiles, 100.0)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {
            "factor": np.eye(n_features, dtype=dtype),
            "distances": np.zeros(_N_DISTANCES),
            "n_distances": np.zeros(1, np.int64),
        }

    def learn_pairs(
        self, arrays: Arrays, pairs: Floats, similar: NDArray[np.bool_], used: NDArray[np.bool_]
    ) -> int:
        bounds = (math.nan, math.nan) if self.bounds is None else self.bounds
        return int(
            _learn(
                pairs, similar, arrays["factor"], arrays["distances"], arrays["n_distances"],
                float(self.learning_rate), float(bounds[0]), float(bounds[1]),
                float(self.percentiles[0]), float(self.percentiles[1]), used,
            )
        )  # fmt: skip

    def check_arrays(self, arrays: Arrays) -> None:
        n, distances = int(arrays["n_distances"][0]), arrays["distances"]
        if not 0 <= n <= len(distances) or (np.diff(distances[:n]) < 0).any() or distances.min() < 0:
            raise ValueError(f"the first {n} of {len(distances)} distances are not sorted numbers of at least 0")

    def build_metric(self, arrays: Arrays, version: int) -> MahalanobisMetric:
        return MahalanobisMetric(arrays["factor"], version)

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        return True


def _check_two(owner: object, name: str, value: Any, high: float) -> None:
    """Raise `InvalidInputError` unless ``value`` is two ascending numbers in [0, high]."""
    try:
        first, second = value
    except (TypeError, ValueError):
        first = second = None
    numbers = [isinstance(entry, float | int | np.floating | np.integer) for entry in (first, second)]
    if not all(numbers) or not 0 <= first <= second <= min(high, sys.float_info.max):
        raise InvalidInputError(
            f"The {name!r} parameter of {type(owner).__name__} must be two ascending numbers in [0, {high:g}"
            f"{')' if high == math.inf else ']'}. Got {shorten(value)} instead."
        )


@kernel("LEGO's update step")
def _learn(
    pairs: Floats,
    similar: NDArray[np.bool_],
    factor: Floats,
    distances: NDArray[np.float64],
    n_distances: NDArray[np.int64],
    rate: float,
    upper: float,
    lower: float,
    low_percentile: float,
    high_percentile: float,
    used: NDArray[np.bool_],
) -> int:
    d = factor.shape[0]
    dtype = factor.dtype
    z, product, gradient = np.empty(d, dtype), np.empty(d, dtype), np.zeros(d, dtype)
    pending = np.full(d, -dtype.type(0))  # adding -0 * 0 to a number changes none of its bits
    limit = overflow_limit(factor)
    from_stream = math.isnan(upper)
    position = -1
    for t in range(pairs.shape[0] + 1):
        for j in range(d):
            z[j] = pairs[t, 0, j] - pairs[t, 1, j] if t < pairs.shape[0] else dtype.type(0)
        # One pass applies the update of the previous pair and projects this pair. The last pass only updates.
        update_then_project(factor, pending, gradient, z, product)
        pending[:], gradient[:] = -dtype.type(0), 0
        if t == pairs.shape[0]:
            break
        squared_length, squared_distance = (
            float(dot(z, z)),
            float(dot(product, product)),
        )  # ||z||^2 and z^T A z = ||L z||^2
        if not (squared_distance < limit and squared_length < limit):  # true for NaN too
            return t
        if from_stream:
            position = _insert(distances, n_distances, squared_length)
            upper = _percentile(distances, n_distances[0], low_percentile)
            lower = _percentile(distances, n_distances[0], high_percentile)
        target = upper if similar[t] else lower
        wrong = squared_distance > target if similar[t] else squared_distance < target
        if not wrong or not squared_distance > 0.0:
            used[t] = False
            continue
        # The squared distance after the step is the positive root of eta y'^2 + beta y'/y_hat - 1 = 0 in y'.
        beta = 1.0 - rate * target * squared_distance
        root = math.sqrt(beta * beta + 4.0 * rate * squared_distance * squared_distance)
        after = (
            2.0 * squared_distance / (beta + root)
            if beta >= 0.0
            else (root - beta) / (2.0 * rate * squared_distance)
        )
        # A' = L^T (I - c u u^T) L with u = L z and c = (y_hat - y') / y_hat^2; the root of the middle is
        # I - (1 - sqrt(y' / y_hat)) / y_hat u u^T.
        scale = (after - squared_distance) / (
            squared_distance * (math.sqrt(after * squared_distance) + squared_distance)
        )
        project_transposed(factor, product, gradient)
        if not abs(scale) * largest(product) * largest(gradient) < limit:  # true for NaN too
            if from_stream:
                _remove(distances, n_distances, position)
            return t
        for i in range(d):
            pending[i] = dtype.type(scale) * product[i]
        used[t] = scale != 0.0
    return LEARNED


@helper
def _insert(distances: NDArray[np.float64], n: NDArray[np.int64], value: float) -> int:
    """Insert ``value`` into the sorted distances and return its position. If the array is full, return -1."""
    if n[0] == distances.shape[0]:
        return -1
    at = np.searchsorted(distances[: n[0]], value)
    for i in range(n[0], at, -1):
        distances[i] = distances[i - 1]
    distances[at] = value
    n[0] += 1
    return int(at)


@helper
def _remove(distances: NDArray[np.float64], n: NDArray[np.int64], at: int) -> None:
    """Remove the distance at position ``at``, which `_insert` returned."""
    if at >= 0:
        n[0] -= 1
        for i in range(at, n[0]):
            distances[i] = distances[i + 1]
        distances[n[0]] = 0.0


@helper
def _percentile(distances: NDArray[np.float64], n: int, percentile: float) -> float:
    """Return a percentile of sorted values, with linear interpolation as in numpy."""
    position = (n - 1) * percentile / 100.0
    below = int(position)
    above = min(below + 1, n - 1)
    low, high = float(distances[below]), float(distances[above])
    return low + (position - below) * (high - low)
