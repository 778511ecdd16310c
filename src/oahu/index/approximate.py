"""Nearest neighbours, approximately: a search looks at few items of a graph. Needs usearch: the extra ``ann``.

It costs about log(n) instead of n, and may miss neighbours; `ExactIndex` misses none.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.index.exact import Floats, Hits, Measure, Rows, check_count, check_positions, checked
from oahu.messages import shorten

__all__ = ["ApproximateIndex"]

_METRICS = {"l2": "l2sq", "ip": "ip"}
_MEASURED = 2**14  # candidates measured together


class ApproximateIndex:
    """An `Index` that may miss neighbours, and one that changes: `add` and `remove` return the same object.

    What is found is measured again in float64, so that distances are those of an `ExactIndex`, ties by position. As
    many threads work as numba has. How the graph grows depends on their timing: two indexes of the same items may
    miss different ones. Many removals make a graph miss more, most of all with inner products.

    Any number of threads may search, add and remove at once. Calls take turns: all queries of a search see the same
    items, and every `add` and `remove` as a whole or not at all.

    Attributes
    ----------
    measure : {"l2", "ip"}
    dimensions : int
    n_added : int
        How many items were ever added, which is the position of the next.

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
        self._graph, self._turn = graph, Lock()

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
        """An index of nothing yet.

        Parameters
        ----------
        dimensions : int
        measure : {"l2", "ip"}
        connectivity : int, default=16
            Neighbours that an item is linked with. More find more, and need more memory.
        expansion_add, expansion_search : int
            Candidates that are kept on the way to a new item's place, and to a query's neighbours. More find more,
            and take longer. Nothing is missed as long as there are no more items than ``expansion_search``.
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
        new = np.ascontiguousarray(checked(vectors, self.dimensions, "vector"))
        with self._turn:
            positions = np.arange(self.n_added, self.n_added + len(new))
            self._graph.add(positions, new, threads=numba.get_num_threads())
            self.n_added += len(new)
        return self

    def remove(self, positions: NDArray[np.int64]) -> ApproximateIndex:
        with self._turn:
            check_positions(positions, self.n_added)
            self._graph.remove(positions, threads=numba.get_num_threads())
        return self

    def search(self, queries: Floats, k: int) -> Hits:
        asked = np.ascontiguousarray(checked(queries, self.dimensions, "query"))
        check_count(k)
        hits = Hits(np.full((len(asked), k), -1, np.int64), np.full((len(asked), k), np.inf))
        with self._turn:
            n_items, everything = len(self._graph), len(self._graph) <= self._graph.expansion_search
            n_candidates = n_items if everything else min(k, n_items)
            if not n_candidates:
                return hits
            step = max(1, _MEASURED // n_candidates)
            for start in range(0, len(asked), step):
                rows, columns = slice(start, start + step), slice(0, min(k, n_items))
                found = self._sorted(asked[rows], n_candidates, everything)
                hits.positions[rows, columns] = found.positions[:, columns]
                hits.distances[rows, columns] = found.distances[:, columns]
        return hits

    def _sorted(self, queries: Rows, n_candidates: int, everything: bool) -> Hits:
        """The candidates of each query, nearest first; of few items, all."""
        found = self._graph.search(queries, n_candidates, exact=everything, threads=numba.get_num_threads())
        positions = np.full((len(queries), n_candidates), -1, np.int64)
        distances = np.full(positions.shape, np.inf)
        for row, matches in zip(positions, [found] if len(queries) == 1 else found, strict=True):
            row[: len(matches)] = matches.keys
        rows, columns = np.nonzero(positions >= 0)
        places, which = np.unique(positions[rows, columns], return_inverse=True)
        items = np.array(self._graph.get(places)).reshape(len(places), self.dimensions)
        distances[rows, columns] = _apart(queries[rows], items[which], self.measure)
        order = np.lexsort((positions, distances), axis=1)
        return Hits(*(np.take_along_axis(each, order, axis=1) for each in (positions, distances)))


def _apart(a: Rows, b: Rows, measure: Measure) -> NDArray[np.float64]:
    """How far apart vectors are, in float64, row by row."""
    if measure == "ip":
        return np.asarray(0 - np.einsum("ij,ij->i", a, b, dtype=np.float64))
    gaps = a.astype(np.float64) - b
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)))
