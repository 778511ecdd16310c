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
_EXACT_FEATURES: Final = 1_024  # with more features, the principal axes are approximated


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
        return min(self.axes.shape[1], MAX_LEADING)

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

    With more than 1,024 features, the axes are computed by a randomized singular value decomposition.
    """
    sample = items.astype(np.float64)
    mean = sample.mean(axis=0)
    sample -= mean
    n, d = sample.shape
    n_axes = min(d, n, MAX_AXES)
    if d <= _EXACT_FEATURES:
        variances, axes = np.linalg.eigh(sample.T @ sample / n)
        variances, axes = variances[::-1][:n_axes], axes[:, ::-1][:, :n_axes]
    else:
        from sklearn.utils.extmath import randomized_svd

        _, values, rows = randomized_svd(sample, n_axes, n_iter=2, random_state=0)
        variances, axes = values**2 / n, rows.T
    total = np.einsum("ij,ij->", sample, sample) / n
    return Background(
        mean.astype(dtype),
        np.ascontiguousarray(axes, dtype),
        np.maximum(variances, 0).astype(dtype),
        np.array([np.sqrt(total) or 1.0], dtype),
    )
