"""SOML: Sparse Online Metric Learning (Gao, Hoi, Zhang, Wan and Li, 2014)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.jit import helper, kernel
from oahu.learners.matrix_kernels import overflow_limit, unit_items
from oahu.learners.matrix_learners import BilinearLearner
from oahu.learners.state import LEARNED, Arrays
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["SOML"]

Floats = NDArray[np.floating]


@storable
class SOML(BilinearLearner):
    """Sparse Online Metric Learning (SOML) learns a sparse vector of feature weights from triplets.

    The similarity is ``S(x, q) = sum_i w_i x_i q_i``. The loss of a triplet (x, p, n) is ``[1 - w^T f]_+`` with f =
    x * (p - n). Learning from a triplet takes O(d) time. The model takes O(d) memory.

    Parameters
    ----------
    method : {"truncated_gradient", "dual_averaging"}, default="truncated_gradient"
        "truncated_gradient" makes a step of size eta along f if the loss is positive. Then every weight shrinks
        towards 0 by eta lambda. "dual_averaging" chooses the w that minimises a sum of three terms: the dot product
        of w with the mean of all gradients so far, an l1 penalty with factor lambda, and an l2 penalty with factor
        gamma / sqrt(t) in round t.
    learning_rate : float, default=0.1
        eta: the step size of "truncated_gradient".
    sparsity : float, default=1e-4
        lambda: the strength of the l1 penalty. If lambda exceeds the largest mean gradient, "dual_averaging" sets
        all weights to 0.
    gamma : float, default=1
        Factor of the l2 penalty of "dual_averaging". As long as every triplet has a positive loss, gamma only
        rescales w.
    normalize : bool, default=True
        Whether to scale items to unit length first. Without scaling, items with larger lengths tend to have larger
        dot products.
    n_constraints : int, default=10000
        Number of triplets that ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the drawing of triplets from labels.

    Attributes
    ----------
    weights_ : ndarray of shape (d,)
        A copy of w. With "truncated_gradient", all weights are initially 1, so that S is the dot product. With
        "dual_averaging", all weights are initially 0.
    n_seen_, utilization_
        Number of triplets learned, and the share of these triplets with a positive loss. All weights shrink with
        every triplet, even if its loss is 0.

    Notes
    -----
    The metric has scores but no distances, so `transform` raises `NoDistanceError`.

    References
    ----------
    X. Gao, S. Hoi, Y. Zhang, J. Wan, J. Li: SOML: Sparse Online Metric Learning with Application to Image
    Retrieval. AAAI, 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import SOML
    >>> X, y = load_iris(return_X_y=True)
    >>> SOML(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        method: Literal["truncated_gradient", "dual_averaging"] = "truncated_gradient",
        *,
        learning_rate: float = 0.1,
        sparsity: float = 1e-4,
        gamma: float = 1.0,
        normalize: bool = True,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.method = method
        self.learning_rate = learning_rate
        self.sparsity = sparsity
        self.gamma = gamma
        self.normalize = normalize
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def weights_(self) -> Floats:
        return self._fitted_state().arrays["matrix"].copy()

    def check_parameters(self) -> None:
        check_choice(self, "method", self.method, ("truncated_gradient", "dual_averaging"))
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_real(self, "sparsity", self.sparsity, 0.0, np.inf, closed="left")
        check_real(self, "gamma", self.gamma, 0.0, np.inf)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        averaging = self.method == "dual_averaging"
        return {
            "matrix": np.full(n_features, 0.0 if averaging else 1.0, dtype),
            "averaging": np.array([averaging], np.int64),  # a model always uses the method of its first call
            "mean_gradient": np.zeros(n_features),
            "rounds": np.zeros(1, np.int64),
        }

    def check_arrays(self, arrays: Arrays) -> None:
        if arrays["averaging"][0] not in (0, 1) or arrays["rounds"][0] < 0:
            raise ValueError("the array 'averaging' must be 0 or 1, and the array 'rounds' must be at least 0")

    def learn_triplets(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_]) -> int:
        normalize, sparsity = bool(self.normalize), float(self.sparsity)
        if arrays["averaging"][0]:
            return int(
                _learn_averaging(
                    triplets, normalize, arrays["matrix"], arrays["mean_gradient"], arrays["rounds"], sparsity,
                    float(self.gamma), used,
                )
            )  # fmt: skip
        rate = float(self.learning_rate)
        return int(_learn_truncating(triplets, normalize, arrays["matrix"], rate, sparsity, used))


@helper
def _gradient(triplet: Floats, out: NDArray[np.float64]) -> float:
    """Write f = x * (p - n) to ``out``. Return the largest absolute value of f, or NaN."""
    largest, total = 0.0, 0.0
    for j in range(out.shape[0]):
        out[j] = float(triplet[0, j]) * (float(triplet[1, j]) - float(triplet[2, j]))
        largest = max(largest, abs(out[j]))
        total += abs(out[j])
    return largest if total == total else total  # a comparison loses NaN, a sum does not


@helper
def _loss(weights: Floats, gradient: NDArray[np.float64]) -> float:
    """Return 1 - w^T f, where ``gradient`` is f."""
    score = 0.0
    for j in range(gradient.shape[0]):
        score += float(weights[j]) * gradient[j]
    return 1.0 - score


@kernel("SOML's update step")
def _learn_truncating(
    triplets: Floats, normalize: bool, weights: Floats, rate: float, sparsity: float, used: NDArray[np.bool_]
) -> int:
    items = unit_items(triplets) if normalize else triplets
    f = np.empty(weights.shape[0])
    limit = overflow_limit(weights)
    shrink = weights.dtype.type(rate * sparsity)
    zero = weights.dtype.type(0)
    for t in range(items.shape[0]):
        size = _gradient(items[t], f)
        loss = _loss(weights, f)
        if not (rate * max(size, 1.0) < limit and abs(loss) < limit * limit):  # true for NaN too
            return t
        step = rate if loss > 0.0 else 0.0
        for j in range(weights.shape[0]):
            moved = weights.dtype.type(weights[j] + step * f[j])
            weights[j] = max(moved - shrink, zero) + min(moved + shrink, zero)
        used[t] = loss > 0.0 and size > 0.0
    return LEARNED


@kernel("SOML's update step")
def _learn_averaging(
    triplets: Floats,
    normalize: bool,
    weights: Floats,
    mean: NDArray[np.float64],
    rounds: NDArray[np.int64],
    sparsity: float,
    gamma: float,
    used: NDArray[np.bool_],
) -> int:
    items = unit_items(triplets) if normalize else triplets
    f = np.empty(weights.shape[0])
    limit = overflow_limit(weights)
    for t in range(items.shape[0]):
        size = _gradient(items[t], f)
        loss = _loss(weights, f)
        n = rounds[0] + 1
        scale = math.sqrt(n) / gamma
        if not (scale * max(size, 1.0) < limit and abs(loss) < limit * limit):  # true for NaN too
            return t
        rounds[0] = n
        for j in range(weights.shape[0]):
            gradient = -f[j] if loss > 0.0 else 0.0
            mean[j] += (gradient - mean[j]) / n
            weights[j] = -scale * (max(mean[j] - sparsity, 0.0) + min(mean[j] + sparsity, 0.0))
        used[t] = loss > 0.0 and size > 0.0
    return LEARNED
