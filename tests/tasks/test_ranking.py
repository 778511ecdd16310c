"""Rankings against dictionaries and loops."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu.tasks.indexed_items import SpaceNeighbours
from oahu.tasks.ranking import combine_votes, without_excluded

N_ITEMS = 7


class Spaces(NamedTuple):
    """Neighbours as nested lists: spaces, queries, neighbours."""

    positions: list[list[list[int]]]
    values: list[list[list[float]]]

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return np.array(self.positions, np.int64), np.array(self.values)


@st.composite
def spaces(draw: st.DrawFn, missing: float) -> Spaces:
    """Distinct items in every space, then -1 with the value of a missing item."""
    n_spaces, n_queries, m = (draw(st.integers(1, most)) for most in (3, 3, N_ITEMS))
    positions: list[list[list[int]]] = []
    values: list[list[list[float]]] = []
    for _ in range(n_spaces):
        rows = [draw(st.lists(st.integers(0, N_ITEMS - 1), max_size=m, unique=True)) for _ in range(n_queries)]
        quarters = st.integers(0, 4).map(lambda n: n / 4)  # many ties, and sums without rounding
        positions.append([row + [-1] * (m - len(row)) for row in rows])
        values.append([[draw(quarters) for _ in row] + [missing] * (m - len(row)) for row in rows])
    return Spaces(positions, values)


def ranked_by_hand(found: Spaces, query: int, k: int, add_up: bool) -> list[tuple[int, float]]:
    scores: dict[int, list[float]] = defaultdict(list)
    for positions, values in zip(found.positions, found.values, strict=True):
        for position, value in zip(positions[query], values[query], strict=True):
            if position >= 0:
                scores[position].append(value)
    totals = [(position, sum(each) if add_up else max(each)) for position, each in scores.items()]
    return sorted(totals, key=lambda one: (-one[1], one[0]))[:k]


@given(spaces(missing=0.0), st.integers(1, N_ITEMS + 2), st.booleans())
def test_the_best_distinct_items_of_every_query(found: Spaces, k: int, add_up: bool) -> None:
    positions, scores = combine_votes(*found.arrays(), k, add_up)
    answers = [
        [(at, score) for at, score in zip(*row, strict=True) if at >= 0]
        for row in zip(positions.tolist(), scores.tolist(), strict=True)
    ]
    assert answers == [ranked_by_hand(found, query, k, add_up) for query in range(len(answers))]


@given(spaces(missing=0.0), st.integers(1, N_ITEMS + 2))
def test_missing_items_are_last_with_score_0(found: Spaces, k: int) -> None:
    positions, scores = combine_votes(*found.arrays(), k, add_up=False)
    n_found = (positions >= 0).sum(axis=1)
    missing = np.arange(k) >= n_found[:, None]
    assert (positions[missing] == -1).all()
    assert (scores[missing] == 0).all()


@pytest.mark.parametrize("add_up", [False, True])
def test_an_item_with_score_0_is_found(add_up: bool) -> None:
    positions, _ = combine_votes(np.array([[[4, 2]]]), np.array([[[1.0, 0.0]]]), 3, add_up)
    assert positions.tolist() == [[4, 2, -1]]


excluded_rows = st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=3), min_size=3, max_size=3)


def padded(rows: list[list[int]]) -> NDArray[np.int64]:
    width = max(map(len, rows))
    return np.array([row + [-2] * (width - len(row)) for row in rows], np.int64).reshape(len(rows), width)


def kept_by_hand(row: list[int], values: list[float], k: int, out: list[int], n_items: int) -> list[Any]:
    pairs = zip(row, values, strict=True)
    return [(at, value) for at, value in pairs if 0 <= at < n_items and at not in out][:k]


@given(spaces(missing=np.inf), st.integers(1, N_ITEMS + 2), excluded_rows, st.integers(0, N_ITEMS))
def test_the_first_k_without_excluded_items(found: Spaces, k: int, out: list[list[int]], n_items: int) -> None:
    positions, distances = found.arrays()
    out = out[: positions.shape[1]]
    first = without_excluded(SpaceNeighbours(positions, distances), k, padded(out), n_items)
    for space in range(len(positions)):
        for query, excluded in enumerate(out):
            got = zip(first.positions[space, query].tolist(), first.distances[space, query].tolist(), strict=True)
            wanted = kept_by_hand(found.positions[space][query], found.values[space][query], k, excluded, n_items)
            width = min(k, positions.shape[2])
            assert list(got) == wanted + [(-1, np.inf)] * (width - len(wanted))


def test_many_exclusions_need_little_memory() -> None:
    n, k = 5000, 10
    positions = np.tile(np.arange(n + k), (4, 1, 1))
    tracemalloc.start()
    without_excluded(SpaceNeighbours(positions, positions.astype(float)), k, np.arange(n)[None], n + k)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * positions.nbytes  # a table of all pairs of neighbour and exclusion would need 600 times that
