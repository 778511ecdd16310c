"""A history of limited size: the experts' losses and weights at evenly spaced rounds of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CAPACITY", "N_ROUNDS", "N_STORED", "STRIDE", "History", "empty_history", "record_round"]

Floats = NDArray[np.float64]

#: The largest number of rounds that a history stores.
CAPACITY: Final = 1024

#: The entries of `History.counters`: the number of rounds, the stride, and the number of stored rounds.
N_ROUNDS: Final = 0
STRIDE: Final = 1
N_STORED: Final = 2


@dataclass(frozen=True)
class History:
    """The cumulative losses and the weights of the experts at evenly spaced rounds. A round is one triplet.

    Every ``stride``-th round is stored. When the capacity is exceeded, every second stored round is dropped and the
    stride is doubled. The stored rounds depend only on the total number of rounds, not on how the stream was split
    into calls.

    Attributes
    ----------
    counters : ndarray of int64, of shape (3,)
        The number of rounds (at index `N_ROUNDS`), the stride (at `STRIDE`) and the number of stored rounds (at
        `N_STORED`).
    running : ndarray of shape (n_experts,)
        The sum of each expert's losses over all rounds.
    totals : ndarray of shape (capacity + 1, n_experts)
        The sum of each expert's losses up to each stored round.
    weights : ndarray of shape (capacity + 1, n_experts)
        The weights of the experts after each stored round.
    """

    counters: NDArray[np.int64]
    running: Floats
    totals: Floats
    weights: Floats

    @property
    def stride(self) -> int:
        return int(self.counters[STRIDE])

    @property
    def n_stored(self) -> int:
        return int(self.counters[N_STORED])

    @property
    def rounds(self) -> NDArray[np.int64]:
        """The numbers of the stored rounds, counted from 1."""
        return self.stride * np.arange(1, self.n_stored + 1)

    @property
    def losses(self) -> Floats:
        """Each expert's mean loss since the previous stored round, of shape (n_stored, n_experts)."""
        first = np.zeros((1, len(self.running)))
        return np.diff(self.totals[: self.n_stored], axis=0, prepend=first) / self.stride

    @property
    def stored_weights(self) -> Floats:
        """A copy of the weights after each stored round, of shape (n_stored, n_experts)."""
        return self.weights[: self.n_stored].copy()

    def check(self) -> None:
        """Raise ValueError if the counters are inconsistent."""
        n_rounds, stride, n_stored = self.counters.tolist()
        if n_rounds < 0 or stride < 1 or n_stored != n_rounds // stride or n_stored >= len(self.totals):
            raise ValueError(
                f"a history of {n_rounds} rounds with {n_stored} stored rounds is inconsistent with a stride of "
                f"{stride} and a capacity of {len(self.totals) - 1}"
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
    """Add a round to the arrays of a `History`.

    ``loss`` contains the experts' losses in the round. ``weight`` contains the experts' weights after the round.
    Both have shape (n_experts,).
    """
    counters[N_ROUNDS] += 1
    for i in range(running.shape[0]):
        running[i] += loss[i]
    if counters[N_ROUNDS] % counters[STRIDE] != 0:
        return
    n = counters[N_STORED]
    for i in range(running.shape[0]):
        totals[n, i] = running[i]
        weights[n, i] = weight[i]
    counters[N_STORED] = n + 1
    if counters[N_STORED] == totals.shape[0]:  # one more than the capacity
        half = counters[N_STORED] // 2
        for k in range(half):
            for i in range(running.shape[0]):
                totals[k, i] = totals[2 * k + 1, i]
                weights[k, i] = weights[2 * k + 1, i]
        counters[STRIDE] *= 2
        counters[N_STORED] = half
