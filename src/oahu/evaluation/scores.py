"""Classifying, comparing and retrieving, each in a number from 0 to 1. The truth is the first argument."""

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

_LARGEST: Final = 2.0**53  # from here on, floats skip whole numbers

# -- classifying -----------------------------------------------------------------------------------------


def error_rate(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The share of items whose predicted label is not the true one.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        Labels: strings or whole numbers, the same in both.

    Examples
    --------
    >>> error_rate(["cat", "dog", "dog", "cow"], ["cat", "dog", "cat", "cow"])
    0.25
    """
    true, said = _as_both_labels(truth, predicted)
    return float(zero_one_loss(true, said, normalize=False) / len(true))  # counts: 1 - accuracy would be rounded


def macro_f1(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The mean over classes of F1 = 2 tp / (2 tp + fp + fn), each class counting the same.

    The classes are those that occur in ``truth`` or in ``predicted``: one that was predicted and never true is a 0.

    Parameters
    ----------
    truth, predicted : array-like of shape (n,)
        Labels: strings or whole numbers, the same in both.

    Examples
    --------
    >>> macro_f1([0, 0, 0, 1], [0, 0, 1, 0])
    0.3333333333333333
    """
    true, said = _as_both_labels(truth, predicted)
    return float(f1_score(true, said, average="macro"))


# -- comparing -------------------------------------------------------------------------------------------


def roc_auc(same: ArrayLike, scores: ArrayLike) -> float:
    """The probability that a similar pair scores higher than a dissimilar one, a tie counting half: `Roc.auc`.

    Parameters
    ----------
    same : array-like of shape (n,)
        Which pairs are alike: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Higher for pairs that are more alike.

    Examples
    --------
    >>> roc_auc([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2])
    0.75
    """
    return Roc.of(scores, same).auc


def eer(same: ArrayLike, scores: ArrayLike) -> float:
    """The equal error rate, where as many dissimilar pairs are accepted as similar ones are not: `Roc.eer`.

    Parameters
    ----------
    same : array-like of shape (n,)
        Which pairs are alike: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Higher for pairs that are more alike.

    Examples
    --------
    >>> eer([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2])
    0.5
    """
    return Roc.of(scores, same).eer


def tar_at_far(same: ArrayLike, scores: ArrayLike, far: float = 1e-3) -> float:
    """The share of similar pairs that a threshold can accept with at most ``far`` of the dissimilar ones.

    See `Roc.tar_at_far`. With fewer than 1 / ``far`` dissimilar pairs none of them may be accepted.

    Parameters
    ----------
    same : array-like of shape (n,)
        Which pairs are alike: True and False, 1 and 0, or +1 and -1.
    scores : array-like of shape (n,)
        Higher for pairs that are more alike.
    far : float in [0, 1]

    Examples
    --------
    >>> tar_at_far([1, 1, 0, 0], [0.9, 0.4, 0.8, 0.2], far=0.5)
    1.0
    """
    return Roc.of(scores, same).tar_at_far(far)


def triplet_accuracy(similar_scores: ArrayLike, dissimilar_scores: ArrayLike) -> float:
    """The share of triplets whose positive scores higher than its negative; a tie is wrong.

    Parameters
    ----------
    similar_scores, dissimilar_scores : array-like of shape (n_triplets,)
        The scores of anchor and positive, and of anchor and negative: higher for more alike.

    Examples
    --------
    >>> triplet_accuracy([0.9, 0.5, 0.5, 0.7], [0.1, 0.5, 0.8, 0.6])
    0.5
    """
    similar = as_scores(similar_scores, "similar_scores")
    dissimilar = as_scores(dissimilar_scores, "dissimilar_scores")
    if len(similar) != len(dissimilar):
        raise InvalidInputError(
            "similar_scores and dissimilar_scores must have one score each for every triplet. "
            f"Got {len(similar)} and {len(dissimilar)} instead."
        )
    return float(np.mean(similar > dissimilar))


# -- retrieving ------------------------------------------------------------------------------------------


def recall_at_k(
    labels: ArrayLike, retrieved_labels: ArrayLike, ks: Iterable[int] = (1, 2, 4, 8)
) -> dict[int, float]:
    """For each k, the share of queries with at least one item of their own label among the first k retrieved.

    This is Recall@K as metric learning reports it for CARS-196 and its kin (Oh Song et al., CVPR 2016): a query
    counts 1 or 0, however many items of its label there are. A query must not be among what it retrieved.

    Parameters
    ----------
    labels : array-like of shape (n_queries,)
        The queries' own labels: strings or whole numbers.
    retrieved_labels : array-like of shape (n_queries, at least max(ks))
        The labels of what each query retrieved, nearest first.
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
            f"retrieved_labels must hold at least {max(depths)} labels for each of the {len(own)} queries: shape "
            f"({len(own)}, {max(depths)}) or wider. Got shape {found.shape} instead."
        )
    hit = found[:, : max(depths)] == own[:, None]
    return {k: float(np.mean(hit[:, :k].any(axis=1))) for k in depths}


# -- checking --------------------------------------------------------------------------------------------


def _as_both_labels(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, said = _as_labels(truth, "truth", 1), _as_labels(predicted, "predicted", 1)
    if len(true) != len(said):
        raise InvalidInputError(
            f"truth and predicted must have one label each for every item. Got {len(true)} and {len(said)} instead."
        )
    _check_comparable(true, said, "truth", "predicted")
    return true, said


def _as_labels(labels: Any, what: str, ndim: int) -> NDArray[Any]:
    """Strings, or whole numbers: an array of ``ndim`` dimensions, none of them 0."""
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
        _check_whole(array, what)
    return array


def _check_objects(array: NDArray[Any], what: str) -> None:
    """Refuse objects that are neither all strings nor all numbers."""
    kind: Any = str if isinstance(array.flat[0], str) else int | float | np.number | np.bool_
    for place, label in np.ndenumerate(array):
        if not isinstance(label, kind):
            raise InvalidInputError(
                f"{what} must be all strings or all whole numbers. Got {shorten(label)} in row {place[0]} instead."
            )


def _check_whole(array: NDArray[Any], what: str) -> None:
    """Refuse floats that are no labels: fractions, NaN, infinity, and those too large to tell from the next."""
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere((array % 1 != 0) | (np.abs(array) >= _LARGEST))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise InvalidInputError(
            f"{what} must be strings or whole numbers. "
            f"Got {shorten(array[place].item())} in row {place[0]} instead."
        )


def _check_comparable(one: NDArray[Any], other: NDArray[Any], what: str, what_other: str) -> None:
    kinds = ["strings" if array.dtype.kind == "U" else "numbers" for array in (one, other)]
    if kinds[0] != kinds[1]:
        raise InvalidInputError(
            f"{what} and {what_other} must be labels of one kind, strings or whole numbers. "
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
