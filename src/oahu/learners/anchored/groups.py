"""Groups: clicks of at most sixteen items, and batches of groups that are padded to the same number of items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Clicks

__all__ = ["MAX_ITEMS", "Group", "PaddedGroups", "groups_of", "padded"]

Floats = NDArray[np.floating]

#: The largest number of items of a group, including the query.
MAX_ITEMS: Final = 16

_SHOWN_WEIGHT: Final = 0.3  # of a shown item without a mark, relative to a marked item


class Group(NamedTuple):
    """A query and items that are alike or not alike.

    Attributes
    ----------
    rows : ndarray of int64, of shape (m,)
        The row number of each item in the learner's feature table, the query first. It is -1 for items that are
        not rows of the table.
    vectors : ndarray of shape (k, d)
        The features of the items that are not rows of the table, in the same order.
    marks : ndarray of float32, of shape (m,)
        Positive for items that are alike, negative for items that are not alike. The absolute value is the weight.
        The mark of the query is 1.
    weight : float
        The weight of the group, in (0, 1].
    """

    rows: NDArray[np.int64]
    vectors: Floats
    marks: NDArray[np.float32]
    weight: float


class PaddedGroups(NamedTuple):
    """The marks and weights of n groups, padded to m items. Padding has the mark 0.

    Attributes
    ----------
    sizes : ndarray of int64, of shape (n,)
        The number of items of each group.
    marks : ndarray of float32, of shape (n, m)
    weights : ndarray of float32, of shape (n,)
    """

    sizes: NDArray[np.int64]
    marks: NDArray[np.float32]
    weights: NDArray[np.float32]

    def pad(self, items: Floats) -> Floats:
        """Return the rows of ``items``, one per item of the groups, as an array of shape (n, m, ...)."""
        place = np.arange(self.marks.shape[1]) < self.sizes[:, None]
        array = np.zeros((*place.shape, *items.shape[1:]), items.dtype)
        array[place] = items
        return array


def padded(groups: Sequence[Group]) -> PaddedGroups:
    """Return the marks and weights of groups as arrays."""
    sizes = np.array([len(group.marks) for group in groups])
    weights = np.array([group.weight for group in groups], np.float32)
    marks = PaddedGroups(sizes, np.empty((len(groups), sizes.max()), np.float32), weights)
    return marks._replace(marks=marks.pad(np.concatenate([group.marks for group in groups])))


def groups_of(clicks: Clicks, values: Floats, start: int, stop: int, by_row: bool) -> Iterator[list[Group]]:
    """Yield the groups of each click from ``start`` to ``stop``.

    A click with more than 15 items besides the query is divided into several groups. Each of them has the query and
    an even share of the positives, negatives and shown items. Items that were shown and not marked count as weak
    negatives if the click has positives, and otherwise as weak positives.

    Parameters
    ----------
    clicks : Clicks
    values : ndarray of shape (n_items, d)
        The features of the items of these clicks.
    by_row : bool
        Whether rows of the clicks' table are stored as row numbers. Otherwise, all items are stored as features.
    """
    first = int(clicks.offsets[start])
    refs = clicks.refs if by_row else np.full_like(clicks.refs, -1)
    for number in range(start, stop):
        begin, end = int(clicks.offsets[number]), int(clicks.offsets[number + 1])
        marks = clicks.marks[begin:end].astype(np.float32)
        shown = np.float32(_SHOWN_WEIGHT)
        marks[marks == 0] = -shown if (marks[1:] > 0).any() else shown
        rows = np.maximum(refs[begin:end], -1)
        n_parts = -(-(end - begin - 1) // (MAX_ITEMS - 1))
        groups = []
        for part in range(n_parts):
            places: Any = slice(None) if n_parts == 1 else np.r_[0, np.arange(1 + part, end - begin, n_parts)]
            chosen = rows[places]
            vectors = values[begin - first : end - first][places][chosen < 0]
            groups.append(Group(chosen, vectors.copy(), marks[places], float(clicks.weights[number])))
        yield groups
