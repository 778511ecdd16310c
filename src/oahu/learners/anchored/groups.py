"""Groups: clicks of at most sixteen items, in batches without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Clicks
from oahu.io.model_files import Content

__all__ = ["MAX_ITEMS", "Groups", "groups_from_arrays", "groups_of", "groups_to_arrays"]

Floats = NDArray[np.floating]

#: The largest number of items of a group, including the query.
MAX_ITEMS: Final = 16

_SHOWN_WEIGHT: Final = 0.3  # of a shown item without a mark, relative to a marked item


@dataclass(frozen=True, eq=False)
class Groups:
    """A batch of groups. Each group has a query, and items that are alike or not alike.

    Attributes
    ----------
    offsets : ndarray of int64, of shape (n + 1,)
        The items of group i have the numbers ``offsets[i]`` to ``offsets[i + 1] - 1``. The first one is the query.
    rows : ndarray of int64, of shape (n_items,)
        The row number of each item in the learner's feature table, or -1 for an item that is no row of the table.
    vector_offsets : ndarray of int64, of shape (n + 1,)
        The vectors of group i are ``vectors[vector_offsets[i] : vector_offsets[i + 1]]``.
    vectors : ndarray of shape (n_vectors, d)
        The features of the items that are no rows of the table, in the order of the items.
    marks : ndarray of float32, of shape (n_items,)
        Positive for items that are alike, negative for items that are not alike. The absolute value is the weight.
        The mark of a query is 1.
    weights : ndarray of float32, of shape (n,)
        The weight of each group, in (0, 1].
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    vector_offsets: NDArray[np.int64]
    vectors: Floats
    marks: NDArray[np.float32]
    weights: NDArray[np.float32]

    @classmethod
    def of(
        cls, sizes: Any, rows: NDArray[np.int64], vectors: Floats, marks: NDArray[np.float32], weights: Any
    ) -> Self:
        """Return groups with these numbers of items."""
        offsets = _offsets(sizes)
        return cls(offsets, rows, _offsets(rows < 0)[offsets], vectors, marks, np.asarray(weights, np.float32))

    @classmethod
    def joined(cls, parts: Sequence[Groups]) -> Groups:
        """Return one batch with the groups of all parts."""
        if len(parts) == 1:
            return parts[0]
        return cls.of(
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.vectors for part in parts]),
            np.concatenate([part.marks for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of items of each group."""
        return np.diff(self.offsets)

    def cut(self, start: int, stop: int) -> Groups:
        """Return the groups from ``start`` to ``stop - 1``."""
        offsets, vector_offsets = self.offsets[start : stop + 1], self.vector_offsets[start : stop + 1]
        items, vectors = slice(offsets[0], offsets[-1]), slice(vector_offsets[0], vector_offsets[-1])
        return Groups(
            offsets - offsets[0],
            self.rows[items],
            vector_offsets - vector_offsets[0],
            self.vectors[vectors],
            self.marks[items],
            self.weights[start:stop],
        )

    def copy(self) -> Groups:
        """Return groups that share no memory with these groups."""
        return Groups(*(getattr(self, name).copy() for name in self.__dataclass_fields__))

    def pad(self, items: NDArray[Any]) -> NDArray[Any]:
        """Return an array of shape (n, m, ...), where m is the largest number of items of a group.

        ``items`` has a row for each item of the groups. The padding is 0.
        """
        sizes = self.sizes
        m = int(sizes.max())
        if (sizes == m).all():
            return items.reshape(len(sizes), m, *items.shape[1:])
        array = np.zeros((len(sizes), m, *items.shape[1:]), items.dtype)
        array[np.arange(m) < sizes[:, None]] = items
        return array

    def padded_marks(self) -> NDArray[np.float32]:
        """Return the marks as an array of shape (n, m). The mark of padding is 0."""
        return self.pad(self.marks)


def groups_of(clicks: Clicks, values: Floats, start: int, stop: int, by_row: bool) -> Groups:
    """Return the groups of the clicks from ``start`` to ``stop - 1``.

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
    offsets = clicks.offsets[start : stop + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    offsets, sizes = offsets - first, np.diff(offsets)
    marks = clicks.marks[first:last].astype(np.float32)
    n_alike = np.add.reduceat(marks > 0, offsets[:-1], dtype=np.int64)
    shown = np.where(n_alike > 1, -_SHOWN_WEIGHT, _SHOWN_WEIGHT).astype(np.float32)
    marks = np.where(marks == 0, np.repeat(shown, sizes), marks)
    rows = np.maximum(clicks.refs[first:last], -1) if by_row else np.full(last - first, -1)
    weights = clicks.weights[start:stop]
    n_parts = -(-(sizes - 1) // (MAX_ITEMS - 1))
    if n_parts.max() > 1:
        places = [
            np.r_[begin, np.arange(begin + 1 + part, begin + size, n)]
            for begin, size, n in zip(offsets.tolist(), sizes.tolist(), n_parts.tolist(), strict=False)
            for part in range(n)
        ]
        chosen = np.concatenate(places)
        sizes = np.array([len(place) for place in places])
        rows, marks, values, weights = rows[chosen], marks[chosen], values[chosen], np.repeat(weights, n_parts)
    return Groups.of(sizes, rows.astype(np.int64, copy=False), values[rows < 0], marks, weights)


def groups_to_arrays(groups: Groups | None, n_features: int, dtype: np.dtype[Any]) -> dict[str, NDArray[Any]]:
    """Return the arrays that store groups in a model file."""
    if groups is None:
        none = np.zeros(0, np.int64)
        groups = Groups.of(none, none, np.zeros((0, n_features), dtype), none.astype(np.float32), none)
    return {
        "group_sizes": groups.sizes,
        "group_rows": groups.rows,
        "group_marks": groups.marks,
        "group_weights": groups.weights,
        "group_vectors": groups.vectors,
    }


def groups_from_arrays(content: Content, n_features: int, dtype: np.dtype[Any]) -> Groups | None:
    """Return the groups in a model file, or None if there are none.

    Raise ValueError if the arrays do not fit together.
    """
    sizes = content.array("group_sizes", (None,), np.dtype(np.int64))
    rows = content.array("group_rows", (None,), np.dtype(np.int64))
    marks = content.array("group_marks", rows.shape, np.dtype(np.float32))
    weights = content.array("group_weights", sizes.shape, np.dtype(np.float32))
    vectors = content.array("group_vectors", (None, n_features), dtype)
    if (sizes < 2).any() or (sizes > MAX_ITEMS).any() or sizes.sum() != len(rows):
        raise ValueError("the sizes of the stored groups do not fit their items")
    if (rows < -1).any() or np.count_nonzero(rows == -1) != len(vectors):
        raise ValueError("the stored vectors do not fit the stored groups")
    if not ((weights > 0) & (weights <= 1)).all() or not ((marks != 0) & (abs(marks) <= 1)).all():
        raise ValueError("the marks or the weights of the stored groups are not valid")
    return Groups.of(sizes, rows, vectors, marks, weights).copy() if len(sizes) else None


def _offsets(sizes: Any) -> NDArray[np.int64]:
    """Return the start of each part in a flat array, and the end of the last part."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
