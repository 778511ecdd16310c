"""What classification and retrieval share: items in the spaces of a metric, and the paper's score of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidTypeError, OverflowedItemError
from oahu.metrics import Metric
from oahu.tasks.neighbors import ExactIndex, Index, search_all
from oahu.tasks.shadow import Shadow

__all__ = ["VOTES", "Found", "Gallery", "Vote", "as_metric", "counted_from", "likeness", "neighbour_scores"]

Vote = Literal["experts", "joint"]

#: How an ensemble is asked: every expert for itself, or all of them by one joint vector.
VOTES: Final = get_args(Vote)

_BLOCK = 4096  # items encoded at a time


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
        dimensions = [space.shape[1] for space in metric.encode(np.zeros((1, metric.n_features)), joint)]
        indexes = tuple(_index(size, metric, approximate) for size in dimensions)
        names, weights = zip(*spaces, strict=True)
        return cls(metric, joint, names, np.array(weights), indexes)

    def add(self, items: NDArray[Any]) -> Gallery:
        """More items, which were checked: encoded block by block, and indexed while they are near."""
        indexes = self._with_room_for(items)
        waiting: list[list[NDArray[Any]]] = [[] for _ in indexes]
        for start in range(0, len(items), _BLOCK):
            with counted_from(start):
                parts = self.metric.encode_checked(items[start : start + _BLOCK], self.joint)
                for at, part in enumerate(parts):
                    index = indexes[at]
                    if isinstance(index, ExactIndex):
                        indexes[at] = index.add(part)
                    else:  # it changes itself, so all items must be known to be right first
                        waiting[at].append(part)
        indexes = [
            index.add(np.concatenate(parts)) if parts else index
            for index, parts in zip(indexes, waiting, strict=True)
        ]
        return replace(self, indexes=tuple(indexes))

    def _with_room_for(self, items: NDArray[Any]) -> list[Index]:
        """The indexes; exact ones with nothing in them are made for such items."""
        exact = [index for index in self.indexes if isinstance(index, ExactIndex) and not index.n_added]
        if len(items) <= _BLOCK or len(exact) < len(self.indexes):
            return list(self.indexes)
        samples: list[Any] = [None] * len(exact)
        if any(Shadow.suits(index.dimensions) for index in exact):
            some = np.linspace(0, len(items) - 1, _BLOCK).astype(int)
            with suppress(OverflowedItemError):  # the block that it is in will say so
                samples = self.metric.encode_checked(items[some], self.joint)
        return [
            ExactIndex.empty(index.dimensions, index.measure, len(items), like)
            for index, like in zip(exact, samples, strict=True)
        ]

    def remove(self, positions: NDArray[np.int64]) -> Gallery:
        """Without the items at these positions."""
        return replace(self, indexes=tuple(index.remove(positions) for index in self.indexes))

    def search(self, queries: ArrayLike, k: int) -> Found:
        """The k nearest items of every query in every space."""
        encoded = self.metric.encode_queries(queries, self.joint)
        hits = search_all(self.indexes, encoded, k)
        return Found(np.stack([hit.positions for hit in hits]), np.stack([hit.distances for hit in hits]))


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
    from oahu.tasks.ann import ApproximateIndex

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
        f"Got a {type(metric).__name__} instead.{hint}"
    )
