"""Scores for classification, comparison and retrieval. All scores are in [0, 1]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn.metrics import f1_score, zero_one_loss

from oahu.arrays import as_array
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.messages import shorten
from oahu.tasks.roc import Roc, as_scores

__all__ = ["Share", "changed_shares", "eer", "error_rate", "macro_f1", "ndcg_at_k", "precision_at_k", "recall_at_k"]
__all__ += ["roc_auc", "tar_at_far", "triplet_accuracy"]

_MAX_INTEGER: Final = 2.0**53  # larger floats cannot represent every integer

# -- classification -----------------------------------------------------------------------------------------


def error_rate(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of items with a wrong predicted label.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        True labels and predicted labels. Both must be strings, or both must be integers.

    Examples
    --------
    >>> error_rate(["cat", "dog", "dog", "cow"], ["cat", "dog", "cat", "cow"])
    0.25
    """
    true, predicted_labels = _as_both_labels(truth, predicted)
    return float(zero_one_loss(true, predicted_labels, normalize=False) / len(true))  # exact, unlike 1 - accuracy


def macro_f1(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the macro F1: the unweighted mean of the F1 scores of all classes.

    The F1 score of a class is 2 TP / (2 TP + FP + FN), where TP, FP and FN are the numbers of true positives, false
    positives and false negatives. All classes in ``truth`` or ``predicted`` count. A class that occurs only in
    ``predicted`` has the F1 score 0.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        True labels and predicted labels. Both must be strings, or both must be integers.

    Examples
    --------
    >>> macro_f1([0, 0, 0, 1], [0, 0, 1, 0])
    0.3333333333333333
    """
    true, predicted_labels = _as_both_labels(truth, predicted)
    return float(f1_score(true, predicted_labels, average="macro"))


# -- comparison -------------------------------------------------------------------------------------------


def roc_auc(same: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve.

    This area is the probability that a random similar pair has a higher score than a random dissimilar pair. Equal
    scores count as 0.5.

    Parameters
    ----------
    same : array-like of shape (n,)
        Labels of similar and dissimilar pairs: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Scores of the pairs. More similar pairs have higher scores.

    Examples
    --------
    >>> roc_auc([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2])
    0.75
    """
    return Roc.of(scores, same).auc


def eer(same: ArrayLike, scores: ArrayLike) -> float:
    """Return the equal error rate: the value at which the false accept rate and the false reject rate are equal.

    Parameters
    ----------
    same : array-like of shape (n,)
        Labels of similar and dissimilar pairs: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Scores of the pairs. More similar pairs have higher scores.

    Examples
    --------
    >>> eer([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2])
    0.5
    """
    return Roc.of(scores, same).eer


def tar_at_far(same: ArrayLike, scores: ArrayLike, far: float = 1e-3) -> float:
    """Return the highest true accept rate at a false accept rate of at most ``far``.

    The false accept rate is the share of dissimilar pairs that are accepted. If there are fewer than 1 / ``far``
    dissimilar pairs, no dissimilar pair may be accepted.

    Parameters
    ----------
    same : array-like of shape (n,)
        Labels of similar and dissimilar pairs: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Scores of the pairs. More similar pairs have higher scores.
    far : float in [0, 1]
        Maximum false accept rate.

    Examples
    --------
    >>> tar_at_far([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2], far=0.5)
    1.0
    """
    return Roc.of(scores, same).tar_at_far(far)


def triplet_accuracy(similar_scores: ArrayLike, dissimilar_scores: ArrayLike) -> float:
    """Return the share of triplets in which the positive has a higher score than the negative.

    A triplet with equal scores counts as wrong.

    Parameters
    ----------
    similar_scores : array-like of shape (n_triplets,)
        Score of the anchor and the positive of each triplet. More similar items have higher scores.
    dissimilar_scores : array-like of shape (n_triplets,)
        Score of the anchor and the negative of each triplet.

    Examples
    --------
    >>> triplet_accuracy([0.9, 0.5, 0.5, 0.7], [0.1, 0.5, 0.8, 0.6])
    0.5
    """
    similar = as_scores(similar_scores, "similar_scores")
    dissimilar = as_scores(dissimilar_scores, "dissimilar_scores")
    if len(similar) != len(dissimilar):
        raise InvalidInputError(
            "'similar_scores' and 'dissimilar_scores' must have one score per triplet. "
            f"Got {len(similar)} and {len(dissimilar)} instead."
        )
    return float(np.mean(similar > dissimilar))


# -- retrieval ------------------------------------------------------------------------------------------


def recall_at_k(
    labels: ArrayLike, retrieved_labels: ArrayLike, ks: Iterable[int] = (1, 2, 4, 8)
) -> dict[int, float]:
    """Return, for each k, the share of queries with at least one item of the same label among the first k items.

    This is Recall@K as in the metric learning literature (Oh Song et al., CVPR 2016). A query counts as 1
    or 0, regardless of the number of items with its label. A query must not be among its own retrieved items.

    Parameters
    ----------
    labels : array-like of shape (n_queries,)
        Labels of the queries: strings or integers.
    retrieved_labels : array-like of shape (n_queries, at least max(ks))
        Labels of the retrieved items, nearest item first.
    ks : iterable of int
        Values of k.

    Examples
    --------
    >>> recall_at_k(["cat", "dog"], [["dog", "cat"], ["dog", "dog"]], ks=(1, 2))
    {1: 0.5, 2: 1.0}
    """
    own = _as_labels(labels, "labels", 1)
    found = _as_labels(retrieved_labels, "retrieved_labels", 2)
    _check_comparable(own, found, "labels", "retrieved_labels")
    depths = _as_depths(ks)
    _check_depth(own, found, max(depths))
    hit = found[:, : max(depths)] == own[:, None]
    return {k: float(np.mean(hit[:, :k].any(axis=1))) for k in depths}


def precision_at_k(labels: ArrayLike, retrieved_labels: ArrayLike, k: int = 10) -> NDArray[np.float64]:
    """Return, for each query, the share of items with the query's label among the first k items.

    Parameters
    ----------
    labels : array-like of shape (n_queries,)
        Labels of the queries: strings or integers.
    retrieved_labels : array-like of shape (n_queries, at least k)
        Labels of the retrieved items, nearest item first.
    k : int
        Number of items.

    Examples
    --------
    >>> precision_at_k(["cat", "dog"], [["dog", "cat"], ["dog", "dog"]], k=2)
    array([0.5, 1. ])
    """
    return np.asarray(_relevance(labels, retrieved_labels, k).mean(axis=1))


def ndcg_at_k(
    labels: ArrayLike, retrieved_labels: ArrayLike, n_relevant: ArrayLike, k: int = 10
) -> NDArray[np.float64]:
    """Return, for each query, the normalised discounted cumulative gain (nDCG) of the first k items.

    An item at position i = 1, 2, ... with the query's label contributes 1 / log2(i + 1). The sum is divided by the
    sum of the best possible ranking. For a query without relevant items, nDCG is 0.

    Parameters
    ----------
    labels : array-like of shape (n_queries,)
        Labels of the queries: strings or integers.
    retrieved_labels : array-like of shape (n_queries, at least k)
        Labels of the retrieved items, nearest item first.
    n_relevant : array-like of int, of shape (n_queries,)
        Number of items with the query's label among all items that can be retrieved.
    k : int
        Number of items.

    Examples
    --------
    >>> ndcg_at_k([1, 2], [[1, 0], [0, 2]], n_relevant=[1, 1], k=2).round(3)
    array([1.   , 0.631])
    """
    relevance = _relevance(labels, retrieved_labels, k)
    counts = np.asarray(n_relevant)
    if (
        counts.shape != relevance.shape[:1]
        or counts.dtype.kind not in "iu"
        or (counts < relevance.sum(axis=1)).any()
    ):
        raise InvalidInputError(
            f"'n_relevant' must have one integer for each of the {len(relevance)} queries, at least the number of "
            f"retrieved items with the query's label. Got {counts.dtype} of shape {counts.shape} instead."
        )
    discounts = 1 / np.log2(np.arange(2, k + 2))
    best = np.r_[0.0, np.cumsum(discounts)][np.minimum(counts, k)]
    return np.asarray(np.divide(relevance @ discounts, best, out=np.zeros(len(relevance)), where=best > 0))


class Share(NamedTuple):
    """A share of queries, and the ends of its 95 % Wilson confidence interval."""

    value: float
    low: float
    high: float


def changed_shares(before: ArrayLike, after: ArrayLike) -> tuple[Share, Share]:
    """Return the share of queries with a higher score after a change, and the share with a lower score.

    Parameters
    ----------
    before, after : array-like of shape (n_queries,)
        A score of each query before and after the change, for example its precision at 10. Higher scores are
        better.

    Examples
    --------
    >>> better, worse = changed_shares([0.5, 0.5, 0.5, 0.5], [0.6, 0.7, 0.5, 0.4])
    >>> better.value, worse.value
    (0.5, 0.25)
    """
    old, new = as_scores(before, "before"), as_scores(after, "after")
    if len(old) != len(new):
        raise InvalidInputError(
            f"'before' and 'after' must have one score per query. Got {len(old)} and {len(new)} instead."
        )
    return _share(new > old), _share(new < old)


def _share(is_member: NDArray[np.bool_]) -> Share:
    interval = stats.binomtest(int(is_member.sum()), len(is_member)).proportion_ci(0.95, method="wilson")
    return Share(float(is_member.mean()), float(interval.low), float(interval.high))


def _relevance(labels: ArrayLike, retrieved_labels: ArrayLike, k: int) -> NDArray[np.bool_]:
    """Return whether each of the first k items has the query's label, of shape (n_queries, k)."""
    own = _as_labels(labels, "labels", 1)
    found = _as_labels(retrieved_labels, "retrieved_labels", 2)
    _check_comparable(own, found, "labels", "retrieved_labels")
    number: Any = k
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
        raise InvalidInputError(f"'k' must be an integer of at least 1. Got {shorten(k)} instead.")
    _check_depth(own, found, k)
    return np.asarray(found[:, :k] == own[:, None])


def _check_depth(own: NDArray[Any], found: NDArray[Any], depth: int) -> None:
    """Raise an error unless there are at least ``depth`` retrieved labels for each query."""
    if found.shape[0] != len(own) or found.shape[1] < depth:
        raise InvalidInputError(
            f"'retrieved_labels' must have at least {depth} labels for each of the {len(own)} queries: shape "
            f"({len(own)}, {depth}) or wider. Got shape {found.shape} instead."
        )


# -- validation --------------------------------------------------------------------------------------------


def _as_both_labels(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, predicted_labels = _as_labels(truth, "truth", 1), _as_labels(predicted, "predicted", 1)
    if len(true) != len(predicted_labels):
        raise InvalidInputError(
            "'truth' and 'predicted' must have one label per item. "
            f"Got {len(true)} and {len(predicted_labels)} instead."
        )
    _check_comparable(true, predicted_labels, "truth", "predicted")
    return true, predicted_labels


def _as_labels(labels: Any, what: str, ndim: int) -> NDArray[Any]:
    """Return labels as an array of strings or integers.

    Raise an error if the array is empty, or if it does not have ``ndim`` dimensions.
    """
    if hasattr(labels, "tocsr"):
        raise InvalidTypeError(
            f"{what} must be dense labels. Got a sparse matrix instead. Convert it with toarray()."
        )
    array = np.asanyarray(labels) if hasattr(labels, "__array__") else np.array(labels, dtype=object)
    if array.ndim != ndim or 0 in array.shape:
        shape = "(n,)" if ndim == 1 else "(n_queries, n_retrieved)"
        raise InvalidInputError(f"{what} must be of shape {shape} and not empty. Got shape {array.shape} instead.")
    if array.dtype.kind == "O":
        _check_objects(array, what)
        array = array.astype(np.str_) if isinstance(array.flat[0], str) else array
    if array.dtype.kind != "U":
        array = as_array(array, f"labels in {what}, unless strings,")
    if array.dtype.kind == "f":
        _check_integers(array, what)
    return array


def _check_objects(array: NDArray[Any], what: str) -> None:
    """Raise an error unless all objects are strings or all objects are numbers."""
    kind: Any = str if isinstance(array.flat[0], str) else int | float | np.number | np.bool_
    for place, label in np.ndenumerate(array):
        if not isinstance(label, kind):
            raise InvalidInputError(
                f"{what} must be all strings or all integers. Got {shorten(label)} in row {place[0]} instead."
            )


def _check_integers(array: NDArray[Any], what: str) -> None:
    """Raise an error if a label is not a whole number, or if its absolute value is 2**53 or more.

    Beyond 2**53, floats cannot represent every integer, so two different integers may become the same float.
    """
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere((array % 1 != 0) | (np.abs(array) >= _MAX_INTEGER))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise InvalidInputError(
            f"{what} must be strings or integers. Got {shorten(array[place].item())} in row {place[0]} instead."
        )


def _check_comparable(one: NDArray[Any], other: NDArray[Any], what: str, what_other: str) -> None:
    kinds = ["strings" if array.dtype.kind == "U" else "numbers" for array in (one, other)]
    if kinds[0] != kinds[1]:
        raise InvalidInputError(
            f"{what} and {what_other} must both be strings or both be integers. "
            f"Got {kinds[0]} and {kinds[1]} instead."
        )


def _as_depths(ks: Any) -> list[int]:
    depths = list(ks) if isinstance(ks, Iterable) else []
    if not depths:
        raise InvalidInputError(
            f"'ks' must contain at least one value of k, for example (1, 2, 4, 8). Got {shorten(ks)} instead."
        )
    for k in depths:
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise InvalidInputError(
                f"Each value in 'ks' must be an integer of at least 1. Got {shorten(k)} instead."
            )
    return [int(k) for k in depths]
