"""The compiled update of the experts with a full window: one step of gradient descent on the InfoNCE loss.

A window is a group of consecutive constraints, on which the experts are trained together. Row 3 i + k of a window
is the anchor (k = 0), the positive (k = 1) or the negative (k = 2) of constraint i.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import helper
from oahu.learners.anchored.local_ranking import candidate_row
from oahu.learners.matrix_kernels import dot, largest
from oahu.learners.network.passes import backpropagate_normalize, normalize, vector_length

__all__ = ["hidden_inputs", "info_nce_gradient", "update_first_layer", "update_layer"]

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]
Scalar = Any  # a float of the arrays' type


@helper
def info_nce_gradient(
    outputs: Floats, size: int, eligible: Flags, temperature: float, units: Floats, gradient: Floats
) -> None:
    """Write one expert's unit vectors to ``units``, and its InfoNCE gradient to the first columns of ``gradient``.

    InfoNCE is a cross-entropy loss, averaged over the constraints of the window. For each constraint, a softmax of
    cosine / temperature gives a probability to each eligible candidate. The cosine is the cosine similarity of the
    anchor and the candidate. local_ranking.py defines the candidates. The loss is the negative logarithm of the
    probability of the positive.
    """
    dtype = outputs.dtype
    m, n = len(outputs), len(eligible)
    lengths = np.empty(m, dtype)
    for i in range(m):
        lengths[i] = vector_length(outputs[i], size)
        normalize(outputs[i], lengths[i], units[i])
        for q in range(size):
            gradient[i, q] = 0
    shares = np.empty(2 * n)
    for i in range(n):
        x = units[3 * i]
        highest = -2.0
        for j in range(2 * n):
            shares[j] = float(dot(x, units[candidate_row(j, n)]))
            if eligible[i, j]:
                highest = max(highest, shares[j])
        total = 0.0
        for j in range(2 * n):
            shares[j] = math.exp((shares[j] - highest) / temperature) if eligible[i, j] else 0.0
            total += shares[j]
        for j in range(2 * n):
            weight = dtype.type((shares[j] / total - (j == i)) / (temperature * n))
            row = candidate_row(j, n)
            y = units[row]
            for q in range(size):
                gradient[3 * i, q] += weight * y[q]
                gradient[row, q] += weight * x[q]
    for i in range(m):
        dot_product = dtype.type(0)
        for q in range(size):
            dot_product += gradient[i, q] * units[i, q]
        backpropagate_normalize(gradient[i], units[i], dot_product, lengths[i])


@helper
def hidden_inputs(first_outputs: Floats, middle_outputs: Floats, level: int, start: int, hidden: Floats) -> None:
    """Write the inputs of layer ``level`` + 2 to ``hidden``: the ReLU of the outputs of layer ``level`` + 1."""
    outputs = middle_outputs[level - 1] if level else first_outputs
    for i in range(len(hidden)):
        for q in range(hidden.shape[1]):
            value = outputs[i, start + q]
            hidden[i, q] = 0 if value <= 0 else value


@helper
def update_layer(
    matrix: Floats, bias: Floats, hidden: Floats, gradient: Floats, size: int, rate: Scalar, below: Floats
) -> float:
    """Backpropagate the gradient to the inputs of the ReLU below the layer, then update the layer.

    ``matrix`` is the weight matrix of the layer, of shape (n_inputs, n_outputs). The first ``size`` outputs are an
    embedding. These outputs have no bias, so the embedding is 0 if all inputs are 0. The function returns an upper
    bound of the change of any weight.
    """
    n_units, width = matrix.shape
    m = len(hidden)
    bound = 0.0
    zero = matrix.dtype.type(0)
    for q in range(n_units):  # four items at a time, to read and write each row less often
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
        bound += float(rate * total) * largest(hidden[i]) + float(rate * total)
    return bound


@helper
def update_first_layer(
    matrix: Floats, bias: Floats, inputs: Floats, gradient: Floats, size: int, rate: Scalar
) -> float:
    """Update the first layer. ``matrix`` is its weight matrix, of shape (n_outputs, n_inputs).

    The function processes four items at a time, so that it reads each row of the matrix less often.

    The function returns an upper bound of the change of any weight.
    """
    rows, d = matrix.shape
    m = len(inputs)
    bound = 0.0
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
        bound += float(rate * total) * largest(inputs[i]) + float(rate * total)
    return bound
