"""What learners differ in: what they learn from, and what comes out. A learner takes one of each.

`TripletLearner` or `PairLearner`; `WithDistances` or `ScoresOnly`.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin

from oahu.constraints import Pairs, Triplets, Tuples, sample_pairs, sample_triplets
from oahu.exceptions import InvalidInputError, NoDistanceError
from oahu.learners.base import Learner, S, State, shape_of, share

__all__ = ["PairLearner", "ScoresOnly", "TripletLearner", "WithDistances"]

# -- what a learner learns from ------------------------------------------------------------------------------


class TripletLearner(Learner[S]):
    """Base of the learners of triplets."""

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from triplets, in order, on top of what was learned before.

        n triplets in one call, in several, or one by one give the same model, bit for bit.

        Parameters
        ----------
        X : Triplets, or array-like of shape (n, 3, n_features), or (n, 3) with ``preprocessor``
            Anchor, positive and negative: their values, or their rows in the preprocessor's table.
        y : None
            Triplets carry their own answer.
        """
        return super().partial_fit(X, y)

    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Triplets:
        name = type(self).__name__
        if isinstance(data, Pairs) or (y is not None and _looks_like_pairs(data)):
            raise InvalidInputError(
                f"{name} learns from triplets. Got pairs instead: their triplets() joins a similar and a "
                "dissimilar pair that share an item; or take a learner of pairs."
            )
        if y is not None:
            raise InvalidInputError(
                f"{name} learns from triplets, which carry their own answer: y must be None. "
                "fit takes labels with items of shape (n_items, n_features)."
            )
        return self._tuples(Triplets, data, n_features=n_features)

    def _drawn(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Triplets:
        return self._over(Triplets, sample_triplets(labels, self.n_constraints, rng), items)


class PairState(State, Protocol):
    """The state of a learner of pairs also counts the similar ones."""

    n_similar: int
    n_similar_used: int


P = TypeVar("P", bound=PairState)


class PairLearner(Learner[P]):
    """Base of the learners of pairs. They take triplets as two pairs each."""

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from pairs, in order, on top of what was learned before.

        n pairs in one call, in several, or one by one give the same model, bit for bit. A triplet is learned as its
        similar pair and then its dissimilar one, and counts as two.

        Parameters
        ----------
        X : Pairs or Triplets, or array-like
            Pairs (n, 2, n_features), or (n, 2) rows of the preprocessor's table; or triplets (n, 3, n_features),
            or (n, 3).
        y : array-like of shape (n,), for pairs
            +1 or True where a pair is alike, -1 or False where it is not.
        """
        return super().partial_fit(X, y)

    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Pairs:
        if isinstance(data, Tuples) and y is not None:
            raise InvalidInputError(f"{type(data).__name__} say themselves what is alike: y must be None.")
        if isinstance(data, Pairs):
            return self._tuples(Pairs, data, n_features=n_features)
        if y is not None:
            return self._tuples(Pairs, data, y, n_features=n_features)
        if not isinstance(data, Tuples) and _looks_like_pairs(data):
            raise InvalidInputError(
                f"Pairs need y: +1 for each pair that is alike, -1 for each that is not. "
                f"{type(self).__name__} takes triplets without."
            )
        return self._tuples(Triplets, data, n_features=n_features).pairs()

    def _drawn(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Pairs:
        indices, y = sample_pairs(labels, self.n_constraints, rng)
        return self._over(Pairs, indices, items, y)

    @property
    def utilization_similar_(self) -> float:
        """The share of the similar pairs seen that changed the model; NaN before the first."""
        state = self._require_fitted()
        return share(state.n_similar_used, state.n_similar)

    @property
    def utilization_dissimilar_(self) -> float:
        """The share of the dissimilar pairs seen that changed the model; NaN before the first."""
        state = self._require_fitted()
        return share(state.n_used - state.n_similar_used, state.n_seen - state.n_similar)


# -- what comes out of a learner -----------------------------------------------------------------------------


class WithDistances(TransformerMixin):  # type: ignore[misc]
    """For learners whose metric has distances and vectors."""

    def transform(self: Any, X: ArrayLike) -> NDArray[np.floating]:
        """One vector per item whose Euclidean distances are the metric's."""
        metric = self._metric(self._require_fitted())
        vectors: NDArray[np.floating] = metric.transform_checked(self._items(X))
        return vectors

    def pair_distance(self: Any, pairs: Any) -> NDArray[np.float64]:
        """The distance within each pair: values (n, 2, n_features), or (n, 2) rows of the preprocessor."""
        scores: NDArray[np.float64] = self.pair_score(pairs)
        return -scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # a model computes in a type of its own
        return tags


class ScoresOnly:
    """For learners whose metric is bilinear: they have scores, and say so when asked for more."""

    @property
    def transform(self) -> NoReturn:
        """There are no vectors: `NoDistanceError`."""
        self._no_distance("vectors")

    @property
    def pair_distance(self) -> NoReturn:
        """There are no distances: `NoDistanceError`."""
        self._no_distance("distances")

    def _no_distance(self, what: str) -> NoReturn:
        raise NoDistanceError(
            f"{type(self).__name__} learns a bilinear similarity, which has no {what}. Use pair_score, or "
            "metric().nearest_distance(), the nearest metric that has them."
        )


def _looks_like_pairs(data: Any) -> bool:
    shape = shape_of(data)
    return len(shape) in (2, 3) and shape[1] == 2
