"""The anchored metric: its spaces, its formula, its files."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oahu
from oahu import AnchoredMetric, AnchoredOAHU, CosineMetric, ModelFileError, OverflowedItemError

RNG = np.random.default_rng(0)
ITEMS = RNG.standard_normal((60, 7)) * [5, 1, 1, 1, 1, 1, 0.1] + 0.5


@pytest.fixture(scope="module")
def metric() -> AnchoredMetric:
    rows = RNG.integers(0, 60, (200, 3))
    learner = AnchoredOAHU(n_layers=2, hidden_size=9, embedding_size=4, dtype="float64", random_state=0)
    learned = learner.partial_fit(ITEMS[rows]).metric()
    weights = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    return replace(learned, metric_weights=weights)


def test_before_the_first_constraint_it_ranks_as_the_softened_cosine() -> None:
    start = AnchoredOAHU(random_state=0).initialize(7).metric()
    softened = ITEMS / np.sqrt(np.square(ITEMS).sum(axis=1, keepdims=True) + (4 / 6) ** 3 * 7)
    expected = np.linalg.norm(softened[:, None] - softened[None], axis=2)
    assert -start.scores(ITEMS, ITEMS) == pytest.approx(expected, abs=1e-6)


def test_in_many_dimensions_it_starts_at_the_cosine() -> None:
    items = np.random.default_rng(1).standard_normal((50, 3_000))
    start = AnchoredOAHU(random_state=0, dtype="float64").initialize(3_000).metric()
    assert start.scores(items, items) == pytest.approx(
        CosineMetric(3_000, "float64").scores(items, items), rel=2e-3, abs=1e-6
    )


def test_the_squared_distance_is_the_weighted_sum_of_its_parts(metric: AnchoredMetric) -> None:
    a, b = ITEMS[:30], ITEMS[30:]
    squares = [np.square(part.encode(a) - part.encode(b)).sum(axis=1) for part in metric.weighted_spaces]
    expected = sum(part.weight * square for part, square in zip(metric.weighted_spaces, squares, strict=True))
    assert np.square(metric.distance(a, b)) == pytest.approx(expected)


def test_the_whitened_part_is_the_closed_form(metric: AnchoredMetric) -> None:
    V, f = metric.directions, metric.gains
    F = f[-1] * np.eye(7) + V.T @ np.diag(f[:-1] - f[-1]) @ V
    y = (ITEMS - metric.mean) @ F
    expected = y / np.sqrt(np.square(y).sum(axis=1, keepdims=True) + metric.softening[2])
    assert metric.weighted_spaces[1].encode(ITEMS) == pytest.approx(expected)


def test_no_vector_is_longer_than_one(metric: AnchoredMetric) -> None:
    far = np.vstack([ITEMS, 1e6 * ITEMS, np.zeros((1, 7))])
    assert np.linalg.norm(metric.transform(far), axis=1).max() <= 1 + 1e-9
    assert metric.diameter == 2.0


def test_verification_gives_the_experts_eight_times_their_weight(metric: AnchoredMetric) -> None:
    a, b = ITEMS[:30], ITEMS[30:]
    verifying = metric.for_verification
    expected = np.array([0.4, 0.3, 1.2, 0.8, 0.4]) / 3.1
    assert verifying.metric_weights == pytest.approx(expected)
    assert metric.metric_weights.tolist() == [0.4, 0.3, 0.15, 0.1, 0.05]
    found = oahu.Comparator(metric, threshold=0.5).compare_all(np.stack([a, b], axis=1))
    assert found.scores == pytest.approx(1 - verifying.distance(a, b) / 2)


def test_verification_begins_at_the_cosine() -> None:
    start = AnchoredOAHU(random_state=0, dtype="float64").initialize(7).metric()
    cosine = CosineMetric(7, "float64")
    assert start.for_verification.scores(ITEMS, ITEMS) == pytest.approx(cosine.scores(ITEMS, ITEMS), abs=1e-7)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_few_features_keep_their_lengths_in_verification(d: int) -> None:
    start = AnchoredOAHU(random_state=0, dtype="float64").initialize(d).metric()
    near, far = np.ones((1, d)), 3 * np.ones((1, d))
    assert start.for_verification.distance(near, far)[0] > 0.1


def test_verification_without_experts_uses_the_same_weights(metric: AnchoredMetric) -> None:
    start = replace(metric, metric_weights=np.array([0.6, 0.4, 0.0, 0.0, 0.0]))
    assert start.for_verification.metric_weights.tolist() == [0.6, 0.4, 0.0, 0.0, 0.0]


def test_names_and_weights_of_the_spaces(metric: AnchoredMetric) -> None:
    assert [part.name for part in metric.weighted_spaces] == ["unlearned", "whitened", "E_0", "E_1", "E_2"]
    assert [part.weight for part in metric.weighted_spaces] == metric.metric_weights.tolist()
    assert [space.name for space in metric.spaces] == ["whole"]


def test_a_space_without_weight_does_not_change_distances(metric: AnchoredMetric) -> None:
    alone = replace(metric, metric_weights=np.array([1.0, 0, 0, 0, 0]))
    assert not alone.transform(ITEMS)[:, 7:].any()
    assert alone.distance(ITEMS[0], ITEMS[1]) == pytest.approx(
        np.linalg.norm(metric.weighted_spaces[0].encode(ITEMS[:1]) - metric.weighted_spaces[0].encode(ITEMS[1:2]))
    )


def test_many_items_are_encoded_like_few(metric: AnchoredMetric) -> None:
    many = np.tile(ITEMS, (50, 1))
    assert metric.transform(many)[-60:] == pytest.approx(metric.transform(ITEMS), abs=1e-12)
    left, right = many[:1500], many[1500:]
    assert metric.score(left, right) == pytest.approx(-np.linalg.norm(
        metric.transform(left) - metric.transform(right), axis=1
    ))  # fmt: skip


def test_attributes_and_arrays_cannot_be_changed(metric: AnchoredMetric) -> None:
    for array in (metric.mean, metric.directions, metric.gains, metric.softening):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert not other.mean.flags.writeable
        np.testing.assert_array_equal(other.transform(ITEMS), metric.transform(ITEMS))


def test_a_saved_metric_is_loaded_unchanged(metric: AnchoredMetric, tmp_path: Path) -> None:
    metric.save(tmp_path / "metric.oahu")
    loaded = oahu.load(tmp_path / "metric.oahu")
    assert type(loaded) is AnchoredMetric
    assert loaded.version == metric.version == 200
    np.testing.assert_array_equal(loaded.transform(ITEMS), metric.transform(ITEMS))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("metric_weights", np.array([0.4, 0.3, 0.15, 0.1, 0.5]), "must sum to 1"),
        ("metric_weights", np.array([1.4, -0.4, 0.0, 0.0, 0.0]), "must sum to 1"),
        ("gains", np.array([1.0, -1.0, 1.0, 1.0]), "must not be negative"),
        ("softening", np.array([1.0, 1.0, -1.0]), "must not be negative"),
        ("mean", np.zeros(6), "mean"),
    ],
)
def test_a_file_with_invalid_arrays_is_rejected(
    metric: AnchoredMetric, tmp_path: Path, name: str, value: np.ndarray, why: str
) -> None:
    replace(metric, **{name: value}).save(tmp_path / "wrong.oahu")
    with pytest.raises(ModelFileError, match=why):
        oahu.load(tmp_path / "wrong.oahu")


def test_an_item_too_large_is_named(metric: AnchoredMetric) -> None:
    items = ITEMS.copy()
    items[41] = 1e200
    with pytest.raises(OverflowedItemError, match="Item 41 is too large"):
        metric.transform(items)
