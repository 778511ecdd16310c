"""Outcomes: marks of several clicks on one search are combined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oahu.service.outcomes import Outcome, ShownList, Sides, mark, merge
from oahu.service.records import Click
from oahu.service.store.interface import StoredOutcome
from oahu.tasks.interleaving import team_draft

KEYS = tuple("abcdef")


def stored(seq: int, click: Click, shown: ShownList, impression: str = "one") -> StoredOutcome:
    return StoredOutcome(seq, impression, 7, mark(click, shown).to_json())


def merged(*clicks: Click, sides: Sides | None = None) -> Any:
    (row,) = merge(stored(seq, click, ShownList(KEYS, sides)) for seq, click in enumerate(clicks, 1))
    return row


def test_one_click() -> None:
    row = merged(Click("q", ("a", "c"), ("b",)))
    assert (row["seq"], row["query"], row["shown"], row["alike"], row["depth"]) == (1, 7, 6, 2, 0)


def test_several_clicks_on_one_search_are_one_outcome() -> None:
    assert merged(Click("q", ("a",), ()), Click("q", ("c",), ()), Click("q", ("a",), ("d",)))["alike"] == 2


def test_the_newest_mark_counts() -> None:
    assert merged(Click("q", ("a", "b"), ()), Click("q", (), ("a",)))["alike"] == 1
    assert merged(Click("q", ("a", "b"), ()), Click("q", (), ("a",)), Click("q", ("a",), ()))["alike"] == 2


def test_items_that_were_not_shown_do_not_count() -> None:
    assert merged(Click("q", ("a", "z"), ()))["alike"] == 1


@pytest.mark.parametrize("seed", range(20))
def test_precisions_and_credits_of_an_interleaved_list(seed: int) -> None:
    rng = np.random.default_rng(seed)
    learned, unlearned = (rng.permutation(200).astype(str).tolist() for _ in range(2))
    drafted = team_draft(learned, unlearned, 100, rng)
    sides = Sides.of(drafted, learned, unlearned, 50)
    alike = set(rng.permutation(drafted.items)[:30].tolist())
    outcome = Outcome.from_json(
        mark(Click("q", tuple(alike), ()), ShownList(tuple(drafted.items), sides)).to_json()
    )
    (row,) = np.array([outcome.row(1, 7)], merged(Click("q", ("a",), ())).dtype)
    assert (row["depth"], row["alike"]) == (50, 30)
    assert row["learned"] == len(alike & set(learned[:50]))
    assert row["unlearned"] == len(alike & set(unlearned[:50]))
    from_learned = [item for item, one in zip(*drafted, strict=True) if one]
    assert row["learned_credit"] == len(alike & set(from_learned))
    assert row["unlearned_credit"] == 30 - row["learned_credit"]


def test_impressions_are_in_the_order_of_their_first_clicks() -> None:
    shown = ShownList(KEYS)
    clicks = [(1, "x"), (2, "y"), (3, "x"), (4, "z")]
    rows = merge(stored(seq, Click("q", ("a",), ()), shown, impression) for seq, impression in clicks)
    assert rows["seq"].tolist() == [1, 2, 4]
