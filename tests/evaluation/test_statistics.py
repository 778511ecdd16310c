"""Means, spreads and Student's test."""

from __future__ import annotations

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from oahu.evaluation.statistics import Comparison, Summary, Tally, compare
from oahu.exceptions import InvalidInputError

RATES = st.floats(0.0, 1.0, allow_subnormal=False)
RUNS = st.lists(RATES, min_size=2, max_size=12)
OURS, THEIRS = [0.18, 0.19, 0.17, 0.185], [0.22, 0.21, 0.23, 0.20]


def test_a_summary_by_hand() -> None:
    summary = Summary.of([1.0, 2.0, 4.0, 5.0])
    assert summary.mean == 3.0
    assert summary.std == pytest.approx(sqrt((4 + 1 + 1 + 4) / 3))
    assert summary.n == 4


def test_one_run_has_no_spread() -> None:
    summary = Summary.of([0.5])
    assert (summary.mean, summary.n) == (0.5, 1)
    assert isnan(summary.std)


@pytest.mark.parametrize("values", [[], [nan], [nan, inf]])
def test_nothing_has_no_mean(values: list[float]) -> None:
    summary = Summary.of(values)
    assert summary.n == 0
    assert isnan(summary.mean)
    assert isnan(summary.std)


def test_runs_without_a_value_do_not_count() -> None:
    assert Summary.of([nan, 1.0, 3.0]) == Summary.of([1.0, 3.0])


def test_the_pooled_test_is_students() -> None:
    compared = compare(OURS, THEIRS)
    expected = stats.ttest_ind(OURS, THEIRS)
    assert compared.t == pytest.approx(expected.statistic)
    assert compared.p == pytest.approx(expected.pvalue)
    assert compared.verdict == "win"


def test_the_pooled_test_in_closed_form() -> None:
    one, other = [1.0, 2.0, 3.0], [3.0, 5.0]
    pooled = (2.0 + 2.0) / 3  # squares around the means 2 and 4, over 3 degrees of freedom
    t = (2.0 - 4.0) / sqrt(pooled * (1 / 3 + 1 / 2))
    compared = compare(one, other)
    assert compared.t == pytest.approx(t)
    assert compared.p == pytest.approx(2 * stats.t(3).cdf(t))


@given(RUNS, RUNS)
def test_any_samples_agree_with_scipy(one: list[float], other: list[float]) -> None:
    assume(np.std(one) > 1e-6 and np.std(other) > 1e-6)
    assume(abs(np.mean(one) - np.mean(other)) > 1e-9)
    assert compare(one, other).p == pytest.approx(stats.ttest_ind(one, other).pvalue, rel=1e-6, abs=1e-12)


def test_the_paired_test_is_students_of_differences() -> None:
    expected = stats.ttest_rel(OURS, THEIRS)
    compared = compare(OURS, THEIRS, paired=True)
    assert compared.t == pytest.approx(expected.statistic)
    assert compared.p == pytest.approx(expected.pvalue)


def test_pairs_tell_apart_what_varies_together() -> None:
    theirs = [0.1, 0.3, 0.5, 0.7]
    ours = [0.09, 0.291, 0.489, 0.69]
    assert compare(ours, theirs).verdict == "tie"
    assert compare(ours, theirs, paired=True).verdict == "win"


@given(RUNS, RUNS)
def test_swapping_turns_a_win_into_a_loss(one: list[float], other: list[float]) -> None:
    there, back = compare(one, other), compare(other, one)
    assert there.p == back.p
    assert {"win": "loss", "loss": "win", "tie": "tie"}[str(there.verdict)] == back.verdict


@given(RUNS, RUNS)
def test_what_is_better_decides_the_winner(one: list[float], other: list[float]) -> None:
    lower, higher = compare(one, other), compare(one, other, better="higher")
    assert lower.p == higher.p
    assert {"win": "loss", "loss": "win", "tie": "tie"}[str(lower.verdict)] == higher.verdict


@given(RUNS, st.booleans())
def test_the_same_is_a_tie(values: list[float], paired: bool) -> None:
    compared = compare(values, values, paired=paired)
    assert (compared.verdict, compared.p) == ("tie", 1.0)


@given(RUNS, st.randoms())
def test_order_does_not_matter(values: list[float], random: object) -> None:
    mixed = list(values)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert compare(values, mixed).verdict == "tie"


@pytest.mark.parametrize("paired", [False, True])
def test_constants_that_differ_are_told_apart(paired: bool) -> None:
    compared = compare([0.1, 0.1, 0.1], [0.3, 0.3, 0.3], paired=paired)
    assert (compared.verdict, compared.p, compared.t) == ("win", 0.0, -inf)


def test_constants_that_differ_by_rounding_are_the_same() -> None:
    assert compare([0.1 + 0.2] * 3, [0.3] * 3).verdict == "tie"


@pytest.mark.parametrize(
    ("one", "other"), [([0.1], [0.2, 0.3]), ([0.1, 0.2], [0.3]), ([], [0.1, 0.2]), ([0.1, nan], [1, 2])]
)
def test_one_run_is_no_verdict(one: list[float], other: list[float]) -> None:
    compared = compare(one, other)
    assert compared.verdict is None
    assert isnan(compared.p)
    assert compared.mark == ""


def test_a_pair_needs_both() -> None:
    compared = compare([0.1, nan, 0.2, 0.3], [0.5, 0.1, nan, 0.6], paired=True)
    assert compared.ours == Summary.of([0.1, 0.3])
    assert compared.theirs == Summary.of([0.5, 0.6])


def test_pairs_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Got 2 and 3 values"):
        compare([0.1, 0.2], [0.1, 0.2, 0.3], paired=True)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_alpha_is_a_probability(alpha: float) -> None:
    with pytest.raises(InvalidInputError, match="alpha"):
        compare(OURS, THEIRS, alpha=alpha)


def test_better_is_lower_or_higher() -> None:
    with pytest.raises(InvalidInputError, match="'better' must be 'lower' or 'higher'"):
        compare(OURS, THEIRS, better="more")  # type: ignore[arg-type]


def test_alpha_decides() -> None:
    p = compare([1.0, 2.0, 3.0], [2.0, 3.0, 5.0]).p
    assert compare([1.0, 2.0, 3.0], [2.0, 3.0, 5.0], alpha=p * 1.01).verdict == "win"
    assert compare([1.0, 2.0, 3.0], [2.0, 3.0, 5.0], alpha=p * 0.99).verdict == "tie"


def made(verdict: str | None) -> Comparison:
    nothing = Summary.of([])
    return Comparison(nothing, nothing, nan, nan, verdict)  # type: ignore[arg-type]


def test_marks_are_those_of_the_paper() -> None:
    assert [made(verdict).mark for verdict in ("win", "tie", "loss")] == ["•", "", "∘"]


def test_a_tally_counts() -> None:
    tally = Tally.of(map(made, ["win", "win", "loss", "tie", None, "win"]))
    assert tally == Tally(3, 1, 1, 1)
    assert str(tally) == "3/1/1"
