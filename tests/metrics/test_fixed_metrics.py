"""Euclidean and cosine metrics against scipy's."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from oahu import CosineMetric, EuclideanMetric, InvalidInputError, load

X, _ = load_digits(return_X_y=True)
A, B = X[:100], X[100:200]


def test_euclidean_distances_are_scipys() -> None:
    metric = EuclideanMetric(64, "float64")
    np.testing.assert_allclose(metric.distance(A, B), np.diag(cdist(A, B)), rtol=1e-12)


def test_cosine_distances_are_the_chord_of_scipys_cosine() -> None:
    """||a - b||^2 = 2 (1 - cos) between items of unit length."""
    metric = CosineMetric(64, "float64")
    expected = np.sqrt(2 * np.diag(cdist(A, B, "cosine")))
    np.testing.assert_allclose(metric.distance(A, B), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", [EuclideanMetric, CosineMetric])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_have_the_metrics_distances(kind: type[EuclideanMetric], dtype: str) -> None:
    metric = kind(64, dtype)
    between = np.linalg.norm(metric.transform(A).astype(np.float64) - metric.transform(B), axis=1)
    np.testing.assert_allclose(metric.distance(A, B), between, rtol=100 * np.finfo(dtype).eps)
    assert metric.transform(A).dtype == dtype


@pytest.mark.parametrize("kind", [EuclideanMetric, CosineMetric])
def test_score_is_minus_the_distance(kind: type[EuclideanMetric]) -> None:
    np.testing.assert_array_equal(kind(64).score(A, B), -kind(64).distance(A, B))


@settings(max_examples=50)
@given(exponent=st.integers(-35, 35), seed=st.integers(0, 100))
def test_euclidean_distance_scales_with_the_items(exponent: int, seed: int) -> None:
    """The distance is a normal number of the dtype. Its square may overflow or underflow."""
    a, b = np.random.default_rng(seed).standard_normal((2, 3))
    metric = EuclideanMetric(3, "float32")
    scaled = metric.distance(a * 10.0**exponent, b * 10.0**exponent)
    assert scaled / 10.0**exponent == pytest.approx(np.linalg.norm(a - b), rel=1e-5)


@settings(max_examples=50)
@given(exponents=st.tuples(st.integers(-35, 35), st.integers(-35, 35)), seed=st.integers(0, 100))
def test_cosine_distance_does_not_depend_on_lengths(exponents: tuple[int, int], seed: int) -> None:
    a, b = np.random.default_rng(seed).standard_normal((2, 3))
    metric = CosineMetric(3, "float32")
    scaled = metric.distance(a * 10.0 ** exponents[0], b * 10.0 ** exponents[1])
    assert scaled == pytest.approx(metric.distance(a, b), abs=1e-5)


def test_a_zero_item_stays_zero_for_the_cosine() -> None:
    assert CosineMetric(2).distance([0.0, 0.0], [3.0, 4.0]) == pytest.approx(1.0)
    assert CosineMetric(2).distance([0.0, 0.0], [0.0, 0.0]) == 0.0


def test_a_common_offset_does_not_reduce_the_precision_of_euclidean_distance() -> None:
    """The items are exact in float32, with and without the offset."""
    a, b = np.round(A * 16), np.round(B * 16)
    metric = EuclideanMetric(64, "float32")
    np.testing.assert_allclose(metric.distance(a + 2.0**20, b + 2.0**20), metric.distance(a, b), rtol=1e-6)


@pytest.mark.parametrize("kind", [EuclideanMetric, CosineMetric])
def test_there_is_one_space_with_weight_one(kind: type[EuclideanMetric]) -> None:
    (space,) = kind(64).spaces
    assert (space.name, space.weight) == ("whole", 1.0)
    np.testing.assert_array_equal(space.encode(A), kind(64).transform(A))


@pytest.mark.parametrize("kind", [EuclideanMetric, CosineMetric])
def test_files_and_pickles_restore_the_metric(kind: type[EuclideanMetric], tmp_path: Path) -> None:
    metric = kind(64, "float64", 17)
    metric.save(tmp_path / "metric")
    for back in (load(tmp_path / "metric"), pickle.loads(pickle.dumps(metric))):
        assert type(back) is kind
        assert (back.n_features, back.dtype, back.version) == (64, np.dtype("float64"), 17)


def test_vectors_are_a_copy() -> None:
    items = np.ones((2, 3), np.float32)
    EuclideanMetric(3).transform(items)[:] = 7
    assert (items == 1).all()


@pytest.mark.parametrize("kind", [EuclideanMetric, CosineMetric])
@pytest.mark.parametrize(
    "items",
    [np.ones(3), np.ones((2, 4)), np.ones((0, 3)), [[np.nan, 0, 0]], [[np.inf, 0, 0]], [["a", "b", "c"]]],
)
def test_invalid_items_are_rejected(kind: type[EuclideanMetric], items: object) -> None:
    with pytest.raises(InvalidInputError):
        kind(3).transform(items)
