"""One constraint after the other, compiled: the anchor learns, the experts learn, and each earns its weight.

When a constraint arrives, its items are taken through the network as it stands, its similar pair moves the
whitening, and its items move the mean (`_arrive`). Constraints wait in a window; when it is full (`_close`)

1. every space is asked the local question about each of them: how many of the window's items come nearer to the
   anchor than its positive? What a space adds to the unlearned one's answers is its evidence;
2. the experts take one step of gradient descent on the same question in its smooth form, InfoNCE;
3. what items are seen with, the mean, the directions and their gains, is read anew.

So the candidates of a window are all seen with the same eyes, and each window is a test before it is a lesson.

Row 3 i + k of a window is the anchor, the positive or the negative, k = 0, 1, 2, of its i-th constraint. Candidate
j is the positive of constraint j, candidate n + j its negative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.jit import compilable, kernel
from oahu.learners.anchored.anchor import learn_pair, project_rows, soft_length, squared_length, whitening
from oahu.learners.anchored.weights import unlearned_scale
from oahu.learners.oahu.passes import length_of, project, rectify, through_unit, to_unit

__all__ = ["LEARNED", "learn"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
Scalar = Any  # a float of the kind that the arrays hold
Network = tuple[Floats, Floats, Floats, Floats, Floats, Floats]
Moments = tuple[Doubles, Doubles, Floats, Doubles]
Eyes = tuple[Floats, Floats, Doubles, Doubles]
Window = tuple[Floats, Floats, Floats, Floats, Floats]

compilable(unlearned_scale)

#: What `learn` returns in place of a row when no triplet was refused.
LEARNED = -1


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
) -> int:
    """Learn triplets of shape (n, 3, d) in order; everything but the triplets changes in place.

    Returns LEARNED, or the row of a refused triplet. After a refusal the state is in between rounds, and the caller
    throws it away.
    """
    items = window[0]
    counts = moments[0]
    size = len(items) // 3
    limit = math.sqrt(np.finfo(items.dtype).max)
    for t in range(len(triplets)):
        at = int(counts[0]) % size
        if not _arrive(triplets[t], at, network, sizes, moments, eyes, window, limit):
            return t
        if at == size - 1:
            moved = _close(network, sizes, eyes, window, evidence, counts[0], learning_rate, temperature)
            if not moved < limit:  # also when it is NaN
                return t
            _read(moments, shrinkage, eyes, window)
    return LEARNED


@kernel
def _arrive(
    triplet: Floats, at: int, network: Network, sizes: tuple[int, int, int], moments: Moments, eyes: Eyes,
    window: Window, limit: float,
) -> bool:  # fmt: skip
    """Take a constraint into the window, and let the anchor learn from it; False if it is too large."""
    first, first_bias, middle, middle_bias, last, last_bias = network
    items, along, first_out, middle_out, last_out = window
    counts, mean, directions, variances = moments
    n_layers, H, E = sizes
    d = triplet.shape[1]
    dtype = items.dtype
    rows = slice(3 * at, 3 * at + 3)
    items[rows] = triplet
    total = 0.0
    for k in range(3):
        total += float(squared_length(triplet[k]))
    if not total < limit:
        return False
    if counts[0] == 0.0:
        _first_look(triplet, eyes)

    centred = np.empty((3, d), dtype)
    hidden = np.empty((3, H), dtype)
    _centre(triplet, eyes, centred)
    project_rows(eyes[1], centred, along[rows])
    _to_inputs(centred, eyes)
    project_rows(first, centred, first_out[rows])
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
    counts[1] += (float(squared_length(difference)) - counts[1]) / n
    learn_pair(difference, n, directions, variances)
    share = 1.0 / (3.0 * n)
    counts[2] += (total / 3.0 - counts[2]) / n
    for j in range(d):
        mean[j] += (float(triplet[0, j]) + float(triplet[1, j]) + float(triplet[2, j]) - 3.0 * mean[j]) * share
    return True


@kernel
def _first_look(triplet: Floats, eyes: Eyes) -> None:
    """Where items lie and how long they are, as far as one constraint tells."""
    mean, softening = eyes[0], eyes[3]
    around = 0.0
    for j in range(mean.size):
        mean[j] = (triplet[0, j] + triplet[1, j] + triplet[2, j]) / 3
        for k in range(3):
            around += float(triplet[k, j] - mean[j]) ** 2 / 3.0
    for k in range(3):
        softening[0] += (float(squared_length(triplet[k])) - softening[0]) / (k + 1.0)
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
    softening = eyes[3][1]
    d = centred.shape[1]
    for k in range(len(centred)):
        x = centred[k]
        length = soft_length(float(squared_length(x)), softening, d)
        scale = x.dtype.type(math.sqrt(d) / length if length > 0.0 else 0.0)
        for j in range(d):
            x[j] *= scale


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
    m = len(items)
    n = m // 3
    d = items.shape[1]

    centred = np.empty((m, d), dtype)
    _centre(items, eyes, centred)
    open_to = np.empty((n, 2 * n), np.bool_)
    apart = np.empty((n_layers + 3, 2, n, 2 * n))
    _which_count(items, open_to)
    _anchored_distances(items, along, np.ones(1), eyes[3][0], apart[0])
    _anchored_distances(centred, along, eyes[2], eyes[3][2], apart[1])

    units = np.empty((m, E), dtype)
    first_gradient = np.zeros((m, first.shape[0]), dtype)
    gradient = np.zeros((m, middle.shape[2]), dtype)
    last_gradient = np.zeros((m, last.shape[1]), dtype)
    hidden = np.empty((m, H), dtype)
    below = np.empty((m, H), dtype)
    rate = dtype.type(learning_rate)
    moved = 0.0
    if n_layers:
        _contrast(last_out, E, open_to, temperature, units, apart[n_layers + 2], last_gradient)
        _hidden_of(first_out, middle_out, n_layers - 1, E, hidden)
        moved += _descend(last, last_bias, hidden, last_gradient, last.shape[1], rate, below)
    for i in range(n_layers - 2, -1, -1):
        _contrast(middle_out[i], E, open_to, temperature, units, apart[i + 3], gradient)
        gradient[:, E : E + H] = below
        _hidden_of(first_out, middle_out, i, E, hidden)
        moved += _descend(middle[i], middle_bias[i], hidden, gradient, E, rate, below)
    _contrast(first_out, E, open_to, temperature, units, apart[2], first_gradient)
    if n_layers:
        first_gradient[:, E:] = below
    _to_inputs(centred, eyes)
    moved += _descend_first(first, first_bias, centred, first_gradient, E, rate)

    softening = eyes[3]
    softening[3] += (apart[0].mean() - softening[3]) * max(n / seen, 0.01)
    _weigh(apart, open_to, unlearned_scale(softening[3]), seen, evidence)
    return moved


@kernel
def _read(moments: Moments, shrinkage: float, eyes: Eyes, window: Window) -> None:
    """From here on items are seen with what is known now."""
    counts, mean, directions, variances = moments
    read_mean, read_directions, gains, softening = eyes
    items, along = window[0], window[1]
    m, d = items.shape
    r = len(directions)
    around = whitened = 0.0
    whitening(variances, counts[1], d, shrinkage, gains)
    centred = np.empty((m, d), items.dtype)
    _centre(items, eyes, centred)
    for i in range(m):
        square = float(squared_length(centred[i]))
        around += square
        whitened += max(square * gains[r] ** 2 + _along(along[i], along[i], gains), 0.0)
    share = max(float(m) / (3.0 * counts[0]), 0.01)
    softening[0] = counts[2]
    softening[1] += (around / m - softening[1]) * share
    softening[2] += (whitened / m - softening[2]) * share
    for j in range(d):
        read_mean[j] = mean[j]
    read_directions[:] = directions


# -- the spaces ----------------------------------------------------------------------------------------------


@kernel
def _row(j: int, n: int) -> int:
    """The row of candidate j in a window of n constraints."""
    return 3 * j + 1 if j < n else 3 * (j - n) + 2


@kernel
def _which_count(items: Floats, open_to: Flags) -> None:
    """A candidate that is the anchor or the positive of a constraint does not count in it, but for its own."""
    n = len(open_to)
    for i in range(n):
        for j in range(2 * n):
            y = items[_row(j, n)]
            own = j == i or j == n + i
            open_to[i, j] = own or (_differ(y, items[3 * i]) and _differ(y, items[3 * i + 1]))


@kernel
def _differ(x: Floats, y: Floats) -> bool:
    j = 0
    while j < x.size and x[j] == y[j]:  # items that differ do so early
        j += 1
    return j < x.size


@kernel
def _anchored_distances(items: Floats, along: Floats, gains: Doubles, softening: float, apart: Doubles) -> None:
    """Squared distances of both ends of every pair to every candidate, of softened lengths.

    With one gain for all, in the items' own space; else in the whitened one, given coordinates along directions.
    """
    m, d = items.shape
    n = m // 3
    rest = gains[-1] ** 2
    squares, lengths = np.empty(m), np.empty(m)
    for i in range(m):
        squares[i] = max(float(squared_length(items[i])) * rest + _along(along[i], along[i], gains), 0.0)
        lengths[i] = soft_length(squares[i], softening, d)
    for end in range(2):
        for i in range(n):
            x = 3 * i + end
            for j in range(2 * n):
                y = _row(j, n) if j != i else 3 * i + 1 - end
                inner = float(_dot(items[x], items[y])) * rest + _along(along[x], along[y], gains)
                apart[end, i, j] = _between(inner, squares[x], squares[y], lengths[x], lengths[y])


@kernel
def _dot(x: Floats, y: Floats) -> Scalar:
    total = x.dtype.type(0)
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@kernel
def _along(x: Floats, y: Floats, gains: Doubles) -> float:
    """What the directions add to a whitened inner product, given two items' coordinates along them."""
    rest = gains[-1] ** 2
    total = 0.0
    for k in range(gains.size - 1):
        total += (gains[k] ** 2 - rest) * float(x[k]) * float(y[k])
    return total


@kernel
def _between(inner: float, here: float, there: float, length: float, other: float) -> float:
    """||x / s - y / t||^2 from <x, y>, ||x||^2, ||y||^2, s and t; an item of no length is 0."""
    total = 0.0
    if length > 0.0:
        total += here / length**2
    if other > 0.0:
        total += there / other**2
    if length > 0.0 and other > 0.0:
        total -= 2.0 * inner / (length * other)
    return total


# -- what they earn ------------------------------------------------------------------------------------------


@kernel
def _answer(apart: Doubles, space: int, scale: float, open_to: Flags, i: int) -> float:
    """1 / (1 + how many candidates come before the other end of pair i), from both ends, their mean.

    In the unlearned space, or with another beside it.
    """
    total = 0.0
    for end in range(2):
        near = scale * apart[0, end, i, i]
        if space:
            near += apart[space, end, i, i]
        before = 0
        for j in range(open_to.shape[1]):
            if open_to[i, j] and j != i:
                far = scale * apart[0, end, i, j]
                if space:
                    far += apart[space, end, i, j]
                before += far < near
        total += 0.5 / (1.0 + before)
    return total


@kernel
def _weigh(apart: Doubles, open_to: Flags, scale: float, seen: float, evidence: Doubles) -> None:
    """Row 0 of ``evidence`` sums what each space added to the unlearned one's answers, row 1 the squares of it.

    Column 0 is about the feedback itself: does the unlearned space order its triplets as it says? The last is about
    what the whitened space would add if the unlearned one were gone. What came in the first half of the stream
    counts less, and what came 10,000 constraints ago hardly.
    """
    n = len(open_to)
    for i in range(n):
        keep = 1.0 - 1.0 / min(100.0 + 0.5 * (seen - n + i), 10_000.0)
        unlearned = _answer(apart, 0, scale, open_to, i)
        for space in range(len(apart)):
            if space:
                gain = _answer(apart, space, scale, open_to, i) - unlearned
            else:
                gain = 0.5 if apart[0, 0, i, i] < apart[0, 0, i, n + i] else -0.5
            evidence[0, space] = keep * evidence[0, space] + gain
            evidence[1, space] = keep * evidence[1, space] + gain * gain
        gain = _answer(apart, 1, 0.0, open_to, i) - _answer(apart, 1, scale, open_to, i)
        evidence[0, -1] = keep * evidence[0, -1] + gain
        evidence[1, -1] = keep * evidence[1, -1] + gain * gain


# -- the experts ---------------------------------------------------------------------------------------------


@kernel
def _contrast(
    outputs: Floats, size: int, open_to: Flags, temperature: float, units: Floats, apart: Doubles, gradient: Floats
) -> None:
    """InfoNCE of one expert, averaged over the window.

    It is -log of the positive's share of exp(cosine / temperature) among the candidates that count. Writes squared
    distances, and the gradient to the first ``size`` columns of ``gradient``.
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
            cosine = float(_dot(x, units[_row(j, n)]))
            shares[j] = cosine
            other = cosine if j == i else float(_dot(units[3 * i + 1], units[_row(j, n)]))
            there = 3 * i if j == i else _row(j, n)
            apart[0, i, j] = (lengths[3 * i] > 0) + (lengths[_row(j, n)] > 0) - 2.0 * cosine
            apart[1, i, j] = (lengths[3 * i + 1] > 0) + (lengths[there] > 0) - 2.0 * other
            if open_to[i, j]:
                highest = max(highest, cosine)
        whole = 0.0
        for j in range(2 * n):
            shares[j] = math.exp((shares[j] - highest) / temperature) if open_to[i, j] else 0.0
            whole += shares[j]
        for j in range(2 * n):
            weight = dtype.type((shares[j] / whole - (j == i)) / (temperature * n))
            at = _row(j, n)
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
def _hidden_of(first_out: Floats, middle_out: Floats, level: int, start: int, hidden: Floats) -> None:
    """The hidden units that layer ``level`` + 2 reads, from what the layer below it gave out."""
    outputs = middle_out[level - 1] if level else first_out
    for i in range(len(hidden)):
        for q in range(hidden.shape[1]):
            value = outputs[i, start + q]
            hidden[i, q] = 0 if value <= 0 else value


@kernel
def _descend(
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
            below[i, q] = _dot(row, gradient[i]) if hidden[i, q] > 0 else zero
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
        furthest += float(rate * total) * _largest(hidden[i]) + float(rate * total)
    return furthest


@kernel
def _descend_first(
    matrix: Floats, bias: Floats, inputs: Floats, gradient: Floats, size: int, rate: Scalar
) -> float:
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
        furthest += float(rate * total) * _largest(inputs[i]) + float(rate * total)
    return furthest


@kernel
def _largest(vector: Floats) -> float:
    largest = vector.dtype.type(0)
    for j in range(vector.size):
        if not abs(vector[j]) <= largest:  # also when it is NaN
            largest = abs(vector[j])
    return float(largest)
