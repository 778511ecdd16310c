"""Drawing constraints from labels, as the paper draws its seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten
from oahu.randomness import RandomState, as_generator

__all__ = ["sample_pairs", "sample_triplets"]

_PATIENCE: Final = 1000  # how often a constraint is drawn again before there seems to be none


def sample_triplets(
    y: ArrayLike, n: int, random_state: RandomState = None, *, exclude: Any = None
) -> NDArray[np.intp]:
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
    exclude : iterable of index pairs, optional
        Pairs that may not be used: a triplet in which any two items form one, in either order, is drawn again.

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
    _check_number(n, "triplets")
    classes = _Classes.of(y)
    forbidden = _forbidden(exclude, len(classes))
    rng = as_generator(random_state)
    classes.check_others("Triplets need a negative of another class")
    classes.check_alike("Triplets need a positive of the anchor's class")

    def draw(m: int) -> NDArray[np.intp]:
        anchor = classes.able[rng.integers(len(classes.able), size=m)]
        return classes.order[np.stack([anchor, classes.alike(anchor, rng), classes.unlike(anchor, rng)], axis=1)]

    return _allowed(draw, n, forbidden, len(classes), "triplets")


def sample_pairs(
    y: ArrayLike, n: int, random_state: RandomState = None, *, similar: float = 0.5, exclude: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Draw n pairs of indices from labels, and whether each is alike.

    Each pair is alike with probability ``similar``. The first item of an alike pair is uniform over the instances
    that share their label with another, the second uniform over the others of its class; the first item of an
    unlike pair is uniform over all instances, the second uniform over all other classes. With replacement between
    pairs. Time and memory O(n + len(y) log len(y)).

    Parameters
    ----------
    y : array-like of shape (n_items,)
        Labels of any kind that can be sorted.
    n : int
        How many pairs.
    random_state : None, int, numpy Generator or RandomState
    similar : float, default=0.5
        The probability that a pair is alike, in [0, 1].
    exclude : iterable of index pairs, optional
        Pairs that may not be drawn, in either order.

    Returns
    -------
    pairs : ndarray of shape (n, 2)
        Indices into ``y``.
    same : ndarray of shape (n,)
        +1 where a pair is alike, -1 where it is not.

    Examples
    --------
    >>> y = np.array(["cat", "dog", "cat", "dog"])
    >>> pairs, same = sample_pairs(y, 1000, random_state=0)
    >>> bool(((y[pairs[:, 0]] == y[pairs[:, 1]]) == (same == 1)).all())
    True
    """
    _check_number(n, "pairs")
    share: Any = similar
    if not isinstance(share, float | int | np.floating | np.integer) or not 0 <= share <= 1:
        raise InvalidInputError(f"The share of similar pairs must be in [0, 1]. Got {shorten(similar)} instead.")
    classes = _Classes.of(y)
    forbidden = _forbidden(exclude, len(classes))
    rng = as_generator(random_state)
    if similar < 1:
        classes.check_others("Dissimilar pairs need items of two classes")
    if similar > 0:
        classes.check_alike("Similar pairs need two items of one class")

    def draw(m: int) -> NDArray[np.intp]:
        same = rng.random(m) < similar
        drawn = np.empty((m, 3), np.intp)
        drawn[:, 2] = same
        first = classes.able[rng.integers(len(classes.able), size=int(same.sum()))] if similar else np.empty(0, int)
        drawn[same, 0], drawn[same, 1] = first, classes.alike(first, rng)
        first = rng.integers(len(classes), size=int((~same).sum()))
        drawn[~same, 0], drawn[~same, 1] = first, classes.unlike(first, rng)
        drawn[:, :2] = classes.order[drawn[:, :2]]
        return drawn

    drawn = _allowed(draw, n, forbidden, len(classes), "pairs", columns=2)
    return drawn[:, :2], 2 * drawn[:, 2].astype(np.int64) - 1


@dataclass(frozen=True)
class _Classes:
    """Items sorted by class: a class is a run of places, and drawing others of it, or of no other, is drawing a
    place and stepping over what must not be drawn."""

    order: NDArray[np.intp]  # the item at each place
    size: NDArray[np.intp]  # of the class at each place
    start: NDArray[np.intp]  # of the class's run, at each place
    able: NDArray[np.intp]  # places whose class has another item
    n_classes: int

    @classmethod
    def of(cls, y: ArrayLike) -> _Classes:
        classes, counts = _classes(y)
        order = np.argsort(classes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
        size = counts[classes[order]]
        return cls(order, size, starts[classes[order]], np.flatnonzero(size > 1), len(counts))

    def __len__(self) -> int:
        return len(self.order)

    def alike(self, places: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """For each place another of its class."""
        other = self.start[places] + rng.integers(np.maximum(self.size[places] - 1, 1))
        return np.asarray(other + (other >= places))

    def unlike(self, places: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """For each place one of another class."""
        other = rng.integers(len(self) - self.size[places])
        return np.asarray(other + np.where(other >= self.start[places], self.size[places], 0))

    def check_others(self, need: str) -> None:
        if self.n_classes < 2:
            raise InvalidInputError(f"{need}: the labels have {self.n_classes} class(es), 2 are needed.")

    def check_alike(self, need: str) -> None:
        if not len(self.able):
            raise InvalidInputError(f"{need}: each of the {self.n_classes} classes has one instance.")


def _check_number(n: Any, what: str) -> None:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise InvalidInputError(f"The number of {what} must be an int of at least 1. Got {shorten(n)} instead.")


def _forbidden(exclude: Any, n_items: int) -> NDArray[np.int64] | None:
    """Excluded pairs as sorted numbers, one for each two items in either order."""
    if exclude is None:
        return None
    try:
        pairs = np.array(exclude if hasattr(exclude, "dtype") else [tuple(pair) for pair in exclude])
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"exclude must be pairs of indices ({error}).") from error
    if pairs.size == 0:
        return None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidInputError(
            f"exclude must be pairs of indices, of shape (m, 2). Got {pairs.dtype} of shape {pairs.shape} instead."
        )
    wrong = ((pairs < 0) | (pairs >= n_items)).any(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInputError(
            f"Pair {row} of exclude is {tuple(pairs[row].tolist())}: indices go from 0 to {n_items - 1}."
        )
    return np.unique(_numbered(pairs.astype(np.int64), n_items))


def _numbered(pairs: NDArray[Any], n_items: int) -> NDArray[np.int64]:
    return np.asarray(pairs.min(axis=-1).astype(np.int64) * n_items + pairs.max(axis=-1))


def _allowed(
    draw: Callable[[int], NDArray[np.intp]],
    n: int,
    forbidden: NDArray[np.int64] | None,
    n_items: int,
    noun: str,
    columns: int = 3,
) -> NDArray[np.intp]:
    """n rows of ``draw`` whose first ``columns`` hold no forbidden pair: the others are drawn again."""
    rows = draw(n)
    if forbidden is None:
        return rows
    combinations = [(i, j) for i in range(columns) for j in range(i + 1, columns)]
    waiting = np.arange(n)
    for _ in range(_PATIENCE):
        drawn = rows[waiting]
        hit = np.zeros(len(drawn), bool)
        for pair in combinations:
            hit |= np.isin(_numbered(drawn[:, pair], n_items), forbidden)
        waiting = waiting[hit]
        if not len(waiting):
            return rows
        rows[waiting] = draw(len(waiting))
    raise InvalidInputError(
        f"exclude leaves next to nothing to draw: after {_PATIENCE:,} draws, {len(waiting)} of {n} {noun} still "
        "hold an excluded pair."
    )


def _classes(y: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The number of each item's class, and how many items each class has."""
    try:
        labels = np.asarray(y)
        names, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"Labels must be of one kind that can be sorted ({error}).") from error
    if labels.ndim != 1:
        raise InvalidInputError(f"Labels must have shape (n_items,). Got {labels.shape} instead.")
    if np.ma.is_masked(y):
        raise InvalidInputError("Labels must be whole: every item needs one. Got masked ones instead.")
    if names.dtype.kind in "mM" and np.isnat(names).any():
        raise InvalidInputError(f"Label {np.flatnonzero(np.isnat(labels))[0]} is NaT: every item needs a label.")
    if names.dtype.kind in "fc" and np.isnan(names).any():
        raise InvalidInputError(f"Label {np.flatnonzero(np.isnan(labels))[0]} is NaN: every item needs a label.")
    return classes, counts
