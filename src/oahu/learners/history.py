"""What a stream looked like, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["History"]

Floats = NDArray[np.float64]


@dataclass
class History:
    """The experts' cumulative losses and weights, at evenly spaced rounds.

    It keeps every ``stride``-th round, and when there would be more than ``capacity`` of them it keeps every
    second and doubles the stride. What is kept depends on how many rounds there were, never on how they came.

    >>> history = History.empty(n_experts=1, capacity=4)
    >>> for t in range(10):
    ...     history.record(np.array([[t]]), np.array([[1.0]]))
    >>> history.rounds, history.losses.ravel()
    (array([4, 8]), array([1.5, 5.5]))
    """

    capacity: int
    n_rounds: int
    stride: int
    running: Floats  # (n_experts,): each expert's losses so far, summed
    totals: Floats = field(repr=False)  # (n_kept, n_experts): the same sums at the kept rounds
    weights: Floats = field(repr=False)  # (n_kept, n_experts): the weights after the kept rounds

    def __post_init__(self) -> None:
        sizes = {len(self.totals), len(self.weights), self.n_rounds // max(self.stride, 1)}
        if self.stride < 1 or len(sizes) > 1 or not 0 <= len(self.totals) <= self.capacity:
            raise ValueError(
                f"a history of {self.n_rounds} rounds, {len(self.totals)} and {len(self.weights)} of them kept, "
                f"does not fit a stride of {self.stride} and a capacity of {self.capacity}"
            )

    @classmethod
    def empty(cls, n_experts: int, capacity: int = 1024) -> Self:
        return cls(capacity, 0, 1, np.zeros(n_experts), np.empty((0, n_experts)), np.empty((0, n_experts)))

    @property
    def rounds(self) -> NDArray[np.int64]:
        """The rounds kept, counted from 1."""
        return self.stride * np.arange(1, len(self.totals) + 1)

    @property
    def losses(self) -> Floats:
        """Each expert's mean loss over the rounds since the one kept before, (n_kept, n_experts)."""
        first = np.zeros((1, len(self.running)))
        return np.diff(self.totals, axis=0, prepend=first) / self.stride

    def record(self, losses: Floats, weights: Floats) -> None:
        """Add rounds, in order: their losses and the weights after them, (n, n_experts) both."""
        n = len(losses)
        totals = np.cumsum(np.vstack([self.running, losses]), axis=0)[1:]
        kept = (self.n_rounds + 1 + np.arange(n)) % self.stride == 0
        self.n_rounds += n
        self.running = totals[-1]
        if kept.any():
            self.totals = np.vstack([self.totals, totals[kept]])
            self.weights = np.vstack([self.weights, weights[kept]])
        while len(self.totals) > self.capacity:
            self.totals, self.weights = self.totals[1::2], self.weights[1::2]
            self.stride *= 2

    def copy(self) -> Self:
        """A history of its own; the arrays are replaced, never written to, so they can be shared."""
        return type(self)(self.capacity, self.n_rounds, self.stride, self.running, self.totals, self.weights)
