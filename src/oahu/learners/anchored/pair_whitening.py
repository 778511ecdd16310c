"""Whitening by similar pairs: directions in which alike items differ count less.

This is relevant component analysis (Bar-Hillel et al., ICML 2003), computed online and shrunk to the identity.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairWhitening"]

Floats = NDArray[np.floating]

_PRIOR_PAIRS: Final = 500.0  # the identity counts as much as this number of pairs
_FLOOR: Final = 0.1  # added to all variances, relative to their mean weighted by themselves
_ROUNDING: Final = 100.0  # unit vectors at a smaller distance, in multiples of the machine epsilon, are equal
_FIRST_PAIRS: Final = 8.0  # the matrix is computed for the first time with this number of pairs ...
_GROWTH: Final = 1.5  # ... and again whenever their number has grown by this factor


class PairWhitening(NamedTuple):
    """The covariance of the differences of alike items, and its inverse square root.

    Attributes
    ----------
    scatter : ndarray of shape (r, r)
        The sum of the outer products of the deviations of alike items from their mean, along the leading axes.
    squares : ndarray of shape (R - r,)
        The sum of the squared deviations along each other axis.
    matrix : ndarray of shape (r, r)
        The inverse square root of the shrunk scatter: symmetric, positive definite.
    gains : ndarray of shape (R - r,)
        The inverse square roots of the shrunk squares.
    n_pairs : float
        The number of pairs in the scatter.
    next_at : float
        The number of pairs at which the matrix is computed again.
    """

    scatter: Floats
    squares: Floats
    matrix: Floats
    gains: Floats
    n_pairs: float
    next_at: float

    @classmethod
    def start(cls, n_leading: int, n_other: int, dtype: np.dtype[Any]) -> PairWhitening:
        """Return the whitening before the first pair, which changes nothing."""
        return cls(
            np.zeros((n_leading, n_leading), dtype),
            np.zeros(n_other, dtype),
            np.eye(n_leading, dtype=dtype),
            np.ones(n_other, dtype),
            0.0,
            _FIRST_PAIRS,
        )

    def add(self, items: Floats, marks: Floats, weights: Floats) -> PairWhitening:
        """Return the whitening after more groups.

        Parameters
        ----------
        items : ndarray of shape (n, m, R)
            The coordinates of the groups' items along all axes.
        marks : ndarray of shape (n, m)
        weights : ndarray of shape (n,)
        """
        alike = marks > 0
        counts = alike.sum(axis=1)
        alike &= (counts > 1)[:, None]
        if not alike.any():
            return self
        weight = np.where(alike, marks, np.inf).min(axis=1)  # of the least certain of the alike items
        weight = np.where(counts > 1, weight, 0) * weights
        means = np.where(alike[:, :, None], items, 0).sum(axis=1) / np.maximum(counts, 1)[:, None]
        deviations = (items - means[:, None]) * np.sqrt(weight)[:, None, None]
        deviations = deviations[alike].astype(items.dtype)
        n_new = float((weight * (counts - 1)).sum())
        n_pairs = self.n_pairs + n_new
        leading, rest = np.split(deviations, [len(self.scatter)], axis=1)
        scatter = leading.T @ leading
        scatter += self.scatter
        squares = self.squares + np.einsum("ij,ij->j", rest, rest)
        changed = self._replace(scatter=scatter, squares=squares, n_pairs=n_pairs)
        return changed.decomposed() if n_pairs >= self.next_at else changed

    def decomposed(self) -> PairWhitening:
        """Return the whitening with a new matrix."""
        r, n_axes = len(self.scatter), len(self.scatter) + len(self.squares)
        total = float(np.trace(self.scatter)) + float(self.squares.sum())
        if total <= self.n_pairs * (_ROUNDING * np.finfo(self.scatter.dtype).eps) ** 2:  # alike items are equal
            return self._replace(next_at=self.n_pairs * _GROWTH)
        prior = total / self.n_pairs * _PRIOR_PAIRS / n_axes
        covariance = self.scatter.copy()
        covariance[np.diag_indices(r)] += prior
        variances, axes = np.linalg.eigh(covariance)
        variances = np.concatenate([np.maximum(variances, 0), self.squares + prior])
        floor = _FLOOR * np.square(variances).sum() / variances.sum()
        factors = (variances + floor) ** -0.5
        factors /= factors.mean()
        matrix = (axes * factors[:r]) @ axes.T
        return self._replace(matrix=matrix, gains=factors[r:], next_at=self.n_pairs * _GROWTH)
