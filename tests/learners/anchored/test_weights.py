"""What evidence is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.anchored.weights import earned_weights, standard_errors


def evidence(*sure: float) -> np.ndarray:
    """Sums that are so many standard errors from 0."""
    return np.array([np.array(sure) * 3.0, np.full(len(sure), 9.0)])


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=9), st.floats(0, 4))
def test_weights_are_shares_and_the_anchor_keeps_its_own(sure: list[float], strength: float) -> None:
    weights = earned_weights(evidence(*sure), strength)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert weights[2:].sum() <= strength * weights[:2].sum() + 1e-12
    assert weights[0] >= 1 / (8 * (1 + strength)) - 1e-12
    if sure[1] <= 0 or max(sure[2:]) <= 2:  # its place is taken by both together
        assert weights[0] >= 1 / (2 * (1 + strength)) - 1e-12


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=7), st.floats(-50, 1))
def test_feedback_that_is_no_better_than_chance_earns_nothing(sure: list[float], trust: float) -> None:
    assert earned_weights(evidence(trust, *sure), 0.5).tolist() == [1.0] + [0.0] * len(sure)


@given(st.floats(-50, 50), st.floats(0, 50))
def test_more_evidence_is_never_worth_less(sure: float, more: float) -> None:
    for space in (1, 2):
        before, after = ([9.0, 3.0, 4.0, 4.0] for _ in range(2))
        before[space], after[space] = sure, sure + more
        assert earned_weights(evidence(*after), 0.5)[space] >= earned_weights(evidence(*before), 0.5)[space] - 1e-12


@given(st.lists(st.floats(5, 20), min_size=2, max_size=6))
def test_among_experts_that_count_in_full_a_hedge_decides(sure: list[float]) -> None:
    weights = earned_weights(evidence(9.0, 3.0, *sure), 0.5)[2:]
    ahead = np.array(sure)[:, None] - np.array(sure)[None]
    assert weights[:, None] / weights[None] == pytest.approx(np.exp(ahead / 2))


def test_the_whitened_space_is_trusted_slowly() -> None:
    shares = [earned_weights(evidence(9.0, sure, 0.0), 0.5)[:2] for sure in (0.0, 2.5, 5.0, 10.0, 20.0)]
    assert [w / s for s, w in shares] == pytest.approx([0, 0.25, 0.5, 1, 1])


def test_standard_errors_of_a_sum_are_it_over_the_root_of_its_squares() -> None:
    gains = np.random.default_rng(0).normal(0.1, 1.0, 400)
    sums = np.array([[gains.sum()], [np.square(gains).sum()]])
    mean, error = gains.mean(), np.sqrt(np.mean(np.square(gains)) / 400)
    assert standard_errors(sums) == pytest.approx([mean / error])


def test_nothing_is_sure_before_there_is_evidence() -> None:
    assert standard_errors(np.zeros((2, 3))).tolist() == [0.0, 0.0, 0.0]
