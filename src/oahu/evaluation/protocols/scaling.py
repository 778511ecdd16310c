"""What is done to items before anything is learned from them: the same choices for every method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError

__all__ = ["SCALINGS", "Inputs", "check_components", "fit_inputs"]

Rows = NDArray[np.float32]
Inputs = Callable[[NDArray[Any]], Rows]

#: ``range``: the smallest number to 0 and the largest to 1. ``standard``: every feature to mean 0 and variance 1.
#: ``unit``: every item to length 1. ``centred``: the mean subtracted, then to length 1. ``none``: as it is.
SCALINGS: Final = ("range", "standard", "unit", "centred", "none")

_BLOCK: Final = 4096  # items that are in float64 at a time


def fit_inputs(development: NDArray[Any], scaling: str, pca: int | None = None) -> Inputs:
    """What brings items into the form that a method sees, float32, fitted on the development items alone.

    Parameters
    ----------
    development : ndarray of shape (n_items, n_features)
    scaling : str
        One of `SCALINGS`.
    pca : int, optional
        First, keep only so many principal components; with ``standard`` that is whitening.

    Examples
    --------
    >>> fit_inputs(np.array([[0, 2], [4, 8]]), "range")(np.array([[4, 4]]))
    array([[0.5, 0.5]], dtype=float32)
    """
    if scaling not in SCALINGS:
        raise InvalidInputError(f"The scaling must be one of {', '.join(SCALINGS)}. Got {scaling!r} instead.")
    check_components(pca, development.shape[1])
    if pca is None:
        return _Scaled(scaling, development)
    projected = _Projected(development, pca)
    scaled = _Scaled(scaling, projected(development))
    return lambda items: scaled(projected(items))


def check_components(pca: int | None, n_features: int) -> None:
    """Raise if there cannot be so many principal components."""
    if pca is not None and not 1 <= pca <= n_features:
        raise InvalidInputError(f"pca must be from 1 to {n_features}, the number of features. Got {pca} instead.")


class _Scaled:
    """One of the scalings, as x -> (x - shift) * factor, and to length 1 or not."""

    def __init__(self, scaling: str, development: NDArray[Any]) -> None:
        self.to_unit = scaling in ("unit", "centred")
        self.shift: Any = np.float32(0)
        self.factor: Any = np.float32(1)
        if scaling == "range":
            low, high = float(development.min()), float(development.max())
            self.shift, self.factor = np.float32(low), np.float32(1 / ((high - low) or 1.0))
        elif scaling in ("standard", "centred"):
            mean, deviation = _moments(development)
            self.shift = mean.astype(np.float32)
            if scaling == "standard":
                rounding = len(development) * np.finfo(np.float64).eps * np.abs(mean)
                self.factor = (1 / np.where(deviation > rounding, deviation, 1.0)).astype(np.float32)

    def __call__(self, items: NDArray[Any]) -> Rows:
        scaled: Rows = np.subtract(items, self.shift, dtype=np.float32)
        scaled *= self.factor
        if self.to_unit:
            lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
            scaled /= np.where(lengths > 0, lengths, 1)[:, None]
        return scaled


class _Projected:
    """The leading principal components of some items."""

    def __init__(self, development: NDArray[Any], n_components: int) -> None:
        self.mean, _ = _moments(development)
        scatter = np.zeros((len(self.mean), len(self.mean)))
        for block in _blocks(development):
            scatter += (block - self.mean).T @ (block - self.mean)
        variances, directions = np.linalg.eigh(scatter)
        rounding = len(development) * np.finfo(np.float64).eps * variances[-1]
        directions[:, variances <= rounding] = 0  # nothing varies there but rounding: not to be blown up
        self.basis = np.ascontiguousarray(directions[:, ::-1][:, :n_components])

    def __call__(self, items: NDArray[Any]) -> Rows:
        projected = np.empty((len(items), self.basis.shape[1]), np.float32)
        for i, block in enumerate(_blocks(items)):
            projected[i * _BLOCK : i * _BLOCK + len(block)] = (block - self.mean) @ self.basis
        return projected


def _blocks(items: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    for start in range(0, len(items), _BLOCK):
        yield items[start : start + _BLOCK].astype(np.float64)


def _moments(items: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The features' means and standard deviations."""
    mean = items.mean(axis=0, dtype=np.float64)
    squares = np.zeros(items.shape[1])
    for block in _blocks(items):
        squares += np.square(block - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(items))
