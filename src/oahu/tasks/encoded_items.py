"""What classification and retrieval share: items in the spaces of a metric, and the paper's score of neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidTypeError, OverflowedItemError
from oahu.index.exact import Adding, ExactIndex, Index, search_all
from oahu.index.threads import by_turns
from oahu.metrics import Metric

__all__ = [
    "VOTES",
    "Found",
    "Gallery",
    "Rest",
    "Rows",
    "Vote",
    "as_metric",
    "counted_from",
    "in_order",
    "likeness",
    "neighbour_scores",
]

Vote = Literal["experts", "joint"]
Rest = Callable[[float], None]

#: How an ensemble is asked: every expert for itself, or all of them by one joint vector.
VOTES: Final = get_args(Vote)


class Rows(Protocol):
    """Features of items: an array, or what makes parts of one when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any) -> NDArray[Any]: ...


_BLOCK = 4096  # items encoded at a time
_SMALL_BLOCK = 512  # ... and where others are to have their turn between
_ROUNDING = 1e-6  # of a vector's length: what the order of a float32 sum makes of it


class Found(NamedTuple):
    """The k nearest items of every query in every space; -1 and infinity where there are fewer.

    Attributes
    ----------
    positions : ndarray of shape (n_spaces, n_queries, k)
    distances : ndarray of shape (n_spaces, n_queries, k)
        Minus the scores for a metric that has no distances.
    """

    positions: NDArray[np.int64]
    distances: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gallery:
    """Items in the spaces of a metric: a frozen value, made of one index for each space.

    Attributes
    ----------
    names, weights : of the spaces
    """

    metric: Metric
    joint: bool
    names: tuple[str, ...]
    weights: NDArray[np.float64]
    indexes: tuple[Index, ...]

    @classmethod
    def empty(cls, metric: Metric, vote: Vote = "experts", approximate: bool = False) -> Gallery:
        """A gallery of nothing yet."""
        joint = vote == "joint"
        spaces = [("joint", 1.0)] if joint else [(space.name, space.weight) for space in metric.spaces]
        dimensions = [metric.dimensions] if joint else [space.dimensions for space in metric.spaces]
        indexes = tuple(_index(size, metric, approximate) for size in dimensions)
        names, weights = zip(*spaces, strict=True)
        return cls(metric, joint, names, np.array(weights), indexes)

    @property
    def dimensions(self) -> int:
        """The numbers of an item, in all spaces."""
        return sum(index.dimensions for index in self.indexes)

    def add(self, items: Rows, rest: Rest | None = None) -> Gallery:
        """More items, which were checked: taken and encoded block by block, and indexed while they are near.

        If there is a ``rest``, blocks are small, and it is called behind each with the seconds that it took.
        """
        if not len(items):
            return self
        exact = [index for index in self.indexes if isinstance(index, ExactIndex)]
        if len(exact) == len(self.indexes):
            return replace(self, indexes=self._added(exact, items, rest))
        # A graph changes itself, so all items must be known to be right first.
        parts = self.metric.encode_checked(items[:], self.joint)
        indexes = (index.add(part) for index, part in zip(self.indexes, parts, strict=True))
        return replace(self, indexes=tuple(indexes))

    def _added(self, indexes: list[ExactIndex], items: Rows, rest: Rest | None) -> tuple[ExactIndex, ...]:
        """The indexes with more items. Every thread takes blocks of them from the product to their place."""

        @cache
        def some() -> list[Any]:
            """Some of the items, in every space."""
            rows = np.linspace(0, len(items) - 1, min(len(items), _BLOCK)).astype(int)
            with suppress(OverflowedItemError):  # the block that it is in will say which it is
                return list(self.metric.encode_checked(items[rows], self.joint))
            return [np.zeros((0, index.dimensions)) for index in indexes]

        adding = [
            index.adding(len(items), partial(lambda space: some()[space], at)) for at, index in enumerate(indexes)
        ]
        refused: list[OverflowedItemError] = []
        size = _BLOCK if rest is None else _SMALL_BLOCK

        def encode(block: int) -> None:
            start, begin = block * size, time.monotonic()
            try:
                with counted_from(start):
                    self._put(items[start : start + size], adding, start)
            except OverflowedItemError as error:
                refused.append(error)
            if rest is not None:
                rest(time.monotonic() - begin)

        by_turns(encode, -(-len(items) // size))
        if refused:
            raise min(refused, key=lambda error: error.row)
        return tuple(place.done() for place in adding)

    def _put(self, items: NDArray[Any], adding: list[Adding], start: int) -> None:
        """Encode some items and put them in their places; unit vectors are written there straight away."""
        on_sphere = self.metric.diameter == 2 and not self.joint
        found = [place.columns(start, len(items)) for place in adding if on_sphere]
        places = [place for place in found if place is not None]
        if len(places) == len(adding):
            self.metric.encode_columns(items, [columns for columns, _ in places], places[0][1])
            return
        for place, part in zip(adding, self.metric.encode_checked(items, self.joint), strict=True):
            place.put(start, part)

    def remove(self, positions: NDArray[np.int64]) -> Gallery:
        """Without the items at these positions."""
        return replace(self, indexes=tuple(index.remove(positions) for index in self.indexes))

    def search(self, queries: ArrayLike, k: int) -> Found:
        """The k nearest items of every query in every space."""
        encoded = self.metric.encode_queries(queries, self.joint)
        hits = search_all(self.indexes, encoded, k)
        found = Found(np.stack([hit.positions for hit in hits]), np.stack([hit.distances for hit in hits]))
        if not self.metric.multiplies:
            return found
        lengths = [np.sqrt(np.square(part.astype(np.float64)).sum(axis=1)) for part in encoded]
        return in_order(found, _ROUNDING * np.stack(lengths)[:, :, None])


def in_order(found: Found, rounding: NDArray[np.float64]) -> Found:
    """Neighbours that are equally far up to rounding, in the order in which they were added, and equally far.

    The same item may be encoded to other last bits in a call with more items: a product is summed in another order.

    >>> found = Found(np.array([[[7, 3, 5]]]), np.array([[[0.0, 1e-8, 0.2]]]))
    >>> in_order(found, np.full((1, 1, 1), 1e-6))
    Found(positions=array([[[3, 7, 5]]]), distances=array([[[0. , 0. , 0.2]]]))
    """
    distances, k = found.distances, found.positions.shape[2]
    new = np.ones(distances.shape, bool)  # not as far as the one before
    with np.errstate(invalid="ignore"):  # of infinite ones, where there are fewer
        new[:, :, 1:] = np.diff(distances, axis=2) > rounding
    there = np.isfinite(distances)
    order = np.lexsort((found.positions, np.cumsum(new, axis=2), ~there), axis=2)
    first = np.maximum.accumulate(np.where(new, np.arange(k), 0), axis=2)
    nearest = np.where(there, np.take_along_axis(distances, first, axis=2), np.inf)
    return Found(np.take_along_axis(found.positions, order, axis=2), nearest)


@contextmanager
def counted_from(start: int) -> Iterator[None]:
    """Let an error about an item of a block that begins at ``start`` name its row among all."""
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
    """S(x, x_j) of Section 3.6, ``exp(-(D - d_min) / (d_max - d_min)) alpha``, over the k of each space.

    Where all are equally far, d_max = d_min, each scores alpha, as the nearest does. One that is missing scores 0.

    >>> neighbour_scores(np.array([[[1.0, 3.0], [2.0, 2.0], [5.0, np.inf]]]), np.array([1.0])).round(3)
    array([[[1.   , 0.368],
            [1.   , 1.   ],
            [1.   , 0.   ]]])
    """
    there = np.isfinite(distances)
    nearest = distances.min(axis=2, keepdims=True, initial=np.inf)
    spread = distances.max(axis=2, keepdims=True, initial=-np.inf, where=there) - nearest
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(spread > 0, (distances - nearest) / spread, 0)
        return np.asarray(np.where(there, np.exp(-relative) * weights[:, None, None], 0))


def likeness(metric: Metric, apart: Any) -> Any:
    """How alike items are that are so far apart: from 0 to 1 if the metric has a diameter, else minus the distance.

    >>> from oahu import CosineMetric
    >>> likeness(CosineMetric(3), 0.5)
    0.75
    """
    return -apart if metric.diameter is None else 1 - apart / metric.diameter


def as_metric(metric: Any, owner: object) -> Metric:
    """What was given as a metric, if it is one."""
    if isinstance(metric, Metric):
        return metric
    hint = " Take its metric()." if hasattr(metric, "metric") else ""
    raise InvalidTypeError(
        f"The 'metric' parameter of {type(owner).__name__} must be a metric, such as learner.metric(). "
        f"Got {type(metric).__name__} instead.{hint}"
    )
