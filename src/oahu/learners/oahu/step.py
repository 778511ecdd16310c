"""The fused online update: Algorithm 1 of the paper, one triplet after the other, compiled.

The d-wide matrix is updated one round late, while the next round's dot products are taken (passes.py). After the
last triplet a pass with nothing to project settles what is owed. Every pass, also the first and the last of a call,
runs the same machine code over the same row lengths, so a model does not depend on how its stream was cut into
calls. No layer is updated before every other has used it.

Index k = 0, 1, 2 is the anchor, the positive and the negative everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, kernel
from oahu.learners.network.passes import (
    backpropagate_then_update,
    length_of,
    owe,
    project,
    reach,
    rectify,
    through_unit,
    to_unit,
    update_then_project,
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

__all__ = ["LEARNED", "learn"]

Floats = NDArray[np.floating]
Scalar = Any  # a float of the kind that the arrays hold

compilable(hedge_factor, hedge_update)
compilable(similarity_threshold, dissimilarity_threshold, attractive_loss, repulsive_loss, local_loss)
compilable(attractive_slope, repulsive_slope)

#: What `learn` returns in place of a row when no triplet was refused.
LEARNED = -1


@kernel
def learn(
    triplets: Floats,
    first: Floats,
    first_bias: Floats,
    middle: Floats,
    middle_bias: Floats,
    last: Floats,
    last_bias: Floats,
    alpha: NDArray[np.float64],
    sizes: tuple[int, int, int],
    learning_rate: float,
    bias_rate: float,
    tau: float,
    through_thresholds: bool,
    beta: float,
    smoothing: float,
    hedge_rule: int,
    losses: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> tuple[int, int]:
    """Learn triplets of shape (n, 3, d) in order; parameters and ``alpha`` change in place.

    Writes each round's local losses and the weights after it to ``losses`` and ``weights``, (n, L + 1).
    Returns how many triplets had a gradient, and the row of a refused triplet or LEARNED. After a refusal the
    parameters are in between rounds, and the caller throws them away.
    """
    n, _, d = triplets.shape
    n_layers, H, E = sizes
    dtype = first.dtype
    rows = first.shape[0]
    rate = dtype.type(learning_rate)
    rate_of_bias = dtype.type(bias_rate)
    # A round may move a weight by the square root of the largest float: whatever came before and whatever
    # comes next, no sum of such steps reaches infinity.
    limit = math.sqrt(np.finfo(dtype).max)

    nothing = np.zeros((3, d), dtype)
    owed = np.full((3, rows), -dtype.type(0))  # -0 * 0 added to a weight leaves every bit of it
    projected = np.empty((3, rows), dtype)
    outputs = np.zeros((middle.shape[0], 3, middle.shape[2]), dtype)
    last_output = np.zeros((3, last.shape[1]), dtype)
    hidden = np.zeros((n_layers, 3, H), dtype)
    gradients = np.zeros((middle.shape[0], 3, middle.shape[2]), dtype)
    first_gradient = np.zeros((3, rows), dtype)
    last_gradient = np.zeros((3, last.shape[1]), dtype)
    delta = np.zeros((3, H), dtype)
    unit = np.empty((3, E), dtype)
    loss = np.empty(n_layers + 1)

    n_used = 0
    previous = nothing
    for t in range(n + 1):
        current = triplets[t] if t < n else nothing
        update_then_project(first, first_bias, owed, previous, current, projected)
        if t == n:
            break

        # Embeddings and local losses, from the shallowest expert to the deepest.
        loss[0] = _expert(projected, E, alpha[0], tau, through_thresholds, unit, first_gradient)
        if n_layers:
            rectify(projected, E, hidden[0])
        for i in range(n_layers - 1):
            project(middle[i], middle_bias[i], hidden[i], outputs[i])
            loss[i + 1] = _expert(outputs[i], E, alpha[i + 1], tau, through_thresholds, unit, gradients[i])
            rectify(outputs[i], E, hidden[i + 1])
        if n_layers:
            project(last, last_bias, hidden[n_layers - 1], last_output)
            loss[n_layers] = _expert(last_output, E, alpha[n_layers], tau, through_thresholds, unit, last_gradient)

        # Gradients and updates with the round's own weights alpha_t, from the deepest layer down.
        moved = 0.0
        if n_layers:
            moved += reach(last_gradient, hidden[n_layers - 1], rate, rate_of_bias)
            backpropagate_then_update(last, last_bias, hidden[n_layers - 1], last_gradient, rate,
                                       rate_of_bias, delta)  # fmt: skip
        for i in range(n_layers - 2, -1, -1):
            gradients[i][:, E : E + H] = delta
            moved += reach(gradients[i], hidden[i], rate, rate_of_bias)
            backpropagate_then_update(middle[i], middle_bias[i], hidden[i], gradients[i], rate,
                                       rate_of_bias, delta)  # fmt: skip
        if n_layers:
            first_gradient[:, E:] = delta
        moved += reach(first_gradient, current, rate, rate_of_bias)
        if not moved < limit:  # also when it is NaN
            return n_used, t
        n_used += moved > 0.0
        owe(first_gradient, first_bias, rate, rate_of_bias, owed)
        previous = current

        alpha[:] = hedge_update(alpha, loss, beta, smoothing, hedge_rule)
        losses[t] = loss
        weights[t] = alpha
    return n_used, LEARNED


@kernel
def _expert(
    output: Floats, size: int, weight: float, tau: float, through_thresholds: bool, unit: Floats,
    gradient: Floats,
) -> Scalar:  # fmt: skip
    """One expert's local loss; its gradient, weighted, goes to the first ``size`` columns of ``gradient``.

    An embedding of length zero (every unit of its layer silent) stays zero and has no gradient. Two embeddings that
    are equal up to rounding have no direction to move in: their distance counts as 0, and its gradient is 0.
    """
    zero = output.dtype.type(0)
    n0, n1, n2 = length_of(output[0], size), length_of(output[1], size), length_of(output[2], size)
    to_unit(output[0], n0, unit[0])
    to_unit(output[1], n1, unit[1])
    to_unit(output[2], n2, unit[2])
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
    along_a = along_p = along_n = zero
    for r in range(size):
        g_p = -pull * (a[r] - p[r])
        g_n = -push * (a[r] - n[r])
        gradient[0, r], gradient[1, r], gradient[2, r] = -g_p - g_n, g_p, g_n
        along_a -= (g_p + g_n) * a[r]
        along_p += g_p * p[r]
        along_n += g_n * n[r]
    through_unit(gradient[0], a, along_a, n0)
    through_unit(gradient[1], p, along_p, n1)
    through_unit(gradient[2], n, along_n, n2)
    return local_loss(positive, negative, tau)
