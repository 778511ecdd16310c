"""The scaling rules that the kernels and the metric share."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.anchored.scaling_rules import softness, step_size, unlearned_scale


@pytest.mark.parametrize(("d", "expected"), [(1, 64), (2, 64), (3, 8), (5, 1), (784, 64 / 783**3)])
def test_softness_grows_as_features_decrease(d: int, expected: float) -> None:
    assert softness(d) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seen", "share"), [(0, 1), (2_000, math.sqrt(1 / 2)), (10_000, math.sqrt(1 / 6)), (1e9, math.sqrt(1 / 6))]
)
def test_step_size_decays_to_a_constant(seen: float, share: float) -> None:
    assert step_size(0.05, seen) == pytest.approx(0.05 * share)


@given(st.floats(1e-9, 4.0))
def test_small_unlearned_distances_are_scaled_up(mean_square: float) -> None:
    assert unlearned_scale(mean_square) * mean_square >= min(mean_square, 0.3) - 1e-12
    assert unlearned_scale(mean_square) >= 1


def test_zero_unlearned_distances_are_not_scaled() -> None:
    assert unlearned_scale(0.0) == 1
