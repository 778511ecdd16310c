"""Classification: the label that an item's neighbours in all spaces agree on most."""

from __future__ import annotations

from collections.abc import Iterator
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
from oahu.tasks.encoded_items import (
    VOTES,
    Found,
    Gallery,
    Vote,
    as_metric,
    counted_from,
    likeness,
    neighbour_scores,
)

__all__ = ["Classifier", "Votes"]

_BLOCK = 4096  # queries answered at a time


class Votes(NamedTuple):
    """What answers about n items rest on.

    Attributes
    ----------
    shares : ndarray of shape (n, n_classes)
        Each class's share of the votes.
    familiarity : ndarray of shape (n,)
        How alike each item is to the nearest ones.
    neighbours : Found
        The nearest items in every space: ``positions`` and ``distances`` of shape (n_spaces, n, k).
    """

    shares: NDArray[np.float64]
    familiarity: NDArray[np.float64]
    neighbours: Found


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """k nearest neighbours in every space of a metric, Section 3.6 of the paper.

    In each space, the k nearest items of a query score ``exp(-(D - d_min) / (d_max - d_min)) alpha``: the nearest
    alpha, the weight of the space, and the k-th alpha / e. The class with the highest sum over all spaces is the
    answer.

    Ties: between classes, the first in ``classes_`` wins; between items that are equally far, the one that was
    added first is the nearer. Where all k are equally far, d_max = d_min, each scores alpha. With fewer than k
    items, all of them vote.

    Parameters
    ----------
    metric : Metric, optional
        Any metric: ``learner.metric()``, or a loaded one. None is the plain Euclidean distance. Another one, and
        another ``vote``, takes effect with the next `fit`.
    k : int, default=5
        Neighbours in each space.
    vote : {"experts", "joint"}, default="experts"
        "experts" asks every space of an ensemble; "joint" its one joint vector, with one search instead of L + 1.
        The same for a metric of one space.
    unknown_below : float, optional
        Answer ``unknown`` where `familiarity` is below: the nearest items are too far to tell.
    unknown : str or int, default="unknown"
        What is answered then.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted. `partial_fit` may add some.
    n_items_ : int
    n_features_in_ : int

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
        vote: Vote = "experts",
        unknown_below: float | None = None,
        unknown: str | int = "unknown",
    ) -> None:
        self.metric = metric
        self.k = k
        self.vote = vote
        self.unknown_below = unknown_below
        self.unknown = unknown

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Take labelled items to compare with, in place of those before."""
        with _all_or_nothing(self):
            self._check_parameters()
            items, labels = self._checked(X, y, reset=True)
            self._gallery = self._with(self._empty_gallery(items), items)
            self.classes_, self._codes = np.unique(labels, return_inverse=True)
            self.n_items_ = len(labels)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Take more labelled items; labels that were not there before join ``classes_``.

        ``classes``, if given, are labels that are known to come: they are in ``classes_`` before an item has them.
        """
        with _all_or_nothing(self):
            self._check_parameters()
            fitted = hasattr(self, "_gallery")
            items, labels = self._checked(X, y, reset=not fitted)
            known = [labels, self.classes_] if fitted else [labels]
            union = _union(known if classes is None else [*known, _as_labels(classes)])
            self._gallery = self._with(self._gallery if fitted else self._empty_gallery(items), items)
            before = np.searchsorted(union, self.classes_)[self._codes] if fitted else np.empty(0, np.intp)
            self._codes = np.concatenate([before, np.searchsorted(union, labels)])
            self.classes_, self.n_items_ = union, len(self._codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each item, or ``unknown``."""
        return np.concatenate([self._named(votes) for votes in self._voted(X)])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Each class's share of the votes for each item: (n_items, n_classes)."""
        return np.concatenate([votes.shares for votes in self._voted(X)])

    def votes(self, X: ArrayLike) -> Votes:
        """All that an answer rests on, of one search: the classes' shares, familiarity, and the neighbours."""
        shares, familiarity, neighbours = zip(*self._voted(X), strict=True)
        found = Found(*(np.concatenate(parts, axis=1) for parts in zip(*neighbours, strict=True)))
        return Votes(np.concatenate(shares), np.concatenate(familiarity), found)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of items whose class is right; one that is unknown is not."""
        labels = _as_labels(y)
        right = np.array(
            [answer == label for answer, label in zip(self.predict(X).tolist(), labels.tolist(), strict=True)]
        )
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight, float)))

    def familiarity(self, X: ArrayLike) -> NDArray[np.float64]:
        """How alike each item is to the nearest one in every space, averaged by the spaces' weights.

        ``1 - D / 2`` where distances are at most 2 (OAHU, cosine): from 0 to 1. Minus the distance for other
        metrics, and the score for one without distances. This is what ``unknown_below`` is compared with.
        """
        return np.concatenate([self._familiar(found) for found in self._searched(X, 1)])

    def kneighbors(self, X: ArrayLike, k: int | None = None) -> Found:
        """The nearest items in every space: positions, in the order in which they were added, and distances."""
        k = self.k if k is None else k
        check_integer(self, "k", k, least=1)
        found = list(self._searched(X, k))
        return Found(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))

    # -- inside ------------------------------------------------------------------------------------------

    def _searched(self, X: ArrayLike, k: int | None = None) -> Iterator[Found]:
        """What is found for some of the items at a time."""
        self._check_parameters()
        if not hasattr(self, "_gallery"):
            raise NotFittedError(f"This {type(self).__name__} has no items to compare with yet: call fit first.")
        k = min(self.k, self.n_items_) if k is None else k
        items = self._gallery.metric.check_dense(self._checked(X, reset=False))
        for start in range(0, len(items), _BLOCK):
            with counted_from(start):
                found = self._gallery.search(items[start : start + _BLOCK], k)
            yield found

    def _voted(self, X: ArrayLike) -> Iterator[Votes]:
        """The votes on some of the items at a time."""
        for found in self._searched(X):
            sums = self._sums(found)
            yield Votes(sums / sums.sum(axis=1, keepdims=True), self._familiar(found), found)

    def _named(self, votes: Votes) -> NDArray[Any]:
        """The labels that votes are for."""
        answers: NDArray[Any] = self.classes_[np.argmax(votes.shares, axis=1)]
        if self.unknown_below is None:
            return answers
        return _with_unknown(self.unknown, answers, votes.familiarity < self.unknown_below)

    def _sums(self, found: Found) -> NDArray[np.float64]:
        """S(c_i) of Section 3.6: the sum of the scores of the neighbours of each class, (n_queries, n_classes)."""
        scores = neighbour_scores(found.distances, self._gallery.weights)
        n_queries = found.positions.shape[1]
        cells = self._codes[found.positions] + np.arange(n_queries)[:, None] * len(self.classes_)
        votes = np.bincount(cells.ravel(), scores.ravel(), minlength=n_queries * len(self.classes_))
        return np.asarray(votes, np.float64).reshape(n_queries, -1)

    def _familiar(self, found: Found) -> NDArray[np.float64]:
        nearest = self._gallery.weights @ found.distances[:, :, 0]
        return np.asarray(likeness(self._gallery.metric, nearest))

    def _empty_gallery(self, items: NDArray[Any]) -> Gallery:
        metric = EuclideanMetric(items.shape[1]) if self.metric is None else self.metric
        return Gallery.empty(metric, self.vote)

    def _with(self, gallery: Gallery, items: NDArray[Any]) -> Gallery:
        return gallery.add(gallery.metric.check_dense(items))

    def _checked(self, *data: Any, reset: bool) -> Any:
        """Items, or items and labels, as scikit-learn checks them."""
        try:
            checked = validate_data(self, *data, reset=reset, dtype="numeric")
        except (ValueError, TypeError) as error:
            kind = InvalidTypeError if isinstance(error, TypeError) else InvalidInputError
            raise kind(str(error)) from error
        return (checked[0], _as_labels(checked[1])) if len(data) == 2 else checked

    def _check_parameters(self) -> None:
        if self.metric is not None:
            as_metric(self.metric, self)
        check_integer(self, "k", self.k, least=1)
        check_choice(self, "vote", self.vote, VOTES)
        if self.unknown_below is not None:
            check_real(self, "unknown_below", self.unknown_below, -np.inf, np.inf)


@contextmanager
def _all_or_nothing(classifier: Classifier) -> Iterator[None]:
    """Let a classifier be as it was if what is done to it fails."""
    before = dict(vars(classifier))
    try:
        yield
    except BaseException:
        for name in vars(classifier).keys() - before.keys():
            delattr(classifier, name)
        classifier.__dict__.update(before)
        raise


def _as_labels(given: ArrayLike) -> NDArray[Any]:
    """Labels, checked to be a row of strings or of whole numbers."""
    try:
        labels: NDArray[Any] = column_or_1d(given)
        with np.errstate(invalid="ignore"):  # of NaN, which is refused
            kind = type_of_target(labels, input_name="y")
    except TypeError as error:
        raise InvalidInputError(f"Labels must all be numbers or all be strings ({error}).") from error
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    if kind not in ("binary", "multiclass"):
        raise InvalidInputError(f"Unknown label type: {kind}. Labels must be strings or whole numbers.")
    return labels


def _union(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """All labels, sorted."""
    some = [part for part in parts if len(part)]
    if len({part.dtype.kind in "OU" for part in some}) > 1:
        types = ", ".join(str(part.dtype) for part in some)
        raise InvalidInputError(f"Labels must all be numbers or all be strings. Got {types}.")
    return np.unique(np.concatenate(some))


def _with_unknown(unknown: Any, answers: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[Any]:
    """Answers, with ``unknown`` at some places: of the labels' own type if it fits there, else of objects."""
    both = np.array([unknown])
    plain = both.dtype.kind == answers.dtype.kind
    return np.where(where, both if plain else np.array([unknown], object), answers)
