"""Compiled functions of the whitened space: the low-rank scatter of similar pairs, and softened lengths.

Similar pairs show which differences between items do not matter. The scatter of similar pairs is the matrix
C_w = mean of (a - p)(a - p)^T / 2 over all similar pairs (a, p). It is stored as its r leading directions with
their variances, and one variance for all other directions. Every similar pair updates the scatter in O(r d) time,
without an eigendecomposition (candid covariance-free incremental PCA: Weng, Zhang, Hwang 2003). Directions of equal
variance may rotate within their common subspace. This rotation does not change the whitened space.

Items are divided by a softened length: x becomes x / sqrt(||x||^2 + softness * mean ||x||^2), with softness = (4 /
(d - 1))^3. Scaling to unit length would discard the length of x. The softened length keeps a part of this
information.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, helper
from oahu.learners.anchored.scaling_rules import softness
from oahu.learners.matrix_kernels import dot, project_transposed

__all__ = ["compute_gains", "soften", "update_scatter", "whiten"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

compilable(softness)


@helper
def soften(rows: Floats, mean_square: float, length: float) -> None:
    """Multiply every row x by length / sqrt(||x||^2 + softness * mean_square), in place. A row of zeros stays 0."""
    d = rows.shape[1]
    added = softness(d) * mean_square
    for i in range(len(rows)):
        x = rows[i]
        softened = math.sqrt(float(dot(x, x)) + added)
        scale = x.dtype.type(length / softened if softened > 0.0 else 0.0)
        for j in range(d):
            x[j] *= scale


@helper
def update_scatter(difference: Floats, n: float, directions: Floats, variances: Doubles) -> None:
    """Update the leading directions with the difference of the n-th similar pair. ``difference`` is overwritten.

    Each direction moves towards the part of the difference that the previous directions do not explain. From the
    fourth pair on, the step size is 3/n instead of 1/n. The larger step size reduces the influence of early pairs,
    because the directions were still arbitrary when these pairs were learned.
    """
    dtype = difference.dtype
    d = difference.size
    step = min(1.0, 3.0 / n) if n > 3.0 else 1.0 / n
    for k in range(len(directions)):
        v = directions[k]
        if not variances[k] > 0.0:  # no pair has contributed to this direction yet
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
        coefficient = dtype.type(0)
        for j in range(d):
            v[j] *= scale
            coefficient += v[j] * difference[j]
        for j in range(d):
            difference[j] -= coefficient * v[j]


@helper
def compute_gains(variances: Doubles, within: float, d: int, shrinkage: float, gains: Doubles) -> None:
    """Write the gains of the r leading directions to ``gains``, then the common gain of all other directions.

    The gain of a direction is its scale factor in the whitened space. For a direction with variance w_k, it is (1 +
    w_k / floor)^(-1/2). The floor is ``shrinkage`` times the self-weighted mean of the variances, (sum w^2) / (sum
    w). Constant features do not change this mean. ``within`` is the total variance, the trace of the scatter.
    """
    r = len(variances)
    explained = 0.0
    for k in range(r):
        explained += variances[k]
    rest = max(within - explained, 0.0) / max(d - r, 1)
    total = explained + rest * (d - r)
    squares = rest * rest * (d - r)
    for k in range(r):
        squares += variances[k] * variances[k]
    if not total > 0.0:  # no similar pair with different items yet
        gains[:] = 1.0
        return
    floor = shrinkage * squares / total
    for k in range(r):
        gains[k] = math.sqrt(floor / (variances[k] + floor))
    gains[r] = math.sqrt(floor / (rest + floor))


@helper
def whiten(centred: Floats, coordinates: Floats, directions: Floats, gains: Doubles, out: Floats) -> None:
    """Write the whitened items to ``out``.

    ``centred`` contains items minus their mean. ``coordinates`` are the coordinates of these centred items along
    the directions.
    """
    r, d = directions.shape
    rest = centred.dtype.type(gains[r])
    weights = np.empty(r, centred.dtype)
    for i in range(len(centred)):
        for k in range(r):
            weights[k] = (gains[k] - gains[r]) * coordinates[i, k]
        project_transposed(directions, weights, out[i])
        for j in range(d):
            out[i, j] += rest * centred[i, j]
