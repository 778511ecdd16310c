"""The background: the mean and the principal axes of a catalogue, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from oahu.learners.anchored import background
from oahu.learners.anchored.background import MAX_AXES, estimate_background, sample_rows, starting_background

Rows = NDArray[np.float64]

FLOAT64, FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)


def catalogue(n: int, d: int, seed: int = 0) -> Rows:
    """Return items whose deviations decay along random directions."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return np.asarray(rng.standard_normal((n, d)) * 0.8 ** np.arange(d) @ directions.T + rng.standard_normal(d))


@pytest.mark.parametrize(("n", "d"), [(100, 6), (30, 30), (8, 20), (2, 3), (50, 1)])
def test_mean_axes_and_variances_are_those_of_scikit_learn(n: int, d: int) -> None:
    items = catalogue(n, d)
    found, expected = estimate_background(items, FLOAT64), PCA(svd_solver="full").fit(items)
    assert found.mean == pytest.approx(expected.mean_)
    assert found.axes.shape == (d, min(n, d))
    assert found.axes.T @ found.axes == pytest.approx(np.eye(min(n, d)), abs=1e-9)
    assert found.variances == pytest.approx(expected.explained_variance_ * (n - 1) / n, abs=1e-10)
    clear = expected.explained_variance_ > 1e-6 * expected.explained_variance_[0]
    overlaps = np.abs(np.sum(found.axes.T[clear] * expected.components_[clear], axis=1))
    assert overlaps == pytest.approx(np.ones(clear.sum()), abs=1e-6)
    assert found.spread[0] ** 2 == pytest.approx(np.mean([np.square(item - found.mean).sum() for item in items]))


def test_many_features_are_approximated() -> None:
    items = catalogue(120, 1_100)
    found, expected = estimate_background(items, FLOAT64), PCA(20, svd_solver="full").fit(items)
    assert found.axes.shape == (1_100, 120)
    assert found.variances[:20] == pytest.approx(expected.explained_variance_ * 119 / 120, rel=1e-3)
    overlaps = np.abs(np.sum(found.axes.T[:20] * expected.components_, axis=1))
    assert overlaps == pytest.approx(np.ones(20), abs=1e-3)
    again = estimate_background(items, FLOAT64)
    np.testing.assert_array_equal(found.axes, again.axes)


@pytest.mark.parametrize("d", [MAX_AXES + 100, 1_100])
def test_the_number_of_axes_is_limited(d: int) -> None:
    items = np.random.default_rng(0).standard_normal((MAX_AXES + 50, d))
    found = estimate_background(items, FLOAT32)
    assert found.axes.shape == (d, MAX_AXES)
    assert found.axes.T @ found.axes == pytest.approx(np.eye(MAX_AXES), abs=1e-4)
    assert (np.diff(found.variances) <= 1e-6).all()


def test_items_are_compared_by_their_coordinates() -> None:
    items = catalogue(40, 7)
    coordinates = estimate_background(items, FLOAT64).coordinates(items)
    assert coordinates.mean(axis=0) == pytest.approx(np.zeros(7), abs=1e-12)
    covariance = coordinates.T @ coordinates / 40
    assert covariance == pytest.approx(np.diag(np.diag(covariance)), abs=1e-10)
    apart = np.linalg.norm(items[:20] - items[20:], axis=1)
    assert np.linalg.norm(coordinates[:20] - coordinates[20:], axis=1) == pytest.approx(apart)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
@pytest.mark.parametrize(
    "items",
    [np.full((1, 4), 3.0), np.full((50, 4), 3.0), np.zeros((5, 1)), np.zeros((3, 1_100))],
    ids=["one item", "equal items", "one feature of zeros", "many features of zeros"],
)
def test_items_without_variance(items: Rows, dtype: np.dtype[np.floating]) -> None:
    found = estimate_background(items, dtype)
    assert found.mean == pytest.approx(items[0])
    assert not found.variances.any()
    assert found.spread.tolist() == [1.0]
    assert all(array.dtype == dtype and np.isfinite(array).all() for array in found)
    r = found.axes.shape[1]
    assert found.axes.T @ found.axes == pytest.approx(np.eye(r), abs=1e-6)


def test_constant_features_are_not_part_of_axes_with_variance() -> None:
    items = np.insert(catalogue(60, 4), 2, 5.0, axis=1)
    found = estimate_background(items, FLOAT64)
    assert found.axes[2, :4] == pytest.approx(np.zeros(4), abs=1e-9)
    assert found.variances[:4] == pytest.approx(estimate_background(catalogue(60, 4), FLOAT64).variances)
    assert found.variances[4] == pytest.approx(0, abs=1e-12)


def test_items_far_from_the_origin_keep_their_variances() -> None:
    items = (catalogue(60, 4) + 1e3).astype(np.float32)
    found, expected = estimate_background(items, FLOAT32), PCA(svd_solver="full").fit(items.astype(np.float64))
    assert found.variances == pytest.approx(expected.explained_variance_ * 59 / 60, rel=1e-4)


def test_the_starting_background_has_no_axes() -> None:
    start = starting_background(3, FLOAT32)
    assert start.mean.tolist() == [0, 0, 0]
    assert start.spread.tolist() == [1]
    assert start.axes.shape == (3, 0)
    assert start.variances.shape == (0,)
    assert {array.dtype for array in start} == {FLOAT32}


@given(st.integers(1, 10**9), st.integers(1, 10**8))
def test_sampled_rows_are_evenly_spaced_and_limited(n_items: int, n_features: int) -> None:
    rows = sample_rows(n_items, n_features)
    assert rows[0] == 0
    assert rows[-1] < n_items
    assert 1 <= len(rows) <= min(n_items, background._MAX_SAMPLE)
    assert len(rows) == 1 or len(rows) * n_features <= background._MAX_NUMBERS
    steps = np.diff([*rows, n_items])
    assert steps.min() >= 1
    assert steps.max() - steps.min() <= 1


def test_all_rows_of_a_small_table_are_sampled() -> None:
    assert sample_rows(300, 10).tolist() == list(range(300))
