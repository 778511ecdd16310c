"""OPML and COPML: One-Pass Metric Learning (Li, Gao, Wang, Zhou, Huo and Shi, 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.constraints.one_pass import RULES, OnePass, Rule
from oahu.io.model_files import Content, storable
from oahu.jit import compilable, kernel
from oahu.learners.kinds import TripletLearner
from oahu.learners.matrix_kernels import add_outer, dot, largest, overflow_limit, project, project_two
from oahu.learners.state import LEARNED, Arrays, LearnerState
from oahu.messages import shorten
from oahu.metrics.linear_metrics import MahalanobisMetric
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["OPML"]

Floats = NDArray[np.floating]

_BLOCK: Final = 1024  # labelled items learned at a time


@dataclass
class _State(LearnerState):
    """A learner's state that also stores the latest item of each class of a labelled stream."""

    stream: OnePass = field(default_factory=lambda: OnePass("author", np.empty((0, 0))))

    def copy(self) -> Self:
        return replace(super().copy(), stream=self.stream.copy(), lock=Lock())


@storable
class OPML(TripletLearner[MahalanobisMetric]):
    """One-Pass Metric Learning (OPML) learns a Mahalanobis metric from a labelled stream, or from triplets.

    The distance is ``D(x, x') = ||L (x - x')||``. The loss of a triplet (x, p, n) is ``[1 + ||L a||^2 - ||L
    b||^2]_+`` with a = x - p and b = x - n. If the loss is positive, L is replaced by ``L (I + gamma (a a^T - b
    b^T))^-1``, in closed form. ``partial_fit(X, y)`` accepts labelled items in the order of arrival. The learner
    stores the latest item of every class, and forms one triplet from each new item and two stored items.

    Learning from a triplet takes O(d^2) time. The model takes O(d^2 + n_classes * d) memory.

    Parameters
    ----------
    gamma : float, default=1e-3
        The step size. The step is defined only if ``gamma ||x - n||^2 < 1``. For items of unit length, gamma must
        be below 1/4.
    construction : {"author", "latest"}, default="author"
        The rule that chooses the negative if an item has the same class as the previous item. If the classes
        differ, the previous item is the negative. "author" takes the latest item of the newest class, as in the
        authors' code. The newest class is the class whose first item came last. "latest" takes the latest item of
        another class.
    copml : bool, default=False
        Whether to learn from similar pairs as long as a labelled stream has only one class. This variant is called
        COPML.
    exact_hinge : bool, default=False
        Whether to shorten a step so that the loss after the step is 0. The closed form ignores that the loss cannot
        be negative. Without shortening, steps are therefore often too large.
    too_long : {"raise", "skip"}, default="raise"
        The reaction to a triplet with ``gamma ||x - n||^2`` of 1 or more. "raise" raises `RejectedConstraintError`.
        "skip" counts the triplet without learning from it.
    n_constraints : int, default=10000
        Number of triplets that ``score(X, y)`` draws from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The feature table for constraints that are given as row numbers. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        The floating-point type of the computations.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seed of the drawing of triplets for ``score(X, y)``. Learning is not random.

    Attributes
    ----------
    factor_ : ndarray of shape (d, d)
        A copy of L.
    n_seen_, utilization_
        Number of triplets (and COPML pairs) learned, and the share of these constraints with a positive loss.

    References
    ----------
    W. Li, Y. Gao, L. Wang, L. Zhou, J. Huo, Y. Shi: OPML: A One-Pass Closed-Form Solution for Online Metric
    Learning. Pattern Recognition 75, 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oahu import OPML
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(150)
    >>> learner = OPML().partial_fit(X[order[:100]], y[order[:100]]).partial_fit(X[order[100:]], y[order[100:]])
    >>> learner.n_seen_, learner.score(X, y) > 0.9
    (147, True)
    """

    rejects_overflow = True

    def __init__(
        self,
        gamma: float = 1e-3,
        *,
        construction: Rule = "author",
        copml: bool = False,
        exact_hinge: bool = False,
        too_long: Literal["raise", "skip"] = "raise",
        n_constraints: int = 10_000,
        preprocessor: ArrayLike | None = None,
        dtype: str = "float32",
        random_state: RandomState = None,
    ) -> None:
        self.gamma = gamma
        self.construction = construction
        self.copml = copml
        self.exact_hinge = exact_hinge
        self.too_long = too_long
        self.n_constraints = n_constraints
        self.preprocessor = preprocessor
        self.dtype = dtype
        self.random_state = random_state

    @property
    def factor_(self) -> Floats:
        return self._fitted_state().arrays["factor"].copy()

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue learning from triplets or from labelled items, in order.

        The model is the same, bit for bit, for every way to split a stream into calls.

        Parameters
        ----------
        X : array-like
            Without ``y``: triplets of shape (n, 3, n_features), or row numbers of the feature table of shape (n,
            3). With ``y``: items of shape (n_items, n_features).
        y : array-like of shape (n_items,), optional
            The class of each item.
        """
        if y is None or self._are_constraints(X):
            return super().partial_fit(X, y)
        with self._all_or_nothing():
            self.check_parameters()
            known = self._known_features
            items, labels = self._validate_labelled(X, y, reset=known is None)
            state = self._initial_state(items.shape[1]) if known is None else self._state.copy()
            self._learn_labelled(state, items, labels)
            self._commit(state)
        return self

    def check_parameters(self) -> None:
        check_real(self, "gamma", self.gamma, 0.0, np.inf)
        check_choice(self, "construction", self.construction, RULES)
        check_choice(self, "copml", self.copml, (False, True))
        check_choice(self, "exact_hinge", self.exact_hinge, (False, True))
        check_choice(self, "too_long", self.too_long, ("raise", "skip"))
        super().check_parameters()

    def initial_arrays(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Arrays:
        return {"factor": np.eye(n_features, dtype=dtype)}

    def _initial_state(self, n_features: int) -> LearnerState:
        plain = super()._initial_state(n_features)
        stream = OnePass(self.construction, np.empty((0, n_features), plain.dtype))
        return _State(plain.arrays, plain.dtype, n_features, plain.rng, stream=stream)

    def _learn_labelled(self, state: Any, items: NDArray[Any], labels: NDArray[Any]) -> None:
        state.stream.rule = self.construction
        for start in range(0, len(items), _BLOCK):
            block = items[start : start + _BLOCK].astype(state.dtype, copy=False)
            pairs, triplets = state.stream.add(block, labels[start : start + _BLOCK].tolist(), start)
            if pairs is not None and self.copml:
                for first, values in pairs.blocks(state.dtype):
                    used = np.zeros(len(values), np.bool_)
                    rejected = int(_learn_similar(values, state.arrays["factor"], float(self.gamma), used))
                    self._finish_block(state, pairs, first, np.empty(0, np.bool_), used, rejected)
            if triplets is not None:
                self._learn(state, triplets)

    def learn_triplets(self, arrays: Arrays, triplets: Floats, used: NDArray[np.bool_]) -> int:
        skip = self.too_long == "skip"
        return int(_learn(triplets, arrays["factor"], float(self.gamma), self.exact_hinge, skip, used))

    def _can_learn_in_place(self, state: LearnerState) -> bool:
        return True

    def _why_rejected(self, state: LearnerState) -> str:
        return (
            f"gamma ||x - n||^2 must be below 1, and the model's {state.dtype} numbers must not overflow. Reduce "
            f"gamma (now {self.gamma:g}), scale the features, or set too_long='skip' to skip such triplets."
        )

    def build_metric(self, arrays: Arrays, version: int) -> MahalanobisMetric:
        return MahalanobisMetric(arrays["factor"], version)

    def _state_to_content(self, state: Any) -> Content:
        content, stream = super()._state_to_content(state), state.stream
        classes = [[type(label).__name__, label] for label in stream.classes]
        of_stream = {"classes": classes, "recency": stream.recency}
        return Content(content.state | of_stream, content.arrays | {"slots": stream.slots})

    def _state_from_content(self, content: Content) -> _State:
        plain = super()._state_from_content(content)
        named, recency = content.state["classes"], content.state["recency"]
        classes = {label: slot for slot, (_, label) in enumerate(named)}
        if [type(label).__name__ for _, label in named] != [name for name, _ in named] or len(classes) != len(
            named
        ):
            raise ValueError(f"{shorten(named)} is not a list of class labels")
        if sorted(recency) != list(range(len(classes))):
            raise ValueError(f"{shorten(recency)} is not a permutation of {len(classes)} classes")
        slots = content.array("slots", (len(classes), self.n_features_in_), plain.dtype).copy()
        stream = OnePass(self.construction, slots, classes, recency)
        return _State(plain.arrays, plain.dtype, plain.n_features, plain.rng, stream=stream)


def _determinant(gamma: float, aa: float, bb: float, ab: float) -> float:
    """Return det(I + gamma (a a^T - b b^T))."""
    return (1.0 + gamma * aa) * (1.0 - gamma * bb) + gamma * gamma * ab * ab


def _loss_after(gamma: float, aa: float, bb: float, ab: float, la: float, lb: float, lab: float) -> float:
    """Return 1 + ||L' a||^2 - ||L' b||^2, where L' is the matrix L after a step of size gamma.

    aa, bb and ab are the dot products a^T a, b^T b and a^T b. la, lb and lab are the same dot products of L a and L
    b.
    """
    det = _determinant(gamma, aa, bb, ab)
    p, q, r = (1.0 - gamma * bb) / det, gamma * ab / det, (1.0 + gamma * aa) / det
    near = p * p * la + 2.0 * p * q * lab + q * q * lb  # L' a = p La + q Lb
    far = r * r * lb - 2.0 * r * q * lab + q * q * la  # L' b = r Lb - q La
    return 1.0 + near - far


def _exact_step(gamma: float, aa: float, bb: float, ab: float, la: float, lb: float, lab: float) -> float:
    """Return the step size in (0, gamma] after which the loss is 0. Return gamma if no such step size exists."""
    if _loss_after(gamma, aa, bb, ab, la, lb, lab) >= 0.0:
        return gamma
    low, high = 0.0, gamma
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if _loss_after(middle, aa, bb, ab, la, lb, lab) > 0.0:
            low = middle
        else:
            high = middle
    return high


compilable(_determinant, _loss_after, _exact_step)


@kernel("OPML's update step")
def _learn(triplets: Floats, factor: Floats, gamma: float, exact: bool, skip: bool, used: NDArray[np.bool_]) -> int:
    d = factor.shape[0]
    dtype = factor.dtype
    a, b = np.empty(d, dtype), np.empty(d, dtype)
    projected_a, projected_b = np.empty(d, dtype), np.empty(d, dtype)
    limit = overflow_limit(factor)
    for t in range(triplets.shape[0]):
        differ = False  # False if the positive equals the negative: then a a^T - b b^T is 0
        for j in range(d):
            a[j] = triplets[t, 0, j] - triplets[t, 1, j]
            b[j] = triplets[t, 0, j] - triplets[t, 2, j]
            differ |= a[j] != b[j]
        project_two(factor, a, b, projected_a, projected_b)
        la, lb, lab = (
            float(dot(projected_a, projected_a)),
            float(dot(projected_b, projected_b)),
            float(dot(projected_a, projected_b)),
        )
        loss = 1.0 + la - lb
        aa, bb, ab = float(dot(a, a)), float(dot(b, b)), float(dot(a, b))
        if not (la < limit and lb < limit and aa < limit and bb < limit):  # true for NaN too
            return t
        if not loss > 0.0 or not differ:
            used[t] = False
            continue
        if gamma * bb >= 1.0:
            if skip:
                used[t] = False
                continue
            return t
        step = _exact_step(gamma, aa, bb, ab, la, lb, lab) if exact else gamma
        det = _determinant(step, aa, bb, ab)
        p, q, r = (1.0 - step * bb) / det, step * ab / det, (1.0 + step * aa) / det
        # An entry changes by at most the product of the lengths of the vectors.
        if not step * (abs(p) + abs(q) + abs(r)) * math.sqrt((la + lb) * (aa + bb)) < limit:
            return t
        # L' = L - step u a^T + step v b^T with u = L' a and v = L' b.
        for_aa, for_bb, for_ab = dtype.type(-step * p), dtype.type(step * r), dtype.type(-step * q)
        for i in range(d):
            u, v = projected_a[i], projected_b[i]
            projected_a[i] = for_aa * u + for_ab * v
            projected_b[i] = for_bb * v + for_ab * u
        for i in range(d):
            with_a, with_b, row = projected_a[i], projected_b[i], factor[i]
            for j in range(d):
                row[j] += with_a * a[j] + with_b * b[j]
        used[t] = True
    return LEARNED


@kernel("OPML's update step")
def _learn_similar(pairs: Floats, factor: Floats, gamma: float, used: NDArray[np.bool_]) -> int:
    """Learn similar pairs (COPML). For every pair with difference v, replace L by L (I + gamma v v^T)^-1."""
    d = factor.shape[0]
    v, projected = np.empty(d, factor.dtype), np.empty(d, factor.dtype)
    limit = overflow_limit(factor)
    for t in range(pairs.shape[0]):
        for j in range(d):
            v[j] = pairs[t, 0, j] - pairs[t, 1, j]
        project(factor, v, projected)
        squared_length = float(dot(v, v))
        scale = gamma / (1.0 + gamma * squared_length)
        if not (squared_length < limit and scale * largest(projected) * largest(v) < limit):
            return t
        for i in range(d):
            projected[i] = -factor.dtype.type(scale) * projected[i]
        add_outer(factor, projected, v)
        used[t] = squared_length > 0.0
    return LEARNED
