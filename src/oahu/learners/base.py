"""The one contract: what every learner offers, and the part of it that is the same for all.

A learner is a scikit-learn estimator whose heart is `partial_fit`. A call is learned whole or not at all: a new
state is built beside the old one and takes its place when the last constraint has been checked and learned. A
`metric` that another thread asks for meanwhile is the old state's.
"""

from __future__ import annotations

import copy
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from oahu.arrays import check_items
from oahu.constraints import Tuples, sample_triplets
from oahu.exceptions import InvalidInputError, InvalidTypeError, NotFittedError, OverflowedItemError
from oahu.learners.parameters import check_integer
from oahu.metrics import files
from oahu.randomness import RandomState, as_generator, own_generator, rewinder

__all__ = ["State", "TripletLearner"]


class State(Protocol):
    """Everything a learner has learned, and nothing it was told."""

    n_seen: int
    n_used: int
    rng: np.random.Generator

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def copy(self) -> Self: ...


S = TypeVar("S", bound=State)


class TripletLearner(TransformerMixin, BaseEstimator, ABC, Generic[S]):  # type: ignore[misc]
    """Base of the learners of triplets.

    A subclass says how a state begins (`_begin`), how triplets change it (`_learn`) and what metric it stands
    for (`_metric`); its parameters include those declared here.
    """

    random_state: RandomState
    preprocessor: ArrayLike | None
    n_constraints: int
    dtype: str

    # -- what a subclass provides ------------------------------------------------------------------------

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise `InvalidInputError` for a parameter out of range."""

    @abstractmethod
    def _begin(self, n_features: int, rng: np.random.Generator) -> S:
        """A state that has seen nothing."""

    @abstractmethod
    def _learn(self, state: S, triplets: Tuples) -> None:
        """Change ``state`` by every triplet in order; `InvalidInputError` for one that is not finite."""

    @abstractmethod
    def _metric(self, state: S) -> Any:
        """The metric of a state, sharing its memory."""

    @abstractmethod
    def _encoded(self, metric: Any, items: NDArray[Any]) -> NDArray[np.floating]:
        """What the metric's ``transform`` makes of items that were checked."""

    @abstractmethod
    def metric(self) -> Any:
        """The metric as it is now, frozen."""

    # -- learning ----------------------------------------------------------------------------------------

    def partial_fit(self, triplets: ArrayLike, y: None = None) -> Self:
        """Learn from triplets, in order, on top of what was learned before.

        n triplets in one call, in several, or one by one give the same model, bit for bit.

        Parameters
        ----------
        triplets : array-like of shape (n, 3, n_features), or (n, 3) with ``preprocessor``
            Anchor, positive and negative: their values, or their rows in the preprocessor's table.
        y : None
            Triplets carry their own answer.
        """
        if y is not None:
            raise InvalidInputError(
                "partial_fit learns from triplets, which carry their own answer: y must be None. "
                "fit(X, y) draws triplets from labels."
            )
        with self._all_or_nothing():
            self._check_parameters()
            checked = self._tuples(triplets, 3, self._known_features)
            known = self._known_features is not None
            self._learn_into(self._state.copy() if known else self._begin_anew(checked.n_features), checked)
        return self

    def learn_one(self, anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike) -> Self:
        """Learn from one triplet: three vectors, or three rows of the preprocessor's table."""
        try:
            triplet = np.array([[anchor, positive, negative]])
        except ValueError as error:
            try:
                got = "shapes " + ", ".join(str(np.shape(item)) for item in (anchor, positive, negative))
            except ValueError:
                got = "a ragged item"
            raise InvalidInputError(
                "Anchor, positive and negative must be three vectors of as many features, or three rows of "
                f"preprocessor. Got {got} instead."
            ) from error
        return self.partial_fit(triplet)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Forget everything, then learn from triplets, or from labelled items.

        Parameters
        ----------
        X : array-like
            Without ``y``, triplets as for `partial_fit`. With ``y``, items of shape (n_items, n_features).
        y : array-like of shape (n_items,), optional
            Labels: ``n_constraints`` triplets are drawn from them and learned.
        """
        with self._all_or_nothing():
            self._check_parameters()
            if y is None:
                checked = self._tuples(X, 3)
                state = self._begin_anew(checked.n_features)
                self.__dict__.pop("feature_names_in_", None)
            else:
                items, labels = self._labelled(X, y, reset=True)
                state = self._begin_anew(items.shape[1])
                checked = self._drawn(items, labels, state.rng)
            self._learn_into(state, checked)
        return self

    def initialize(self, n_features: int) -> Self:
        """Forget everything and stand at the start: a metric that has learned nothing yet."""
        with self._all_or_nothing():
            self._check_parameters()
            check_integer(self, "n_features", n_features, least=1)
            self._state = self._begin_anew(int(n_features))
            self.n_features_in_ = int(n_features)
            self.__dict__.pop("feature_names_in_", None)
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the learner, and a generator it was given, as they were if anything goes wrong inside."""
        before, put_back = self.__dict__.copy(), rewinder(self.random_state)
        try:
            yield
        except BaseException:  # an interrupt too
            self.__dict__.update(before)
            for name in self.__dict__.keys() - before.keys():
                del self.__dict__[name]
            put_back()
            raise

    def _begin_anew(self, n_features: int) -> S:
        return self._begin(n_features, own_generator(self.random_state))

    def _learn_into(self, state: S, triplets: Tuples) -> None:
        self._learn(state, triplets)
        state.n_seen += len(triplets)
        self._state = state
        self.n_features_in_ = triplets.n_features

    # -- using -------------------------------------------------------------------------------------------

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """One vector per item whose Euclidean distances are the metric's."""
        metric = self._metric(self._require_fitted())
        return self._encoded(metric, self._items(X))

    def pair_distance(self, pairs: ArrayLike) -> NDArray[np.float64]:
        """The distance within each pair: values (n, 2, n_features), or (n, 2) rows of the preprocessor."""
        self._require_fitted()
        distances: NDArray[np.float64] = self._distances(self._tuples(pairs, 2, self.n_features_in_))[0]
        return distances

    def pair_score(self, pairs: ArrayLike) -> NDArray[np.float64]:
        """How alike each pair is: the negative of `pair_distance`. Higher is more alike."""
        return -self.pair_distance(pairs)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Triplet accuracy: the share of triplets whose positive is nearer to the anchor than the negative.

        Takes what `fit` takes: triplets, or items with labels from which ``n_constraints`` triplets are drawn. To
        cross-validate on labels, let every fold have several classes (StratifiedKFold, or shuffled).
        """
        self._require_fitted()
        if y is None:
            checked = self._tuples(X, 3, self.n_features_in_)
        else:
            rng = as_generator(copy.deepcopy(self.random_state))  # scoring is not drawing from the caller's
            checked = self._drawn(*self._labelled(X, y, reset=False), rng)
        positive, negative = self._distances(checked)
        return float(np.mean(positive < negative))

    def _distances(self, tuples: Tuples) -> NDArray[np.float64]:
        """Distances of each tuple's first item to its others, (t - 1, n), block by block."""
        state = self._state
        metric = self._metric(state)
        distances = np.empty((tuples.size - 1, len(tuples)))
        for start, block in tuples.blocks(state.dtype):
            m = len(block)
            tuples.check_finite(start, block)
            try:
                vectors = self._encoded(metric, block.reshape(m * tuples.size, -1)).reshape(m, tuples.size, -1)
            except OverflowedItemError as error:
                item = tuples.place(int(tuples.indices[start:].flat[error.row]))
                raise OverflowedItemError(error.about(item), tuples.size * start + error.row) from error
            apart = (vectors[:, :1] - vectors[:, 1:]).astype(np.float64)
            distances[:, start : start + m] = np.sqrt(np.square(apart).sum(axis=2)).T
        return distances

    # -- checking what comes in --------------------------------------------------------------------------

    @property
    def _known_features(self) -> int | None:
        return self.n_features_in_ if self.__sklearn_is_fitted__() else None

    @property
    def _dtype(self) -> np.dtype[Any]:
        """What the model computes in, or will."""
        return self._state.dtype if self.__sklearn_is_fitted__() else np.dtype(self.dtype)

    def _tuples(self, data: ArrayLike, size: int, n_features: int | None = None) -> Tuples:
        """Constraints, with ``n_features`` if it is given. That they are finite is seen when they are walked."""
        name = type(self).__name__
        return Tuples.check(data, size=size, preprocessor=self.preprocessor, n_features=n_features, owner=name)

    def _items(self, X: ArrayLike) -> NDArray[Any]:
        """Items, checked to be finite and to have the features that are known."""
        items: NDArray[Any] = self._validated(X, reset=False)
        return items

    def _labelled(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Items and their classes, checked; ``reset`` takes the features as the ones to know from now on."""
        items, labels = self._validated(X, y, reset=reset)
        try:
            check_classification_targets(labels)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        return items, labels

    def _validated(self, *arrays: ArrayLike, reset: bool) -> Any:
        """scikit-learn's checks with oahu's errors, which say where."""
        own = np.dtype(self.dtype) if reset else self._dtype
        options = {"dtype": [own, np.float64, np.float32], "ensure_all_finite": False, "reset": reset}
        try:
            checked = validate_data(self, *arrays, **options)
        except TypeError as error:
            raise InvalidTypeError(str(error)) from error
        except (ValueError, OverflowError) as error:
            raise InvalidInputError(str(error)) from error
        check_items(checked if len(arrays) == 1 else checked[0], own)
        return checked

    def _drawn(self, items: NDArray[Any], labels: NDArray[Any], rng: np.random.Generator) -> Tuples:
        indices = sample_triplets(labels, self.n_constraints, rng)
        return Tuples.check(indices, size=3, preprocessor=items)

    # -- what was seen -----------------------------------------------------------------------------------

    @property
    def n_seen_(self) -> int:
        """How many constraints were learned."""
        return self._require_fitted().n_seen

    @property
    def utilization_(self) -> float:
        """The share of the constraints seen that had a gradient; NaN before the first."""
        state = self._require_fitted()
        return state.n_used / state.n_seen if state.n_seen else math.nan

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # a model computes in a type of its own
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _require_fitted(self) -> S:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: it has not seen a constraint. "
                "Call fit, partial_fit or learn_one first (or initialize, to use it unlearned)."
            )
        return self._state

    # -- keeping -----------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a file; `oahu.load` goes on from there as if it had never stopped.

        The preprocessor's table is not written: set it again with ``set_params(preprocessor=...)``. A
        ``random_state`` that is not an int comes back as None.
        """
        self._require_fitted()
        self._check_parameters()
        files.save(self, path)

    def __sklearn_clone__(self) -> Self:
        """scikit-learn's `clone`, but the preprocessor's table is shared: it may be larger than memory."""
        parameters = self.get_params(deep=False)
        table = parameters.pop("preprocessor")
        return type(self)(**copy.deepcopy(parameters), preprocessor=table)

    _state: S
