"""Compiled passes over the parameters of OAHU's network.

Most parameters are in ``first``, the weight matrix of the first layer, which has one column per feature. To read
this matrix only once per round, its update is delayed until the next round. `update_then_project` then updates each
row and computes the dot products of this row with the next round's items in one pass. In the deeper layers,
`backpropagate_then_update` computes the gradient and updates the weights in one pass, from the deepest layer to the
first.

Everywhere, the index k = 0, 1, 2 stands for the anchor, the positive and the negative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import inlined

__all__ = [
    "apply_layer",
    "backpropagate_then_update",
    "copy_vector",
    "relu",
    "update_bias",
    "update_then_project",
    "vector_length",
]

Floats = NDArray[np.floating]
Scalar = Any  # a float of the arrays' type


@inlined
def update_then_project(
    matrix: Floats, bias: Floats, pending: Floats, previous: Floats, current: Floats, spare_row: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Apply the delayed update of the previous round to ``matrix``. Then compute this round's outputs.

    ``matrix`` is a weight matrix of shape (n_outputs, n_inputs). ``previous`` and ``current`` contain the three
    items of the previous and the current round. The function computes ``matrix += pending.T @ previous`` and then
    ``out = current @ matrix.T + bias``, in one pass with two rows at a time. If the number of rows is odd, the last
    row is paired with the work array ``spare_row`` of shape (n_inputs,).

    ``pending`` becomes -0, so that another call does not change ``matrix``.
    """
    rows, d = matrix.shape
    x0, x1, x2 = previous[0], previous[1], previous[2]
    y0, y1, y2 = current[0], current[1], current[2]
    zero = matrix.dtype.type(0)
    for i in range(0, rows, 2):
        k = i + 1 if i + 1 < rows else i
        u, v = matrix[i], matrix[k] if k > i else spare_row
        a0, a1, a2 = pending[0, i], pending[1, i], pending[2, i]
        b0, b1, b2 = pending[0, k], pending[1, k], pending[2, k]
        p0 = p1 = p2 = q0 = q1 = q2 = zero
        for j in range(d):
            p = u[j] + a0 * x0[j] + a1 * x1[j] + a2 * x2[j]
            q = v[j] + b0 * x0[j] + b1 * x1[j] + b2 * x2[j]
            u[j] = p
            v[j] = q
            p0 += p * y0[j]
            p1 += p * y1[j]
            p2 += p * y2[j]
            q0 += q * y0[j]
            q1 += q * y1[j]
            q2 += q * y2[j]
        out[0, k], out[1, k], out[2, k] = q0 + bias[k], q1 + bias[k], q2 + bias[k]
        out[0, i], out[1, i], out[2, i] = p0 + bias[i], p1 + bias[i], p2 + bias[i]
        pending[0, i], pending[1, i], pending[2, i] = -zero, -zero, -zero
        pending[0, k], pending[1, k], pending[2, k] = -zero, -zero, -zero


@inlined
def apply_layer(matrix: Floats, bias: Floats, hidden: Floats, active: NDArray[np.intp], out: Floats) -> None:
    """Compute ``out = hidden @ matrix + bias`` for a weight matrix of shape (n_inputs, n_outputs).

    Only the rows of active units are read. ``active`` is a work array of shape (n_inputs,).
    """
    n_units, width = matrix.shape
    for k in range(3):
        h, o = hidden[k], out[k]
        for r in range(width):
            o[r] = bias[r]
        n = 0
        for j in range(n_units):  # without a branch, because active units are unpredictable
            active[n] = j
            n += h[j] != 0
        for i in range(0, n - n % 6, 6):
            j0, j1, j2 = active[i], active[i + 1], active[i + 2]
            j3, j4, j5 = active[i + 3], active[i + 4], active[i + 5]
            h0, h1, h2 = h[j0], h[j1], h[j2]
            h3, h4, h5 = h[j3], h[j4], h[j5]
            w0, w1, w2 = matrix[j0], matrix[j1], matrix[j2]
            w3, w4, w5 = matrix[j3], matrix[j4], matrix[j5]
            for r in range(width):
                o[r] += h0 * w0[r] + h1 * w1[r] + h2 * w2[r] + h3 * w3[r] + h4 * w4[r] + h5 * w5[r]
        for i in range(n - n % 6, n):
            h0, w0 = h[active[i]], matrix[active[i]]
            for r in range(width):
                o[r] += h0 * w0[r]


@inlined
def backpropagate_then_update(
    matrix: Floats, hidden: Floats, gradient: Floats, rate: Scalar, active: NDArray[np.intp], below: Floats,
    start: int,
) -> None:  # fmt: skip
    """Backpropagate the gradient to the inputs of the ReLU below the layer, and update the layer, in one pass.

    ``matrix`` is the weight matrix of the layer, of shape (n_inputs, n_outputs). The function computes ``(gradient
    @ matrix.T) * [hidden > 0]`` with the old weights, and writes the result to ``below``, starting at column
    ``start``. Then it computes ``matrix -= rate * hidden.T @ gradient``. It skips the rows of units that are
    inactive for all three items. ``active`` is a work array of shape (n_inputs,).
    """
    n_units, width = matrix.shape
    g0, g1, g2 = gradient[0], gradient[1], gradient[2]
    zero = matrix.dtype.type(0)
    n = 0
    for j in range(n_units):
        active[n] = j
        n += (hidden[0, j] != 0) | (hidden[1, j] != 0) | (hidden[2, j] != 0)
    for i in range(n):
        j = active[i]
        row = matrix[j]
        a0, a1, a2 = -rate * hidden[0, j], -rate * hidden[1, j], -rate * hidden[2, j]
        d0 = d1 = d2 = zero
        for r in range(width):
            w = row[r]
            d0 += w * g0[r]
            d1 += w * g1[r]
            d2 += w * g2[r]
            row[r] = w + a0 * g0[r] + a1 * g1[r] + a2 * g2[r]
        below[0, start + j], below[1, start + j], below[2, start + j] = d0, d1, d2
    offset = np.uintp(start)  # an unsigned index cannot be negative, so that the loop vectorises
    for k in range(3):  # a separate loop compiles to a selection instead of a branch
        for j in range(np.uintp(n_units)):
            below[k, offset + j] = below[k, offset + j] if hidden[k, j] > 0 else zero


@inlined
def relu(output: Floats, start: int, hidden: Floats) -> Scalar:
    """Apply the ReLU to the outputs for one item, starting at column ``start``. Write the result to ``hidden``.

    The function returns the sum of the result.
    """
    total = zero = output.dtype.type(0)
    offset = np.uintp(start)  # an unsigned index cannot be negative, so that the loop vectorises
    for j in range(np.uintp(hidden.size)):
        value = output[offset + j]
        value = zero if value <= 0 else value  # NaN stays NaN, so that the bound of the step detects it
        hidden[j] = value
        total += value
    return total


@inlined
def copy_vector(vector: Floats, out: Floats) -> Scalar:
    """Copy a vector to ``out``. Return the sum of its absolute values."""
    total = vector.dtype.type(0)
    for j in range(vector.size):
        out[j] = vector[j]
        total += abs(vector[j])
    return total


@inlined
def update_bias(bias: Floats, gradient: Floats, bias_rate: Scalar, sums: Floats) -> None:
    """Update the bias of a layer. Write the sum of the absolute gradients of each item to ``sums``."""
    s0 = s1 = s2 = bias.dtype.type(0)
    for i in range(bias.size):
        g0, g1, g2 = gradient[0, i], gradient[1, i], gradient[2, i]
        bias[i] -= bias_rate * (g0 + g1 + g2)
        s0 += abs(g0)
        s1 += abs(g1)
        s2 += abs(g2)
    sums[0], sums[1], sums[2] = s0, s1, s2


@inlined
def vector_length(vector: Floats, size: int) -> Scalar:
    """Return the Euclidean length of the first ``size`` entries, even if their squares overflow or underflow.

    The length of a vector of zeros is infinity, so that its quotient by this length is 0.
    """
    total = vector.dtype.type(0)
    for r in range(size):
        total += vector[r] * vector[r]
    scale = vector.dtype.type(1)
    if not 1e-30 < total < 1e30:
        scale = total = vector.dtype.type(0)
        for r in range(size):
            if not abs(vector[r]) <= scale:  # true for NaN too
                scale = abs(vector[r])
        for r in range(size):
            ratio = vector[r] / scale
            total += ratio * ratio
    return scale * math.sqrt(total) if scale != 0 else math.inf
