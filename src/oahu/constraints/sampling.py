"""Drawing constraints from labels, as the paper draws its seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidInputError
from oahu.randomness import RandomState, as_generator

__all__ = ["sample_triplets"]


def sample_triplets(y: ArrayLike, n: int, random_state: RandomState = None) -> NDArray[np.intp]:
    """Draw n triplets of indices from labels.

    The anchor is uniform over the instances that share their label with another, the positive uniform over the
    others of its class, the negative uniform over all other classes. With replacement between triplets; the
    anchor is never its own positive. Time and memory O(n + len(y) log len(y)).

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels of any kind that can be sorted.
    n : int
        How many triplets.
    random_state : None, int, numpy Generator or RandomState

    Returns
    -------
    triplets : ndarray of shape (n, 3)
        Anchor, positive and negative, as indices into ``y``.

    Examples
    --------
    >>> y = np.array(["cat", "dog", "cat", "dog"])
    >>> a, p, n = sample_triplets(y, 1000, random_state=0).T
    >>> bool((y[a] == y[p]).all() and (y[a] != y[n]).all() and (a != p).all())
    True
    """
    number: Any = n
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
        raise InvalidInputError(f"The number of triplets must be an int of at least 1. Got {n!r} instead.")
    classes, counts = _classes(y)
    rng = as_generator(random_state)
    if len(counts) < 2:
        raise InvalidInputError(
            f"Triplets need a negative of another class: the labels have {len(counts)} class(es), 2 are needed."
        )
    if counts.max() < 2:
        raise InvalidInputError(
            f"Triplets need a positive of the anchor's class: each of the {len(counts)} classes has one instance."
        )
    # Sorted by class, an instance's class is a run; drawing others of the class, or of no other run, is drawing a
    # place and stepping over what must not be drawn.
    order = np.argsort(classes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    able = np.flatnonzero(counts[classes[order]] > 1)
    anchor = able[rng.integers(len(able), size=n)]
    size, start = counts[classes[order[anchor]]], starts[classes[order[anchor]]]
    positive = start + rng.integers(size - 1)
    positive += positive >= anchor
    negative = rng.integers(len(classes) - size)
    negative += np.where(negative >= start, size, 0)
    return order[np.stack([anchor, positive, negative], axis=1)]


def _classes(y: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The number of each item's class, and how many items each class has."""
    try:
        labels = np.asarray(y)
        names, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"Labels must be of one kind that can be sorted ({error}).") from error
    if labels.ndim != 1:
        raise InvalidInputError(f"Labels must have shape (n_items,). Got {labels.shape} instead.")
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise InvalidInputError(f"Label {np.flatnonzero(np.isnan(labels))[0]} is NaN: every item needs a label.")
    return classes, counts
