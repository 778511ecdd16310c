"""Compiled functions of the exact search: scans of all items in float32, and distances of candidates in float64.

Items are stored in blocks of shape (n_blocks, dimensions, width), with one item per column. A scan therefore adds
up long rows, which is fast with the processor's vector instructions. A scan computes a sort value for each item:
the squared Euclidean distance, or the negative inner product. The order by sort value is the order by distance. The
squared distance is computed as a sum of squared differences. The usual expansion into an inner product and two
squared norms would be inaccurate for near items, because the terms cancel each other and float32 has few digits.
The sort value of an item starts at 0, or at infinity if the item is hidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import helper, kernel

__all__ = [
    "GROUP",
    "STRIP",
    "TILE",
    "collect_below",
    "keep_smallest",
    "keep_smallest_products",
    "measure_and_sort",
    "measure_each",
    "scan_groups",
    "scan_one",
    "squared_lengths",
    "write_columns",
]

#: Number of sort values that are compared together. The width of a block is a multiple of `STRIP`.
STRIP = 64

#: Number of columns that a group of queries scans at a time. These columns fit into the cache. The width of a block
#: with more columns is a multiple of `TILE`.
TILE = 512

#: Number of queries that share each read of the items.
GROUP = 4

_ROWS_PER_WRITE = 16  # numbers of a cache line
_COLUMNS = 1024  # columns that one query scans at a time: sort values and four features fit into the L1 cache


@kernel("exact search")
def squared_lengths(columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the squared norm of each column."""
    squares = np.zeros(columns.shape[1], np.float32)
    for j in range(columns.shape[0]):
        row = columns[j]
        for i in range(len(squares)):
            squares[i] += row[i] * row[i]
    return squares


@kernel("exact search")
def write_columns(vectors: NDArray[np.float32], blocks: NDArray[np.float32], begin: int) -> None:
    """Write the rows of ``vectors`` to the columns of ``blocks``, starting at the position ``begin``.

    Several rows are written at a time, to fill whole cache lines.
    """
    n_features, width = blocks.shape[1], blocks.shape[2]
    start = 0
    while start < len(vectors):
        block, column = (begin + start) // width, (begin + start) % width
        count = min(_ROWS_PER_WRITE, len(vectors) - start, width - column)
        for j in range(n_features):
            row = blocks[block, j, column : column + count]
            for i in range(count):
                row[i] = vectors[start + i, j]
        start += count


@helper
def _insert(sort_values: Any, positions: Any, sort_value: Any, position: Any) -> Any:
    """Insert a sort value into ``sort_values``, the ascending list of the smallest sort values.

    The largest value is removed from the list. Return the new largest value.
    """
    at = len(sort_values) - 1
    while at > 0 and sort_values[at - 1] > sort_value:
        sort_values[at] = sort_values[at - 1]
        positions[at] = positions[at - 1]
        at -= 1
    sort_values[at] = sort_value
    positions[at] = position
    return sort_values[len(sort_values) - 1]


@helper
def _keep_smallest(
    row: NDArray[np.float32], first: int, sort_values: NDArray[np.float32], positions: NDArray[np.int64]
) -> None:
    """Insert a row of sort values into the list of smallest ``sort_values``.

    Most strips of a row contain no small value. Such strips are skipped after one vectorised comparison.
    """
    worst = sort_values[len(sort_values) - 1]
    for start in range(0, len(row), STRIP):
        strip = row[start : start + STRIP]
        better = np.int32(0)
        for i in range(STRIP):
            better += np.int32(strip[i] < worst)
        if better:
            for i in range(STRIP):
                if strip[i] < worst:
                    worst = _insert(sort_values, positions, strip[i], first + start + i)


@kernel("exact search")
def keep_smallest(
    row: NDArray[np.float32], first: int, sort_values: NDArray[np.float32], positions: NDArray[np.int64]
) -> None:
    """Insert a row of sort values into the list of smallest ``sort_values``."""
    _keep_smallest(row, first, sort_values, positions)


@helper
def _add_squared_distances(block: Any, start: Any, query: Any, row: Any) -> None:
    """Add the squared distance between each column and a query to the sort value of the column in ``row``."""
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


@helper
def _subtract_products(block: Any, start: Any, query: Any, row: Any) -> None:
    """Subtract the inner product of column j with the query from ``row[j]``, for the columns from ``start`` on."""
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


@helper
def _add_squared_distances_of_group(block: Any, start: Any, queries: Any, rows: Any) -> None:
    """Add the squared distances between each column and a group of queries to the sort values of the column."""
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


@helper
def _subtract_products_of_group(block: Any, start: Any, queries: Any, rows: Any) -> None:
    """Subtract the inner product of column j with query i from ``rows[i, j]``, for a group of queries."""
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


@helper
def _group_sort_values(block: Any, hidden: Any, start: Any, queries: Any, euclidean: Any, rows: Any) -> None:
    """Write the sort values of some columns of a block to ``rows``, with one row for each query of a group."""
    for i in range(GROUP):
        for j in range(rows.shape[1]):
            rows[i, j] = hidden[start + j]
    if euclidean:
        _add_squared_distances_of_group(block, start, queries, rows)
    else:
        _subtract_products_of_group(block, start, queries, rows)


@kernel("exact search")
def scan_one(
    blocks: NDArray[np.float32],
    hidden: NDArray[np.float32],
    begin: int,
    end: int,
    query: NDArray[np.float32],
    euclidean: bool,
    sort_values: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """Scan the blocks ``begin`` to ``end - 1`` and update the lists ``sort_values`` and ``positions``.

    ``sort_values`` contains the query's smallest sort values so far in ascending order, and ``positions`` contains
    the positions of these items.
    """
    width = blocks.shape[2]
    sums = np.empty(min(width, _COLUMNS), np.float32)
    for block in range(begin, end):
        for start in range(0, width, _COLUMNS):
            row = sums[: min(_COLUMNS, width - start)]
            for i in range(len(row)):
                row[i] = hidden[block, start + i]
            if euclidean:
                _add_squared_distances(blocks[block], start, query, row)
            else:
                _subtract_products(blocks[block], start, query, row)
            _keep_smallest(row, block * width + start, sort_values, positions)


@kernel("exact search")
def scan_groups(
    blocks: NDArray[np.float32],
    hidden: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    sort_values: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """Scan all items and update each query's lists ``sort_values`` and ``positions``, as in `scan_one`.

    The number of queries must be a multiple of `GROUP`.
    """
    width = blocks.shape[2]
    rows = np.empty((GROUP, min(width, TILE)), np.float32)
    for block in range(len(hidden)):
        for start in range(0, width, rows.shape[1]):
            for group in range(0, len(queries), GROUP):
                _group_sort_values(
                    blocks[block], hidden[block], start, queries[group : group + GROUP], euclidean, rows
                )
                for i in range(GROUP):
                    _keep_smallest(rows[i], block * width + start, sort_values[group + i], positions[group + i])


@kernel("exact search")
def collect_below(
    blocks: NDArray[np.float32],
    hidden: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    highest: NDArray[np.float64],
    found: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Find all items with sort values up to ``highest`` for each query.

    Write the positions of these items to ``found``, in ascending order, and the number of these items to
    ``counts``. If ``found`` has too few columns for all positions, the last positions are counted but not written.
    Hidden items are skipped. The number of queries must be a multiple of `GROUP`.
    """
    width = blocks.shape[2]
    rows = np.empty((GROUP, min(width, TILE)), np.float32)
    for block in range(len(hidden)):
        for start in range(0, width, rows.shape[1]):
            for group in range(0, len(queries), GROUP):
                _group_sort_values(
                    blocks[block], hidden[block], start, queries[group : group + GROUP], euclidean, rows
                )
                for i in range(GROUP):
                    row, query = rows[i], group + i
                    for column in range(len(row)):
                        if row[column] <= highest[query] and row[column] < np.inf:
                            if counts[query] < found.shape[1]:
                                found[query, counts[query]] = block * width + start + column
                            counts[query] += 1


@kernel("exact search")
def keep_smallest_products(
    products: NDArray[np.float32],
    bias: NDArray[np.float32],
    first: int,
    sort_values: NDArray[np.float32],
    positions: NDArray[np.int64],
) -> None:
    """Insert the sort values ``bias - products`` into each query's list of smallest ``sort_values``.

    ``products`` is overwritten.
    """
    for query in range(len(products)):
        row = products[query]
        for i in range(len(row)):
            row[i] = bias[i] - row[i]
        _keep_smallest(row, first, sort_values[query], positions[query])


@helper
def _measure(
    blocks: NDArray[np.float32],
    query: NDArray[np.float32],
    euclidean: bool,
    positions: NDArray[np.int64],
    distances: NDArray[np.float64],
) -> None:
    """Write the squared distances, or negative inner products, of a query and the items at ``positions``.

    The results are computed in float64 and written to ``distances``. The result for the position -1 is infinite.
    """
    n_features, width = blocks.shape[1], blocks.shape[2]
    for i in range(len(positions)):
        distance = np.inf
        if positions[i] >= 0:
            item = blocks[positions[i] // width, :, positions[i] % width]
            distance = 0.0
            if euclidean:
                for j in range(n_features):
                    difference = np.float64(query[j]) - np.float64(item[j])
                    distance += difference * difference
            else:
                for j in range(n_features):
                    distance -= np.float64(query[j]) * np.float64(item[j])
        distances[i] = distance


@kernel("exact search")
def measure_each(
    blocks: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    positions: NDArray[np.int64],
    distances: NDArray[np.float64],
) -> None:
    """Write the squared distances, or negative inner products, of each query i and the items ``positions[i]``.

    The results are computed in float64 and written to ``distances``. The result for the position -1 is infinite.
    """
    for query in range(len(queries)):
        _measure(blocks, queries[query], euclidean, positions[query], distances[query])


@kernel("exact search")
def measure_and_sort(
    blocks: NDArray[np.float32],
    queries: NDArray[np.float32],
    euclidean: bool,
    positions: NDArray[np.int64],
    distances: NDArray[np.float64],
) -> None:
    """Compute the same values as `measure_each` for the candidates of each query, and sort the candidates by value.

    Candidates with equal values are ordered by position.
    """
    for query in range(len(queries)):
        places, values = positions[query], distances[query]
        _measure(blocks, queries[query], euclidean, places, values)
        for i in range(1, len(places)):
            place, value, at = places[i], values[i], i
            while at > 0 and (values[at - 1] > value or (values[at - 1] == value and places[at - 1] > place)):
                values[at], places[at] = values[at - 1], places[at - 1]
                at -= 1
            values[at], places[at] = value, place
