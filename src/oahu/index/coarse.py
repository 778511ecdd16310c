"""Vectors rounded to eight bits a number, and how far each of them was rounded.

A search that looks at all items once takes as long as reading them does. Rounded, they are a quarter of that. By
the triangle inequality (for products: by Cauchy and Schwarz) an item is as far from a query as what it was rounded
to, less how far that is from it, or farther. So an item for which even this is farther than the k-th nearest need
not be looked at. Every item has its own step, its largest number in 127 parts: rounding then leaves few beside the
nearest, whatever the items are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.index.scan import keep
from oahu.jit import kernel

__all__ = ["Asked", "Coarse"]

Rows = NDArray[np.float32]

_LONG = 128  # shorter vectors are read as they are
_MANY = 2048  # items; fewer are soon read
_STEPS = 127
_SMALLEST = 1e-30  # a vector of smaller numbers is rounded to 0
_TOGETHER = 64  # rows of a cache line's columns
_BLOCKS = 64  # whose keys are there at a time
_U = 2.0**-24  # how far float32 rounds
_TINIEST = 1.5e-45  # and what it may lose where it is coarsest


class Coarse:
    """Rounded items, as columns of blocks.

    Attributes
    ----------
    blocks : ndarray of shape (n_blocks, dimensions, width), int8
        How many steps each number is.
    steps, lengths, off : ndarray of shape (n_blocks, width), float64
        Of every item: its step, the length of what it was rounded to, and how far that is from it at most.
    """

    def __init__(self, n_blocks: int, dimensions: int, width: int) -> None:
        self.blocks = np.zeros((n_blocks, dimensions, width), np.int8)
        self.steps, self.lengths, self.off = np.zeros((3, n_blocks, width))

    @staticmethod
    def suits(dimensions: int, count: int) -> bool:
        """Whether vectors of so many dimensions are long enough to be rounded, and so many enough."""
        return dimensions > _LONG and count >= _MANY

    def write(self, vectors: Rows, begin: int) -> None:
        """Round vectors, and put them where the items from ``begin`` on are."""
        rows = np.ascontiguousarray(vectors)
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        _round(rows, largest, self.blocks, self.steps, self.lengths, self.off, begin)

    def asked(self, query: Rows, euclidean: bool) -> Asked:
        """A query to pass over the items with."""
        return Asked(self, query, euclidean)


class Asked:
    """A query, and passes over rounded items for it.

    An item's key is how far it is at least, squared (or minus the most that its product can be), up to float32's
    last rounding; infinity if it is ``hidden``.
    """

    def __init__(self, items: Coarse, query: Rows, euclidean: bool) -> None:
        self._items, self._query, self._euclidean = items, query, euclidean
        self._square = float(np.square(query, dtype=np.float64).sum())

    def keys(self, hidden: Rows, begin: int, end: int) -> Iterator[tuple[int, Rows]]:
        """The keys of the blocks ``begin`` to ``end``, some at a time, and the position of the first of each."""
        items, n_summed = self._items, len(self._query) + 8
        for first in range(begin, end, _BLOCKS):
            some = slice(first, min(first + _BLOCKS, end))
            keys = np.empty((some.stop - first, hidden.shape[1]), np.float32)
            _measure(
                items.blocks[some],
                items.steps[some],
                items.lengths[some],
                items.off[some],
                hidden[some],
                self._query,
                self._euclidean,
                self._square,
                n_summed * _U * self._square**0.5,
                n_summed * _TINIEST,
                keys,
            )
            yield first * hidden.shape[1], keys.ravel()

    def keep(self, hidden: Rows, begin: int, end: int, keys: Rows, positions: NDArray[np.int64]) -> None:
        """Keep the smallest keys of the blocks ``begin`` to ``end``."""
        for first, row in self.keys(hidden, begin, end):
            keep(row, first, keys, positions)

    def collect(self, hidden: Rows, highest: float) -> NDArray[np.int64]:
        """All items with keys up to ``highest``, in order."""
        parts = [
            first + np.flatnonzero((row <= highest) & (row < np.inf))
            for first, row in self.keys(hidden, 0, len(hidden))
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


@kernel
def _round(vectors: Any, largest: Any, blocks: Any, steps: Any, lengths: Any, off: Any, begin: int) -> None:
    """Write rows as columns of whole steps; some at a time, so that what is written lies together."""
    n_features, width = blocks.shape[1], blocks.shape[2]
    rounded = np.empty((_TOGETHER, n_features), np.int8)
    start = 0
    while start < len(vectors):
        block, column = (begin + start) // width, (begin + start) % width
        count = min(_TOGETHER, len(vectors) - start, width - column)
        for i in range(count):
            row, into, most = vectors[start + i], rounded[i], largest[start + i]
            step = np.float64(most) / _STEPS if most > _SMALLEST else 0.0
            per_step = np.float32(_STEPS) / most if most > _SMALLEST else np.float32(0)
            square, lost = 0.0, 0.0
            for j in range(n_features):
                n_steps = np.rint(row[j] * per_step)
                into[j] = np.int8(n_steps)
                gap = np.float64(row[j]) - np.float64(n_steps) * step
                square += np.float64(n_steps) * np.float64(n_steps)
                lost += gap * gap
            at, length = column + i, step * np.sqrt(square)
            steps[block, at], lengths[block, at] = step, length
            off[block, at] = np.sqrt(lost) * (1 + 1e-9) + 1e-14 * length  # and what float64 rounds
        for j in range(n_features):
            places = blocks[block, j, column : column + count]
            for i in range(count):
                places[i] = rounded[i, j]
        start += count


@kernel
def _multiply(block: Any, query: Any, row: Any) -> None:
    """The products of a block's columns, in steps, with a query."""
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


@kernel
def _measure(
    blocks: Any,
    steps: Any,
    lengths: Any,
    off: Any,
    hidden: Any,
    query: Any,
    euclidean: bool,
    square: float,
    rounding: float,
    tiniest: float,
    keys: Any,
) -> None:
    """The keys of all items: products in float32, the rest in float64.

    A float32 sum of n products is off by at most (n + 1) u, u = 2^-24, times the sum of their sizes, which is at
    most the product of the lengths: ``rounding`` is that for an item of length 1.
    """
    for block in range(len(blocks)):
        row = keys[block]
        _multiply(blocks[block], query, row)
        for i in range(len(row)):
            step, length = steps[block, i], lengths[block, i]
            product = step * (np.float64(row[i]) + tiniest) + rounding * length  # at most
            if euclidean:
                apart = np.sqrt(max(square + length * length - 2 * product, 0.0)) - off[block, i]
                row[i] = hidden[block, i] + np.float32(max(apart, 0.0) * max(apart, 0.0))
            else:
                row[i] = hidden[block, i] - np.float32(product + np.sqrt(square) * off[block, i])
