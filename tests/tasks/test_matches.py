"""Search results: typed matches from arrays, unaffected by later changes."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu import BilinearMetric, EuclideanMetric, Match, RetrievalResult, RetrievalResults, Retriever, SpaceVote
from oahu.tasks.matches import Key

RNG = np.random.default_rng(5)
ITEMS = RNG.integers(-9, 10, (8, 3)).astype(float)
QUERIES = RNG.integers(-9, 10, (5, 3)).astype(float)
KEYS: list[Key] = [f"item {n}" for n in range(len(ITEMS))]
UNLIKE = BilinearMetric(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [3.0, 0.0, 1.0]]), normalize=False, version=4)


def euclidean() -> Retriever:
    return Retriever(EuclideanMetric(3, "float64", version=7)).add(KEYS, ITEMS)


def by_subtraction(query: NDArray[Any], key: Any) -> float:
    return float(np.sqrt(np.sum((query - ITEMS[KEYS.index(key)]) ** 2)))


def match(key: str) -> Match:
    return Match(key, 1.0, -1.0, (SpaceVote("E_0", 1, 1.0, 0.5),))


# -- one result --------------------------------------------------------------------------------------------


def test_a_result_is_a_sequence_of_its_matches() -> None:
    matches = (match("a"), match("b"), match("c"))
    result = RetrievalResult(matches, 3)
    assert (len(result), list(result), result[0], result[-1], result[1:]) == (
        3,
        list(matches),
        matches[0],
        matches[2],
        matches[1:],
    )


def test_keys_are_in_the_order_of_the_matches() -> None:
    assert RetrievalResult((match("b"), match("a")), 0).keys == ["b", "a"]


def test_results_with_the_same_content_are_equal() -> None:
    assert RetrievalResult((match("a"),), 2) == RetrievalResult((match("a"),), 2)


@pytest.mark.parametrize(
    "other", [RetrievalResult((match("a"),), 3), RetrievalResult((match("b"),), 2), RetrievalResult((), 2)]
)
def test_results_that_differ_are_not_equal(other: RetrievalResult) -> None:
    assert RetrievalResult((match("a"),), 2) != other


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        RetrievalResult((), 0).version = 1  # type: ignore[misc]


def test_a_result_survives_pickling() -> None:
    result = euclidean().search(QUERIES[0], k=3)
    assert pickle.loads(pickle.dumps(result)) == result


# -- many --------------------------------------------------------------------------------------------------


def test_results_are_a_sequence() -> None:
    results = euclidean().search_batch(QUERIES, k=3)
    each = list(results)
    assert (len(results), len(each), results[-1], results[1:3], results[::-2]) == (
        5,
        5,
        each[4],
        each[1:3],
        each[::-2],
    )


@pytest.mark.parametrize("at", [5, -6])
def test_an_index_beyond_the_queries_raises(at: int) -> None:
    results = euclidean().search_batch(QUERIES, k=3)
    with pytest.raises(IndexError):
        results[at]


def test_keys_and_distances_are_those_of_the_matches() -> None:
    results = euclidean().search_batch(QUERIES, k=3)
    assert results.keys == [result.keys for result in results]
    assert results.distances.tolist() == [[found.distance for found in result] for result in results]


@pytest.mark.parametrize("k", [3, 10])
def test_vote_scores_are_the_papers_scores_of_the_k_matches(k: int) -> None:
    results = euclidean().search_batch(QUERIES, k=k)
    for row, result in zip(results.distances, results, strict=True):
        found = row[np.isfinite(row)]
        expected = np.exp(-(found - found[0]) / (found[-1] - found[0]))
        assert result.vote_scores == pytest.approx(expected)
    assert results.vote_scores.tolist() == [[*result.vote_scores, *[0.0] * (k - len(result))] for result in results]


def test_a_match_shows_its_distance_and_not_the_score_of_the_vote() -> None:
    assert repr(match("a")) == "Match(key='a', distance=1.0, similarity=-1.0)"


def test_every_result_has_the_version_of_the_metric() -> None:
    results = euclidean().search_batch(QUERIES, k=3)
    assert {results.version, *(result.version for result in results)} == {7}


def test_similarities_are_the_negative_distances() -> None:
    results = euclidean().search_batch(QUERIES, k=3)
    expected = [
        [-by_subtraction(query, key) for key in keys] for query, keys in zip(QUERIES, results.keys, strict=True)
    ]
    np.testing.assert_allclose(results.similarities, expected, rtol=1e-14)


def test_similarities_of_a_metric_without_distances() -> None:
    results = Retriever(UNLIKE).add(KEYS, ITEMS).search_batch(QUERIES, k=3)
    expected = [
        [
            sum(UNLIKE.matrix[i, j] * q[i] * ITEMS[KEYS.index(key)][j] for i in range(3) for j in range(3))
            for key in row
        ]
        for q, row in zip(QUERIES.tolist(), results.keys, strict=True)
    ]
    assert results.similarities.tolist() == expected


def test_matches_of_a_metric_without_distances_have_none() -> None:
    results = Retriever(UNLIKE).add(KEYS, ITEMS).search_batch(QUERIES, k=3)
    told = {found.distance for result in results for found in result}
    assert told | {one.distance for result in results for found in result for one in found.votes} == {None}


def test_where_there_are_fewer_than_k() -> None:
    results = euclidean().search_batch(QUERIES, k=10)
    assert (results.vote_scores[:, 8:] == 0).all()
    assert (results.distances[:, 8:] == np.inf).all()
    assert (results.similarities[:, 8:] == -np.inf).all()
    assert [len(result) for result in results] == [8] * 5


def test_an_item_that_is_the_query_is_at_distance_0_without_a_sign() -> None:
    found = euclidean().search(ITEMS[2], k=1)[0]
    assert str(found.distance) == "0.0"


def test_results_do_not_change_with_the_queries_array() -> None:
    queries = QUERIES.copy()
    results = euclidean().search_batch(queries, k=3)
    queries[:] = 1000
    assert list(results) == list(euclidean().search_batch(QUERIES, k=3))


def test_results_do_not_change_with_the_items_array() -> None:
    items = ITEMS.copy()
    retriever = Retriever(EuclideanMetric(3, "float64", version=7)).add(KEYS, items)
    items[:] = 1000
    assert list(retriever.search_batch(QUERIES, k=3)) == list(euclidean().search_batch(QUERIES, k=3))


def test_results_do_not_change_with_the_retriever() -> None:
    retriever = euclidean()
    results = retriever.search_batch(QUERIES, k=3)
    retriever.update(KEYS[:3], ITEMS[3:6]).remove(KEYS[3:]).set_metric(UNLIKE)
    retriever.add(["other"], ITEMS[:1])
    assert list(results) == list(euclidean().search_batch(QUERIES, k=3))


def test_many_results_survive_pickling() -> None:
    results: RetrievalResults = euclidean().search_batch(QUERIES, k=3)
    assert list(pickle.loads(pickle.dumps(results))) == list(results)


def test_repr_of_results() -> None:
    assert repr(euclidean().search_batch(QUERIES)) == "<results of 5 queries with version 7 of the metric>"
