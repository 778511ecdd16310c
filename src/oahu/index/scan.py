"""The compiled passes of exact search: over all items in float32, over the few that are left in float64.

Items stand in blocks of shape (n_blocks, dimensions, width): an item is a column. So a pass over them is a sum of
long rows, which needs no horizontal additions. It computes keys that order items as their distances do: the squared
Euclidean distance, or minus the inner product. The former is a sum of squared differences and not a product and two
lengths, which would cancel: where a metric has drawn a class together, float32 could not tell its items apart. An
item's key begins with 0, or with infinity if it is hidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel

__all__ = [
    "GROUP",
    "STRIP",
    "TILE",
    "collect",
    "keep",
    "keep_smallest",
    "measure",
    "pass_over",
    "pass_together",
    "put",
    "settle",
    "squares_of",
]

#: Blocks are a multiple of this wide: so many keys are looked at together.
STRIP = 64

#: Columns of a pass for a group of queries: their features stay near. Wider blocks are a multiple of it wide.
TILE = 512

#: So many queries share what is read of the items.
GROUP = 4

_TOGETHER = 16  # rows of a cache line's columns
_STRETCH = 1024  # columns of a pass for one query: their keys and a row of four features stay in the first cache


@kernel
def squares_of(columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """The squares of the columns' lengths."""
    squares = np.zeros(columns.shape[1], np.float32)
    for j in range(columns.shape[0]):
        row = columns[j]
        for i in range(len(squares)):
            squares[i] += row[i] * row[i]
    return squares


@kernel
def put(vectors: NDArray[np.float32], blocks: NDArray[np.float32], begin: int) -> None:
    """Write rows as the columns from ``begin`` on; some at a time, so that what is written lies together."""
    n_features, width = blocks.shape[1], blocks.shape[2]
    start = 0
    while start < len(vectors):
        block, column = (begin + start) // width, (begin + start) % width
        count = min(_TOGETHER, len(vectors) - start, width - column)
        for j in range(n_features):
            row = blocks[block, j, column : column + count]
            for i in range(count):
                row[i] = vectors[start + i, j]
        start += count


@kernel
def _insert(keys: Any, positions: Any, key: Any, position: Any) -> Any:
    """Put an item into a row of the smallest keys so far, sorted; returns the largest of them."""
    at = len(keys) - 1
    while at > 0 and keys[at - 1] > key:
        keys[at] = keys[at - 1]
        positions[at] = positions[at - 1]
        at -= 1
    keys[at] = key
    positions[at] = position
    return keys[len(keys) - 1]


@kernel
def keep(row: NDArray[np.float32], first: int, keys: NDArray[np.float32], positions: NDArray[np.int64]) -> None:
    """Keep the smallest of a row of keys; most strips hold none, and one look tells."""
    worst = keys[len(keys) - 1]
    for start in range(0, len(row), STRIP):
        strip = row[start : start + STRIP]
        better = np.int32(0)
        for i in range(STRIP):
            better += np.int32(strip[i] < worst)
        if better:
            for i in range(STRIP):
                if strip[i] < worst:
                    worst = _insert(keys, positions, strip[i], first + start + i)


@kernel
def _far_from_one(block: Any, start: Any, query: Any, row: Any) -> None:
    """Add to each column's key its squared distance from a query."""
    stop, n_features = start + len(row), len(query)
    whole = n_features - n_features % 4
    for j in range(0, whole, 4):
        q0, q1, q2, q3 = query[j], query[j + 1], query[j + 2], query[j + 3]
        x, y, z, u = (
            block[j, start:stop],
            block[j + 1, start:stop],
            block[j + 2, start:stop],
            block[j + 3, start:stop],
        )
        for i in range(len(row)):
            p, r, s, t = q0 - x[i], q1 - y[i], q2 - z[i], q3 - u[i]
            row[i] += (p * p + r * r) + (s * s + t * t)
    for j in range(whole, n_features):
        q0, x = query[j], block[j, start:stop]
        for i in range(len(row)):
            row[i] += (q0 - x[i]) * (q0 - x[i])


@kernel
def _unlike_one(block: Any, start: Any, query: Any, row: Any) -> None:
    """Subtract from each column's key its product with a query."""
    stop, n_features = start + len(row), len(query)
    whole = n_features - n_features % 4
    for j in range(0, whole, 4):
        q0, q1, q2, q3 = query[j], query[j + 1], query[j + 2], query[j + 3]
        x, y, z, u = (
            block[j, start:stop],
            block[j + 1, start:stop],
            block[j + 2, start:stop],
            block[j + 3, start:stop],
        )
        for i in range(len(row)):
            row[i] -= (q0 * x[i] + q1 * y[i]) + (q2 * z[i] + q3 * u[i])
    for j in range(whole, n_features):
        q0, x = query[j], block[j, start:stop]
        for i in range(len(row)):
            row[i] -= q0 * x[i]


@kernel
def _far_from_group(block: Any, start: Any, queries: Any, rows: Any) -> None:
    """Add to each column's keys its squared distances from a group of queries, who share what is read."""
    stop, n_features = start + rows.shape[1], queries.shape[1]
    whole = n_features - n_features % 4
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    for j in range(0, whole, 4):
        x, y, z, u = (
            block[j, start:stop],
            block[j + 1, start:stop],
            block[j + 2, start:stop],
            block[j + 3, start:stop],
        )
        a0, a1, a2, a3 = queries[0, j], queries[0, j + 1], queries[0, j + 2], queries[0, j + 3]
        b0, b1, b2, b3 = queries[1, j], queries[1, j + 1], queries[1, j + 2], queries[1, j + 3]
        c0, c1, c2, c3 = queries[2, j], queries[2, j + 1], queries[2, j + 2], queries[2, j + 3]
        d0, d1, d2, d3 = queries[3, j], queries[3, j + 1], queries[3, j + 2], queries[3, j + 3]
        for i in range(rows.shape[1]):
            xi, yi, zi, ui = x[i], y[i], z[i], u[i]
            p, q, r, s = a0 - xi, a1 - yi, a2 - zi, a3 - ui
            a[i] += (p * p + q * q) + (r * r + s * s)
            p, q, r, s = b0 - xi, b1 - yi, b2 - zi, b3 - ui
            b[i] += (p * p + q * q) + (r * r + s * s)
            p, q, r, s = c0 - xi, c1 - yi, c2 - zi, c3 - ui
            c[i] += (p * p + q * q) + (r * r + s * s)
            p, q, r, s = d0 - xi, d1 - yi, d2 - zi, d3 - ui
            d[i] += (p * p + q * q) + (r * r + s * s)
    for j in range(whole, n_features):
        x = block[j, start:stop]
        a0, b0, c0, d0 = queries[0, j], queries[1, j], queries[2, j], queries[3, j]
        for i in range(rows.shape[1]):
            a[i] += (a0 - x[i]) * (a0 - x[i])
            b[i] += (b0 - x[i]) * (b0 - x[i])
            c[i] += (c0 - x[i]) * (c0 - x[i])
            d[i] += (d0 - x[i]) * (d0 - x[i])


@kernel
def _unlike_group(block: Any, start: Any, queries: Any, rows: Any) -> None:
    """Subtract from each column's keys its products with a group of queries, who share what is read."""
    stop, n_features = start + rows.shape[1], queries.shape[1]
    whole = n_features - n_features % 4
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    for j in range(0, whole, 4):
        x, y, z, u = (
            block[j, start:stop],
            block[j + 1, start:stop],
            block[j + 2, start:stop],
            block[j + 3, start:stop],
        )
        a0, a1, a2, a3 = queries[0, j], queries[0, j + 1], queries[0, j + 2], queries[0, j + 3]
        b0, b1, b2, b3 = queries[1, j], queries[1, j + 1], queries[1, j + 2], queries[1, j + 3]
        c0, c1, c2, c3 = queries[2, j], queries[2, j + 1], queries[2, j + 2], queries[2, j + 3]
        d0, d1, d2, d3 = queries[3, j], queries[3, j + 1], queries[3, j + 2], queries[3, j + 3]
        for i in range(rows.shape[1]):
            xi, yi, zi, ui = x[i], y[i], z[i], u[i]
            a[i] -= (a0 * xi + a1 * yi) + (a2 * zi + a3 * ui)
            b[i] -= (b0 * xi + b1 * yi) + (b2 * zi + b3 * ui)
            c[i] -= (c0 * xi + c1 * yi) + (c2 * zi + c3 * ui)
            d[i] -= (d0 * xi + d1 * yi) + (d2 * zi + d3 * ui)
    for j in range(whole, n_features):
        x = block[j, start:stop]
        a0, b0, c0, d0 = queries[0, j], queries[1, j], queries[2, j], queries[3, j]
        for i in range(rows.shape[1]):
            a[i] -= a0 * x[i]
            b[i] -= b0 * x[i]
            c[i] -= c0 * x[i]
            d[i] -= d0 * x[i]


@kernel
def _group_keys(block: Any, hidden: Any, start: Any, queries: Any, euclidean: Any, rows: Any) -> None:
    """The keys of a tile's columns for a group of queries."""
    for i in range(GROUP):
        rows[i, :] = hidden[start : start + rows.shape[1]]
    if euclidean:
        _far_from_group(block, start, queries, rows)
    else:
        _unlike_group(block, start, queries, rows)


@kernel
def pass_over(
    blocks: NDArray[np.float32],
    hidden: NDArray[np.float32],
    begin: int,
    end: int,
    query: NDArray[np.float32],
    euclidean: bool,
    keys: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """Keep the smallest keys of the blocks ``begin`` to ``end`` for one query, reading every item once."""
    width = blocks.shape[2]
    sums = np.empty(min(width, _STRETCH), np.float32)
    for block in range(begin, end):
        for start in range(0, width, _STRETCH):
            row = sums[: min(_STRETCH, width - start)]
            row[:] = hidden[block, start : start + len(row)]
            if euclidean:
                _far_from_one(blocks[block], start, query, row)
            else:
                _unlike_one(blocks[block], start, query, row)
            keep(row, block * width + start, keys, positions)


@kernel
def pass_together(
    blocks: NDArray[np.float32],
    hidden: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    keys: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """Keep the smallest keys of all items for each query; the number of queries is a multiple of `GROUP`."""
    width = blocks.shape[2]
    rows = np.empty((GROUP, min(width, TILE)), np.float32)
    for block in range(len(hidden)):
        for start in range(0, width, rows.shape[1]):
            for group in range(0, len(queries), GROUP):
                _group_keys(blocks[block], hidden[block], start, queries[group : group + GROUP], euclidean, rows)
                for i in range(GROUP):
                    keep(rows[i], block * width + start, keys[group + i], positions[group + i])


@kernel
def collect(
    blocks: NDArray[np.float32],
    hidden: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    highest: NDArray[np.float64],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Find all items with keys up to ``highest``, in order; more than ``found`` has room for are only counted.

    The number of queries is a multiple of `GROUP`. An item that is hidden is not found.
    """
    width = blocks.shape[2]
    rows = np.empty((GROUP, min(width, TILE)), np.float32)
    for block in range(len(hidden)):
        for start in range(0, width, rows.shape[1]):
            for group in range(0, len(queries), GROUP):
                _group_keys(blocks[block], hidden[block], start, queries[group : group + GROUP], euclidean, rows)
                for i in range(GROUP):
                    row, query = rows[i], group + i
                    for column in range(len(row)):
                        if row[column] <= highest[query] and row[column] < np.inf:
                            if counts[query] < found.shape[1]:
                                found[query, counts[query]] = block * width + start + column
                            counts[query] += 1


@kernel
def keep_smallest(
    products: NDArray[np.float32],
    bias: NDArray[np.float32],
    first: int,
    keys: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """Keep the smallest keys of a block for each query, from their products with it, which become the keys."""
    for query in range(len(products)):
        row = products[query]
        for i in range(len(row)):
            row[i] = bias[i] - row[i]
        keep(row, first, keys[query], positions[query])


@kernel
def measure(
    blocks: NDArray[np.float32],
    query: NDArray[np.float32],
    euclidean: bool,
    positions: NDArray[np.int64],
    apart: NDArray[np.float64],
) -> None:
    """Squared Euclidean distances, or minus the inner products, in float64; infinity where the position is -1."""
    n_features, width = blocks.shape[1], blocks.shape[2]
    for i in range(len(positions)):
        far = np.inf
        if positions[i] >= 0:
            item = blocks[positions[i] // width, :, positions[i] % width]
            far = 0.0
            if euclidean:
                for j in range(n_features):
                    gap = np.float64(query[j]) - np.float64(item[j])
                    far += gap * gap
            else:
                for j in range(n_features):
                    far -= np.float64(query[j]) * np.float64(item[j])
        apart[i] = far


@kernel
def settle(
    blocks: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    positions: NDArray[np.int64],
    apart: NDArray[np.float64],
) -> None:
    """Measure each query's candidates and sort them, nearest first, ties by position."""
    for query in range(len(queries)):
        places, far = positions[query], apart[query]
        measure(blocks, queries[query], euclidean, places, far)
        for i in range(1, len(places)):
            place, here, at = places[i], far[i], i
            while at > 0 and (far[at - 1] > here or (far[at - 1] == here and places[at - 1] > place)):
                far[at], places[at] = far[at - 1], places[at - 1]
                at -= 1
            far[at], places[at] = here, place
