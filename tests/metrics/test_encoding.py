"""Encoded vectors have the distances and scores of the metric, in every space and jointly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from oahu import (
    OAHU,
    BilinearMetric,
    CosineMetric,
    EnsembleMetric,
    EuclideanMetric,
    InvalidInputError,
    InvalidTypeError,
    MahalanobisMetric,
)
from oahu.metrics import Metric

Floats = NDArray[np.floating]
Vector = list[float]

D = 4
MATRIX = np.random.default_rng(0).normal(size=(D, D))  # not symmetric


def ensemble(dtype: str, learned: bool) -> EnsembleMetric:
    learner = OAHU(n_layers=2, hidden_size=6, embedding_size=3, dtype=dtype, random_state=0).initialize(D)
    if learned:
        learner.partial_fit(np.random.default_rng(1).normal(size=(50, 3, D)))
    return learner.metric()


MAKERS: dict[str, Callable[[str], Metric]] = {
    "initial ensemble": lambda dtype: ensemble(dtype, learned=False),
    "learned ensemble": lambda dtype: ensemble(dtype, learned=True),
    "Mahalanobis": lambda dtype: MahalanobisMetric(MATRIX.astype(dtype)),
    "Mahalanobis to 2 dimensions": lambda dtype: MahalanobisMetric(MATRIX[:2].astype(dtype)),
    "bilinear": lambda dtype: BilinearMetric(MATRIX.astype(dtype), normalize=False),
    "bilinear normalized": lambda dtype: BilinearMetric(MATRIX.astype(dtype), normalize=True),
    "diagonal": lambda dtype: BilinearMetric(MATRIX[0].astype(dtype), normalize=False),
    "diagonal normalized": lambda dtype: BilinearMetric(MATRIX[0].astype(dtype), normalize=True),
    "Euclidean": lambda dtype: EuclideanMetric(D, dtype),
    "cosine": lambda dtype: CosineMetric(D, dtype),
}
BOUNDED = ("initial ensemble", "learned ensemble", "cosine")
BILINEAR = tuple(name for name in MAKERS if name.startswith(("bilinear", "diagonal")))
WITH_DISTANCES = tuple(name for name in MAKERS if name not in BILINEAR)
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}

every_metric = pytest.mark.parametrize("name", MAKERS)
both_types = pytest.mark.parametrize("dtype", ["float32", "float64"])


@cache
def metric_of(name: str, dtype: str) -> Metric:
    return MAKERS[name](dtype)


def items(seed: int, n: int = 20) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, D))


# -- the formulas, without numpy -------------------------------------------------------------------------


def multiply(matrix: Floats, x: Vector) -> Vector:
    rows = (np.diag(matrix) if matrix.ndim == 1 else matrix).tolist()
    return [math.fsum(m * v for m, v in zip(row, x, strict=True)) for row in rows]


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def unit(x: Vector) -> Vector:
    length = math.hypot(*x)
    return [v / length for v in x] if length else x


def embedded(metric: EnsembleMetric, x: Vector) -> list[Vector]:
    """f_0(x) ... f_L(x)."""
    hidden, spaces = x, []
    for level, (theta, c) in enumerate(zip(metric.embedding_weights, metric.embedding_biases, strict=True)):
        if level:
            raw = multiply(metric.hidden_weights[level - 1], hidden)
            hidden = [max(0.0, v + b) for v, b in zip(raw, metric.hidden_biases[level - 1].tolist(), strict=True)]
        spaces.append(unit([v + b for v, b in zip(multiply(theta, hidden), c.tolist(), strict=True)]))
    return spaces


def distances_by_hand(metric: Metric, a: Vector, b: Vector) -> list[float]:
    """Return the distance, or the negative score, in every space."""
    if isinstance(metric, EnsembleMetric):
        return list(map(math.dist, embedded(metric, a), embedded(metric, b)))
    if isinstance(metric, MahalanobisMetric):
        return [math.dist(multiply(metric.factor, a), multiply(metric.factor, b))]
    if isinstance(metric, BilinearMetric):
        left, right = (unit(a), unit(b)) if metric.normalize else (a, b)
        return [-dot(left, multiply(metric.matrix, right))]
    return [math.dist(unit(a), unit(b)) if isinstance(metric, CosineMetric) else math.dist(a, b)]


def index_distance(metric: Metric, query: Vector, item: Vector) -> float:
    """Return the distance of two encoded vectors in an index."""
    return math.dist(query, item) if metric.measure == "l2" else -dot(query, item)


# -- in every space --------------------------------------------------------------------------------------


@every_metric
@both_types
def test_space_distances_equal_the_formula(name: str, dtype: str) -> None:
    metric, a, b = metric_of(name, dtype), items(1), items(2)
    expected = [distances_by_hand(metric, *pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_allclose(metric.space_distances(a, b), np.transpose(expected), atol=TOLERANCE[dtype] * 10)


@every_metric
@both_types
def test_distances_of_encoded_vectors_equal_the_space_distances(name: str, dtype: str) -> None:
    metric, queries, table = metric_of(name, dtype), items(1), items(2)
    spaces = zip(metric.encode_queries(queries), metric.encode(table), strict=True)
    found = [
        [index_distance(metric, *pair) for pair in zip(asked.tolist(), encoded.tolist(), strict=True)]
        for asked, encoded in spaces
    ]
    np.testing.assert_allclose(found, metric.space_distances(queries, table), atol=TOLERANCE[dtype] * 10)


@every_metric
@both_types
def test_encode_returns_the_vectors_of_every_space(name: str, dtype: str) -> None:
    metric, table = metric_of(name, dtype), items(1)
    for encoded, space in zip(metric.encode(table), metric.spaces, strict=True):
        np.testing.assert_allclose(encoded, space.encode(table), atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", WITH_DISTANCES)
def test_queries_of_a_distance_are_encoded_as_items(name: str) -> None:
    metric, table = metric_of(name, "float32"), items(1)
    for asked, encoded in zip(metric.encode_queries(table), metric.encode(table), strict=True):
        np.testing.assert_array_equal(asked, encoded)


@every_metric
@both_types
def test_encoded_vectors_are_of_the_metrics_type(name: str, dtype: str) -> None:
    metric = metric_of(name, dtype)
    vectors = [*metric.encode(items(1)), *metric.encode_queries(items(1)), *metric.encode(items(1), joint=True)]
    assert {encoded.dtype for encoded in vectors} == {np.dtype(dtype)}


@every_metric
def test_dimensions_are_the_widths_of_the_encoded_vectors(name: str) -> None:
    metric = metric_of(name, "float32")
    assert [space.dimensions for space in metric.spaces] == [rows.shape[1] for rows in metric.encode(items(1))]
    assert [metric.dimensions] == [rows.shape[1] for rows in metric.encode(items(1), joint=True)]


@every_metric
def test_the_weights_of_the_spaces_sum_to_1(name: str) -> None:
    assert math.fsum(space.weight for space in metric_of(name, "float64").spaces) == pytest.approx(1, abs=1e-12)


def test_the_spaces_of_an_ensemble_are_its_experts() -> None:
    metric = ensemble("float64", learned=True)
    assert [(space.name, space.weight) for space in metric.spaces] == [
        (f"E_{level}", weight) for level, weight in enumerate(metric.metric_weights.tolist())
    ]


@pytest.mark.parametrize("name", [name for name in MAKERS if "ensemble" not in name])
def test_other_metrics_have_one_space(name: str) -> None:
    assert [space.weight for space in metric_of(name, "float32").spaces] == [1.0]


# -- in the joint space, and as the metric itself says ---------------------------------------------------


@every_metric
@both_types
def test_joint_vectors_have_the_metrics_scores(name: str, dtype: str) -> None:
    metric, queries, table = metric_of(name, dtype), items(1), items(2)
    (asked,), (encoded,) = metric.encode_queries(queries, joint=True), metric.encode(table, joint=True)
    found = [-index_distance(metric, *pair) for pair in zip(asked.tolist(), encoded.tolist(), strict=True)]
    np.testing.assert_allclose(found, metric.score(queries, table), atol=TOLERANCE[dtype] * 10)


@every_metric
def test_joint_vectors_rank_items_as_the_score_does(name: str) -> None:
    metric, queries, table = metric_of(name, "float64"), items(1, 5), items(2, 30)
    (asked,), (encoded,) = metric.encode_queries(queries, joint=True), metric.encode(table, joint=True)
    for query, point in zip(queries, asked.tolist(), strict=True):
        by_score = sorted(range(30), key=lambda i: -metric.score(query, table[i]))
        assert sorted(range(30), key=lambda i: index_distance(metric, point, encoded[i].tolist())) == by_score


@pytest.mark.parametrize("name", WITH_DISTANCES)
@both_types
def test_squared_distances_are_the_weighted_sum_of_those_in_the_spaces(name: str, dtype: str) -> None:
    metric: Any = metric_of(name, dtype)
    a, b = items(1), items(2)
    weights = [space.weight for space in metric.spaces]
    columns = metric.space_distances(a, b).T.tolist()
    expected = [math.sqrt(math.fsum(w * d * d for w, d in zip(weights, column, strict=True))) for column in columns]
    np.testing.assert_allclose(metric.distance(a, b), expected, atol=TOLERANCE[dtype] * 10)


@pytest.mark.parametrize("name", BILINEAR)
def test_space_distances_of_a_similarity_are_negative_scores(name: str) -> None:
    metric, a, b = metric_of(name, "float64"), items(1), items(2)
    np.testing.assert_array_equal(metric.space_distances(a, b), [-metric.score(a, b)])


# -- bounds and corners ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOUNDED)
@given(seed=st.integers(0, 2**32), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_no_space_exceeds_the_diameter(name: str, seed: int, scale: float) -> None:
    metric, a = metric_of(name, "float64"), scale * items(seed)
    assert metric.diameter is not None
    assert metric.space_distances(a, -a).max() <= metric.diameter + 1e-12


def test_opposite_directions_are_the_diameter_apart() -> None:
    metric = CosineMetric(2)
    assert metric.space_distances([[3.0, 0.0]], [[-1.0, 0.0]]).tolist() == [[metric.diameter]]


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in BOUNDED])
def test_other_metrics_have_no_diameter(name: str) -> None:
    assert metric_of(name, "float32").diameter is None


@pytest.mark.parametrize("name", ["cosine", "bilinear normalized", "diagonal normalized"])
def test_an_item_without_a_direction_stays_0(name: str) -> None:
    assert metric_of(name, "float32").encode(np.zeros((1, D)))[0].tolist() == [[0.0] * D]


@every_metric
@pytest.mark.parametrize("joint", [False, True])
def test_changing_encoded_vectors_does_not_change_the_items(name: str, joint: bool) -> None:
    table = items(1).astype(np.float32)  # of the metric's type: not copied
    before = table.copy()
    for encoded in metric_of(name, "float32").encode(table, joint):
        encoded[:] = 7
    np.testing.assert_array_equal(table, before)


@pytest.mark.parametrize("name", BILINEAR)
@both_types
def test_sparse_items_have_the_distances_of_dense_items(name: str, dtype: str) -> None:
    metric, a, b = metric_of(name, dtype), np.round(items(1)), np.round(items(2))
    found = metric.space_distances(sparse.csr_array(a), sparse.csr_array(b))
    np.testing.assert_allclose(found, metric.space_distances(a, b), atol=TOLERANCE[dtype] * 10)


# -- bad input -------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "NaN": (np.where(np.arange(3 * D).reshape(3, D) == 5, np.nan, 1.0), "NaN: row 1, feature 1"),
    "too many features": (np.ones((2, D + 1)), f"X has {D + 1} features"),
    "one item": (np.ones(D), r"shape \(n_items, n_features\)"),
    "no items": (np.ones((0, D)), "at least one"),
    "strings": ([["a"] * D], "must be real numbers"),
}


#: Every row for one metric, and one row for each metric.
BAD_FOR = pytest.mark.parametrize(
    ("name", "bad"), [*(("learned ensemble", bad) for bad in BAD), *((name, "NaN") for name in MAKERS)]
)


@BAD_FOR
@pytest.mark.parametrize("method", ["encode", "encode_queries"])
def test_invalid_items_are_not_encoded(name: str, method: str, bad: str) -> None:
    data, message = BAD[bad]
    with pytest.raises(InvalidInputError, match=message):
        getattr(metric_of(name, "float32"), method)(data)


@every_metric
def test_sparse_items_are_not_encoded(name: str) -> None:
    with pytest.raises(InvalidTypeError, match="toarray"):
        metric_of(name, "float32").encode(sparse.csr_array(np.ones((2, D))))


@BAD_FOR
def test_invalid_items_are_not_compared(name: str, bad: str) -> None:
    data, message = BAD[bad]
    with pytest.raises(InvalidInputError, match=message):
        metric_of(name, "float32").space_distances(data, data)


@every_metric
def test_arrays_of_different_lengths_are_rejected(name: str) -> None:
    with pytest.raises(InvalidInputError, match="Got 3 and 2"):
        metric_of(name, "float32").space_distances(items(1, 3), items(2, 2))
