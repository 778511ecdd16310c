"""Vectors that are quantized to eight bits per number, with an error bound for each vector.

The speed of a search that reads all items once is limited by the memory bandwidth. Quantized items need a quarter
of the memory of float32 items. By the triangle inequality, the distance between a query and a quantized item, minus
the quantization error, is a lower bound of the distance between the query and the item. For inner products, the
Cauchy-Schwarz inequality gives a similar bound. If the lower bound of an item is above the distance of the k-th
nearest item, a search can skip the item. Every item has its own quantization step, so that the bounds are tight for
small and for large values. The step is the largest absolute value of the item divided by 127.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.index.scan_kernels import keep_smallest
from oahu.jit import helper, kernel

__all__ = ["QuantizedItems", "QuantizedQuery"]

Rows = NDArray[np.float32]

_MIN_DIMENSIONS = 128  # shorter vectors are not quantized
_MIN_ITEMS = 2048  # fewer items are not quantized
_STEPS = 127
_SMALLEST = 1e-30  # a vector of smaller numbers is quantized to 0
_ROWS_PER_WRITE = 64  # bytes of a cache line
_BLOCKS = 64  # number of blocks for which the sort values are computed at a time
_U = 2.0**-24  # the unit roundoff of float32
_UNDERFLOW = 1.5e-45  # the largest error of a float32 operation that underflows


class QuantizedItems:
    """Quantized items, stored in blocks with one item per column.

    Attributes
    ----------
    blocks : ndarray of shape (n_blocks, dimensions, width), int8
        The values of each item, divided by the item's quantization step and rounded.
    steps, lengths, errors : ndarray of shape (n_blocks, width), float64
        For every item: the quantization step, the norm of the quantized vector, and an upper bound of the distance
        between the quantized vector and the item.
    """

    def __init__(self, n_blocks: int, dimensions: int, width: int) -> None:
        self.blocks = np.zeros((n_blocks, dimensions, width), np.int8)
        self.steps, self.lengths, self.errors = np.zeros((3, n_blocks, width))

    @staticmethod
    def suits(dimensions: int, count: int) -> bool:
        """Return whether ``count`` vectors with these dimensions are long and numerous enough for quantization."""
        return dimensions > _MIN_DIMENSIONS and count >= _MIN_ITEMS

    def write(self, vectors: Rows, begin: int) -> None:
        """Quantize vectors and store them at the positions from ``begin`` on."""
        rows = np.ascontiguousarray(vectors)
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        _quantize(rows, largest, self.blocks, self.steps, self.lengths, self.errors, begin)

    def query(self, vector: Rows, euclidean: bool) -> QuantizedQuery:
        """Return an object that scans these items for a query vector."""
        return QuantizedQuery(self, vector, euclidean)


class QuantizedQuery:
    """The scan of quantized items for one query.

    The sort value of an item is a lower bound of its squared distance (or of its negative inner product), up to the
    final rounding to float32. The sort value of a hidden item is infinite.
    """

    def __init__(self, items: QuantizedItems, vector: Rows, euclidean: bool) -> None:
        self._items, self._vector, self._euclidean = items, vector, euclidean
        self._square = float(np.square(vector, dtype=np.float64).sum())

    def sort_values(self, hidden: Rows, begin: int, end: int) -> Iterator[tuple[int, Rows]]:
        """Yield the sort values of the items in the blocks ``begin`` to ``end - 1``, in several parts.

        Each part is a tuple of the position of its first item and the array of sort values."""
        items, n_terms = self._items, len(self._vector) + 8
        for first in range(begin, end, _BLOCKS):
            part = slice(first, min(first + _BLOCKS, end))
            sort_values = np.empty((part.stop - first, hidden.shape[1]), np.float32)
            _lower_bounds(
                items.blocks[part],
                items.steps[part],
                items.lengths[part],
                items.errors[part],
                hidden[part],
                self._vector,
                self._euclidean,
                self._square,
                n_terms * _U * self._square**0.5,
                n_terms * _UNDERFLOW,
                sort_values,
            )
            yield first * hidden.shape[1], sort_values.ravel()

    def keep_smallest(
        self, hidden: Rows, begin: int, end: int, sort_values: Rows, positions: NDArray[np.int64]
    ) -> None:
        """Scan the blocks ``begin`` to ``end - 1`` and update the lists ``sort_values`` and ``positions``.

        ``sort_values`` contains the smallest sort values so far in ascending order, and ``positions`` contains the
        positions of these items.
        """
        for first, row in self.sort_values(hidden, begin, end):
            keep_smallest(row, first, sort_values, positions)

    def collect(self, hidden: Rows, highest: float) -> NDArray[np.int64]:
        """Return the positions of all items with sort values up to ``highest``, in ascending order."""
        parts = [
            first + np.flatnonzero((row <= highest) & (row < np.inf))
            for first, row in self.sort_values(hidden, 0, len(hidden))
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


@kernel("exact search")
def _quantize(vectors: Any, largest: Any, blocks: Any, steps: Any, lengths: Any, errors: Any, begin: int) -> None:
    """Quantize the rows of ``vectors`` and store them as columns of ``blocks``.

    Several rows are written at a time, to fill whole cache lines.
    """
    n_features, width = blocks.shape[1], blocks.shape[2]
    quantized = np.empty((_ROWS_PER_WRITE, n_features), np.int8)
    start = 0
    while start < len(vectors):
        block, column = (begin + start) // width, (begin + start) % width
        count = min(_ROWS_PER_WRITE, len(vectors) - start, width - column)
        for i in range(count):
            row, target, most = vectors[start + i], quantized[i], largest[start + i]
            step = np.float64(most) / _STEPS if most > _SMALLEST else 0.0
            per_step = np.float32(_STEPS) / most if most > _SMALLEST else np.float32(0)
            square, square_of_error = 0.0, 0.0
            for j in range(n_features):
                n_steps = np.rint(row[j] * per_step)
                target[j] = np.int8(n_steps)
                difference = np.float64(row[j]) - np.float64(n_steps) * step
                square += np.float64(n_steps) * np.float64(n_steps)
                square_of_error += difference * difference
            at, length = column + i, step * np.sqrt(square)
            steps[block, at], lengths[block, at] = step, length
            errors[block, at] = np.sqrt(square_of_error) * (1 + 1e-9) + 1e-14 * length  # includes float64 rounding
        for j in range(n_features):
            places = blocks[block, j, column : column + count]
            for i in range(count):
                places[i] = quantized[i, j]
        start += count


@helper
def _multiply(block: Any, query: Any, row: Any) -> None:
    """Write the inner products of a query and the columns of a block to ``row``.

    The product with a column is given as a multiple of the quantization step of the column.
    """
    n_features = len(query)
    whole = n_features - n_features % 8
    row[:] = 0
    for j in range(0, whole, 8):
        p, q, r, s = query[j], query[j + 1], query[j + 2], query[j + 3]
        t, u, v, w = query[j + 4], query[j + 5], query[j + 6], query[j + 7]
        a, b, c, d = block[j], block[j + 1], block[j + 2], block[j + 3]
        e, f, g, h = block[j + 4], block[j + 5], block[j + 6], block[j + 7]
        for i in range(len(row)):
            left = (p * np.float32(a[i]) + q * np.float32(b[i])) + (r * np.float32(c[i]) + s * np.float32(d[i]))
            right = (t * np.float32(e[i]) + u * np.float32(f[i])) + (v * np.float32(g[i]) + w * np.float32(h[i]))
            row[i] += left + right
    for j in range(whole, n_features):
        p, a = query[j], block[j]
        for i in range(len(row)):
            row[i] += p * np.float32(a[i])


@kernel("exact search")
def _lower_bounds(
    blocks: Any,
    steps: Any,
    lengths: Any,
    errors: Any,
    hidden: Any,
    query: Any,
    euclidean: bool,
    square: float,
    rounding: float,
    underflow: float,
    sort_values: Any,
) -> None:
    """Write the sort values of all items to ``sort_values``.

    Inner products are computed in float32, all other intermediate results in float64.

    The error of a float32 sum of n products is at most (n + 1) u times the sum of the absolute values of the
    products, with u = 2^-24. The sum of the absolute values is at most the product of the norms of item and query.
    ``rounding`` is the error bound for an item with norm 1.
    """
    for block in range(len(blocks)):
        row = sort_values[block]
        _multiply(blocks[block], query, row)
        for i in range(len(row)):
            step, length, error = steps[block, i], lengths[block, i], errors[block, i]
            product = step * (np.float64(row[i]) + underflow) + rounding * length  # an upper bound
            if euclidean:
                distance = np.sqrt(max(square + length * length - 2 * product, 0.0)) - error
                row[i] = hidden[block, i] + np.float32(max(distance, 0.0) * max(distance, 0.0))
            else:
                row[i] = hidden[block, i] - np.float32(product + np.sqrt(square) * error)
