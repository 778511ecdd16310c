"""OAHU's compiled update step: Algorithm 1 of the paper, one triplet at a time.

A round is the learning of one triplet. The update of the widest matrix, ``first``, is delayed by one round. One
pass then updates this matrix and computes the next round's dot products (passes.py). At the end of a call, the
update of the last round is stored as the pending update. It is applied in the next call, or when the parameters are
read. All gradients are computed with the weights from before the round.

Every pass runs the same machine code on rows of the same length, so rounding is identical. The model is therefore
the same, bit for bit, for every way to split a stream into calls.

Everywhere, the index k = 0, 1, 2 stands for the anchor, the positive and the negative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, inlined, kernel
from oahu.learners.history import record_round
from oahu.learners.matrix_kernels import dot, largest, overflow_limit
from oahu.learners.network.passes import (
    apply_layer,
    backpropagate_normalize,
    backpropagate_then_update,
    normalize,
    relu,
    step_bound,
    store_pending_update,
    update_then_project,
    vector_length,
    write_columns,
)
from oahu.learners.oahu.hedge import hedge_factor, hedge_update
from oahu.learners.oahu.loss import (
    attractive_loss,
    attractive_slope,
    dissimilarity_threshold,
    local_loss,
    repulsive_loss,
    repulsive_slope,
    similarity_threshold,
)
from oahu.learners.state import LEARNED

__all__ = ["learn"]

Floats = NDArray[np.floating]
Scalar = Any  # a float of the arrays' type

compilable(hedge_factor, hedge_update, record_round)
compilable(similarity_threshold, dissimilarity_threshold, attractive_loss, repulsive_loss, local_loss)
compilable(attractive_slope, repulsive_slope)


@kernel("OAHU's update step")
def learn(
    triplets: Floats,
    first: Floats,
    first_bias: Floats,
    middle: Floats,
    middle_bias: Floats,
    last: Floats,
    last_bias: Floats,
    alpha: NDArray[np.float64],
    learning_rate: float,
    bias_learning_rate: float,
    tau: float,
    through_thresholds: bool,
    beta: float,
    smoothing: float,
    hedge_rule: int,
    pending: Floats,
    previous: Floats,
    bound: NDArray[np.float64],
    counters: NDArray[np.int64],
    running: NDArray[np.float64],
    totals: NDArray[np.float64],
    weights: NDArray[np.float64],
    used: NDArray[np.bool_],
    in_place: bool,
) -> int:
    """Learn from triplets of shape (n, 3, d), in order. Parameters, ``alpha`` and the history change in place.

    ``pending`` and ``previous`` store the pending update of ``first``. A call without triplets applies this update.
    ``bound`` is an upper bound of the absolute values of all weights above the first layer. If a triplet has a
    gradient other than 0, its entry of ``used`` is set to True.

    The function returns LEARNED, or the row number of a rejected triplet. After a rejection, the caller must
    discard all arrays. With ``in_place=True``, there must be only one triplet, and a rejection changes no array. In
    this mode, the triplet is also rejected if `_largest_change` is too large to exclude an overflow.
    """
    n, _, d = triplets.shape
    n_layers, H, rows = alpha.size - 1, middle.shape[1], first.shape[0]
    E = rows - H if n_layers else rows
    dtype = first.dtype
    rate = dtype.type(learning_rate)
    bias_rate = dtype.type(bias_learning_rate)
    largest_step = overflow_limit(first)

    no_items = np.zeros((3, d), dtype)
    projected = np.zeros((3, rows), dtype)
    outputs = np.zeros((middle.shape[0], 3, middle.shape[2]), dtype)
    last_output = np.zeros((3, last.shape[1]), dtype)
    hidden = np.zeros((n_layers, 3, H), dtype)
    gradients = np.zeros((middle.shape[0], 3, middle.shape[2]), dtype)
    first_gradient = np.zeros((3, rows), dtype)
    last_gradient = np.zeros((3, last.shape[1]), dtype)
    delta = np.zeros((3, H), dtype)
    unit = np.zeros((3, E), dtype)
    lengths = np.zeros(3, dtype)
    loss = np.zeros(n_layers + 1)

    if not in_place:
        bound[0] = math.inf
    before = previous
    for t in range(max(n, 1)):
        current = triplets[t] if n else no_items
        update_then_project(first, first_bias, pending, before, current, projected)
        for k in range(3):
            for i in range(rows):
                pending[k, i] = -dtype.type(0)  # adding -0 * 0 to a weight does not change its bits
        if n == 0:
            break

        # Compute embeddings and local losses, from the shallowest expert to the deepest.
        for level in range(n_layers + 1):
            deepest = level == n_layers
            output = projected if level == 0 else last_output if deepest else outputs[level - 1]
            gradient = first_gradient if level == 0 else last_gradient if deepest else gradients[level - 1]
            if level:
                matrix = last if deepest else middle[level - 1]
                bias = last_bias if deepest else middle_bias[level - 1]
                apply_layer(matrix, bias, hidden[level - 1], output)
            loss[level] = _expert(output, E, alpha[level], tau, through_thresholds, unit, lengths, gradient)
            if level < n_layers:
                relu(output, E, hidden[level])

        if in_place:
            for attempt in range(2):
                change = _largest_change(first_gradient, gradients, last_gradient, hidden, current, E, bound[0],
                                         learning_rate, bias_learning_rate)  # fmt: skip
                if change < largest_step:  # false for NaN too
                    break
                if attempt:
                    return t
                bound[0] = _largest_weight(middle, last)

        # Compute gradients with this round's weights alpha_t and update the layers, from the deepest to the first.
        moved = 0.0
        for level in range(n_layers, -1, -1):
            deepest = level == n_layers
            gradient = first_gradient if level == 0 else last_gradient if deepest else gradients[level - 1]
            inputs = current if level == 0 else hidden[level - 1]
            if not deepest:
                write_columns(delta, gradient, E)
            moved += step_bound(gradient, inputs, rate, bias_rate)
            if level:
                matrix = last if deepest else middle[level - 1]
                bias = last_bias if deepest else middle_bias[level - 1]
                backpropagate_then_update(matrix, bias, inputs, gradient, rate, bias_rate, delta)
        if not moved < largest_step:  # true for NaN too
            return t
        store_pending_update(first_gradient, first_bias, rate, bias_rate, pending)
        before = current
        if in_place:
            for i in range(n_layers):
                above = last_gradient if i == n_layers - 1 else gradients[i]
                bound[0] += 1.01 * learning_rate * _largest_product(above, hidden[i])  # 1.01 covers rounding

        updated = hedge_update(alpha, loss, beta, smoothing, hedge_rule)
        for level in range(n_layers + 1):
            alpha[level] = updated[level]
        record_round(counters, running, totals, weights, loss, alpha)
        used[t] = moved > 0.0
    if n:
        write_columns(before, previous, 0)
    return LEARNED


@inlined
def _largest_change(
    first_gradient: Floats, gradients: Floats, last_gradient: Floats, hidden: Floats, inputs: Floats, size: int,
    bound: float, rate: float, bias_rate: float,
) -> float:  # fmt: skip
    """Return an upper bound of this round's change of any weight. The function is called before any weight changes.

    The bound is computed like the gradients, from the deepest layer to the first, but with ``bound`` in place of
    every weight. The result is doubled to cover rounding errors.
    """
    n_layers, _, n_units = hidden.shape
    total = 0.0
    for k in range(3):
        g = 0.0  # the sum of the absolute gradients of a layer's outputs
        for level in range(n_layers, -1, -1):
            below = g * n_units * bound
            gradient = (
                first_gradient[k]
                if level == 0
                else gradients[level - 1, k]
                if level < n_layers
                else last_gradient[k]
            )
            x = inputs[k] if level == 0 else hidden[level - 1, k]
            g, h = below if level < n_layers else 0.0, 0.0
            for r in range(size):
                g += abs(float(gradient[r]))
            for j in range(x.shape[0]):
                h += abs(float(x[j]))
            total += 2.0 * (2.0 * rate * g * h + bias_rate * g + g + h)
    return total


@inlined
def _largest_weight(middle: Floats, last: Floats) -> float:
    """Return the largest absolute weight above the first layer."""
    result = 0.0
    for j in range(last.shape[0]):
        for i in range(middle.shape[0]):
            result = max(result, largest(middle[i, j]))
        result = max(result, largest(last[j]))
    return result


@inlined
def _largest_product(gradient: Floats, hidden: Floats) -> float:
    """Return an upper bound of the absolute values of the entries of ``hidden.T @ gradient``."""
    total = 0.0
    for k in range(3):
        total += math.sqrt(float(dot(gradient[k], gradient[k])) * float(dot(hidden[k], hidden[k])))
    return total


@inlined
def _expert(
    output: Floats, size: int, weight: float, tau: float, through_thresholds: bool, unit: Floats,
    lengths: Floats, gradient: Floats,
) -> Scalar:  # fmt: skip
    """Return the local loss of one expert. Write its gradient, times ``weight``, to columns of ``gradient``.

    An embedding of length 0 stays 0 and has no gradient. This happens if all units below the embedding layer are
    inactive. If two embeddings are equal up to rounding, the function sets their distance and its gradient to 0.
    """
    zero = output.dtype.type(0)
    for k in range(3):
        lengths[k] = vector_length(output[k], size)
        normalize(output[k], lengths[k], unit[k])
    a, p, n = unit[0], unit[1], unit[2]
    to_positive = to_negative = zero
    for r in range(size):
        to_positive += (a[r] - p[r]) * (a[r] - p[r])
        to_negative += (a[r] - n[r]) * (a[r] - n[r])
    positive, negative = min(math.sqrt(to_positive), 2.0), min(math.sqrt(to_negative), 2.0)
    rounding = 64.0 * np.finfo(output.dtype).eps
    positive = positive if positive > rounding else 0.0
    negative = negative if negative > rounding else 0.0

    pull = push = zero
    if positive > 0.0:
        pull = output.dtype.type(0.5 * weight * attractive_slope(positive, tau, through_thresholds) / positive)
    if negative > 0.0:
        push = output.dtype.type(0.5 * weight * repulsive_slope(negative, tau, through_thresholds) / negative)
    dot_a = dot_p = dot_n = zero
    for r in range(size):
        g_p = -pull * (a[r] - p[r])
        g_n = -push * (a[r] - n[r])
        gradient[0, r], gradient[1, r], gradient[2, r] = -g_p - g_n, g_p, g_n
        dot_a -= (g_p + g_n) * a[r]
        dot_p += g_p * p[r]
        dot_n += g_n * n[r]
    for k in range(3):
        dot_product = dot_a if k == 0 else dot_p if k == 1 else dot_n
        backpropagate_normalize(gradient[k], unit[k], dot_product, lengths[k])
    return local_loss(positive, negative, tau)
