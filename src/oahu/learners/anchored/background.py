"""The background: the mean and the principal axes of a catalogue, computed without any feedback."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_AXES", "MAX_LEADING", "Background", "estimate_background", "sample_rows", "starting_background"]

Floats = NDArray[np.floating]

#: The largest number of principal axes (R).
MAX_AXES: Final = 768
#: The largest number of leading axes (r), for which matrices are learned.
MAX_LEADING: Final = 384

_MAX_SAMPLE: Final = 4_096  # items
_MAX_NUMBERS: Final = 2**23  # numbers in the sample
_EXACT_SIZE: Final = 256  # for more features, products and eigenvectors are computed in the learner's precision
_SMALLEST: Final = 1e-6  # variance relative to the largest: directions with less are unknown if there are few items


class Background(NamedTuple):
    """What is known about a catalogue without feedback.

    Attributes
    ----------
    mean : ndarray of shape (d,)
    axes : ndarray of shape (d, R)
        The principal axes, one per column, in the order of decreasing variance.
    variances : ndarray of shape (R,)
        The variance of the items along each axis.
    spread : ndarray of shape (1,)
        The root of the mean squared distance between an item and the mean.
    """

    mean: Floats
    axes: Floats
    variances: Floats
    spread: Floats

    @property
    def n_leading(self) -> int:
        """The number of leading axes (r)."""
        return min(len(self.variances), MAX_LEADING)

    def coordinates(self, items: Floats) -> Floats:
        """Return the coordinates of items along the principal axes."""
        return np.asarray((items - self.mean) @ self.axes)


def starting_background(n_features: int, dtype: np.dtype[Any]) -> Background:
    """Return the background before any item is known: mean 0, spread 1 and no axes."""
    none = np.zeros(0, dtype)
    return Background(np.zeros(n_features, dtype), np.zeros((n_features, 0), dtype), none, np.ones(1, dtype))


def sample_rows(n_items: int, n_features: int) -> NDArray[np.intp]:
    """Return evenly spaced row numbers of a catalogue: at most 4,096 rows and at most 2^23 numbers."""
    size = min(n_items, _MAX_SAMPLE, max(1, _MAX_NUMBERS // n_features))
    return np.arange(size) * n_items // size


def estimate_background(items: Floats, dtype: np.dtype[Any]) -> Background:
    """Return the background of a sample of items.

    The axes are eigenvectors of the covariance matrix, or, if there are fewer items than features, of the matrix of
    inner products of the items.
    """
    n, d = items.shape
    sample = items.astype(np.float64)
    mean = sample.mean(axis=0)
    sample -= mean
    scale = float(np.abs(sample).max(initial=0)) or 1.0  # squares of large numbers overflow in single precision
    sample = (sample / scale).astype(np.float64 if min(n, d) <= _EXACT_SIZE else dtype)
    if d <= n:
        variances, axes = _largest(sample.T @ sample / n, MAX_AXES)
    else:
        variances, weights = _largest(sample @ sample.T / n, MAX_AXES)
        known = variances > _SMALLEST * variances[0]
        variances, weights = variances[known], weights[:, known]
        axes = sample.T @ (weights / np.sqrt(n * variances))
        if not known.any():  # all items are equal
            variances, axes = np.zeros(1), np.eye(d, 1)
    total = float(np.einsum("ij,ij->i", sample, sample).astype(np.float64).sum()) / n * scale**2
    return Background(
        mean.astype(dtype),
        np.ascontiguousarray(axes, dtype),
        (np.maximum(variances, 0) * scale**2).astype(dtype),
        np.array([np.sqrt(total) or 1.0], dtype),
    )


def _largest(matrix: Floats, n: int) -> tuple[Floats, Floats]:
    """Return the ``n`` largest eigenvalues of a symmetric matrix, largest first, and their eigenvectors."""
    try:
        values, vectors = np.linalg.eigh(matrix)
    except np.linalg.LinAlgError:  # rare, and only in single precision
        values, vectors = np.linalg.eigh(matrix.astype(np.float64))
    return values[::-1][:n].astype(np.float64), vectors[:, ::-1][:, :n].astype(np.float64)
