"""The weights of the spaces, computed from evidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.anchored.space_weights import space_weights, standard_errors


def evidence(*certainty: float) -> np.ndarray:
    """Return sums that are the given numbers of standard errors from 0."""
    return np.array([np.array(certainty) * 3.0, np.full(len(certainty), 9.0)])


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=9), st.floats(0, 4))
def test_weights_sum_to_one_and_the_unlearned_space_has_a_minimum(certainty: list[float], strength: float) -> None:
    weights = space_weights(evidence(*certainty), strength)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    assert weights[2:].sum() <= strength * weights[:2].sum() + 1e-12
    assert weights[0] >= 1 / (8 * (1 + strength)) - 1e-12
    if certainty[1] <= 0 or max(certainty[2:]) <= 2:  # only both together replace a part of the unlearned space
        assert weights[0] >= 1 / (2 * (1 + strength)) - 1e-12


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=7), st.floats(-50, 1))
def test_random_feedback_keeps_the_unlearned_metric(certainty: list[float], trust: float) -> None:
    assert space_weights(evidence(trust, *certainty), 0.5).tolist() == [1.0] + [0.0] * len(certainty)


@given(st.floats(-50, 50), st.floats(0, 50))
def test_weights_do_not_decrease_with_evidence(certainty: float, more: float) -> None:
    for space in (1, 2):
        before, after = ([9.0, 3.0, 4.0, 4.0] for _ in range(2))
        before[space], after[space] = certainty, certainty + more
        assert space_weights(evidence(*after), 0.5)[space] >= space_weights(evidence(*before), 0.5)[space] - 1e-12


@given(st.lists(st.floats(5, 20), min_size=2, max_size=6))
def test_experts_with_full_evidence_share_weight_by_the_hedge(certainty: list[float]) -> None:
    weights = space_weights(evidence(9.0, 3.0, *certainty), 0.5)[2:]
    ahead = np.array(certainty)[:, None] - np.array(certainty)[None]
    assert weights[:, None] / weights[None] == pytest.approx(np.exp(ahead / 2))


def test_the_whitened_space_gains_weight_slowly() -> None:
    shares = [space_weights(evidence(9.0, certainty, 0.0), 0.5)[:2] for certainty in (0.0, 2.5, 5.0, 10.0, 20.0)]
    assert [w / s for s, w in shares] == pytest.approx([0, 0.25, 0.5, 1, 1])


def test_standard_errors_are_sums_over_roots_of_sums_of_squares() -> None:
    gains = np.random.default_rng(0).normal(0.1, 1.0, 400)
    sums = np.array([[gains.sum()], [np.square(gains).sum()]])
    mean, error = gains.mean(), np.sqrt(np.mean(np.square(gains)) / 400)
    assert standard_errors(sums) == pytest.approx([mean / error])


def test_standard_errors_are_zero_without_evidence() -> None:
    assert standard_errors(np.zeros((2, 3))).tolist() == [0.0, 0.0, 0.0]
