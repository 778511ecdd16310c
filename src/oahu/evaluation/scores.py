"""Scores for classification, comparison and retrieval, from 0 to 1. Arguments are (truth, prediction)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import f1_score, zero_one_loss

from oahu.arrays import as_array
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.messages import shorten
from oahu.tasks.roc import Roc, as_scores

__all__ = ["eer", "error_rate", "macro_f1", "recall_at_k", "roc_auc", "tar_at_far", "triplet_accuracy"]

_MAX_INTEGER: Final = 2.0**53  # larger floats cannot represent every integer

# -- classification -----------------------------------------------------------------------------------------


def error_rate(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of items with a wrong predicted label.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        Labels: both strings or both integers.

    Examples
    --------
    >>> error_rate(["cat", "dog", "dog", "cow"], ["cat", "dog", "cat", "cow"])
    0.25
    """
    true, predicted_labels = _as_both_labels(truth, predicted)
    return float(zero_one_loss(true, predicted_labels, normalize=False) / len(true))  # exact, unlike 1 - accuracy


def macro_f1(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Return the unweighted mean over classes of F1 = 2 tp / (2 tp + fp + fn).

    The classes are those that occur in ``truth`` or in ``predicted``. A class that is predicted but not
    in ``truth`` has F1 = 0.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        Labels: both strings or both integers.

    Examples
    --------
    >>> macro_f1([0, 0, 0, 1], [0, 0, 1, 0])
    0.3333333333333333
    """
    true, predicted_labels = _as_both_labels(truth, predicted)
    return float(f1_score(true, predicted_labels, average="macro"))


# -- comparison -------------------------------------------------------------------------------------------


def roc_auc(same: ArrayLike, scores: ArrayLike) -> float:
    """Return the probability that a similar pair scores higher than a dissimilar one; a tie counts half.

    Parameters
    ----------
    same : array-like of shape (n,)
        Labels of the pairs: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Higher for more similar pairs.

    Examples
    --------
    >>> roc_auc([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2])
    0.75
    """
    return Roc.of(scores, same).auc


def eer(same: ArrayLike, scores: ArrayLike) -> float:
    """Return the equal error rate: the rate at which false accept rate and false reject rate are equal.

    Parameters
    ----------
    same : array-like of shape (n,)
        Labels of the pairs: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Higher for more similar pairs.

    Examples
    --------
    >>> eer([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2])
    0.5
    """
    return Roc.of(scores, same).eer


def tar_at_far(same: ArrayLike, scores: ArrayLike, far: float = 1e-3) -> float:
    """Return the highest true accept rate at a false accept rate of at most ``far``.

    With fewer than 1 / ``far`` dissimilar pairs, the threshold accepts none of them.

    Parameters
    ----------
    same : array-like of shape (n,)
        Labels of the pairs: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Higher for more similar pairs.
    far : float in [0, 1]

    Examples
    --------
    >>> tar_at_far([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2], far=0.5)
    1.0
    """
    return Roc.of(scores, same).tar_at_far(far)


def triplet_accuracy(similar_scores: ArrayLike, dissimilar_scores: ArrayLike) -> float:
    """Return the share of triplets in which the positive scores higher than the negative. A tie counts as wrong.

    Parameters
    ----------
    similar_scores, dissimilar_scores : array-like of shape (n_triplets,)
        Scores of anchor and positive, and of anchor and negative; higher for more similar items.

    Examples
    --------
    >>> triplet_accuracy([0.9, 0.5, 0.5, 0.7], [0.1, 0.5, 0.8, 0.6])
    0.5
    """
    similar = as_scores(similar_scores, "similar_scores")
    dissimilar = as_scores(dissimilar_scores, "dissimilar_scores")
    if len(similar) != len(dissimilar):
        raise InvalidInputError(
            "similar_scores and dissimilar_scores must have one score per triplet. "
            f"Got {len(similar)} and {len(dissimilar)} instead."
        )
    return float(np.mean(similar > dissimilar))


# -- retrieval ------------------------------------------------------------------------------------------


def recall_at_k(
    labels: ArrayLike, retrieved_labels: ArrayLike, ks: Iterable[int] = (1, 2, 4, 8)
) -> dict[int, float]:
    """Return, for each k, the share of queries with at least one item of their own label among the first k.

    This is Recall@K as in the metric learning literature (Oh Song et al., CVPR 2016): a query counts 1 or 0,
    regardless of the number of items with its label. A query must not be among its own retrieved items.

    Parameters
    ----------
    labels : array-like of shape (n_queries,)
        Labels of the queries: strings or integers.
    retrieved_labels : array-like of shape (n_queries, at least max(ks))
        Labels of the retrieved items, nearest first.
    ks : iterable of int

    Examples
    --------
    >>> recall_at_k(["cat", "dog"], [["dog", "cat"], ["dog", "dog"]], ks=(1, 2))
    {1: 0.5, 2: 1.0}
    """
    own = _as_labels(labels, "labels", 1)
    found = _as_labels(retrieved_labels, "retrieved_labels", 2)
    _check_comparable(own, found, "labels", "retrieved_labels")
    depths = _as_depths(ks)
    if found.shape[0] != len(own) or found.shape[1] < max(depths):
        raise InvalidInputError(
            f"retrieved_labels must have at least {max(depths)} labels for each of the {len(own)} queries: shape "
            f"({len(own)}, {max(depths)}) or wider. Got shape {found.shape} instead."
        )
    hit = found[:, : max(depths)] == own[:, None]
    return {k: float(np.mean(hit[:, :k].any(axis=1))) for k in depths}


# -- validation --------------------------------------------------------------------------------------------


def _as_both_labels(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, predicted_labels = _as_labels(truth, "truth", 1), _as_labels(predicted, "predicted", 1)
    if len(true) != len(predicted_labels):
        raise InvalidInputError(
            "truth and predicted must have one label per item. "
            f"Got {len(true)} and {len(predicted_labels)} instead."
        )
    _check_comparable(true, predicted_labels, "truth", "predicted")
    return true, predicted_labels


def _as_labels(labels: Any, what: str, ndim: int) -> NDArray[Any]:
    """Return labels as an array of strings or integers; raise if it is empty or not of ``ndim`` dimensions."""
    if hasattr(labels, "tocsr"):
        raise InvalidTypeError(f"{what} must be dense labels. Got a sparse matrix instead: use toarray().")
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
    """Raise if the objects are neither all strings nor all numbers."""
    kind: Any = str if isinstance(array.flat[0], str) else int | float | np.number | np.bool_
    for place, label in np.ndenumerate(array):
        if not isinstance(label, kind):
            raise InvalidInputError(
                f"{what} must be all strings or all integers. Got {shorten(label)} in row {place[0]} instead."
            )


def _check_integers(array: NDArray[Any], what: str) -> None:
    """Raise for floats that are not integers, or too large to represent every integer."""
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
            f"'ks' must list at least one depth, such as (1, 2, 4, 8). Got {shorten(ks)} instead."
        )
    for k in depths:
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise InvalidInputError(f"Each of 'ks' must be an int of at least 1. Got {shorten(k)} instead.")
    return [int(k) for k in depths]
