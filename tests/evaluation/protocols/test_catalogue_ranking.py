"""Tests of the ranking of a catalogue against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oahu
from oahu.evaluation.protocols import catalogue_ranking
from oahu.evaluation.protocols.catalogue_ranking import CatalogueRanking, rank_by_metric

RNG = np.random.default_rng(0)
ITEMS = RNG.normal(size=(40, 5)).astype(np.float32)
QUERIES = RNG.normal(size=(13, 5)).astype(np.float32)
METRICS = {
    "Euclidean": oahu.EuclideanMetric(5),
    "cosine": oahu.CosineMetric(5),
    "Mahalanobis": oahu.MahalanobisMetric(RNG.normal(size=(3, 5)).astype(np.float32)),
    "bilinear": oahu.BilinearMetric(RNG.normal(size=(5, 5)).astype(np.float32)),
    "learned": oahu.OAHU(random_state=0).initialize(5).metric(),
    "anchored": oahu.AnchoredOAHU(random_state=0).partial_fit(RNG.normal(size=(60, 3, 5))).metric(),
}


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_best_items_have_the_highest_scores(metric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_ranking, "_BLOCK", 4)
    top = rank_by_metric(metric, ITEMS).top(QUERIES, 7)
    for query, found in zip(QUERIES, top, strict=True):
        scores = [metric.score(query, item) for item in ITEMS]
        assert found.tolist() == sorted(range(40), key=lambda row: -scores[row])[:7]


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_pairs_have_the_order_of_the_metric(metric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_ranking, "_PAIR_BLOCK", 10)
    pairs = np.random.default_rng(1).integers(13, size=(25, 2))
    scores = rank_by_metric(metric, ITEMS).pair_scores(QUERIES, pairs)
    expected = np.array([metric.score(QUERIES[a], QUERIES[b]) for a, b in pairs])
    if metric.measure == "l2":
        expected = -(expected**2)
    assert scores == pytest.approx(expected, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("width", [None, 3])
def test_excluded_items_are_left_out(width: int | None) -> None:
    rng, ranking = np.random.default_rng(2), rank_by_metric(METRICS["cosine"], ITEMS)
    exclude = rng.integers(40, size=13) if width is None else rng.integers(40, size=(13, width))
    everything = ranking.top(QUERIES, 39)
    for found, all_items, left_out in zip(ranking.top(QUERIES, 9, exclude), everything, exclude, strict=True):
        assert found.tolist() == [row for row in all_items if row not in np.atleast_1d(left_out)][:9]


def test_equal_items_are_in_the_order_of_the_catalogue() -> None:
    ranking = rank_by_metric(METRICS["Euclidean"], np.ones((20, 5), np.float32))
    assert ranking.top(QUERIES[:1], 20).tolist() == [list(range(20))]


def test_origin_is_subtracted_from_items_and_queries() -> None:
    origin = ITEMS.mean(axis=0)
    centred = rank_by_metric(METRICS["cosine"], ITEMS, origin)
    moved = rank_by_metric(METRICS["cosine"], ITEMS - origin)
    assert np.array_equal(centred.top(QUERIES, 10), moved.top(QUERIES - origin, 10))


def test_distances_are_precise_far_from_the_origin() -> None:
    far = np.float32(1_000)
    ranking = rank_by_metric(METRICS["Euclidean"], ITEMS + far)
    near = rank_by_metric(METRICS["Euclidean"], (ITEMS + far) - far)
    assert np.array_equal(ranking.top(QUERIES + far, 5), near.top((QUERIES + far) - far, 5))


def test_no_queries_have_no_items() -> None:
    ranking = CatalogueRanking(ITEMS, lambda items: items, lambda items: items)
    assert ranking.top(QUERIES[:0], 4).shape == (0, 4)
