"""Tests of summaries and of Student's t-test."""

from __future__ import annotations

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from oahu.evaluation.statistics import SignificanceTest, Summary, WinTieLoss, compare_runs
from oahu.exceptions import InvalidInputError

RATES = st.floats(0.0, 1.0, allow_subnormal=False)
RUNS = st.lists(RATES, min_size=2, max_size=12)
REFERENCE, OTHER = [0.18, 0.19, 0.17, 0.185], [0.22, 0.21, 0.23, 0.20]


def test_summary_matches_a_hand_calculation() -> None:
    summary = Summary.of([1.0, 2.0, 4.0, 5.0])
    assert summary.mean == 3.0
    assert summary.std == pytest.approx(sqrt((4 + 1 + 1 + 4) / 3))
    assert summary.n == 4


def test_std_of_one_run_is_nan() -> None:
    summary = Summary.of([0.5])
    assert (summary.mean, summary.n) == (0.5, 1)
    assert isnan(summary.std)


@pytest.mark.parametrize("values", [[], [nan], [nan, inf]])
def test_mean_of_no_finite_value_is_nan(values: list[float]) -> None:
    summary = Summary.of(values)
    assert summary.n == 0
    assert isnan(summary.mean)
    assert isnan(summary.std)


def test_values_that_are_not_finite_are_ignored() -> None:
    assert Summary.of([nan, 1.0, 3.0]) == Summary.of([1.0, 3.0])


def test_pooled_test_matches_scipy() -> None:
    test = compare_runs(REFERENCE, OTHER)
    expected = stats.ttest_ind(REFERENCE, OTHER)
    assert test.t == pytest.approx(expected.statistic)
    assert test.p == pytest.approx(expected.pvalue)
    assert test.verdict == "win"


def test_pooled_test_matches_the_closed_form() -> None:
    one, other = [1.0, 2.0, 3.0], [3.0, 5.0]
    pooled = (2.0 + 2.0) / 3  # squares around the means 2 and 4, over 3 degrees of freedom
    t = (2.0 - 4.0) / sqrt(pooled * (1 / 3 + 1 / 2))
    test = compare_runs(one, other)
    assert test.t == pytest.approx(t)
    assert test.p == pytest.approx(2 * stats.t(3).cdf(t))


@given(RUNS, RUNS)
def test_pooled_test_matches_scipy_for_random_samples(one: list[float], other: list[float]) -> None:
    assume(np.std(one) > 1e-6 and np.std(other) > 1e-6)
    assume(abs(np.mean(one) - np.mean(other)) > 1e-9)
    assert compare_runs(one, other).p == pytest.approx(stats.ttest_ind(one, other).pvalue, rel=1e-6, abs=1e-12)


def test_paired_test_matches_scipy() -> None:
    expected = stats.ttest_rel(REFERENCE, OTHER)
    test = compare_runs(REFERENCE, OTHER, paired=True)
    assert test.t == pytest.approx(expected.statistic)
    assert test.p == pytest.approx(expected.pvalue)


def test_paired_test_detects_a_constant_difference() -> None:
    other = [0.1, 0.3, 0.5, 0.7]
    reference = [0.09, 0.291, 0.489, 0.69]
    assert compare_runs(reference, other).verdict == "tie"
    assert compare_runs(reference, other, paired=True).verdict == "win"


@given(RUNS, RUNS)
def test_swapping_the_methods_swaps_win_and_loss(one: list[float], other: list[float]) -> None:
    forward, backward = compare_runs(one, other), compare_runs(other, one)
    assert forward.p == backward.p
    assert {"win": "loss", "loss": "win", "tie": "tie"}[str(forward.verdict)] == backward.verdict


@given(RUNS, RUNS)
def test_better_decides_the_winner(one: list[float], other: list[float]) -> None:
    lower, higher = compare_runs(one, other), compare_runs(one, other, better="higher")
    assert lower.p == higher.p
    assert {"win": "loss", "loss": "win", "tie": "tie"}[str(lower.verdict)] == higher.verdict


@given(RUNS, st.booleans())
def test_identical_runs_are_a_tie(values: list[float], paired: bool) -> None:
    test = compare_runs(values, values, paired=paired)
    assert (test.verdict, test.p) == ("tie", 1.0)


@given(RUNS, st.randoms())
def test_order_of_the_runs_does_not_matter(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compare_runs(values, shuffled).verdict == "tie"


@pytest.mark.parametrize("paired", [False, True])
def test_different_constants_are_significant(paired: bool) -> None:
    test = compare_runs([0.1, 0.1, 0.1], [0.3, 0.3, 0.3], paired=paired)
    assert (test.verdict, test.p, test.t) == ("win", 0.0, -inf)


def test_rounding_errors_are_a_tie() -> None:
    assert compare_runs([0.1 + 0.2] * 3, [0.3] * 3).verdict == "tie"


@pytest.mark.parametrize(
    ("one", "other"), [([0.1], [0.2, 0.3]), ([0.1, 0.2], [0.3]), ([], [0.1, 0.2]), ([0.1, nan], [1, 2])]
)
def test_one_run_gives_no_verdict(one: list[float], other: list[float]) -> None:
    test = compare_runs(one, other)
    assert test.verdict is None
    assert isnan(test.p)
    assert test.mark == ""


def test_paired_test_uses_runs_with_both_values() -> None:
    test = compare_runs([0.1, nan, 0.2, 0.3], [0.5, 0.1, nan, 0.6], paired=True)
    assert test.reference == Summary.of([0.1, 0.3])
    assert test.other == Summary.of([0.5, 0.6])


def test_paired_test_rejects_different_lengths() -> None:
    with pytest.raises(InvalidInputError, match="Got 2 and 3 values"):
        compare_runs([0.1, 0.2], [0.1, 0.2, 0.3], paired=True)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_alpha_out_of_range_is_rejected(alpha: float) -> None:
    with pytest.raises(InvalidInputError, match="alpha"):
        compare_runs(REFERENCE, OTHER, alpha=alpha)


def test_unknown_better_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="'better' must be 'lower' or 'higher'"):
        compare_runs(REFERENCE, OTHER, better="more")  # type: ignore[arg-type]


def test_alpha_is_the_significance_level() -> None:
    p = compare_runs([1.0, 2.0, 3.0], [2.0, 3.0, 5.0]).p
    assert compare_runs([1.0, 2.0, 3.0], [2.0, 3.0, 5.0], alpha=p * 1.01).verdict == "win"
    assert compare_runs([1.0, 2.0, 3.0], [2.0, 3.0, 5.0], alpha=p * 0.99).verdict == "tie"


def significance_test(verdict: str | None) -> SignificanceTest:
    nothing = Summary.of([])
    return SignificanceTest(nothing, nothing, nan, nan, verdict)  # type: ignore[arg-type]


def test_marks_match_the_paper() -> None:
    assert [significance_test(verdict).mark for verdict in ("win", "tie", "loss")] == ["•", "", "∘"]


def test_win_tie_loss_counts_verdicts() -> None:
    counts = WinTieLoss.of(map(significance_test, ["win", "win", "loss", "tie", None, "win"]))
    assert counts == WinTieLoss(3, 1, 1, 1)
    assert str(counts) == "3/1/1"
