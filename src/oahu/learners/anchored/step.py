"""One constraint after the other, compiled: the anchor learns, the experts learn, and each earns its weight.

When a constraint arrives, its items are taken through the network as it stands, its similar pair moves the
whitening, and its items move the mean (`_arrive`). Constraints wait in a window; when it is full (`_close`)

1. every space is asked the local question about each of them: is its similar pair among the nearest that the
   window has to compare? What a space adds to the unlearned one's answers is its evidence;
2. the experts take one step of gradient descent on the same question in its smooth form, InfoNCE;
3. what items are seen with, the mean, the directions and their gains, is read anew.

So the candidates of a window are all seen with the same eyes, and each window is a test before it is a lesson. How
they lie in a window is said in question.py.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, kernel
from oahu.learners.anchored.anchor import learn_pair, soften, whitened, whitening
from oahu.learners.anchored.experts import contrast, descend, descend_first, hidden_of
from oahu.learners.anchored.question import measure, weigh, which_count
from oahu.learners.anchored.scales import step_size, unlearned_scale
from oahu.learners.matrix import dot, limit, project_all
from oahu.learners.network.passes import project, rectify
from oahu.learners.state import LEARNED

__all__ = ["learn"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Network = tuple[Floats, Floats, Floats, Floats, Floats, Floats]
Moments = tuple[Doubles, Doubles, Floats, Doubles]
Eyes = tuple[Floats, Floats, Doubles, Doubles]
Window = tuple[Floats, Floats, Floats, Floats, Floats]

compilable(step_size, unlearned_scale)


@kernel
def learn(
    triplets: Floats,
    network: Network,
    sizes: tuple[int, int, int],
    moments: Moments,
    eyes: Eyes,
    window: Window,
    evidence: Doubles,
    learning_rate: float,
    temperature: float,
    shrinkage: float,
    used: NDArray[np.bool_],
) -> int:
    """Learn triplets of shape (n, 3, d) in order; everything but the triplets changes in place.

    Returns LEARNED, or the row of a refused triplet. After a refusal the state is in between rounds, and the caller
    throws it away.
    """
    items = window[0]
    counts = moments[0]
    size = len(items) // 3
    most = limit(items)
    for t in range(len(triplets)):
        at = int(counts[0]) % size
        if not _arrive(triplets[t], at, network, sizes, moments, eyes, window, most):
            return t
        if at == size - 1:
            moved = _close(network, sizes, eyes, window, evidence, counts[0], learning_rate, temperature)
            if not moved < most:  # also when it is NaN
                return t
            _read(moments, shrinkage, eyes)
        used[t] = True
    return LEARNED


@kernel
def _arrive(
    triplet: Floats, at: int, network: Network, sizes: tuple[int, int, int], moments: Moments, eyes: Eyes,
    window: Window, most: float,
) -> bool:  # fmt: skip
    """Take a constraint into the window, and let the anchor learn from it; False if it is too large."""
    first, first_bias, middle, middle_bias, last, last_bias = network
    items, along, first_out, middle_out, last_out = window
    counts, mean, directions, variances = moments
    n_layers, H, E = sizes
    d = triplet.shape[1]
    dtype = items.dtype
    rows = slice(3 * at, 3 * at + 3)
    total = 0.0
    for k in range(3):
        total += float(dot(triplet[k], triplet[k]))
    if not total < most:  # also when it is NaN
        return False
    items[rows] = triplet
    if counts[0] == 0.0:
        _first_look(triplet, total / 3.0, eyes)

    centred = np.empty((3, d), dtype)
    hidden = np.empty((3, H), dtype)
    _centre(triplet, eyes, centred)
    project_all(eyes[1], centred, along[rows])
    _to_inputs(centred, eyes)
    project_all(first, centred, first_out[rows])
    for k in range(3):
        for q in range(first.shape[0]):
            first_out[3 * at + k, q] += first_bias[q]
    if n_layers:
        rectify(first_out[rows], E, hidden)
    for i in range(n_layers - 1):
        project(middle[i], middle_bias[i], hidden, middle_out[i, rows])
        rectify(middle_out[i, rows], E, hidden)
    if n_layers:
        project(last, last_bias, hidden, last_out[rows])

    half = dtype.type(math.sqrt(0.5))
    difference = np.empty(d, dtype)
    for j in range(d):
        difference[j] = (triplet[0, j] - triplet[1, j]) * half
    counts[0] += 1.0
    n = counts[0]
    counts[1] += (float(dot(difference, difference)) - counts[1]) / n
    learn_pair(difference, n, directions, variances)
    share = 1.0 / (3.0 * n)
    counts[2] += (total / 3.0 - counts[2]) / n
    for j in range(d):
        mean[j] += (float(triplet[0, j]) + float(triplet[1, j]) + float(triplet[2, j]) - 3.0 * mean[j]) * share
    return True


@kernel
def _first_look(triplet: Floats, square: float, eyes: Eyes) -> None:
    """Where items lie and how long they are, as far as one constraint tells."""
    mean, softening = eyes[0], eyes[3]
    around = 0.0
    for j in range(mean.size):
        mean[j] = (triplet[0, j] + triplet[1, j] + triplet[2, j]) / 3
        for k in range(3):
            around += float(triplet[k, j] - mean[j]) ** 2 / 3.0
    softening[0] = square
    softening[1] = around
    softening[2] = around


@kernel
def _centre(items: Floats, eyes: Eyes, centred: Floats) -> None:
    mean = eyes[0]
    for k in range(len(items)):
        for j in range(mean.size):
            centred[k, j] = items[k, j] - mean[j]


@kernel
def _to_inputs(centred: Floats, eyes: Eyes) -> None:
    """Centred items as the experts see them: of softened length sqrt(d), in place."""
    soften(centred, eyes[3][1], math.sqrt(centred.shape[1]))


@kernel
def _close(
    network: Network, sizes: tuple[int, int, int], eyes: Eyes, window: Window, evidence: Doubles, seen: float,
    learning_rate: float, temperature: float,
) -> float:  # fmt: skip
    """Ask about a full window, learn from it; returns a bound of how far a weight was moved."""
    first, first_bias, middle, middle_bias, last, last_bias = network
    items, along, first_out, middle_out, last_out = window
    n_layers, H, E = sizes
    dtype = items.dtype
    m, d = items.shape
    n = m // 3
    open_to = np.empty((n, 2 * n), np.bool_)
    which_count(items, open_to)

    # How far apart items are in the unlearned space, in the whitened one, and in the experts'.
    apart = np.empty((n_layers + 3, 2, n, 2 * n))
    softening = eyes[3]
    vectors = items.copy()
    soften(vectors, softening[0], 1.0)
    measure(vectors, apart[0])
    centred = np.empty((m, d), dtype)
    _centre(items, eyes, centred)
    whitened(centred, along, eyes[1], eyes[2], vectors)
    around, stretched = _mean_square(centred), _mean_square(vectors)
    soften(vectors, softening[2], 1.0)
    measure(vectors, apart[1])

    units = np.empty((m, E), dtype)
    first_gradient = np.zeros((m, first.shape[0]), dtype)
    gradient = np.zeros((m, middle.shape[2]), dtype)
    last_gradient = np.zeros((m, last.shape[1]), dtype)
    hidden = np.empty((m, H), dtype)
    below = np.empty((m, H), dtype)
    rate = dtype.type(step_size(learning_rate, seen))
    moved = 0.0
    if n_layers:
        contrast(last_out, E, open_to, temperature, units, last_gradient)
        measure(units, apart[n_layers + 2])
        hidden_of(first_out, middle_out, n_layers - 1, E, hidden)
        moved += descend(last, last_bias, hidden, last_gradient, last.shape[1], rate, below)
    for i in range(n_layers - 2, -1, -1):
        contrast(middle_out[i], E, open_to, temperature, units, gradient)
        measure(units, apart[i + 3])
        gradient[:, E : E + H] = below
        hidden_of(first_out, middle_out, i, E, hidden)
        moved += descend(middle[i], middle_bias[i], hidden, gradient, E, rate, below)
    contrast(first_out, E, open_to, temperature, units, first_gradient)
    measure(units, apart[2])
    if n_layers:
        first_gradient[:, E:] = below
    _to_inputs(centred, eyes)
    moved += descend_first(first, first_bias, centred, first_gradient, E, rate)

    share = max(n / seen, 0.01)
    softening[1] += (around - softening[1]) * share
    softening[2] += (stretched - softening[2]) * share
    softening[3] += (apart[0].mean() - softening[3]) * share
    weigh(apart, open_to, unlearned_scale(softening[3]), seen, evidence)
    return moved


@kernel
def _mean_square(rows: Floats) -> float:
    total = 0.0
    for i in range(len(rows)):
        total += float(dot(rows[i], rows[i]))
    return total / len(rows)


@kernel
def _read(moments: Moments, shrinkage: float, eyes: Eyes) -> None:
    """From here on items are seen with what is known now."""
    counts, mean, directions, variances = moments
    read_mean, read_directions, gains, softening = eyes
    for j in range(mean.size):
        read_mean[j] = mean[j]
    read_directions[:] = directions
    whitening(variances, counts[1], mean.size, shrinkage, gains)
    softening[0] = counts[2]
