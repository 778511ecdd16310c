"""Retrieval against the paper's formulas in plain Python, and any sequence of changes against a new retriever."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import oahu
from oahu import (
    OAHU,
    BilinearMetric,
    CosineMetric,
    EnsembleMetric,
    EuclideanMetric,
    InvalidInputError,
    InvalidTypeError,
    MahalanobisMetric,
    Match,
    ModelFileError,
    OverflowedItemError,
    RetrievalResult,
    Retriever,
)
from oahu.io import model_files
from oahu.io.model_files import Content
from oahu.metrics import Metric
from oahu.metrics.metric import DistanceMetric
from oahu.tasks import indexed_items, retrieval
from oahu.tasks.matches import Key
from oahu.tasks.retrieval import Combine

Array = NDArray[Any]


# -- metrics of every kind -----------------------------------------------------------------------------


def ensemble(seed: int, dtype: str = "float64", d: int = 3) -> EnsembleMetric:
    """Experts of all depths, with different widths and weights."""
    rng, sizes = np.random.default_rng(seed), (d, 6, 5)

    def draw(*shape: int) -> Array:
        return rng.normal(size=shape).astype(dtype)

    return EnsembleMetric.frozen(
        [draw(out, into) for into, out in pairwise(sizes)],
        [draw(out) for out in sizes[1:]],
        [draw(4, into) for into in sizes],
        [draw(4) for _ in sizes],
        rng.dirichlet(np.ones(len(sizes))),
        version=seed,
    )


# These map integers to integers, so that ties are exact.
WITHOUT_ROUNDING: dict[str, Metric] = {
    "euclidean": EuclideanMetric(3, "float64", version=1),
    "mahalanobis": MahalanobisMetric(np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 1.0]]), version=2),
    "bilinear": BilinearMetric(np.array([[1.0, 2.0, 0.0], [2.0, 1.0, -1.0], [0.0, -1.0, 3.0]]), False, version=3),
    "not symmetric": BilinearMetric(np.array([[0.0, 3.0, 0.0], [-1.0, 1.0, 0.0], [2.0, 0.0, 1.0]]), False, 4),
    "diagonal": BilinearMetric(np.array([1.0, -2.0, 3.0]), False, version=5),
}
_W = np.random.default_rng(0).normal(size=(3, 3))
WITH_ROUNDING: dict[str, Metric] = {
    "cosine": CosineMetric(3, "float64", version=6),
    "cosine of unlike directions": BilinearMetric(_W, True, version=7),
    "symmetric cosine": BilinearMetric(_W + _W.T, True, version=8),
    "rotated": MahalanobisMetric(np.random.default_rng(1).normal(size=(2, 3)), version=9),
    "ensemble": ensemble(10),
    "float32 ensemble": ensemble(11, "float32"),
}
METRICS = WITHOUT_ROUNDING | WITH_ROUNDING

every_metric = pytest.mark.parametrize("name", METRICS)
metrics_without_rounding = st.sampled_from(list(WITHOUT_ROUNDING)).map(METRICS.__getitem__)
metrics_with_rounding = st.sampled_from(list(WITH_ROUNDING)).map(METRICS.__getitem__)
votes = st.sampled_from(indexed_items.VOTE_MODES)
combines: st.SearchStrategy[Combine] = st.sampled_from(["max", "sum"])

grid = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
grids = st.lists(grid, min_size=1, max_size=12)


# -- the paper's retrieval, item by item ---------------------------------------------------------------


class Found(NamedTuple):
    """An item in one space."""

    space: str
    key: Key
    rank: int
    distance: float
    score: float


class Answer(NamedTuple):
    """An item in the ranking."""

    key: Key
    score: float
    found: list[Found]


def as_stored(vectors: Array) -> list[list[float]]:
    """Vectors in float32, as an index stores them."""
    return [[float(value) for value in row] for row in vectors.astype(np.float32)]


def in_spaces(metric: Metric, X: Any, joint: bool) -> list[tuple[str, float, Array]]:
    if joint and isinstance(metric, DistanceMetric):
        return [("joint", 1.0, metric.transform(X))]
    spaces = [(space.name, space.weight, space.encode(X)) for space in metric.spaces]
    return [("joint", 1.0, vectors) for _, _, vectors in spaces] if joint else spaces


def asking(metric: Metric, vector: Array) -> Array:
    """The vector that is compared with items: the query itself, or a^T W."""
    if not isinstance(metric, BilinearMetric):
        return vector
    W = np.diag(metric.matrix) if metric.matrix.ndim == 1 else metric.matrix
    return np.array([math.fsum(a * w for a, w in zip(vector, column, strict=True)) for column in W.T])


def apart(metric: Metric, query: list[float], item: list[float]) -> float:
    pairs = list(zip(query, item, strict=True))
    if metric.measure == "ip":
        return -math.fsum(a * b for a, b in pairs)
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in pairs))


def nearest(metric: Metric, keys: list[Key], items: Any, query: Any, k: int, joint: bool) -> list[list[Found]]:
    """N_l: the candidates of every space with their scores."""
    found = []
    asked = in_spaces(metric, [query], joint)
    for (name, weight, vectors), (_, _, q) in zip(in_spaces(metric, items, joint), asked, strict=True):
        (one,) = as_stored(asking(metric, q[0])[None])
        distances = [apart(metric, one, item) for item in as_stored(vectors)]
        order = sorted(range(len(keys)), key=distances.__getitem__)[:k]  # stable: ties in the order of addition
        d_min, d_max = distances[order[0]], distances[order[-1]]
        scores = [
            math.exp(-(distances[at] - d_min) / (d_max - d_min) if d_max > d_min else 0.0) * weight for at in order
        ]
        found.append(
            [Found(name, keys[at], n + 1, distances[at], scores[n]) for n, at in enumerate(order)],
        )
    return found


def by_loops(
    metric: Metric,
    keys: list[Key],
    items: Any,
    query: Any,
    k: int,
    combine: Combine = "max",
    joint: bool = False,
) -> list[Answer]:
    """Eq. (retrieval) of Section 3.6, and the ranking of the distinct items."""
    candidates = [one for space in nearest(metric, keys, items, query, k, joint) for one in space]
    answers = []
    for key in keys:
        found = [one for one in candidates if one.key == key]
        scores = [one.score for one in found]
        if found:
            answers.append(Answer(key, max(scores) if combine == "max" else math.fsum(scores), found))
    return sorted(answers, key=lambda answer: -answer.score)[:k]


def assert_answers(result: RetrievalResult, expected: list[Answer], metric: Metric) -> None:
    assert result.keys == [answer.key for answer in expected]
    assert result.vote_scores == pytest.approx([answer.score for answer in expected], rel=1e-6)
    for match, answer in zip(result, expected, strict=True):
        votes = {one.space: one for one in match.votes}
        assert len(votes) == len(match.votes)
        assert {name: one.rank for name, one in votes.items()} == {one.space: one.rank for one in answer.found}
        for one in answer.found:
            assert votes[one.space].score == pytest.approx(one.score, rel=1e-6)
            distance = pytest.approx(one.distance, rel=1e-9, abs=1e-12) if metric.measure == "l2" else None
            assert votes[one.space].distance == distance


def filled(metric: Metric, items: Any, **settings: Any) -> Retriever:
    return Retriever(metric, **settings).add(range(len(items)), items)


@given(metrics_without_rounding, grids, grid, st.integers(1, 15), votes)
def test_search_equals_the_papers_retrieval_with_ties(
    metric: Metric, items: list[list[int]], query: list[int], k: int, vote: Any
) -> None:
    result = filled(metric, items, vote=vote).search(query, k)
    assert_answers(
        result, by_loops(metric, list(range(len(items))), items, query, k, joint=vote == "joint"), metric
    )


@settings(max_examples=50)
@given(metrics_with_rounding, st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 15), combines, votes)
def test_search_equals_the_papers_retrieval_with_repeated_items(
    metric: Metric, seed: int, n: int, k: int, combine: Combine, vote: Any
) -> None:
    rng = np.random.default_rng(seed)
    items, query = rng.normal(size=(n, 3))[rng.integers(0, n, n)], rng.normal(size=3)
    result = filled(metric, items, vote=vote, combine=combine).search(query, k)
    expected = by_loops(metric, list(range(n)), items, query, k, combine, vote == "joint")
    assert_answers(result, expected, metric)


def test_the_experts_of_the_ensemble_disagree() -> None:
    """Otherwise the tests above could not distinguish "max" and "sum"."""
    rng = np.random.default_rng(0)
    items, query = rng.normal(size=(20, 3)), rng.normal(size=3)
    by_max, by_sum = (
        filled(ensemble(10), items, vote="experts", combine=combine).search(query, 5).keys
        for combine in ("max", "sum")
    )
    assert by_max != by_sum


def test_identical_items_are_ordered_by_when_they_were_added() -> None:
    retriever = Retriever(CosineMetric(3)).add(["z", "a", "m"], [[1.0, 2.0, 3.0]] * 3)
    assert retriever.search([3.0, 2.0, 1.0], k=2).keys == ["z", "a"]


def test_equally_far_items_score_the_weight_of_the_space() -> None:
    result = filled(EuclideanMetric(3), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]).search([0, 0, 0])
    assert result.vote_scores == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("combine", ["max", "sum"])
def test_the_score_of_a_match_combines_those_of_the_spaces(combine: Combine) -> None:
    items = np.random.default_rng(0).normal(size=(20, 3))
    result = filled(ensemble(10), items, vote="experts", combine=combine).search(items[0] + 0.1, k=5)
    together = max if combine == "max" else math.fsum
    assert result.vote_scores == pytest.approx(
        [together([one.score for one in match.votes]) for match in result], rel=1e-12
    )


def test_votes_are_sorted_by_score() -> None:
    items = np.random.default_rng(0).normal(size=(20, 3))
    results = filled(ensemble(10), items, vote="experts").search_batch(items, k=5)
    votes = [[one.score for one in match.votes] for result in results for match in result]
    assert max(map(len, votes)) == 3
    assert votes == [sorted(scores, reverse=True) for scores in votes]


@pytest.mark.parametrize(
    ("name", "approximately"),
    [*((name, False) for name in METRICS), *((name, True) for name in ("euclidean", "not symmetric", "ensemble"))],
)
@pytest.mark.parametrize("vote", indexed_items.VOTE_MODES)
def test_distances_are_those_of_brute_force_in_float64_over_the_float32_vectors(
    name: str, vote: Any, approximately: bool
) -> None:
    metric: Any = METRICS[name]
    items: Any = np.random.default_rng(0).normal(size=(20, 3))
    query = items[3] * 2
    result = filled(metric, items, vote=vote, approximate=approximately).search(query, k=5)
    squares = np.zeros(len(items))
    asked = in_spaces(metric, [query], vote == "joint")
    for (_, weight, vectors), (_, _, q) in zip(in_spaces(metric, items, vote == "joint"), asked, strict=True):
        (one,) = as_stored(asking(metric, q[0])[None])
        squares += [weight * apart(metric, one, item) ** 2 for item in as_stored(vectors)]
    expected = np.sqrt(squares)[result.keys]
    found = [match.similarity if match.distance is None else match.distance for match in result]
    assert np.abs(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@every_metric
@pytest.mark.parametrize("vote", indexed_items.VOTE_MODES)
def test_the_similarity_of_a_match_is_the_metrics_score_up_to_float32(name: str, vote: Any) -> None:
    metric = METRICS[name]
    items: Any = np.random.default_rng(0).normal(size=(20, 3))
    result = filled(metric, items, vote=vote).search(items[3] * 2, k=5)
    expected = [metric.score(items[3] * 2, items[match.key]) for match in result]
    assert [match.similarity for match in result] == pytest.approx(expected, rel=1e-6)
    has_distance = metric.measure == "l2"
    assert [match.distance for match in result] == [-match.similarity if has_distance else None for match in result]


def test_a_query_is_validated_and_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()
    for name in ("check_dense", "encode_checked", "score"):
        method = getattr(EnsembleMetric, name)

        def counted(self: Any, *given: Any, name: str = name, method: Any = method) -> Any:
            calls[name] += 1
            return method(self, *given)

        monkeypatch.setattr(EnsembleMetric, name, counted)
    retriever = filled(ensemble(10), np.random.default_rng(0).normal(size=(20, 3)), vote="experts")
    calls.clear()
    assert len(retriever.search([1.0, 2.0, 3.0], k=5)[:]) == 5
    assert calls == {"check_dense": 1, "encode_checked": 1}


def test_the_joint_vector_is_the_default_and_ranks_as_the_exported_vectors() -> None:
    metric, rng = ensemble(10), np.random.default_rng(0)
    items, queries = rng.normal(size=(200, 3)), rng.normal(size=(30, 3))
    exported, asked = (metric.transform(rows).astype(np.float64) for rows in (items, queries))
    expected = [np.argsort(np.linalg.norm(exported - query, axis=1))[:10].tolist() for query in asked]
    assert filled(metric, items).search_batch(queries, 10).keys == expected
    assert filled(metric, items, vote="experts").search_batch(queries, 10).keys != expected


@every_metric
def test_joint_ranks_as_the_metric_does(name: str) -> None:
    metric, rng = METRICS[name], np.random.default_rng(0)
    items, query = rng.normal(size=(30, 3)), rng.normal(size=3)
    best = np.argsort(-metric.scores([query], items)[0])[:7]
    assert filled(metric, items, vote="joint").search(query, k=7).keys == best.tolist()


def test_the_nearest_joint_match_scores_1() -> None:
    items = np.random.default_rng(0).normal(size=(5, 3))
    match = filled(ensemble(10), items, vote="joint").search(items[2])[0]
    assert [(one.space, one.rank, one.score) for one in match.votes] == [("joint", 1, 1.0)]


def test_a_query_may_be_a_list_of_integers() -> None:
    retriever = filled(EuclideanMetric(3), np.eye(3))
    assert retriever.search([0, 2, 0], k=1) == retriever.search(np.array([0.0, 2.0, 0.0], np.float32), k=1)


def test_k_may_be_a_numpy_integer() -> None:
    retriever: Any = filled(EuclideanMetric(3), np.eye(3))
    assert retriever.search([0, 2, 0], k=np.int64(2)) == retriever.search([0, 2, 0], k=2)


# -- batches and exclusions ----------------------------------------------------------------------------


@given(metrics_without_rounding, grids, grids, st.integers(1, 15))
def test_a_batch_equals_single_searches(
    metric: Metric, items: list[list[int]], queries: list[list[int]], k: int
) -> None:
    retriever = filled(metric, items)
    assert list(retriever.search_batch(queries, k)) == [retriever.search(query, k) for query in queries]


@pytest.mark.parametrize("name", WITH_ROUNDING)
def test_a_batch_equals_single_searches_up_to_rounding(name: str) -> None:
    rng = np.random.default_rng(0)
    retriever, queries = filled(METRICS[name], rng.normal(size=(30, 3))), rng.normal(size=(20, 3))
    one_by_one = [retriever.search(query, k=4) for query in queries]
    for result, one in zip(retriever.search_batch(queries, k=4), one_by_one, strict=True):
        assert_alike(result, one)


@pytest.mark.parametrize(("constant", "value"), [("_BLOCK", 3), ("_MAX_NEIGHBOURS", 16)])
def test_block_sizes_do_not_change_results(constant: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    retriever = filled(EuclideanMetric(3), rng.integers(-9, 9, (30, 3)))
    queries, exclude = rng.integers(-9, 9, (10, 3)), [[n, n + 1] for n in range(10)]
    at_once = list(retriever.search_batch(queries, k=4, exclude=exclude))
    monkeypatch.setattr(retrieval, constant, value)
    assert list(retriever.search_batch(queries, k=4, exclude=exclude)) == at_once


def test_the_error_for_an_invalid_query_names_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "_BLOCK", 3)
    with pytest.raises(InvalidInputError, match="row 7, feature 1"):
        small().search_batch([QUERY] * 7 + NAN)


def test_the_error_for_an_overflowing_query_names_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "_BLOCK", 3)
    retriever = filled(MahalanobisMetric(1e30 * np.eye(3, dtype=np.float32)), 1e-30 * np.eye(3))
    with pytest.raises(OverflowedItemError, match="Item 7 is too large"):
        retriever.search_batch([[0, 0, 0]] * 7 + [[1e10, 0, 0]])


def without(retriever_of: Metric, items: Any, out: Any) -> Retriever:
    kept = [at for at in range(len(items)) if at not in out]
    return Retriever(retriever_of).add(kept, [items[at] for at in kept]) if kept else Retriever(retriever_of)


@given(metrics_without_rounding, grids, grid, st.integers(1, 15), st.sets(st.integers(0, 14)))
def test_excluding_items_equals_a_retriever_without_them(
    metric: Metric, items: list[list[int]], query: list[int], k: int, out: set[int]
) -> None:
    found = filled(metric, items).search(query, k, exclude=out)
    assert found == without(metric, items, out).search(query, k)


one_exclusion = st.none() | st.integers(0, 14) | st.lists(st.integers(0, 14)) | st.frozensets(st.integers(0, 14))


@given(metrics_without_rounding, grids, st.lists(st.tuples(grid, one_exclusion), min_size=1), st.integers(1, 15))
def test_every_query_has_its_own_exclusions(
    metric: Metric, items: list[list[int]], asked: list[tuple[list[int], Any]], k: int
) -> None:
    queries, exclude = zip(*asked, strict=True)
    results = filled(metric, items).search_batch(queries, k, exclude)
    sets = [{out} if isinstance(out, int) else set(out or ()) for out in exclude]
    assert list(results) == [without(metric, items, out).search(q, k) for q, out in zip(queries, sets, strict=True)]


@pytest.mark.parametrize(
    "exclude",
    ["b", ["b"], ("b", "b"), {"b": 1}, iter(["b"]), np.array(["b"]), ["unknown", "b", 17]],
    ids=["key", "list", "twice", "mapping", "iterator", "array", "unknown"],
)
def test_exclude_accepts_many_forms(exclude: Any) -> None:
    retriever = Retriever(EuclideanMetric(3)).add(["a", "b", "c"], np.eye(3))
    assert retriever.search([0, 1, 0], exclude=exclude).keys == ["a", "c"]


def test_an_excluded_key_may_be_a_numpy_integer() -> None:
    retriever: Any = filled(EuclideanMetric(3), np.eye(3))
    assert retriever.search([0, 1, 0], exclude=np.int64(1)).keys == [0, 2]


def test_all_may_be_excluded() -> None:
    assert len(filled(EuclideanMetric(3), np.eye(3)).search([0, 1, 0], exclude=range(3))) == 0


@given(metrics_without_rounding, grids, st.integers(1, 15), st.data())
def test_similar_to_equals_a_search_without_the_item(
    metric: Metric, items: list[list[int]], k: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(items) - 1))
    assert filled(metric, items).similar_to(at, k) == without(metric, items, {at}).search(items[at], k)


def test_similar_to_accepts_numpy_keys() -> None:
    retriever: Any = filled(EuclideanMetric(3), np.eye(3))
    assert retriever.similar_to(np.int64(2)) == retriever.similar_to(2)


# -- empty retrievers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ensemble", "bilinear"])
@pytest.mark.parametrize("vote", indexed_items.VOTE_MODES)
def test_nothing_is_found_in_an_empty_retriever(name: str, vote: Any) -> None:
    assert Retriever(METRICS[name], vote).search([1.0, 2.0, 3.0]) == RetrievalResult((), METRICS[name].version)


def test_a_batch_finds_nothing_in_an_empty_retriever() -> None:
    assert Retriever(ensemble(10)).search_batch(np.eye(3), k=2).keys == [[], [], []]


def test_an_empty_retriever_has_no_items() -> None:
    retriever = Retriever(ensemble(10))
    assert (len(retriever), retriever.keys, "a" in retriever) == (0, [], False)


def test_nothing_is_found_when_all_was_removed() -> None:
    assert len(filled(ensemble(10), np.eye(3)).remove(range(3)).search([1.0, 2.0, 3.0])) == 0


# -- keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (np.array([3, 1, 2], np.int32), [3, 1, 2]),
        (np.array(["c", "a", "b"]), ["c", "a", "b"]),
        ([np.uint8(3), "3", np.str_("b")], [3, "3", "b"]),
        ((name for name in "cab"), ["c", "a", "b"]),
    ],
)
def test_keys_become_python_objects(keys: Any, expected: list[Key]) -> None:
    got = Retriever(EuclideanMetric(3)).add(keys, np.eye(3)).keys
    assert [(type(key), key) for key in got] == [(type(key), key) for key in expected]


def test_numbers_and_strings_are_different_keys() -> None:
    retriever = Retriever(EuclideanMetric(3)).add([1, "1"], np.eye(3)[:2])
    assert [retriever.search(x, k=1).keys for x in np.eye(3)[:2]] == [[1], ["1"]]


@pytest.mark.parametrize("key", [1, np.int64(1), "a", np.str_("a")])
def test_contains_is_true_for_existing_keys(key: Any) -> None:
    assert key in Retriever(EuclideanMetric(3)).add([1, "a"], np.eye(3)[:2])


@pytest.mark.parametrize("key", [2, "1", "b", 1.0, True, None, [1], b"a"])
def test_contains_is_false_for_other_objects(key: Any) -> None:
    assert key not in Retriever(EuclideanMetric(3)).add([1, "a"], np.eye(3)[:2])


def test_repr_of_a_retriever() -> None:
    assert repr(filled(ensemble(10), np.eye(3))) == "<retriever of 3 items with version 10 of the metric>"


# -- any changes ---------------------------------------------------------------------------------------

KEYS: list[Key] = [*range(8), *map(str, range(8))]
QUERY = [1, 0, -1]


class Changes(RuleBasedStateMachine):
    """After any changes, a retriever equals a new one with the same items in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.few, retrieval._COMPACT_FROM = retrieval._COMPACT_FROM, 4  # so that few items are compacted

    def teardown(self) -> None:
        retrieval._COMPACT_FROM = self.few

    @initialize(metric=metrics_without_rounding)
    def start(self, metric: Metric) -> None:
        self.retriever, self.items = Retriever(metric), dict[Key, list[int]]()

    def some(self, data: st.DataObject, keys: Any) -> dict[Key, list[int]]:
        chosen = data.draw(st.lists(st.sampled_from(list(keys)), min_size=1, unique=True))
        return {key: data.draw(grid) for key in chosen}

    @precondition(lambda self: len(self.items) < len(KEYS))
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        new = self.some(data, [key for key in KEYS if key not in self.items])
        self.retriever.add(new, list(new.values()))
        self.items |= new

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        new = self.some(data, self.items)
        self.retriever.update(new, list(new.values()))
        self.items = {key: x for key, x in self.items.items() if key not in new} | new

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = list(self.some(data, self.items))
        self.retriever.remove(gone)
        self.items = {key: x for key, x in self.items.items() if key not in gone}

    @rule(metric=metrics_without_rounding)
    def set_metric(self, metric: Metric) -> None:
        self.retriever.set_metric(metric)

    @precondition(lambda self: self.items)
    @rule(data=st.data(), wrong=st.sampled_from([[9.0, 9.0], [np.nan, 0.0, 0.0]]))
    def fail_to_update(self, data: st.DataObject, wrong: Any) -> None:
        with pytest.raises(InvalidInputError):
            self.retriever.update(list(self.some(data, self.items))[:1], [wrong])

    @precondition(lambda self: 0 < len(self.items) < len(KEYS))
    @rule(data=st.data())
    def fail_as_one_key_is_there_and_one_is_not(self, data: st.DataObject) -> None:
        keys = [next(iter(self.items)), next(key for key in KEYS if key not in self.items)]
        for change in (self.retriever.add, self.retriever.update):
            with pytest.raises(InvalidInputError):
                change(keys, [QUERY, QUERY])
        with pytest.raises(InvalidInputError):
            self.retriever.remove(keys)

    @invariant()
    def has_the_keys(self) -> None:
        assert self.retriever.keys == list(self.items)
        assert len(self.retriever) == len(self.items)
        assert [key for key in KEYS if key in self.retriever] == [key for key in KEYS if key in self.items]

    @invariant()
    def finds_what_a_new_one_finds(self) -> None:
        new = Retriever(self.retriever.metric)
        if self.items:
            new.add(self.items, list(self.items.values()))
        for k in (2, len(KEYS)):
            assert self.retriever.search(QUERY, k) == new.search(QUERY, k)
        for key in list(self.items)[:1]:
            assert self.retriever.similar_to(key, 3) == new.similar_to(key, 3)


Changes.TestCase.settings = settings(max_examples=15, stateful_step_count=20)
TestChanges = Changes.TestCase


def many(n: int) -> Array:
    return np.random.default_rng(0).integers(-99, 100, (n, 3))


def test_memory_of_removed_items_is_freed() -> None:
    retriever = filled(EuclideanMetric(3), many(3000))
    retriever.remove(range(2000))
    assert len(retriever._state.items) < 3000


def test_removing_most_items_changes_nothing_for_the_others() -> None:
    items = many(3000)
    retriever = filled(EuclideanMetric(3), items).remove(range(0, 3000, 3)).remove(range(1, 3000, 3))
    left = list(range(2, 3000, 3))
    new = Retriever(EuclideanMetric(3)).add(left, items[left])
    assert list(retriever.search_batch(items[:50], k=5)) == list(new.search_batch(items[:50], k=5))


def test_memory_of_updated_items_is_freed() -> None:
    retriever = filled(EuclideanMetric(3), many(100))
    for shift in range(30):
        retriever.update(range(100), many(100) + shift)
    assert retriever._state.n_added < 2000
    assert retriever.search(many(100)[7] + 29, k=1)[0].key == 7


def test_adding_one_by_one_equals_adding_together() -> None:
    items, metric = many(100), EuclideanMetric(3)
    one_by_one = Retriever(metric)
    for at, x in enumerate(items):
        one_by_one.add([at], [x])
    assert list(one_by_one.search_batch(items, k=5)) == list(filled(metric, items).search_batch(items, k=5))


def test_the_block_size_of_encoding_does_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    items, metric = many(100), EuclideanMetric(3)
    at_once = list(filled(metric, items).search_batch(items, k=5))
    monkeypatch.setattr(indexed_items, "_BLOCK", 7)
    assert list(filled(metric, items).search_batch(items, k=5)) == at_once


def test_changes_return_the_retriever() -> None:
    retriever = Retriever(EuclideanMetric(3))
    assert (
        retriever.add(["a"], [QUERY]).update(["a"], [QUERY]).remove(["a"]).set_metric(CosineMetric(3)) is retriever
    )


def interrupted(monkeypatch: pytest.MonkeyPatch) -> Retriever:
    """A retriever of "a" and "c", in which adding "x" and "y" was interrupted."""

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    retriever = Retriever(EuclideanMetric(3)).add(["a", "b", "c"], np.eye(3)).remove(["b"])
    with monkeypatch.context() as patch:
        patch.setattr(retrieval, "_RetrieverState", interrupt)  # the last step
        with pytest.raises(KeyboardInterrupt):
            retriever.add(["x", "y"], np.eye(3)[:2])
    return retriever


def test_an_interrupted_change_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = interrupted(monkeypatch)
    assert (retriever.keys, len(retriever), "x" in retriever) == (["a", "c"], 2, False)
    assert retriever.search(QUERY) == Retriever(EuclideanMetric(3)).add(["a", "c"], np.eye(3)[[0, 2]]).search(QUERY)


def test_a_retriever_works_after_an_interrupted_change(monkeypatch: pytest.MonkeyPatch) -> None:
    retriever = interrupted(monkeypatch).add(["d", "e"], 2 * np.eye(3)[1:])
    new = Retriever(EuclideanMetric(3)).add(["a", "c", "d", "e"], [*np.eye(3)[[0, 2]], *2 * np.eye(3)[1:]])
    assert (retriever.keys, len(retriever), "x" in retriever) == (new.keys, 4, False)
    assert retriever.search(QUERY) == new.search(QUERY)


# -- another metric ------------------------------------------------------------------------------------


@every_metric
def test_set_metric_equals_a_new_retriever(name: str) -> None:
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(40, 3)), rng.normal(size=(10, 3))
    retriever = Retriever(EuclideanMetric(3, "float64")).add(range(15), items[:15]).add(range(15, 40), items[15:])
    retriever.set_metric(METRICS[name])
    assert list(retriever.search_batch(queries, k=6)) == list(
        filled(METRICS[name], items).search_batch(queries, k=6)
    )


def test_a_result_has_the_version_of_its_metric() -> None:
    retriever = filled(ensemble(10), np.eye(3))
    before = retriever.search(QUERY)
    after = retriever.set_metric(ensemble(12)).search(QUERY)
    assert (before.version, after.version) == (10, 12)


def test_the_metric_is_the_one_that_was_set() -> None:
    metric = ensemble(12)
    assert filled(ensemble(10), np.eye(3)).set_metric(metric).metric is metric


def test_an_empty_retriever_takes_another_metric() -> None:
    retriever = Retriever(ensemble(10)).set_metric(EuclideanMetric(3)).add(["a"], [[0, 0, 2]])
    assert retriever.search([0, 0, 0])[0].distance == 2.0


# -- invalid input -------------------------------------------------------------------------------------


def small() -> Retriever:
    return Retriever(EuclideanMetric(3)).add(["a", "b", 3], [[1, 2, 3], [4, 5, 6], [7, 8, 9]])


Call = Callable[[Any], object]
NAN = [[0.0, np.nan, 0.0]]

WRONG: dict[str, tuple[Call, str]] = {
    "add twice": (lambda r: r.add(["x", "y", "x"], np.eye(3)), "distinct. Got 'x' twice"),
    "add twice, once as numpy's": (lambda r: r.add([7, np.int8(7)], np.eye(3)[:2]), "distinct. Got 7 twice"),
    "add what is there": (
        lambda r: r.add(["x", 3], np.eye(3)[:2]),
        "already has an item with the key 3. Use update",
    ),
    "add too few": (lambda r: r.add(["x"], np.eye(3)), "Got 1 keys for 3 items"),
    "add too many": (lambda r: r.add(["x", "y"], np.eye(3)[:1]), "Got 2 keys for 1 items"),
    "add nothing": (lambda r: r.add([], np.empty((0, 3))), "at least one"),
    "add one item": (lambda r: r.add(["x"], [1, 2, 3]), r"shape \(n_items, n_features\)"),
    "add wrong features": (lambda r: r.add(["x"], [[1, 2]]), "X has 2 features, but .* 3"),
    "add NaN": (lambda r: r.add(["x"], NAN), "NaN: row 0, feature 1"),
    "add strings": (lambda r: r.add(["x"], [["1", "2", "3"]]), "real numbers. Got strings"),
    "add too large": (lambda r: r.add(["x"], [[1e300, 0, 0]]), "too large for float32"),
    "add far too long": (lambda r: r.add(["x"], [[1e30, 0, 0]]), "Scale the features"),
    "update twice": (lambda r: r.update(["a", "a"], np.eye(3)[:2]), "distinct. Got 'a' twice"),
    "update what is not there": (lambda r: r.update(["a", "x"], np.eye(3)[:2]), "no item with the key 'x'"),
    "update too few": (lambda r: r.update(["a"], np.eye(3)), "Got 1 keys for 3 items"),
    "update wrong features": (lambda r: r.update(["a"], [[1, 2]]), "X has 2 features, but .* 3"),
    "update with NaN": (lambda r: r.update(["a"], NAN), "NaN: row 0, feature 1"),
    "update far too long": (lambda r: r.update(["a"], [[1e30, 0, 0]]), "Scale the features"),
    "remove twice": (lambda r: r.remove(["a", "a"]), "distinct. Got 'a' twice"),
    "remove what is not there": (
        lambda r: r.remove(["a", "x"]),
        "no item with the key 'x'. The retriever has 3 items",
    ),
    "metric of other features": (lambda r: r.set_metric(EuclideanMetric(4)), "3 features, .*4 features"),
    "search many": (lambda r: r.search(np.eye(3)), r"Use search_batch\(\) for many"),
    "search wrong features": (lambda r: r.search([1, 2]), "X has 2 features, but .* 3"),
    "search NaN": (lambda r: r.search(NAN[0]), "NaN"),
    "search for 0": (lambda r: r.search(QUERY, k=0), "'k' parameter of Retriever .* at least 1. Got 0"),
    "search for 2.0": (lambda r: r.search(QUERY, k=2.0), "'k' parameter .* Got 2.0"),
    "search one of many": (lambda r: r.search_batch(QUERY), r"shape \(n, n_features\)"),
    "search for none": (lambda r: r.search_batch(np.empty((0, 3))), "at least one"),
    "search many for 0": (lambda r: r.search_batch(np.eye(3), k=0), "'k' parameter .* Got 0"),
    "exclude for some": (lambda r: r.search_batch(np.eye(3), exclude=["a"]), "each of the 3 queries. Got 1"),
    "similar to what is not there": (lambda r: r.similar_to("x"), "no item with the key 'x'"),
    "similar to 0": (lambda r: r.similar_to("a", k=0), "'k' parameter .* Got 0"),
}

WRONG_TYPES: dict[str, tuple[Call, str]] = {
    "one string as keys": (lambda r: r.add("x", np.eye(3)[:1]), "sequence of strings or integers. Got 'x'"),
    "one number as keys": (lambda r: r.remove(3), "sequence of strings or integers. Got 3"),
    "floats as keys": (lambda r: r.add(["x", 1.5], np.eye(3)[:2]), "Got 1.5 at index 1"),
    "bools as keys": (lambda r: r.add([True], np.eye(3)[:1]), "Got True at index 0"),
    "lists as keys": (lambda r: r.remove([["a"]]), r"Got \['a'\] at index 0"),
    "no metric": (lambda r: r.set_metric("euclidean"), "must be a metric"),
    "a learner": (lambda r: r.set_metric(OAHU()), r"Pass the result of the metric\(\)"),
    "similar to a float": (lambda r: r.similar_to(3.0), "Got 3.0"),
    "similar to keys": (lambda r: r.similar_to(["a"]), r"Got \['a'\]"),
    "exclude a float": (lambda r: r.search(QUERY, exclude=[3.0]), "Got 3.0"),
    "exclude one string for many": (lambda r: r.search_batch(np.eye(3), exclude="a b"), "entry for each query"),
    "exclude one number for many": (lambda r: r.search_batch(np.eye(3), exclude=3), "entry for each query"),
    "exclude a set for many": (lambda r: r.search_batch(np.eye(3), exclude={"a", "b", 3}), "entry for each"),
    "exclude floats for many": (lambda r: r.search_batch(np.eye(3), exclude=[1.5] * 3), "Got 1.5"),
}


@pytest.mark.parametrize("what", WRONG | WRONG_TYPES)
def test_invalid_calls_say_what_is_wrong_and_change_nothing(what: str) -> None:
    retriever, (call, message) = small(), (WRONG | WRONG_TYPES)[what]
    with pytest.raises(InvalidTypeError if what in WRONG_TYPES else InvalidInputError, match=message):
        call(retriever)
    assert retriever.keys == ["a", "b", 3]
    assert retriever.search(QUERY) == small().search(QUERY)


def test_a_retriever_works_after_a_failed_call() -> None:
    retriever = small()
    for call, _ in (WRONG | WRONG_TYPES).values():
        with pytest.raises(InvalidInputError):
            call(retriever)
    retriever.add(["x"], [[1, 1, 1]]).update(["a"], [[2, 2, 2]])
    new = Retriever(EuclideanMetric(3)).add(["b", 3, "x", "a"], [[4, 5, 6], [7, 8, 9], [1, 1, 1], [2, 2, 2]])
    assert retriever.search(QUERY) == new.search(QUERY)


def test_the_metric_is_not_replaced_if_an_item_overflows() -> None:
    retriever = filled(EuclideanMetric(3, "float64"), 1e10 * np.eye(3))
    with pytest.raises(OverflowedItemError):
        retriever.set_metric(MahalanobisMetric(1e30 * np.eye(3, dtype=np.float32), version=2))
    assert retriever.search(QUERY) == filled(EuclideanMetric(3, "float64"), 1e10 * np.eye(3)).search(QUERY)


@pytest.mark.parametrize(
    ("parameter", "value"), [("vote", "both"), ("combine", "mean"), ("approximate", "yes"), ("approximate", 1)]
)
def test_invalid_parameters_are_rejected(parameter: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"'{parameter}' parameter of Retriever must be one of"):
        Retriever(EuclideanMetric(3), **{parameter: value})


def test_a_retriever_needs_a_metric() -> None:
    with pytest.raises(InvalidTypeError, match="must be a metric"):
        Retriever("cosine")  # type: ignore[arg-type]


# -- copies and files ----------------------------------------------------------------------------------


def through_a_file(retriever: Retriever, folder: Path) -> Retriever:
    retriever.save(folder / "retriever")
    loaded: Retriever = oahu.load(folder / "retriever")
    return loaded


WAYS: dict[str, Callable[[Retriever, Path], Retriever]] = {
    "file": through_a_file,
    "pickle": lambda retriever, _: pickle.loads(pickle.dumps(retriever)),
    "copy": lambda retriever, _: copy.copy(retriever),
    "deepcopy": lambda retriever, _: copy.deepcopy(retriever),
}
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.mark.parametrize(
    ("way", "name"), [*(("file", name) for name in METRICS), *((way, "ensemble") for way in WAYS if way != "file")]
)
def test_a_copy_finds_the_same(way: str, name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(20, 3)), rng.normal(size=(5, 3))
    retriever = filled(METRICS[name], items)
    expected = list(retriever.search_batch(queries, k=4))
    assert list(WAYS[way](retriever, tmp_path).search_batch(queries, k=4)) == expected


@every_way
@pytest.mark.parametrize("asked", [{"vote": "experts"}, {"vote": "experts", "combine": "sum"}], ids=str)
def test_a_copy_has_the_same_settings(asked: Any, way: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items, queries = rng.normal(size=(20, 3)), rng.normal(size=(5, 3))
    retriever = filled(ensemble(10), items, **asked)
    expected = list(retriever.search_batch(queries, k=4))
    assert list(WAYS[way](retriever, tmp_path).search_batch(queries, k=4)) == expected


@every_way
def test_a_copy_has_keys_of_the_same_types(way: str, tmp_path: Path) -> None:
    keys: list[Key] = [10**30, "1", 1, "", -5, "\u00e4 \U0001f600 \ud800 \"'\\\n\0"]
    retriever = Retriever(EuclideanMetric(3)).add(keys, many(len(keys)))
    assert [(type(key), key) for key in WAYS[way](retriever, tmp_path).keys] == [(type(key), key) for key in keys]


@every_way
def test_a_copy_has_the_remaining_items_in_order(way: str, tmp_path: Path) -> None:
    retriever = filled(EuclideanMetric(3), many(20)).remove([3, 5, 7]).update([4, 2], [[0, 0, 0], [1, 1, 1]])
    made = WAYS[way](retriever, tmp_path)
    assert made.keys == retriever.keys
    assert made.search(QUERY, k=20) == retriever.search(QUERY, k=20)


@every_way
def test_a_copy_of_an_empty_retriever(way: str, tmp_path: Path) -> None:
    made = WAYS[way](Retriever(ensemble(10)), tmp_path)
    assert len(made) == 0
    assert made.add(["a"], [[0.0, 0.0, 1.0]]).search([0.0, 0.0, 1.0]).keys == ["a"]


@every_way
def test_a_copy_is_independent(way: str, tmp_path: Path) -> None:
    retriever = filled(EuclideanMetric(3), many(20))
    made = WAYS[way](retriever, tmp_path)
    made.remove([0]).update([1], [QUERY]).add(["new"], [QUERY]).set_metric(CosineMetric(3))
    assert retriever.search(QUERY, k=20) == filled(EuclideanMetric(3), many(20)).search(QUERY, k=20)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "retriever"
    filled(ensemble(10), many(20)).save(path)
    return path


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.95])
def test_a_damaged_file_is_rejected(share: float, saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    data[int(share * len(data))] ^= 0x11
    saved.write_bytes(data)
    with pytest.raises(ModelFileError, match="Cannot load"):
        oahu.load(saved)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_rejected(share: float, saved: Path) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelFileError, match="truncated"):
        oahu.load(saved)


def with_keys(keys: str) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content.arrays["keys"] = np.frombuffer(keys.encode(), np.uint8)

    return change


def with_state(**changed: Any) -> Callable[[Content], None]:
    return lambda content: content.state.update(changed)


def with_items(items: Array) -> Callable[[Content], None]:
    return lambda content: content.arrays.update(items=items)


FORGED: dict[str, Callable[[Content], None]] = {
    "keys twice": with_keys(json.dumps([0, 0, 1])),
    "floats as keys": with_keys("[0, 1, 2.5]"),
    "nothing as keys": with_keys("null"),
    "no JSON": with_keys("[0, 1"),
    "too few keys": with_keys("[0, 1]"),
    "too few items": with_items(np.eye(3)[:2]),
    "other features": with_items(np.eye(4)[:3]),
    "whole numbers": with_items(np.eye(3, dtype=np.int64)),
    "no items": lambda content: content.arrays.__delitem__("items"),
    "no metric": lambda content: content.state.__delitem__("metric"),
    "an unknown metric": with_state(metric={"class": "Path", "state": {}}),
    "no settings": lambda content: content.state.__delitem__("vote"),
    "unknown settings": with_state(combine="mean"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_file_with_invalid_content_is_rejected(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = filled(EuclideanMetric(3), np.eye(3))._to_content()
    FORGED[what](content)
    monkeypatch.setattr(Retriever, "_to_content", lambda _: content)
    model_files.save(Retriever(EuclideanMetric(3)), tmp_path / "forged")
    with pytest.raises(ModelFileError, match="Cannot load"):
        oahu.load(tmp_path / "forged")


# -- approximately -------------------------------------------------------------------------------------

DIGITS, LABELS = load_digits(return_X_y=True)
K = 10


@pytest.fixture(scope="module")
def learner() -> OAHU:
    scaled = OAHU(n_layers=2, hidden_size=32, embedding_size=16, n_constraints=200, random_state=0)
    return scaled.fit(DIGITS / 16, LABELS)


def approximate(metric: Metric, **settings: Any) -> Retriever:
    return Retriever(metric, approximate=True, **settings).add(range(len(DIGITS)), DIGITS / 16)


def recall(found: Retriever, metric: Metric, kept: dict[int, Array], vote: Any = "joint") -> float:
    """The share of the matches of exact search that are found."""
    exact = Retriever(metric, vote).add(kept, np.array(list(kept.values())))
    queries = DIGITS[::9] / 16 + 0.03
    pairs = zip(found.search_batch(queries, K).keys, exact.search_batch(queries, K).keys, strict=True)
    return float(np.mean([len(set(a) & set(b)) / K for a, b in pairs]))


@pytest.mark.parametrize("vote", indexed_items.VOTE_MODES)
def test_an_approximate_search_finds_nearly_all(vote: Any, learner: OAHU) -> None:
    kept = dict(enumerate(DIGITS / 16))
    assert recall(approximate(learner.metric(), vote=vote), learner.metric(), kept, vote) >= 0.9


def test_an_approximate_search_finds_nearly_all_with_inner_products() -> None:
    metric = BilinearMetric(np.eye(64), normalize=True)
    assert recall(approximate(metric), metric, dict(enumerate(DIGITS / 16))) >= 0.9


def test_an_approximate_search_finds_nearly_all_remaining_items(learner: OAHU) -> None:
    kept = dict(list(enumerate(DIGITS / 16))[600:])
    assert recall(approximate(learner.metric()).remove(range(600)), learner.metric(), kept) >= 0.9


def test_an_approximate_search_does_not_find_removed_items(learner: OAHU) -> None:
    retriever = approximate(learner.metric()).remove(range(600))
    found = retriever.search_batch(DIGITS[:601] / 16, K).keys  # the last query is an item that was not removed
    assert min(key for keys in found for key in keys) == 600


def test_an_approximate_search_finds_nearly_all_updated_items(learner: OAHU) -> None:
    moved = {at: DIGITS[-1 - at] / 16 + 0.01 for at in range(500)}
    kept = {at: x for at, x in enumerate(DIGITS / 16) if at >= 500} | moved
    retriever = approximate(learner.metric()).update(moved, np.array(list(moved.values())))
    assert recall(retriever, learner.metric(), kept) >= 0.9


def test_an_approximate_search_finds_nearly_all_after_many_removals(learner: OAHU) -> None:
    kept = dict(list(enumerate(DIGITS / 16))[1400:])
    assert recall(approximate(learner.metric()).remove(range(1400)), learner.metric(), kept) >= 0.9


def test_an_approximate_search_finds_nearly_all_with_a_new_metric(learner: OAHU) -> None:
    retriever = approximate(EuclideanMetric(64)).set_metric(learner.metric())
    assert recall(retriever, learner.metric(), dict(enumerate(DIGITS / 16))) >= 0.9


def test_approximate_similar_to_leaves_out_the_item(learner: OAHU) -> None:
    retriever = approximate(learner.metric())
    assert all(at not in retriever.similar_to(at).keys for at in range(0, 1797, 60))


@every_way
def test_a_copy_of_an_approximate_retriever_is_approximate(way: str, tmp_path: Path, learner: OAHU) -> None:
    made = WAYS[way](approximate(learner.metric()), tmp_path)
    assert made._approximate
    assert recall(made, learner.metric(), dict(enumerate(DIGITS / 16))) >= 0.9


@pytest.mark.parametrize(
    "what", ["add what is there", "add far too long", "update far too long", "remove what is not there"]
)
def test_a_failed_call_does_not_change_an_approximate_retriever(what: str) -> None:
    retriever, (call, _) = Retriever(EuclideanMetric(3), approximate=True), WRONG[what]
    retriever.add(["a", "b", 3], [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    with pytest.raises(InvalidInputError):
        call(retriever)
    assert retriever.search(QUERY) == small().search(QUERY)


# -- helpers -------------------------------------------------------------------------------------------


def assert_alike(result: RetrievalResult, other: RetrievalResult) -> None:
    """Assert that two results are equal up to rounding."""
    assert result.keys == other.keys
    assert [list(numbers_of(match)) for match in result] == [
        pytest.approx(list(numbers_of(match)), rel=1e-4, abs=1e-6) for match in other
    ]


def numbers_of(match: Match) -> Iterator[float]:
    yield match.similarity
    for one in sorted(match.votes, key=lambda one: one.space):
        yield from (one.rank, one.score)
