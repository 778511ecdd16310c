"""The background: the mean and the principal axes of a catalogue, against a singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from oahu.learners.anchored import background
from oahu.learners.anchored.background import (
    MAX_AXES,
    MAX_LEADING,
    Background,
    estimate_background,
    sample_rows,
    starting_background,
)

Rows = NDArray[np.float64]

FLOAT64, FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)


def catalogue(n: int, d: int, seed: int = 0) -> Rows:
    """Return items whose deviations decay along random directions."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return np.asarray(rng.standard_normal((n, d)) * 0.8 ** np.arange(d) @ directions.T + rng.standard_normal(d))


def decomposed(items: Rows) -> tuple[Rows, Rows]:
    """Return the variances along the principal axes, and the axes as columns, for at least 1e-9 of the largest."""
    _, values, rows = np.linalg.svd(items - items.mean(axis=0), full_matrices=False)
    known = values > 3e-5 * values[0]
    return np.square(values[known]) / len(items), rows[known].T


def of_rank(n: int, d: int, rank: int) -> Rows:
    rng = np.random.default_rng(rank)
    scales = 0.7 ** np.arange(rank)
    return np.asarray(rng.standard_normal((n, rank)) * scales @ rng.standard_normal((rank, d)) + 3)


CATALOGUES: dict[str, Rows] = {
    "100 items of 6 features": catalogue(100, 6),
    "30 items of 30 features": catalogue(30, 30),
    "8 items of 20 features": catalogue(8, 20),
    "2 items of 3 features": catalogue(2, 3),
    "50 items of 1 feature": catalogue(50, 1),
    "rank 3, more items": of_rank(60, 10, 3),
    "rank 3, more features": of_rank(20, 50, 3),
    "rank 1": of_rank(7, 9, 1),
    "equal items but one": np.vstack([np.ones((20, 4)), [[1, 2, 3, 4.0]]]),
    "more than 512 features": catalogue(600, 520)[:, :520],
    "1,100 features": catalogue(120, 1_100),
}


@pytest.mark.parametrize("items", CATALOGUES.values(), ids=CATALOGUES)
def test_the_mean_is_the_mean_of_the_items(items: Rows) -> None:
    assert estimate_background(items, FLOAT64).mean == pytest.approx(sum(items) / len(items))


@pytest.mark.parametrize("items", CATALOGUES.values(), ids=CATALOGUES)
def test_variances_are_squared_singular_values(items: Rows) -> None:
    """Axes that only one of the two has, have practically no variance."""
    variances = estimate_background(items, FLOAT64).variances
    expected, _ = decomposed(items)
    n = max(len(variances), len(expected))
    found, known = (np.pad(array, (0, n - len(array))) for array in (variances, expected))
    assert found == pytest.approx(known, abs=2e-6 * expected[0])  # of single precision, and of axes left out


@pytest.mark.parametrize("items", CATALOGUES.values(), ids=CATALOGUES)
def test_axes_of_known_variance_are_singular_vectors(items: Rows) -> None:
    found, (variances, axes) = estimate_background(items, FLOAT64), decomposed(items)
    n = np.count_nonzero(variances > 1e-3 * variances[0])
    overlaps = np.abs(np.sum(found.axes[:, :n] * axes[:, :n], axis=0))
    assert overlaps == pytest.approx(np.ones(n), abs=1e-6)


@pytest.mark.parametrize("items", CATALOGUES.values(), ids=CATALOGUES)
def test_axes_are_orthonormal(items: Rows) -> None:
    axes = estimate_background(items, FLOAT64).axes
    assert axes.T @ axes == pytest.approx(np.eye(axes.shape[1]), abs=1e-5)


@pytest.mark.parametrize("items", CATALOGUES.values(), ids=CATALOGUES)
def test_the_axes_span_all_items(items: Rows) -> None:
    found, centred = estimate_background(items, FLOAT64), items - items.mean(axis=0)
    outside = centred - centred @ found.axes @ found.axes.T
    assert np.square(outside).sum() <= 1e-4 * np.square(centred).sum()


@pytest.mark.parametrize("items", CATALOGUES.values(), ids=CATALOGUES)
def test_the_spread_is_the_root_of_the_mean_squared_distance_to_the_mean(items: Rows) -> None:
    found = estimate_background(items, FLOAT64)
    assert found.spread[0] ** 2 == pytest.approx(np.mean([np.square(item - found.mean).sum() for item in items]))


def test_with_fewer_items_than_features_axes_without_variance_are_left_out() -> None:
    assert estimate_background(of_rank(20, 50, 3), FLOAT64).axes.shape == (50, 3)


def test_the_same_items_give_the_same_bits() -> None:
    items = CATALOGUES["1,100 features"]
    for array, again in zip(estimate_background(items, FLOAT32), estimate_background(items, FLOAT32), strict=True):
        np.testing.assert_array_equal(array, again)


@pytest.mark.parametrize(
    ("n_axes", "n_leading"), [(3, 3), (MAX_LEADING, MAX_LEADING), (MAX_LEADING + 5, MAX_LEADING)]
)
def test_the_number_of_leading_axes_is_limited(n_axes: int, n_leading: int) -> None:
    none = np.zeros(1)
    assert Background(none, np.zeros((1, n_axes)), np.zeros(n_axes), none).n_leading == n_leading


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
