"""The estimates of the report from rows of outcomes and orderings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oahu.service.live_measurement import ORDERING
from oahu.service.outcomes import OUTCOME
from oahu.service.report import MIN_QUERIES, section_of

NO_ORDERINGS = np.empty(0, ORDERING)


def interleaved(learned: Any, unlearned: Any, queries: Any = None) -> Any:
    """Return outcomes of interleaved searches. The rankings contribute what they have among their best ten."""
    made = np.zeros(len(learned), OUTCOME)
    made["seq"] = np.arange(1, len(made) + 1)
    made["query"] = made["seq"] if queries is None else queries
    made["shown"], made["depth"] = 20, 10
    made["learned"] = made["learned_credit"] = learned
    made["unlearned"] = made["unlearned_credit"] = unlearned
    return made


def test_the_interval_of_the_improvement_contains_the_truth_in_95_percent_of_runs() -> None:
    rng = np.random.default_rng(0)
    n_covered = 0
    for _ in range(400):
        made = interleaved(rng.binomial(10, 0.6, 40), rng.binomial(10, 0.5, 40))
        estimate = section_of(made, NO_ORDERINGS).comparison.improvement  # type: ignore[union-attr]
        n_covered += estimate.low <= 0.1 <= estimate.high
    assert 400 * 0.92 <= n_covered <= 400 * 0.98


def test_the_comparison_counts_queries() -> None:
    section = section_of(interleaved([5] * 20 + [2] * 10 + [3] * 10, [3] * 40), NO_ORDERINGS)
    found = section.comparison
    assert found is not None
    assert (found.better.value, found.worse.value) == (0.5, 0.25)
    assert (found.wins.learned, found.wins.unlearned, found.wins.ties) == (20, 10, 10)
    assert found.wins.share is not None
    assert found.wins.share.value == pytest.approx(2 / 3)
    assert found.wins.share.low < 2 / 3 < found.wins.share.high
    assert found.improvement.value == pytest.approx(found.precision_now.value - found.precision_before.value)


def test_a_repeated_query_counts_once() -> None:
    """A thousand clicks on one query change the estimate like one click, and the interval does not shrink."""
    once = section_of(interleaved([5, *[3] * 39], [0, *[3] * 39]), NO_ORDERINGS)
    queries = [1] * 1_000 + list(range(2, 41))
    often = section_of(interleaved([5] * 1_000 + [3] * 39, [0] * 1_000 + [3] * 39, queries), NO_ORDERINGS)
    assert often.comparison == once.comparison


def test_too_few_queries_are_reported_as_missing() -> None:
    section = section_of(interleaved([5] * 100, [3] * 100, [1, 2, 3, 4] * 25), NO_ORDERINGS)
    assert (section.interleaved, section.missing, section.comparison) == (100, MIN_QUERIES - 4, None)


def test_nothing_is_missing_only_with_a_comparison() -> None:
    for n in (0, MIN_QUERIES - 1, MIN_QUERIES):
        section = section_of(interleaved([1] * n, [0] * n), NO_ORDERINGS)
        assert (section.missing == 0) == (section.comparison is not None)


def test_equal_values_have_an_interval_with_a_width() -> None:
    improvement = section_of(interleaved([3] * 30, [3] * 30), NO_ORDERINGS).comparison.improvement  # type: ignore[union-attr]
    assert improvement.low < 0 < improvement.high


def test_only_ties_have_no_share_of_wins() -> None:
    wins = section_of(interleaved([3] * 30, [3] * 30), NO_ORDERINGS).comparison.wins  # type: ignore[union-attr]
    assert (wins.ties, wins.share) == (30, None)


def test_the_shown_precision_is_that_of_lists_of_the_learned_ranking() -> None:
    made = np.zeros(60, OUTCOME)
    made["seq"] = made["query"] = np.arange(60)
    made["shown"], made["alike"] = 10, 4
    made["served"][:30] = 1
    made["alike"][:30] = 7
    found = section_of(made, NO_ORDERINGS).shown_precision
    assert found is not None
    assert found.value == pytest.approx(0.7)


def test_orderings_are_compared() -> None:
    made = np.zeros(30, ORDERING)
    made["query"] = np.arange(30)
    made["learned"], made["unlearned"] = 0.75, 0.5
    found = section_of(np.empty(0, OUTCOME), made).ordering
    assert found is not None
    assert (found.before.value, found.now.value, found.improvement.value) == (0.5, 0.75, 0.25)
