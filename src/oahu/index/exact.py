"""Exact nearest-neighbour search: a float32 scan selects candidates, and their distances are computed in float64.

The candidates are the nearest items according to the scan. The rounding error of the scan has a known bound. If the
bound does not exclude that another item is as near as the k-th candidate, the float64 distance of this item is
computed as well. The result is therefore the same as the result of a brute-force search in float64 over the same
float32 vectors. Items at the same distance are ordered by position.

For long vectors, the scan reads low-dimensional projections of the items (`oahu.index.projection`) if the
projections exclude enough items. The first queries of a batch show whether this is the case. Without projections, a
search with many queries computes matrix products of queries and items with BLAS. A search with few queries scans
quantized items (`oahu.index.quantized`), which take a quarter of the memory of the items. A search needs at most 16
MiB of memory in addition to its results, for any number of items and queries. There are two exceptions. If very
many items are about as near as the k-th nearest item, a query stores one number for each of these items. If k is
above 100, a query stores one number for every item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError, OverflowedItemError
from oahu.index.blocks import ItemBlocks
from oahu.index.exact_search import Hits, QuantizedSearch, Search, lengths_of, run
from oahu.index.projection import Projection
from oahu.index.scan_kernels import STRIP, measure_each, squared_lengths
from oahu.index.threads import run_row_slices
from oahu.messages import shorten

__all__ = ["ExactIndex", "Hits", "Index", "IndexWriter", "Measure", "search_all"]

Floats = NDArray[np.floating]
Rows = NDArray[np.float32]
Measure = Literal["l2", "ip"]

_QUERIES = 4096  # queries searched together
_SAMPLE = 4096  # stored items that a new projection is fitted to
_MAX_LENGTH = 1e18  # the squared norms of longer vectors overflow float32


class Index(Protocol):
    """A searchable set of vectors. After `add` or `remove`, use the returned index."""

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        ...

    def add(self, vectors: Floats) -> Index:
        """Return an index that also contains the given items. The new items get the next free positions."""
        ...

    def remove(self, positions: NDArray[np.int64]) -> Index:
        """Return an index without the items at these positions. New items never get these positions."""
        ...

    def search(self, queries: Floats, k: int) -> Hits:
        """Return the k nearest items of each query."""
        ...


@dataclass(frozen=True, eq=False)
class ExactIndex:
    """An immutable `Index` with exact search results.

    `add` and `remove` return a new index. The old index stays valid, for example for searches in other threads. The
    old and the new index share the memory of their items. `add` copies the items if it is called on an index that
    is not the newest index.

    Examples
    --------
    >>> index = ExactIndex.empty(2).add(np.array([[0.0, 1.0], [3.0, 4.0], [0.0, 1.0]]))
    >>> index.search(np.zeros((1, 2)), k=2)
    Hits(positions=array([[0, 2]]), distances=array([[1., 1.]]))
    """

    measure: Measure
    n_added: int
    _items: ItemBlocks
    _hidden: Rows  # (n_blocks, width): 0, or infinity for removed items and free positions
    _longest: float  # an upper bound of the norms of the scanned vectors

    @classmethod
    def empty(cls, dimensions: int, measure: Measure = "l2") -> ExactIndex:
        """Return an empty index. The measure is "l2" (Euclidean distance) or "ip" (inner product)."""
        if measure not in ("l2", "ip"):
            raise InvalidInputError(f"The measure must be 'l2' or 'ip'. Got {shorten(measure)} instead.")
        items = ItemBlocks(dimensions, 0, None, measure == "l2")
        return cls(measure, 0, items, np.empty((0, STRIP), np.float32), 0.0)

    @property
    def dimensions(self) -> int:
        """The length of the vectors."""
        return int(self._items.exact.shape[1])

    @property
    def _euclidean(self) -> bool:
        return self.measure == "l2"

    def add(self, vectors: Floats) -> ExactIndex:
        new = check_vectors(vectors, self.dimensions, "vector")
        writer = self.reserve(len(new), lambda: new)
        writer.write_checked(0, new)
        return writer.finish()

    def reserve(self, count: int, sample: Callable[[], Floats]) -> IndexWriter:
        """Reserve positions for ``count`` items.

        ``sample`` is a function that returns a sample of the new items. If the index needs more memory and its
        vectors are long, the method calls this function and fits a projection to the sample.
        """
        items = self._items
        if items.claim(count, self.n_added):
            return IndexWriter(self, items, count, self._longest)
        stored = fitted = items.first_rows(self.n_added)
        if Projection.suits(self.dimensions, self.n_added + count):
            rows = np.linspace(0, self.n_added, min(self.n_added, _SAMPLE), endpoint=False, dtype=int)
            fitted = np.concatenate([stored[rows], np.asarray(sample(), np.float32)])
        items = ItemBlocks.with_capacity(self.dimensions, self.n_added + count, fitted, self._euclidean)
        return IndexWriter(self, items, count, items.write(stored, 0))

    def remove(self, positions: NDArray[np.int64]) -> ExactIndex:
        check_positions(positions, self.n_added)
        hidden = self._hidden.copy()
        hidden.ravel()[positions] = np.inf
        return replace(self, _hidden=hidden)

    def prepare(self, queries: Rows, k: int) -> Search:
        """Return a `Search` object for validated queries. Call `exact_search.run` to run the search."""
        n_blocks = -(-self.n_added // self._items.width)
        kind = Search if self._items.quantized is None else QuantizedSearch
        return kind(self._items, self._hidden[:n_blocks], self._longest, self._euclidean, queries, k)

    def search(self, queries: Floats, k: int) -> Hits:
        return search_all([self], [queries], k)[0]

    def distances(self, queries: Floats, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the distances between each query and the items at the given positions, computed as in `search`.

        Parameters
        ----------
        queries : ndarray of shape (n_queries, dimensions)
        positions : ndarray of shape (n_queries, m)
            The positions of the items for each query. The distance for the position -1 is infinite.
        """
        rows = np.ascontiguousarray(check_vectors(queries, self.dimensions, "query"))
        places = np.ascontiguousarray(positions, np.int64)
        distances = np.empty(places.shape)
        run_row_slices(
            lambda part: measure_each(
                self._items.exact, rows[part], self._euclidean, places[part], distances[part]
            ),
            len(rows),
        )
        return np.sqrt(distances) if self._euclidean else distances


class IndexWriter:
    """A writer for the reserved positions of an index. Several threads may write at the same time."""

    def __init__(self, index: ExactIndex, items: ItemBlocks, count: int, longest: float) -> None:
        self._index, self._items, self._count, self._lengths = index, items, count, [longest]

    def write(self, first: int, vectors: Floats) -> None:
        """Validate vectors and write them to the reserved positions.

        ``first`` is the index of the first position to write, counted from the first reserved position.
        """
        self.write_checked(first, check_vectors(vectors, self._index.dimensions, "vector"))

    def write_checked(self, first: int, vectors: Rows) -> None:
        """Write vectors like `write`, but without validation. `check_vectors` must have validated the vectors."""
        self._lengths.append(self._items.write(vectors, self._index.n_added + first))

    def unit_columns(self, first: int, count: int) -> tuple[Rows, int] | None:
        """Return an array for ``count`` new items, one per column, and the index of the first column to write.

        The caller must write finite vectors with norms of at most 1. ``first`` has the same meaning as in `write`.
        Return None if the index does not store the vectors in this form.
        """
        width, begin = self._items.width, self._index.n_added + first
        if self._items.projection is not None or self._items.halves is not None or begin % width + count > width:
            return None
        self._lengths.append(1.001)
        return self._items.blocks[begin // width], begin % width

    def finish(self) -> ExactIndex:
        """Return the index with the new items. The caller must have written all reserved positions."""
        before, items = self._index, self._items
        n_added = before.n_added + self._count
        hidden = before._hidden.copy()
        if hidden.shape != (items.n_blocks, items.width):
            hidden = np.full((items.n_blocks, items.width), np.inf, np.float32)
            hidden.ravel()[: before.n_added] = before._hidden.ravel()[: before.n_added]
        hidden.ravel()[before.n_added : n_added] = 0
        return ExactIndex(before.measure, n_added, items, hidden, max(self._lengths))


def search_all(indexes: Sequence[Index], queries: Sequence[Floats], k: int) -> list[Hits]:
    """Return the k nearest items of the same queries in each of several indexes.

    ``queries`` contains one array of query vectors for each index.

    If there are few queries, all exact indexes are searched in parallel.
    """
    exact = [index for index in indexes if isinstance(index, ExactIndex)]
    if len(exact) < len(indexes):
        return [index.search(vectors, k) for index, vectors in zip(indexes, queries, strict=True)]
    checked = [
        np.ascontiguousarray(check_vectors(vectors, index.dimensions, "query"))
        for index, vectors in zip(exact, queries, strict=True)
    ]
    check_count(k)
    n_queries = len(checked[0]) if checked else 0
    if not n_queries or not k:
        return [Hits(np.empty((n_queries, k), np.int64), np.empty((n_queries, k))) for _ in exact]
    parts = [
        run(
            [
                index.prepare(vectors[start : start + _QUERIES], k)
                for index, vectors in zip(exact, checked, strict=True)
            ]
        )
        for start in range(0, n_queries, _QUERIES)
    ]
    if len(parts) == 1:
        return parts[0]
    return [Hits(*map(np.concatenate, zip(*hits, strict=True))) for hits in zip(*parts, strict=True)]


def check_vectors(vectors: Floats, dimensions: int, what: str) -> Rows:
    """Return vectors in float32. Raise an error if a vector or its squared norm is not finite."""
    if np.ndim(vectors) != 2 or np.shape(vectors)[1] != dimensions:
        plural = "queries" if what == "query" else f"{what}s"
        raise InvalidInputError(
            f"An array of {plural} must have shape (n, {dimensions}). Got shape {np.shape(vectors)} instead."
        )
    with np.errstate(over="ignore"):
        rows = _as_float32(vectors)
        squares = np.einsum("ij,ij->i", rows, rows) if rows.flags.c_contiguous else squared_lengths(rows.T)
    if len(squares) and not squares.max() < _MAX_LENGTH**2:  # also true for NaN
        row = int(np.argmax(~(squares < _MAX_LENGTH**2)))
        (length,) = lengths_of(rows[row : row + 1])
        raise OverflowedItemError(
            f"Item {row} is too large for a search: the norm of a {what} must be below {_MAX_LENGTH:.0e}. Got "
            f"{length:.3g} instead. Scale the features first, for example to [0, 1] or to unit variance.",
            row,
        )
    return rows


def _as_float32(vectors: Floats) -> Rows:
    """Return vectors in float32, in a memory layout that kernels accept.

    A column-major array stays column-major.
    """
    array = np.asarray(vectors)
    if array.dtype == np.float32 and array.flags.carray:
        return array
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return np.require(array.T, np.float32, ["C", "A", "W", "E"]).T
    return np.require(array, np.float32, ["C", "A", "W", "E"])


def check_positions(positions: NDArray[np.int64], n_added: int) -> None:
    """Raise an error if no item was ever added at one of the positions."""
    places = np.asarray(positions)
    wrong = places[(places < 0) | (places >= n_added)]
    if len(wrong):
        raise InvalidInputError(f"Positions must be in [0, {n_added}). Got {wrong[0]} instead.")


def check_count(k: int) -> None:
    """Raise an error if the number of neighbours is negative."""
    if k < 0:
        raise InvalidInputError(f"The number of neighbours k must be at least 0. Got {k} instead.")
