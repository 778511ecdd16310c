"""Projections are never farther apart than their items, and the error bounds of sort values hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.index import projection
from oahu.index.exact import ExactIndex, Measure
from oahu.index.exact_search import Search
from oahu.index.projection import Projection
from oahu.index.scan_kernels import scan_groups, scan_one

Array = NDArray[Any]
MEASURES: list[Measure] = ["l2", "ip"]
both_measures = pytest.mark.parametrize("measure", MEASURES)


def isotropic(n: int, d: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def decaying(n: int, d: int, seed: int = 0) -> Array:
    return isotropic(n, d, seed) * (0.93 ** np.arange(d)).astype(np.float32)


@contextmanager
def small_projection(n_directions: int) -> Iterator[None]:
    """Project onto ``n_directions`` directions if there are at least twelve items."""
    constants = {
        "_MIN_DIMENSIONS": n_directions,
        "_SAMPLE": 12,
        "_N_DIRECTIONS": n_directions,
        "_MAX_CANDIDATES": 1.0,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            patch.setattr(projection, name, value)
        yield


SHIFTS = ["none", "far away", "a thin layer", "on a ray"]


@st.composite
def searches(draw: st.DrawFn, projected: bool = True) -> tuple[Search, Array]:
    """A search with a small projection, or without one, and its items."""
    n_directions = draw(st.integers(1, 5))
    d, n = draw(st.integers(n_directions + 1, 40)), draw(st.integers(12, 60))
    size, shift = 10.0 ** draw(st.integers(-20, 12)), draw(st.sampled_from(SHIFTS))
    vectors = isotropic(n + 4, d, draw(st.integers(0, 2**32 - 1))).astype(np.float64)
    if shift == "far away":
        vectors += 1e4
    elif shift == "a thin layer":
        vectors[:, n_directions:] *= 1e-6
    elif shift == "on a ray":  # the bounds are attained
        vectors = vectors[:1] * np.linspace(1, 2, len(vectors))[:, None]
    items = (vectors * size).astype(np.float32)
    with small_projection(n_directions if projected else 10**9):
        index = ExactIndex.empty(d, draw(st.sampled_from(MEASURES))).add(items[:n])
    assert (index._items.projection is not None) == projected
    return index.prepare(items[n:], 3), items[:n]


def true_sort_values(search: Search, items: Array) -> Array:
    """The squared distances, or negative inner products, of all items and queries."""
    queries, vectors = search.queries.astype(np.float64)[:, None], items.astype(np.float64)
    if search.euclidean:
        return np.asarray(np.square(queries - vectors).sum(axis=2))
    return np.asarray(-(queries * vectors).sum(axis=2))


def assert_not_farther(search: Search, items: Array) -> None:
    """Assert that projections are at most as far apart as the items, up to the stated rounding."""
    _, off = search._relative_errors
    asked, there = (each.astype(np.float64) for each in (search.scanned_queries, search.items.as_scanned(items)))
    lengths, sizes = np.linalg.norm(asked, axis=1)[:, None], np.linalg.norm(there, axis=1)
    if search.euclidean:
        seen = np.linalg.norm(asked[:, None] - there, axis=2)
        assert (seen <= np.sqrt(true_sort_values(search, items)) + off * (lengths + sizes)).all()
    else:
        assert (-(asked @ there.T) <= true_sort_values(search, items) + 2 * off * lengths * sizes).all()


@given(given=searches())
@settings(max_examples=50)
def test_projections_are_not_farther_apart_than_items_up_to_rounding(given: tuple[Search, Array]) -> None:
    assert_not_farther(*given)


@both_measures
def test_projections_with_default_settings_are_not_farther_apart_than_items(measure: Measure) -> None:
    items = decaying(2100, 160)
    search = ExactIndex.empty(160, measure).add(items).prepare(items[::300], 5)
    assert search.items.projection is not None
    assert_not_farther(search, items)


@pytest.mark.parametrize("projected", [True, False])
@given(data=st.data())
@settings(max_examples=50)
def test_the_lower_bound_of_a_key_holds(projected: bool, data: st.DataObject) -> None:
    search, items = data.draw(searches(projected))
    true = true_sort_values(search, items)
    for sort_values, positions in scans(search, len(items)):
        for rank in range(len(items)):
            nearest = search.lower_bound(sort_values[:, rank])
            assert (nearest <= np.take_along_axis(true, positions[:, [rank]], axis=1)[:, 0]).all()


@pytest.mark.parametrize("projected", [True, False])
@given(data=st.data())
@settings(max_examples=50)
def test_the_highest_sort_value_of_a_distance_holds(projected: bool, data: st.DataObject) -> None:
    search, items = data.draw(searches(projected))
    true = true_sort_values(search, items)
    for sort_values, positions in scans(search, len(items)):
        highest = search._highest_sort_value(np.take_along_axis(true, positions, axis=1), search.lengths[:, None])
        assert (sort_values <= highest).all()


@given(given=searches(), n_best=st.integers(1, 9))
@settings(max_examples=50)
def test_the_floor_of_products_holds_for_all_other_items(given: tuple[Search, Array], n_best: int) -> None:
    search, items = given
    search.n_candidates = n_best
    positions, floor = search._multiply_all()
    true = true_sort_values(search, items)
    np.put_along_axis(true, positions, np.inf, axis=1)
    assert (true >= floor[:, None]).all()


def scans(search: Search, n: int) -> Iterator[tuple[Array, Array]]:
    """Yield the sort values of all items and their positions, from each kind of scan."""
    shape = (len(search.queries), n)
    sort_values, positions = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
    scan_groups(
        search.items.blocks, search.hidden, search.scanned_queries, search.euclidean, sort_values, positions
    )
    yield sort_values, positions
    sort_values, positions = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
    for query, best, at in zip(search.scanned_queries, sort_values, positions, strict=True):
        scan_one(search.items.blocks, search.hidden, 0, len(search.hidden), query, search.euclidean, best, at)
    yield sort_values, positions
    yield (
        np.array([search._sort_values(query)[:n] for query in range(shape[0])]),
        np.tile(np.arange(n), (shape[0], 1)),
    )


@both_measures
def test_projections_of_items_inside_the_subspace_are_exact(measure: Measure) -> None:
    items = isotropic(60, 8)
    items[:, 3:] = 0
    with small_projection(4):
        made = Projection.fit(items, measure == "l2")
    assert made is not None
    projected = made.apply(items).astype(np.float64)
    seen, true = (each @ each.T for each in (projected, (items - made.centre).astype(np.float64)))
    np.testing.assert_allclose(seen, true, atol=1e-5)


@pytest.mark.parametrize("euclidean", [True, False])
def test_the_last_coordinate_is_the_length_of_the_residual(euclidean: bool) -> None:
    items = decaying(2100, 150)
    made = Projection.fit(items, euclidean)
    assert made is not None
    centred = items - made.centre
    left = centred - centred @ made.basis @ made.basis.T
    np.testing.assert_allclose(made.apply(items)[:, -1], np.linalg.norm(left, axis=1), rtol=1e-4)


def test_projecting_many_vectors_equals_projecting_each() -> None:
    items = decaying(5000, 150)
    made = Projection.fit(items, True)
    assert made is not None
    projected = made.apply(items)
    some = [0, 4095, 4096, 4999]  # both sides of block boundaries
    np.testing.assert_allclose(projected[some], np.concatenate([made.apply(items[[i]]) for i in some]), atol=1e-5)


@pytest.mark.parametrize("euclidean", [True, False])
def test_the_directions_are_orthonormal(euclidean: bool) -> None:
    made = Projection.fit(decaying(2048, 129), euclidean)
    assert made is not None
    np.testing.assert_allclose(made.basis.T @ made.basis, np.eye(made.dimensions - 1), atol=1e-13)


@pytest.mark.parametrize("euclidean", [True, False])
@pytest.mark.parametrize(
    "items",
    [decaying(2047, 129), decaying(2048, 128), isotropic(2048, 300), np.ones((2048, 129), np.float32)],
    ids=["few", "short", "isotropic", "identical"],
)
def test_no_projection_is_fitted_where_it_would_rule_out_little(items: Array, euclidean: bool) -> None:
    assert Projection.fit(items, euclidean) is None


@pytest.mark.parametrize("size", [1e-18, 1.0, 1e16])
def test_the_directions_explain_nearly_as_much_variance_as_the_best(size: float) -> None:
    items = decaying(4096, 300) * np.float32(size)
    made = Projection.fit(items, True)
    assert made is not None
    centred = (items - made.centre) / size
    best = np.square(np.linalg.svd(centred, compute_uv=False)[: made.dimensions - 1]).sum()
    assert np.square(centred @ made.basis).sum() > 0.99 * best


def test_projections_are_relative_to_the_centre() -> None:
    """Without centring, items far from zero would have one dominant direction."""
    assert Projection.fit(decaying(2048, 129) + np.float32(100), True) is not None
