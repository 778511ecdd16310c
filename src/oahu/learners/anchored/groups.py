"""Groups: clicks of at most sixteen items, and batches of groups that are padded to the same number of items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Clicks
from oahu.io.model_files import Content

__all__ = ["MAX_ITEMS", "Group", "PaddedGroups", "groups_from_arrays", "groups_of", "groups_to_arrays", "padded"]

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


def groups_to_arrays(groups: Sequence[Group], n_features: int, dtype: np.dtype[Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays that store groups in a model file."""
    none = np.zeros((0, n_features), dtype)
    return {
        "group_sizes": np.array([len(group.marks) for group in groups], np.int64),
        "group_rows": np.concatenate([np.zeros(0, np.int64), *(group.rows for group in groups)]),
        "group_marks": np.concatenate([np.zeros(0, np.float32), *(group.marks for group in groups)]),
        "group_weights": np.array([group.weight for group in groups], np.float64),
        "group_vectors": np.concatenate([none, *(group.vectors for group in groups)]),
    }


def groups_from_arrays(content: Content, n_features: int, dtype: np.dtype[Any]) -> list[Group]:
    """Return the groups in a model file. Raise ValueError if the arrays do not fit together."""
    sizes = content.array("group_sizes", (None,), np.dtype(np.int64))
    rows = content.array("group_rows", (None,), np.dtype(np.int64))
    marks = content.array("group_marks", rows.shape, np.dtype(np.float32))
    weights = content.array("group_weights", sizes.shape, np.dtype(np.float64))
    vectors = content.array("group_vectors", (None, n_features), dtype)
    ends = np.cumsum(sizes)
    if (sizes < 2).any() or (sizes > MAX_ITEMS).any() or (ends[-1] if len(ends) else 0) != len(rows):
        raise ValueError("the sizes of the stored groups do not fit their items")
    if (rows < -1).any() or np.count_nonzero(rows == -1) != len(vectors):
        raise ValueError("the stored vectors do not fit the stored groups")
    if not ((weights > 0) & (weights <= 1)).all() or not ((marks != 0) & (abs(marks) <= 1)).all():
        raise ValueError("the marks or the weights of the stored groups are not valid")
    n_vectors = np.concatenate([[0], np.cumsum(rows == -1)])
    starts = ends - sizes
    return [
        Group(rows[a:b].copy(), vectors[n_vectors[a] : n_vectors[b]].copy(), marks[a:b].copy(), float(weight))
        for a, b, weight in zip(starts.tolist(), ends.tolist(), weights, strict=True)
    ]
