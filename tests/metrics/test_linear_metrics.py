"""Mahalanobis and bilinear metrics against plain matrix products."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from oahu import (
    BilinearMetric,
    EuclideanMetric,
    InvalidInputError,
    MahalanobisMetric,
    NoDistanceError,
    OAHUError,
    OverflowedItemError,
    load,
)

Matrix = NDArray[np.float64]


def psd(rng: np.random.Generator, d: int, rank: int) -> Matrix:
    root = rng.standard_normal((d, rank))
    return np.asarray(root @ root.T)


# -- Mahalanobis ---------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(d=st.integers(1, 12), seed=st.integers(0, 2**32), data=st.data())
def test_squared_distance_is_the_quadratic_form(d: int, seed: int, data: st.DataObject) -> None:
    """This holds for singular matrices too."""
    rng = np.random.default_rng(seed)
    M = psd(rng, d, rank=data.draw(st.integers(0, d)))
    a, b = rng.standard_normal((2, 9, d))
    expected = np.einsum("ij,jk,ik->i", a - b, M, a - b)
    found = MahalanobisMetric.from_matrix(M).distance(a, b) ** 2
    np.testing.assert_allclose(found, expected, atol=1e-12 * (1 + np.linalg.norm(M)) * d)


def test_distance_is_scipys() -> None:
    rng = np.random.default_rng(0)
    M, (a, b) = psd(rng, 5, 5), rng.standard_normal((2, 20, 5))
    found = MahalanobisMetric.from_matrix(M).distance(a, b)
    np.testing.assert_allclose(found, np.diag(cdist(a, b, "mahalanobis", VI=M)), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [0, 1, 5])
def test_from_matrix_restores_the_matrix(rank: int, dtype: str) -> None:
    M = psd(np.random.default_rng(0), 5, rank).astype(dtype)
    metric = MahalanobisMetric.from_matrix(M)
    np.testing.assert_allclose(metric.matrix, M, atol=20 * np.finfo(dtype).eps * (1 + np.abs(M).max()))
    assert metric.dtype == dtype


def test_negative_eigenvalues_from_rounding_become_zero() -> None:
    metric = MahalanobisMetric.from_matrix(np.diag([2.0, -1e-14]))
    assert metric.distance([0.0, 0.0], [0.0, 5.0]) == 0.0


def test_a_matrix_of_integers_is_accepted() -> None:
    assert MahalanobisMetric.from_matrix(np.diag([4, 9])).distance([0, 0], [0, 1]) == pytest.approx(3.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_vectors_have_the_metrics_distances(rank: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    metric = MahalanobisMetric.from_matrix(psd(rng, 8, rank).astype(dtype))
    a, b = rng.standard_normal((2, 50, 8))
    between = np.linalg.norm(metric.transform(a).astype(np.float64) - metric.transform(b), axis=1)
    np.testing.assert_allclose(metric.distance(a, b), between, rtol=1e-4 if dtype == "float32" else 1e-12)


def test_factor_need_not_be_square() -> None:
    L = np.array([[1.0, 2.0, 2.0]])
    metric = MahalanobisMetric(L)
    assert metric.n_features == 3
    assert metric.transform(np.eye(3)).shape == (3, 1)
    assert metric.distance([0, 0, 0], [1, 1, 1]) == 5.0


@pytest.mark.parametrize("offset", [1e4, 2.0**20])
def test_a_common_offset_does_not_reduce_the_precision(offset: float) -> None:
    """The items are exact in float32, with and without the offset. Only their difference matters."""
    X, _ = load_digits(return_X_y=True)
    a, b = X[:100], X[100:200]
    metric = MahalanobisMetric.from_matrix(psd(np.random.default_rng(0), 64, 64).astype(np.float32))
    np.testing.assert_allclose(metric.distance(a + offset, b + offset), metric.distance(a, b), rtol=1e-6)


def test_offset_costs_no_more_than_the_rounding_of_the_items() -> None:
    X, _ = load_digits(return_X_y=True)
    a, b = X[:100] / 7, X[100:200] / 7
    metric = MahalanobisMetric.from_matrix(np.eye(64, dtype=np.float32))
    rounding = np.sqrt(64) * 1e4 * np.finfo(np.float32).eps
    assert np.abs(metric.distance(a + 1e4, b + 1e4) - metric.distance(a, b)).max() <= rounding


@pytest.mark.parametrize("exponent", [-30, -20, 20, 30])
def test_distance_scales_with_the_items(exponent: int) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 3))
    metric = MahalanobisMetric.from_matrix(np.eye(3, dtype=np.float32))
    scaled = metric.distance(a * 10.0**exponent, b * 10.0**exponent)
    assert scaled / 10.0**exponent == pytest.approx(np.linalg.norm(a - b), rel=1e-5)


def test_item_that_overflows_is_named() -> None:
    metric = MahalanobisMetric.from_matrix(1e4 * np.eye(2, dtype=np.float32))
    items = np.array([[1.0, 1.0], [1.0, 1.0], [3e38, 0.0]])
    with pytest.raises(OverflowedItemError) as caught:
        metric.transform(items)
    assert caught.value.row == 2


def test_score_is_minus_the_distance() -> None:
    metric = MahalanobisMetric.from_matrix(np.diag([4.0, 1.0]))
    assert metric.score([0, 0], [1, 0]) == -metric.distance([0, 0], [1, 0]) == -2.0


def test_there_is_one_space_with_weight_one() -> None:
    metric = MahalanobisMetric.from_matrix(np.diag([4.0, 1.0]))
    (space,) = metric.spaces
    assert (space.name, space.weight) == ("whole", 1.0)
    np.testing.assert_array_equal(space.encode(np.eye(2)), metric.transform(np.eye(2)))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.ones(3), "square"),
        ([[np.nan, 0], [0, 1]], "finite"),
        ([[np.inf, 0], [0, 1]], "finite"),
        ([[1, 5], [0, 1]], "symmetric"),
        ([[1j, 0], [0, 1]], "real numbers"),
        ([["a"]], "real numbers"),
        ([[1, 2], [3]], "ragged"),
    ],
)
def test_an_invalid_matrix_is_rejected(matrix: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        MahalanobisMetric.from_matrix(matrix)


@pytest.mark.parametrize("shape", [(), (0, 0), (2, 3), (2, 2, 2)])
def test_an_invalid_similarity_matrix_is_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="W must have shape"):
        BilinearMetric(np.ones(shape))


@pytest.mark.parametrize("shape", [(3,), (0, 2), (2, 2, 2)])
def test_an_invalid_factor_is_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match="factor must have shape"):
        MahalanobisMetric(np.ones(shape))


@pytest.mark.parametrize("dtype", ["int64", "float16", "longdouble", "bool"])
def test_metrics_accept_arrays_of_other_dtypes(tmp_path: Path, dtype: str) -> None:
    matrix = np.array([[1, 0], [0, 1]], dtype)
    for metric in (MahalanobisMetric(matrix), MahalanobisMetric.from_matrix(matrix), BilinearMetric(matrix)):
        metric.save(tmp_path / "metric")
        items = [[0.5, 0.25]], [[0.5, 0.5]]
        np.testing.assert_array_equal(load(tmp_path / "metric").score(*items), metric.score(*items))
        assert metric.score(*items)[0] != 0


def test_changing_the_given_arrays_does_not_change_the_metric() -> None:
    matrix = np.eye(2)
    metric = BilinearMetric(matrix)
    matrix[:] = 7
    np.testing.assert_array_equal(metric.matrix, np.eye(2))


def test_all_scores_are_the_scores_of_each() -> None:
    rng = np.random.default_rng(0)
    X, Y, W = rng.normal(size=(5, 3)), rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    metrics = (MahalanobisMetric(W), BilinearMetric(W), BilinearMetric(W[0]), EuclideanMetric(3, "float64"))
    for metric in metrics:
        each = [[metric.score(x, y) for y in Y] for x in X]
        np.testing.assert_allclose(metric.scores(X, Y), each, rtol=1e-12, atol=1e-15)
    sparse_scores = BilinearMetric(W).scores(sparse.csr_matrix(X), sparse.csr_matrix(Y))
    np.testing.assert_allclose(sparse_scores, BilinearMetric(W).scores(X, Y), rtol=1e-12)


def test_scores_that_overflow_name_the_item() -> None:
    with pytest.raises(InvalidInputError, match="Item 1 is too large"):
        EuclideanMetric(2, "float64").scores([[0.0, 0.0], [1e308, 1e308]], [[0.0, 0.0]])


@pytest.mark.parametrize(
    ("features", "kind"), [(0, "float32"), (True, "float32"), (2.0, "float32"), (2, "float16")]
)
def test_fixed_metrics_validate_their_parameters(features: Any, kind: str) -> None:
    with pytest.raises(InvalidInputError, match=r"at least 1|float32"):
        EuclideanMetric(features, kind)


@pytest.mark.parametrize(
    "items",
    [np.ones(2), np.ones((2, 3)), np.ones((0, 2)), [[np.nan, 0]], [["a", "b"]], sparse.csr_matrix(np.eye(2))],
)
def test_invalid_items_are_rejected(items: Any) -> None:
    with pytest.raises(InvalidInputError):
        MahalanobisMetric.from_matrix(np.eye(2)).transform(items)


@pytest.mark.parametrize(("a", "b"), [(np.ones(2), np.ones((1, 2))), (np.ones((2, 2)), np.ones((3, 2)))])
def test_different_numbers_of_items_are_rejected(a: Any, b: Any) -> None:
    with pytest.raises(InvalidInputError):
        MahalanobisMetric.from_matrix(np.eye(2)).distance(a, b)


# -- bilinear ------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(d=st.integers(1, 10), seed=st.integers(0, 2**32), normalize=st.booleans(), diagonal=st.booleans())
def test_score_is_the_bilinear_form(d: int, seed: int, normalize: bool, diagonal: bool) -> None:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(d if diagonal else (d, d))
    a, b = rng.standard_normal((2, 7, d))
    metric = BilinearMetric(W, normalize)
    full = np.diag(W) if diagonal else W
    expected = np.einsum("ij,jk,ik->i", a, full, b)
    if normalize:
        expected = expected / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(metric.score(a, b), expected, atol=1e-12 * d * (1 + np.abs(W).max()))


def test_score_need_not_be_symmetric() -> None:
    metric = BilinearMetric(np.array([[0.0, 1.0], [0.0, 0.0]]), normalize=False)
    assert (metric.score([1, 0], [0, 1]), metric.score([0, 1], [1, 0])) == (1.0, 0.0)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.coo_matrix])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sparse_items_score_as_dense_ones(form: Any, diagonal: bool, normalize: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 30, 8)) * (rng.random((2, 30, 8)) < 0.3)
    metric = BilinearMetric(rng.standard_normal(8 if diagonal else (8, 8)).astype(dtype), normalize)
    expected = metric.score(a, b)
    np.testing.assert_allclose(metric.score(form(a), form(b)), expected, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("sides", [(sparse.csr_matrix, np.asarray), (np.asarray, sparse.csr_matrix)])
def test_mixed_sparse_and_dense_items_score_like_dense_items_or_are_rejected(sides: tuple[Any, Any]) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 5, 3))
    metric = BilinearMetric(np.eye(3))
    try:
        found = metric.score(sides[0](a), sides[1](b))
    except OAHUError:
        return
    np.testing.assert_allclose(found, metric.score(a, b), rtol=1e-12)


def test_item_of_zeros_scores_0() -> None:
    assert BilinearMetric(np.eye(2)).score([0, 0], [3, 4]) == 0.0


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1e3, 1e25])
def test_lengths_do_not_matter_when_normalizing(scale: float, as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    metric = BilinearMetric(rng.standard_normal((4, 4)).astype(np.float32))
    a, b = rng.standard_normal((2, 6, 4))
    kind = sparse.csr_matrix if as_sparse else np.asarray
    np.testing.assert_allclose(metric.score(kind(scale * a), kind(b)), metric.score(a, b), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_item_whose_score_overflows_is_named(as_sparse: bool) -> None:
    metric = BilinearMetric(np.eye(2, dtype=np.float32), normalize=False)
    a, b = np.ones((3, 2)), np.ones((3, 2))
    a[1], b[1] = 1e30, 2e30
    kind = sparse.csr_matrix if as_sparse else np.asarray
    with pytest.raises(OverflowedItemError):
        metric.score(kind(a), kind(b))


@pytest.mark.parametrize("name", ["transform", "distance"])
def test_there_are_no_distances(name: str) -> None:
    items = [np.eye(2)] * (1 if name == "transform" else 2)
    with pytest.raises(NoDistanceError) as caught:
        getattr(BilinearMetric(np.eye(2)), name)(*items)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, OAHUError)


@pytest.mark.parametrize("diagonal", [False, True])
def test_nearest_distance_is_the_positive_part_of_the_symmetric_part(diagonal: bool) -> None:
    W = np.random.default_rng(0).standard_normal(5 if diagonal else (5, 5))
    full = np.diag(W) if diagonal else W
    values, vectors = np.linalg.eigh((full + full.T) / 2)
    assert values[0] < 0 < values[-1]
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    nearest = BilinearMetric(W, version=9).nearest_distance()
    np.testing.assert_allclose(nearest.matrix, expected, atol=1e-13)
    assert nearest.version == 9


def test_no_positive_semi_definite_matrix_is_nearer_than_the_nearest() -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((4, 4))
    M = BilinearMetric(W).nearest_distance().matrix
    root = np.linalg.cholesky(M + 1e-12 * np.eye(4))
    for _ in range(300):
        other = root + 10 ** rng.uniform(-4, 0) * rng.standard_normal((4, 4))
        assert np.linalg.norm(other @ other.T - W) >= np.linalg.norm(M - W) - 1e-9


# -- both ----------------------------------------------------------------------------------------------------


METRICS: dict[str, Any] = {
    "Mahalanobis": MahalanobisMetric(np.random.default_rng(0).standard_normal((3, 4)), 17),
    "bilinear": BilinearMetric(np.random.default_rng(0).standard_normal((4, 4)), False, 17),
    "diagonal": BilinearMetric(np.random.default_rng(0).standard_normal(4).astype(np.float32), True, 17),
}


def array_of(metric: Any) -> NDArray[Any]:
    array: NDArray[Any] = metric.factor if isinstance(metric, MahalanobisMetric) else metric.matrix
    return array


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("way", ["file", "pickle", "copy", "deepcopy"])
def test_copies_are_equal_and_read_only(name: str, way: str, tmp_path: Path) -> None:
    metric = METRICS[name]
    metric.save(tmp_path / "metric")
    back = {
        "file": lambda: load(tmp_path / "metric"),
        "pickle": lambda: pickle.loads(pickle.dumps(metric)),
        "copy": lambda: copy.copy(metric),
        "deepcopy": lambda: copy.deepcopy(metric),
    }[way]()
    assert type(back) is type(metric)
    np.testing.assert_array_equal(array_of(back), array_of(metric))
    assert array_of(back).dtype == array_of(metric).dtype
    assert back.version == 17
    assert getattr(back, "normalize", None) == getattr(metric, "normalize", None)
    assert not array_of(back).flags.writeable


@pytest.mark.parametrize("name", METRICS)
def test_attributes_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        METRICS[name].version = 3


def test_frozen_copies_the_arrays() -> None:
    array = np.eye(2)
    metric = MahalanobisMetric(array, 0)
    array[0, 0] = 7
    assert metric.factor[0, 0] == 1.0
