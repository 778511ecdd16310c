"""Compiled ranking of the similar pairs of a window in each space.

A window is a group of n consecutive constraints. Row 3 i + k of a window is the anchor (k = 0), the positive (k =
1) or the negative (k = 2) of constraint i.

In this package, a candidate is any positive or negative of the window. Similar pairs are ranked against the pairs
with candidates. Candidate j is the positive of constraint j, and candidate n + j is the negative of constraint j.

``distances[0, i, j]`` is the squared distance between the anchor of constraint i and candidate j. ``distances[1, i,
j]`` is the squared distance between the positive of constraint i and candidate j. ``distances[0, i, i]`` and
``distances[1, i, i]`` both contain the squared distance between the anchor and the positive of constraint i. A
space ranks a similar pair well if few of the n * (4 n - 2) other distances are smaller than the distance of the
pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.jit import helper
from oahu.learners.anchored.model_arrays import GAINS, SQUARES

__all__ = ["add_evidence", "candidate_row", "mark_eligible", "measure_candidates"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: The score of a pair is 1/2 if this share of all distances is smaller than the distance of the pair.
_HALF_SCORE_SHARE = 0.01

#: Tolerance for rounding errors. A distance counts as smaller only if the relative difference exceeds it.
_ROUNDING = 1e-5


@helper
def candidate_row(j: int, n: int) -> int:
    """Return the row number of candidate j in the array of all items of a window with n constraints."""
    return 3 * j + 1 if j < n else 3 * (j - n) + 2


@helper
def mark_eligible(items: Floats, eligible: Flags) -> None:
    """Mark the eligible candidates of each constraint: the candidates that its similar pair is compared with.

    The positive and the negative of a constraint are eligible. Any other candidate is eligible if its features
    differ from those of the anchor and of the positive.
    """
    n = len(eligible)
    for i in range(n):
        for j in range(2 * n):
            y = items[candidate_row(j, n)]
            own = j == i or j == n + i
            eligible[i, j] = own or (_differ(y, items[3 * i]) and _differ(y, items[3 * i + 1]))


@helper
def _differ(x: Floats, y: Floats) -> bool:
    j = 0
    while j < x.size and x[j] == y[j]:  # ends early: different items usually differ in one of the first features
        j += 1
    return j < x.size


@helper
def measure_candidates(vectors: Floats, distances: Doubles) -> None:
    """Write the squared distances from the anchor and the positive of every constraint to every candidate."""
    n = len(vectors) // 3
    for end in range(2):
        for i in range(n):
            x = vectors[3 * i + end]
            for j in range(2 * n):
                y = vectors[candidate_row(j, n) if j != i else 3 * i + 1 - end]
                total = vectors.dtype.type(0)
                for q in range(x.size):
                    total += (x[q] - y[q]) * (x[q] - y[q])
                distances[end, i, j] = float(total)


@helper
def _score_pairs(distances: Doubles, space: int, scale: float, eligible: Flags, scores: Doubles) -> None:
    """Write the score of each similar pair to ``scores``.

    The score is 1 / (1 + s / 0.01), where s is the share of eligible distances that are smaller than the pair's
    distance.

    If ``space`` is 0 (the unlearned space), the function uses the distances in the unlearned space times ``scale``.
    For any other space, it uses the sum of these scaled distances and the distances in ``space``.
    """
    n = len(eligible)
    combined = np.zeros((2, n, 2 * n))
    for end in range(2):
        for i in range(n):
            for j in range(2 * n):
                combined[end, i, j] = scale * distances[0, end, i, j]
                if space:
                    combined[end, i, j] += distances[space, end, i, j]
    own = np.zeros(n)
    smaller = np.zeros(n, np.int64)
    for i in range(n):
        own[i] = (1.0 - _ROUNDING) * combined[0, i, i]
    total = 0
    for i in range(n):
        for j in range(2 * n):
            if eligible[i, j] and j != i:
                total += 2
                for end in range(2):
                    other = combined[end, i, j]
                    for k in range(n):
                        smaller[k] += other < own[k]
    for i in range(n):
        scores[i] = 1.0 / (1.0 + smaller[i] / (_HALF_SCORE_SHARE * total))


@helper
def add_evidence(distances: Doubles, eligible: Flags, scale: float, n_seen: float, evidence: Doubles) -> None:
    """Add the gains of each space over the unlearned space to ``evidence``, and also the squares of the gains.

    ``evidence`` has two rows, the sum of the gains and the sum of their squares, and one column per space. Column 0
    belongs to the unlearned space, which has no gain over itself. In this column, the gain of a triplet is 0.5 if
    the unlearned space orders the triplet correctly, and -0.5 if not.

    Both sums decay, so that new constraints have more weight than old constraints. After n constraints, with n from
    about 2,000 to 20,000, constraint n / 2 has about a quarter of the weight of the newest constraint. On longer
    streams, the weight of a constraint falls by a factor of e with every 10,000 later constraints.
    """
    n = len(eligible)
    unlearned, scores = np.zeros(n), np.zeros(n)
    for space in range(len(distances)):
        _score_pairs(distances, space, scale, eligible, scores)
        for i in range(n):
            keep = 1.0 - 1.0 / min(100.0 + 0.5 * (n_seen - n + i), 10_000.0)
            if space:
                gain = scores[i] - unlearned[i]
            else:
                unlearned[i] = scores[i]
                gain = 0.5 if distances[0, 0, i, i] < distances[0, 0, i, n + i] else -0.5
            evidence[GAINS, space] = keep * evidence[GAINS, space] + gain
            evidence[SQUARES, space] = keep * evidence[SQUARES, space] + gain * gain
