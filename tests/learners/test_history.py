"""The history: bounded, evenly spaced, and blind to how rounds arrive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.history import History


def filled(losses: np.ndarray, cuts: list[int], capacity: int) -> History:
    history = History.empty(losses.shape[1], capacity)
    for part in np.split(losses, sorted(cuts)):
        if len(part):
            history.record(part, part + 1)
    return history


@given(st.integers(1, 200), st.lists(st.integers(0, 200), max_size=6), st.integers(1, 9))
def test_history_does_not_depend_on_chunks(n: int, cuts: list[int], capacity: int) -> None:
    losses = np.random.default_rng(n).random((n, 3))
    whole, parts = filled(losses, [], capacity), filled(losses, cuts, capacity)
    assert whole.stride == parts.stride
    np.testing.assert_array_equal(whole.totals, parts.totals)
    np.testing.assert_array_equal(whole.weights, parts.weights)
    np.testing.assert_array_equal(whole.running, parts.running)


@given(st.integers(1, 300), st.integers(1, 9))
def test_history_is_bounded_and_holds_what_it_says(n: int, capacity: int) -> None:
    losses = np.random.default_rng(n).random((n, 2))
    history = filled(losses, [], capacity)
    assert len(history.rounds) <= capacity
    assert len(history.rounds) == n // history.stride
    for kept, at in enumerate(history.rounds):
        since = at - history.stride
        np.testing.assert_allclose(history.losses[kept], losses[since:at].mean(axis=0), atol=1e-12)
        np.testing.assert_array_equal(history.weights[kept], losses[at - 1] + 1)


def test_history_uses_at_least_half_of_its_room() -> None:
    history = filled(np.zeros((10_000, 1)), [], capacity=64)
    assert 32 <= len(history.rounds) <= 64


def test_copy_goes_its_own_way() -> None:
    history = filled(np.ones((5, 1)), [], capacity=4)
    twin = history.copy()
    twin.record(np.ones((3, 1)), np.ones((3, 1)))
    assert (history.n_rounds, twin.n_rounds) == (5, 8)
    assert history.running == pytest.approx(5.0)
