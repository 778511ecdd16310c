"""The Adaptive-Bound Triplet Loss: its properties in the paper, and its slopes against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.oahu.loss import (
    attractive_loss,
    attractive_slope,
    dissimilarity_threshold,
    local_loss,
    repulsive_loss,
    repulsive_slope,
    similarity_threshold,
)

distances = st.floats(0.0, 2.0)
taus = st.floats(0.0, 2.0, exclude_min=True, exclude_max=True)
ROUNDING = 4 * np.finfo(float).eps


def printed_thresholds(near: float, far: float, tau: float) -> tuple[float, float]:
    """Return d_sim and d_dis by the formulas printed in the paper."""
    similarity = tau / (math.e**2 - 1) * (math.e**near - 1)
    dissimilarity = -(2 - (2 - tau)) / (1 - math.e**-2) * (math.e**-far - 1) + (2 - tau)
    return similarity, dissimilarity


@given(distances, distances, taus)
def test_thresholds_are_those_printed_in_the_paper(near: float, far: float, tau: float) -> None:
    similarity, dissimilarity = printed_thresholds(near, far, tau)
    assert similarity_threshold(near, tau) == pytest.approx(similarity, rel=1e-12, abs=1e-15)
    assert dissimilarity_threshold(far, tau) == pytest.approx(dissimilarity, rel=1e-12)


@given(distances, distances, taus)
def test_local_loss_is_the_mean_of_the_printed_losses(near: float, far: float, tau: float) -> None:
    c1, c2 = printed_thresholds(near, far, tau)
    attraction = max(0.0, near / (2 - c1) - c1 / (2 - c1))
    repulsion = max(0.0, -far / c2 + 1)
    assert local_loss(near, far, tau) == pytest.approx((attraction + repulsion) / 2, rel=1e-9, abs=1e-12)


@given(distances, taus)
def test_the_similarity_threshold_is_at_most_the_distance(distance: float, tau: float) -> None:
    assert 0.0 <= similarity_threshold(distance, tau) <= distance * (1 + ROUNDING)


@given(distances, taus)
def test_the_dissimilarity_threshold_is_at_least_the_distance(distance: float, tau: float) -> None:
    assert distance * (1 - ROUNDING) <= dissimilarity_threshold(distance, tau) <= 2 * (1 + ROUNDING)


@given(distances, taus)
def test_thresholds_stay_on_their_side_of_tau(distance: float, tau: float) -> None:
    assert similarity_threshold(distance, tau) <= tau * (1 + ROUNDING)
    assert dissimilarity_threshold(distance, tau) >= (2 - tau) * (1 - ROUNDING)


@given(distances, distances, taus)
def test_thresholds_grow_with_the_distance(a: float, b: float, tau: float) -> None:
    low, high = sorted((a, b))
    assert similarity_threshold(low, tau) <= similarity_threshold(high, tau)
    assert dissimilarity_threshold(low, tau) <= dissimilarity_threshold(high, tau)


@pytest.mark.parametrize("tau", [1e-6, 0.1, 0.5, 2 / 3, 1.0, 1.999])
def test_thresholds_meet_the_boundary_conditions(tau: float) -> None:
    assert similarity_threshold(0.0, tau) == 0.0
    assert similarity_threshold(2.0, tau) == pytest.approx(tau, rel=1e-14)
    assert dissimilarity_threshold(0.0, tau) == 2.0 - tau
    assert dissimilarity_threshold(2.0, tau) == pytest.approx(2.0, rel=1e-14)


@given(distances, distances, taus)
def test_losses_lie_between_zero_and_one(near: float, far: float, tau: float) -> None:
    attraction = attractive_loss(near, similarity_threshold(near, tau))
    repulsion = repulsive_loss(far, dissimilarity_threshold(far, tau))
    for loss in (attraction, repulsion, local_loss(near, far, tau)):
        assert 0.0 <= loss <= 1.0


@given(st.floats(1e-6, 2.0), st.floats(0.0, 2.0 - 1e-6), st.floats(1e-3, 1.999))
def test_every_imperfect_constraint_has_a_loss(near: float, far: float, tau: float) -> None:
    assert local_loss(near, 2.0, tau) > 0.0
    assert local_loss(0.0, far, tau) > 0.0


def test_functions_accept_arrays() -> None:
    near, far = np.linspace(0, 2, 7), np.linspace(2, 0, 7)
    one_by_one = [local_loss(a, b, 0.3) for a, b in zip(near, far, strict=True)]
    np.testing.assert_array_equal(local_loss(near, far, 0.3), one_by_one)


@given(st.floats(0.01, 1.99), st.floats(0.01, 1.9), st.booleans())
def test_slopes_equal_finite_differences(distance: float, tau: float, through: bool) -> None:
    h = 1e-6

    def attraction(moved: float) -> float:
        return float(attractive_loss(moved, similarity_threshold(moved if through else distance, tau)))

    def repulsion(moved: float) -> float:
        return float(repulsive_loss(moved, dissimilarity_threshold(moved if through else distance, tau)))

    up, down = distance + h, distance - h
    assert attractive_slope(distance, tau, through) == pytest.approx(
        (attraction(up) - attraction(down)) / (2 * h), rel=1e-6, abs=1e-7
    )
    assert repulsive_slope(distance, tau, through) == pytest.approx(
        (repulsion(up) - repulsion(down)) / (2 * h), rel=1e-6, abs=1e-7
    )


@pytest.mark.parametrize("through", [False, True])
def test_slopes_are_zero_at_zero_loss(through: bool) -> None:
    assert attractive_slope(0.0, 0.1, through) == 0.0
    assert repulsive_slope(2.0, 0.1, through) == 0.0
