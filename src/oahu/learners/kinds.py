"""Base classes of triplet learners and pair learners, and a mixin for learners with scores but no distances."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import (
    Clicks,
    Pairs,
    Triplets,
    Tuples,
    are_constraint_objects,
    sample_pairs,
    sample_triplets,
)
from oahu.exceptions import InvalidInputError, NoDistanceError
from oahu.learners.base import Learner, M, fraction, shape_of
from oahu.learners.state import Arrays

__all__ = ["ClickLearner", "PairLearner", "ScoresOnlyMixin", "TripletLearner"]

_SIMILAR: Final = np.array([True])
_DISSIMILAR: Final = np.array([False])


class TripletLearner(Learner[M]):
    """Base class of learners that learn from triplets. docs/guides/own-learner.md has an example."""

    @abstractmethod
    def learn_triplets(self, arrays: Arrays, triplets: NDArray[Any], used: NDArray[np.bool_]) -> int | None:
        """Learn a block of triplets in order. The method changes ``arrays`` in place.

        The result must not depend on how a stream is split into blocks.

        Parameters
        ----------
        arrays : dict of ndarray
            The arrays from `initial_arrays`, including the changes from all earlier blocks.
        triplets : ndarray of shape (m, 3, n_features)
            The anchor, positive and negative of each triplet: finite numbers of the model's dtype. Do not change
            this array.
        used : ndarray of bool, of shape (m,)
            All entries are False at first. If a triplet changes the model, set its entry to True.

        Returns
        -------
        int or None
            None if the block was learned, or the row number of a rejected triplet. After a rejection, the arrays
            are discarded.
        """

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue learning from triplets, in order.

        The model is the same, bit for bit, for every way to split a stream into calls.

        Parameters
        ----------
        X : Triplets or Clicks, or array-like of shape (n, 3, n_features), or (n, 3) with ``preprocessor``
            The anchor, positive and negative of each triplet, as features or as row numbers of the feature table. A
            list of Click, Triplet and Pair objects is also accepted. Clicks are learned as their triplets
            (`Clicks.triplets`). Clicks with only positives or only negatives, and Pair objects, are not used.
        y : None
            Must be None, because triplets and clicks have their own labels.
        """
        return super().partial_fit(X, y)

    def _learn_block(
        self,
        arrays: Arrays,
        block: NDArray[Any],
        similar: NDArray[np.bool_],
        used: NDArray[np.bool_],
        in_place: bool = False,
    ) -> int | None:
        return self.learn_triplets(arrays, block, used)

    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Triplets:
        name = type(self).__name__
        if isinstance(data, Clicks) or are_constraint_objects(data):
            clicks = self._clicks(data, y, n_features)
            if not clicks.two_sided.any():
                raise InvalidInputError(
                    f"Nothing is left to learn for {name}: this learner needs clicks with at least one positive "
                    f"and one negative. Got {len(clicks)} clicks or pairs with only positives or only negatives."
                )
            return clicks.triplets()
        if isinstance(data, Pairs) or (y is not None and _looks_like_pairs(data)):
            raise InvalidInputError(
                f"{name} learns from triplets. Got pairs instead. Convert them with Pairs(...).triplets(), which "
                "joins a similar and a dissimilar pair that share an item, or use a learner of pairs."
            )
        if y is not None:
            raise InvalidInputError(
                f"{name} learns from triplets, which have no labels: y must be None. To learn from labels, pass "
                "items of shape (n_items, n_features) to fit."
            )
        return self._tuples(Triplets, data, n_features=n_features)

    def _sample(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Triplets:
        return self._from_rows(Triplets, sample_triplets(labels, self.n_constraints, rng), items)


class PairLearner(Learner[M]):
    """Base class of learners that learn from pairs. A pair learner learns a triplet as two pairs."""

    uses_one_sided_clicks: ClassVar[bool] = True

    @abstractmethod
    def learn_pairs(
        self, arrays: Arrays, pairs: NDArray[Any], similar: NDArray[np.bool_], used: NDArray[np.bool_]
    ) -> int | None:
        """Learn a block of pairs in order. The method changes ``arrays`` in place.

        The result must not depend on how a stream is split into blocks.

        Parameters
        ----------
        arrays : dict of ndarray
            The arrays from `initial_arrays`, including the changes from all earlier blocks.
        pairs : ndarray of shape (m, 2, n_features)
            The two items of each pair: finite numbers of the model's dtype. Do not change this array.
        similar : ndarray of bool, of shape (m,)
            True for similar pairs, False for dissimilar pairs.
        used : ndarray of bool, of shape (m,)
            All entries are False at first. If a pair changes the model, set its entry to True.

        Returns
        -------
        int or None
            None if the block was learned, or the row number of a rejected pair. After a rejection, the arrays are
            discarded.
        """

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue learning from pairs, in order.

        The model is the same, bit for bit, for every way to split a stream into calls. A triplet is learned as two
        pairs: first the similar pair, then the dissimilar pair. A triplet therefore counts as two constraints. A
        click is learned as its pairs (`Clicks.pairs`).

        Parameters
        ----------
        X : Pairs, Triplets or Clicks, or array-like
            Pairs of shape (n, 2, n_features), or triplets of shape (n, 3, n_features). Arrays of shape (n, 2) and
            (n, 3) contain row numbers of the feature table. A list of Click, Triplet and Pair objects is also
            accepted.
        y : array-like of shape (n,), only for pairs
            +1 or True for a similar pair, -1 or False for a dissimilar pair.
        """
        return super().partial_fit(X, y)

    def _learn_block(
        self,
        arrays: Arrays,
        block: NDArray[Any],
        similar: NDArray[np.bool_],
        used: NDArray[np.bool_],
        in_place: bool = False,
    ) -> int | None:
        return self.learn_pairs(arrays, block, similar, used)

    def _label_of_one(self, n_items: int, y: Any) -> NDArray[np.bool_] | None:
        if n_items != 2 or not isinstance(y, int | np.integer | np.bool_) or y not in (1, -1, True, False):
            return None
        return _SIMILAR if y == 1 else _DISSIMILAR if y == -1 or isinstance(y, bool | np.bool_) else None

    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Pairs:
        if isinstance(data, Clicks) or are_constraint_objects(data):
            return self._clicks(data, y, n_features).pairs()
        if isinstance(data, Tuples) and y is not None:
            raise InvalidInputError(f"{type(data).__name__} have their own labels: y must be None.")
        if isinstance(data, Pairs):
            return self._tuples(Pairs, data, n_features=n_features)
        if y is not None:
            return self._tuples(Pairs, data, y, n_features=n_features)
        if not isinstance(data, Tuples) and _looks_like_pairs(data):
            raise InvalidInputError(
                f"Pairs need y: +1 for each similar pair, -1 for each dissimilar pair. {type(self).__name__} "
                "accepts triplets without y."
            )
        return self._tuples(Triplets, data, n_features=n_features).pairs()

    def _sample(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Pairs:
        indices, y = sample_pairs(labels, self.n_constraints, rng)
        return self._from_rows(Pairs, indices, items, y)

    @property
    def utilization_similar_(self) -> float:
        """Share of the learned similar pairs that changed the model. It is NaN before the first similar pair."""
        self._check_fitted()
        return fraction(self._state.n_similar_used, self._state.n_similar)

    @property
    def utilization_dissimilar_(self) -> float:
        """Share of the learned dissimilar pairs that changed the model.

        It is NaN before the first dissimilar pair.
        """
        self._check_fitted()
        state = self._state
        return fraction(state.n_used - state.n_similar_used, state.n_seen - state.n_similar)


class ClickLearner(Learner[M]):
    """Base class of learners that learn from clicks. A triplet or pair is learned as a click."""

    uses_one_sided_clicks: ClassVar[bool] = True

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue learning from clicks, triplets and pairs, in order.

        The model is the same, bit for bit, for every way to split a stream into calls.

        Parameters
        ----------
        X : Clicks, Triplets or Pairs, or array-like
            A list of Click, Triplet and Pair objects, in any mixture. Or triplets of shape (n, 3, n_features), or
            pairs of shape (n, 2, n_features). Arrays of shape (n, 3) and (n, 2) contain row numbers of the feature
            table.
        y : array-like of shape (n,), only for pairs
            +1 or True for a similar pair, -1 or False for a dissimilar pair.
        """
        return super().partial_fit(X, y)

    def _constraints(self, data: Any, y: Any, n_features: int | None) -> Clicks:
        if isinstance(data, Clicks) or are_constraint_objects(data):
            return self._clicks(data, y, n_features)
        if isinstance(data, Tuples) and y is not None:
            raise InvalidInputError(f"{type(data).__name__} have their own labels: y must be None.")
        if isinstance(data, Pairs) or y is not None:
            labels = () if isinstance(data, Pairs) else (y,)
            return Clicks.from_pairs(self._tuples(Pairs, data, *labels, n_features=n_features))
        if not isinstance(data, Tuples) and _looks_like_pairs(data):
            raise InvalidInputError(
                f"Pairs need y: +1 for each similar pair, -1 for each dissimilar pair. {type(self).__name__} "
                "accepts triplets without y."
            )
        return Clicks.from_triplets(self._tuples(Triplets, data, n_features=n_features))

    def _sample(self, items: Any, labels: NDArray[Any], rng: np.random.Generator) -> Clicks:
        triplets = self._from_rows(Triplets, sample_triplets(labels, self.n_constraints, rng), items)
        return Clicks.from_triplets(triplets)

    def _learn_block(self, *arguments: Any, **options: Any) -> int | None:
        raise NotImplementedError


class ScoresOnlyMixin:
    """Mixin for learners of a bilinear similarity, which has scores but no distances.

    In the base classes of a learner, list this mixin before `TripletLearner` or `PairLearner`.
    """

    @property
    def transform(self) -> NoReturn:
        """Raise `NoDistanceError`, because a bilinear similarity has no distances."""
        self._no_distance("vectors")

    @property
    def fit_transform(self) -> NoReturn:
        """Raise `NoDistanceError`, because a bilinear similarity has no distances."""
        self._no_distance("vectors")

    @property
    def set_output(self) -> NoReturn:
        """Raise `NoDistanceError`, because a bilinear similarity has no distances."""
        self._no_distance("vectors")

    @property
    def pair_distance(self) -> NoReturn:
        """Raise `NoDistanceError`, because a bilinear similarity has no distances."""
        self._no_distance("distances")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags = None
        return tags

    def _no_distance(self, what: str) -> NoReturn:
        raise NoDistanceError(
            f"{type(self).__name__} learns a bilinear similarity, which has no {what}. Use pair_score, or the "
            "nearest metric with distances: metric().nearest_distance()."
        )


def _looks_like_pairs(data: Any) -> bool:
    shape = shape_of(data)
    return len(shape) in (2, 3) and shape[1] == 2
