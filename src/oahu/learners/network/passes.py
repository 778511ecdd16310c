"""Compiled passes over the network's parameters, shared by OAHU and AnchoredOAHU.

Most parameters are in ``first``, the weight matrix of the first layer, which has one column per feature. To read
this matrix only once per round, its update is delayed until the next round. `update_then_project` then updates each
row and computes the dot products of this row with the next round's items in one pass. In the deeper layers,
`backpropagate_then_update` computes the gradient and updates the weights in one pass, from the deepest layer to the
first.

Everywhere, the index k = 0, 1, 2 stands for the anchor, the positive and the negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import helper, inlined

__all__ = [
    "apply_layer",
    "backpropagate_normalize",
    "backpropagate_then_update",
    "normalize",
    "relu",
    "step_bound",
    "store_pending_update",
    "update_then_project",
    "vector_length",
    "write_columns",
]

Floats = NDArray[np.floating]
Scalar = Any  # a float of the arrays' type


@inlined
def update_then_project(
    matrix: Floats, bias: Floats, pending: Floats, previous: Floats, current: Floats, out: Floats
) -> None:
    """Apply the delayed update of the previous round to ``matrix``. Then compute this round's outputs.

    ``matrix`` is a weight matrix of shape (n_outputs, n_inputs). ``previous`` and ``current`` contain the three
    items of the previous and the current round. The function computes ``matrix += pending.T @ previous`` and then
    ``out = current @ matrix.T + bias``, in one pass with two rows at a time.
    """
    rows, d = matrix.shape
    x0, x1, x2 = previous[0], previous[1], previous[2]
    y0, y1, y2 = current[0], current[1], current[2]
    zero = matrix.dtype.type(0)
    for i in range(0, rows - 1, 2):
        u, v = matrix[i], matrix[i + 1]
        a0, a1, a2 = pending[0, i], pending[1, i], pending[2, i]
        b0, b1, b2 = pending[0, i + 1], pending[1, i + 1], pending[2, i + 1]
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
        out[0, i], out[1, i], out[2, i] = p0 + bias[i], p1 + bias[i], p2 + bias[i]
        out[0, i + 1], out[1, i + 1], out[2, i + 1] = q0 + bias[i + 1], q1 + bias[i + 1], q2 + bias[i + 1]
    if rows % 2:
        i = rows - 1
        u = matrix[i]
        a0, a1, a2 = pending[0, i], pending[1, i], pending[2, i]
        p0 = p1 = p2 = zero
        for j in range(d):
            p = u[j] + a0 * x0[j] + a1 * x1[j] + a2 * x2[j]
            u[j] = p
            p0 += p * y0[j]
            p1 += p * y1[j]
            p2 += p * y2[j]
        out[0, i], out[1, i], out[2, i] = p0 + bias[i], p1 + bias[i], p2 + bias[i]


@helper
def apply_layer(matrix: Floats, bias: Floats, hidden: Floats, out: Floats) -> None:
    """Compute ``out = hidden @ matrix + bias`` for a weight matrix of shape (n_inputs, n_outputs).

    Only the rows of active units are read.
    """
    n_units, width = matrix.shape
    active = np.empty(n_units, np.intp)
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
            h0, h1, h2, h3, h4, h5 = h[j0], h[j1], h[j2], h[j3], h[j4], h[j5]
            w0, w1, w2, w3, w4, w5 = matrix[j0], matrix[j1], matrix[j2], matrix[j3], matrix[j4], matrix[j5]
            for r in range(width):
                o[r] += h0 * w0[r] + h1 * w1[r] + h2 * w2[r] + h3 * w3[r] + h4 * w4[r] + h5 * w5[r]
        for i in range(n - n % 6, n):
            h0, w0 = h[active[i]], matrix[active[i]]
            for r in range(width):
                o[r] += h0 * w0[r]


@helper
def backpropagate_then_update(
    matrix: Floats, bias: Floats, hidden: Floats, gradient: Floats, rate: Scalar, bias_rate: Scalar,
    delta: Floats,
) -> None:  # fmt: skip
    """Backpropagate the gradient to the inputs of the ReLU below the layer, and update the layer, in one pass.

    ``matrix`` is the weight matrix of the layer, of shape (n_inputs, n_outputs). The function computes ``delta =
    (gradient @ matrix.T) * [hidden > 0]`` with the old weights. Then it computes ``matrix -= rate * hidden.T @
    gradient``. It skips the rows of units that are inactive for all three items.
    """
    n_units, width = matrix.shape
    g0, g1, g2 = gradient[0], gradient[1], gradient[2]
    zero = matrix.dtype.type(0)
    active = np.empty(n_units, np.intp)
    n = 0
    for j in range(n_units):
        active[n] = j
        n += (hidden[0, j] != 0) | (hidden[1, j] != 0) | (hidden[2, j] != 0)
    delta[:] = zero
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
        delta[0, j], delta[1, j], delta[2, j] = d0, d1, d2
    for k in range(3):  # a separate loop compiles to a selection instead of a branch
        for j in range(n_units):
            delta[k, j] = delta[k, j] if hidden[k, j] > 0 else zero
    for r in range(width):
        bias[r] -= bias_rate * (g0[r] + g1[r] + g2[r])


@inlined
def store_pending_update(gradient: Floats, bias: Floats, rate: Scalar, bias_rate: Scalar, pending: Floats) -> None:
    """Store the update of ``first`` in ``pending``, for `update_then_project`.

    The bias of the first layer is updated at once.
    """
    for i in range(bias.size):
        bias[i] -= bias_rate * (gradient[0, i] + gradient[1, i] + gradient[2, i])
    for k in range(3):
        for i in range(bias.size):
            pending[k, i] = -rate * gradient[k, i]


@helper
def relu(output: Floats, start: int, hidden: Floats) -> None:
    """Apply the ReLU to the outputs of a layer, starting at column ``start``. Write the result to ``hidden``."""
    zero = output.dtype.type(0)
    for k in range(3):
        for j in range(hidden.shape[1]):
            value = output[k, start + j]
            hidden[k, j] = zero if value <= 0 else value  # NaN stays NaN, so that the bound of the step detects it


@helper
def step_bound(gradient: Floats, inputs: Floats, rate: Scalar, bias_rate: Scalar) -> float:
    """Return an upper bound of the change of any weight by an update with the gradients of three items.

    If an argument contains NaN, the result is NaN.
    """
    bound = 0.0
    for k in range(3):
        g = x = gradient.dtype.type(0)
        for i in range(gradient.shape[1]):
            g += abs(gradient[k, i])
        for i in range(inputs.shape[1]):
            x += abs(inputs[k, i])
        bound += float(rate * g) * float(x) + float(g) * float(rate * x) + float(bias_rate * g)
    return bound


@helper
def vector_length(vector: Floats, size: int) -> Scalar:
    """Return the Euclidean length of the first ``size`` entries, even if their squares overflow or underflow."""
    total = vector.dtype.type(0)
    for r in range(size):
        total += vector[r] * vector[r]
    if 1e-30 < total < 1e30:
        return np.sqrt(total)
    largest = vector.dtype.type(0)
    for r in range(size):
        if not abs(vector[r]) <= largest:  # true for NaN too
            largest = abs(vector[r])
    if largest == 0:
        return largest
    total = vector.dtype.type(0)
    for r in range(size):
        total += (vector[r] / largest) ** 2
    return largest * np.sqrt(total)


@helper
def normalize(vector: Floats, length: Scalar, unit: Floats) -> None:
    """Divide a vector by its ``length`` and write the result to ``unit``. A vector of zeros is not scaled."""
    for r in range(unit.size):
        unit[r] = vector[r] / length if length != 0 else unit.dtype.type(0)


@helper
def backpropagate_normalize(gradient: Floats, unit: Floats, dot_product: Scalar, length: Scalar) -> None:
    """Backpropagate a gradient through `normalize`, in place.

    ``dot_product`` is the dot product of the gradient and ``unit``.
    """
    for r in range(unit.size):
        if length != 0:
            gradient[r] = (gradient[r] - dot_product * unit[r]) / length
        else:
            gradient[r] = 0


@helper
def write_columns(values: Floats, out: Floats, start: int) -> None:
    """Copy an array to columns of ``out``, starting at column ``start``.

    This function uses loops, because Numba needs seconds to compile a slice assignment.
    """
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[i, start + j] = values[i, j]
