"""Random pairs and triplets from class labels, drawn as the paper draws its given constraints."""

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

_MAX_REDRAWS: Final = 1000  # maximum number of redraws if a constraint contains an excluded pair


def sample_triplets(
    y: ArrayLike, n: int, random_state: RandomState = None, *, exclude: Any = None
) -> NDArray[np.intp]:
    """Draw n random triplets of item indices from class labels.

    The anchor is drawn uniformly from all items whose class has at least two items. The positive is drawn uniformly
    from the other items of the anchor's class. The negative is drawn uniformly from the items of all other classes.
    Triplets are drawn with replacement. Time and memory are O(n + len(y) log len(y)).

    Parameters
    ----------
    y : array-like of shape (n_items,)
        The class label of each item. All labels must have one type that can be sorted.
    n : int
        The number of triplets.
    random_state : None, int, numpy Generator or RandomState
    exclude : iterable of index pairs, optional
        Pairs of indices that must not occur. A triplet that contains both items of such a pair, in either order, is
        drawn again.

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
    classes.check_two_classes("Triplets need a negative of another class")
    classes.check_positives("Triplets need a positive of the anchor's class")

    def draw(m: int) -> NDArray[np.intp]:
        anchor = classes.with_positive[rng.integers(len(classes.with_positive), size=m)]
        return classes.order[
            np.stack([anchor, classes.draw_similar(anchor, rng), classes.draw_dissimilar(anchor, rng)], axis=1)
        ]

    return _draw_allowed(draw, n, forbidden, len(classes), "triplets")


def sample_pairs(
    y: ArrayLike, n: int, random_state: RandomState = None, *, similar: float = 0.5, exclude: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Draw n random pairs of item indices, similar or dissimilar, from class labels.

    A pair is similar with probability ``similar``. The first item of a similar pair is drawn uniformly from all
    items whose class has at least two items. The second item is drawn uniformly from the other items of that class.
    The first item of a dissimilar pair is drawn uniformly from all items. The second item is drawn uniformly from
    the items of all other classes. Pairs are drawn with replacement. Time and memory are O(n + len(y) log len(y)).

    Parameters
    ----------
    y : array-like of shape (n_items,)
        The class label of each item. All labels must have one type that can be sorted.
    n : int
        The number of pairs.
    random_state : None, int, numpy Generator or RandomState
    similar : float, default=0.5
        The probability that a pair is similar, in [0, 1].
    exclude : iterable of index pairs, optional
        Pairs of indices that must not be drawn, in either order.

    Returns
    -------
    pairs : ndarray of shape (n, 2)
        Indices into ``y``.
    same : ndarray of shape (n,)
        +1 for a similar pair, -1 for a dissimilar pair.

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
        raise InvalidInputError(f"The 'similar' parameter must be in [0, 1]. Got {shorten(similar)} instead.")
    classes = _Classes.of(y)
    forbidden = _forbidden(exclude, len(classes))
    rng = as_generator(random_state)
    if similar < 1:
        classes.check_two_classes("Dissimilar pairs need items of two classes")
    if similar > 0:
        classes.check_positives("Similar pairs need two items of one class")

    def draw(m: int) -> NDArray[np.intp]:
        same = rng.random(m) < similar
        drawn = np.empty((m, 3), np.intp)
        drawn[:, 2] = same
        first = (
            classes.with_positive[rng.integers(len(classes.with_positive), size=int(same.sum()))]
            if similar
            else np.empty(0, int)
        )
        drawn[same, 0], drawn[same, 1] = first, classes.draw_similar(first, rng)
        first = rng.integers(len(classes), size=int((~same).sum()))
        drawn[~same, 0], drawn[~same, 1] = first, classes.draw_dissimilar(first, rng)
        drawn[:, :2] = classes.order[drawn[:, :2]]
        return drawn

    drawn = _draw_allowed(draw, n, forbidden, len(classes), "pairs", columns=2)
    return drawn[:, :2], 2 * drawn[:, 2].astype(np.int64) - 1


@dataclass(frozen=True)
class _Classes:
    """Items sorted by class. Each class is a range of positions in this order.

    An item outside a range of m excluded positions is drawn as follows. A position is drawn from the first
    n_items - m positions. If the drawn position is at or after the first excluded position, m is added to it.
    """

    order: NDArray[np.intp]  # the item at each position
    size: NDArray[np.intp]  # for each position, the number of items in the class of its item
    start: NDArray[np.intp]  # for each position, the first position of the class of its item
    with_positive: NDArray[np.intp]  # positions of items whose class has at least two items
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

    def draw_similar(self, positions: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """For each position, draw another position of the same class."""
        other = self.start[positions] + rng.integers(np.maximum(self.size[positions] - 1, 1))
        return np.asarray(other + (other >= positions))

    def draw_dissimilar(self, positions: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """For each position, draw a position of another class."""
        other = rng.integers(len(self) - self.size[positions])
        return np.asarray(other + np.where(other >= self.start[positions], self.size[positions], 0))

    def check_two_classes(self, need: str) -> None:
        if self.n_classes < 2:
            raise InvalidInputError(f"{need}. The labels have {self.n_classes} class(es).")

    def check_positives(self, need: str) -> None:
        if not len(self.with_positive):
            raise InvalidInputError(f"{need}. Each of the {self.n_classes} classes has one item.")


def _check_number(n: Any, what: str) -> None:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise InvalidInputError(f"The number of {what} must be an int of at least 1. Got {shorten(n)} instead.")


def _forbidden(exclude: Any, n_items: int) -> NDArray[np.int64] | None:
    """Return the sorted codes of the excluded pairs (see `_pair_codes`), or None if no pairs are excluded."""
    if exclude is None:
        return None
    try:
        pairs = np.array(exclude if hasattr(exclude, "dtype") else [tuple(pair) for pair in exclude])
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The 'exclude' parameter must be pairs of indices ({error}).") from error
    if pairs.size == 0:
        return None
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidInputError(
            f"The 'exclude' parameter must be pairs of indices, of shape (m, 2). "
            f"Got {pairs.dtype} of shape {pairs.shape} instead."
        )
    wrong = ((pairs < 0) | (pairs >= n_items)).any(axis=1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInputError(
            f"Pair {row} of 'exclude' must have indices from 0 to {n_items - 1}. "
            f"Got {tuple(pairs[row].tolist())} instead."
        )
    return np.unique(_pair_codes(pairs.astype(np.int64), n_items))


def _pair_codes(pairs: NDArray[Any], n_items: int) -> NDArray[np.int64]:
    """Return one integer, the code, for each pair. The pairs (i, j) and (j, i) have the same code."""
    return np.asarray(pairs.min(axis=-1).astype(np.int64) * n_items + pairs.max(axis=-1))


def _draw_allowed(
    draw: Callable[[int], NDArray[np.intp]],
    n: int,
    forbidden: NDArray[np.int64] | None,
    n_items: int,
    kind: str,
    columns: int = 3,
) -> NDArray[np.intp]:
    """Draw n rows with the function ``draw``. A row is a pair or a triplet of item indices.

    A row is drawn again if its first ``columns`` entries contain a forbidden pair.
    """
    rows = draw(n)
    if forbidden is None:
        return rows
    combinations = [(i, j) for i in range(columns) for j in range(i + 1, columns)]
    unfinished = np.arange(n)
    for _ in range(_MAX_REDRAWS):
        drawn = rows[unfinished]
        is_forbidden = np.zeros(len(drawn), bool)
        for pair in combinations:
            is_forbidden |= np.isin(_pair_codes(drawn[:, pair], n_items), forbidden)
        unfinished = unfinished[is_forbidden]
        if not len(unfinished):
            return rows
        rows[unfinished] = draw(len(unfinished))
    raise InvalidInputError(
        f"The 'exclude' parameter leaves too few {kind}: after {_MAX_REDRAWS:,} draws, {len(unfinished)} of "
        f"{n} still contain an excluded pair."
    )


def _classes(y: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the class number of each item, and the number of items of each class."""
    try:
        labels = np.asarray(y)
        names, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"The labels must be of one type that can be sorted ({error}).") from error
    if labels.ndim != 1:
        raise InvalidInputError(f"The labels must have shape (n_items,). Got {labels.shape} instead.")
    if np.ma.is_masked(y):
        raise InvalidInputError("The labels must not be masked: each item needs a label.")
    if names.dtype.kind in "mM" and np.isnat(names).any():
        raise InvalidInputError(f"Label {np.flatnonzero(np.isnat(labels))[0]} is NaT. Each item needs a label.")
    if names.dtype.kind in "fc" and np.isnan(names).any():
        raise InvalidInputError(f"Label {np.flatnonzero(np.isnan(labels))[0]} is NaN. Each item needs a label.")
    return classes, counts
