"""Indexed items and the score of neighbours, against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import (
    OAHU,
    BilinearMetric,
    CosineMetric,
    EuclideanMetric,
    InvalidTypeError,
    MahalanobisMetric,
    OverflowedItemError,
)
from oahu.metrics import Metric
from oahu.tasks.indexed_items import (
    IndexedItems,
    SpaceNeighbours,
    VoteMode,
    as_metric,
    merge_rounding_ties,
    neighbour_scores,
    offset_error_rows,
    similarity_of,
)

Floats = NDArray[np.floating]

RNG = np.random.default_rng(0)
ITEMS, QUERIES = RNG.normal(size=(30, 3)), RNG.normal(size=(6, 3))
METRICS: dict[str, Metric] = {
    "ensemble": OAHU(n_layers=2, hidden_size=6, embedding_size=3, random_state=0).initialize(3).metric(),
    "Mahalanobis": MahalanobisMetric(RNG.normal(size=(2, 3))),
    "bilinear": BilinearMetric(RNG.normal(size=(3, 3)), normalize=False),
    "bilinear normalized": BilinearMetric(RNG.normal(size=(3, 3)), normalize=True),
    "Euclidean": EuclideanMetric(3),
    "cosine": CosineMetric(3),
}

every_metric = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
both_votes = pytest.mark.parametrize("vote", ["experts", "joint"])


def indexed_of(metric: Metric, vote: VoteMode = "experts") -> IndexedItems:
    return IndexedItems.empty(metric, vote).add(ITEMS)


def same(one: SpaceNeighbours, other: SpaceNeighbours) -> None:
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_allclose(one.distances, other.distances, atol=1e-6)


# -- indexed items -------------------------------------------------------------------------------------


@every_metric
@both_votes
def test_a_search_finds_the_nearest_items_in_each_space(metric: Metric, vote: VoteMode) -> None:
    found = indexed_of(metric, vote).search(QUERIES, 4)
    joint = vote == "joint"
    spaces = zip(metric.encode_queries(QUERIES, joint), metric.encode(ITEMS, joint), strict=True)
    for level, (asked, encoded) in enumerate(spaces):
        for row, query in enumerate(np.float32(asked).tolist()):
            items = np.float32(encoded).tolist()
            apart = [
                math.dist(query, item) if metric.measure == "l2" else -math.fsum(map(float.__mul__, query, item))
                for item in items
            ]
            nearest = sorted(range(len(items)), key=lambda i: apart[i])[:4]
            assert found.positions[level, row].tolist() == nearest
            assert found.distances[level, row].tolist() == pytest.approx([apart[i] for i in nearest], abs=1e-12)


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("name", ["ensemble", "Mahalanobis"])
def test_distances_at_positions_are_the_metrics_distances(name: str, approximate: bool) -> None:
    metric = METRICS[name]
    indexed = IndexedItems.empty(metric, "experts", approximate).add(ITEMS)
    positions = np.array([[0, 29, -1], [5, -1, 0], [-1, -1, -1], [1, 2, 3], [0, 0, 0], [7, 8, 9]])
    found = indexed.combined_distances(indexed.encode_queries(QUERIES), positions, ITEMS)
    expected = [
        [metric.distance(query, ITEMS[at]) if at >= 0 else math.inf for at in row]
        for query, row in zip(QUERIES, positions.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@every_metric
def test_there_is_an_index_for_each_space_of_the_metric(metric: Metric) -> None:
    indexed = IndexedItems.empty(metric, "experts")
    found = list(zip(indexed.space_names, indexed.weights.tolist(), strict=True))
    assert found == [(space.name, space.weight) for space in metric.spaces]


@every_metric
def test_joint_items_have_one_space_of_weight_1(metric: Metric) -> None:
    indexed = IndexedItems.empty(metric, "joint")
    assert (indexed.space_names, indexed.weights.tolist(), len(indexed.indexes)) == (("joint",), [1.0], 1)


@every_metric
@both_votes
def test_items_may_be_added_in_pieces(metric: Metric, vote: VoteMode) -> None:
    pieces = IndexedItems.empty(metric, vote).add(ITEMS[:1]).add(ITEMS[1:20]).add(ITEMS[20:])
    same(pieces.search(QUERIES, 5), indexed_of(metric, vote).search(QUERIES, 5))


def test_adding_items_does_not_change_the_original() -> None:
    indexed = indexed_of(EuclideanMetric(3))
    before = indexed.search(QUERIES, 3)
    indexed.add(QUERIES)
    same(indexed.search(QUERIES, 3), before)


def test_removed_items_are_not_found() -> None:
    indexed = indexed_of(METRICS["ensemble"]).remove(np.array([0, 7]))
    assert not {0, 7} & set(indexed.search(QUERIES, 30).positions.ravel().tolist())


def test_remaining_items_keep_their_positions() -> None:
    indexed = indexed_of(EuclideanMetric(3)).remove(np.array([0, 7]))
    assert indexed.search(ITEMS[[5, 29]], 1).positions.ravel().tolist() == [5, 29]


def test_adding_nothing_changes_nothing() -> None:
    indexed = indexed_of(EuclideanMetric(3))
    same(indexed.add(ITEMS[:0]).search(QUERIES, 5), indexed.search(QUERIES, 5))


def test_an_error_in_a_later_block_adds_nothing() -> None:
    indexed = IndexedItems.empty(MahalanobisMetric(np.full((1, 1), 1e10, np.float32))).add(np.array([[5.0]]))
    with pytest.raises(OverflowedItemError):
        indexed.add(np.append(np.ones(4500), 1e30)[:, None])
    found = indexed.add(np.array([[8.0]])).search([[0.0]], 3)
    assert found.positions.tolist() == [[[0, 1, -1]]]


def test_neighbours_beyond_the_number_of_items_are_missing() -> None:
    found = IndexedItems.empty(EuclideanMetric(1)).add(np.array([[1.0], [5.0]])).search([[4.0]], 3)
    assert found.positions.tolist() == [[[1, 0, -1]]]
    assert found.distances.tolist() == [[[1.0, 3.0, math.inf]]]


def test_encoding_many_items_equals_encoding_few() -> None:
    """There is more than one block of items."""
    items = np.arange(5000.0)[:, None]
    indexed = IndexedItems.empty(EuclideanMetric(1)).add(items)
    assert indexed.search([[4096.2], [4999.0]], 1).positions.ravel().tolist() == [4096, 4999]


def test_the_error_for_an_overflowing_item_names_its_row() -> None:
    items = np.ones((5000, 1))
    items[4500] = 1e30
    with pytest.raises(OverflowedItemError, match=r"^Item 4500 is too large") as caught:
        IndexedItems.empty(MahalanobisMetric(np.full((1, 1), 1e10, np.float32))).add(items)
    assert caught.value.row == 4500


def test_row_numbers_in_errors_are_offset_by_the_start_of_the_block() -> None:
    with pytest.raises(OverflowedItemError, match=r"^Item 12 is bad\.$") as caught, offset_error_rows(10):
        raise OverflowedItemError("Item 2 is bad.", 2)
    assert caught.value.row == 12


# -- scores of neighbours ------------------------------------------------------------------------------


def score_by_hand(distances: list[float], alpha: float) -> list[float]:
    """exp(-(D - d_min) / (d_max - d_min)) alpha over the present neighbours; alpha if all are equally far."""
    there = [d for d in distances if d < math.inf]
    if not there or max(there) == min(there):
        return [alpha if d < math.inf else 0.0 for d in distances]
    spread = max(there) - min(there)
    return [math.exp(-(d - min(there)) / spread) * alpha if d < math.inf else 0.0 for d in distances]


@given(data=st.data(), shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)))
def test_neighbour_scores_equal_the_papers_formula(data: st.DataObject, shape: tuple[int, int, int]) -> None:
    """Also with ties, missing neighbours and negative scores."""
    n = math.prod(shape)
    distance = st.integers(-2, 2).map(float) | st.floats(-1e3, 1e3) | st.just(math.inf)
    distances = np.sort(np.reshape(data.draw(st.lists(distance, min_size=n, max_size=n)), shape), axis=2)
    weights = np.array(data.draw(st.lists(st.floats(0, 1), min_size=shape[0], max_size=shape[0])))
    expected = [
        [score_by_hand(row, alpha) for row in space]
        for space, alpha in zip(distances.tolist(), weights.tolist(), strict=True)
    ]
    np.testing.assert_allclose(neighbour_scores(distances, weights), expected, rtol=1e-12, atol=1e-300)


def test_the_nearest_scores_alpha_and_the_kth_alpha_over_e() -> None:
    (((first, _, last),),) = neighbour_scores(np.array([[[0.1, 0.7, 3.0]]]), np.array([0.25])).tolist()
    assert (first, last) == (0.25, pytest.approx(0.25 / math.e))


# -- similarity ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("apart", "expected"), [(0.0, 1.0), (1.0, 0.5), (2.0, 0.0)])
@pytest.mark.parametrize("name", ["ensemble", "cosine"])
def test_the_similarity_of_a_bounded_metric_is_from_0_to_1(name: str, apart: float, expected: float) -> None:
    assert similarity_of(METRICS[name], apart) == expected


@pytest.mark.parametrize("name", ["Mahalanobis", "Euclidean", "bilinear", "bilinear normalized"])
def test_the_similarity_of_an_unbounded_metric_is_the_negative_distance(name: str) -> None:
    assert similarity_of(METRICS[name], 3.5) == -3.5


# -- the metric parameter ------------------------------------------------------------------------------


@every_metric
def test_a_metric_is_accepted(metric: Metric) -> None:
    assert as_metric(metric, object()) is metric


@pytest.mark.parametrize("learner", [OAHU(), OAHU().initialize(3)], ids=["new", "with features"])
def test_a_learner_is_rejected_with_a_hint(learner: OAHU) -> None:
    with pytest.raises(
        InvalidTypeError, match=r"Got OAHU instead\. Pass the result of the metric\(\) method of this object\.$"
    ):
        as_metric(learner, object())


@pytest.mark.parametrize("other", [None, "euclidean", np.eye(3), EuclideanMetric], ids=repr)
def test_anything_else_is_rejected(other: Any) -> None:
    with pytest.raises(
        InvalidTypeError,
        match=r"such as learner\.metric\(\)\. Got \w+ instead\.$",
    ):
        as_metric(other, object())


# -- many items ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        *(("ensemble", parts) for parts in ([1], [4096], [4097], [9000], [10, 4096, 5000], [4100, 4092, 1])),
        *((name, [4100, 4092, 1]) for name in ("cosine", "Euclidean", "bilinear")),
    ],
)
@both_votes
def test_items_have_the_right_positions_however_they_are_added(name: str, vote: VoteMode, parts: list[int]) -> None:
    """Several threads write blocks, and unit vectors are encoded directly into the index."""
    metric, rng = METRICS[name], np.random.default_rng(1)
    items = rng.normal(size=(sum(parts), 3)).astype(np.float32)
    indexed = IndexedItems.empty(metric, vote)
    for some in np.split(items, np.cumsum(parts)[:-1]):
        indexed = indexed.add(some)
    asked = items[rng.integers(len(items), size=20)] + rng.normal(size=(20, 3)) / 100
    found = indexed.search(asked, 3)
    joint = vote == "joint"
    spaces = zip(metric.encode_queries(asked, joint), metric.encode(items, joint), strict=True)
    for space, (queries, vectors) in enumerate(spaces):
        left, right = queries.astype(np.float64), vectors.astype(np.float64)
        products = left @ right.T
        squares = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1) - 2 * products
        apart = -products if metric.measure == "ip" else np.sqrt(np.maximum(squares, 0))
        nearest = np.sort(apart, axis=1)[:, :3]
        np.testing.assert_allclose(found.distances[space, :, : nearest.shape[1]], nearest, atol=2e-4)
        there = np.take_along_axis(apart, found.positions[space, :, : nearest.shape[1]], axis=1)
        np.testing.assert_allclose(there, nearest, atol=2e-4)


def test_the_error_names_the_first_of_several_overflowing_items() -> None:
    metric = MahalanobisMetric(np.full((1, 3), 1e10, np.float32))
    items = np.ones((13_000, 3), np.float32)
    items[[5_000, 9_000, 12_500]] = 1e35
    with pytest.raises(OverflowedItemError, match="Item 5000") as refused:
        IndexedItems.empty(metric).add(items)
    assert refused.value.row == 5_000


@pytest.mark.parametrize("name", ["ensemble", "Mahalanobis"])
def test_duplicates_are_equally_far_however_they_are_added(name: str) -> None:
    """Products of one row and of many rows may differ in the last bits."""
    same_item, others = RNG.normal(size=(1, 3)), RNG.normal(size=(50, 3))
    indexed = (
        IndexedItems.empty(METRICS[name], "experts")
        .add(np.concatenate([others, same_item]))
        .add(same_item)
        .add(same_item)
    )
    for asked in (same_item, np.repeat(same_item, 30, axis=0)):
        found = indexed.search(asked, 3)
        assert (found.positions == [50, 51, 52]).all()
        assert np.ptp(found.distances) == 0


def test_neighbours_within_rounding_are_ordered_by_position() -> None:
    found = SpaceNeighbours(np.array([[[9, 4, 7, -1]]]), np.array([[[0.1, 0.2, 0.2 + 1e-7, np.inf]]]))
    sorted_out = merge_rounding_ties(found, np.full((1, 1, 1), 1e-6))
    assert sorted_out.positions.tolist() == [[[9, 4, 7, -1]]]
    assert sorted_out.distances.tolist() == [[[0.1, 0.2, 0.2, np.inf]]]
