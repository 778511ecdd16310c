"""OPML and COPML: One-Pass Metric Learning (Li, Gao, Wang, Zhou, Huo and Shi, 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.constraints.one_pass import RULES, OnePass, Rule
from oahu.io.model_files import Content, storable
from oahu.jit import compilable, kernel
from oahu.learners.array_state import LEARNED, ArrayLearner, Arrays, ArrayState
from oahu.learners.kinds import TripletLearner, WithDistances
from oahu.learners.matrix import add_outer, dot, largest, limit, project, project_two
from oahu.messages import shorten
from oahu.metrics.linear import MahalanobisMetric
from oahu.parameters import check_choice, check_real
from oahu.randomness import RandomState

__all__ = ["OPML"]

Floats = NDArray[np.floating]

_ITEMS: Final = 1024  # labelled items taken at a time


@dataclass
class _State(ArrayState):
    """What a labelled stream has left in memory belongs to the state."""

    stream: OnePass = field(default_factory=lambda: OnePass("author", np.empty((0, 0))))

    def copy(self) -> _State:
        arrays = {name: array.copy() for name, array in self.arrays.items()}
        return replace(self, arrays=arrays, stream=self.stream.copy(), made=None)


@storable
class OPML(WithDistances, TripletLearner[ArrayState], ArrayLearner):
    """One-Pass Metric Learning (OPML) learns a Mahalanobis metric from a labelled stream, or from triplets.

    ``D(x, x') = ||L (x - x')||``. A triplet with a loss ``[1 + ||L a||^2 - ||L b||^2]_+``, a = x - p and b = x - n,
    moves L to ``L (I + gamma (a a^T - b b^T))^-1``, in closed form. ``partial_fit(X, y)`` takes labelled items as
    they arrive and makes one triplet of each with what it remembers: one item of every class.

    A triplet costs O(d^2) time; the model takes as much memory, and O(classes * d).

    Parameters
    ----------
    gamma : float, default=1e-3
        The step. It has a minimiser only while ``gamma ||x - n||^2 < 1``: with items of unit length below 1/4.
    construction : {"author", "latest"}, default="author"
        Which negative an item gets that is of the same class as the one before it: the last item of the class that
        was created last, as in the authors' code; or the last item that was of another class.
    copml : bool, default=False
        COPML: while a labelled stream has shown one class only, learn from the similar pairs that it gives.
    exact_hinge : bool, default=False
        The closed form minimises without the kink of the loss, and often steps past it. True takes the minimiser of
        the stated problem: the shorter step that ends at a loss of 0.
    too_long : {"raise", "skip"}, default="raise"
        What to do with a triplet whose ``gamma ||x - n||^2`` is 1 or more: refuse the call, or see it and not
        use it.
    n_constraints : int, default=10000
        How many triplets ``score(X, y)`` draws from labels.
    preprocessor : array-like of shape (n_items, n_features), default=None
        The table that constraints of indices point into. An array or a memory map is never copied.
    dtype : {"float32", "float64"}, default="float32"
        What the model computes in.
    random_state : None, int, numpy Generator or RandomState, default=None
        Seeds the drawing of triplets from labels for ``score(X, y)``. Learning is not random.

    Attributes
    ----------
    factor_ : ndarray of shape (d, d)
        L, a copy.
    n_seen_, utilization_
        How many triplets (and pairs of COPML) were learned, and the share of them that had a loss.

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
        return self._require_fitted().arrays["factor"].copy()

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from triplets, or from labelled items, in order, on top of what was learned before.

        In one call, in several, or one by one give the same model, bit for bit.

        Parameters
        ----------
        X : array-like
            Without ``y``, triplets: (n, 3, n_features), or (n, 3) rows of the preprocessor's table. With ``y``,
            items (n_items, n_features).
        y : array-like of shape (n_items,), optional
            The items' classes.
        """
        if y is None or self._are_constraints(X):
            return super().partial_fit(X, y)
        with self._all_or_nothing():
            self._check_parameters()
            known = self._known_features
            items, labels = self._labelled(X, y, reset=known is None)
            state = self._begin_anew(items.shape[1]) if known is None else self._state.copy()
            self._learn_labelled(state, items, labels)
        return self

    def _check_parameters(self) -> None:
        check_real(self, "gamma", self.gamma, 0.0, np.inf)
        check_choice(self, "construction", self.construction, RULES)
        check_choice(self, "copml", self.copml, (False, True))
        check_choice(self, "exact_hinge", self.exact_hinge, (False, True))
        check_choice(self, "too_long", self.too_long, ("raise", "skip"))
        super()._check_parameters()

    def _start(self, n_features: int, dtype: np.dtype[Any]) -> Arrays:
        return {"factor": np.eye(n_features, dtype=dtype)}

    def _begin(self, n_features: int, rng: np.random.Generator) -> _State:
        dtype = np.dtype(self.dtype)
        stream = OnePass(self.construction, np.empty((0, n_features), dtype))
        return _State(self._start(n_features, dtype), dtype, n_features, rng, stream=stream)

    def _learn_labelled(self, state: Any, items: NDArray[Any], labels: NDArray[Any]) -> None:
        state.stream.rule = self.construction
        for start in range(0, len(items), _ITEMS):
            block = items[start : start + _ITEMS].astype(state.dtype, copy=False)
            pairs, triplets = state.stream.add(block, labels[start : start + _ITEMS].tolist(), start)
            if pairs is not None and self.copml:
                for first, values in pairs.blocks(state.dtype):
                    used = np.zeros(len(values), np.bool_)
                    refused = _learn_similar(values, state.arrays["factor"], float(self.gamma), used)
                    self._count(state, pairs, first, (), used, refused)
                state.n_seen += len(pairs)
            if triplets is not None:
                self._learn(state, triplets)
                state.n_seen += len(triplets)
        self._state = state
        self.n_features_in_ = items.shape[1]

    def _step(self, arrays: Arrays, block: Floats, same: Any, used: Any) -> int:
        skip = self.too_long == "skip"
        return int(_learn(block, arrays["factor"], float(self.gamma), self.exact_hinge, skip, used))

    def _why_refused(self, state: ArrayState) -> str:
        return (
            f"gamma ||x - n||^2 must be below 1 for the step to have a minimiser, and the model's {state.dtype} "
            f"numbers must not overflow. gamma is {self.gamma:g}: lower it, or scale the features (or let "
            "too_long='skip' leave such triplets out)."
        )

    def _made(self, state: ArrayState) -> MahalanobisMetric:
        return MahalanobisMetric(state.arrays["factor"], state.n_seen)

    def _state_to_content(self, state: Any) -> Content:
        kept, stream = super()._state_to_content(state), state.stream
        classes = [[type(label).__name__, label] for label in stream.classes]
        told = {"classes": classes, "recency": stream.recency}
        return Content(kept.state | told, kept.arrays | {"slots": stream.slots})

    def _state_from_content(self, content: Content) -> _State:
        plain = super()._state_from_content(content)
        kept, recency = content.state["classes"], content.state["recency"]
        classes = {label: slot for slot, (_, label) in enumerate(kept)}
        if [type(label).__name__ for _, label in kept] != [name for name, _ in kept] or len(classes) != len(kept):
            raise ValueError(f"{shorten(kept)} are not classes")
        if sorted(recency) != list(range(len(classes))):
            raise ValueError(f"{shorten(recency)} is not an order of {len(classes)} classes")
        slots = content.array("slots", (len(classes), self.n_features_in_), plain.dtype).copy()
        stream = OnePass(self.construction, slots, classes, recency)
        return _State(plain.arrays, plain.dtype, plain.n_features, plain.rng, stream=stream)


def _determinant(gamma: float, aa: float, bb: float, ab: float) -> float:
    """det(I + gamma (a a^T - b b^T))."""
    return (1.0 + gamma * aa) * (1.0 - gamma * bb) + gamma * gamma * ab * ab


def _loss_after(gamma: float, aa: float, bb: float, ab: float, la: float, lb: float, lab: float) -> float:
    """1 + ||L' a||^2 - ||L' b||^2 after a step of gamma, from the products of a and b, and of La and Lb."""
    det = _determinant(gamma, aa, bb, ab)
    p, q, r = (1.0 - gamma * bb) / det, gamma * ab / det, (1.0 + gamma * aa) / det
    near = p * p * la + 2.0 * p * q * lab + q * q * lb  # L' a = p La + q Lb
    far = r * r * lb - 2.0 * r * q * lab + q * q * la  # L' b = r Lb - q La
    return 1.0 + near - far


def _exact_step(gamma: float, aa: float, bb: float, ab: float, la: float, lb: float, lab: float) -> float:
    """The step in (0, gamma] that ends at a loss of 0, or gamma if the loss stays above."""
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


@kernel
def _learn(triplets: Floats, factor: Floats, gamma: float, exact: bool, skip: bool, used: NDArray[np.bool_]) -> int:
    d = factor.shape[0]
    dtype = factor.dtype
    a, b = np.empty(d, dtype), np.empty(d, dtype)
    along_a, along_b = np.empty(d, dtype), np.empty(d, dtype)
    most = limit(factor)
    for t in range(triplets.shape[0]):
        differ = False  # if positive and negative are one, a a^T - b b^T is 0
        for j in range(d):
            a[j] = triplets[t, 0, j] - triplets[t, 1, j]
            b[j] = triplets[t, 0, j] - triplets[t, 2, j]
            differ |= a[j] != b[j]
        project_two(factor, a, b, along_a, along_b)
        la, lb, lab = float(dot(along_a, along_a)), float(dot(along_b, along_b)), float(dot(along_a, along_b))
        loss = 1.0 + la - lb
        aa, bb, ab = float(dot(a, a)), float(dot(b, b)), float(dot(a, b))
        if not (la < most and lb < most and aa < most and bb < most):  # also when one is NaN
            return t
        if not loss > 0.0 or not differ:
            continue
        if gamma * bb >= 1.0:
            if skip:
                continue
            return t
        step = _exact_step(gamma, aa, bb, ab, la, lb, lab) if exact else gamma
        det = _determinant(step, aa, bb, ab)
        p, q, r = (1.0 - step * bb) / det, step * ab / det, (1.0 + step * aa) / det
        # No entry moves by more than the lengths of the vectors that it is made of.
        if not step * (abs(p) + abs(q) + abs(r)) * math.sqrt((la + lb) * (aa + bb)) < most:
            return t
        # L' = L - step u a^T + step v b^T with u = L' a and v = L' b.
        for_aa, for_bb, for_ab = dtype.type(-step * p), dtype.type(step * r), dtype.type(-step * q)
        for i in range(d):
            u, v = along_a[i], along_b[i]
            along_a[i] = for_aa * u + for_ab * v
            along_b[i] = for_bb * v + for_ab * u
        for i in range(d):
            with_a, with_b, row = along_a[i], along_b[i], factor[i]
            for j in range(d):
                row[j] += with_a * a[j] + with_b * b[j]
        used[t] = True
    return LEARNED


@kernel
def _learn_similar(pairs: Floats, factor: Floats, gamma: float, used: NDArray[np.bool_]) -> int:
    """COPML: L (I + gamma v v^T)^-1 for every similar pair, v the difference of its items."""
    d = factor.shape[0]
    v, along = np.empty(d, factor.dtype), np.empty(d, factor.dtype)
    most = limit(factor)
    for t in range(pairs.shape[0]):
        for j in range(d):
            v[j] = pairs[t, 0, j] - pairs[t, 1, j]
        project(factor, v, along)
        squared = float(dot(v, v))
        scale = gamma / (1.0 + gamma * squared)
        if not (squared < most and scale * largest(along) * largest(v) < most):
            return t
        for i in range(d):
            along[i] = -factor.dtype.type(scale) * along[i]
        add_outer(factor, along, v)
        used[t] = squared > 0.0
    return LEARNED
