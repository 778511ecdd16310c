"""The loss of groups, and its gradient: alike items are nearer than negatives and than random items.

For a group with the alike items G (the query and its positives), the negatives N, and random items R of the
catalogue, and with the similarities s_ij = <f_i, f_j> / temperature, the loss is the mean over ordered pairs (i,
j) of G of

    log(1 + sum_{n in N} exp(s_in - s_ij)) + log(1 + sum_{r in R} exp(s_ir - s_ij)).

This is the InfoNCE loss with two separate sets of negatives. If the query is the only alike item, it is its own
positive. Then the negatives move away from the query.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["loss_gradient", "pair_weights"]

Floats = NDArray[np.floating]

_TINY = 1e-30
_LEAST_EXPONENT = -60  # at low temperatures, smaller exponentials would be 0


def pair_weights(marks: Floats) -> Floats:
    """Return the weight of each ordered pair of alike items, of shape (n, m, m). The sum is 1 for each group.

    ``marks`` has shape (n, m).
    """
    alike = np.maximum(marks, 0)
    pairs = alike[:, :, None] * alike[:, None, :]
    m = marks.shape[1]
    own = np.einsum("nii->ni", pairs)
    alone = np.count_nonzero(alike, axis=1) == 1
    own[...] = np.where(alone[:, None], own, 0)
    total = pairs.reshape(len(pairs), m * m).sum(axis=1)
    return np.asarray(pairs / np.where(total > 0, total, 1)[:, None, None])


def loss_gradient(
    vectors: Floats, randoms: Floats, marks: Floats, pairs: Floats, temperature: float
) -> tuple[Floats, Floats]:
    """Return the gradient of the sum of the groups' losses, for the vectors and for the random items.

    Parameters
    ----------
    vectors : ndarray of shape (n, m, dimensions)
        Unit vectors of the items of each group. Padding may have any values.
    randoms : ndarray of shape (n_random, dimensions)
        Unit vectors of random items.
    marks : ndarray of shape (n, m)
        The marks of the items.
    pairs : ndarray of shape (n, m, m)
        `pair_weights`, times the weight of each group.
    temperature : float
    """
    n, m, size = vectors.shape
    scale = vectors.dtype.type(1 / temperature)
    flat = vectors.reshape(n * m, size)
    # Similarities are at most 1, so exponentials of (similarity - 1) / temperature cannot overflow.
    own = np.exp(np.maximum((vectors @ vectors.transpose(0, 2, 1) - 1) * scale, _LEAST_EXPONENT))
    random = np.exp(np.maximum((flat @ randoms.T - 1) * scale, _LEAST_EXPONENT))
    negative_sums = own * np.maximum(-marks, 0)[:, None, :]
    random_sum, negative_sum = random.sum(axis=1), negative_sums.sum(axis=2)
    from_random = pairs * _share(random_sum.reshape(n, m, 1), own)
    from_negatives = pairs * _share(negative_sum[:, :, None], own)
    slopes = negative_sums * (from_negatives.sum(axis=2) / (negative_sum + _TINY))[:, :, None]
    slopes -= from_random + from_negatives
    random *= (from_random.sum(axis=2).ravel() / random_sum)[:, None]
    gradient = (slopes + slopes.transpose(0, 2, 1)) @ vectors
    gradient = gradient.reshape(n * m, size) + random @ randoms
    return (gradient * scale).reshape(n, m, size), np.asarray(random.T @ flat) * scale


def _share(others: Any, own: Floats) -> Floats:
    """Return others / (others + own): the derivative of log(1 + others / own)."""
    return np.asarray(others / (others + own))
