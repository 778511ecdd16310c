"""What holds the experts: where items lie, the unlearned space, and the space whitened by similar pairs.

A similar pair says which differences do not matter. The scatter of all, C_w = mean of (a - p)(a - p)^T / 2, is kept
as its leading directions and one number for all others: a rank-r model that every pair updates in O(r d), with no
decomposition at any time (candid covariance-free incremental PCA: Weng, Zhang, Hwang 2003). Directions of equal
weight may rotate among themselves, which leaves what is made of them as it is.

Lengths are softened everywhere: x / sqrt(||x||^2 + 4/d * mean ||x||^2) lies between the unit vector, which throws
one of d dimensions away, and x itself. The fewer dimensions there are, the less is thrown away.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel
from oahu.metrics.anchored import SOFTNESS

__all__ = ["RANK", "learn_pair", "project_rows", "rank_of", "soft_length", "squared_length", "whitening"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Scalar = Any

#: The most directions that C_w is known in.
RANK = 64


def rank_of(n_features: int) -> int:
    """r: the directions that C_w is known in. The rest, at least half of them, share one weight."""
    return max(1, min(RANK, n_features // 2))


@kernel
def soft_length(square: float, mean_square: float, d: int) -> float:
    """sqrt(||x||^2 + 4/d * mean ||x||^2)."""
    return math.sqrt(square + SOFTNESS / d * mean_square)


@kernel
def squared_length(vector: Floats) -> Scalar:
    total = vector.dtype.type(0)
    for j in range(vector.size):
        total += vector[j] * vector[j]
    return total


@kernel
def learn_pair(difference: Floats, n: float, directions: Floats, variances: Doubles) -> None:
    """Let the n-th similar pair's difference, which is used up, turn the directions towards it.

    Each direction moves towards what the ones before it leave over, by 3/n: early pairs, when the directions were
    still anywhere, are forgotten.
    """
    dtype = difference.dtype
    d = difference.size
    step = min(1.0, 3.0 / n) if n > 3.0 else 1.0 / n
    for k in range(len(directions)):
        v = directions[k]
        if not variances[k] > 0.0:  # a direction that no pair had a part in yet
            left = squared_length(difference)
            if left > 0.0:
                scale = dtype.type(1.0 / math.sqrt(left))
                for j in range(d):
                    v[j] = difference[j] * scale
                variances[k] = step * left
            return
        along = dtype.type(0)
        for j in range(d):
            along += difference[j] * v[j]
        keep, add = dtype.type((1.0 - step) * variances[k]), dtype.type(step * along)
        total = dtype.type(0)
        for j in range(d):
            value = keep * v[j] + add * difference[j]
            v[j] = value
            total += value * value
        if not total > 0.0:
            variances[k] = 0.0
            return
        length = math.sqrt(total)
        variances[k] = length
        scale = dtype.type(1.0 / length)
        along = dtype.type(0)
        for j in range(d):
            v[j] *= scale
            along += v[j] * difference[j]
        for j in range(d):
            difference[j] -= along * v[j]


@kernel
def whitening(variances: Doubles, within: float, d: int, shrinkage: float, gains: Doubles) -> None:
    """How much each of the r directions is stretched, then all others: (1 + w_k / floor)^(-1/2).

    The floor is ``shrinkage`` times the mean of the variances, weighted by themselves, which does not change when
    constant features are added.
    """
    r = len(variances)
    known = 0.0
    for k in range(r):
        known += variances[k]
    rest = max(within - known, 0.0) / max(d - r, 1)
    total = known + rest * (d - r)
    squares = rest * rest * (d - r)
    for k in range(r):
        squares += variances[k] * variances[k]
    if not total > 0.0:  # similar pairs were equal, or there were none
        gains[:] = 1.0
        return
    floor = shrinkage * squares / total
    for k in range(r):
        gains[k] = math.sqrt(floor / (variances[k] + floor))
    gains[r] = math.sqrt(floor / (rest + floor))


@kernel
def project_rows(directions: Floats, items: Floats, out: Floats) -> None:
    """``out = items @ directions.T`` for a few items."""
    zero = items.dtype.type(0)
    d = items.shape[1]
    for k in range(len(directions)):
        v = directions[k]
        for i in range(len(items)):
            x = items[i]
            total = zero
            for j in range(d):
                total += v[j] * x[j]
            out[i, k] = total
