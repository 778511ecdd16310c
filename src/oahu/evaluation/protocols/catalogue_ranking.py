"""Ranking of a catalogue for queries, by matrix products of float32 vectors in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from oahu.metrics import Metric

__all__ = ["CatalogueRanking", "rank_by_metric"]

Vectors = NDArray[np.float32]
Encode = Callable[[NDArray[Any]], Any]
Rows = NDArray[np.intp]

_BLOCK: Final = 500  # queries whose scores with all items are in memory at the same time
_PAIR_BLOCK: Final = 4_096  # pairs whose vectors are in memory at the same time


class CatalogueRanking:
    """Ranks the items of a catalogue for queries.

    Parameters
    ----------
    catalogue : ndarray of shape (n_items, n_features)
        Features of the items.
    encode_items, encode_queries : callable
        Functions that return one vector per item and one vector per query.
    measure : {"l2", "ip"}
        Whether vectors are compared by Euclidean distance or by inner product.
    """

    def __init__(
        self,
        catalogue: NDArray[Any],
        encode_items: Encode,
        encode_queries: Encode,
        measure: Literal["l2", "ip"] = "l2",
    ) -> None:
        self._encode_items, self._encode_queries, self._measure = encode_items, encode_queries, measure
        self._vectors = np.asarray(encode_items(catalogue), np.float32)
        # For distances, subtracting a common vector changes nothing and makes the numbers smaller and more precise.
        self._origin = self._vectors.mean(axis=0) if measure == "l2" else np.zeros(1, np.float32)
        self._half_squares = np.zeros(1, np.float32)
        if measure == "l2":
            self._vectors = self._vectors - self._origin
            self._half_squares = np.einsum("ij,ij->i", self._vectors, self._vectors) / 2

    def top(self, queries: NDArray[Any], k: int, exclude: Any = None) -> Rows:
        """Return the row numbers of the best ``k`` items of each query, best item first.

        Items with equal scores are in the order of the catalogue.

        Parameters
        ----------
        queries : ndarray of shape (n_queries, n_features)
            Features of the queries.
        k : int
            Number of items, less than the number of items in the catalogue.
        exclude : ndarray of int, of shape (n_queries,) or (n_queries, m), optional
            Row numbers of items that must not be among the best items of each query.
        """
        if not len(queries):
            return np.empty((0, k), np.intp)
        return np.concatenate([_best(scores, k) for scores in self._blocks(queries, exclude)])

    def pair_scores(self, items: NDArray[Any], pairs: Rows) -> NDArray[np.float64]:
        """Return the scores of pairs of items that need not be in the catalogue. The first item is the query.

        Parameters
        ----------
        items : ndarray of shape (n, n_features)
            Features of the items.
        pairs : ndarray of int, of shape (n_pairs, 2)
            Row numbers of the items of each pair.
        """
        first = np.asarray(self._encode_queries(items), np.float32)
        second = np.asarray(self._encode_items(items), np.float32)
        scores = np.empty(len(pairs))
        for start in range(0, len(pairs), _PAIR_BLOCK):
            block = slice(start, start + _PAIR_BLOCK)
            a, b = first[pairs[block, 0]], second[pairs[block, 1]]
            scores[block] = -np.square(a - b).sum(axis=1) if self._measure == "l2" else (a * b).sum(axis=1)
        return scores

    def _blocks(self, queries: NDArray[Any], exclude: Any) -> Iterator[Vectors]:
        """Yield the scores of blocks of queries with all items."""
        for start in range(0, len(queries), _BLOCK):
            block = slice(start, start + _BLOCK)
            vectors = np.asarray(self._encode_queries(queries[block]), np.float32) - self._origin
            scores = vectors @ self._vectors.T - self._half_squares
            if exclude is not None:
                np.put_along_axis(scores, exclude[block].reshape(len(scores), -1), -np.inf, axis=1)
            yield scores


def rank_by_metric(metric: Metric, catalogue: NDArray[Any], origin: Any = None) -> CatalogueRanking:
    """Return the ranking of a catalogue by the joint vectors of a metric.

    If ``origin`` is given, it is subtracted from the features of all items and queries first.
    """

    def shifted(items: NDArray[Any]) -> NDArray[Any]:
        return items if origin is None else items - origin

    return CatalogueRanking(
        catalogue,
        lambda items: metric.encode(shifted(items), joint=True)[0],
        lambda items: metric.encode_queries(shifted(items), joint=True)[0],
        metric.measure,
    )


def _best(scores: Vectors, k: int) -> Rows:
    """Return the columns of the k highest scores of each row, highest first, and by column among equal scores."""
    candidates = np.sort(np.argpartition(-scores, k - 1, axis=1)[:, :k], axis=1)
    order = np.argsort(-np.take_along_axis(scores, candidates, 1), axis=1, kind="stable")
    return np.take_along_axis(candidates, order, 1)
