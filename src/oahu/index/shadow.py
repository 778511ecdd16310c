"""Short vectors that are never farther apart than the long ones they stand for.

Most of what tells long vectors apart is in few directions. A shadow keeps an item's coordinates in those and,
as one more, the length of what is left. By the triangle inequality (for products: by Cauchy and Schwarz) no two
shadows are farther apart than their items. So an item whose shadow is farther away than the k-th nearest item need
not be looked at, and a search reads a fraction of the numbers and still misses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shadow"]

_LONG = 128  # shorter vectors are read as they are
_KEPT = 95  # directions that are kept
_ROUNDS = 2  # of looking for them: what they tell is then nearly what the best would
_SAMPLE = 2048  # items that directions are chosen by; fewer have no shadows
_PROBES = 64  # of them, as queries that tell whether shadows rule much out
_NEAREST = 10
_WORTH = 0.02  # share of the items that shadows may leave to be looked at
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Shadow:
    """The directions that are kept.

    Attributes
    ----------
    centre : ndarray of shape (dimensions,)
        What is subtracted first; 0 for products.
    basis : ndarray of shape (dimensions, n_kept)
        Orthonormal columns.
    """

    centre: NDArray[np.float64]
    basis: NDArray[np.float64]

    @property
    def n_passed(self) -> int:
        """The coordinates of a shadow."""
        return int(self.basis.shape[1]) + 1

    @staticmethod
    def suits(dimensions: int, count: int) -> bool:
        """Whether vectors of so many dimensions are long enough to have shadows, and so many enough."""
        return dimensions > _LONG and count >= _SAMPLE

    @classmethod
    def worth_having(cls, vectors: NDArray[np.float32], euclidean: bool) -> Shadow | None:
        """The shadow for items like these, or None if there are too few or it would rule too little out."""
        if not cls.suits(vectors.shape[1], len(vectors)):
            return None
        rows = np.linspace(0, len(vectors) - 1, min(len(vectors), _SAMPLE)).astype(int)
        sample = vectors[rows]
        centre = sample.mean(axis=0, dtype=np.float64) if euclidean else np.zeros(vectors.shape[1])
        shadow = cls(centre, _telling(sample - centre.astype(np.float32)))
        return shadow if shadow._share_left(sample, euclidean) <= _WORTH else None

    def cast(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """The shadows of vectors: (n, dimensions) to (n, n_kept + 1).

        In float64 up to the last rounding, so that they are not farther apart by more than that.
        """
        shadows = np.empty((len(vectors), self.n_passed), np.float32)
        for start in range(0, len(vectors), _BLOCK):
            rows = slice(start, start + _BLOCK)
            centred = vectors[rows] - self.centre
            kept = centred @ self.basis
            left = np.einsum("ij,ij->i", centred, centred) - np.einsum("ij,ij->i", kept, kept)
            shadows[rows, :-1] = kept
            shadows[rows, -1] = np.sqrt(np.maximum(left, 0))
        return shadows

    def _share_left(self, sample: NDArray[np.float32], euclidean: bool) -> float:
        """The share of the sample that shadows do not rule out as one of the nearest, for a typical item of it."""
        probes = np.linspace(0, len(sample) - 1, _PROBES).astype(int)
        items = sample - self.centre.astype(np.float32)
        true, seen = (_apart(vectors[probes], vectors, euclidean) for vectors in (items, self.cast(sample)))
        worst = np.partition(true, _NEAREST, axis=1)[:, _NEAREST, None]
        return float(np.median((seen <= worst).mean(axis=1)))


def _telling(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Orthonormal directions in which vectors differ most, about: subspace iteration from random ones.

    Any would do for shadows to be right; these are found in a tenth of the time that an eigendecomposition takes.
    """
    largest = float(np.abs(vectors).max()) or 1.0  # squares of what is too large for float32 would not be finite
    rows = vectors / np.float32(largest)
    found = np.random.default_rng(0).standard_normal((rows.shape[1], _KEPT), np.float32)
    for _ in range(_ROUNDS):
        found = np.linalg.qr(rows.T @ (rows @ found))[0]
    return np.asarray(np.linalg.qr(found.astype(np.float64))[0])


def _apart(a: NDArray[np.float32], b: NDArray[np.float32], euclidean: bool) -> NDArray[np.float32]:
    products = a @ b.T
    if not euclidean:
        return -products
    return np.asarray(np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * products)
