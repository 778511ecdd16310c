"""A catalogue as points in a plane, before and after what was learned: plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["aligned", "plane", "sample", "shown"]

_FAR = 2.0  # how many times the usual distance from the middle is still shown in its place


def sample(numbers: ArrayLike, most: int) -> NDArray[np.intp]:
    """Where to look for at most ``most`` items, in order: the same ones every time.

    Whether an item is one of them depends on its number, hardly on what else is there: a catalogue that grows keeps
    most of its sample.

    >>> sample([7, 8, 9], 5).tolist()
    [0, 1, 2]
    """
    chosen = np.asarray(numbers, np.int64)
    if len(chosen) <= most:
        return np.arange(len(chosen))
    return np.sort(np.argsort(_mixed(chosen), kind="stable")[:most])


def _mixed(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Numbers that look random and tell theirs (the finalizer of splitmix64)."""
    z = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def plane(vectors: ArrayLike) -> NDArray[np.float64]:
    """Vectors in the plane in which they differ most (PCA), of shape (n, 2).

    The middle is the origin, and 1 the usual distance from it, so that maps of different metrics compare.
    """
    X = np.asarray(vectors, np.float64)
    if not len(X):
        return np.zeros((0, 2))
    X = X - X.mean(axis=0)
    X /= max(float(np.abs(X).max(initial=0.0)), np.finfo(float).tiny)  # squares of large numbers would overflow
    points = np.zeros((len(X), 2))
    found = _principal(X)
    points[:, : found.shape[1]] = found
    usual = np.sqrt(np.square(points).sum(axis=1).mean())
    if usual > 0:
        points /= usual
    return points


def _principal(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first two principal components of centred rows; by whichever of the two squares is smaller."""
    n, d = X.shape
    if d <= n:
        _, directions = np.linalg.eigh(X.T @ X)
        found = X @ directions[:, ::-1][:, :2]
    else:
        values, directions = np.linalg.eigh(X @ X.T)
        found = (directions * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :2]
    turn = np.sign(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])])  # signs are arbitrary: choose
    return np.asarray(found * np.where(turn == 0, 1.0, turn))


def aligned(points: ArrayLike, to: ArrayLike) -> NDArray[np.float64]:
    """Points turned (and mirrored if need be) to be as near as can be to others: orthogonal Procrustes.

    >>> quarter = [[0.0, 1.0], [-1.0, 0.0]]
    >>> aligned(quarter, [[1.0, 0.0], [0.0, 1.0]]).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    moving, still = np.asarray(points, np.float64), np.asarray(to, np.float64)
    left, _, right = np.linalg.svd(moving.T @ still)
    return np.asarray(moving @ (left @ right))


def shown(points: ArrayLike) -> list[list[float]]:
    """Points as few digits within -1 and 1; those that are far out are drawn in to the rim."""
    found: NDArray[Any] = np.asarray(points, np.float64)
    length = np.sqrt(np.square(found).sum(axis=1, keepdims=True))
    inside = found * np.minimum(1.0, _FAR / np.maximum(length, np.finfo(float).tiny)) / _FAR
    rounded: list[list[float]] = inside.round(3).tolist()
    return rounded
