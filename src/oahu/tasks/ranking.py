"""From the neighbours in every space to one ranking of distinct items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.tasks.encoded_items import Found

__all__ = ["first_k", "ranked"]


def ranked(
    positions: NDArray[np.int64], scores: NDArray[np.float64], k: int, add_up: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The k best distinct items of every query, ties by position: (n_spaces, n_queries, m) to (n_queries, k).

    An item that several spaces found keeps its best score, or, if ``add_up``, gets the sum. -1 is no item.

    >>> found, scores = np.array([[[7, 3]], [[3, 5]]]), np.array([[[0.6, 0.2]], [[0.4, 0.1]]])
    >>> ranked(found, scores, 2, add_up=False)
    (array([[7, 3]]), array([[0.6, 0.4]]))
    """
    n_queries = positions.shape[1]
    items = positions.transpose(1, 0, 2).reshape(n_queries, -1)
    values = scores.transpose(1, 0, 2).reshape(n_queries, -1)
    order = np.argsort(items, axis=1, kind="stable")
    items, values = np.take_along_axis(items, order, 1), np.take_along_axis(values, order, 1)
    first = np.ones(items.shape, bool)  # of those that are the same item
    first[:, 1:] = items[:, 1:] != items[:, :-1]
    starts = np.flatnonzero(first.ravel())
    combine = np.add if add_up else np.maximum
    totals = combine.reduceat(values.ravel(), starts) if len(starts) else np.empty(0)
    queries, found = np.divmod(starts, max(items.shape[1], 1))[0], items.ravel()[starts]
    there = found >= 0
    queries, found, totals = queries[there], found[there], totals[there]
    best = np.lexsort((found, -totals, queries))
    queries, found, totals = queries[best], found[best], totals[best]
    ranks = np.arange(len(queries)) - np.searchsorted(queries, queries)
    kept = ranks < k
    answer = np.full((n_queries, k), -1, np.int64), np.zeros((n_queries, k))
    for whole, part in zip(answer, (found, totals), strict=True):
        whole[queries[kept], ranks[kept]] = part[kept]
    return answer


def first_k(found: Found, k: int, excluded: NDArray[np.int64], n_items: int) -> Found:
    """The first k in every space that are among the first ``n_items``, without what is excluded for a query.

    ``excluded``, of shape (n_queries, m), are positions; negative ones are none.
    """
    out = found.positions >= n_items
    if excluded.shape[1]:
        queries = np.arange(len(excluded))[:, None] * (n_items + 1)  # tells apart what is excluded for each
        there = (excluded >= 0) & (excluded < n_items)
        out |= np.isin(found.positions + queries, (excluded + queries)[there])
    if not out.any():
        return Found(found.positions[:, :, :k], found.distances[:, :, :k])
    order = np.argsort(out, axis=2, kind="stable")[:, :, :k]
    positions, distances = np.where(out, -1, found.positions), np.where(out, np.inf, found.distances)
    return Found(np.take_along_axis(positions, order, 2), np.take_along_axis(distances, order, 2))
