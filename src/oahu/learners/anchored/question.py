"""The local question about a window, and what the answers are worth, compiled.

Row 3 i + k of a window is the anchor, the positive or the negative, k = 0, 1, 2, of its i-th constraint. Candidate
j is the positive of constraint j, candidate n + j its negative. ``apart[end, i, j]`` is how far the anchor (end 0)
or the positive (end 1) of constraint i is from candidate j, squared, and for j = i from its other end. The
question: where is the pair that is known to be similar, apart[:, i, i], among the n * (4 n - 2) others?
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel

__all__ = ["measure", "row_of", "weigh", "which_count"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

#: The share of all distances that near ones are among: there a pair's answer is 1/2.
_LOCAL = 0.01

#: A distance is only smaller than another if it is by more than this share: equal items are not equal to the bit.
_ROUNDING = 1e-5


@kernel
def row_of(j: int, n: int) -> int:
    """The row of candidate j in a window of n constraints."""
    return 3 * j + 1 if j < n else 3 * (j - n) + 2


@kernel
def which_count(items: Floats, open_to: Flags) -> None:
    """A candidate that is the anchor or the positive of a constraint does not count in it, but for its own."""
    n = len(open_to)
    for i in range(n):
        for j in range(2 * n):
            y = items[row_of(j, n)]
            own = j == i or j == n + i
            open_to[i, j] = own or (_differ(y, items[3 * i]) and _differ(y, items[3 * i + 1]))


@kernel
def _differ(x: Floats, y: Floats) -> bool:
    j = 0
    while j < x.size and x[j] == y[j]:  # items that differ do so early
        j += 1
    return j < x.size


@kernel
def measure(vectors: Floats, apart: Doubles) -> None:
    """Squared distances of both ends of every pair to every candidate."""
    n = len(vectors) // 3
    for end in range(2):
        for i in range(n):
            x = vectors[3 * i + end]
            for j in range(2 * n):
                y = vectors[row_of(j, n) if j != i else 3 * i + 1 - end]
                total = vectors.dtype.type(0)
                for q in range(x.size):
                    total += (x[q] - y[q]) * (x[q] - y[q])
                apart[end, i, j] = float(total)


@kernel
def _together(apart: Doubles, space: int, scale: float, both: Doubles) -> None:
    """Squared distances in the unlearned space, with another one's beside them unless ``space`` is 0."""
    for end in range(2):
        for i in range(both.shape[1]):
            for j in range(both.shape[2]):
                both[end, i, j] = scale * apart[0, end, i, j]
                if space:
                    both[end, i, j] += apart[space, end, i, j]


@kernel
def _answer(both: Doubles, open_to: Flags, answers: Doubles) -> None:
    """1 / (1 + how many distances are smaller than the pair's, over 1 % of how many there are), of each pair."""
    n = len(open_to)
    near = np.empty(n)
    before = np.zeros(n, np.int64)
    for i in range(n):
        near[i] = (1.0 - _ROUNDING) * both[0, i, i]
    total = 0
    for i in range(n):
        for j in range(2 * n):
            if open_to[i, j] and j != i:
                total += 2
                for end in range(2):
                    far = both[end, i, j]
                    for k in range(n):
                        before[k] += far < near[k]
    for i in range(n):
        answers[i] = 1.0 / (1.0 + before[i] / (_LOCAL * total))


@kernel
def weigh(apart: Doubles, open_to: Flags, scale: float, seen: float, evidence: Doubles) -> None:
    """Row 0 of ``evidence`` sums what each space added to the unlearned one's answers, row 1 the squares of it.

    Column 0 is about the feedback itself: does the unlearned space order its triplets as it says? What came in the
    first half of the stream counts less, and what came 10,000 constraints ago hardly.
    """
    n = len(open_to)
    both = np.empty((2, n, 2 * n))
    unlearned, answers = np.empty(n), np.empty(n)
    _together(apart, 0, scale, both)
    _answer(both, open_to, unlearned)
    for space in range(len(apart)):
        if space:
            _together(apart, space, scale, both)
            _answer(both, open_to, answers)
        for i in range(n):
            keep = 1.0 - 1.0 / min(100.0 + 0.5 * (seen - n + i), 10_000.0)
            if space:
                gain = answers[i] - unlearned[i]
            else:
                gain = 0.5 if apart[0, 0, i, i] < apart[0, 0, i, n + i] else -0.5
            evidence[0, space] = keep * evidence[0, space] + gain
            evidence[1, space] = keep * evidence[1, space] + gain * gain
