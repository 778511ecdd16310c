"""The local question about a window, and what the answers are worth, compiled.

Row 3 i + k of a window is the anchor, the positive or the negative, k = 0, 1, 2, of its i-th constraint. Candidate
j is the positive of constraint j, candidate n + j its negative. The pair of constraint i looks for each other among
them: ``apart[end, i, j]`` is how far its anchor (end 0) or its positive (end 1) is from candidate j, squared, and
for j = i from its other end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel

__all__ = ["measure", "row_of", "weigh", "which_count"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
def weigh(apart: Doubles, open_to: Flags, scale: float, seen: float, evidence: Doubles) -> None:
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
