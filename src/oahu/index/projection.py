"""Low-dimensional projections of long vectors, used to compute lower bounds of distances.

Most of the variance of long vectors usually lies in a few directions. A projected vector contains the coordinates
along these directions and one additional coordinate. The additional coordinate is the norm of the residual, that
is, of the part of the vector that is orthogonal to these directions. By the triangle inequality, the distance of
two projected vectors is at most the distance of the original vectors. For inner products, the Cauchy-Schwarz
inequality gives a similar bound. If the projection of an item is farther away from the projected query than the
distance of the k-th nearest item, a search can skip the item. Such a search reads only a fraction of the numbers,
but misses no neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Projection"]

_MIN_DIMENSIONS = 128  # shorter vectors are not projected
_N_DIRECTIONS = 95
_ITERATIONS = 2  # of the subspace iteration; the result is nearly as good as the leading eigenvectors
_SAMPLE = 2048  # items that the directions are fitted to; fewer items are not projected
_PROBES = 64  # items of the sample that are used as queries to estimate the benefit
_NEAREST = 10
_MAX_CANDIDATES = 0.02  # largest share of the items that may remain as candidates
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Projection:
    """A projection on a few orthonormal directions.

    Attributes
    ----------
    centre : ndarray of shape (dimensions,)
        The vector that is subtracted before the projection. For inner products, the vector is 0.
    basis : ndarray of shape (dimensions, n_directions)
        The directions of the projection, as orthonormal columns.
    """

    centre: NDArray[np.float64]
    basis: NDArray[np.float64]

    @property
    def dimensions(self) -> int:
        """The length of a projected vector."""
        return int(self.basis.shape[1]) + 1

    @staticmethod
    def suits(dimensions: int, count: int) -> bool:
        """Return whether ``count`` vectors with these dimensions are long and numerous enough for a projection."""
        return dimensions > _MIN_DIMENSIONS and count >= _SAMPLE

    @classmethod
    def fit(cls, vectors: NDArray[np.float32], euclidean: bool) -> Projection | None:
        """Return a projection fitted to a sample of the items. If it would not speed up searches, return None."""
        if not cls.suits(vectors.shape[1], len(vectors)):
            return None
        rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _SAMPLE)).astype(int)
        sample = vectors[rows]
        centre = sample.mean(axis=0, dtype=np.float64) if euclidean else np.zeros(vectors.shape[1])
        projection = cls(centre, _leading_directions(sample - centre.astype(np.float32)))
        return projection if projection._share_of_candidates(sample, euclidean) <= _MAX_CANDIDATES else None

    def apply(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the projections of vectors, as an array of shape (n, n_directions + 1).

        The computation uses float64. The distance of two projections can exceed the distance of the two vectors
        only by the rounding error, mainly from the final conversion to float32.
        """
        projected = np.empty((len(vectors), self.dimensions), np.float32)
        for start in range(0, len(vectors), _BLOCK):
            rows = slice(start, start + _BLOCK)
            centred = vectors[rows] - self.centre
            coordinates = centred @ self.basis
            residual = np.einsum("ij,ij->i", centred, centred) - np.einsum("ij,ij->i", coordinates, coordinates)
            projected[rows, :-1] = coordinates
            projected[rows, -1] = np.sqrt(np.maximum(residual, 0))
        return projected

    def _share_of_candidates(self, sample: NDArray[np.float32], euclidean: bool) -> float:
        """Return the share of the sample that remains as candidates for a typical query.

        The result is the median over several queries. The queries are items of the sample. An item remains if the
        lower bound of its distance is at most the distance of the tenth nearest item.
        """
        probes = np.linspace(0, len(sample) - 1, _PROBES).astype(int)
        items = sample - self.centre.astype(np.float32)
        exact, bounds = (
            _sort_values(vectors[probes], vectors, euclidean) for vectors in (items, self.apply(sample))
        )
        limit = np.partition(exact, _NEAREST, axis=1)[:, _NEAREST, None]
        return float(np.median((bounds <= limit).mean(axis=1)))


def _leading_directions(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return approximate leading principal directions of vectors, computed by subspace iteration.

    The directions need not be exact, because any orthonormal directions give correct bounds. Subspace iteration
    takes about a tenth of the time of an eigendecomposition.
    """
    largest = float(np.abs(vectors).max()) or 1.0  # squares of very large values would overflow
    rows = vectors / np.float32(largest)
    basis = np.random.default_rng(0).standard_normal((rows.shape[1], _N_DIRECTIONS), np.float32)
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    return np.asarray(np.linalg.qr(basis.astype(np.float64))[0])


def _sort_values(a: NDArray[np.float32], b: NDArray[np.float32], euclidean: bool) -> NDArray[np.float32]:
    """Return the squared distance, or the negative inner product, of each row of ``a`` and each row of ``b``."""
    products = a @ b.T
    if not euclidean:
        return -products
    return np.asarray(np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * products)
