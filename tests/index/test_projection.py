"""Shadows are never farther apart than what they stand for, and keys are as far off as is stated and no farther."""

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
def small_shadows(n_kept: int) -> Iterator[None]:
    """Shadows of so many directions for any dozen of items."""
    constants = {"_MIN_DIMENSIONS": n_kept, "_SAMPLE": 12, "_N_DIRECTIONS": n_kept, "_MAX_CANDIDATES": 1.0}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            patch.setattr(projection, name, value)
        yield


SHIFTS = ["none", "far away", "a thin layer", "on a ray"]


@st.composite
def searches(draw: st.DrawFn, shadows: bool = True) -> tuple[Search, Array]:
    """A search by small shadows, or by none, and the items that it is among."""
    n_kept = draw(st.integers(1, 5))
    d, n = draw(st.integers(n_kept + 1, 40)), draw(st.integers(12, 60))
    size, shift = 10.0 ** draw(st.integers(-20, 12)), draw(st.sampled_from(SHIFTS))
    vectors = isotropic(n + 4, d, draw(st.integers(0, 2**32 - 1))).astype(np.float64)
    if shift == "far away":
        vectors += 1e4
    elif shift == "a thin layer":
        vectors[:, n_kept:] *= 1e-6
    elif shift == "on a ray":  # products and shadows touch
        vectors = vectors[:1] * np.linspace(1, 2, len(vectors))[:, None]
    items = (vectors * size).astype(np.float32)
    with small_shadows(n_kept if shadows else 10**9):
        index = ExactIndex.empty(d, draw(st.sampled_from(MEASURES))).add(items[:n])
    assert (index._items.projection is not None) == shadows
    return index.prepare(items[n:], 3), items[:n]


def true_keys(search: Search, items: Array) -> Array:
    """Squared distances, or minus the products, of all items from all queries."""
    queries, vectors = search.queries.astype(np.float64)[:, None], items.astype(np.float64)
    if search.euclidean:
        return np.asarray(np.square(queries - vectors).sum(axis=2))
    return np.asarray(-(queries * vectors).sum(axis=2))


def assert_not_farther(search: Search, items: Array) -> None:
    """Shadows are as near as items are, or nearer, but for the stated rounding."""
    _, off = search._relative_errors
    asked, there = (each.astype(np.float64) for each in (search.scanned_queries, search.items.as_scanned(items)))
    lengths, sizes = np.linalg.norm(asked, axis=1)[:, None], np.linalg.norm(there, axis=1)
    if search.euclidean:
        seen = np.linalg.norm(asked[:, None] - there, axis=2)
        assert (seen <= np.sqrt(true_keys(search, items)) + off * (lengths + sizes)).all()
    else:
        assert (-(asked @ there.T) <= true_keys(search, items) + 2 * off * lengths * sizes).all()


@given(given=searches())
@settings(max_examples=150)
def test_shadows_are_not_farther_apart_than_items_but_for_rounding(given: tuple[Search, Array]) -> None:
    assert_not_farther(*given)


@both_measures
def test_real_shadows_are_not_farther_apart_than_items(measure: Measure) -> None:
    items = decaying(2100, 160)
    search = ExactIndex.empty(160, measure).add(items).prepare(items[::300], 5)
    assert search.items.projection is not None
    assert_not_farther(search, items)


@pytest.mark.parametrize("shadows", [True, False])
@given(data=st.data())
@settings(max_examples=100)
def test_an_item_is_no_nearer_than_its_key_allows(shadows: bool, data: st.DataObject) -> None:
    search, items = data.draw(searches(shadows))
    true = true_keys(search, items)
    for keys, positions in passes(search, len(items)):
        for rank in range(len(items)):
            nearest = search.lower_bound(keys[:, rank])
            assert (nearest <= np.take_along_axis(true, positions[:, [rank]], axis=1)[:, 0]).all()


@pytest.mark.parametrize("shadows", [True, False])
@given(data=st.data())
@settings(max_examples=100)
def test_an_item_has_no_higher_key_than_its_distance_allows(shadows: bool, data: st.DataObject) -> None:
    search, items = data.draw(searches(shadows))
    true = true_keys(search, items)
    for keys, positions in passes(search, len(items)):
        highest = search._highest_key(np.take_along_axis(true, positions, axis=1), search.lengths[:, None])
        assert (keys <= highest).all()


@given(given=searches(), n_best=st.integers(1, 9))
@settings(max_examples=150)
def test_an_item_that_products_leave_out_is_no_nearer_than_they_allow(
    given: tuple[Search, Array], n_best: int
) -> None:
    search, items = given
    search.n_candidates = n_best
    positions, floor = search._multiply_all()
    true = true_keys(search, items)
    np.put_along_axis(true, positions, np.inf, axis=1)
    assert (true >= floor[:, None]).all()


def passes(search: Search, n: int) -> Iterator[tuple[Array, Array]]:
    """The keys of all items and their positions, as each pass over them gives these."""
    shape = (len(search.queries), n)
    keys, positions = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
    scan_groups(search.items.blocks, search.hidden, search.scanned_queries, search.euclidean, keys, positions)
    yield keys, positions
    keys, positions = np.full(shape, np.inf, np.float32), np.full(shape, -1, np.int64)
    for query, best, at in zip(search.scanned_queries, keys, positions, strict=True):
        scan_one(search.items.blocks, search.hidden, 0, len(search.hidden), query, search.euclidean, best, at)
    yield keys, positions
    yield (
        np.array([search._keys(query)[:n] for query in range(shape[0])]),
        np.tile(np.arange(n), (shape[0], 1)),
    )


@both_measures
def test_shadows_lose_nothing_of_items_in_the_directions_that_are_kept(measure: Measure) -> None:
    items = isotropic(60, 8)
    items[:, 3:] = 0
    with small_shadows(4):
        made = Projection.fit(items, measure == "l2")
    assert made is not None
    shadows = made.apply(items).astype(np.float64)
    seen, true = (each @ each.T for each in (shadows, (items - made.centre).astype(np.float64)))
    np.testing.assert_allclose(seen, true, atol=1e-5)


@pytest.mark.parametrize("euclidean", [True, False])
def test_the_last_coordinate_is_the_length_of_what_is_left(euclidean: bool) -> None:
    items = decaying(2100, 150)
    made = Projection.fit(items, euclidean)
    assert made is not None
    centred = items - made.centre
    left = centred - centred @ made.basis @ made.basis.T
    np.testing.assert_allclose(made.apply(items)[:, -1], np.linalg.norm(left, axis=1), rtol=1e-4)


def test_many_vectors_have_the_shadows_that_each_has() -> None:
    items = decaying(5000, 150)
    made = Projection.fit(items, True)
    assert made is not None
    shadows = made.apply(items)
    some = [0, 4095, 4096, 4999]  # either side of where blocks meet
    np.testing.assert_allclose(shadows[some], np.concatenate([made.apply(items[[i]]) for i in some]), atol=1e-5)


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
def test_shadows_that_would_rule_little_out_are_not_worth_having(items: Array, euclidean: bool) -> None:
    assert Projection.fit(items, euclidean) is None


@pytest.mark.parametrize("size", [1e-18, 1.0, 1e16])
def test_the_directions_tell_nearly_as_much_as_the_best_would(size: float) -> None:
    items = decaying(4096, 300) * np.float32(size)
    made = Projection.fit(items, True)
    assert made is not None
    centred = (items - made.centre) / size
    best = np.square(np.linalg.svd(centred, compute_uv=False)[: made.dimensions - 1]).sum()
    assert np.square(centred @ made.basis).sum() > 0.99 * best


def test_shadows_are_relative_to_the_centre() -> None:
    """Far from zero, all would be one direction."""
    assert Projection.fit(decaying(2048, 129) + np.float32(100), True) is not None
