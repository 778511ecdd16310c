"""What holds the experts: where items lie, the unlearned space, and the space whitened by similar pairs.

A similar pair says which differences do not matter. The scatter of all, C_w = mean of (a - p)(a - p)^T / 2, is kept
as its leading directions and one number for all others: a rank-r model that every pair updates in O(r d), with no
decomposition at any time (candid covariance-free incremental PCA: Weng, Zhang, Hwang 2003). Directions of equal
weight may rotate among themselves, which leaves what is made of them as it is.

Lengths are softened everywhere: x / sqrt(||x||^2 + (4 / (d - 1))^3 * mean ||x||^2) lies between the unit vector and
x itself.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, kernel
from oahu.learners.anchored.scales import softness
from oahu.learners.matrix import combine, dot

__all__ = ["learn_pair", "soften", "whitened", "whitening"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

compilable(softness)


@kernel
def soften(rows: Floats, mean_square: float, length: float) -> None:
    """Scale every row x by length / sqrt(||x||^2 + softness * mean ||x||^2), in place; 0 stays 0."""
    d = rows.shape[1]
    added = softness(d) * mean_square
    for i in range(len(rows)):
        x = rows[i]
        softened = math.sqrt(float(dot(x, x)) + added)
        scale = x.dtype.type(length / softened if softened > 0.0 else 0.0)
        for j in range(d):
            x[j] *= scale


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
            left = float(dot(difference, difference))
            if left > 0.0:
                scale = dtype.type(1.0 / math.sqrt(left))
                for j in range(d):
                    v[j] = difference[j] * scale
                variances[k] = step * left
            return
        keep, add = dtype.type((1.0 - step) * variances[k]), dtype.type(step * dot(difference, v))
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
def whitened(centred: Floats, along: Floats, directions: Floats, gains: Doubles, out: Floats) -> None:
    """Centred items, stretched; ``along`` are their coordinates along the directions."""
    r, d = directions.shape
    rest = centred.dtype.type(gains[r])
    weights = np.empty(r, centred.dtype)
    for i in range(len(centred)):
        for k in range(r):
            weights[k] = (gains[k] - gains[r]) * along[i, k]
        combine(directions, weights, out[i])
        for j in range(d):
            out[i, j] += rest * centred[i, j]
