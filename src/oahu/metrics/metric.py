"""Base classes of all metrics: immutable objects that score the similarity of items."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.arrays import as_array, as_table, check_items
from oahu.exceptions import InvalidInputError, OverflowedItemError
from oahu.io import model_files

__all__ = ["DistanceMetric", "Metric", "SingleSpace", "Space", "frozen_copy", "normalize_rows"]

Floats = NDArray[np.floating]


class Space(Protocol):
    """A space that a metric measures in: how much it counts, and how items get there."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    def encode(self, X: ArrayLike) -> Floats:
        """(n_items, n_features) to (n_items, dimensions of the space)."""
        ...


class Metric(ABC):
    """A frozen, versioned similarity. Learners hand it out; what they learn afterwards does not touch it."""

    version: int  # how many constraints it has learned from

    #: How vectors compare in its spaces: by Euclidean distance, or by inner product.
    measure: ClassVar[Literal["l2", "ip"]] = "l2"

    #: The largest distance there can be in any of its spaces, if there is one.
    diameter: ClassVar[float | None] = None

    #: Whether the last bits of encoded items may differ with the batch size, because matrix products encode them.
    rounding_depends_on_batch: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """d: the number of features of an item."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The length of the joint vector of an item."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """What the metric computes in."""

    @property
    @abstractmethod
    def spaces(self) -> tuple[Space, ...]:
        """The spaces it measures in, each with its weight; the weights sum to 1."""

    @property
    def for_verification(self) -> Metric:
        """What to verify pairs by: the metric itself, unless being alike is weighed differently there."""
        return self

    @property
    def accepts_sparse(self) -> bool:
        """Whether items may come as a sparse matrix."""
        return False

    @abstractmethod
    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        """How alike a tuple's first item is to each of its others: (m * size, d) items to (size - 1, m).

        The items were checked. `OverflowedItemError` names the row of one whose score is not finite.
        """

    def score(self, a: Any, b: Any) -> Any:
        """How alike items are, higher is more: two vectors give a float, two (n, n_features) arrays give (n,)."""
        a, b = (side if hasattr(side, "tocsr") else as_array(side, "items") for side in (a, b))
        one = a.ndim == 1 and b.ndim == 1
        left, right = (self._check(side[None] if one else side) for side in (a, b))
        if left.shape != right.shape:
            raise InvalidInputError(
                f"Two items or two arrays of as many items are compared. Got {left.shape[0]} and {right.shape[0]}."
            )
        scores = self._row_scores(left, right)
        return float(scores[0]) if one else scores

    def scores(self, X: Any, Y: Any) -> NDArray[np.float64]:
        """How alike each of X is to each of Y, higher is more: an array of shape (len(X), len(Y))."""
        return self._all_scores(self._check(X), self._check(Y))

    @abstractmethod
    def _all_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        """`scores` of items that were checked."""

    def encode(self, X: ArrayLike, joint: bool = False) -> list[Floats]:
        """Items as vectors, for an index: one array of shape (n_items, dimensions) for every space.

        If ``joint``, one array for all spaces together, which ranks items as `score` does.
        """
        return self.encode_checked(self.check_dense(X), joint)

    def encode_queries(self, X: ArrayLike, joint: bool = False) -> list[Floats]:
        """`encode` for what is searched for: not the same where a similarity is not symmetric."""
        return self.encode_queries_checked(self.check_dense(X), joint)

    def encode_queries_checked(self, queries: NDArray[Any], joint: bool) -> list[Floats]:
        """`encode_queries` for queries that `check_dense` has validated."""
        return self.encode_checked(queries, joint)

    @abstractmethod
    def encode_checked(self, items: NDArray[Any], joint: bool) -> list[Floats]:
        """`encode` for items that are known to be finite and to have the right features."""

    def encode_columns(self, items: NDArray[Any], places: Sequence[Floats], first: int) -> None:
        """`encode_checked`, not joint, into the columns from ``first`` on of an array for every space."""
        for place, vectors in zip(places, self.encode_checked(items, False), strict=True):
            place[:, first : first + len(vectors)] = vectors.T

    def space_distances(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
        """How far apart items are in every space, two (n, n_features) arrays to (n_spaces, n).

        Distances; minus the score where the measure is the inner product.
        """
        left, right = self._check(a), self._check(b)
        if left.shape != right.shape:
            raise InvalidInputError(
                f"Two arrays of as many items are compared. Got {left.shape[0]} and {right.shape[0]}."
            )
        return self.apart_checked(left, right)

    def apart_checked(self, left: Any, right: Any) -> NDArray[np.float64]:
        """`apart` for as many items on both sides that were validated; sparse ones if the metric accepts them."""
        return np.asarray(-self._row_scores(left, right))[None]

    def _row_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        """The score of each item of ``left`` and the one in the same row of ``right``."""
        try:
            return np.asarray(self.scores_to_first(_side_by_side(left, right), 2)[0])
        except OverflowedItemError as error:
            row = error.row // 2
            raise OverflowedItemError(error.about(f"item {row}"), row) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a file that `oahu.load` reads."""
        model_files.save(self, path)  # type: ignore[arg-type]

    def check_dense(self, X: ArrayLike) -> NDArray[Any]:
        """Items as an array, checked to be finite and to have the right features."""
        return np.asarray(self._check(as_array(X, "items")))

    def _check(self, X: Any) -> Any:
        """Items, checked to be finite and to have the right features."""
        if self.accepts_sparse and hasattr(X, "tocsr"):
            items = as_table(X, "items", accept_sparse=True)
        else:
            items = as_array(X, "items")
        if items.ndim != 2 or not items.shape[0]:
            raise InvalidInputError(
                "Items must have shape (n_items, n_features), at least one of them. "
                f"Got an array of shape {items.shape} instead."
            )
        if items.shape[1] != self.n_features:
            raise InvalidInputError(
                f"X has {items.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features} features as input."
            )
        check_items(items, self.dtype)
        return items

    def _refuse(self, wrong: Any, first: int = 0) -> None:
        """`OverflowedItemError` for the first item that is marked, if one is; ``first`` is the row of the first."""
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0]) + first
            raise OverflowedItemError(
                f"Item {row} is too large for the model's {self.dtype}: its embedding overflows. Scale the "
                "features to a usual range.",
                row,
            )

    def _refuse_tuples(self, scores: NDArray[Any], items: Any, size: int) -> None:
        """`OverflowedItemError` for the largest item of the first tuple with a score that is not finite, if any."""
        wrong = ~np.isfinite(scores).all(axis=0)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0]) * size
            largest = abs(items[first : first + size]).max(axis=1)
            at = first + int(np.argmax(largest.toarray() if hasattr(largest, "tocsr") else largest))
            self._refuse(np.arange(items.shape[0]) == at)


class DistanceMetric(Metric):
    """A metric with distances, and with vectors whose Euclidean distances they are."""

    @abstractmethod
    def transform_checked(self, items: NDArray[Any]) -> Floats:
        """`transform` for items that are known to be finite and to have the right features."""

    def transform(self, X: ArrayLike) -> Floats:
        """One vector per item, Euclidean in the metric's distance."""
        return self.transform_checked(self._check(X))

    def encode_checked(self, items: NDArray[Any], joint: bool) -> list[Floats]:
        return [self.transform_checked(items)]

    def distance(self, a: ArrayLike, b: ArrayLike) -> Any:
        """The distance between items: two vectors give a float, two (n, n_features) arrays give (n,)."""
        left, right = as_array(a, "items"), as_array(b, "items")
        if left.shape != right.shape or left.ndim not in (1, 2):
            raise InvalidInputError(
                f"distance compares two items or two arrays of as many items. "
                f"Got shapes {left.shape} and {right.shape} instead."
            )
        return -self.score(left, right)

    def _all_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        from scipy.spatial.distance import cdist

        scores = np.asarray(-cdist(self.transform_checked(left), self.transform_checked(right)))
        self._refuse(~np.isfinite(scores).all(axis=1))
        return scores


@dataclass(frozen=True, eq=False)
class SingleSpace:
    """The one space of a metric that has one."""

    metric: Metric
    name: str = "whole"
    weight: float = 1.0

    @property
    def dimensions(self) -> int:
        """The length of its vectors: that of the metric's joint vector."""
        return self.metric.dimensions

    def encode(self, X: ArrayLike) -> Floats:
        """The items' vectors: (n_items, n_features) to (n_items, dimensions)."""
        return self.metric.encode(X)[0]


def _side_by_side(left: Any, right: Any) -> Any:
    """The rows of two arrays by turns: (n, d) each to (2 n, d), CSR if one of them is sparse."""
    if hasattr(left, "tocsr") or hasattr(right, "tocsr"):
        from scipy import sparse

        both = sparse.vstack([sparse.csr_array(left), sparse.csr_array(right)]).tocsr()
        return both[np.arange(2 * left.shape[0]).reshape(2, -1).T.ravel()]
    return np.stack([left, right], axis=1).reshape(2 * len(left), -1)


def normalize_rows(vectors: Floats) -> Floats:
    """Scale rows to length 1, also where their squares over- or underflow; a zero row stays zero."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    extreme = ~((squares > 1e-30) & (squares < 1e30))
    if extreme.any():
        largest = np.abs(vectors).max(axis=1, where=extreme[:, None], initial=0)
        vectors = vectors / np.where(largest > 0, largest, 1)[:, None].astype(vectors.dtype)
        squares = np.einsum("ij,ij->i", vectors, vectors)
    lengths = np.sqrt(np.where(squares > 0, squares, 1))
    return np.asarray(vectors / lengths[:, None])


def frozen_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that cannot be written to."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
