"""The guard: decides from the outcomes of interleaved searches whether searches use the learned metric.

The guard looks at the results after every click. A test for a fixed number of clicks would give a false alarm
sooner or later. The guard therefore uses a sequential test by betting. For each interleaved search, d is the
difference of the precisions of the two rankings, in [-1, 1]. The evidence that the metric in use is worse starts
at 1 and is multiplied by 1 + b d, where d is positive if the other metric was better and b is a fixed bet. The
evidence of each bet is at least 1 before each search: this is a CUSUM, which notices a metric that becomes worse
after a good start. The evidence of the test is the mean over the bets.

If the metric in use is not worse than the other, the expected value of each factor is at most 1. The mean number of
interleaved searches until a false alarm is then at least `THRESHOLD` (Shin, Ramdas and Rinaldo, "E-detectors: a
nonparametric framework for sequential change detection", 2023).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

__all__ = ["BETS", "THRESHOLD", "Guard", "GuardState", "Switch"]

#: The evidence from which the searches use the other metric.
THRESHOLD: Final = 1_000.0
BETS: Final = (0.1, 0.25, 0.5, 0.9)
_CHECKPOINT: Final = 1_000  # searches between two stored states


class Switch(NamedTuple):
    """A change of the metric that searches use, after the click with the sequence number ``seq``."""

    seq: int
    factor: float


class GuardState(NamedTuple):
    """The decision after some interleaved searches.

    Attributes
    ----------
    factor : float
        1 if searches use the learned metric, 0 if they use the unlearned metric.
    evidences : tuple of float
        The evidence of each bet that the metric in use is worse than the other metric.
    switches : tuple of Switch
        The last ten changes of the factor.
    n : int
        The number of interleaved searches.
    """

    factor: float = 1.0
    evidences: tuple[float, ...] = (1.0,) * len(BETS)
    switches: tuple[Switch, ...] = ()
    n: int = 0

    @property
    def evidence(self) -> float:
        """The mean of the evidences."""
        return sum(self.evidences) / len(BETS)

    def after(self, seq: int, difference: float) -> GuardState:
        """Return the state after one more search. ``difference`` is the precision learned minus unlearned."""
        loss = -difference if self.factor else difference
        evidences = tuple(max(1.0, e) * (1 + b * loss) for e, b in zip(self.evidences, BETS, strict=True))
        state = self._replace(evidences=evidences, n=self.n + 1)
        if state.evidence < THRESHOLD:
            return state
        factor = 1.0 - self.factor
        switches = (*self.switches, Switch(seq, factor))[-10:]
        return GuardState(factor, switches=switches, n=state.n)


class Guard:
    """The state of the guard after all interleaved searches. It depends only on the rows of the outcomes.

    Attributes
    ----------
    state : GuardState
    """

    def __init__(self) -> None:
        self.state = GuardState()
        self._checkpoints: list[tuple[int, GuardState]] = []  # number of rows, and the state after them
        self._n_rows = 0

    def update(self, rows: NDArray[Any], changed: int) -> None:
        """Include all rows of the outcomes. ``changed`` is the index of the first new or changed row."""
        if changed < self._n_rows:
            while self._checkpoints and self._checkpoints[-1][0] > changed:
                self._checkpoints.pop()
            self._n_rows, self.state = self._checkpoints[-1] if self._checkpoints else (0, GuardState())
        for start in range(self._n_rows, len(rows), _CHECKPOINT):
            for row in _interleaved(rows[start : start + _CHECKPOINT]):
                self.state = self.state.after(*row)
            self._n_rows = min(start + _CHECKPOINT, len(rows))
            if not self._checkpoints or self._n_rows >= self._checkpoints[-1][0] + _CHECKPOINT:
                self._checkpoints.append((self._n_rows, self.state))
        self._n_rows = len(rows)


def _interleaved(rows: NDArray[Any]) -> Iterable[tuple[int, float]]:
    """Return the sequence number and the difference of the precisions of each interleaved search."""
    rows = rows[rows["depth"] > 0]
    differences = (rows["learned"] - rows["unlearned"]) / rows["depth"]
    return zip(rows["seq"].tolist(), differences.tolist(), strict=True)
