"""The features of all items in memory, for training and for ranking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["FeatureStore", "ItemFeatureTable"]

_MIN_ROWS: Final = 1024  # no compaction below this size


class ItemFeatureTable:
    """The features and keys of items, indexed by item number.

    Rows are added but never changed. Readers therefore need no lock.
    """

    def __init__(self, dimension: int, dtype: np.dtype[Any], capacity: int = 0) -> None:
        self._rows = np.empty((capacity, dimension), dtype)
        self._row_by_number = np.full(capacity, -1, np.int64)
        self._keys: dict[int, str] = {}
        self._n_rows = 0

    def take(self, numbers: Any) -> NDArray[Any]:
        """Return the features of items.

        For an array of item numbers of shape (...), the result has the shape (..., dimension).
        """
        requested = np.asarray(numbers, np.int64)
        rows = self._row_by_number[requested]
        if (rows < 0).any():
            raise IndexError(f"The item with number {requested[rows < 0][0]} has no features in memory.")
        return np.asarray(self._rows[rows])

    def key(self, number: int) -> str:
        """Return the key of the item with this item number. The item may be deleted."""
        return self._keys[number]

    def __contains__(self, number: int) -> bool:
        return number in self._keys

    def __len__(self) -> int:
        """Return the number of rows. An item number that was added twice has two rows."""
        return self._n_rows

    def _add(self, numbers: Sequence[int], keys: Iterable[str], new: NDArray[Any]) -> None:
        """Add rows.

        The features are written before the row becomes visible to readers. Concurrent readers therefore never get
        an empty row.
        """
        end = self._n_rows + len(new)
        if end > len(self._rows):
            rows = np.empty((max(_MIN_ROWS, end + end // 2), new.shape[1]), new.dtype)
            rows[: self._n_rows] = self._rows[: self._n_rows]
            self._rows = rows
        self._rows[self._n_rows : end] = new
        if max(numbers) >= len(self._row_by_number):
            larger = np.full(max(_MIN_ROWS, 2 * (max(numbers) + 1)), -1, np.int64)
            larger[: len(self._row_by_number)] = self._row_by_number
            self._row_by_number = larger
        self._row_by_number[list(numbers)] = np.arange(self._n_rows, end)
        self._keys.update(zip(numbers, keys, strict=True))
        self._n_rows = end

    def _without(self, purged: set[int]) -> ItemFeatureTable:
        """Return a copy of the table without the given item numbers."""
        remaining = {number: key for number, key in self._keys.items() if number not in purged}
        table = ItemFeatureTable(self._rows.shape[1], self._rows.dtype, len(remaining))
        if remaining:
            table._add(list(remaining), remaining.values(), self.take(list(remaining)))
        return table


class FeatureStore:
    """A thread-safe store for the feature table of a collection. The table is compacted when most rows are unused.

    Parameters
    ----------
    capacity : int
        The expected number of rows.
    """

    def __init__(self, dimension: int, dtype: np.dtype[Any], capacity: int = 0) -> None:
        self.dimension, self.dtype = dimension, dtype
        self.table = ItemFeatureTable(dimension, dtype, capacity)
        self._lock = Lock()
        self._purged: set[int] = set()

    def add(self, numbers: Sequence[int], keys: Iterable[str], data: bytes) -> None:
        """Add features, given as bytes.

        If an item number was added before, the new features replace its old features.
        """
        rows = np.frombuffer(data, self.dtype).reshape(len(numbers), self.dimension)
        with self._lock:
            self._purged.difference_update(numbers)
            self.table._add(numbers, keys, rows)

    def drop(self, numbers: Iterable[int]) -> None:
        """Mark item numbers as unused. When most rows are unused, the used rows are copied to a new table.

        A reader with a reference to the old table can still read all rows.
        """
        with self._lock:
            self._purged.update(number for number in numbers if number in self.table)
            n_used = len(self.table._keys) - len(self._purged)
            if len(self.table) > max(_MIN_ROWS, 2 * n_used):
                self.table, self._purged = self.table._without(self._purged), set()

    def take(self, numbers: Any) -> NDArray[Any]:
        """Return the features of items.

        For an array of item numbers of shape (...), the result has the shape (..., dimension).
        """
        return self.table.take(numbers)

    def key(self, number: int) -> str:
        """Return the key of the item with this item number. The item may be deleted."""
        return self.table.key(number)

    def __len__(self) -> int:
        return len(self.table)
