"""The experts' part of a window: InfoNCE, and the descent of every layer of the network, compiled.

Row 3 i + k of a window is the anchor, the positive or the negative, k = 0, 1, 2, of its i-th constraint.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel
from oahu.learners.anchored.question import row_of
from oahu.learners.matrix import dot, largest
from oahu.learners.network.passes import length_of, through_unit, to_unit

__all__ = ["contrast", "descend", "descend_first", "hidden_of"]

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]
Scalar = Any  # a float of the kind that the arrays hold


@kernel
def contrast(
    outputs: Floats, size: int, open_to: Flags, temperature: float, units: Floats, gradient: Floats
) -> None:
    """InfoNCE of one expert, averaged over the window.

    It is -log of the positive's share of exp(cosine / temperature) among the candidates that count. Writes the unit
    vectors, and the gradient to the first ``size`` columns of ``gradient``.
    """
    dtype = outputs.dtype
    m, n = len(outputs), len(open_to)
    lengths = np.empty(m, dtype)
    for i in range(m):
        lengths[i] = length_of(outputs[i], size)
        to_unit(outputs[i], lengths[i], units[i])
        for q in range(size):
            gradient[i, q] = 0
    shares = np.empty(2 * n)
    for i in range(n):
        x = units[3 * i]
        highest = -2.0
        for j in range(2 * n):
            shares[j] = float(dot(x, units[row_of(j, n)]))
            if open_to[i, j]:
                highest = max(highest, shares[j])
        whole = 0.0
        for j in range(2 * n):
            shares[j] = math.exp((shares[j] - highest) / temperature) if open_to[i, j] else 0.0
            whole += shares[j]
        for j in range(2 * n):
            weight = dtype.type((shares[j] / whole - (j == i)) / (temperature * n))
            at = row_of(j, n)
            y = units[at]
            for q in range(size):
                gradient[3 * i, q] += weight * y[q]
                gradient[at, q] += weight * x[q]
    for i in range(m):
        along = dtype.type(0)
        for q in range(size):
            along += gradient[i, q] * units[i, q]
        through_unit(gradient[i], units[i], along, lengths[i])


@kernel
def hidden_of(first_out: Floats, middle_out: Floats, level: int, start: int, hidden: Floats) -> None:
    """The hidden units that layer ``level`` + 2 reads, from what the layer below it gave out."""
    outputs = middle_out[level - 1] if level else first_out
    for i in range(len(hidden)):
        for q in range(hidden.shape[1]):
            value = outputs[i, start + q]
            hidden[i, q] = 0 if value <= 0 else value


@kernel
def descend(
    matrix: Floats, bias: Floats, hidden: Floats, gradient: Floats, size: int, rate: Scalar, below: Floats
) -> float:
    """The gradient before the ReLU below, with the weights as they are; then the step of (in, out) weights.

    The first ``size`` outputs are an embedding, which has no bias: where all units are silent it stays 0.
    """
    n_units, width = matrix.shape
    m = len(hidden)
    furthest = 0.0
    zero = matrix.dtype.type(0)
    for q in range(n_units):  # four items at a time: a row is read and written less often
        row = matrix[q]
        for i in range(0, m - m % 4, 4):
            g0, g1, g2, g3 = gradient[i], gradient[i + 1], gradient[i + 2], gradient[i + 3]
            b0 = b1 = b2 = b3 = zero
            for p in range(width):
                w = row[p]
                b0 += w * g0[p]
                b1 += w * g1[p]
                b2 += w * g2[p]
                b3 += w * g3[p]
            below[i, q] = b0 if hidden[i, q] > 0 else zero
            below[i + 1, q] = b1 if hidden[i + 1, q] > 0 else zero
            below[i + 2, q] = b2 if hidden[i + 2, q] > 0 else zero
            below[i + 3, q] = b3 if hidden[i + 3, q] > 0 else zero
        for i in range(m - m % 4, m):
            below[i, q] = dot(row, gradient[i]) if hidden[i, q] > 0 else zero
        for i in range(0, m - m % 4, 4):
            g0, g1, g2, g3 = gradient[i], gradient[i + 1], gradient[i + 2], gradient[i + 3]
            s0, s1 = rate * hidden[i, q], rate * hidden[i + 1, q]
            s2, s3 = rate * hidden[i + 2, q], rate * hidden[i + 3, q]
            for p in range(width):
                row[p] -= s0 * g0[p] + s1 * g1[p] + s2 * g2[p] + s3 * g3[p]
        for i in range(m - m % 4, m):
            s0, g0 = rate * hidden[i, q], gradient[i]
            for p in range(width):
                row[p] -= s0 * g0[p]
    for i in range(m):
        g = gradient[i]
        total = zero
        for p in range(width):
            total += abs(g[p])
        for p in range(size, width):
            bias[p] -= rate * g[p]
        furthest += float(rate * total) * largest(hidden[i]) + float(rate * total)
    return furthest


@kernel
def descend_first(matrix: Floats, bias: Floats, inputs: Floats, gradient: Floats, size: int, rate: Scalar) -> float:
    """The step of the d-wide (out, in) weights, four items at a time: a row is read and written less often."""
    rows, d = matrix.shape
    m = len(inputs)
    furthest = 0.0
    for q in range(rows):
        row = matrix[q]
        if q >= size:
            total = matrix.dtype.type(0)
            for i in range(m):
                total += gradient[i, q]
            bias[q] -= rate * total
        for i in range(0, m - m % 4, 4):
            a, b = -rate * gradient[i, q], -rate * gradient[i + 1, q]
            c, e = -rate * gradient[i + 2, q], -rate * gradient[i + 3, q]
            w, x, y, z = inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3]
            for j in range(d):
                row[j] += a * w[j] + b * x[j] + c * y[j] + e * z[j]
        for i in range(m - m % 4, m):
            a = -rate * gradient[i, q]
            w = inputs[i]
            for j in range(d):
                row[j] += a * w[j]
    for i in range(m):
        total = matrix.dtype.type(0)
        for q in range(rows):
            total += abs(gradient[i, q])
        furthest += float(rate * total) * largest(inputs[i]) + float(rate * total)
    return furthest
