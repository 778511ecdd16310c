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
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import inlined, inlined_copy, kernel
from oahu.learners.history import record_round
from oahu.learners.matrix_kernels import overflow_limit
from oahu.learners.network.passes import (
    apply_layer,
    backpropagate_then_update,
    copy_vector,
    relu,
    update_bias,
    update_then_project,
    vector_length,
)
from oahu.learners.oahu.hedge import update_weights
from oahu.learners.oahu.loss import attractive_slope, local_loss, repulsive_slope
from oahu.learners.state import LEARNED

__all__ = ["learn", "limits"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Scalar = Any  # a float of the arrays' type

record_round, update_weights = inlined_copy(record_round), inlined_copy(update_weights)
attractive_slope, repulsive_slope = inlined_copy(attractive_slope), inlined_copy(repulsive_slope)
local_loss = inlined_copy(local_loss)


@cache
def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the largest allowed change of a weight by one triplet, and the rounding error of a distance."""
    return overflow_limit(np.empty(0, dtype)), 64.0 * float(np.finfo(dtype).eps)


@kernel("OAHU's update step")
def learn(
    triplets: Floats,
    first: Floats,
    first_bias: Floats,
    middle: Floats,
    middle_bias: Floats,
    last: Floats,
    last_bias: Floats,
    alpha: Doubles,
    learning_rate: float,
    bias_learning_rate: float,
    tau: float,
    through_thresholds: bool,
    beta: float,
    smoothing: float,
    hedge_rule: int,
    pending: Floats,
    previous: Floats,
    bound: Doubles,
    counters: NDArray[np.int64],
    running: Doubles,
    totals: Doubles,
    weights: Doubles,
    used: NDArray[np.bool_],
    in_place: bool,
    largest_step: float,
    rounding: float,
    levels: Floats,
    hidden: Floats,
    per_item: Floats,
    active: NDArray[np.intp],
    spare_row: Floats,
    losses: Doubles,
    sums: Doubles,
) -> int:
    """Learn from triplets of shape (n, 3, d), in order. Parameters, ``alpha`` and the history change in place.

    ``pending`` and ``previous`` store the pending update of ``first``. If ``used`` is empty, the function only
    applies this update. If a triplet has a gradient other than 0, its entry of ``used`` is set to True. ``bound``
    is an upper bound of the Frobenius norm of each weight matrix above the first layer. `limits` returns
    ``largest_step`` and ``rounding``. The last seven arrays are the `WorkArrays`.

    The function returns LEARNED, or the row number of a rejected triplet. After a rejection, the caller must
    discard all arrays. With ``in_place=True``, there must be only one triplet, and a rejection does not change the
    model. In this mode, the triplet is also rejected if `_largest_change` is too large to exclude an overflow.
    """
    n_layers, E = hidden.shape[0], first.shape[0]
    if n_layers:
        E -= hidden.shape[2]
    dtype = first.dtype
    rate, bias_rate = dtype.type(learning_rate), dtype.type(bias_learning_rate)
    outputs, gradients = levels[0], levels[1]
    input_sums, gradient_bounds = sums[0], sums[1]

    for t in range(triplets.shape[0]):
        update_then_project(first, first_bias, pending, previous, triplets[t], spare_row, outputs[0])
        if used.size == 0:
            break
        for k in range(3):
            input_sums[0, k] = copy_vector(triplets[t, k], previous[k])

        # Compute embeddings and local losses, from the shallowest expert to the deepest.
        for level in range(n_layers + 1):
            if level:
                matrix = last if level == n_layers else middle[level - 1]
                bias = last_bias if level == n_layers else middle_bias[level - 1]
                apply_layer(matrix, bias, hidden[level - 1], active, outputs[level])
            losses[level] = _expert(outputs[level], E, alpha[level], tau, through_thresholds, rounding, per_item,
                                    gradients[level], gradient_bounds[level])  # fmt: skip
            if level < n_layers:
                for k in range(3):
                    input_sums[level + 1, k] = relu(outputs[level, k], E, hidden[level, k])

        if in_place:
            largest = _largest_change(input_sums, gradient_bounds, outputs.shape[2], bound[0], learning_rate,
                                      bias_learning_rate)  # fmt: skip
            if not largest < largest_step:  # true for NaN too
                return t

        # Compute gradients with this round's weights alpha_t and update the layers, from the deepest to the first.
        moved = most = 0.0  # an upper bound of the change of any weight, and its largest part above level 0
        for level in range(n_layers, -1, -1):
            gradient = gradients[level]
            bias = first_bias if level == 0 else last_bias if level == n_layers else middle_bias[level - 1]
            update_bias(bias, gradient, bias_rate, per_item)
            change = 0.0
            for k in range(3):
                g, x = per_item[k], dtype.type(input_sums[level, k])
                change += float(rate * g) * float(x) + float(g) * float(rate * x) + float(bias_rate * g)
            moved += change
            if level:
                most = change if change > most else most
                matrix = last if level == n_layers else middle[level - 1]
                backpropagate_then_update(
                    matrix, hidden[level - 1], gradient, rate, active, gradients[level - 1], E
                )
        if not moved < largest_step:  # true for NaN too
            return t
        for k in range(3):
            for i in range(first_bias.size):
                pending[k, i] = -rate * gradients[0, k, i]

        bound[0] += 0.51 * most  # the norm of a matrix grows by at most half of it; the rest covers rounding
        update_weights(alpha, losses, beta, smoothing, hedge_rule)
        record_round(counters, running, totals, weights, losses, alpha)
        used[t] = moved > 0.0
    return LEARNED


@inlined
def _largest_change(
    input_sums: Doubles, gradient_bounds: Doubles, size: int, bound: float, rate: float, bias_rate: float
) -> float:
    """Return an upper bound of this round's change of any weight. The function is called before any weight changes.

    The bound is computed like the gradients, from the deepest layer to the first. The length of a gradient is
    multiplied by ``bound``, the bound of the norm of every weight matrix. The sum of the absolute values of a
    gradient is at most its length times the square root of its ``size``. The result is doubled to cover rounding
    errors.
    """
    total = 0.0
    for k in range(3):
        length = 0.0
        for level in range(input_sums.shape[0] - 1, -1, -1):
            length = length * bound + gradient_bounds[level, k]
            g, x = length * math.sqrt(size), input_sums[level, k]
            total += 2.0 * (2.0 * rate * g * x + bias_rate * g + g + x)
    return total


@inlined
def _expert(
    output: Floats, size: int, weight: float, tau: float, through_thresholds: bool, rounding: float,
    lengths: Floats, gradient: Floats, gradient_bounds: Doubles,
) -> Scalar:  # fmt: skip
    """Return the local loss of one expert. Write its gradient, times ``weight``, to columns of ``gradient``.

    The embeddings are in the first ``size`` columns of ``output``, and their gradients are written to the same
    columns of ``gradient``. ``gradient_bounds`` receives upper bounds of the lengths of these gradients.

    An embedding of length 0 stays 0 and has no gradient. This happens if all units below the embedding layer are
    inactive. If two embeddings are equal up to rounding, the function sets their distance and its gradient to 0.
    """
    zero = output.dtype.type(0)
    for k in range(3):
        lengths[k] = vector_length(output[k], size)
    length_a, length_p, length_n = lengths[0], lengths[1], lengths[2]
    to_positive = to_negative = dot_ap = dot_an = dot_p = dot_n = zero
    for r in range(size):
        a, p, n = output[0, r] / length_a, output[1, r] / length_p, output[2, r] / length_n
        gradient[0, r], gradient[1, r], gradient[2, r] = a, p, n  # the unit vectors
        to_positive += (a - p) * (a - p)
        to_negative += (a - n) * (a - n)
        dot_ap += (a - p) * a
        dot_an += (a - n) * a
        dot_p += (a - p) * p
        dot_n += (a - n) * n
    positive, negative = _distance(to_positive, rounding), _distance(to_negative, rounding)

    pull = push = zero
    if positive > 0.0:
        pull = output.dtype.type(0.5 * weight * attractive_slope(positive, tau, through_thresholds) / positive)
    if negative > 0.0:
        push = output.dtype.type(0.5 * weight * repulsive_slope(negative, tau, through_thresholds) / negative)
    for r in range(size):  # subtract the part along the unit vector, which has no effect on the embedding
        a, p, n = gradient[0, r], gradient[1, r], gradient[2, r]
        gradient[0, r] = (pull * (a - p) + push * (a - n) - (pull * dot_ap + push * dot_an) * a) / length_a
        gradient[1, r] = (pull * (p - a) + pull * dot_p * p) / length_p
        gradient[2, r] = (push * (n - a) + push * dot_n * n) / length_n
    for k in range(3):
        gradient_bounds[k] = (abs(pull) * positive + abs(push) * negative) / lengths[k]
    return local_loss(positive, negative, tau)


@inlined
def _distance(square: Scalar, rounding: float) -> float:
    """Return the distance between two unit vectors, or 0 if they are equal up to rounding."""
    distance = math.sqrt(square)
    return 2.0 if distance > 2.0 else float(distance) if distance > rounding else 0.0
