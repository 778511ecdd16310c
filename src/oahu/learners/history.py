"""A bounded record of a stream: the experts' losses and weights at evenly spaced rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAPACITY", "History", "empty_history", "record_round"]

Floats = NDArray[np.float64]

#: The most rounds that a history stores.
CAPACITY: Final = 1024


@dataclass(frozen=True)
class History:
    """The experts' cumulative losses and weights, at evenly spaced rounds.

    Every ``stride``-th round is stored. When more than the capacity would be stored, every second one is dropped
    and the stride is doubled. The result depends on the number of rounds, not on how they were split into calls.

    Attributes
    ----------
    counters : ndarray of int64, of shape (3,)
        The number of rounds, the stride, and the number of stored rounds.
    running : ndarray of shape (n_experts,)
        Each expert's sum of losses so far.
    totals : ndarray of shape (capacity + 1, n_experts)
        The same sums at the stored rounds.
    weights : ndarray of shape (capacity + 1, n_experts)
        The weights after the stored rounds.
    """

    counters: NDArray[np.int64]
    running: Floats
    totals: Floats
    weights: Floats

    @property
    def stride(self) -> int:
        return int(self.counters[1])

    @property
    def n_stored(self) -> int:
        return int(self.counters[2])

    @property
    def rounds(self) -> NDArray[np.int64]:
        """The stored rounds, counted from 1."""
        return self.stride * np.arange(1, self.n_stored + 1)

    @property
    def losses(self) -> Floats:
        """Each expert's mean loss over the rounds since the stored one before, (n_stored, n_experts)."""
        first = np.zeros((1, len(self.running)))
        return np.diff(self.totals[: self.n_stored], axis=0, prepend=first) / self.stride

    @property
    def stored_weights(self) -> Floats:
        """The weights after the stored rounds, (n_stored, n_experts), a copy."""
        return self.weights[: self.n_stored].copy()

    def check(self) -> None:
        """Raise ValueError for counters that cannot result from recording."""
        n_rounds, stride, n_stored = self.counters.tolist()
        if n_rounds < 0 or stride < 1 or n_stored != n_rounds // stride or n_stored >= len(self.totals):
            raise ValueError(
                f"a history of {n_rounds} rounds with {n_stored} of them stored does not fit a stride of {stride} "
                f"and a capacity of {len(self.totals) - 1}"
            )


def empty_history(n_experts: int, capacity: int = CAPACITY) -> History:
    """Return a history without rounds.

    >>> history = empty_history(n_experts=1, capacity=4)
    >>> for t in range(10):
    ...     record_round(*vars(history).values(), np.array([t]), np.array([1.0]))
    >>> history.rounds, history.losses.ravel()
    (array([4, 8]), array([1.5, 5.5]))
    """
    counters = np.array([0, 1, 0], np.int64)
    return History(counters, np.zeros(n_experts), *np.zeros((2, capacity + 1, n_experts)))


def record_round(
    counters: NDArray[np.int64], running: Floats, totals: Floats, weights: Floats, loss: Any, weight: Any
) -> None:
    """Add one round to the arrays of a `History`: its losses, and the weights after it, (n_experts,) both."""
    counters[0] += 1
    for i in range(running.shape[0]):
        running[i] += loss[i]
    if counters[0] % counters[1] != 0:
        return
    n = counters[2]
    for i in range(running.shape[0]):
        totals[n, i] = running[i]
        weights[n, i] = weight[i]
    counters[2] = n + 1
    if counters[2] == totals.shape[0]:  # one more than the capacity
        half = counters[2] // 2
        for k in range(half):
            for i in range(running.shape[0]):
                totals[k, i] = totals[2 * k + 1, i]
                weights[k, i] = weights[2 * k + 1, i]
        counters[1] *= 2
        counters[2] = half
