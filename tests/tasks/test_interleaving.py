"""Team-draft interleaving: the list contains the best items of both rankings, and each side is chosen fairly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.tasks.interleaving import team_draft

rankings = st.permutations(range(12))


@given(rankings, rankings, st.integers(1, 12), st.integers(0, 100))
def test_the_list_contains_the_best_half_of_both_rankings(first: Any, second: Any, k: int, seed: int) -> None:
    items, from_first = team_draft(first, second, k, np.random.default_rng(seed))
    assert len(items) == len(set(items)) == len(from_first) == k
    assert {*first[: k // 2], *second[: k // 2]} <= set(items)


@given(rankings, rankings, st.integers(1, 12), st.integers(0, 100))
def test_each_ranking_contributes_its_best_items_in_order(first: Any, second: Any, k: int, seed: int) -> None:
    items, from_first = team_draft(first, second, k, np.random.default_rng(seed))
    for ranking, side in ((first, True), (second, False)):
        own = [ranking.index(item) for item, one in zip(items, from_first, strict=True) if one == side]
        assert own == sorted(own)
    assert abs(sum(from_first) - k / 2) <= 0.5


@pytest.mark.parametrize("k", [1, 2, 5])
def test_equal_rankings_get_equal_credit_on_average(k: int) -> None:
    rng = np.random.default_rng(0)
    shares = [np.mean(team_draft("abcde", "abcde", k, rng).from_first) for _ in range(4_000)]
    assert np.mean(shares) == pytest.approx(0.5, abs=0.03)


def test_a_short_ranking_contributes_what_it_has() -> None:
    items, from_first = team_draft("a", "bcd", 4, np.random.default_rng(0))
    assert sorted(items) == ["a", "b", "c", "d"]
    assert sum(from_first) == 1
