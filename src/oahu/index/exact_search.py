"""One exact search, for some hundred queries or for few of them in several spaces at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from oahu.index.blocks import Blocks
from oahu.index.coarse import Asked
from oahu.index.scan import GROUP, collect, keep_smallest, measure, pass_over, pass_together, settle
from oahu.index.threads import at_once, in_parts

__all__ = ["CoarseSearch", "Hits", "Search", "lengths_of", "run"]

Rows = NDArray[np.float32]
Some = slice | NDArray[np.intp]  # queries
Candidates = tuple[NDArray[np.int64], NDArray[np.float64]]  # and how near any other item is at least

_FEW = 3  # so many queries are answered one by one: a pass reads the items as fast as memory gives them
_SLACK = 6  # candidates beyond k: enough for all but near ties
_SLACK_OF_SHADOWS = 24  # and where the pass is over shadows
_SLACK_OF_COARSE = 24  # ... over rounded items, beside k more
_WIDEST = 128  # more candidates are not kept in a pass: keeping them in order would cost more than the pass
_FOUND = 1024  # room for what is collected for a query
_ROOM = 2**19  # and for all queries at a time
_MULTIPLIED = 512  # queries that are multiplied with a block at a time: 8 MiB of products
_TRIED = 64  # queries that tell whether shadows leave little to others like them
_PASSED = 10  # numbers that are multiplied in the time that two passes take for a number of a shadow
_MEASURED = 64  # and in the time that measuring takes for a number of an item
_ALL = slice(None)
_U = 2.0**-24  # how far float32 rounds
_TINY = 1e-40  # and what it may lose where it is coarsest


class Hits(NamedTuple):
    """What was found, nearest first; -1 and infinity where there are fewer than k items.

    Attributes
    ----------
    positions : ndarray of shape (n_queries, k), int64
        Items, counted in the order in which they were added.
    distances : ndarray of shape (n_queries, k), float64
        Euclidean distances, or minus the inner products.
    """

    positions: NDArray[np.int64]
    distances: NDArray[np.float64]


def run(searches: Sequence[Search]) -> list[Hits]:
    """Do searches in different spaces, for the same queries and k."""
    if len(searches[0].queries) <= _FEW and all(search.n_best <= _WIDEST for search in searches):
        return [search.settled(*found) for search, found in zip(searches, _one_by_one(searches), strict=True)]
    return [search.run() for search in searches]


def _one_by_one(searches: Sequence[Search]) -> list[Candidates]:
    """Candidates by a pass over the items for each query. Every thread takes a part of the items of each space."""
    n_parts = min(numba.get_num_threads(), max(1, *(len(search.hidden) for search in searches)))
    kept = [_nothing_yet((len(search.queries), n_parts, search.n_best)) for search in searches]

    def look(part: int) -> None:
        for search, (keys, positions) in zip(searches, kept, strict=True):
            begin, end = (len(search.hidden) * edge // n_parts for edge in (part, part + 1))
            for query, (best, at) in enumerate(zip(keys[:, part], positions[:, part], strict=True)):
                search.pass_over(query, begin, end, best, at)

    at_once(look, n_parts)
    return [
        (positions.reshape(len(keys), -1), search.nearest_with(keys[:, :, -1].min(axis=1)))
        for search, (keys, positions) in zip(searches, kept, strict=True)
    ]


class Search:
    """A pass over items that leaves candidates, and the nearest among these.

    Parameters
    ----------
    items : Blocks
    hidden : ndarray of shape (n_blocks, width)
        For the items in the blocks that are searched: 0, or infinity for those that are not to be found.
    longest : float
        How long the longest is, as items are passed over.
    """

    def __init__(self, items: Blocks, hidden: Rows, longest: float, euclidean: bool, queries: Rows, k: int) -> None:
        self.items, self.hidden, self.longest, self.euclidean = items, hidden, longest, euclidean
        self.queries, self.k = queries, k
        self.passing = items.as_passed(queries)  # what the queries are for the pass
        self.n_best = k + (_SLACK if items.shadow is None else _SLACK_OF_SHADOWS)

    def pass_over(self, query: int, begin: int, end: int, keys: Rows, positions: NDArray[np.int64]) -> None:
        """Keep the smallest keys of the blocks ``begin`` to ``end`` for a query."""
        pass_over(self.items.blocks, self.hidden, begin, end, self.passing[query], self.euclidean, keys, positions)

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Of the queries, as they are for the pass."""
        return lengths_of(self.passing)

    def run(self) -> Hits:
        """The k nearest items of every query."""
        if self.n_best <= _WIDEST and self.items.shadow is None:
            return self.settled(*(self._together() if self.items.halves is None else self._by_products()))
        hits = self._nothing_found()
        if self.n_best <= _WIDEST:
            return self._finished(self._by_the_better_way(hits), hits)
        bounds = np.array([self._upper_bound(query) for query in range(len(self.queries))])
        self._look_again(np.arange(len(self.queries)), bounds, hits)
        return self._rooted(hits)

    def settled(self, positions: NDArray[np.int64], floor: NDArray[np.float64]) -> Hits:
        """The nearest of some candidates, or of all items where another one, at the floor, may be as near."""
        hits = self._nothing_found()
        return self._finished(self._settle(_ALL, (positions, floor), hits), hits)

    def _by_the_better_way(self, hits: Hits) -> NDArray[np.intp]:
        """Settle queries by shadows, or by products with the items themselves; returns those that are unsure.

        The first queries tell which: by shadows, and where these leave so much of them that products would be done
        sooner, by products too. Queries need not be like items, so that items cannot tell.
        """
        unsure = self._settle(slice(_TRIED), self._together(slice(_TRIED)), hits)
        way = self._together
        if len(unsure) > _TRIED // 2 and self._leaves_much(unsure, hits):
            by_shadows = len(unsure)
            unsure = self._settle(unsure, self._by_products(unsure), hits)
            way = self._by_products if 2 * len(unsure) < by_shadows else way
        if len(self.queries) <= _TRIED:
            return unsure
        rest = slice(_TRIED, None)
        return np.concatenate([unsure, self._settle(rest, way(rest), hits)])

    def _leaves_much(self, unsure: NDArray[np.intp], hits: Hits) -> bool:
        """Whether products with all items take less time than passes over shadows and measuring what is left."""
        _, counts = self._collected(unsure, self._highest_key(hits.distances[unsure, -1], self.lengths[unsure]), 1)
        n_features, n_passed = self.queries.shape[1], self.passing.shape[1]
        left = counts.sum() / _TRIED
        return bool(self.hidden.size * (n_features - _PASSED * n_passed) < _MEASURED * n_features * left)

    def _settle(self, some: Some, candidates: Candidates, hits: Hits) -> NDArray[np.intp]:
        """Put down the nearest of some queries' candidates, unless nearer ones are there already.

        Returns the queries to which another item, at the floor, may be as near.
        """
        positions, floor = candidates
        queries, apart = self.queries[some], np.empty(positions.shape)
        in_parts(
            lambda rows: settle(self.items.whole, queries[rows], self.euclidean, positions[rows], apart[rows]),
            len(positions),
        )
        rows, worst = np.arange(len(self.queries))[some], apart[:, self.k - 1]
        nearer = worst <= hits.distances[rows, -1]
        hits.positions[rows[nearer]] = positions[nearer, : self.k]
        hits.distances[rows[nearer]] = apart[nearer, : self.k]
        certain = (worst < floor) | np.isinf(floor)
        if self.euclidean and self.items.halves is None:
            certain |= worst == 0  # differences of equals are 0, and a pass keeps the first of equal keys
        return rows[~certain]

    def _finished(self, unsure: NDArray[np.intp], hits: Hits) -> Hits:
        """Hits, when those that are unsure have been looked at again."""
        if len(unsure):
            self._look_again(unsure, hits.distances[unsure, -1], hits)
        return self._rooted(hits)

    def _nothing_found(self) -> Hits:
        shape = len(self.queries), self.k
        return Hits(np.full(shape, -1, np.int64), np.full(shape, np.inf))

    def _together(self, some: Some = _ALL) -> Candidates:
        """Candidates by passes for groups of queries. Every thread takes a part of the queries."""
        passing = self.passing[some]
        queries = _in_groups(passing)
        keys, positions = _nothing_yet((len(queries), self.n_best))
        in_parts(
            lambda rows: pass_together(
                self.items.blocks, self.hidden, queries[rows], self.euclidean, keys[rows], positions[rows]
            ),
            len(queries),
            multiple_of=GROUP,
        )
        return positions[: len(passing)], self.nearest_with(keys[: len(passing), -1], some)

    def _by_products(self, some: Some = _ALL) -> Candidates:
        """Candidates by products of some hundred queries with each block of the items themselves."""
        queries = self.queries[some]
        keys, positions = _nothing_yet((len(queries), self.n_best))
        for start in range(0, len(queries), _MULTIPLIED):
            part = slice(start, start + _MULTIPLIED)
            self._multiply(queries[part], keys[part], positions[part])
        lengths = lengths_of(queries)
        longest = self.longest  # with a shadow: of the items without the centre
        if self.items.shadow is not None:
            longest += float(np.linalg.norm(self.items.shadow.centre))
        off = (queries.shape[1] + 8) * _U * longest * (lengths + longest / 2 * self.euclidean)
        floor = keys[:, -1] - off - _TINY
        return positions, 2 * floor + np.square(lengths) if self.euclidean else floor

    def _multiply(self, queries: Rows, keys: Rows, positions: NDArray[np.int64]) -> None:
        assert self.items.halves is not None
        products = np.empty((len(queries), self.items.width), np.float32)
        for block, hidden in enumerate(self.hidden):
            np.matmul(queries, self.items.columns(block), out=products)
            bias = self.items.halves[block] + hidden

            def keep(rows: slice, first: int = block * self.items.width, bias: Rows = bias) -> None:
                keep_smallest(products[rows], bias, first, keys[rows], positions[rows])

            in_parts(keep, len(queries))

    def _keys(self, query: int) -> Rows:
        """The keys of all items for one query."""
        keys = self.hidden.copy()
        for block, row in zip(self.items.blocks, keys, strict=False):
            row += self._sums(self.passing[query], block)
        return keys.ravel()

    def _upper_bound(self, query: int) -> float:
        """How far the k-th nearest item of a query is at most; infinity if there may be no more than k."""
        keys = self._keys(query)
        if np.isfinite(keys).sum() <= self.k:
            return np.inf
        return float(self._apart(query, np.argpartition(keys, self.k)[: self.k]).max())

    def _look_again(self, unsure: NDArray[np.intp], worst: NDArray[np.float64], hits: Hits) -> None:
        """Answer queries by measuring every item that might be as near as ``worst``."""
        highest = self._highest_key(worst, self.lengths[unsure])
        room = max(_FOUND, 2 * self.k)
        step = max(1, _ROOM // room)
        for start in range(0, len(unsure), step):
            rows, limits = unsure[start : start + step], highest[start : start + step]
            found, counts = self._collected(rows, limits, room)
            fits = np.flatnonzero(counts <= room)

            def answer(
                part: slice, rows: Any = rows, found: Any = found, counts: Any = counts, fits: Any = fits
            ) -> None:
                for i in fits[part]:
                    self._answer(rows[i], found[i, : counts[i]], hits)

            in_parts(answer, len(fits))
            for i in np.flatnonzero(counts > room):
                keys = self._keys(rows[i])
                self._answer(rows[i], np.flatnonzero((keys <= limits[i]) & np.isfinite(keys)), hits)

    def _collected(
        self, rows: NDArray[np.intp], highest: NDArray[np.float64], room: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The items with keys up to ``highest``, in order, as far as there is room, and how many there are."""
        queries, limits = _in_groups(self.passing[rows]), _in_groups(highest)
        limits[len(rows) :] = -np.inf
        found, counts = np.empty((len(queries), room), np.int64), np.zeros(len(queries), np.int64)
        in_parts(
            lambda part: collect(
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

    def _answer(self, query: int, possible: NDArray[np.int64], hits: Hits) -> None:
        """The nearest of the possible items, which are in order: ties stay so."""
        apart = self._apart(query, possible)
        nearest = np.argsort(apart, kind="stable")[: self.k]
        hits.positions[query, : len(nearest)] = possible[nearest]
        hits.distances[query, : len(nearest)] = apart[nearest]

    def _sums(self, query: Rows, block: Rows) -> Rows:
        """Keys of the items of a block."""
        if not self.euclidean:
            return np.asarray(-(query @ block))
        return np.asarray(np.square(block - query[:, None]).sum(axis=0))

    def _apart(self, query: int, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        apart = np.empty(len(positions))
        measure(self.items.whole, self.queries[query], self.euclidean, positions, apart)
        return apart

    @property
    def _off(self) -> tuple[float, float]:
        """By which share a key may be off: by float32 sums, and by shadows.

        A float32 sum of n terms is off by at most (n + 1) u, u = 2^-24, times the sum of their sizes. A shadow is
        off by its last rounding, and by the square root of what a float64 sum is.
        """
        n_summed, n_features = self.passing.shape[1], self.queries.shape[1]
        return (n_summed + 8) * _U, 0.0 if self.items.shadow is None else 4 * _U + 4e-8 * n_features**0.5

    def nearest_with(self, keys: Any, some: Some = _ALL) -> NDArray[np.float64]:
        """How near an item is at least that got such a key for each of some queries."""
        of_sum, of_shadow = self._off
        lengths = self.lengths[some]
        if not self.euclidean:
            return np.asarray(keys - (of_sum + 2 * of_shadow) * lengths * self.longest - _TINY)
        if not of_shadow:
            return np.asarray((keys - _TINY) * (1 - of_sum))
        reach = np.sqrt(np.maximum(keys - _TINY, 0) * (1 - of_sum))
        reach -= of_shadow * (lengths + np.minimum(self.longest, lengths + reach))
        return np.asarray(np.square(np.maximum(reach, 0)))

    def _highest_key(self, apart: Any, lengths: Any) -> Any:
        """The highest key that an item may have got which is so far from a query of such length."""
        of_sum, of_shadow = self._off
        if not self.euclidean:
            return apart + (of_sum + 2 * of_shadow) * lengths * self.longest + _TINY
        reach = np.sqrt(apart)
        reach = reach + 2 * of_shadow * (lengths + np.minimum(self.longest, lengths + reach))
        return np.square(reach) * (1 + 2 * of_sum) + _TINY

    def _rooted(self, hits: Hits) -> Hits:
        """Hits with distances that were squared until here."""
        return hits if not self.euclidean else Hits(hits.positions, np.sqrt(hits.distances))


class CoarseSearch(Search):
    """A search that passes over rounded items, whose keys are how near items are at least."""

    def __init__(self, items: Blocks, hidden: Rows, longest: float, euclidean: bool, queries: Rows, k: int) -> None:
        super().__init__(items, hidden, longest, euclidean, queries, k)
        self.n_best = k + min(k + _SLACK_OF_COARSE, max(_WIDEST - k, _SLACK_OF_COARSE))

    def _asked(self, query: int) -> Asked:
        assert self.items.coarse is not None
        return self.items.coarse.asked(self.queries[query], self.euclidean)

    def pass_over(self, query: int, begin: int, end: int, keys: Rows, positions: NDArray[np.int64]) -> None:
        self._asked(query).keep(self.hidden, begin, end, keys, positions)

    def _keys(self, query: int) -> Rows:
        parts = [keys for _, keys in self._asked(query).keys(self.hidden, 0, len(self.hidden))]
        return np.concatenate(parts)

    def _collected(
        self, rows: NDArray[np.intp], highest: NDArray[np.float64], room: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        found, counts = np.empty((len(rows), room), np.int64), np.zeros(len(rows), np.int64)

        def look(part: slice) -> None:
            for at in range(len(rows))[part]:
                there = self._asked(rows[at]).collect(self.hidden, highest[at])
                counts[at] = len(there)
                found[at, : len(there)] = there[:room]

        in_parts(look, len(rows))
        return found, counts

    def nearest_with(self, keys: Any, some: Some = _ALL) -> NDArray[np.float64]:
        return np.asarray(np.minimum(keys * (1 - 2 * _U), keys * (1 + 2 * _U)) - _TINY)

    def _highest_key(self, apart: Any, lengths: Any) -> Any:
        return apart + 2 * _U * np.abs(apart) + _TINY


def lengths_of(rows: Rows) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)))


def _nothing_yet(shape: tuple[int, ...]) -> tuple[Rows, NDArray[np.int64]]:
    return np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)


def _in_groups(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows, with zeros behind them to make up a multiple of `GROUP`."""
    return np.concatenate([rows, np.zeros((-len(rows) % GROUP, *rows.shape[1:]), rows.dtype)])
