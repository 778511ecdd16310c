"""Approximate nearest-neighbour search in a graph of neighbouring items (HNSW).

A search among n items takes about O(log n) time, but may miss some of the nearest neighbours. A search with
`ExactIndex` takes O(n) time and misses none of them. This module needs usearch, which is installed with
``oahu[ann]``.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.index.exact import Floats, Hits, Measure, Rows, check_count, check_positions, check_vectors
from oahu.messages import shorten

__all__ = ["ApproximateIndex"]

_METRICS = {"l2": "l2sq", "ip": "ip"}
_CANDIDATES = 2**14  # candidates that are measured together


class ApproximateIndex:
    """A mutable `Index`. A search may miss some of the nearest neighbours.

    `add` and `remove` change this index and return it.

    For the items that a search finds, the index computes the distances again in float64, as in `ExactIndex`. Items
    at the same distance are ordered by position. The index uses as many threads as numba. The links of the graph
    depend on the timing of the threads. Two indexes of the same items may therefore miss different neighbours.
    After many removals, a search misses more neighbours, in particular with inner products.

    The index is thread-safe. A lock ensures that only one call of `add`, `remove` or `search` runs at a time.

    Attributes
    ----------
    measure : {"l2", "ip"}
    dimensions : int
    n_added : int
        The number of items that were added, including removed items. The next item gets this position.

    References
    ----------
    Malkov, Yashunin. Efficient and robust approximate nearest neighbor search using hierarchical navigable small
    world graphs. TPAMI 2020.

    Examples
    --------
    >>> index = ApproximateIndex.empty(2).add(np.array([[0.0, 1.0], [3.0, 4.0], [0.0, 1.0]]))
    >>> index.search(np.zeros((1, 2)), k=2)
    Hits(positions=array([[0, 2]]), distances=array([[1., 1.]]))
    """

    def __init__(self, dimensions: int, measure: Measure, graph: Any) -> None:
        self.dimensions, self.measure, self.n_added = dimensions, measure, 0
        self._graph, self._lock = graph, Lock()

    @classmethod
    def empty(
        cls,
        dimensions: int,
        measure: Measure = "l2",
        *,
        connectivity: int = 16,
        expansion_add: int = 128,
        expansion_search: int = 64,
    ) -> ApproximateIndex:
        """Return an empty index.

        Parameters
        ----------
        dimensions : int
        measure : {"l2", "ip"}
        connectivity : int, default=16
            The number of graph links per item. More links increase the recall and the memory.
        expansion_add, expansion_search : int
            The number of items whose distances are compared during an insertion (``expansion_add``) and during a
            search (``expansion_search``). Higher numbers increase the recall and the time. Searches in an index of
            at most ``expansion_search`` items are exact.
        """
        if measure not in _METRICS:
            raise InvalidInputError(f"The measure must be 'l2' or 'ip'. Got {shorten(measure)} instead.")
        try:
            from usearch.index import Index as Graph
        except ImportError as error:
            raise ImportError("oahu.index.approximate needs usearch: pip install 'oahu[ann]'") from error
        graph = Graph(
            ndim=dimensions,
            metric=_METRICS[measure],
            dtype="f32",
            connectivity=connectivity,
            expansion_add=expansion_add,
            expansion_search=expansion_search,
        )
        return cls(dimensions, measure, graph)

    def add(self, vectors: Floats) -> ApproximateIndex:
        new = np.ascontiguousarray(check_vectors(vectors, self.dimensions, "vector"))
        with self._lock:
            positions = np.arange(self.n_added, self.n_added + len(new))
            self._graph.add(positions, new, threads=numba.get_num_threads())
            self.n_added += len(new)
        return self

    def remove(self, positions: NDArray[np.int64]) -> ApproximateIndex:
        with self._lock:
            check_positions(positions, self.n_added)
            self._graph.remove(positions, threads=numba.get_num_threads())
        return self

    def search(self, queries: Floats, k: int) -> Hits:
        rows = np.ascontiguousarray(check_vectors(queries, self.dimensions, "query"))
        check_count(k)
        hits = Hits(np.full((len(rows), k), -1, np.int64), np.full((len(rows), k), np.inf))
        with self._lock:
            n_items, search_exactly = len(self._graph), len(self._graph) <= self._graph.expansion_search
            n_candidates = n_items if search_exactly else min(k, n_items)
            if not n_candidates:
                return hits
            step = max(1, _CANDIDATES // n_candidates)
            for start in range(0, len(rows), step):
                part, columns = slice(start, start + step), slice(0, min(k, n_items))
                found = self._candidates(rows[part], n_candidates, search_exactly)
                hits.positions[part, columns] = found.positions[:, columns]
                hits.distances[part, columns] = found.distances[:, columns]
        return hits

    def _candidates(self, queries: Rows, n_candidates: int, search_exactly: bool) -> Hits:
        """Return the approximately nearest items of each query, nearest first.

        If ``search_exactly`` is True, scan all items and return the exact nearest items.
        """
        found = self._graph.search(queries, n_candidates, exact=search_exactly, threads=numba.get_num_threads())
        positions = np.full((len(queries), n_candidates), -1, np.int64)
        distances = np.full(positions.shape, np.inf)
        for row, matches in zip(positions, [found] if len(queries) == 1 else found, strict=True):
            row[: len(matches)] = matches.keys
        rows, columns = np.nonzero(positions >= 0)
        distinct, inverse = np.unique(positions[rows, columns], return_inverse=True)
        items = np.array(self._graph.get(distinct)).reshape(len(distinct), self.dimensions)
        distances[rows, columns] = _distances(queries[rows], items[inverse], self.measure)
        order = np.lexsort((positions, distances), axis=1)
        return Hits(*(np.take_along_axis(each, order, axis=1) for each in (positions, distances)))


def _distances(a: Rows, b: Rows, measure: Measure) -> NDArray[np.float64]:
    """Return the distances, or negative inner products, of row i of ``a`` and row i of ``b``, for every i.

    The results are computed in float64.
    """
    if measure == "ip":
        return np.asarray(0 - np.einsum("ij,ij->i", a, b, dtype=np.float64))
    differences = a.astype(np.float64) - b
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", differences, differences)))
