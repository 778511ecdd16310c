"""Input scaling and PCA of items. All methods can use the same scalings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError

__all__ = ["SCALINGS", "InputTransform", "check_components", "describe_scaling", "fit_scaling"]

Rows = NDArray[np.float32]
InputTransform = Callable[[NDArray[Any]], Rows]

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "range": "all values are mapped to [0, 1], with one minimum and one maximum for all features",
    "standard": "each feature is scaled to mean 0 and variance 1",
    "unit": "each item is scaled to length 1",
    "centred": "the mean is subtracted and each item is scaled to length 1",
    "none": "features are used as given",
}

#: The input scalings: see `describe_scaling`.
SCALINGS: Final = tuple(_DESCRIPTIONS)

_BLOCK: Final = 4096  # items converted to float64 at a time


def describe_scaling(scaling: str, pca: int | None = None) -> str:
    """Return a short text about a scaling.

    Examples
    --------
    >>> describe_scaling("unit", pca=8)
    'the first 8 principal components are taken; each item is scaled to length 1'
    """
    first = f"the first {pca} principal components are taken; " if pca else ""
    return f"{first}{_DESCRIPTIONS[scaling]}"


def fit_scaling(development: NDArray[Any], scaling: str, pca: int | None = None) -> InputTransform:
    """Fit a scaling on development items. Return the function that scales items to float32 inputs.

    Parameters
    ----------
    development : ndarray of shape (n_items, n_features)
        Features of the development items.
    scaling : str
        Name of the scaling, one of `SCALINGS`.
    pca : int, optional
        Number of principal components that replace the features before scaling. PCA followed by the scaling
        "standard" is called whitening.

    Examples
    --------
    >>> fit_scaling(np.array([[0, 2], [4, 8]]), "range")(np.array([[4, 4]]))
    array([[0.5, 0.5]], dtype=float32)
    """
    if scaling not in SCALINGS:
        raise InvalidInputError(f"'scaling' must be one of {', '.join(SCALINGS)}. Got {scaling!r} instead.")
    check_components(pca, development.shape[1])
    if pca is None:
        return _Scaling(scaling, development)
    projected = _Projection(development, pca)
    scaled = _Scaling(scaling, projected(development))
    return lambda items: scaled(projected(items))


def check_components(pca: int | None, n_features: int) -> None:
    """Raise `InvalidInputError` if ``pca`` is less than 1 or greater than the number of features."""
    if pca is not None and not 1 <= pca <= n_features:
        raise InvalidInputError(f"'pca' must be from 1 to {n_features}, the number of features. Got {pca} instead.")


class _Scaling:
    """Fitted scaling. A call returns (x - shift) * factor for each item x, scaled to length 1 if required."""

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


class _Projection:
    """Projection of items to the first principal components.

    Unlike scikit-learn's PCA, the projection never makes a float64 copy of all items.
    """

    def __init__(self, development: NDArray[Any], n_components: int) -> None:
        self.mean, _ = _moments(development)
        scatter = np.zeros((len(self.mean), len(self.mean)))
        for block in _blocks(development):
            scatter += (block - self.mean).T @ (block - self.mean)
        variances, directions = np.linalg.eigh(scatter)
        rounding = len(development) * np.finfo(np.float64).eps * variances[-1]
        directions[:, variances <= rounding] = 0  # these are rounding errors, which whitening would amplify
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
    """Return the mean and the standard deviation of each feature."""
    mean = items.mean(axis=0, dtype=np.float64)
    squares = np.zeros(items.shape[1])
    for block in _blocks(items):
        squares += np.square(block - mean).sum(axis=0)
    return mean, np.sqrt(squares / len(items))
