"""Tests of input scalings and PCA."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from oahu.evaluation.protocols.scaling import SCALINGS, fit_scaling
from oahu.exceptions import InvalidInputError

every_scaling = pytest.mark.parametrize("scaling", SCALINGS)

# Pixels as the digits have them. With at most 12 of at most 15, float32 is right to 1e-4: the means are off by
# 15 * 2^-24 at most, and what that is divided by is at least 1 / 12.
PIXELS = st.integers(1, 4).flatmap(
    lambda d: st.tuples(
        hnp.arrays(np.uint8, st.tuples(st.integers(1, 12), st.just(d)), elements=st.integers(0, 15)),
        hnp.arrays(np.uint8, st.tuples(st.integers(1, 4), st.just(d)), elements=st.integers(0, 15)),
    )
)


def by_hand(development: list[list[int]], items: list[list[int]], scaling: str) -> list[list[float]]:
    """Return each scaling, computed value by value."""
    every = [value for row in development for value in row]
    low, high = min(every), max(every)
    columns = list(zip(*development, strict=True))
    means = [sum(column) / len(column) for column in columns]
    deviations = [
        math.sqrt(sum((value - mean) ** 2 for value in column) / len(column))
        for column, mean in zip(columns, means, strict=True)
    ]

    def to_unit(row: list[float]) -> list[float]:
        length = math.hypot(*row)
        return [value / length for value in row] if length else row

    match scaling:
        case "range":
            return [[(value - low) / ((high - low) or 1) for value in row] for row in items]
        case "standard":
            return [[(v - m) / (s or 1) for v, m, s in zip(row, means, deviations, strict=True)] for row in items]
        case "unit":
            return [to_unit([float(value) for value in row]) for row in items]
        case "centred":
            return [to_unit([v - m for v, m in zip(row, means, strict=True)]) for row in items]
    return [[float(value) for value in row] for row in items]


@every_scaling
@given(both=PIXELS)
def test_scaling_matches_its_formula(scaling: str, both: tuple[NDArray[Any], NDArray[Any]]) -> None:
    development, items = both
    found = fit_scaling(development, scaling)(items)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_hand(development.tolist(), items.tolist(), scaling), atol=1e-4)


@every_scaling
@pytest.mark.parametrize("pca", [None, 2])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_items_are_not_modified(scaling: str, pca: int | None, dtype: Any) -> None:
    development = np.random.default_rng(0).integers(0, 255, (20, 3)).astype(dtype)
    before = development.copy()
    scaled = fit_scaling(development, scaling, pca)(development)
    scaled += 1
    assert (development == before).all()


@every_scaling
@pytest.mark.parametrize("pca", [None, 2])
def test_scaling_of_an_item_does_not_depend_on_other_items(scaling: str, pca: int | None) -> None:
    """Nothing is fitted on the scaled items."""
    rng = np.random.default_rng(1)
    development, items = rng.normal(size=(30, 3)), rng.normal(3, 5, size=(10, 3))
    scaled = fit_scaling(development, scaling, pca)
    one_by_one = np.concatenate([scaled(items[i : i + 1]) for i in range(len(items))])
    np.testing.assert_allclose(scaled(items), one_by_one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pca", [None, 3])
def test_block_size_does_not_matter(pca: int | None) -> None:
    X = np.random.default_rng(2).normal([5, 50, -3], [1, 3, 9], size=(10_000, 3))
    scaled = fit_scaling(X, "standard", pca)(X).astype(np.float64)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(value=st.floats(-1000, 1000, width=32), n=st.integers(1, 30))
def test_constant_feature_is_only_shifted(dtype: Any, value: float, n: int) -> None:
    """Its deviation is zero, regardless of the rounding of its mean."""
    development = np.full((n, 1), dtype(value) * dtype(0.1), dtype)
    found = fit_scaling(development, "standard")(development + dtype(2))
    np.testing.assert_allclose(found, 2, rtol=1e-4)


# -- principal components --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cloud() -> NDArray[np.float64]:
    rng = np.random.default_rng(3)
    return 7 + rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))


def test_whitened_items_have_unit_covariance(cloud: NDArray[np.float64]) -> None:
    whitened = fit_scaling(cloud, "standard", 5)(cloud).astype(np.float64)
    np.testing.assert_allclose(whitened.T @ whitened / len(whitened), np.eye(5), atol=1e-4)


def test_all_components_preserve_distances(cloud: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(pdist(fit_scaling(cloud, "none", 5)(cloud)), pdist(cloud), rtol=1e-5)


@pytest.mark.parametrize("n_components", [1, 3])
def test_components_match_scikit_learn_up_to_sign(cloud: NDArray[np.float64], n_components: int) -> None:
    fitted = PCA(n_components).fit(cloud[:40])
    found = fit_scaling(cloud[:40], "none", n_components)(cloud[40:])
    np.testing.assert_allclose(np.abs(found), np.abs(fitted.transform(cloud[40:])), rtol=1e-4, atol=1e-5)


def test_whitening_ignores_components_without_variance(cloud: NDArray[np.float64]) -> None:
    """With a constant and a repeated feature, two components have no variance, only rounding errors."""
    flat = np.column_stack([cloud, cloud[:, 0], np.full(len(cloud), 0.3)])
    whitened = fit_scaling(flat, "standard", 7)(flat)
    np.testing.assert_allclose(np.sort(whitened.std(axis=0)), [0, 0, 1, 1, 1, 1, 1], atol=1e-4)


# -- errors ----------------------------------------------------------------------------------------------


def test_unknown_scaling_lists_the_scalings() -> None:
    with pytest.raises(InvalidInputError, match=r"one of range, standard, unit, centred, none\. Got 'minmax'"):
        fit_scaling(np.eye(2), "minmax")


@pytest.mark.parametrize("pca", [0, 4, -1])
def test_too_many_components_are_rejected(pca: int) -> None:
    with pytest.raises(InvalidInputError, match=rf"from 1 to 3, the number of features\. Got {pca} instead"):
        fit_scaling(np.eye(3), "none", pca)
