"""The scales that kernels and what is read out agree on."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.anchored.scales import softness, step_size, unlearned_scale


@pytest.mark.parametrize(("d", "expected"), [(1, 64), (2, 64), (3, 8), (5, 1), (784, 64 / 783**3)])
def test_the_fewer_features_the_softer(d: int, expected: float) -> None:
    assert softness(d) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seen", "share"), [(0, 1), (2_000, math.sqrt(1 / 2)), (10_000, math.sqrt(1 / 6)), (1e9, math.sqrt(1 / 6))]
)
def test_steps_become_smaller_and_never_vanish(seen: float, share: float) -> None:
    assert step_size(0.05, seen) == pytest.approx(0.05 * share)


@given(st.floats(1e-9, 4.0))
def test_unlearned_distances_count_as_if_they_were_of_some_size(mean_square: float) -> None:
    assert unlearned_scale(mean_square) * mean_square >= min(mean_square, 0.3) - 1e-12
    assert unlearned_scale(mean_square) >= 1


def test_unlearned_distances_of_nothing_stay_nothing() -> None:
    assert unlearned_scale(0.0) == 1
