"""AnchoredOAHU's compiled update step.

A window is a group of consecutive constraints. For every constraint, `_add_to_window` encodes the items and stores
them in the current window. The similar pair of the constraint updates the scatter of similar pairs. All items
update the mean. When the window is full, `learn` calls `_close_window` (1, 2) and `_update_encoder` (3):

1. Every space ranks the similar pairs of the window among all pairs of the window. The gain of a space over the
   unlearned space in this ranking is added to its evidence (local_ranking.py).
2. The experts make one step of gradient descent on InfoNCE, a smooth form of the same ranking (contrastive.py).
3. The parameters of the encoder are updated: the mean, the directions and their gains (`_update_encoder`).

All items of a window are encoded with the same parameters. Each space is evaluated on a window before the experts
are trained on the window. local_ranking.py describes the layout of a window.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, helper, inlined, kernel
from oahu.learners.anchored.contrastive import hidden_inputs, info_nce_gradient, update_first_layer, update_layer
from oahu.learners.anchored.local_ranking import add_evidence, mark_eligible, measure_candidates
from oahu.learners.anchored.model_arrays import (
    CENTRED,
    ITEMS,
    N_SEEN,
    PAIR_VARIANCE,
    SQUARED_LENGTH,
    UNLEARNED_DISTANCE,
    WHITENED,
    EncoderState,
    NetworkParameters,
    StreamStatistics,
    Window,
)
from oahu.learners.anchored.scaling_rules import step_size, unlearned_scale
from oahu.learners.anchored.whitening import compute_gains, soften, update_scatter, whiten
from oahu.learners.matrix_kernels import dot, overflow_limit, project_all
from oahu.learners.network.passes import apply_layer, relu, write_columns
from oahu.learners.state import LEARNED

__all__ = ["learn"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

compilable(step_size, unlearned_scale)


@kernel("AnchoredOAHU's update step")
def learn(
    triplets: Floats,
    first: Floats,
    first_bias: Floats,
    middle: Floats,
    middle_bias: Floats,
    last: Floats,
    last_bias: Floats,
    stream_scalars: Doubles,
    stream_mean: Doubles,
    stream_directions: Floats,
    stream_variances: Doubles,
    encoder_mean: Floats,
    encoder_directions: Floats,
    encoder_gains: Doubles,
    encoder_mean_squares: Doubles,
    items: Floats,
    coordinates: Floats,
    first_outputs: Floats,
    middle_outputs: Floats,
    last_outputs: Floats,
    evidence: Doubles,
    learning_rate: float,
    temperature: float,
    shrinkage: float,
    used: NDArray[np.bool_],
) -> int:
    """Learn from triplets of shape (n, 3, d), in order. All arrays except the triplets change in place.

    The function returns LEARNED, or the row number of a rejected triplet. After a rejection, the caller must
    discard all arrays.
    """
    # The arguments are plain arrays, because numba needs microseconds per call to unpack a NamedTuple.
    network = NetworkParameters(first, first_bias, middle, middle_bias, last, last_bias)
    statistics = StreamStatistics(stream_scalars, stream_mean, stream_directions, stream_variances)
    encoder = EncoderState(encoder_mean, encoder_directions, encoder_gains, encoder_mean_squares)
    window = Window(items, coordinates, first_outputs, middle_outputs, last_outputs)
    size = len(items) // 3
    largest_step = overflow_limit(items)
    for t in range(len(triplets)):
        position = int(statistics.scalars[N_SEEN]) % size
        if not _add_to_window(triplets[t], position, network, statistics, encoder, window, largest_step):
            return t
        if position == size - 1:
            n_seen = statistics.scalars[N_SEEN]
            moved = _close_window(network, encoder, window, evidence, n_seen, learning_rate, temperature)
            if not moved < largest_step:  # true for NaN too
                return t
            _update_encoder(statistics, shrinkage, encoder)
        used[t] = True
    return LEARNED


@inlined
def _add_to_window(
    triplet: Floats, position: int, network: NetworkParameters, statistics: StreamStatistics,
    encoder: EncoderState, window: Window, largest_step: float,
) -> bool:  # fmt: skip
    """Encode a constraint's items, store them in the window and update the statistics.

    If the items are too large, the function changes nothing and returns False.
    """
    d = triplet.shape[1]
    dtype = triplet.dtype
    total = 0.0
    for k in range(3):
        total += float(dot(triplet[k], triplet[k]))
    if not total < largest_step:  # true for NaN too
        return False
    rows = slice(3 * position, 3 * position + 3)
    write_columns(triplet, window.items[rows], 0)
    if statistics.scalars[N_SEEN] == 0.0:
        _initialize_encoder(triplet, total / 3.0, encoder.mean, encoder.mean_squares)

    H = network.middle.shape[1]
    n_layers = len(network.middle) + 1 if len(network.last) else 0
    E = len(network.first) - H if n_layers else len(network.first)
    centred = np.zeros((3, d), dtype)
    hidden = np.zeros((3, H), dtype)
    active = np.zeros(H, np.intp)
    _centre(triplet, encoder.mean, centred)
    project_all(encoder.directions, centred, window.coordinates[rows])
    soften(centred, encoder.mean_squares[CENTRED], math.sqrt(d))
    first_outputs = window.first_outputs[rows]
    project_all(network.first, centred, first_outputs)
    for k in range(3):
        for q in range(len(network.first)):
            first_outputs[k, q] += network.first_bias[q]
        if n_layers:
            relu(first_outputs[k], E, hidden[k])
    for i in range(n_layers):
        deepest = i == n_layers - 1
        matrix = network.last if deepest else network.middle[i]
        bias = network.last_bias if deepest else network.middle_bias[i]
        outputs = window.last_outputs[rows] if deepest else window.middle_outputs[i, rows]
        apply_layer(matrix, bias, hidden, active, outputs)
        if not deepest:
            for k in range(3):
                relu(outputs[k], E, hidden[k])

    half = dtype.type(math.sqrt(0.5))
    difference = np.zeros(d, dtype)
    for j in range(d):
        difference[j] = (triplet[0, j] - triplet[1, j]) * half
    scalars, mean = statistics.scalars, statistics.mean
    scalars[N_SEEN] += 1.0
    n = scalars[N_SEEN]
    scalars[PAIR_VARIANCE] += (float(dot(difference, difference)) - scalars[PAIR_VARIANCE]) / n
    update_scatter(difference, n, statistics.directions, statistics.variances)
    share = 1.0 / (3.0 * n)
    scalars[SQUARED_LENGTH] += (total / 3.0 - scalars[SQUARED_LENGTH]) / n
    for j in range(d):
        mean[j] += (float(triplet[0, j]) + float(triplet[1, j]) + float(triplet[2, j]) - 3.0 * mean[j]) * share
    return True


@helper
def _initialize_encoder(triplet: Floats, square: float, mean: Floats, mean_squares: Doubles) -> None:
    """Estimate the mean of the items and the mean squared lengths from the first constraint."""
    centred_square = 0.0
    for j in range(mean.size):
        mean[j] = (triplet[0, j] + triplet[1, j] + triplet[2, j]) / 3
        for k in range(3):
            centred_square += float(triplet[k, j] - mean[j]) ** 2 / 3.0
    mean_squares[ITEMS] = square
    mean_squares[CENTRED] = centred_square
    mean_squares[WHITENED] = centred_square


@helper
def _centre(items: Floats, mean: Floats, centred: Floats) -> None:
    for k in range(len(items)):
        for j in range(mean.size):
            centred[k, j] = items[k, j] - mean[j]


@inlined
def _close_window(
    network: NetworkParameters, encoder: EncoderState, window: Window, evidence: Doubles, n_seen: float,
    learning_rate: float, temperature: float,
) -> float:  # fmt: skip
    """Evaluate every space on a full window, then train the experts on this window.

    The function returns an upper bound of the change of any weight.
    """
    items, mean_squares = window.items, encoder.mean_squares
    dtype = items.dtype
    m, d = items.shape
    n = m // 3
    H = network.middle.shape[1]
    n_layers = evidence.shape[1] - 3
    E = len(network.first) - H if n_layers else len(network.first)
    eligible = np.zeros((n, 2 * n), np.bool_)
    mark_eligible(items, eligible)

    # Compute distances in the unlearned space, in the whitened space, and in the spaces of the experts.
    distances = np.zeros((n_layers + 3, 2, n, 2 * n))
    vectors = np.zeros((m, d), dtype)
    write_columns(items, vectors, 0)
    soften(vectors, mean_squares[ITEMS], 1.0)
    measure_candidates(vectors, distances[0])
    centred = np.zeros((m, d), dtype)
    _centre(items, encoder.mean, centred)
    whiten(centred, window.coordinates, encoder.directions, encoder.gains, vectors)
    centred_square, whitened_square = _mean_square(centred), _mean_square(vectors)
    soften(vectors, mean_squares[WHITENED], 1.0)
    measure_candidates(vectors, distances[1])

    units = np.zeros((m, E), dtype)
    first_gradient = np.zeros((m, len(network.first)), dtype)
    middle_gradient = np.zeros((m, network.middle.shape[2]), dtype)
    last_gradient = np.zeros((m, network.last.shape[1]), dtype)
    hidden = np.zeros((m, H), dtype)
    below = np.zeros((m, H), dtype)
    rate = dtype.type(step_size(learning_rate, n_seen))
    moved = 0.0
    for level in range(n_layers, -1, -1):
        deepest = level == n_layers
        if level == 0:
            outputs, gradient = window.first_outputs, first_gradient
        elif deepest:
            outputs, gradient = window.last_outputs, last_gradient
        else:
            outputs, gradient = window.middle_outputs[level - 1], middle_gradient
        info_nce_gradient(outputs, E, eligible, temperature, units, gradient)
        measure_candidates(units, distances[level + 2])
        if not deepest:
            write_columns(below, gradient, E)
        if level:
            hidden_inputs(window.first_outputs, window.middle_outputs, level - 1, E, hidden)
            matrix = network.last if deepest else network.middle[level - 1]
            bias = network.last_bias if deepest else network.middle_bias[level - 1]
            n_unbiased = gradient.shape[1] if deepest else E
            moved += update_layer(matrix, bias, hidden, gradient, n_unbiased, rate, below)
    soften(centred, mean_squares[CENTRED], math.sqrt(d))
    moved += update_first_layer(network.first, network.first_bias, centred, first_gradient, E, rate)

    share = max(n / n_seen, 0.01)
    mean_squares[CENTRED] += (centred_square - mean_squares[CENTRED]) * share
    mean_squares[WHITENED] += (whitened_square - mean_squares[WHITENED]) * share
    mean_squares[UNLEARNED_DISTANCE] += (distances[0].mean() - mean_squares[UNLEARNED_DISTANCE]) * share
    add_evidence(distances, eligible, unlearned_scale(mean_squares[UNLEARNED_DISTANCE]), n_seen, evidence)
    return moved


@helper
def _mean_square(rows: Floats) -> float:
    total = 0.0
    for i in range(len(rows)):
        total += float(dot(rows[i], rows[i]))
    return total / len(rows)


@inlined
def _update_encoder(statistics: StreamStatistics, shrinkage: float, encoder: EncoderState) -> None:
    """Update the encoder's parameters from the statistics of all constraints seen so far."""
    scalars, d = statistics.scalars, statistics.mean.size
    for j in range(d):
        encoder.mean[j] = statistics.mean[j]
    write_columns(statistics.directions, encoder.directions, 0)
    compute_gains(statistics.variances, scalars[PAIR_VARIANCE], d, shrinkage, encoder.gains)
    encoder.mean_squares[ITEMS] = scalars[SQUARED_LENGTH]
