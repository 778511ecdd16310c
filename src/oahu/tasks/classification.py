"""The Classifier: classification of items by their nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d, validate_data

from oahu.exceptions import InvalidInputError, InvalidTypeError, NotFittedError
from oahu.metrics import EuclideanMetric, Metric
from oahu.parameters import check_choice, check_integer, check_real
from oahu.tasks.indexed_items import (
    VOTE_MODES,
    IndexedItems,
    SpaceNeighbours,
    VoteMode,
    as_metric,
    neighbour_scores,
    offset_error_rows,
    similarity_of,
)

__all__ = ["ClassVotes", "Classifier"]

_BLOCK = 4096  # queries classified at a time


class ClassVotes(NamedTuple):
    """The votes of the nearest neighbours of n items.

    Attributes
    ----------
    shares : ndarray of shape (n, n_classes)
        The share of the votes for each class.
    familiarity : ndarray of shape (n,)
        The similarity of each item to the nearest labelled item. See `Classifier.familiarity`.
    neighbours : SpaceNeighbours
        The k nearest labelled items in every space, as arrays of shape (n_spaces, n, k).
    """

    shares: NDArray[np.float64]
    familiarity: NDArray[np.float64]
    neighbours: SpaceNeighbours


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify items by their k nearest neighbours, with any metric.

    Each of the k nearest items votes for its class with the score ``exp(-(D - d_min) / (d_max - d_min)) alpha``
    (Section 3.6 of the paper). D is the distance of the item, and alpha is the weight of the space. The distance of
    the nearest item is d_min, so that this item scores alpha. The distance of the k-th nearest item is d_max, so
    that this item scores alpha / e. The predicted class has the highest sum of scores.

    ``vote="joint"`` searches the joint vectors for the k nearest items, with alpha = 1. ``vote="experts"`` is the
    paper's rule: it finds the k nearest items in each of the L + 1 spaces of an ensemble and adds the scores over
    all spaces.

    If several classes have the same sum, the first of these classes in ``classes_`` is predicted. If several items
    have the same distance, an item that was added earlier counts as nearer. If all k distances are equal (d_max =
    d_min), each item scores alpha. If there are fewer than k items, all items vote.

    Parameters
    ----------
    metric : Metric, optional
        Any metric, for example ``learner.metric()`` or a metric loaded from a file. The default is the Euclidean
        distance. If you change ``metric`` or ``vote``, call `fit` again.
    k : int, default=5
        Number of nearest neighbours in each space.
    vote : {"joint", "experts"}, default="joint"
        "joint" searches the joint vectors. "experts" lets each space of the metric vote. For a metric with one
        space, both modes give the same result.
    unknown_below : float, optional
        Items with a lower `familiarity` than this value get the label ``unknown``. By default, no item gets this
        label.
    unknown : str or int, default="unknown"
        The label for items that are too far from all labelled items.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The distinct labels, sorted. `partial_fit` may add labels.
    n_items_ : int
        The number of labelled items.
    n_features_in_ : int
        The number of features of an item.

    Examples
    --------
    >>> from oahu import Classifier, EuclideanMetric
    >>> shapes = Classifier(EuclideanMetric(1), k=2).fit([[0.0], [1.0], [9.0]], ["low", "low", "high"])
    >>> shapes.predict([[0.4], [8.0]]).tolist()
    ['low', 'high']
    >>> shapes.partial_fit([[20.0]], ["huge"]).predict([[19.0]]).tolist()
    ['huge']
    """

    def __init__(
        self,
        metric: Metric | None = None,
        k: int = 5,
        vote: VoteMode = "joint",
        unknown_below: float | None = None,
        unknown: str | int = "unknown",
    ) -> None:
        self.metric = metric
        self.k = k
        self.vote = vote
        self.unknown_below = unknown_below
        self.unknown = unknown

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Store labelled items. The new items replace all earlier items."""
        with _rolled_back_on_error(self):
            self._check_parameters()
            items, labels = self._validate_labelled(X, y, reset=True)
            self._indexed = self._index(items)
            self.classes_, self._codes = np.unique(labels, return_inverse=True)
            self.n_items_ = len(labels)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Add labelled items. New labels are added to ``classes_``.

        The labels in ``classes`` are also added to ``classes_``, even if no item in ``y`` has one of these labels.
        """
        with _rolled_back_on_error(self):
            self._check_parameters()
            fitted = hasattr(self, "_indexed")
            items, labels = self._validate_labelled(X, y, reset=not fitted)
            known = [labels, self.classes_] if fitted else [labels]
            union = _union(known if classes is None else [*known, _as_labels(classes)])
            if fitted:
                self._indexed = self._indexed.add(self._indexed.metric.check_dense(items))
            else:
                self._indexed = self._index(items)
            before = np.searchsorted(union, self.classes_)[self._codes] if fitted else np.empty(0, np.intp)
            self._codes = np.concatenate([before, np.searchsorted(union, labels)])
            self.classes_, self.n_items_ = union, len(self._codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each item, or ``unknown``."""
        return np.concatenate([self._predicted(votes) for votes in self._vote_blocks(X)])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the share of the votes for each class, as an array of shape (n_items, n_classes)."""
        return np.concatenate([votes.shares for votes in self._vote_blocks(X)])

    def votes(self, X: ArrayLike) -> ClassVotes:
        """Return the vote shares, the familiarity and the neighbours of each item, from a single search."""
        shares, familiarity, neighbours = zip(*self._vote_blocks(X), strict=True)
        return ClassVotes(np.concatenate(shares), np.concatenate(familiarity), _joined(neighbours))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy. An item that is predicted as ``unknown`` counts as wrong."""
        labels = _as_labels(y)
        right = np.array(
            [answer == label for answer, label in zip(self.predict(X).tolist(), labels.tolist(), strict=True)]
        )
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight, float)))

    def familiarity(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the similarity of each item to the nearest labelled item.

        D is the distance to the nearest labelled item. With several spaces, D is the weighted mean over the spaces.
        For metrics with distances of at most 2 (OAHU, cosine), the similarity is ``1 - D / 2``, from 0 to 1. For
        other metrics, the similarity is ``-D``. For a metric without distances, the similarity is the metric's
        score. ``unknown_below`` is a threshold on this similarity.
        """
        return np.concatenate([self._familiarity(found) for found in self._search_blocks(X, 1)])

    def kneighbors(self, X: ArrayLike, k: int | None = None) -> SpaceNeighbours:
        """Return the positions and distances of the k nearest labelled items in every space.

        The position of an item is the number of items that were added before it.
        """
        k = self.k if k is None else k
        check_integer(self, "k", k, least=1)
        return _joined(list(self._search_blocks(X, k)))

    # -- internals ---------------------------------------------------------------------------------------

    def _search_blocks(self, X: ArrayLike, k: int | None = None) -> Iterator[SpaceNeighbours]:
        """Validate items and yield their nearest neighbours, block by block."""
        self._check_parameters()
        if not hasattr(self, "_indexed"):
            raise NotFittedError(f"This {type(self).__name__} has no labelled items yet. Call fit() first.")
        k = min(self.k, self.n_items_) if k is None else k
        indexed = self._indexed
        items = indexed.metric.check_dense(self._validate(X, reset=False))
        for start in range(0, len(items), _BLOCK):
            with offset_error_rows(start):
                vectors = indexed.encode_queries(items[start : start + _BLOCK])
                found = indexed.nearest(vectors, k)
            yield found

    def _vote_blocks(self, X: ArrayLike) -> Iterator[ClassVotes]:
        """Yield the votes for the items, block by block."""
        for found in self._search_blocks(X):
            sums = self._class_scores(found)
            yield ClassVotes(sums / sums.sum(axis=1, keepdims=True), self._familiarity(found), found)

    def _predicted(self, votes: ClassVotes) -> NDArray[Any]:
        """Return the class with the largest vote share for each item, or ``unknown``."""
        answers: NDArray[Any] = self.classes_[np.argmax(votes.shares, axis=1)]
        if self.unknown_below is None:
            return answers
        return _with_unknown(self.unknown, answers, votes.familiarity < self.unknown_below)

    def _class_scores(self, found: SpaceNeighbours) -> NDArray[np.float64]:
        """Return the sum of scores for each class, S(c_i) of Section 3.6 of the paper.

        The shape of the result is (n_queries, n_classes).
        """
        scores = neighbour_scores(found.distances, self._indexed.weights)
        n_queries = found.positions.shape[1]
        cells = self._codes[found.positions] + np.arange(n_queries)[:, None] * len(self.classes_)
        sums = np.bincount(cells.ravel(), scores.ravel(), minlength=n_queries * len(self.classes_))
        return np.asarray(sums, np.float64).reshape(n_queries, -1)

    def _familiarity(self, found: SpaceNeighbours) -> NDArray[np.float64]:
        nearest = self._indexed.weights @ found.distances[:, :, 0]
        return np.asarray(similarity_of(self._indexed.metric, nearest))

    def _index(self, items: NDArray[Any]) -> IndexedItems:
        metric = EuclideanMetric(items.shape[1]) if self.metric is None else self.metric
        return IndexedItems.empty(metric, self.vote).add(metric.check_dense(items))

    def _validate_labelled(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        items, labels = self._validate(X, y, reset=reset)
        return items, _as_labels(labels)

    def _validate(self, *data: Any, reset: bool) -> Any:
        """Validate types, shapes and feature names with scikit-learn. The metric validates the values."""
        try:
            return validate_data(self, *data, reset=reset, dtype="numeric", ensure_all_finite=False)
        except (ValueError, TypeError) as error:
            kind = InvalidTypeError if isinstance(error, TypeError) else InvalidInputError
            raise kind(str(error)) from error

    def _check_parameters(self) -> None:
        if self.metric is not None:
            as_metric(self.metric, self)
        check_integer(self, "k", self.k, least=1)
        check_choice(self, "vote", self.vote, VOTE_MODES)
        if self.unknown_below is not None:
            check_real(self, "unknown_below", self.unknown_below, -np.inf, np.inf)


@contextmanager
def _rolled_back_on_error(classifier: Classifier) -> Iterator[None]:
    """Restore the classifier's attributes if the code in the ``with`` block raises an exception."""
    before = dict(vars(classifier))
    try:
        yield
    except BaseException:
        for name in vars(classifier).keys() - before.keys():
            delattr(classifier, name)
        classifier.__dict__.update(before)
        raise


def _as_labels(given: ArrayLike) -> NDArray[Any]:
    """Return labels as a 1-d array of strings or integers."""
    try:
        labels: NDArray[Any] = column_or_1d(given)
        with np.errstate(invalid="ignore"):  # NaN, which is rejected below
            kind = type_of_target(labels, input_name="y")
    except TypeError as error:
        raise InvalidInputError(f"Labels must all be numbers or all be strings ({error}).") from error
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    if kind not in ("binary", "multiclass"):
        raise InvalidInputError(f"Unknown label type: {kind}. Labels must be strings or integers.")
    return labels


def _union(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the distinct labels of all parts, sorted."""
    filled = [part for part in parts if len(part)]
    if len({part.dtype.kind in "OU" for part in filled}) > 1:
        types = ", ".join(str(part.dtype) for part in filled)
        raise InvalidInputError(f"Labels must all be numbers or all be strings. Got {types} instead.")
    return np.unique(np.concatenate(filled))


def _with_unknown(unknown: Any, answers: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[Any]:
    """Return ``answers`` with ``unknown`` at the positions where ``where`` is True.

    If ``unknown`` and the answers have different types, the result is an array of objects.
    """
    label = np.array([unknown])
    same_kind = label.dtype.kind == answers.dtype.kind
    return np.where(where, label if same_kind else np.array([unknown], object), answers)


def _joined(parts: Sequence[SpaceNeighbours]) -> SpaceNeighbours:
    """Concatenate the neighbours that were found for several blocks of queries."""
    return SpaceNeighbours(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))
