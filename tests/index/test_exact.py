"""Exact search equals brute force in float64 in all of its code paths."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.index import blocks, exact, exact_search, projection, quantized
from oahu.index.exact import ExactIndex, Hits, Measure, search_all

Array = NDArray[Any]
MEASURES: list[Measure] = ["l2", "ip"]
both_measures = pytest.mark.parametrize("measure", MEASURES)


# -- the oracle ----------------------------------------------------------------------------------------


def all_apart(vectors: Array, query: Array, measure: Measure) -> Array:
    """The distances of all items to a query; equal rows have bit-identical distances."""
    items, asked = (np.asarray(each, np.float32).astype(np.float64) for each in (vectors, query))
    if measure == "l2":
        return np.asarray(np.sqrt(np.square(items - asked).sum(axis=1)))
    return np.asarray(-(items * asked).sum(axis=1))


def brute_force(vectors: Array, queries: Array, k: int, measure: Measure, removed: Any = ()) -> Hits:
    hits = Hits(np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), np.inf))
    there = np.setdiff1d(np.arange(len(vectors)), removed)
    for row, query in enumerate(queries):
        apart = all_apart(vectors[there], query, measure)
        nearest = np.lexsort((there, apart))[:k]
        hits.positions[row, : len(nearest)] = there[nearest]
        hits.distances[row, : len(nearest)] = apart[nearest]
    return hits


def assert_nearest(hits: Hits, vectors: Array, queries: Array, measure: Measure, removed: Any = ()) -> None:
    """Assert the positions of brute force, except for items with equal float64 distances."""
    expected = brute_force(vectors, queries, hits.positions.shape[1], measure, removed)
    assert hits.positions.dtype == np.int64
    lengths = np.linalg.norm(np.asarray(vectors, np.float32).astype(np.float64), axis=1)
    for row, query in enumerate(queries):
        found, wanted = hits.positions[row], expected.positions[row]
        np.testing.assert_array_equal(found < 0, wanted < 0)
        found, wanted, true = found[found >= 0], wanted[wanted >= 0], expected.distances[row][wanted >= 0]
        size = true if measure == "l2" else lengths[wanted] * np.linalg.norm(query.astype(np.float64))
        apart = all_apart(vectors[found], query, measure)
        other = found != wanted
        assert (np.abs(apart - true) <= 1e-12 * size)[other].all(), (found[other], wanted[other])
        assert len(set(found.tolist())) == len(found)
        assert not np.isin(found, removed).any()
        got = hits.distances[row][: len(found)]
        assert (np.abs(got - true) <= 1e-9 * size).all(), (got, true)
    assert np.isinf(hits.distances[hits.positions < 0]).all()


def assert_same(one: Hits, other: Hits) -> None:
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_allclose(one.distances, other.distances, rtol=1e-12)


# -- items of many kinds -------------------------------------------------------------------------------


def _clusters(rng: np.random.Generator, n: int, d: int) -> Array:
    """Unit vectors of classes that a metric has drawn close together."""
    centres = rng.normal(size=(3, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return np.asarray(centres[rng.integers(3, size=n)] + 1e-4 * rng.normal(size=(n, d)))


def _some_zeros(rng: np.random.Generator, n: int, d: int) -> Array:
    return np.asarray(rng.normal(size=(n, d)) * rng.integers(2, size=(n, 1)))


def _decaying(rng: np.random.Generator, n: int, d: int) -> Array:
    """Items with few dominant directions, which are projected."""
    return np.asarray(rng.normal(size=(n, d)) * 0.93 ** np.arange(d))


KINDS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "integers": lambda rng, n, d: rng.integers(-1, 2, size=(n, d)),
    "identical": lambda rng, n, d: np.tile(rng.normal(size=d), (n, 1)),
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "clusters": _clusters,
    "offset": lambda rng, n, d: 1e4 + 1e-2 * rng.normal(size=(n, d)),
    "tiny": lambda rng, n, d: 1e-25 * rng.normal(size=(n, d)),
    "tiny and drawn together": lambda rng, n, d: 1e-25 * _clusters(rng, n, d),
    "denormal": lambda rng, n, d: 1e-42 * rng.normal(size=(n, d)),
    "large": lambda rng, n, d: 1e15 * rng.normal(size=(n, d)),
    "of all sizes": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-25, 15, size=(n, 1)),
    "some zeros": _some_zeros,
    "decaying": _decaying,
}


def items_of(kind: str, n: int, d: int, seed: int = 0) -> Array:
    return KINDS[kind](np.random.default_rng(seed), n, d).astype(np.float32)


@st.composite
def problems(draw: st.DrawFn, most_dimensions: int = 200) -> dict[str, Any]:
    """Items, some of them removed, and queries, some of them equal to items."""
    kind, seed = draw(st.sampled_from(sorted(KINDS))), draw(st.integers(0, 2**32 - 1))
    d = draw(st.integers(1, most_dimensions))
    n, n_queries = draw(st.integers(0, 300)), draw(st.integers(1, 9))
    everything, rng = items_of(kind, n + n_queries, d, seed), np.random.default_rng(seed)
    vectors, queries = everything[:n], everything[n:]
    if n and draw(st.booleans()):
        queries[0] = vectors[rng.integers(n)]
    share = draw(st.sampled_from([0, 0.1, 1]))
    return {
        "kind": kind,
        "vectors": vectors,
        "queries": queries,
        "k": draw(st.integers(1, 12) | st.integers(1, 320)),
        "measure": draw(st.sampled_from(MEASURES)),
        "removed": np.flatnonzero(rng.random(n) < share),
    }


def answer(problem: dict[str, Any]) -> Hits:
    vectors = problem["vectors"]
    index = ExactIndex.empty(vectors.shape[1], problem["measure"]).add(vectors).remove(problem["removed"])
    return index.search(problem["queries"], problem["k"])


def assert_answered(problem: dict[str, Any], hits: Hits) -> None:
    given = [problem[name] for name in ("vectors", "queries", "measure", "removed")]
    assert_nearest(hits, *given)
    if problem["kind"] == "integers":  # float64 does not round integers, so ties are exact
        vectors, queries, measure, removed = given
        wanted = brute_force(vectors, queries, problem["k"], measure, removed)
        np.testing.assert_array_equal(hits.positions, wanted.positions)


MODULES = {
    "blocks": blocks,
    "exact": exact,
    "projection": projection,
    "quantized": quantized,
    "search": exact_search,
}


@contextmanager
def settings_of(**constants: Any) -> Iterator[None]:
    """Set constants, named ``module_CONSTANT``, inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            module, constant = name.split("_", 1)
            patch.setattr(MODULES[module], f"_{constant}", value)
        yield


#: Settings that project any items of more than two dimensions.
PROJECTED = {
    "projection_MIN_DIMENSIONS": 2,
    "projection_SAMPLE": 12,
    "projection_N_DIRECTIONS": 2,
    "projection_MAX_CANDIDATES": 1.0,
}
#: Settings that quantize any items and project none.
QUANTIZED = {"quantized_MIN_DIMENSIONS": 0, "quantized_MIN_ITEMS": 1, "projection_MIN_DIMENSIONS": 10**9}
WAYS = st.fixed_dictionaries(
    {},
    optional={
        "search_FEW_QUERIES": st.sampled_from([0, 10**9]),
        "search_SPARE": st.integers(0, 2),
        "search_SPARE_PROJECTED": st.integers(0, 2),
        "search_SPARE_QUANTIZED": st.integers(0, 2),
        "quantized_BLOCKS": st.integers(1, 3),
        "search_MAX_CANDIDATES": st.sampled_from([0, 16]),
        "search_CAPACITY": st.integers(1, 8),
        "search_TOTAL_CAPACITY": st.sampled_from([1, 64]),
        "search_MULTIPLIED": st.integers(1, 5),
        "exact_QUERIES": st.integers(1, 5),
        "blocks_WIDTH": st.sampled_from([64, 128]),
    },
)
MULTIPLIED = st.fixed_dictionaries({"blocks_LONG": st.sampled_from([0, 10**9])})  # minimum length for BLAS


# -- any items, any settings ---------------------------------------------------------------------------


@given(problem=problems())
@settings(max_examples=50)
def test_hits_equal_brute_force(problem: dict[str, Any]) -> None:
    assert_answered(problem, answer(problem))


@given(problem=problems(), way=WAYS, multiplied=MULTIPLIED)
@settings(max_examples=50)
def test_hits_equal_brute_force_with_any_settings(
    problem: dict[str, Any], way: dict[str, Any], multiplied: dict[str, Any]
) -> None:
    with settings_of(**way, **multiplied):
        hits = answer(problem)
    assert_answered(problem, hits)


@given(problem=problems(most_dimensions=40), way=WAYS)
@settings(max_examples=50)
def test_hits_equal_brute_force_with_projections(problem: dict[str, Any], way: dict[str, Any]) -> None:
    with settings_of(**PROJECTED, **way):
        hits = answer(problem)
    assert_answered(problem, hits)


@given(problem=problems(), way=WAYS)
@settings(max_examples=50)
def test_hits_equal_brute_force_with_quantized_items(problem: dict[str, Any], way: dict[str, Any]) -> None:
    with settings_of(**QUANTIZED, **way):
        hits = answer(problem)
    assert_answered(problem, hits)


@given(problem=problems(most_dimensions=4), d=st.integers(1, 140), seed=st.integers(0, 99), way=WAYS)
@settings(max_examples=50)
def test_searching_indexes_together_equals_searching_each(
    problem: dict[str, Any], d: int, seed: int, way: dict[str, Any]
) -> None:
    """The indexes have different sizes, dimensions and measures."""
    vectors = items_of("normal", 500 + len(problem["queries"]), d, seed)
    other = problem | {"kind": "normal", "measure": "l2", "removed": []}
    other |= {"vectors": vectors[:500], "queries": vectors[500:]}
    indexes = [ExactIndex.empty(each["vectors"].shape[1], each["measure"]) for each in (problem, other)]
    indexes = [
        index.add(each["vectors"]).remove(each["removed"])
        for index, each in zip(indexes, (problem, other), strict=True)
    ]
    with settings_of(**way):
        found = search_all(indexes, [problem["queries"], other["queries"]], problem["k"])
    for each, hits in zip((problem, other), found, strict=True):
        assert_answered(each, hits)


# -- each code path is used ----------------------------------------------------------------------------


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of the parts of a search."""
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def counted(*given: Any) -> Any:
            calls[name] += 1
            return function(*given)

        monkeypatch.setattr(owner, name, counted)

    for name in ("scan_one", "scan_groups", "keep_smallest_products", "collect_below"):
        count(exact_search, name)
    for name in ("_multiply", "_sort_values", "_upper_bound"):
        count(exact_search.Search, name)
    count(exact_search.QuantizedSearch, "_sort_values")
    count(exact, "run")
    return calls


def look(kind: str, n: int, d: int, n_queries: int, k: int, measure: Measure) -> ExactIndex:
    """Search, compare with brute force, and return the index."""
    everything = items_of(kind, n + n_queries, d)
    vectors, queries = everything[:n], everything[n:]
    index = ExactIndex.empty(d, measure).add(vectors)
    assert_nearest(index.search(queries, k), vectors, queries, measure)
    return index


@both_measures
@pytest.mark.parametrize("n_queries", [1, 3])
def test_few_queries_are_scanned_one_by_one(measure: Measure, n_queries: int, entered: Counter[str]) -> None:
    look("normal", 200, 8, n_queries, 5, measure)
    assert (entered["scan_one"], entered["scan_groups"]) == (n_queries, 0)


@both_measures
@pytest.mark.parametrize("n_queries", [4, 5, 33])
def test_more_queries_are_scanned_in_groups(measure: Measure, n_queries: int, entered: Counter[str]) -> None:
    look("normal", 200, 8, n_queries, 5, measure)
    assert entered["scan_groups"] > 0 == entered["scan_one"]


@both_measures
def test_long_vectors_are_multiplied(measure: Measure, entered: Counter[str]) -> None:
    assert look("normal", 300, 129, 4, 5, measure)._items.projection is None
    assert entered["keep_smallest_products"] > 0 == entered["scan_groups"]


@both_measures
def test_many_queries_are_multiplied_in_blocks(measure: Measure, entered: Counter[str]) -> None:
    look("normal", 300, 129, 600, 5, measure)
    assert entered["_multiply"] == 2


def test_very_many_queries_are_searched_in_blocks(entered: Counter[str]) -> None:
    look("normal", 70, 2, 5000, 3, "l2")
    assert entered["run"] == 2


@both_measures
def test_all_tied_items_are_collected(measure: Measure, entered: Counter[str]) -> None:
    look("integers", 400, 4, 6, 5, measure)  # queries are not items: ties at distance 0 need no collecting
    assert entered["collect_below"] > 0 == entered["_sort_values"]


@both_measures
@pytest.mark.parametrize("d", [3, 130])
@pytest.mark.parametrize("n_queries", [2, 6])
def test_the_first_of_thousands_of_identical_items_are_found(
    measure: Measure, d: int, n_queries: int, entered: Counter[str]
) -> None:
    vectors, queries = items_of("identical", 5000, d), items_of("normal", n_queries, d, 1)
    hits = ExactIndex.empty(d, measure).add(vectors).search(queries, 7)
    np.testing.assert_array_equal(hits.positions, np.tile(np.arange(7), (n_queries, 1)))
    assert entered["_sort_values"] == n_queries  # more ties than the capacity


@both_measures
@pytest.mark.parametrize("d", [4, 150])
@pytest.mark.parametrize("k", [123, 200, 400])
def test_many_neighbours_are_collected_instead_of_kept_during_a_scan(
    measure: Measure, d: int, k: int, entered: Counter[str]
) -> None:
    look("normal", 300, d, 5, k, measure)
    assert entered["_upper_bound"] == 5
    assert not entered["scan_one"] + entered["scan_groups"] + entered["keep_smallest_products"]


@both_measures
@pytest.mark.parametrize("n_queries", [2, 40])
@pytest.mark.parametrize("kind", ["normal", "integers", "clusters", "offset"])
def test_items_in_several_blocks(measure: Measure, n_queries: int, kind: str) -> None:
    assert look(kind, 9000, 5, n_queries, 10, measure)._items.n_blocks > 2


@both_measures
@pytest.mark.parametrize("n_queries", [2, 30])
@pytest.mark.parametrize(("n", "d"), [(2048, 129), (4500, 200)])
def test_long_vectors_with_few_dominant_directions_are_projected(
    measure: Measure, n_queries: int, n: int, d: int
) -> None:
    assert look("decaying", n, d, n_queries, 10, measure)._items.projection is not None


@pytest.mark.slow
@both_measures
@pytest.mark.parametrize(("n_queries", "k"), [(1, 10), (3, 1), (3, 60), (30, 150)])
@pytest.mark.parametrize("kind", ["normal", "clusters", "of all sizes"])
def test_long_vectors_without_a_projection_are_quantized(
    measure: Measure, n_queries: int, k: int, kind: str
) -> None:
    with settings_of(projection_MIN_DIMENSIONS=10**9):
        assert look(kind, 4500, 200, n_queries, k, measure)._items.quantized is not None


@both_measures
def test_few_or_short_vectors_are_not_quantized(measure: Measure) -> None:
    assert look("normal", 900, 129, 2, 5, measure)._items.quantized is None
    assert look("normal", 3000, 128, 2, 5, measure)._items.quantized is None


@both_measures
def test_projected_vectors_are_not_quantized(measure: Measure) -> None:
    assert look("decaying", 2300, 140, 2, 5, measure)._items.quantized is None


@both_measures
def test_a_growing_index_starts_to_quantize(measure: Measure) -> None:
    vectors, queries = items_of("normal", 5000, 140), items_of("normal", 3, 140, 1)
    index = ExactIndex.empty(140, measure)
    for start in range(0, 5000, 700):
        index = index.add(vectors[start : start + 700])
        assert_nearest(index.search(queries, 10), vectors[: index.n_added], queries, measure)
    assert index._items.quantized is not None


@both_measures
def test_settings_can_project_few_items(measure: Measure) -> None:
    with settings_of(**PROJECTED):
        assert look("normal", 12, 3, 5, 2, measure)._items.projection is not None


@both_measures
@pytest.mark.parametrize("n_queries", [2, 30])
def test_searches_with_and_without_a_projection_are_equal(measure: Measure, n_queries: int) -> None:
    everything = items_of("decaying", 2100, 150)
    vectors, queries = everything[:2070], everything[2070 : 2070 + n_queries]
    projected = ExactIndex.empty(150, measure).add(vectors)
    with settings_of(projection_MIN_DIMENSIONS=10**9):
        without = ExactIndex.empty(150, measure).add(vectors)
    assert (projected._items.projection is None, without._items.projection is None) == (False, True)
    assert_same(projected.search(queries, 9), without.search(queries, 9))


# -- long vectors whose projection rules out few items for some queries --------------------------------

#: Settings with which every search of projected items also multiplies.
BY_PRODUCTS = {"search_TRIAL": 1, "search_MEASURE_COST": 10**9}
D = 160


def offset_items(n: int, mean: float, seed: int = 0) -> Array:
    """Items that are projected, with a common mean."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=D)
    return (_decaying(rng, n, D) + mean * direction / np.linalg.norm(direction)).astype(np.float32)


def unlike_items(n: int, seed: int = 1) -> Array:
    """Queries, as of a bilinear metric, in directions that the projection leaves out."""
    return (np.random.default_rng(seed).normal(size=(n, D)) * 0.93 ** -np.arange(D)).astype(np.float32)


@given(problem=problems(most_dimensions=40), way=WAYS, tried=st.integers(1, 4), dear=st.sampled_from([0, 10**9]))
@settings(max_examples=50)
def test_hits_equal_brute_force_whether_scanned_or_multiplied(
    problem: dict[str, Any], way: dict[str, Any], tried: int, dear: int
) -> None:
    with settings_of(**PROJECTED, **way, search_TRIAL=tried, search_MEASURE_COST=dear):
        hits = answer(problem)
    assert_answered(problem, hits)


@pytest.mark.slow
@both_measures
@pytest.mark.parametrize(("k", "n_queries"), [(140, 3), (5, 70)])
@pytest.mark.parametrize("mean", [10.0, 1e4])
@pytest.mark.parametrize("kind", ["like items", "unlike items"])
def test_long_vectors_with_a_common_mean(measure: Measure, k: int, n_queries: int, mean: float, kind: str) -> None:
    """Some items are added after the projection was fitted, far away; some are added twice; some are removed."""
    first = offset_items(2300, mean)
    vectors = np.concatenate([first, -3 * first[:40], first[:300], 50 * unlike_items(20, 2)])
    queries = first[:n_queries] + np.float32(0.01) if kind == "like items" else unlike_items(n_queries)
    index = ExactIndex.empty(D, measure).add(first)
    assert index._items.projection is not None
    removed = np.arange(0, len(vectors), 7)
    later = index.add(vectors[len(first) :])
    assert later._items is index._items
    assert_nearest(later.remove(removed).search(queries, k), vectors, queries, measure, removed)
    assert_nearest(index.search(queries, k), first, queries, measure)


@both_measures
@pytest.mark.parametrize("n_queries", [2, 100])
def test_the_first_of_repeated_items_are_found(measure: Measure, n_queries: int) -> None:
    """There are more copies than candidates. Sums of integers are exact, so ties are exact."""
    rng = np.random.default_rng(0)
    sizes = np.maximum(1, 60 * 0.9 ** np.arange(D))
    vectors = np.repeat(np.rint(rng.normal(size=(60, D)) * sizes), 40, axis=0).astype(np.float32)
    queries = rng.integers(-9, 10, size=(n_queries, D)).astype(np.float32)
    with settings_of(projection_MAX_CANDIDATES=1.0, **BY_PRODUCTS):
        hits = ExactIndex.empty(D, measure).add(vectors).search(queries, 50)
    np.testing.assert_array_equal(hits.positions, brute_force(vectors, queries, 50, measure).positions)


@pytest.mark.parametrize("n_queries", [1, 3, 60])
@pytest.mark.parametrize("tiny", [0.0, 1e-25], ids=["same", "squares underflow"])
def test_the_first_of_many_collapsed_items_are_found_without_collecting(
    n_queries: int, tiny: float, entered: Counter[str]
) -> None:
    """A collapsed network encodes most items, and the queries, as the same vector: nothing needs collecting.

    Some items differ by so little that the square of the difference underflows in float32. They are farther away.
    """
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(9_000, 12)).astype(np.float32)
    vectors[:, 0] = 0
    vectors[rng.random(9_000) < 0.7] = 0
    almost = rng.choice(9_000, 5, replace=False)
    vectors[almost] = 0
    vectors[almost, 0] = tiny
    removed = np.flatnonzero(~vectors.any(axis=1))[[0, 2]]
    queries = vectors[:n_queries].copy()
    queries[::2] = 0
    hits = ExactIndex.empty(12).add(vectors).remove(removed).search(queries, 5)
    expected = brute_force(vectors, queries, 5, "l2", removed)
    np.testing.assert_array_equal(hits.positions, expected.positions)
    np.testing.assert_array_equal(hits.distances[::2], np.zeros_like(hits.distances[::2]))
    assert entered["_sort_values"] == 0


def test_many_queries_for_which_the_projection_rules_out_few_items_are_multiplied(entered: Counter[str]) -> None:
    """Queries, as of a bilinear metric, for which only left-out directions matter."""
    vectors, queries = items_of("normal", 2300, D), items_of("normal", 200, D, 1)
    vectors[:, :95] *= 10
    queries[:, :95] *= 1e-3
    index = ExactIndex.empty(D, "ip").add(vectors)
    assert index._items.projection is not None
    assert_nearest(index.search(queries, 5), vectors, queries, "ip")
    assert entered["_multiply"] == 2  # the trial queries, and the rest
    assert entered["_sort_values"] == 0


@both_measures
def test_queries_for_which_the_projection_rules_out_many_items_are_not_multiplied(
    measure: Measure, entered: Counter[str]
) -> None:
    assert look("decaying", 2300, D, 200, 5, measure)._items.projection is not None
    assert entered["scan_groups"] > 0 == entered["_multiply"]


def test_queries_that_products_cannot_decide_either_are_scanned(entered: Counter[str]) -> None:
    vectors = np.concatenate([offset_items(2300, 1e4), offset_items(200, 1e4, 3)])
    queries = vectors[2300:]
    index = ExactIndex.empty(D, "l2").add(vectors[:2300])
    with settings_of(search_MEASURE_COST=10**9, search_SPARE_PROJECTED=0):
        assert_nearest(index.search(queries, 5), vectors[:2300], queries, "l2")
    assert entered["_multiply"] == 1


# -- empty and changing indexes ------------------------------------------------------------------------


@both_measures
@pytest.mark.parametrize(("n_queries", "k"), [(0, 1), (1, 0), (1, 1), (4, 200)])
@pytest.mark.parametrize("d", [3, 130])
def test_an_empty_index_finds_nothing(measure: Measure, n_queries: int, k: int, d: int) -> None:
    hits = ExactIndex.empty(d, measure).search(np.zeros((n_queries, d)), k)
    assert_same(hits, Hits(np.full((n_queries, k), -1), np.full((n_queries, k), np.inf)))


@pytest.mark.parametrize(("n_queries", "k"), [(0, 3), (3, 0), (0, 0)])
def test_no_queries_or_no_neighbours_give_empty_hits(n_queries: int, k: int) -> None:
    hits = ExactIndex.empty(2).add(np.eye(2)).search(np.zeros((n_queries, 2)), k)
    assert (hits.positions.shape, hits.distances.shape) == ((n_queries, k), (n_queries, k))


def test_a_search_of_no_indexes_finds_nothing() -> None:
    assert search_all([], [], 3) == []


@pytest.mark.parametrize("n_queries", [1, 5])
def test_an_empty_index_among_others_finds_nothing(n_queries: int) -> None:
    full, empty = ExactIndex.empty(2).add(np.eye(2)), ExactIndex.empty(3)
    hits = search_all([empty, full], [np.zeros((n_queries, 3)), np.zeros((n_queries, 2))], 1)
    assert [each.positions.tolist() for each in hits] == [[[-1]] * n_queries, [[0]] * n_queries]


@pytest.mark.parametrize("n_queries", [1, 5])
def test_an_index_without_remaining_items_finds_nothing(n_queries: int) -> None:
    index = ExactIndex.empty(2).add(np.ones((70, 2))).remove(np.arange(70))
    assert (index.search(np.ones((n_queries, 2)), 3).positions == -1).all()


def test_removing_an_item_twice_equals_removing_it_once() -> None:
    index = ExactIndex.empty(1).add(np.arange(4.0)[:, None])
    once = index.remove(np.array([1]))
    assert_same(once.remove(np.array([1, 1])).search(np.zeros((1, 1)), 4), once.search(np.zeros((1, 1)), 4))


def test_positions_of_removed_items_are_not_reused() -> None:
    index = ExactIndex.empty(1).add(np.zeros((2, 1))).remove(np.array([1])).add(np.zeros((1, 1)))
    assert index.search(np.zeros((1, 1)), 3).positions.tolist() == [[0, 2, -1]]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Steps: add n items, or remove every n-th."""
    steps = st.tuples(st.just("add"), st.integers(0, 90)) | st.tuples(st.just("remove"), st.integers(2, 9))
    return draw(st.lists(steps, min_size=1, max_size=12))


def snapshots(history: list[tuple[str, int]], vectors: Array, measure: Measure) -> Iterator[tuple[ExactIndex, Any]]:
    """Yield the index after every step, and the positions removed so far."""
    index, removed = ExactIndex.empty(vectors.shape[1], measure), np.empty(0, np.int64)
    for what, number in history:
        if what == "add":
            index = index.add(vectors[index.n_added : index.n_added + number])
        else:
            out = np.arange(number // 2, index.n_added, number)
            index, removed = index.remove(out), np.union1d(removed, out)
        yield index, removed


@pytest.mark.parametrize("constants", [{}, PROJECTED], ids=["default", "projected"])
@given(
    history=histories(),
    kind=st.sampled_from(["integers", "decaying", "of all sizes"]),
    measure=st.sampled_from(MEASURES),
)
@settings(max_examples=25)
def test_an_index_is_not_changed_by_indexes_derived_from_it(
    constants: dict[str, Any], history: list[tuple[str, int]], kind: str, measure: Measure
) -> None:
    vectors, queries = items_of(kind, 1200, 4), items_of(kind, 5, 4, seed=1)
    with settings_of(**constants):
        for index, removed in list(snapshots(history, vectors, measure)):
            assert_nearest(index.search(queries, 6), vectors[: index.n_added], queries, measure, removed)


@both_measures
@pytest.mark.parametrize("d", [2, 140])
def test_adding_one_by_one_equals_adding_together(measure: Measure, d: int) -> None:
    vectors, queries = items_of("integers", 150, d), items_of("integers", 5, d, seed=1)
    index = ExactIndex.empty(d, measure)
    for vector in vectors:
        index = index.add(vector[None])
    assert_same(index.search(queries, 9), ExactIndex.empty(d, measure).add(vectors).search(queries, 9))


@both_measures
def test_a_growing_index_starts_to_project(measure: Measure) -> None:
    vectors, queries = items_of("decaying", 2600, 140), items_of("decaying", 5, 140, seed=1)
    index = ExactIndex.empty(140, measure)
    for some in np.split(vectors, [1000, 1400, 2500, 2501]):
        index = index.add(some)
    assert index._items.projection is not None
    assert_nearest(index.search(queries, 9), vectors, queries, measure)


@both_measures
@pytest.mark.parametrize("n_queries", [1, 5])
def test_ties_are_decided_by_the_float32_vectors(measure: Measure, n_queries: int) -> None:
    """The same integers in different orders: float64 sums of their squares are exact, float32 sums are not."""
    rng, size = np.random.default_rng(0), 2**24 if measure == "ip" else 2**13
    numbers = rng.integers(size // 2, size, size=40)
    tied = np.array([rng.permutation(numbers) for _ in range(20)])
    farther = 3 * numbers if measure == "l2" else -numbers
    index = ExactIndex.empty(40, measure).add(np.concatenate([np.tile(farther, (30, 1)), tied]).astype(np.float32))
    queries = np.full((n_queries, 40), measure == "ip", np.float32)
    np.testing.assert_array_equal(index.search(queries, 20).positions, np.tile(np.arange(30, 50), (n_queries, 1)))


@both_measures
@pytest.mark.parametrize("d", [8, 140])
@pytest.mark.parametrize("size", [1e-25, 1e-10, 1e15])
def test_queries_much_longer_or_shorter_than_the_items(measure: Measure, d: int, size: float) -> None:
    """Items too close together for a float32 scan: its rounding bound has to hold."""
    vectors = (items_of("identical", 300, d) + 3e-7 * items_of("normal", 300, d)) * np.float32(size)
    queries = items_of("normal", 6, d, seed=1) * np.float32(min(1 / size, 1e15))
    assert_nearest(ExactIndex.empty(d, measure).add(vectors).search(queries, 5), vectors, queries, measure)


@both_measures
@pytest.mark.parametrize("constants", [{}, PROJECTED], ids=["default", "projected"])
def test_the_rounding_bound_covers_the_longest_item(measure: Measure, constants: dict[str, Any]) -> None:
    """Each item is longer than the one before. The first need new memory, the others fit into the spare part."""
    vectors = items_of("normal", 60, 4) * np.arange(1, 61, dtype=np.float32)[:, None] ** 3
    with settings_of(**constants):
        index = ExactIndex.empty(4, measure)
        for some in np.split(vectors, [40, 50]):
            index = index.add(some)
    lengths = np.linalg.norm(index._items.as_scanned(vectors).astype(np.float64), axis=1)
    assert lengths.max() <= index.prepare(vectors[:1], 3).longest <= 1.001 * lengths.max()


@both_measures
def test_items_longer_than_earlier_ones_are_found(measure: Measure) -> None:
    """The rounding bound grows with the longest item, here in a projected index with spare memory."""
    vectors = items_of("decaying", 2500, 140)
    vectors[2400:] = 1e4 * items_of("normal", 100, 140, seed=1)
    queries = np.concatenate([vectors[2400:2403] + 1, vectors[:3]])
    old = ExactIndex.empty(140, measure).add(vectors[:2400])
    new = old.add(vectors[2400:])
    assert new._items is old._items
    assert_nearest(new.search(queries, 9), vectors, queries, measure)


@pytest.mark.parametrize("constants", [{}, PROJECTED], ids=["default", "projected"])
@both_measures
def test_two_indexes_derived_from_one_have_their_own_items(constants: dict[str, Any], measure: Measure) -> None:
    common, here, there = np.split(items_of("normal", 90, 4), [40, 65])
    queries = items_of("normal", 5, 4, seed=1)
    with settings_of(**constants):
        root = ExactIndex.empty(4, measure).add(common[:30]).add(common[30:])
        for branch, own in [(root.add(here), here), (root.add(there), there)]:
            assert_nearest(branch.search(queries, 9), np.concatenate([common, own]), queries, measure)


def test_two_threads_can_add_to_the_same_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread adds while the first is writing."""
    common, here, there = np.split(items_of("normal", 90, 4), [60, 75])
    root = ExactIndex.empty(4).add(common)
    write, branches = blocks.ItemBlocks.write, {}

    def interrupted(*given: Any) -> Any:
        monkeypatch.setattr(blocks.ItemBlocks, "write", write)
        branches["there"] = root.add(there)
        return write(*given)

    monkeypatch.setattr(blocks.ItemBlocks, "write", interrupted)
    branches["here"] = root.add(here)
    for name, own in [("here", here), ("there", there)]:
        assert_nearest(branches[name].search(own, 3), np.concatenate([common, own]), own, "l2")


@pytest.mark.slow
@both_measures
def test_threads_search_while_another_adds_and_removes(measure: Measure) -> None:
    vectors, queries = items_of("normal", 3000, 6), items_of("normal", 40, 6, seed=1)
    history = [("remove", 7) if step % 3 == 2 else ("add", 60) for step in range(60)]
    with ThreadPoolExecutor(4) as pool:
        running = [
            (index.n_added, removed, asked, pool.submit(index.search, asked, 8))
            for index, removed in snapshots(history, vectors, measure)
            for asked in (queries[:2], queries)
        ]
    for n_added, removed, asked, searching in running:
        assert_nearest(searching.result(), vectors[:n_added], asked, measure, removed)


def test_a_pickled_index_finds_the_same() -> None:
    vectors, queries = items_of("normal", 100, 4), items_of("normal", 5, 4, seed=1)
    index = ExactIndex.empty(4).add(vectors).remove(np.arange(0, 100, 3))
    assert_same(pickle.loads(pickle.dumps(index)).search(queries, 5), index.search(queries, 5))


# -- input ---------------------------------------------------------------------------------------------


FORMS: dict[str, Callable[[Array], Array]] = {
    "float64": lambda rows: rows.astype(np.float64),
    "every other row": lambda rows: np.repeat(rows, 2, axis=0)[::2],
    "every other column": lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
    "columns first": np.asfortranarray,
    "backwards": lambda rows: rows[::-1].copy()[::-1],
    "read only": lambda rows: np.frombuffer(rows.tobytes(), np.float32).reshape(rows.shape),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_queries", [2, 6])
def test_vectors_may_have_any_dtype_and_layout(form: str, n_queries: int) -> None:
    vectors, queries = items_of("normal", 100, 6), items_of("normal", n_queries, 6, seed=1)
    hits = ExactIndex.empty(6).add(FORMS[form](vectors)).search(FORMS[form](queries), 5)
    assert_nearest(hits, vectors, queries, "l2")


def test_float64_is_rounded_to_float32_first() -> None:
    index = ExactIndex.empty(1).add(np.array([[1.0], [1.0 - 1e-12]]))
    assert index.search(np.array([[1.0 - 1e-12]]), 2).positions.tolist() == [[0, 1]]


def test_added_vectors_are_copied() -> None:
    vectors = np.ones((3, 2), np.float32)
    index = ExactIndex.empty(2).add(vectors)
    vectors[:] = 5
    assert index.search(np.ones((1, 2)), 1).distances.tolist() == [[0]]


WRONG = [
    (np.nan, "Got nan instead"),
    (np.inf, "Got inf instead"),
    (-np.inf, "Got inf instead"),
    (2e18, r"must be below 1e\+18. Got 2e\+18 instead. Scale"),
    (1e300, "Got inf instead"),
]


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_vectors_whose_square_overflows_are_rejected(value: float, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"Item 1 is too large for a search: .* vector .*{message}"):
        ExactIndex.empty(3).add(np.array([[1, 0, 0], [0, value, 0], [value, 0, 0]]))


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_queries_whose_square_overflows_are_rejected(value: float, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"Item 1 is too large for a search: .* query .*{message}"):
        ExactIndex.empty(3).add(np.eye(3)).search(np.array([[1, 0, 0], [0, value, 0]]), 1)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 4), (2, 1), (2, 3, 1)])
def test_queries_of_another_length_are_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"queries must have shape \(n, 3\). Got shape \(\d.*\) instead"):
        ExactIndex.empty(3).add(np.eye(3)).search(np.zeros(shape), 1)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 4), (2, 1), (2, 3, 1)])
def test_vectors_of_another_length_are_rejected(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"vectors must have shape \(n, 3\). Got shape \(\d.*\) instead"):
        ExactIndex.empty(3).add(np.zeros(shape))


def test_an_index_is_usable_after_a_rejected_add() -> None:
    index = ExactIndex.empty(1).add(np.zeros((2, 1)))
    with pytest.raises(InvalidInputError):
        index.add(np.array([[1.0], [np.nan]]))
    assert index.add(np.zeros((1, 1))).search(np.zeros((1, 1)), 4).positions.tolist() == [[0, 1, 2, -1]]


@pytest.mark.parametrize("position", [-1, 3, 64, 10**6])
def test_positions_that_were_never_added_cannot_be_removed(position: int) -> None:
    with pytest.raises(InvalidInputError, match=rf"Positions must be in \[0, 3\). Got {position} instead"):
        ExactIndex.empty(3).add(np.eye(3)).remove(np.array([0, position]))


def test_a_negative_number_of_neighbours_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match=r"k must be at least 0. Got -1"):
        ExactIndex.empty(3).add(np.eye(3)).search(np.eye(3), -1)


def test_an_unknown_measure_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match=r"'l2' or 'ip'. Got 'cosine'"):
        ExactIndex.empty(3, "cosine")  # type: ignore[arg-type]
