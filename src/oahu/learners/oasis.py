"""OASIS: Online Algorithm for Scalable Image Similarity (Chechik, Sharma, Shalit and Bengio, 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.constraints import Tuples
from oahu.io.model_files import storable
from oahu.jit import helper, kernel
from oahu.learners.matrix_kernels import add_outer, dot, largest, overflow_limit, relative_loss, unit_items
from oahu.learners.matrix_learners import BilinearLearner
from oahu.learners.state import LEARNED, Arrays, LearnerState
from oahu.metrics.linear_metrics import unit_rows
from oahu.parameters import check_real
from oahu.randomness import RandomState

__all__ = ["OASIS"]

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]


@storable
class OASIS(BilinearLearner):
    """The Online Algorithm for Scalable Image Similarity (OASIS) learns a bilinear similarity from triplets.

    The similarity is ``S(x, q) = x^T W q``. The loss of a triplet (x, p, n) is ``[1 - S(x, p) + S(x, n)]_+``. If
    the loss is positive, the passive-aggressive step ``tau x (p - n)^T`` is added to W, with ``tau = min(C, loss /
    (||x||^2 ||p - n||^2))``. W starts as the identity. W need not be symmetric or positive semi-definite.

    Learning from a triplet takes O(d^2) time. With sparse items, the time is proportional to the number of
    non-zeros of x times the number of non-zeros of p - n. The model takes O(d^2) memory.

    Parameters
    ----------
    aggressiveness : float, default=0.1
        C: the largest step size. Use a smaller value if there are few triplets.
    normalize : bool, default=True
        Whether to scale items to unit length first. Without scaling, items with larger lengths tend to have larger
        dot products. If the lengths of items differ, the initial W = I without scaling ranks items much worse than
        Euclidean distance.
    n_constraints : int, default=10000
        Number of triplets that ``fit(X, y)`` and ``score(X, y)`` draw from labels.
    preprocessor : array-like or scipy.sparse matrix of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the drawing of triplets from labels.

    Attributes
    ----------
    matrix_ : ndarray of shape (d, d)
        A copy of W.
    n_seen_, utilization_
        Number of triplets learned, and the share of these triplets with a positive loss.

    Notes
    -----
    The metric has scores but no distances, so `transform` raises `NoDistanceError`. The authors' code can also make
    W symmetric or positive semi-definite during training. In this class, ``metric().nearest_distance()`` returns a
    metric with a positive semi-definite matrix after training.

    References
    ----------
    G. Chechik, V. Sharma, U. Shalit, S. Bengio: Large Scale Online Learning of Image Similarity Through Ranking.
    Journal of Machine Learning Research 11, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import OASIS
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = OASIS(random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.pair_score([X[[0, 1]], X[[0, 70]]]).shape
    (10000, (2,))
    """

    accepts_sparse = True

    def __init__(
        self,
        aggressiveness: float = 0.1,
        *,
        normalize: bool = True,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.aggressiveness = aggressiveness
        self.normalize = normalize
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def matrix_(self) -> Floats:
        return self._fitted_state().arrays["matrix"].copy()

    def check_parameters(self) -> None:
        check_real(self, "aggressiveness", self.aggressiveness, 0.0, np.inf)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {"matrix": np.eye(n_features, dtype=dtype)}

    def _learn(self, state: LearnerState, constraints: Tuples) -> None:
        if not constraints.is_sparse:
            super()._learn(state, constraints)
            return
        matrix, aggressiveness = state.arrays["matrix"], float(self.aggressiveness)
        for start, rows in constraints.sparse_blocks(state.dtype):
            constraints.check_finite(start, rows)
            scaled = unit_rows(rows) if self.normalize else rows
            used = np.zeros(rows.shape[0] // 3, np.bool_)
            rejected = int(_learn_sparse(scaled.indptr, scaled.indices, scaled.data, matrix, aggressiveness, used))
            self._finish_block(state, constraints, start, np.empty(0, np.bool_), used, rejected)

    def learn_triplets(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_]) -> int:
        normalize, aggressiveness = bool(self.normalize), float(self.aggressiveness)
        return int(_learn(triplets, normalize, arrays["matrix"], aggressiveness, used))


@kernel("OASIS's update step")
def _learn(
    triplets: Floats, normalize: bool, matrix: Floats, aggressiveness: float, used: NDArray[np.bool_]
) -> int:
    items = unit_items(triplets) if normalize else triplets
    d = matrix.shape[0]
    difference, product, scaled = np.empty(d, matrix.dtype), np.empty(d, matrix.dtype), np.empty(d, matrix.dtype)
    limit = overflow_limit(matrix)
    for t in range(items.shape[0]):
        anchor = items[t, 0]
        loss = relative_loss(items[t], matrix, difference, product)
        gradient_square = float(dot(anchor, anchor)) * float(dot(difference, difference))  # ||x (p - n)^T||^2
        if not (abs(loss) < limit and gradient_square < limit * limit):  # true for NaN too
            return t
        if not (loss > 0.0 and gradient_square > 0.0):
            used[t] = False
            continue
        step = min(aggressiveness, loss / gradient_square)
        if not step * largest(anchor) * largest(difference) < limit:
            return t
        for j in range(d):
            scaled[j] = matrix.dtype.type(step) * anchor[j]
        add_outer(matrix, scaled, difference)
        used[t] = True
    return LEARNED


@kernel("OASIS's update step")
def _learn_sparse(
    starts: Integers,
    columns: Integers,
    values: Floats,
    matrix: Floats,
    aggressiveness: float,
    used: NDArray[np.bool_],
) -> int:
    """Learn triplets as `_learn` does, but from CSR rows in the order anchor, positive, negative, anchor, ..."""
    d = matrix.shape[0]
    difference = np.zeros(d, matrix.dtype)
    changed = np.empty(d, np.int64)
    limit = overflow_limit(matrix)
    for t in range(used.shape[0]):
        n_changed = 0
        for k in range(starts[3 * t + 1], starts[3 * t + 2]):
            difference[columns[k]] = values[k]
            changed[n_changed] = columns[k]
            n_changed += 1
        n_positive = n_changed
        for k in range(starts[3 * t + 2], starts[3 * t + 3]):
            if not _is_among(changed[:n_positive], columns[k]):
                changed[n_changed] = columns[k]
                n_changed += 1
            difference[columns[k]] -= values[k]
        score, anchor_squared, largest_anchor = 0.0, 0.0, 0.0
        for i in range(starts[3 * t], starts[3 * t + 1]):
            row = matrix[columns[i]]
            total = 0.0
            for c in range(n_changed):
                total += float(row[changed[c]]) * float(difference[changed[c]])
            score += float(values[i]) * total
            anchor_squared += float(values[i]) * float(values[i])
            largest_anchor = max(largest_anchor, abs(float(values[i])))
        gradient_square, largest_difference = 0.0, 0.0
        for c in range(n_changed):
            size = float(difference[changed[c]])
            gradient_square += size * size
            largest_difference = max(largest_difference, abs(size))
        gradient_square *= anchor_squared
        loss = 1.0 - score
        if not (abs(loss) < limit and gradient_square < limit * limit):  # true for NaN too
            return t
        if loss > 0.0 and gradient_square > 0.0:
            step = min(aggressiveness, loss / gradient_square)
            if not step * largest_anchor * largest_difference < limit:
                return t
            for i in range(starts[3 * t], starts[3 * t + 1]):
                row = matrix[columns[i]]
                scale = matrix.dtype.type(step) * values[i]
                for c in range(n_changed):
                    row[changed[c]] += scale * difference[changed[c]]
            used[t] = True
        else:
            used[t] = False
        for c in range(n_changed):
            difference[changed[c]] = 0
    return LEARNED


@helper
def _is_among(ordered: Integers, column: int) -> bool:
    at = np.searchsorted(ordered, column)
    return bool(at < ordered.shape[0] and ordered[at] == column)
