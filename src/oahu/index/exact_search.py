"""The exact search for a batch of queries, in one or several spaces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from oahu.index.blocks import ItemBlocks
from oahu.index.quantized import QuantizedQuery
from oahu.index.scan_kernels import (
    GROUP,
    collect_below,
    keep_smallest_products,
    measure_and_sort,
    measure_each,
    scan_groups,
    scan_one,
)
from oahu.index.threads import run_parallel, run_row_slices

__all__ = ["Hits", "QuantizedSearch", "Search", "lengths_of", "run"]

Rows = NDArray[np.float32]
Subset = slice | NDArray[np.intp]  # selects some of the queries

_FEW_QUERIES = 3  # up to this number, queries are scanned one by one, limited by memory bandwidth
_SPARE = 6  # candidates beyond k; enough unless there are many near ties
_SPARE_PROJECTED = 24  # candidates beyond k if the scan reads projections
_SPARE_QUANTIZED = 24  # candidates beyond 2 k if the scan reads quantized items
_MAX_CANDIDATES = 128  # keeping more candidates sorted would take longer than the scan
_CAPACITY = 1024  # items that are collected for a query
_TOTAL_CAPACITY = 2**19  # items that are collected at a time, for all queries
_MULTIPLIED = 512  # queries that are multiplied with a block at a time: 8 MiB of products
_TRIAL = 64  # queries that decide whether projections are worthwhile
_SCAN_COST = 10  # time per number of a projection in two scans, relative to a matrix product
_MEASURE_COST = 64  # time per number of a candidate, relative to a matrix product
_ALL = slice(None)
_U = 2.0**-24  # the unit roundoff of float32
_UNDERFLOW = 1e-40  # upper bound on the error from underflow


class Hits(NamedTuple):
    """The k nearest items of each query, nearest first.

    Attributes
    ----------
    positions : ndarray of shape (n_queries, k), int64
        The positions of the items. The position of an item is the number of items that were added before it. If
        there are fewer than k items, the remaining entries are -1.
    distances : ndarray of shape (n_queries, k), float64
        The Euclidean distances or the negative inner products. If there are fewer than k items, the remaining
        entries are infinite.
    """

    positions: NDArray[np.int64]
    distances: NDArray[np.float64]


class Candidates(NamedTuple):
    """The items that may be among the k nearest items of each query.

    Attributes
    ----------
    positions : ndarray of shape (n_queries, n_candidates), int64
    floor : ndarray of shape (n_queries,), float64
        For each query, a lower bound of the squared distances (or negative inner products) of all items that are
        not candidates.
    """

    positions: NDArray[np.int64]
    floor: NDArray[np.float64]


def run(searches: Sequence[Search]) -> list[Hits]:
    """Run searches in different spaces and return one result for each search.

    All searches must have the same k and the same queries, encoded in the space of the search.
    """
    few = len(searches[0].queries) <= _FEW_QUERIES
    if few and all(search.n_candidates <= _MAX_CANDIDATES for search in searches):
        return [search.finish(found) for search, found in zip(searches, _scan_one_by_one(searches), strict=True)]
    return [search.run() for search in searches]


def _scan_one_by_one(searches: Sequence[Search]) -> list[Candidates]:
    """Return candidates from one scan of all items per query.

    Each thread scans a part of the items of every space.
    """
    n_parts = min(numba.get_num_threads(), max(1, *(len(search.hidden) for search in searches)))
    smallest = [_no_candidates((len(search.queries), n_parts, search.n_candidates)) for search in searches]

    def scan_part(part: int) -> None:
        for search, (sort_values, positions) in zip(searches, smallest, strict=True):
            begin, end = (len(search.hidden) * edge // n_parts for edge in (part, part + 1))
            for query in range(len(search.queries)):
                search.scan(query, begin, end, sort_values[query, part], positions[query, part])

    run_parallel(scan_part, n_parts)
    return [
        Candidates(positions.reshape(len(sort_values), -1), search.lower_bound(sort_values[:, :, -1].min(axis=1)))
        for search, (sort_values, positions) in zip(searches, smallest, strict=True)
    ]


class Search:
    """A search in two steps. A scan of all items selects candidates. Then the candidates are ranked exactly.

    The private methods use squared Euclidean distances. The square roots are taken at the end of the search.

    The scan computes a sort value for each item: an approximate squared distance, or an approximate negative inner
    product. Items with small sort values become candidates.

    Parameters
    ----------
    items : ItemBlocks
    hidden : ndarray of shape (n_blocks, width)
        0 for items to search, infinity for items to leave out.
    longest : float
        An upper bound of the norms of the items (of the projected items if there is a projection).
    euclidean : bool
        Whether to use Euclidean distances (True) or inner products (False).
    queries : ndarray of shape (n_queries, dimensions)
    k : int
    """

    def __init__(
        self, items: ItemBlocks, hidden: Rows, longest: float, euclidean: bool, queries: Rows, k: int
    ) -> None:
        self.items, self.hidden, self.longest, self.euclidean = items, hidden, longest, euclidean
        self.queries, self.k = queries, k
        self.scanned_queries = items.as_scanned(queries)
        self.n_candidates = k + (_SPARE if items.projection is None else _SPARE_PROJECTED)

    def scan(self, query: int, begin: int, end: int, sort_values: Rows, positions: NDArray[np.int64]) -> None:
        """Scan the blocks ``begin`` to ``end - 1`` for one query, and update its lists of candidates.

        The lists are ``sort_values``, the smallest sort values so far in ascending order, and ``positions``, the
        positions of these items.
        """
        blocks, vector = self.items.blocks, self.scanned_queries[query]
        scan_one(blocks, self.hidden, begin, end, vector, self.euclidean, sort_values, positions)

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """The norms of the queries (of the projected queries if there is a projection)."""
        return lengths_of(self.scanned_queries)

    def run(self) -> Hits:
        """Return the k nearest items of every query."""
        if self.n_candidates <= _MAX_CANDIDATES and self.items.projection is None:
            return self.finish(self._scan_all() if self.items.halves is None else self._multiply_all())
        hits = self._no_hits()
        if self.n_candidates <= _MAX_CANDIDATES:
            return self._complete(self._scan_or_multiply(hits), hits)
        bounds = np.array([self._upper_bound(query) for query in range(len(self.queries))])
        self._collect_and_rank(np.arange(len(self.queries)), bounds, hits)
        return self._with_roots(hits)

    def finish(self, candidates: Candidates) -> Hits:
        """Return the k nearest items of each query, selected from its candidates.

        If the candidates of a query might not contain all of the k nearest items, all items are scanned again for
        this query.
        """
        hits = self._no_hits()
        return self._complete(self._rank(_ALL, candidates, hits), hits)

    def _scan_or_multiply(self, hits: Hits) -> NDArray[np.intp]:
        """Search with scans of projections or with matrix products, and store the results in ``hits``.

        Return the queries with an uncertain result (see `_rank`).

        For the first queries of the batch, the method scans projections. If most of their results are uncertain, it
        also tries matrix products with the original items. It then uses the faster of the two techniques for the
        other queries. The choice cannot be made from the items alone, because the queries may have another
        distribution than the items.
        """
        unsure = self._rank(slice(_TRIAL), self._scan_all(slice(_TRIAL)), hits)
        find_candidates = self._scan_all
        if len(unsure) > _TRIAL // 2 and self._products_are_faster(unsure, hits):
            n_unsure = len(unsure)
            unsure = self._rank(unsure, self._multiply_all(unsure), hits)
            find_candidates = self._multiply_all if 2 * len(unsure) < n_unsure else find_candidates
        if len(self.queries) <= _TRIAL:
            return unsure
        others = slice(_TRIAL, None)
        return np.concatenate([unsure, self._rank(others, find_candidates(others), hits)])

    def _products_are_faster(self, unsure: NDArray[np.intp], hits: Hits) -> bool:
        """Return whether matrix products are probably faster than scans of projections.

        The estimate includes the time to compute the float64 distances of all items that a scan cannot exclude.
        """
        limits = self._highest_sort_value(hits.distances[unsure, -1], self.lengths[unsure])
        _, counts = self._collect(unsure, limits, 1)
        n_features, n_scanned = self.queries.shape[1], self.scanned_queries.shape[1]
        n_measured = counts.sum() / _TRIAL
        saved = self.hidden.size * (n_features - _SCAN_COST * n_scanned)
        return bool(saved < _MEASURE_COST * n_features * n_measured)

    def _rank(self, subset: Subset, candidates: Candidates, hits: Hits) -> NDArray[np.intp]:
        """Compute the distances of the candidates of some queries, and store the k nearest candidates in ``hits``.

        Results in ``hits`` that contain nearer items are kept. Return the queries with an uncertain result. The
        result of a query is uncertain if an item that is not a candidate may be as near as the k-th candidate.
        """
        positions, floor = candidates
        queries, distances = self.queries[subset], np.empty(positions.shape)
        run_row_slices(
            lambda rows: measure_and_sort(
                self.items.exact, queries[rows], self.euclidean, positions[rows], distances[rows]
            ),
            len(positions),
        )
        rows, worst = np.arange(len(self.queries))[subset], distances[:, self.k - 1]
        nearer = worst <= hits.distances[rows, -1]
        hits.positions[rows[nearer]] = positions[nearer, : self.k]
        hits.distances[rows[nearer]] = distances[nearer, : self.k]
        certain = (worst < floor) | np.isinf(floor)
        if self.euclidean and self.items.halves is None:
            certain |= worst == 0  # equal vectors: their difference is 0, and a scan keeps the first item
        return rows[~certain]

    def _complete(self, unsure: NDArray[np.intp], hits: Hits) -> Hits:
        """Search again for the queries with an uncertain result. Return the results of all queries."""
        if len(unsure):
            self._collect_and_rank(unsure, hits.distances[unsure, -1], hits)
        return self._with_roots(hits)

    def _no_hits(self) -> Hits:
        shape = len(self.queries), self.k
        return Hits(np.full(shape, -1, np.int64), np.full(shape, np.inf))

    def _scan_all(self, subset: Subset = _ALL) -> Candidates:
        """Return candidates from scans. Each scan serves a group of queries. The threads share the groups."""
        scanned = self.scanned_queries[subset]
        queries = _pad_to_groups(scanned)
        sort_values, positions = _no_candidates((len(queries), self.n_candidates))
        run_row_slices(
            lambda rows: scan_groups(
                self.items.blocks, self.hidden, queries[rows], self.euclidean, sort_values[rows], positions[rows]
            ),
            len(queries),
            multiple_of=GROUP,
        )
        return Candidates(positions[: len(scanned)], self.lower_bound(sort_values[: len(scanned), -1], subset))

    def _multiply_all(self, subset: Subset = _ALL) -> Candidates:
        """Return candidates from matrix products of a few hundred queries and each block of the original items."""
        queries = self.queries[subset]
        sort_values, positions = _no_candidates((len(queries), self.n_candidates))
        for start in range(0, len(queries), _MULTIPLIED):
            part = slice(start, start + _MULTIPLIED)
            self._multiply(queries[part], sort_values[part], positions[part])
        lengths = lengths_of(queries)
        longest = self.longest  # norm of the centred items if there is a projection
        if self.items.projection is not None:
            longest += float(np.linalg.norm(self.items.projection.centre))
        error = (queries.shape[1] + 8) * _U * longest * (lengths + longest / 2 * self.euclidean)
        floor = sort_values[:, -1] - error - _UNDERFLOW
        return Candidates(positions, 2 * floor + np.square(lengths) if self.euclidean else floor)

    def _multiply(self, queries: Rows, sort_values: Rows, positions: NDArray[np.int64]) -> None:
        assert self.items.halves is not None
        products = np.empty((len(queries), self.items.width), np.float32)
        for block, hidden in enumerate(self.hidden):
            np.matmul(queries, self.items.columns(block), out=products)
            bias = self.items.halves[block] + hidden

            def keep(rows: slice, first: int = block * self.items.width, bias: Rows = bias) -> None:
                keep_smallest_products(products[rows], bias, first, sort_values[rows], positions[rows])

            run_row_slices(keep, len(queries))

    def _sort_values(self, query: int) -> Rows:
        """Return the sort values of all items for one query."""
        sort_values = self.hidden.copy()
        for block, row in zip(self.items.blocks, sort_values, strict=False):
            row += self._block_sort_values(self.scanned_queries[query], block)
        return sort_values.ravel()

    def _upper_bound(self, query: int) -> float:
        """Return an upper bound of the distance of the k-th nearest item.

        If there are at most k items, return infinity.
        """
        sort_values = self._sort_values(query)
        if np.isfinite(sort_values).sum() <= self.k:
            return np.inf
        return float(self._distances(query, np.argpartition(sort_values, self.k)[: self.k]).max())

    def _collect_and_rank(self, unsure: NDArray[np.intp], worst: NDArray[np.float64], hits: Hits) -> None:
        """Find the k nearest items of the queries ``unsure`` and store them in ``hits``.

        For each of these queries, the distance of the k-th nearest item must be at most ``worst``. The method
        computes the float64 distance of every item with a lower bound of at most ``worst``.
        """
        highest = self._highest_sort_value(worst, self.lengths[unsure])
        capacity = max(_CAPACITY, 2 * self.k)
        step = max(1, _TOTAL_CAPACITY // capacity)
        for start in range(0, len(unsure), step):
            rows, limits = unsure[start : start + step], highest[start : start + step]
            found, counts = self._collect(rows, limits, capacity)
            fits = np.flatnonzero(counts <= capacity)

            def rank(
                part: slice, rows: Any = rows, found: Any = found, counts: Any = counts, fits: Any = fits
            ) -> None:
                for i in fits[part]:
                    self._store_nearest(rows[i], found[i, : counts[i]], hits)

            run_row_slices(rank, len(fits))
            for i in np.flatnonzero(counts > capacity):
                sort_values = self._sort_values(rows[i])
                self._store_nearest(
                    rows[i], np.flatnonzero((sort_values <= limits[i]) & np.isfinite(sort_values)), hits
                )

    def _collect(
        self, rows: NDArray[np.intp], highest: NDArray[np.float64], capacity: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each query, return the positions and the number of the items with sort values up to ``highest``.

        At most ``capacity`` positions are returned for a query, but all such items are counted.
        """
        queries, limits = _pad_to_groups(self.scanned_queries[rows]), _pad_to_groups(highest)
        limits[len(rows) :] = -np.inf
        found, counts = np.empty((len(queries), capacity), np.int64), np.zeros(len(queries), np.int64)
        run_row_slices(
            lambda part: collect_below(
                self.items.blocks,
                self.hidden,
                queries[part],
                self.euclidean,
                limits[part],
                found[part],
                counts[part],
            ),
            len(queries),
            multiple_of=GROUP,
        )
        return found[: len(rows)], counts[: len(rows)]

    def _store_nearest(self, query: int, positions: NDArray[np.int64], hits: Hits) -> None:
        """Store the k nearest of the items at ``positions`` in ``hits``.

        The positions must be in ascending order, so that items at the same distance are ordered by position.
        """
        distances = self._distances(query, positions)
        nearest = np.argsort(distances, kind="stable")[: self.k]
        hits.positions[query, : len(nearest)] = positions[nearest]
        hits.distances[query, : len(nearest)] = distances[nearest]

    def _block_sort_values(self, query: Rows, block: Rows) -> Rows:
        """Return the sort values of the items of a block for one query."""
        if not self.euclidean:
            return np.asarray(-(query @ block))
        return np.asarray(np.square(block - query[:, None]).sum(axis=0))

    def _distances(self, query: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        distances = np.empty(len(positions))
        queries, exact = self.queries[query : query + 1], self.items.exact
        measure_each(exact, queries, self.euclidean, positions[None], distances[None])
        return distances

    @property
    def _relative_errors(self) -> tuple[float, float]:
        """Two upper bounds for the relative error of a sort value: from float32 sums, and from the projection.

        The error of a float32 sum of n terms is at most (n + 1) u times the sum of the absolute values of the
        terms, with u = 2^-24. The error of a projection is the error of the final rounding to float32 plus the
        square root of the error of a float64 sum.
        """
        n_terms, n_features = self.scanned_queries.shape[1], self.queries.shape[1]
        of_projection = 0.0 if self.items.projection is None else 4 * _U + 4e-8 * n_features**0.5
        return (n_terms + 8) * _U, of_projection

    def lower_bound(self, sort_values: Any, subset: Subset = _ALL) -> NDArray[np.float64]:
        """Return a lower bound of an item's squared distance (or negative inner product) for each query.

        ``sort_values`` contains the sort value of the item for each query.
        """
        of_sum, of_projection = self._relative_errors
        lengths = self.lengths[subset]
        if not self.euclidean:
            return np.asarray(sort_values - (of_sum + 2 * of_projection) * lengths * self.longest - _UNDERFLOW)
        if not of_projection:
            return np.asarray((sort_values - _UNDERFLOW) * (1 - of_sum))
        radius = np.sqrt(np.maximum(sort_values - _UNDERFLOW, 0) * (1 - of_sum))
        radius -= of_projection * (lengths + np.minimum(self.longest, lengths + radius))
        return np.asarray(np.square(np.maximum(radius, 0)))

    def _highest_sort_value(self, distances: Any, lengths: Any) -> Any:
        """Return upper bounds of the sort values of items with the given distances.

        ``distances`` contains squared distances or negative inner products. ``lengths`` contains the norms of the
        queries.
        """
        of_sum, of_projection = self._relative_errors
        if not self.euclidean:
            return distances + (of_sum + 2 * of_projection) * lengths * self.longest + _UNDERFLOW
        radius = np.sqrt(distances)
        radius = radius + 2 * of_projection * (lengths + np.minimum(self.longest, lengths + radius))
        return np.square(radius) * (1 + 2 * of_sum) + _UNDERFLOW

    def _with_roots(self, hits: Hits) -> Hits:
        """Return the hits with Euclidean distances instead of squared distances. Inner products stay unchanged."""
        return hits if not self.euclidean else Hits(hits.positions, np.sqrt(hits.distances))


class QuantizedSearch(Search):
    """A search that scans quantized items. The sort value of an item is a lower bound of its squared distance."""

    def __init__(
        self, items: ItemBlocks, hidden: Rows, longest: float, euclidean: bool, queries: Rows, k: int
    ) -> None:
        super().__init__(items, hidden, longest, euclidean, queries, k)
        self.n_candidates = k + min(k + _SPARE_QUANTIZED, max(_MAX_CANDIDATES - k, _SPARE_QUANTIZED))

    def _query(self, query: int) -> QuantizedQuery:
        assert self.items.quantized is not None
        return self.items.quantized.query(self.queries[query], self.euclidean)

    def scan(self, query: int, begin: int, end: int, sort_values: Rows, positions: NDArray[np.int64]) -> None:
        self._query(query).keep_smallest(self.hidden, begin, end, sort_values, positions)

    def _sort_values(self, query: int) -> Rows:
        parts = [sort_values for _, sort_values in self._query(query).sort_values(self.hidden, 0, len(self.hidden))]
        return np.concatenate(parts)

    def _collect(
        self, rows: NDArray[np.intp], highest: NDArray[np.float64], capacity: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found, counts = np.empty((len(rows), capacity), np.int64), np.zeros(len(rows), np.int64)

        def collect_part(part: slice) -> None:
            for at in range(len(rows))[part]:
                positions = self._query(rows[at]).collect(self.hidden, highest[at])
                counts[at] = len(positions)
                found[at, : len(positions)] = positions[:capacity]

        run_row_slices(collect_part, len(rows))
        return found, counts

    def lower_bound(self, sort_values: Any, subset: Subset = _ALL) -> NDArray[np.float64]:
        return np.asarray(np.minimum(sort_values * (1 - 2 * _U), sort_values * (1 + 2 * _U)) - _UNDERFLOW)

    def _highest_sort_value(self, distances: Any, lengths: Any) -> Any:
        return distances + 2 * _U * np.abs(distances) + _UNDERFLOW


def lengths_of(rows: Rows) -> NDArray[np.float64]:
    """Return the norm of each row, in float64."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))


def _no_candidates(shape: tuple[int, ...]) -> tuple[Rows, NDArray[np.int64]]:
    return np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)


def _pad_to_groups(rows: NDArray[Any]) -> NDArray[Any]:
    """Append rows of zeros, so that the number of rows is a multiple of `GROUP`."""
    return np.concatenate([rows, np.zeros((-len(rows) % GROUP, *rows.shape[1:]), rows.dtype)])
