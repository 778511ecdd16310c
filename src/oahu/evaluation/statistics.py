"""Statistics of repeated runs: mean, standard deviation, and significance tests between two methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import copysign, inf, isfinite, nan
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["Better", "SignificanceTest", "Summary", "Verdict", "WinTieLoss", "compare_runs"]

Better = Literal["lower", "higher"]
Verdict = Literal["win", "tie", "loss"]
Floats = NDArray[np.float64]

_ROUNDING: Final = 1e-12  # differences below this, relative to the values, are rounding errors


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of the runs of one method.

    Attributes
    ----------
    mean : float
        Mean of the runs. NaN if there is no run.
    std : float
        Sample standard deviation of the runs (with denominator n - 1). NaN if there are fewer than two runs.
    n : int
        Number of runs with a finite value.

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
        """Return the summary of the finite values. Other values are ignored."""
        finite = _finite(values)
        n = len(finite)
        return cls(float(finite.mean()) if n else nan, float(finite.std(ddof=1)) if n > 1 else nan, n)


@dataclass(frozen=True)
class SignificanceTest:
    """A Student's t-test of the reference method against another method.

    Attributes
    ----------
    reference, other : Summary
        Summaries of the runs of the reference method and of the other method.
    t : float
        Test statistic. It is positive if the reference method has the greater mean. NaN if there are too few runs
        for a test: a test needs at least two runs of each method.
    p : float
        Two-sided p-value. NaN if there are too few runs for a test.
    verdict : {"win", "tie", "loss"} or None
        Result for the reference method. None if there are too few runs for a test.
    """

    reference: Summary
    other: Summary
    t: float
    p: float
    verdict: Verdict | None

    @property
    def mark(self) -> str:
        """Mark of the verdict, as in the paper: • for a win, ∘ for a loss, "" for a tie or no test."""
        return {"win": "•", "loss": "∘"}.get(self.verdict or "", "")


def compare_runs(
    reference: Sequence[float],
    other: Sequence[float],
    alpha: float = 0.05,
    better: Better = "lower",
    paired: bool = False,
) -> SignificanceTest:
    """Test whether the mean scores of two methods differ significantly.

    The test is Student's t-test for two samples with a pooled variance, as in the paper. Runs without a finite
    value are ignored.

    Parameters
    ----------
    reference, other : sequences of float
        Scores of the reference method and of the other method, one score per run.
    alpha : float in (0, 1)
        Significance level. A difference is significant if the p-value is below ``alpha``.
    better : {"lower", "higher"}
        Whether lower or higher scores are better.
    paired : bool
        Whether to use the paired t-test instead. The paired test is more powerful if both methods used the same
        splits. For the paired test, ``reference[i]`` and ``other[i]`` must be scores of the same run.

    Examples
    --------
    >>> compare_runs([0.18, 0.19, 0.17], [0.22, 0.21, 0.23]).verdict
    'win'
    >>> compare_runs([0.18, 0.19, 0.17], [0.18, 0.16, 0.20]).verdict
    'tie'
    """
    if not 0 < alpha < 1:
        raise InvalidInputError(f"'alpha' must be in (0, 1). Got {shorten(alpha)} instead.")
    if better not in ("lower", "higher"):
        raise InvalidInputError(f"'better' must be 'lower' or 'higher'. Got {shorten(better)} instead.")
    first, second = _finite_pairs(reference, other) if paired else (_finite(reference), _finite(other))
    summaries = Summary.of(first), Summary.of(second)
    if min(len(first), len(second)) < 2:
        return SignificanceTest(*summaries, t=nan, p=nan, verdict=None)
    t, p = _t_test(first, second, paired)
    verdict: Verdict = "tie" if p >= alpha else "win" if (t < 0) == (better == "lower") else "loss"
    return SignificanceTest(*summaries, t=t, p=p, verdict=verdict)


@dataclass(frozen=True)
class WinTieLoss:
    """Numbers of the reference method's wins, ties and losses, and of comparisons without a test (``untested``)."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    untested: int = 0

    @classmethod
    def of(cls, tests: Iterable[SignificanceTest]) -> Self:
        """Return the numbers of wins, ties and losses in the tests."""
        verdicts = [test.verdict for test in tests]
        return cls(*(verdicts.count(verdict) for verdict in ("win", "tie", "loss", None)))

    def __str__(self) -> str:
        return f"{self.wins}/{self.ties}/{self.losses}"


def _t_test(first: Floats, second: Floats, paired: bool) -> tuple[float, float]:
    """Return the test statistic and the p-value.

    If the values do not vary, scipy's result would depend on rounding errors. In this case, the result is computed
    without scipy.
    """
    difference = float(first.mean() - second.mean())
    rounding = _ROUNDING * float(max(np.abs(first).max(), np.abs(second).max()))
    if abs(difference) <= rounding:
        return 0.0, 1.0
    spreads = [first - second] if paired else [first, second]
    if max(float(np.ptp(values)) for values in spreads) <= rounding:
        return copysign(inf, difference), 0.0
    if paired:
        result: Any = stats.ttest_rel(first, second)
    else:  # `ttest_ind` would warn about a constant sample
        samples = ((sample.mean(), sample.std(ddof=1), len(sample)) for sample in (first, second))
        result = stats.ttest_ind_from_stats(*next(samples), *next(samples))
    return float(result.statistic), float(result.pvalue)


def _finite(values: Iterable[float]) -> Floats:
    return np.array([value for value in values if isfinite(value)], dtype=np.float64)


def _finite_pairs(reference: Sequence[float], other: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the values of both methods in the runs in which both values are finite."""
    if len(reference) != len(other):
        raise InvalidInputError(
            "A paired test needs one value of both methods for each run. "
            f"Got {len(reference)} and {len(other)} values instead."
        )
    both = [pair for pair in zip(reference, other, strict=True) if all(map(isfinite, pair))]
    first, second = np.array(both, dtype=np.float64).reshape(-1, 2).T
    return first, second
