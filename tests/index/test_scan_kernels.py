"""The compiled scans, compared with numpy for every remainder of features and every query of a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oahu.index.scan_kernels import GROUP, STRIP, collect_below, scan_groups, scan_one, write_columns

Floats = NDArray[np.float32]

#: Features are scanned four at a time, so these numbers leave every remainder.
FEATURES = (1, 2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize("euclidean", [True, False])
@pytest.mark.parametrize("n_features", FEATURES)
def test_every_query_of_a_group_finds_its_nearest_items(n_features: int, euclidean: bool) -> None:
    blocks, queries, expected = example(n_features, euclidean)
    values, positions = lists(GROUP)
    scan_groups(blocks, np.zeros((2, STRIP), np.float32), queries, euclidean, values, positions)
    np.testing.assert_array_equal(positions, np.argsort(expected, axis=1)[:, :3])
    np.testing.assert_allclose(values, np.sort(expected, axis=1)[:, :3], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("euclidean", [True, False])
@pytest.mark.parametrize("n_features", FEATURES)
def test_one_query_finds_its_nearest_items(n_features: int, euclidean: bool) -> None:
    blocks, queries, expected = example(n_features, euclidean)
    values, positions = lists(1)
    scan_one(blocks, np.zeros((2, STRIP), np.float32), 0, 2, queries[0], euclidean, values[0], positions[0])
    np.testing.assert_array_equal(positions[0], np.argsort(expected[0])[:3])


@pytest.mark.parametrize("euclidean", [True, False])
@pytest.mark.parametrize("n_features", FEATURES)
def test_all_items_below_a_limit_are_collected(n_features: int, euclidean: bool) -> None:
    blocks, queries, expected = example(n_features, euclidean)
    highest = np.sort(expected, axis=1)[:, 4:6].mean(axis=1)  # between the fifth and the sixth item
    found, counts = np.zeros((GROUP, 8), np.int64), np.zeros(GROUP, np.int64)
    collect_below(blocks, np.zeros((2, STRIP), np.float32), queries, euclidean, highest, found, counts)
    assert counts.tolist() == [5] * GROUP
    np.testing.assert_array_equal(found[:, :5], np.sort(np.argsort(expected, axis=1)[:, :5], axis=1))


def test_hidden_items_are_not_found() -> None:
    blocks, queries, expected = example(3, euclidean=True)
    nearest = int(np.argmin(expected[0]))
    hidden = np.zeros((2, STRIP), np.float32)
    hidden.flat[nearest] = np.inf
    values, positions = lists(GROUP)
    scan_groups(blocks, hidden, queries, True, values, positions)
    assert nearest not in positions[0]


@pytest.mark.parametrize(("begin", "count"), [(0, 1), (3, 20), (STRIP - 2, 5), (STRIP - 2, STRIP + 1), (5, 16)])
def test_columns_are_written_and_their_neighbours_are_not(begin: int, count: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    blocks = np.full((3, 3, STRIP), np.nan, np.float32)
    write_columns(vectors, blocks, begin)
    columns = blocks.transpose(0, 2, 1).reshape(-1, 3)
    np.testing.assert_array_equal(columns[begin : begin + count], vectors)
    assert np.isnan(columns[:begin]).all()
    assert np.isnan(columns[begin + count :]).all()


def example(n_features: int, euclidean: bool) -> tuple[Floats, Floats, NDArray[Any]]:
    """Two blocks of items, a group of queries, and the sort value of each item for each query."""
    rng = np.random.default_rng(n_features)
    items = rng.normal(size=(2 * STRIP, n_features)).astype(np.float32)
    queries = rng.normal(size=(GROUP, n_features)).astype(np.float32)
    blocks = np.ascontiguousarray(items.reshape(2, STRIP, n_features).transpose(0, 2, 1))
    a, b = queries.astype(np.float64), items.astype(np.float64)
    return blocks, queries, np.square(a[:, None] - b[None]).sum(axis=2) if euclidean else -a @ b.T


def lists(n_queries: int) -> tuple[Floats, NDArray[np.int64]]:
    """Empty lists of the three smallest sort values and their positions."""
    return np.full((n_queries, 3), np.inf, np.float32), np.full((n_queries, 3), -1, np.int64)
