"""Layout of the map: sampling, projection, alignment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from oahu.service.page.map_layout import align, project, sample, to_canvas

NUMBERS = st.lists(st.integers(0, 10**9), unique=True, max_size=60)
POINTS = arrays.arrays(np.float64, st.tuples(st.integers(3, 20), st.just(2)), elements=st.floats(-9, 9, width=32))


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(NUMBERS, st.integers(1, 80))
def test_a_sample_has_the_requested_size_and_is_sorted(numbers: list[int], size: int) -> None:
    indexes = sample(numbers, size).tolist()
    assert indexes == sorted(set(indexes))
    assert len(indexes) == min(size, len(numbers))


@given(NUMBERS, NUMBERS, st.integers(1, 40))
def test_a_growing_catalogue_adds_no_old_items_to_the_sample(old: list[int], new: list[int], size: int) -> None:
    grown = [*old, *(number for number in new if number not in old)]
    before = {old[at] for at in sample(old, size)}
    after = {grown[at] for at in sample(grown, size)}
    assert after & set(old) <= before


def test_a_sample_is_spread_over_the_catalogue() -> None:
    indexes = sample(np.arange(100_000), 1_000)
    assert np.histogram(indexes, bins=10, range=(0, 100_000))[0].min() > 60


@pytest.mark.parametrize("shape", [(50, 6), (6, 50)])
def test_project_is_pca_up_to_scale_and_signs(shape: tuple[int, int]) -> None:
    X = _rng().normal(size=shape) * np.linspace(3, 1, shape[1])
    expected = PCA(2).fit_transform(X)
    expected /= np.sqrt(np.square(expected).sum(axis=1).mean())
    np.testing.assert_allclose(np.abs(project(X)), np.abs(expected), atol=1e-9)


@given(POINTS)
def test_project_keeps_the_proportions_of_planar_points(points: Any) -> None:
    lifted = points @ np.linalg.qr(_rng(1).normal(size=(7, 2)))[0].T + 3.0
    before, after = pairwise_distances(points), pairwise_distances(project(lifted))
    scale = after.max() / before.max() if before.max() > 1e-3 else 0.0
    np.testing.assert_allclose(after if scale else 0.0, scale * before, atol=1e-5 * max(1.0, after.max()))


def test_project_of_equal_items_is_a_point() -> None:
    assert not project(np.full((5, 3), 7.0)).any()


def test_project_of_no_items_is_empty() -> None:
    assert project(np.empty((0, 4))).shape == (0, 2)


def test_project_of_one_feature_is_a_line() -> None:
    assert not project(np.arange(6.0)[:, None])[:, 1].any()


def test_project_of_very_large_vectors_is_finite() -> None:
    assert np.isfinite(project(_rng().normal(size=(9, 4)) * 1e200)).all()


@given(POINTS, st.floats(0, 2 * np.pi), st.booleans())
def test_align_undoes_a_rotation(points: Any, angle: float, mirrored: bool) -> None:
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    rotation = rotation @ np.diag([1, -1 if mirrored else 1])
    np.testing.assert_allclose(align(points @ rotation, points), points, atol=1e-6)


@given(POINTS, st.integers(0, 99))
def test_align_keeps_all_distances(points: Any, seed: int) -> None:
    other = _rng(seed).normal(size=points.shape)
    np.testing.assert_allclose(
        pairwise_distances(align(points, other)),
        pairwise_distances(points),
        atol=1e-6 * max(1, np.abs(points).max()),
    )


@given(POINTS, st.integers(0, 99), st.floats(0, 2 * np.pi))
def test_no_rotation_is_closer_than_align(points: Any, seed: int, angle: float) -> None:
    other = _rng(seed).normal(size=points.shape)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    best = np.square(align(points, other) - other).sum()
    assert best <= np.square(points @ rotation - other).sum() * (1 + 1e-9) + 1e-9


@given(POINTS)
def test_to_canvas_stays_in_the_unit_disc(points: Any) -> None:
    assert np.sqrt(np.square(to_canvas(points)).sum(axis=1)).max() <= 1.001


def test_to_canvas_keeps_the_direction_of_outliers() -> None:
    assert to_canvas([[30.0, 40.0]]) == [[0.6, 0.8]]
