"""Items indexed in the spaces of a metric, and the paper's score for nearest neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidTypeError, OverflowedItemError
from oahu.index.exact import ExactIndex, Index, IndexWriter, search_all
from oahu.index.threads import run_interleaved
from oahu.metrics import Metric

__all__ = [
    "VOTE_MODES",
    "AfterBlock",
    "FeatureRows",
    "IndexedItems",
    "SpaceNeighbours",
    "VoteMode",
    "as_metric",
    "merge_rounding_ties",
    "neighbour_scores",
    "offset_error_rows",
    "similarity_of",
]

Floats = NDArray[np.floating]
VoteMode = Literal["joint", "experts"]
AfterBlock = Callable[[float], None]

#: Search modes for a metric with several spaces. "joint" searches the joint vectors. "experts" lets all spaces
#: vote.
VOTE_MODES: Final = get_args(VoteMode)


class FeatureRows(Protocol):
    """Features of items: an array, or an object that loads rows on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any) -> NDArray[Any]: ...


_BLOCK = 4096  # items encoded at a time
_SMALL_BLOCK = 512  # items encoded at a time if a callback runs after each block
_ROUNDING = 1e-6  # bound on the rounding error of a float32 sum in any order, relative to the vector's length


class SpaceNeighbours(NamedTuple):
    """The k nearest items of every query in every space.

    Attributes
    ----------
    positions : ndarray of shape (n_spaces, n_queries, k)
        The positions of the items. The position of an item is the number of items that were added before it. If
        there are fewer than k items, the remaining entries are -1.
    distances : ndarray of shape (n_spaces, n_queries, k)
        The distances, or the negative scores for a metric without distances. If there are fewer than k items, the
        remaining entries are infinite.
    """

    positions: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class IndexedItems:
    """An immutable set of items of a metric, with one index for each space or one index of the joint vectors.

    Attributes
    ----------
    metric : Metric
    joint : bool
        True if there is one index of the joint vectors, False if there is one index for each space.
    space_names : tuple of str
    weights : ndarray of shape (n_spaces,)
    indexes : tuple of Index
    """

    metric: Metric
    joint: bool
    space_names: tuple[str, ...]
    weights: NDArray[np.float64]
    indexes: tuple[Index, ...]

    @classmethod
    def empty(cls, metric: Metric, vote: VoteMode = "joint", approximate: bool = False) -> IndexedItems:
        """Return an empty set of items."""
        if vote == "joint":
            index = _index(metric.dimensions, metric, approximate)
            return cls(metric, True, ("joint",), np.ones(1), (index,))
        names, weights, dimensions = zip(
            *((space.name, space.weight, space.dimensions) for space in metric.spaces), strict=True
        )
        indexes = tuple(_index(size, metric, approximate) for size in dimensions)
        return cls(metric, False, names, np.array(weights), indexes)

    @property
    def dimensions(self) -> int:
        """The length of an item's vectors, summed over all spaces."""
        return sum(index.dimensions for index in self.indexes)

    # -- adding and removing -----------------------------------------------------------------------------

    def add(self, items: FeatureRows, after_block: AfterBlock | None = None) -> IndexedItems:
        """Return a set that also contains the given items. The new items are encoded and indexed block by block.

        Parameters
        ----------
        items : FeatureRows
            Validated items.
        after_block : callable, optional
            A function that is called after each block with the duration of that block in seconds. With this
            function, blocks are smaller, so that other threads can run between the blocks.
        """
        if not len(items):
            return self
        exact = [index for index in self.indexes if isinstance(index, ExactIndex)]
        if len(exact) == len(self.indexes):
            return replace(self, indexes=self._add_to(exact, items, after_block))
        # An approximate index changes in place. So all items are encoded, which validates them, before the first
        # is added.
        vectors = self.metric.encode_checked(items[:], self.joint)
        indexes = (index.add(rows) for index, rows in zip(self.indexes, vectors, strict=True))
        return replace(self, indexes=tuple(indexes))

    def _add_to(
        self, indexes: list[ExactIndex], items: FeatureRows, after_block: AfterBlock | None
    ) -> tuple[ExactIndex, ...]:
        """Return the indexes with the given items added. Each thread encodes and writes whole blocks."""

        @cache
        def sample() -> list[Any]:
            """Return a sample of the items, encoded in every space."""
            rows = np.linspace(0, len(items) - 1, min(len(items), _BLOCK)).astype(int)
            with suppress(OverflowedItemError):  # raised again, with the right row, when its block is encoded
                return list(self.metric.encode_checked(items[rows], self.joint))
            return [np.zeros((0, index.dimensions)) for index in indexes]

        writers = [
            index.reserve(len(items), partial(lambda space: sample()[space], space))
            for space, index in enumerate(indexes)
        ]
        errors: list[OverflowedItemError] = []
        size = _BLOCK if after_block is None else _SMALL_BLOCK

        def encode_block(block: int) -> None:
            start, begin = block * size, time.monotonic()
            try:
                with offset_error_rows(start):
                    self._write(items[start : start + size], writers, start)
            except OverflowedItemError as error:
                errors.append(error)
            if after_block is not None:
                after_block(time.monotonic() - begin)

        run_interleaved(encode_block, -(-len(items) // size))
        if errors:
            raise min(errors, key=lambda error: error.row)
        return tuple(writer.finish() for writer in writers)

    def _write(self, items: NDArray[Any], writers: list[IndexWriter], start: int) -> None:
        """Encode items and write them to the indexes.

        Unit vectors are encoded directly into the memory of an index.
        """
        if self.metric.diameter == 2 and not self.joint:
            columns = [writer.unit_columns(start, len(items)) for writer in writers]
            targets = [target for target in columns if target is not None]
            if len(targets) == len(writers):
                self.metric.encode_columns(items, [block for block, _ in targets], targets[0][1])
                return
        for writer, vectors in zip(writers, self.metric.encode_checked(items, self.joint), strict=True):
            writer.write(start, vectors)

    def remove(self, positions: NDArray[np.int64]) -> IndexedItems:
        """Return a set without the items at these positions."""
        return replace(self, indexes=tuple(index.remove(positions) for index in self.indexes))

    # -- searching ---------------------------------------------------------------------------------------

    def search(self, queries: ArrayLike, k: int) -> SpaceNeighbours:
        """Return the k nearest items of every query in every space."""
        return self.nearest(self.encode_queries(self.metric.check_dense(queries)), k)

    def encode_queries(self, queries: NDArray[Any]) -> list[Floats]:
        """Return the encoded queries: an array of shape (n_queries, dimensions) for each space.

        The caller must have validated the queries.
        """
        return self.metric.encode_queries_checked(queries, self.joint)

    def nearest(self, vectors: Sequence[Floats], k: int) -> SpaceNeighbours:
        """Return the k nearest items in every space, for queries encoded by `encode_queries`."""
        hits = search_all(self.indexes, vectors, k)
        found = SpaceNeighbours(
            np.stack([hit.positions for hit in hits]), np.stack([hit.distances for hit in hits])
        )
        if not self.metric.rounding_depends_on_batch:
            return found
        lengths = [np.sqrt(np.square(rows.astype(np.float64)).sum(axis=1)) for rows in vectors]
        return merge_rounding_ties(found, _ROUNDING * np.stack(lengths)[:, :, None])

    def combined_distances(
        self, vectors: Sequence[Floats], positions: NDArray[np.int64], items: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Return the metric's distances between encoded queries and items, ``sqrt(sum_l w_l D_l^2)``.

        Parameters
        ----------
        vectors : sequence of ndarray of shape (n_queries, dimensions)
            The result of `encode_queries`.
        positions : ndarray of shape (n_queries, k)
            The positions of the items for each query. The distance for a negative position is infinite.
        items : ndarray of shape (n_items, n_features)
            The features of all items. With an approximate index, the distances are computed from these features,
            because an item may have been removed from the index since the search.
        """
        if all(isinstance(index, ExactIndex) for index in self.indexes):
            exact: Any = self.indexes
            distances = [index.distances(rows, positions) for index, rows in zip(exact, vectors, strict=True)]
        else:
            distances = self._encoded_distances(vectors, positions, items)
        missing = positions < 0
        squares = np.where(missing, 0, np.square(np.stack(distances)))
        return np.where(missing, np.inf, np.sqrt(np.tensordot(self.weights, squares, 1)))

    def _encoded_distances(
        self, vectors: Sequence[Floats], positions: NDArray[np.int64], items: NDArray[Any]
    ) -> list[NDArray[np.float64]]:
        """Encode the items again, and return the distances between queries and items in every space."""
        distances = [np.full(positions.shape, np.inf) for _ in vectors]
        found = np.nonzero(positions >= 0)
        if len(found[0]):
            distinct, inverse = np.unique(positions[found], return_inverse=True)
            encoded = self.metric.encode_checked(items[distinct], self.joint)
            for space, rows, others in zip(distances, vectors, encoded, strict=True):
                queries, candidates = (each.astype(np.float32).astype(np.float64) for each in (rows, others))
                space[found] = np.sqrt(np.square(queries[found[0]] - candidates[inverse]).sum(axis=1))
        return distances


def merge_rounding_ties(found: SpaceNeighbours, rounding: NDArray[np.float64]) -> SpaceNeighbours:
    """Return the neighbours, with equal distances for neighbours whose distances differ only by rounding.

    Such neighbours are ordered by position and all get the smallest of their distances. ``rounding`` is an upper
    bound of the rounding errors. The last bits of an encoded item depend on the batch size, because a matrix
    product of another size is summed in another order. Without this function, these bits could decide the order of
    equal items.

    >>> found = SpaceNeighbours(np.array([[[7, 3, 5]]]), np.array([[[0.0, 1e-8, 0.2]]]))
    >>> merge_rounding_ties(found, np.full((1, 1, 1), 1e-6))
    SpaceNeighbours(positions=array([[[3, 7, 5]]]), distances=array([[[0. , 0. , 0.2]]]))
    """
    distances, k = found.distances, found.positions.shape[2]
    starts_group = np.ones(distances.shape, bool)
    with np.errstate(invalid="ignore"):  # inf - inf, where there are fewer than k items
        starts_group[:, :, 1:] = np.diff(distances, axis=2) > rounding
    present = np.isfinite(distances)
    order = np.lexsort((found.positions, np.cumsum(starts_group, axis=2), ~present), axis=2)
    first = np.maximum.accumulate(np.where(starts_group, np.arange(k), 0), axis=2)
    nearest = np.where(present, np.take_along_axis(distances, first, axis=2), np.inf)
    return SpaceNeighbours(np.take_along_axis(found.positions, order, axis=2), nearest)


@contextmanager
def offset_error_rows(start: int) -> Iterator[None]:
    """Add ``start``, the first row of a block, to the row number in an `OverflowedItemError`."""
    try:
        yield
    except OverflowedItemError as error:
        row = start + error.row
        raise OverflowedItemError(error.about(f"item {row}"), row) from error


def _index(dimensions: int, metric: Metric, approximate: bool) -> Index:
    if not approximate:
        return ExactIndex.empty(dimensions, metric.measure)
    from oahu.index.approximate import ApproximateIndex

    return ApproximateIndex.empty(dimensions, metric.measure)


def neighbour_scores(distances: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score S(x, x_j) of Section 3.6 for the k nearest items in each space.

    The score is ``exp(-(D - d_min) / (d_max - d_min)) alpha``. If all k distances are equal (d_max = d_min), each
    item scores alpha. A missing item (with an infinite distance) scores 0.

    >>> neighbour_scores(np.array([[[1.0, 3.0], [2.0, 2.0], [5.0, np.inf]]]), np.array([1.0])).round(3)
    array([[[1.   , 0.368],
            [1.   , 1.   ],
            [1.   , 0.   ]]])
    """
    present = np.isfinite(distances)
    nearest = distances.min(axis=2, keepdims=True, initial=np.inf)
    spread = distances.max(axis=2, keepdims=True, initial=-np.inf, where=present) - nearest
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(spread > 0, (distances - nearest) / spread, 0)
        return np.asarray(np.where(present, np.exp(-relative) * weights[:, None, None], 0))


def similarity_of(metric: Metric, distances: Any) -> Any:
    """Return the similarities for distances D: ``1 - D / diameter`` if the metric has a diameter, else ``-D``.

    >>> from oahu import CosineMetric
    >>> similarity_of(CosineMetric(3), 0.5)
    0.75
    """
    return -distances if metric.diameter is None else 1 - distances / metric.diameter


def as_metric(metric: Any, owner: object) -> Metric:
    """Return the 'metric' parameter of ``owner`` if it is a metric, else raise `InvalidTypeError`."""
    if isinstance(metric, Metric):
        return metric
    hint = " Pass the result of the metric() method of this object." if hasattr(metric, "metric") else ""
    raise InvalidTypeError(
        f"The 'metric' parameter of {type(owner).__name__} must be a metric, such as learner.metric(). "
        f"Got {type(metric).__name__} instead.{hint}"
    )
