"""The history is bounded, evenly spaced, and independent of how rounds are split into calls."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.learners.history import History, empty_history, record_round


def recorded_history(losses: NDArray[np.float64], capacity: int) -> History:
    """Return a history of rounds with these losses. The weights are the losses plus 1."""
    history = empty_history(losses.shape[1], capacity)
    for loss in losses:
        record_round(history.counters, history.running, history.totals, history.weights, loss, loss + 1)
    return history


@given(st.integers(1, 300), st.integers(1, 9))
def test_history_is_bounded_and_stores_mean_losses_and_weights(n: int, capacity: int) -> None:
    losses = np.random.default_rng(n).random((n, 2))
    history = recorded_history(losses, capacity)
    assert len(history.rounds) <= capacity
    assert len(history.rounds) == n // history.stride
    for stored, at in enumerate(history.rounds):
        since = at - history.stride
        np.testing.assert_allclose(history.losses[stored], losses[since:at].mean(axis=0), atol=1e-12)
        np.testing.assert_array_equal(history.stored_weights[stored], losses[at - 1] + 1)
    history.check()


@given(st.integers(1, 300), st.integers(1, 9))
def test_the_running_sum_is_that_of_all_losses(n: int, capacity: int) -> None:
    losses = np.random.default_rng(n).random((n, 2))
    np.testing.assert_array_equal(recorded_history(losses, capacity).running, np.cumsum(losses, axis=0)[-1])


def test_history_uses_at_least_half_of_its_capacity() -> None:
    history = recorded_history(np.zeros((10_000, 1)), capacity=64)
    assert 32 <= len(history.rounds) <= 64


@pytest.mark.parametrize("counters", [(-1, 1, -1), (5, 0, 5), (5, 1, 4), (5, 1, 5), (9, 2, 3)])
def test_inconsistent_counters_are_rejected(counters: tuple[int, int, int]) -> None:
    history = empty_history(1, capacity=4)
    history.counters[:] = counters
    with pytest.raises(ValueError, match="is inconsistent with a stride"):
        history.check()


def test_a_history_is_four_arrays() -> None:
    assert all(isinstance(array, np.ndarray) for array in astuple(empty_history(2)))
