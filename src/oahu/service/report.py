"""The report: whether learning improves search, estimated from the clicks of the users.

Each query counts once: the values of a repeated query are averaged first. The intervals of means are Student t
intervals over queries. The intervals of shares are Wilson intervals. Both have the level 95 %.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["MIN_QUERIES", "Comparison", "Estimate", "Ordering", "Section", "Wins", "section_of"]

#: Number of different queries that an estimate needs.
MIN_QUERIES: Final = 30
_LEVEL: Final = 0.95

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float


class Wins(NamedTuple):
    """The numbers of queries for which users marked more results of one ranking than of the other.

    ``share`` is the share of wins of the learned ranking among the queries without ties, or None if there are only
    ties.
    """

    learned: int
    unlearned: int
    ties: int
    share: Estimate | None


class Comparison(NamedTuple):
    """The comparison of both rankings in interleaved searches. ``depth`` is the mean depth of the precisions."""

    depth: float
    precision_before: Estimate
    precision_now: Estimate
    improvement: Estimate
    better: Estimate
    worse: Estimate
    wins: Wins


class Ordering(NamedTuple):
    """The share of correctly ordered pairs of each click, before the click was learned."""

    before: Estimate
    now: Estimate
    improvement: Estimate


class Section(NamedTuple):
    """The estimates of one set of clicks.

    An estimate is None if there are fewer than `MIN_QUERIES` different queries.

    Attributes
    ----------
    searches, interleaved, clicks : int
        The numbers of searches with clicks, of interleaved searches with clicks, and of clicks with marks that can
        be ordered.
    missing : int
        The number of different queries with clicks on interleaved searches that the comparison still needs.
    shown_precision : Estimate or None
        The precision of the shown lists of searches that use the learned metric and are not interleaved.
    """

    searches: int
    interleaved: int
    clicks: int
    missing: int
    shown_precision: Estimate | None
    comparison: Comparison | None
    ordering: Ordering | None


def section_of(outcomes: NDArray[Any], orderings: NDArray[Any]) -> Section:
    """Return the estimates from rows of outcomes (see `OUTCOME`) and of orderings (see `ORDERING`)."""
    drafted = outcomes[outcomes["depth"] > 0]
    served = outcomes[(outcomes["depth"] == 0) & (outcomes["served"] > 0) & (outcomes["shown"] > 0)]
    n_queries = len(np.unique(drafted["query"]))
    return Section(
        searches=len(outcomes),
        interleaved=len(drafted),
        clicks=len(orderings),
        missing=max(0, MIN_QUERIES - n_queries),
        shown_precision=_mean_if_enough(_by_query(served["query"], served["alike"] / served["shown"])),
        comparison=_compare(drafted) if n_queries >= MIN_QUERIES else None,
        ordering=_order(orderings),
    )


def _compare(rows: NDArray[Any]) -> Comparison:
    now, before = (_by_query(rows["query"], rows[name] / rows["depth"]) for name in ("learned", "unlearned"))
    credit = _by_query(rows["query"], rows["learned_credit"].astype(float) - rows["unlearned_credit"])
    learned, unlearned = int((credit > 0).sum()), int((credit < 0).sum())
    share = _share(learned, learned + unlearned) if learned + unlearned else None
    n = len(now)
    return Comparison(
        depth=float(rows["depth"].mean()),
        precision_before=_mean(before),
        precision_now=_mean(now),
        improvement=_mean(now - before, lowest=-1.0),
        better=_share(int((now > before).sum()), n),
        worse=_share(int((now < before).sum()), n),
        wins=Wins(learned, unlearned, n - learned - unlearned, share),
    )


def _order(rows: NDArray[Any]) -> Ordering | None:
    before, now = (_by_query(rows["query"], rows[name].astype(float)) for name in ("unlearned", "learned"))
    if len(before) < MIN_QUERIES:
        return None
    return Ordering(_mean(before), _mean(now), _mean(now - before, lowest=-1.0))


def _by_query(queries: NDArray[np.int64], values: Floats) -> Floats:
    """Return the mean value of each query."""
    _, at = np.unique(queries, return_inverse=True)
    counts = np.bincount(at)
    return np.bincount(at, values, minlength=len(counts)) / counts


def _mean_if_enough(values: Floats) -> Estimate | None:
    return _mean(values) if len(values) >= MIN_QUERIES else None


def _mean(values: Floats, lowest: float = 0.0) -> Estimate:
    """Return the mean of values between ``lowest`` and 1, with its t interval.

    If all values are equal, the t interval would have no width. Then a share of the queries may differ, as large as
    a Wilson interval for 0 of n allows.
    """
    mean = float(values.mean())
    if np.ptp(values) > 1e-9:
        low, high = stats.ttest_1samp(values, 0.0).confidence_interval(_LEVEL)
        return Estimate(mean, max(lowest, float(low)), min(1.0, float(high)))
    other = _share(0, len(values)).high
    return Estimate(mean, mean + other * (lowest - mean), mean + other * (1.0 - mean))


def _share(count: int, n: int) -> Estimate:
    low, high = stats.binomtest(count, n).proportion_ci(_LEVEL, method="wilson")
    return Estimate(count / n, float(low), float(high))
