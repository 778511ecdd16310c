"""Two-dimensional maps of a catalogue, before and after learning."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import orthogonal_procrustes
from sklearn.decomposition import PCA

__all__ = ["align", "project", "sample", "to_canvas"]

_RADIUS = 2.0  # radius of the map, in root mean square distances; points outside are drawn at the edge


def sample(numbers: ArrayLike, size: int) -> NDArray[np.intp]:
    """Return the positions of at most ``size`` items, in increasing order.

    The items are selected by a hash of their numbers. The sample of an unchanged catalogue is therefore always the
    same. When items are added to the catalogue, most of the sample stays the same.

    >>> sample([7, 8, 9], 5).tolist()
    [0, 1, 2]
    """
    items = np.asarray(numbers, np.int64)
    if len(items) <= size:
        return np.arange(len(items))
    return np.sort(np.argsort(_hash(items), kind="stable")[:size])


def _hash(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a hash of each item number, computed with the finalizer of splitmix64."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def project(vectors: ArrayLike) -> NDArray[np.float64]:
    """Return the first two principal components of vectors, of shape (n, 2).

    The components are centred and scaled to a root mean square norm of 1, which makes maps of different metrics
    comparable.
    """
    X = np.asarray(vectors, np.float64)
    points = np.zeros((len(X), 2))
    if not len(X) or (X[0] == X).all():
        return points
    X = X - X.mean(axis=0)
    X /= np.abs(X).max()  # squares of large numbers would overflow
    components = PCA(min(2, *X.shape), random_state=0).fit_transform(X)
    points[:, : components.shape[1]] = components
    return np.asarray(points / np.sqrt(np.square(points).sum(axis=1).mean()))


def align(points: ArrayLike, target: ArrayLike) -> NDArray[np.float64]:
    """Return the points, rotated or mirrored such that they are as close as possible to the target points.

    >>> align([[0.0, 1.0], [-1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    moving = np.asarray(points, np.float64)
    rotation, _ = orthogonal_procrustes(moving, np.asarray(target, np.float64))
    return np.asarray(moving @ rotation)


def to_canvas(points: ArrayLike) -> list[list[float]]:
    """Return points scaled to the unit disc, rounded to three digits.

    Outliers are moved to the edge of the disc.
    """
    array = np.asarray(points, np.float64)
    length = np.sqrt(np.square(array).sum(axis=1, keepdims=True))
    inside = array * np.minimum(1.0, _RADIUS / np.maximum(length, np.finfo(float).tiny)) / _RADIUS
    rounded: list[list[float]] = inside.round(3).tolist()
    return rounded
