"""Linear metrics: the Mahalanobis distance and the bilinear similarity. The latter has scores but no distances."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from oahu.arrays import as_array
from oahu.exceptions import InvalidInputError, NoDistanceError
from oahu.io.model_files import Content, storable
from oahu.messages import shorten
from oahu.metrics.metric import DistanceMetric, Metric, SingleSpace, frozen_copy, normalize_rows

__all__ = ["BilinearMetric", "MahalanobisMetric"]

Floats = NDArray[np.floating]


@storable
@dataclass(frozen=True, eq=False)
class MahalanobisMetric(DistanceMetric):
    """``D(a, b) = ||L (a - b)||``: the Mahalanobis distance of ``M = L^T L``.

    Attributes
    ----------
    factor : ndarray of shape (n_dimensions, n_features)
        The matrix L. `transform` returns ``X L^T``.
    version : int
        Number of constraints that the learner had learned.

    Examples
    --------
    >>> metric = MahalanobisMetric.from_matrix(np.diag([4.0, 1.0]))
    >>> metric.distance([0.0, 0.0], [1.0, 0.0])
    2.0
    """

    factor: Floats = field(repr=False)
    version: int = 0

    rounding_depends_on_batch = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", _floats(self.factor, "factor"))
        if self.factor.ndim != 2 or 0 in self.factor.shape:
            raise InvalidInputError(
                f"The factor must have shape (n_dimensions, n_features). Got {self.factor.shape} instead."
            )

    @classmethod
    def from_matrix(cls, matrix: Any, version: int = 0) -> MahalanobisMetric:
        """Return the metric of a symmetric matrix M, in O(d^3) time.

        Negative eigenvalues of M are replaced by 0.
        """
        array = _floats(matrix, "matrix")
        if array.ndim != 2 or array.shape[0] != array.shape[1]:
            raise InvalidInputError(f"M must be a square matrix. Got shape {array.shape} instead.")
        if not np.allclose(array, array.T, rtol=0, atol=1e-3 * np.abs(array).max(initial=0)):
            raise InvalidInputError("M must be symmetric, up to rounding. Pass (M + M.T) / 2 instead.")
        values, vectors = np.linalg.eigh(array.astype(np.float64))
        factor = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
        return cls(factor.astype(array.dtype), version)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The matrix M, of shape (n_features, n_features)."""
        factor = self.factor.astype(np.float64)
        return np.asarray(factor.T @ factor)

    @property
    def n_features(self) -> int:
        return int(self.factor.shape[1])

    @property
    def dimensions(self) -> int:
        return len(self.factor)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.factor.dtype

    @property
    def spaces(self) -> tuple[SingleSpace]:
        return (SingleSpace(self),)

    def transform_checked(self, items: NDArray[Any]) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            vectors: Floats = items.astype(self.dtype, copy=False) @ self.factor.T
        self._raise_overflow(~np.isfinite(vectors).all(axis=1))
        return vectors

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        # Subtract before the matrix product. Afterwards, large common parts would cancel with a loss of precision.
        tuples = items.astype(self.dtype, copy=False).reshape(len(items) // size, size, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = ((tuples[:, 1:] - tuples[:, :1]) @ self.factor.T).astype(np.float64)
            scores: NDArray[np.float64] = -np.sqrt(np.square(apart).sum(axis=2)).T
        self._raise_tuple_overflow(scores, items, size)
        return scores

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Support pickle and copy. The arrays of the copied metric are read-only too."""
        return MahalanobisMetric, (self.factor, self.version)

    def _to_content(self) -> Content:
        return Content({"version": self.version}, {"factor": self.factor})

    @classmethod
    def _from_content(cls, content: Content) -> MahalanobisMetric:
        return cls(content.array("factor", (None, None)), content.count("version"))


@storable
@dataclass(frozen=True, eq=False)
class BilinearMetric(Metric):
    """``S(a, b) = a^T W b``: a similarity with scores but no distances. S need not be symmetric.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_features), or (n_features,) for a diagonal
        The matrix W, or its diagonal.
    normalize : bool
        Whether items are scaled to unit length first. Without scaling, items with larger lengths tend to have
        higher scores.
    version : int
        Number of constraints that the learner had learned.

    Examples
    --------
    >>> metric = BilinearMetric(np.array([[0.0, 1.0], [0.0, 0.0]]), normalize=False)
    >>> metric.score([1.0, 0.0], [0.0, 1.0]), metric.score([0.0, 1.0], [1.0, 0.0])
    (1.0, 0.0)
    """

    matrix: Floats = field(repr=False)
    normalize: bool = True
    version: int = 0

    measure = "ip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", _floats(self.matrix, "matrix"))
        if len(set(self.matrix.shape)) != 1 or self.matrix.ndim > 2 or not self.matrix.size:
            raise InvalidInputError(
                "W must have shape (n_features, n_features), or (n_features,) for a diagonal. "
                f"Got {self.matrix.shape} instead."
            )

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def dimensions(self) -> int:
        return self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    @property
    def accepts_sparse(self) -> bool:
        return True

    @property
    def spaces(self) -> tuple[SingleSpace]:
        return (SingleSpace(self),)

    def encode_checked(self, items: NDArray[Any], joint: bool) -> list[Floats]:
        rows: Floats = np.array(items, dtype=self.dtype)
        return [normalize_rows(rows) if self.normalize else rows]

    def encode_queries_checked(self, queries: NDArray[Any], joint: bool) -> list[Floats]:
        """Encode each query a as ``a^T W``. Its inner products with encoded items are the scores."""
        (rows,) = self.encode_checked(queries, joint)
        with np.errstate(over="ignore", invalid="ignore"):
            mapped = rows * self.matrix if self.matrix.ndim == 1 else rows @ self.matrix
        self._raise_overflow(~np.isfinite(mapped).all(axis=1))
        return [mapped]

    def scores_to_first(self, items: Any, size: int) -> NDArray[np.float64]:
        rows = items.astype(self.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = unit_rows(rows) if self.normalize else rows
            first = rows[::size]
            if hasattr(rows, "tocsr"):
                mapped = first.multiply(self.matrix).tocsr() if self.matrix.ndim == 1 else first @ self.matrix
                columns = [np.asarray(rows[k::size].multiply(mapped).sum(axis=1)).ravel() for k in range(1, size)]
            else:
                mapped = first * self.matrix if self.matrix.ndim == 1 else first @ self.matrix
                columns = [np.einsum("ij,ij->i", mapped, rows[k::size]) for k in range(1, size)]
        scores = np.array(columns, dtype=np.float64)
        self._raise_tuple_overflow(scores, items, size)
        return scores

    def _all_scores(self, left: Any, right: Any) -> NDArray[np.float64]:
        a, b = (rows.astype(self.dtype, copy=False) for rows in (left, right))
        with np.errstate(over="ignore", invalid="ignore"):
            a, b = (unit_rows(a), unit_rows(b)) if self.normalize else (a, b)
            if self.matrix.ndim == 1:
                mapped = a.multiply(self.matrix).tocsr() if hasattr(a, "tocsr") else a * self.matrix
            else:
                mapped = a @ self.matrix
            product = mapped @ b.T
        scores = np.asarray(product.toarray() if hasattr(product, "tocsr") else product, dtype=np.float64)
        self._raise_overflow(~np.isfinite(scores).all(axis=1))
        return scores

    @cached_property
    def _nearest(self) -> MahalanobisMetric:
        matrix = np.diag(self.matrix) if self.matrix.ndim == 1 else self.matrix
        return MahalanobisMetric.from_matrix((matrix + matrix.T) / 2, self.version)

    def nearest_distance(self) -> MahalanobisMetric:
        """Return the Mahalanobis metric of (W + W^T) / 2 with negative eigenvalues replaced by 0, in O(d^3) time.

        The matrix of this metric is the positive semi-definite matrix that is nearest to W in Frobenius norm. The
        returned metric does not scale items. If ``normalize`` is True, scale items to unit length before you pass
        them to the returned metric.
        """
        return self._nearest

    def transform(self, X: Any) -> NoReturn:
        """Raise `NoDistanceError`, because a bilinear similarity has no vectors."""
        self._no_distance("vectors")

    def distance(self, a: Any, b: Any) -> NoReturn:
        """Raise `NoDistanceError`, because a bilinear similarity has no distances."""
        self._no_distance("distances")

    def _no_distance(self, what: str) -> NoReturn:
        raise NoDistanceError(
            f"A BilinearMetric has no {what}. Its scores a^T W b need not be symmetric, and the score of two equal "
            "items need not be 0. Use score(a, b), or the nearest metric with distances: nearest_distance()."
        )

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Support pickle and copy. The arrays of the copied metric are read-only too."""
        return BilinearMetric, (self.matrix, self.normalize, self.version)

    def _to_content(self) -> Content:
        return Content({"version": self.version, "normalize": self.normalize}, {"matrix": self.matrix})

    @classmethod
    def _from_content(cls, content: Content) -> BilinearMetric:
        d = len(content.arrays["matrix"])
        diagonal = content.arrays["matrix"].ndim == 1
        normalize = content.state["normalize"]
        if not isinstance(normalize, bool):
            raise ValueError(f"its 'normalize' entry must be true or false, not {shorten(normalize)}")
        return cls(content.array("matrix", (d,) if diagonal else (d, d)), normalize, content.count("version"))


def _floats(data: Any, what: str) -> Floats:
    """Return a read-only copy of ``data`` as float32 or float64."""
    array = as_array(data, what)
    if not np.isfinite(array).all():
        raise InvalidInputError(f"The {what} must contain only finite numbers. Got NaN or infinity instead.")
    return frozen_copy(array if array.dtype in (np.float32, np.float64) else array.astype(np.float64))


def unit_rows(rows: Any) -> Any:
    """Scale the rows of a dense array or CSR matrix to unit length. A row of zeros is not scaled."""
    if not hasattr(rows, "tocsr"):
        return normalize_rows(rows)
    scaled = rows.tocsr(copy=True)
    largest = abs(scaled).max(axis=1).toarray().ravel()
    _divide_rows(scaled, largest)  # prevents overflow and underflow of squares
    _divide_rows(scaled, np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()))
    return scaled


def _divide_rows(rows: Any, by: NDArray[Any]) -> None:
    """Divide each row by its divisor in ``by``. A row with divisor 0 does not change."""
    rows.data /= np.repeat(np.where(by > 0, by, 1), np.diff(rows.indptr)).astype(rows.dtype)
