"""Features by number, in memory: what the learner learns from and the searcher ranks by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vectors"]


class Vectors:
    """A table that grows. One thread adds; others may read what was there when they looked."""

    def __init__(self, dimension: int, dtype: np.dtype[Any]) -> None:
        self.dimension, self.dtype = dimension, dtype
        self._rows = np.empty((0, dimension), dtype)
        self._row_of = np.full(0, -1, np.int64)
        self._names: dict[int, str] = {}
        self._n = 0

    def add(self, numbers: Sequence[int], keys: Sequence[str], data: bytes) -> None:
        new = np.frombuffer(data, self.dtype).reshape(len(numbers), self.dimension)
        end = self._n + len(new)
        if end > len(self._rows):
            rows = np.empty((max(1024, end + end // 2), self.dimension), self.dtype)
            rows[: self._n] = self._rows[: self._n]
            self._rows = rows
        self._rows[self._n : end] = new
        if max(numbers) >= len(self._row_of):
            row_of = np.full(max(1024, 2 * (max(numbers) + 1)), -1, np.int64)
            row_of[: len(self._row_of)] = self._row_of
            self._row_of = row_of
        self._row_of[list(numbers)] = np.arange(self._n, end)
        self._names.update(zip(numbers, keys, strict=True))
        self._n = end

    def take(self, numbers: Any) -> NDArray[Any]:
        """The features of items: (n,) numbers to (n, dimension), of any shape before the last axis."""
        places = self._row_of[np.asarray(numbers, np.int64)]
        if (places < 0).any():
            raise IndexError(f"There are no features of {numbers!r}.")
        return np.asarray(self._rows[places])

    def name(self, number: int) -> str:
        """The key that an item has, or had."""
        return self._names[number]

    def __len__(self) -> int:
        return self._n
