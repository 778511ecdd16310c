"""Repeated measurements: what they come to, and whether two of them differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["Better", "Comparison", "Summary", "Tally", "Verdict", "compare"]

Better = Literal["lower", "higher"]
Verdict = Literal["win", "tie", "loss"]
Floats = NDArray[np.float64]

_SAME: Final = 1e-12  # means that differ by less, relative to their size, differ by rounding only


@dataclass(frozen=True)
class Summary:
    """The mean of some runs and their spread.

    Attributes
    ----------
    mean : float
        NaN if there is nothing to average.
    std : float
        The standard deviation of a sample, with n - 1 below the line; NaN for fewer than two runs, which show no
        spread.
    n : int
        How many runs there are; those without a value do not count.

    Examples
    --------
    >>> Summary.of([1.0, 2.0, 3.0, float("nan")])
    Summary(mean=2.0, std=1.0, n=3)
    """

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        kept = _finite(values)
        n = len(kept)
        mean = float(kept.mean()) if n else nan
        return cls(mean, float(kept.std(ddof=1)) if n > 1 else nan, n)


@dataclass(frozen=True)
class Comparison:
    """OAHU against another method, by Student's t-test.

    Attributes
    ----------
    ours, theirs : Summary
        Of the runs that were compared.
    t, p : float
        The statistic, positive where ours is greater, and the two-sided p-value; NaN if there is no test.
    verdict : {"win", "tie", "loss"} or None
        Of ours; None if a side has fewer than two runs, of which nothing can be said.
    """

    ours: Summary
    theirs: Summary
    t: float
    p: float
    verdict: Verdict | None

    @property
    def mark(self) -> str:
        """As the paper has it: • where OAHU is better, ∘ where it is worse, nothing otherwise."""
        return {"win": "•", "loss": "∘"}.get(self.verdict or "", "")


def compare(
    ours: Sequence[float],
    theirs: Sequence[float],
    alpha: float = 0.05,
    better: Better = "lower",
    paired: bool = False,
) -> Comparison:
    """Whether two methods differ by more than their runs do.

    Student's t-test for two samples with a pooled variance, as the paper names it. ``paired`` compares run by run
    instead, which is the sharper test where both saw the same splits. Runs without a finite value are left out.

    Parameters
    ----------
    ours, theirs : sequences of float
        A value for each run; of equal length, and in the same order, if ``paired``.
    alpha : float in (0, 1)
        What p must be below.
    better : {"lower", "higher"}

    Examples
    --------
    >>> compare([0.18, 0.19, 0.17], [0.22, 0.21, 0.23]).verdict
    'win'
    >>> compare([0.18, 0.19, 0.17], [0.18, 0.16, 0.20]).verdict
    'tie'
    """
    if not 0 < alpha < 1:
        raise InvalidInputError(f"'alpha' must be in (0, 1). Got {shorten(alpha)} instead.")
    if better not in ("lower", "higher"):
        raise InvalidInputError(f"'better' must be 'lower' or 'higher'. Got {shorten(better)} instead.")
    one, other = _pairs(ours, theirs) if paired else (_finite(ours), _finite(theirs))
    summaries = Summary.of(one), Summary.of(other)
    if min(len(one), len(other)) < 2:
        return Comparison(*summaries, t=nan, p=nan, verdict=None)
    t, freedom = _paired(one, other) if paired else _pooled(one, other)
    p = float(2 * stdtr(freedom, -abs(t)))
    verdict: Verdict = "tie" if p >= alpha else "win" if (t < 0) == (better == "lower") else "loss"
    return Comparison(*summaries, t=t, p=p, verdict=verdict)


@dataclass(frozen=True)
class Tally:
    """How often OAHU wins, ties and loses; ``unknown`` are those that could not be tested."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    unknown: int = 0

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Self:
        verdicts = [comparison.verdict for comparison in comparisons]
        return cls(*(verdicts.count(verdict) for verdict in ("win", "tie", "loss", None)))

    def __str__(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


def _pooled(one: Floats, other: Floats) -> tuple[float, int]:
    freedom = len(one) + len(other) - 2
    squares = np.square(one - one.mean()).sum() + np.square(other - other.mean()).sum()
    error = sqrt(squares / freedom * (1 / len(one) + 1 / len(other)))
    return _statistic(one, other, error), freedom


def _paired(one: Floats, other: Floats) -> tuple[float, int]:
    return _statistic(one, other, float((one - other).std(ddof=1)) / sqrt(len(one))), len(one) - 1


def _statistic(one: Floats, other: Floats, error: float) -> float:
    """The difference in standard errors; none if it is rounding, endless if there is no spread at all."""
    difference, size = float(one.mean() - other.mean()), float(max(np.abs(one).max(), np.abs(other).max()))
    if abs(difference) <= _SAME * size:
        return 0.0
    return difference / error if error > _SAME * size else inf * difference


def _finite(values: Iterable[float]) -> Floats:
    return np.array([value for value in values if isfinite(value)], dtype=np.float64)


def _pairs(ours: Sequence[float], theirs: Sequence[float]) -> tuple[Floats, Floats]:
    if len(ours) != len(theirs):
        raise InvalidInputError(
            f"A paired test needs a value of both for each run. Got {len(ours)} and {len(theirs)} values."
        )
    both = [pair for pair in zip(ours, theirs, strict=True) if all(map(isfinite, pair))]
    one, other = np.array(both, dtype=np.float64).reshape(-1, 2).T
    return one, other
