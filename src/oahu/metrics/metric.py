"""Base classes of all metrics. A metric is an immutable object that computes similarity scores of items."""

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
    """One space of a metric, with a name and a weight. `encode` returns the vectors of items in this space."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...

    @property
    def dimensions(self) -> int:
        """The length of the vectors of this space."""
        ...

    def encode(self, X: ArrayLike) -> Floats:
        """Encode items of shape (n_items, n_features) as vectors of shape (n_items, dimensions)."""
        ...


class Metric(ABC):
    """Base class of metrics. A metric is immutable: later learning does not change it."""

    version: int  # the number of constraints that the learner had learned

    #: How vectors are compared in the spaces: "l2" by Euclidean distance, "ip" by inner product.
    measure: ClassVar[Literal["l2", "ip"]] = "l2"

    #: The largest possible distance in any space of the metric, if distances are bounded.
    diameter: ClassVar[float | None] = None

    #: Whether encoded items may differ in the last bits with the batch size, because they are computed by matrix
    #: products.
    rounding_depends_on_batch: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The number of features of an item (d)."""

    @property
    @abstractmethod
    def dimensions(self) -> int:
        """The length of the joint vector of an item, which combines its vectors in all spaces."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The floating-point type of all computations."""

    @property
    @abstractmethod
    def spaces(self) -> tuple[Space, ...]:
        """The spaces of the metric, each with its weight. The weights sum to 1."""

    @property
    def for_verification(self) -> Metric:
        """The variant of this metric for deciding whether the items of a pair are similar.

        The weights of its spaces may differ from the weights for search.
        """
        return self

    @property
    def accepts_sparse(self) -> bool:
        """Whether items can be given as a sparse matrix."""
        return False

    @abstractmethod
    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        """Return the scores between the first item and each other item of every pair or triplet.

        ``items`` has shape (m * size, d) and must be validated already. The scores have shape (size - 1, m). If a
        score is not finite, `OverflowedItemError` is raised. Its ``row`` is the row number of an item in ``items``.
        """

    def score(self, a: Any, b: Any) -> Any:
        """Return similarity scores: a float for two vectors, an array of shape (n,) for two arrays of n items.

        A higher score means that the items are more similar.
        """
        a, b = (side if hasattr(side, "tocsr") else as_array(side, "items") for side in (a, b))
        one = a.ndim == 1 and b.ndim == 1
        left, right = (self._check(side[None] if one else side) for side in (a, b))
        if left.shape != right.shape:
            raise InvalidInputError(
                "score needs two items, or two arrays with the same number of items. "
                f"Got {left.shape[0]} and {right.shape[0]} items instead."
            )
        scores = self._row_scores(left, right)
        return float(scores[0]) if one else scores

    def scores(self, X: Any, Y: Any) -> NDArray[np.float64]:
        """Return the similarity score of each item of X with each item of Y, of shape (len(X), len(Y))."""
        return self._all_scores(self._check(X), self._check(Y))

    @abstractmethod
    def _all_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        """Return the same as `scores`. The items must be validated already."""

    def encode(self, X: ArrayLike, joint: bool = False) -> list[Floats]:
        """Encode items as vectors for an index: one array of shape (n_items, dimensions) for each space.

        With ``joint=True``, the list contains one array, the joint vectors. An index of joint vectors ranks items
        in the same order as `score`.
        """
        return self.encode_checked(self.check_dense(X), joint)

    def encode_queries(self, X: ArrayLike, joint: bool = False) -> list[Floats]:
        """Encode queries as vectors for a search in an index of encoded items.

        If the metric is symmetric, queries and items are encoded in the same way.
        """
        return self.encode_queries_checked(self.check_dense(X), joint)

    def encode_queries_checked(self, queries: NDArray[Any], joint: bool) -> list[Floats]:
        """Return the same as `encode_queries`. `check_dense` must have validated the queries already."""
        return self.encode_checked(queries, joint)

    @abstractmethod
    def encode_checked(self, items: NDArray[Any], joint: bool) -> list[Floats]:
        """Return the same as `encode`. The items must be validated already."""

    def encode_columns(self, items: NDArray[Any], places: Sequence[Floats], first: int) -> None:
        """Encode validated items and write the vectors to ``places``, which has one array per space.

        Each item has one column of an array. The first item has column ``first``.
        """
        for place, vectors in zip(places, self.encode_checked(items, False), strict=True):
            place[:, first : first + len(vectors)] = vectors.T

    def space_distances(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
        """Return the distance between row i of ``a`` and row i of ``b`` in each space, of shape (n_spaces, n).

        If a metric compares vectors by inner product, the result contains the negated inner products instead of
        distances.
        """
        left, right = self._check(a), self._check(b)
        if left.shape != right.shape:
            raise InvalidInputError(
                "space_distances needs two arrays with the same number of items. "
                f"Got {left.shape[0]} and {right.shape[0]} items instead."
            )
        return self.space_distances_checked(left, right)

    def space_distances_checked(self, left: Any, right: Any) -> NDArray[np.float64]:
        """Return the same as `space_distances`. The arrays must be validated already."""
        return np.asarray(-self._row_scores(left, right))[None]

    def _row_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        """Return the score of row i of ``left`` with row i of ``right``, for each i."""
        try:
            return np.asarray(self.scores_to_first(_side_by_side(left, right), 2)[0])
        except OverflowedItemError as error:
            row = error.row // 2
            raise OverflowedItemError(error.about(f"item {row}"), row) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a file that `oahu.load` reads."""
        model_files.save(self, path)  # type: ignore[arg-type]

    def check_dense(self, X: ArrayLike) -> NDArray[Any]:
        """Return validated items as a dense array: finite numbers, with ``n_features`` columns."""
        return np.asarray(self._check(as_array(X, "items")))

    def _check(self, X: Any) -> Any:
        """Return validated items: finite numbers, with ``n_features`` columns."""
        if self.accepts_sparse and hasattr(X, "tocsr"):
            items = as_table(X, "items", accept_sparse=True)
        else:
            items = as_array(X, "items")
        if items.ndim != 2 or not items.shape[0]:
            raise InvalidInputError(
                "Items must have shape (n_items, n_features), with at least one item. "
                f"Got an array of shape {items.shape} instead."
            )
        if items.shape[1] != self.n_features:
            raise InvalidInputError(
                f"X has {items.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features} features as input."
            )
        check_items(items, self.dtype)
        return items

    def _raise_overflow(self, wrong: Any, first: int = 0) -> None:
        """Raise `OverflowedItemError` if ``wrong`` marks an item.

        ``wrong[i]`` refers to the item in row ``first + i``.
        """
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0]) + first
            raise OverflowedItemError(
                f"Item {row} is too large for the model's {self.dtype}: its embedding overflows. Scale the "
                "features, for example to [0, 1].",
                row,
            )

    def _raise_tuple_overflow(self, scores: NDArray[Any], items: Any, size: int) -> None:
        """Raise `OverflowedItemError` if a score is not finite.

        The error names the largest item of the first pair or triplet with such a score.
        """
        wrong = ~np.isfinite(scores).all(axis=0)
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0]) * size
            largest = abs(items[first : first + size]).max(axis=1)
            at = first + int(np.argmax(largest.toarray() if hasattr(largest, "tocsr") else largest))
            self._raise_overflow(np.arange(items.shape[0]) == at)


class DistanceMetric(Metric):
    """Base class of metrics with distances. A distance is the Euclidean distance between two vectors."""

    @abstractmethod
    def transform_checked(self, items: NDArray[Any]) -> Floats:
        """Return the same as `transform`. The items must be validated already."""

    def transform(self, X: ArrayLike) -> Floats:
        """Return one vector per item. The Euclidean distances between the vectors are the metric's distances."""
        return self.transform_checked(self._check(X))

    def encode_checked(self, items: NDArray[Any], joint: bool) -> list[Floats]:
        return [self.transform_checked(items)]

    def distance(self, a: ArrayLike, b: ArrayLike) -> Any:
        """Return the distance between items.

        The result is a float for two vectors, and an array of shape (n,) for two arrays of shape (n, n_features).
        """
        left, right = as_array(a, "items"), as_array(b, "items")
        if left.shape != right.shape or left.ndim not in (1, 2):
            raise InvalidInputError(
                "distance needs two items, or two arrays with the same number of items. "
                f"Got shapes {left.shape} and {right.shape} instead."
            )
        return -self.score(left, right)

    def _all_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        from scipy.spatial.distance import cdist

        scores = np.asarray(-cdist(self.transform_checked(left), self.transform_checked(right)))
        self._raise_overflow(~np.isfinite(scores).all(axis=1))
        return scores


@dataclass(frozen=True, eq=False)
class SingleSpace:
    """The space of a metric that has only one space."""

    metric: Metric
    name: str = "whole"
    weight: float = 1.0

    @property
    def dimensions(self) -> int:
        """The length of the metric's joint vector."""
        return self.metric.dimensions

    def encode(self, X: ArrayLike) -> Floats:
        """Encode items of shape (n_items, n_features) as vectors of shape (n_items, dimensions)."""
        return self.metric.encode(X)[0]


def _side_by_side(left: Any, right: Any) -> Any:
    """Return the rows of two arrays of shape (n, d) in alternation, as an array of shape (2 n, d).

    The result is a CSR matrix if one of the arrays is sparse.
    """
    if hasattr(left, "tocsr") or hasattr(right, "tocsr"):
        from scipy import sparse

        both = sparse.vstack([sparse.csr_array(left), sparse.csr_array(right)]).tocsr()
        return both[np.arange(2 * left.shape[0]).reshape(2, -1).T.ravel()]
    return np.stack([left, right], axis=1).reshape(2 * len(left), -1)


def normalize_rows(vectors: Floats) -> Floats:
    """Scale rows to length 1, even if their squares overflow or underflow. A row of zeros is not scaled."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    extreme = ~((squares > 1e-30) & (squares < 1e30))
    if extreme.any():
        largest = np.abs(vectors).max(axis=1, where=extreme[:, None], initial=0)
        vectors = vectors / np.where(largest > 0, largest, 1)[:, None].astype(vectors.dtype)
        squares = np.einsum("ij,ij->i", vectors, vectors)
    lengths = np.sqrt(np.where(squares > 0, squares, 1))
    return np.asarray(vectors / lengths[:, None])


def frozen_copy(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy of an array."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
