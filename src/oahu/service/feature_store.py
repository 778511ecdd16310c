"""Features by number, in memory: what the learner learns from and the searcher ranks by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["FeatureStore", "FeatureTable"]

_FEW: Final = 1024  # rows: not worth making room


class FeatureTable:
    """Features and keys by number. What was ever in it stays in it: whoever holds it can rely on that."""

    def __init__(self, dimension: int, dtype: np.dtype[Any], room: int = 0) -> None:
        self._rows = np.empty((room, dimension), dtype)
        self._row_of = np.full(room, -1, np.int64)
        self._names: dict[int, str] = {}
        self._n = 0

    def take(self, numbers: Any) -> NDArray[Any]:
        """The features of items: (n,) numbers to (n, dimension), of any shape before the last axis."""
        asked = np.asarray(numbers, np.int64)
        places = self._row_of[asked]
        if (places < 0).any():
            raise IndexError(f"There are no features of {asked[places < 0][0]}.")
        return np.asarray(self._rows[places])

    def name(self, number: int) -> str:
        """The key that an item has, or had."""
        return self._names[number]

    def __contains__(self, number: int) -> bool:
        return number in self._names

    def __len__(self) -> int:
        """How many rows there are, also of numbers that were given again."""
        return self._n

    def _add(self, numbers: Sequence[int], keys: Iterable[str], new: NDArray[Any]) -> None:
        """More rows. Who reads meanwhile finds what was there: a place is told when its row is."""
        end = self._n + len(new)
        if end > len(self._rows):
            rows = np.empty((max(_FEW, end + end // 2), new.shape[1]), new.dtype)
            rows[: self._n] = self._rows[: self._n]
            self._rows = rows
        self._rows[self._n : end] = new
        if max(numbers) >= len(self._row_of):
            row_of = np.full(max(_FEW, 2 * (max(numbers) + 1)), -1, np.int64)
            row_of[: len(self._row_of)] = self._row_of
            self._row_of = row_of
        self._row_of[list(numbers)] = np.arange(self._n, end)
        self._names.update(zip(numbers, keys, strict=True))
        self._n = end

    def _without(self, gone: set[int]) -> FeatureTable:
        """A table without some numbers, in memory of its own."""
        left = {number: key for number, key in self._names.items() if number not in gone}
        made = FeatureTable(self._rows.shape[1], self._rows.dtype, len(left))
        if left:
            made._add(list(left), left.values(), self.take(list(left)))
        return made


class FeatureStore:
    """The table of a collection, in which nothing stays that nobody needs. Safe with threads.

    Parameters
    ----------
    room : int
        How many rows are to come, about.
    """

    def __init__(self, dimension: int, dtype: np.dtype[Any], room: int = 0) -> None:
        self.dimension, self.dtype = dimension, dtype
        self.table = FeatureTable(dimension, dtype, room)
        self._changing = Lock()
        self._gone: set[int] = set()

    def add(self, numbers: Sequence[int], keys: Sequence[str], data: bytes) -> None:
        """Features, row behind row."""
        new = np.frombuffer(data, self.dtype).reshape(len(numbers), self.dimension)
        with self._changing:
            self._gone.difference_update(numbers)
            self.table._add(numbers, keys, new)

    def drop(self, numbers: Iterable[int]) -> None:
        """Nobody will ask for these again. Once most rows are of such, the others move to a new table.

        Whoever holds the old one still finds all of them there.
        """
        with self._changing:
            self._gone.update(number for number in numbers if number in self.table)
            n_needed = len(self.table._names) - len(self._gone)
            if len(self.table) > max(_FEW, 2 * n_needed):
                self.table, self._gone = self.table._without(self._gone), set()

    def take(self, numbers: Any) -> NDArray[Any]:
        """The features of items: (n,) numbers to (n, dimension), of any shape before the last axis."""
        return self.table.take(numbers)

    def name(self, number: int) -> str:
        """The key that an item has, or had."""
        return self.table.name(number)

    def __len__(self) -> int:
        return len(self.table)
