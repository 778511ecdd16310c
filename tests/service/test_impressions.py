"""Impressions are found until they expire, and their number is limited."""

from __future__ import annotations

from oahu.service.impressions import Impressions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_impression_is_found_until_it_expires() -> None:
    clock = Clock()
    impressions = Impressions(10, 60, clock)
    id_ = impressions.add(["a", "b"])
    clock.now = 59.9
    assert impressions.shown(id_) == ("a", "b")
    clock.now = 60
    assert impressions.shown(id_) is None


def test_an_unknown_impression_is_not_found() -> None:
    assert Impressions(10, 60).shown("unknown") is None


def test_the_oldest_impressions_are_dropped_first() -> None:
    impressions = Impressions(3, 60)
    ids = [impressions.add([str(at)]) for at in range(5)]
    assert [impressions.shown(id_) for id_ in ids] == [None, None, ("2",), ("3",), ("4",)]


def test_expired_impressions_are_deleted_by_the_next_search() -> None:
    clock = Clock()
    impressions = Impressions(100, 60, clock)
    for _ in range(50):
        impressions.add(["a"])
    clock.now = 100
    impressions.add(["b"])
    assert len(impressions) == 1


def test_ids_are_distinct_and_hold_at_most_100_results() -> None:
    impressions = Impressions(1_000, 60)
    ids = {impressions.add([str(at) for at in range(1_000)]) for _ in range(100)}
    assert len(ids) == 100
    assert {len(impressions.shown(id_) or ()) for id_ in ids} == {100}
