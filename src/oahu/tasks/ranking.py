"""Functions that merge the neighbours found in each space into one ranking."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.tasks.indexed_items import SpaceNeighbours

__all__ = ["combine_votes", "without_excluded"]


def combine_votes(
    positions: NDArray[np.int64], scores: NDArray[np.float64], k: int, add_up: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the k distinct items with the highest scores, and their scores. Equal scores are ordered by position.

    Parameters
    ----------
    positions, scores : ndarray of shape (n_spaces, n_queries, m)
        The positions and scores of the m items that each space found. The position -1 marks a missing item.
    k : int
    add_up : bool
        The rule for an item that several spaces found: the item gets the sum of its scores (True) or its highest
        score (False).

    Returns
    -------
    positions, scores : ndarray of shape (n_queries, k)
        The positions and scores of the items, highest score first. If there are fewer than k items, the remaining
        positions are -1 and the remaining scores are 0.

    Examples
    --------
    >>> found, scores = np.array([[[7, 3]], [[3, 5]]]), np.array([[[0.6, 0.2]], [[0.4, 0.1]]])
    >>> combine_votes(found, scores, 2, add_up=False)
    (array([[7, 3]]), array([[0.6, 0.4]]))
    """
    n_queries = positions.shape[1]
    items = positions.transpose(1, 0, 2).reshape(n_queries, -1)
    values = scores.transpose(1, 0, 2).reshape(n_queries, -1)
    order = np.argsort(items, axis=1, kind="stable")
    items, values = np.take_along_axis(items, order, 1), np.take_along_axis(values, order, 1)
    is_first = np.ones(items.shape, bool)  # whether an entry is the first entry for its item
    is_first[:, 1:] = items[:, 1:] != items[:, :-1]
    starts = np.flatnonzero(is_first.ravel())
    combine = np.add if add_up else np.maximum
    totals = combine.reduceat(values.ravel(), starts) if len(starts) else np.empty(0)
    queries, found = np.divmod(starts, max(items.shape[1], 1))[0], items.ravel()[starts]
    present = found >= 0
    queries, found, totals = queries[present], found[present], totals[present]
    best = np.lexsort((found, -totals, queries))
    queries, found, totals = queries[best], found[best], totals[best]
    ranks = np.arange(len(queries)) - np.searchsorted(queries, queries)
    kept = ranks < k
    ranked_positions, ranked_scores = np.full((n_queries, k), -1, np.int64), np.zeros((n_queries, k))
    ranked_positions[queries[kept], ranks[kept]] = found[kept]
    ranked_scores[queries[kept], ranks[kept]] = totals[kept]
    return ranked_positions, ranked_scores


def without_excluded(found: SpaceNeighbours, k: int, excluded: NDArray[np.int64], n_items: int) -> SpaceNeighbours:
    """In every space, return the first k neighbours that are not excluded and have a position below ``n_items``.

    ``excluded`` is an array of shape (n_queries, m). Each row contains the positions to exclude for one query.
    Negative entries are ignored.
    """
    out = found.positions >= n_items
    if excluded.shape[1]:
        offsets = np.arange(len(excluded))[:, None] * (n_items + 1)  # makes (query, position) one number
        valid = (excluded >= 0) & (excluded < n_items)
        out |= np.isin(found.positions + offsets, (excluded + offsets)[valid])
    if not out.any():
        return SpaceNeighbours(found.positions[:, :, :k], found.distances[:, :, :k])
    order = np.argsort(out, axis=2, kind="stable")[:, :, :k]
    positions, distances = np.where(out, -1, found.positions), np.where(out, np.inf, found.distances)
    return SpaceNeighbours(np.take_along_axis(positions, order, 2), np.take_along_axis(distances, order, 2))
