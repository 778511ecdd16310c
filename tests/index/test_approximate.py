"""Approximate search: the interface of exact search, and nearly all of its hits."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from oahu.exceptions import InvalidInputError
from oahu.index import approximate
from oahu.index.approximate import ApproximateIndex
from oahu.index.exact import ExactIndex, Hits, Index, Measure, search_all

Array = NDArray[Any]
MEASURES: list[Measure] = ["l2", "ip"]
both_measures = pytest.mark.parametrize("measure", MEASURES)
DIGITS = load_digits().data  # 1,797 items of 64 features


def both(dimensions: int, measure: Measure) -> list[Index]:
    return [ApproximateIndex.empty(dimensions, measure), ExactIndex.empty(dimensions, measure)]


def assert_same(one: Hits, other: Hits) -> None:
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_allclose(one.distances, other.distances, rtol=1e-12, atol=1e-12)


def recall(found: Hits, expected: Hits) -> float:
    pairs = zip(found.positions.tolist(), expected.positions.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


# -- few items: equal to exact search ------------------------------------------------------------------


ADDED = st.tuples(st.just("add"), st.integers(0, 12))
REMOVED = st.tuples(st.just("remove"), st.integers(2, 5))


@given(
    history=st.lists(ADDED | REMOVED, max_size=5),
    measure=st.sampled_from(MEASURES),
    n_queries=st.integers(0, 4),
    k=st.integers(0, 60),
    integers=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50)
def test_searches_of_few_items_are_exact(
    history: list[tuple[str, int]], measure: Measure, n_queries: int, k: int, integers: bool, seed: int
) -> None:
    """Ties, removals, shapes and missing neighbours are as in the exact index."""
    rng, n_added = np.random.default_rng(seed), 0
    indexes = both(3, measure)

    def numbers(n: int) -> Array:
        drawn = rng.normal(size=(n, 3))
        return np.rint(drawn) if integers else drawn

    for what, number in history:
        if what == "add":
            new = numbers(number)
            indexes, n_added = [index.add(new) for index in indexes], n_added + number
        else:
            indexes = [index.remove(np.arange(number // 2, n_added, number)) for index in indexes]
    queries = numbers(n_queries)
    assert_same(*(index.search(queries, k) for index in indexes))


@both_measures
def test_items_added_one_by_one_are_found(measure: Measure) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 5))
    index = ApproximateIndex.empty(5, measure)
    for vector in vectors:
        index.add(vector[None])
    assert_same(index.search(vectors, 8), ExactIndex.empty(5, measure).add(vectors).search(vectors, 8))


def test_it_can_be_searched_together_with_an_exact_index() -> None:
    indexes = [index.add(np.eye(3)) for index in both(3, "l2")]
    assert_same(*search_all(indexes, [np.eye(3), np.eye(3)], 2))


def test_add_and_remove_change_the_index_in_place() -> None:
    index = ApproximateIndex.empty(3)
    assert index.add(np.eye(3)) is index.remove(np.array([1])) is index


def test_positions_of_removed_items_are_not_reused() -> None:
    index = ApproximateIndex.empty(1).add(np.zeros((2, 1))).remove(np.array([1])).add(np.zeros((1, 1)))
    assert index.search(np.zeros((1, 1)), 3).positions.tolist() == [[0, 2, -1]]


# -- many items: graph search --------------------------------------------------------------------------


@both_measures
def test_recall_on_digits(measure: Measure) -> None:
    found, expected = (index.add(DIGITS).search(DIGITS, 10) for index in both(64, measure))
    assert recall(found, expected) >= 0.95


@both_measures
@pytest.mark.parametrize("n_queries", [1, 300])
def test_distances_are_computed_in_float64(measure: Measure, n_queries: int) -> None:
    hits = ApproximateIndex.empty(64, measure).add(DIGITS).search(DIGITS[:n_queries], 10)
    items, queries = DIGITS[hits.positions], DIGITS[:n_queries, None]
    true = np.linalg.norm(items - queries, axis=2) if measure == "l2" else -(items * queries).sum(axis=2)
    np.testing.assert_allclose(hits.distances, true, rtol=1e-12)


@both_measures
def test_hits_are_sorted_by_distance_then_position(measure: Measure) -> None:
    hits = ApproximateIndex.empty(64, measure).add(np.repeat(DIGITS[:300], 3, axis=0)).search(DIGITS, 12)
    rows = [list(zip(*row, strict=True)) for row in zip(hits.distances, hits.positions, strict=True)]
    assert rows == [sorted(row) for row in rows]


@both_measures
def test_removed_items_are_not_found(measure: Measure) -> None:
    removed = np.arange(0, len(DIGITS), 3)
    hits = ApproximateIndex.empty(64, measure).add(DIGITS).remove(removed).search(DIGITS, 10)
    assert not np.isin(hits.positions, removed).any()


def test_remaining_items_are_found_after_removals() -> None:
    removed = np.arange(0, len(DIGITS), 3)
    found, expected = (index.add(DIGITS).remove(removed).search(DIGITS, 10) for index in both(64, "l2"))
    assert recall(found, expected) >= 0.95


def test_removed_items_free_their_memory() -> None:
    index = ApproximateIndex.empty(64).add(DIGITS)
    assert len(index.remove(np.arange(1000))._graph) == len(DIGITS) - 1000


def test_many_queries_are_searched_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    index = ApproximateIndex.empty(64).add(DIGITS)
    whole = index.search(DIGITS[:50], 10)
    monkeypatch.setattr(approximate, "_CANDIDATES", 70)
    assert_same(index.search(DIGITS[:50], 10), whole)


def test_a_wider_search_finds_more() -> None:
    vectors = np.random.default_rng(0).normal(size=(2000, 40))
    expected = ExactIndex.empty(40).add(vectors).search(vectors[:200], 10)
    narrow, wide = (
        ApproximateIndex.empty(40, connectivity=4, expansion_add=16, expansion_search=n).add(vectors)
        for n in (10, 400)
    )
    assert recall(narrow.search(vectors[:200], 10), expected) < recall(wide.search(vectors[:200], 10), expected)


# -- threads -------------------------------------------------------------------------------------------


class WatchedLock:
    """A lock that counts how often it was acquired."""

    def __init__(self) -> None:
        self.lock, self.n_acquired = threading.Lock(), 0

    def __enter__(self) -> None:
        self.lock.acquire()
        self.n_acquired += 1

    def __exit__(self, *_: object) -> None:
        self.lock.release()


class GuardedGraph:
    """A graph that records its calls and rejects those without the lock."""

    def __init__(self, graph: Any, lock: WatchedLock) -> None:
        self.graph, self.lock, self.calls = graph, lock, list[str]()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.graph, name)
        assert self.lock.lock.locked(), f"{name} is used without the lock"
        self.calls.append(name)
        return value

    def __len__(self) -> int:
        assert self.lock.lock.locked(), "len is used without the lock"
        return len(self.graph)


def test_a_search_sees_each_change_completely_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call holds the lock once, from its first to its last use of the graph, however many blocks it has."""
    monkeypatch.setattr(approximate, "_CANDIDATES", 12)
    index, lock = ApproximateIndex.empty(64), WatchedLock()
    graph = GuardedGraph(index._graph, lock)
    index._graph, index._lock = graph, lock  # type: ignore[assignment]
    index.add(DIGITS[:5])
    index.remove(np.arange(2))
    index.search(DIGITS[:9], 3)
    assert lock.n_acquired == 3
    assert (graph.calls.count("add"), graph.calls.count("remove")) == (1, 1)
    assert graph.calls.count("search") == graph.calls.count("get") == 3


def test_concurrent_adds_get_distinct_positions() -> None:
    index, vectors = ApproximateIndex.empty(4), np.random.default_rng(0).normal(size=(4, 250, 4))
    adding = [
        threading.Thread(target=lambda own: [index.add(each) for each in np.split(own, 50)], args=(own,))
        for own in vectors
    ]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    held = index._graph.get(np.arange(1000))  # a search may miss some
    expected = np.sort(vectors.astype(np.float32).reshape(1000, 4), axis=0)
    np.testing.assert_array_equal(np.sort(np.array(held).reshape(1000, 4), axis=0), expected)


# -- invalid input -------------------------------------------------------------------------------------


def test_the_error_without_usearch_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ImportError, match=r"oahu.index.approximate needs usearch: pip install 'oahu\[ann\]'"):
        ApproximateIndex.empty(3)


def test_an_unknown_measure_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match=r"'l2' or 'ip'. Got 'cosine'"):
        ApproximateIndex.empty(3, "cosine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "vectors", [np.zeros((2, 4)), np.zeros(3), np.full((1, 3), np.nan), np.full((1, 3), 1e300)]
)
def test_vectors_that_an_exact_index_rejects_are_rejected(vectors: Array) -> None:
    for index in both(3, "l2"):
        with pytest.raises(InvalidInputError, match=r"vector"):
            index.add(vectors)


@pytest.mark.parametrize("queries", [np.zeros((2, 4)), np.zeros(3), np.full((1, 3), np.inf)])
def test_queries_that_an_exact_index_refuses_are_rejected(queries: Array) -> None:
    with pytest.raises(InvalidInputError, match=r"query|queries"):
        ApproximateIndex.empty(3).add(np.eye(3)).search(queries, 1)


@pytest.mark.parametrize("position", [-1, 3])
def test_positions_that_were_never_added_cannot_be_removed(position: int) -> None:
    with pytest.raises(InvalidInputError, match=rf"Positions must be in \[0, 3\). Got {position} instead"):
        ApproximateIndex.empty(3).add(np.eye(3)).remove(np.array([0, position]))


def test_a_negative_number_of_neighbours_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match=r"k must be at least 0. Got -1"):
        ApproximateIndex.empty(3).search(np.eye(3), -1)
