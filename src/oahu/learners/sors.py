"""SORS and AdaSORS: Sparse Online Relative Similarity (Yao et al., 2015)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.io.model_files import storable
from oahu.jit import kernel
from oahu.learners.matrix_kernels import largest, overflow_limit, relative_loss, unit_items
from oahu.learners.matrix_learners import BilinearLearner
from oahu.learners.state import LEARNED, Arrays
from oahu.parameters import check_real
from oahu.randomness import RandomState

__all__ = ["SORS", "AdaSORS"]

Floats = NDArray[np.floating]


@storable
class SORS(BilinearLearner):
    """Sparse Online Relative Similarity (SORS) learns a nearly diagonal bilinear similarity from triplets.

    The similarity is ``S(x, q) = x^T M q``. The loss of a triplet (x, p, n) is ``[1 - x^T M (p - n)]_+``. Its
    gradient is G. Learning from a triplet replaces the matrix M_t by

        argmin over M of  <G, M> + ||M - M_t||^2 / (2 eta) + lambda ||M||_1,

    where ||M||_1 is the sum of the absolute entries off the diagonal. The solution is a gradient step of size eta,
    after which every entry off the diagonal shrinks towards 0 by eta lambda. M starts as the identity. Learning
    from a triplet takes O(d^2) time. The model takes O(d^2) memory.

    Parameters
    ----------
    learning_rate : float, default=0.01
        eta: the step size.
    sparsity : float, default=0.01
        lambda: the strength of the shrinkage. With 0, SORS is OASIS with a constant step size.
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
    matrix_ : ndarray of shape (d, d)
        A copy of M.
    n_seen_, utilization_
        Number of triplets learned, and the share of these triplets with a positive loss. Entries off the diagonal
        shrink with every triplet, even if its loss is 0.

    See Also
    --------
    AdaSORS : SORS with a separate step size for each matrix entry.

    Notes
    -----
    The metric has scores but no distances, so `transform` raises `NoDistanceError`.

    References
    ----------
    D. Yao et al.: Sparse Online Relative Similarity Learning. ICDM, 2015. arXiv:2104.07501.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import SORS
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = SORS(random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.pair_score([X[[0, 1]], X[[0, 70]]]).shape
    (10000, (2,))
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        *,
        sparsity: float = 0.01,
        normalize: bool = True,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.sparsity = sparsity
        self.normalize = normalize
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def matrix_(self) -> Floats:
        return self._fitted_state().arrays["matrix"].copy()

    def check_parameters(self) -> None:
        check_real(self, "learning_rate", self.learning_rate, 0.0, np.inf)
        check_real(self, "sparsity", self.sparsity, 0.0, np.inf, closed="left")
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {"matrix": np.eye(n_features, dtype=dtype)}

    def learn_triplets(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_]) -> int:
        normalize, rate, sparsity = bool(self.normalize), float(self.learning_rate), float(self.sparsity)
        return int(_learn(triplets, normalize, arrays["matrix"], rate, sparsity, used))


@storable
class AdaSORS(SORS):
    """Adaptive Sparse Online Relative Similarity (AdaSORS): SORS with a separate step size for each matrix entry.

    The step size of entry (i, j) is ``eta / (delta + H_ij)``, for both the gradient step and the shrinkage. H_ij is
    the square root of the sum of all squared gradients of the entry so far. Learning from a triplet takes O(d^2)
    time. The model takes twice the memory of SORS.

    Parameters
    ----------
    learning_rate : float, default=0.001
        eta: the step size.
    sparsity : float, default=1e-4
        lambda: the strength of the shrinkage.
    delta : float, default=0.01
        A constant that limits the first steps of an entry. It should be smaller than the gradients.
    normalize, n_constraints, preprocessor, dtype, random_state
        The same as for `SORS`.

    Attributes
    ----------
    matrix_ : ndarray of shape (d, d)
        A copy of M.
    n_seen_, utilization_
        Number of triplets learned, and the share of these triplets with a positive loss. Entries off the diagonal
        shrink with every triplet, even if its loss is 0.

    References
    ----------
    D. Yao et al.: Sparse Online Relative Similarity Learning. ICDM, 2015. arXiv:2104.07501.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import AdaSORS
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = AdaSORS(random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.pair_score([X[[0, 1]], X[[0, 70]]]).shape
    (10000, (2,))
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        *,
        sparsity: float = 1e-4,
        delta: float = 0.01,
        normalize: bool = True,
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            learning_rate,
            sparsity=sparsity,
            normalize=normalize,
            n_constraints=n_constraints,
            preprocessor=preprocessor,
            dtype=dtype,
            random_state=random_state,
        )
        self.delta = delta

    def check_parameters(self) -> None:
        check_real(self, "delta", self.delta, 0.0, np.inf)
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return super().initial_arrays(n_features, dtype, rng) | {
            "squares": np.zeros((n_features, n_features), dtype)
        }

    def learn_triplets(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_]) -> int:
        rate, sparsity, delta = float(self.learning_rate), float(self.sparsity), float(self.delta)
        return int(
            _learn_adaptive(
                triplets, bool(self.normalize), arrays["matrix"], arrays["squares"], rate, sparsity, delta, used
            )
        )


@kernel("SORS's update step")
def _learn(
    triplets: Floats, normalize: bool, matrix: Floats, rate: float, sparsity: float, used: NDArray[np.bool_]
) -> int:
    items = unit_items(triplets) if normalize else triplets
    d = matrix.shape[0]
    dtype = matrix.dtype
    difference, product = np.empty(d, dtype), np.empty(d, dtype)
    limit = overflow_limit(matrix)
    shrink, zero = dtype.type(rate * sparsity), dtype.type(0)
    for t in range(items.shape[0]):
        anchor = items[t, 0]
        loss = relative_loss(items[t], matrix, difference, product)
        size = largest(anchor) * largest(difference)
        if not (rate * max(size, 1.0) < limit and abs(loss) < limit * limit):  # true for NaN too
            return t
        used[t] = loss > 0.0 and size > 0.0
        if loss <= 0.0 and sparsity == 0.0:
            continue
        step = dtype.type(rate if loss > 0.0 else 0.0)
        for i in range(d):
            row, scale = matrix[i], step * anchor[i]
            diagonal = row[i] + scale * difference[i]  # the diagonal does not shrink
            for j in range(d):
                moved = row[j] + scale * difference[j]
                row[j] = max(moved - shrink, zero) + min(moved + shrink, zero)
            row[i] = diagonal
    return LEARNED


@kernel("SORS's update step")
def _learn_adaptive(
    triplets: Floats,
    normalize: bool,
    matrix: Floats,
    squares: Floats,
    rate: float,
    sparsity: float,
    delta: float,
    used: NDArray[np.bool_],
) -> int:
    items = unit_items(triplets) if normalize else triplets
    d = matrix.shape[0]
    dtype = matrix.dtype
    difference, product = np.empty(d, dtype), np.empty(d, dtype)
    limit = overflow_limit(matrix)
    eta, lam, least, zero = (
        dtype.type(rate),
        dtype.type(sparsity),
        dtype.type(max(delta, float(np.finfo(dtype).tiny))),
        dtype.type(0),
    )
    for t in range(items.shape[0]):
        anchor = items[t, 0]
        loss = relative_loss(items[t], matrix, difference, product)
        size = largest(anchor) * largest(difference)
        largest_rate = max(rate, rate / max(delta, float(np.finfo(dtype).tiny)) * sparsity)
        if not (size * size < limit and largest_rate * max(size, 1.0) < limit and abs(loss) < limit * limit):
            return t
        used[t] = loss > 0.0 and size > 0.0
        if loss <= 0.0 and sparsity == 0.0:
            continue
        active = dtype.type(1.0 if loss > 0.0 else 0.0)
        for i in range(d):
            row, sums, scale = matrix[i], squares[i], active * anchor[i]
            diagonal_gradient = scale * difference[i]
            diagonal = (
                row[i]
                + eta / (least + np.sqrt(sums[i] + diagonal_gradient * diagonal_gradient)) * diagonal_gradient
            )
            for j in range(d):
                gradient = scale * difference[j]
                sums[j] += gradient * gradient
                step = eta / (least + np.sqrt(sums[j]))
                moved = row[j] + step * gradient
                row[j] = max(moved - step * lam, zero) + min(moved + step * lam, zero)
            row[i] = diagonal
    return LEARNED
