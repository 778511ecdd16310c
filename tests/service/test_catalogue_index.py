"""The index finds the same items as brute force, and a change returns a new index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu import EuclideanMetric
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.feature_store import FeatureStore
from oahu.service.records import AddedItem, CatalogueChange, PublishedMetric
from oahu.tasks import indexed_items

D = 3
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, D)).astype(np.float32)  # by number; there is no item 0
PLAIN = PublishedMetric(EuclideanMetric(D), 0, 0, None, 0.0)


@pytest.fixture(scope="module")
def features() -> FeatureStore:
    made = FeatureStore(D, np.dtype(np.float32))
    made.add(list(range(1, 60)), [f"k{n}" for n in range(1, 60)], ROWS[1:].tobytes())
    return made


def nearest(query: Any, numbers: list[int], n: int) -> list[int]:
    """Return the nearest items by brute force."""
    return sorted(numbers, key=lambda number: float(np.square(ROWS[number] - query).sum()))[:n]


def found(index: CatalogueIndex, n: int, gallery: Any = None, exclude: int | None = None) -> set[int]:
    searched = index.gallery if gallery is None else gallery
    return set(index.candidates(ROWS[5][None], n, searched, exclude).tolist())


def test_an_empty_index_has_no_candidates(features: FeatureStore) -> None:
    assert found(CatalogueIndex.build(PLAIN, "experts", features.table, [], []), 5) == set()


def test_candidates_are_the_nearest_items(features: FeatureStore) -> None:
    index = CatalogueIndex.build(PLAIN, "experts", features.table, list(range(1, 40)), [None] * 39)
    for n in (1, 3, 10, 39, 500):
        assert found(index, n) == set(nearest(ROWS[5], list(range(1, 40)), n))


def test_an_excluded_item_is_replaced_by_the_next_nearest_item(features: FeatureStore) -> None:
    index = CatalogueIndex.build(PLAIN, "experts", features.table, list(range(1, 40)), [None] * 39)
    others = [n for n in range(1, 40) if n != 5]
    assert found(index, 7, exclude=5) == set(nearest(ROWS[5], others, 7))


def test_a_missing_item_can_be_excluded(features: FeatureStore) -> None:
    index = CatalogueIndex.build(PLAIN, "experts", features.table, [1, 2, 3], [None] * 3)
    assert found(index, 3, exclude=50) == {1, 2, 3}


def test_candidates_come_from_every_space(features: FeatureStore, trained_metric: Any) -> None:
    published = trained_metric("OAHU", 40, dimension=D)
    index = CatalogueIndex.build(published, "experts", features.table, list(range(1, 60)), [None] * 59)
    expected: set[int] = set()
    for space in published.metric.spaces:
        vectors = space.encode(ROWS)
        distances = np.square(vectors[1:] - vectors[5]).sum(axis=1)
        expected |= set((1 + np.argsort(distances, kind="stable")[:6]).tolist())
    assert found(index, 6) == expected
    assert len(expected) > 6


def test_items_are_encoded_in_blocks_with_pauses(features: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CatalogueIndex.build(PLAIN, "experts", features.table, list(range(1, 60)), [None] * 59)
    monkeypatch.setattr(indexed_items, "_SMALL_BLOCK", 7)
    pauses: list[float] = []
    parts = CatalogueIndex.build(PLAIN, "experts", features.table, list(range(1, 60)), [None] * 59, pauses.append)
    assert found(parts, 11) == found(whole, 11)
    assert len(pauses) == 9


# -- changes ---------------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 8)),
        st.tuples(st.just("remove"), st.integers(1, 4)),
        st.tuples(st.just("label"), st.integers(1, 4)),
        st.tuples(st.just("replace"), st.integers(1, 3)),
    ),
    max_size=12,
)


@given(CHANGES, st.integers(0, 2**32))
@settings(max_examples=60)
def test_changes_give_the_expected_items_and_labels(changes: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = FeatureStore(D, np.dtype(np.float32))
    features.add(list(range(1, 60)), [""] * 59, ROWS[1:].tobytes())
    index = CatalogueIndex.build(PLAIN, "experts", features.table, [], [])
    expected_labels: dict[int, str | None] = {}
    unused = list(range(59, 0, -1))
    for kind, n in changes:
        some = rng.permutation(list(expected_labels)).tolist()[:n]
        new = [unused.pop() for _ in range(min(n, len(unused)))] if kind in ("add", "replace") else []
        labels = {number: rng.choice(["x", "y", None]) for number in [*new, *some]}
        change = CatalogueChange(
            [AddedItem(number, "", labels[number], b"") for number in new],
            [(number, labels[number]) for number in some] if kind == "label" else [],
            some if kind in ("remove", "replace") else [],
        )
        for number in change.removed:
            del expected_labels[number]
        expected_labels.update({number: labels[number] for number in new})
        expected_labels.update(dict(change.relabelled))
        index = index.changed(change, features.table)
    assert dict(zip(*index.items(), strict=True)) == expected_labels
    assert index.n_items == len(expected_labels)
    assert found(index, 5) == set(nearest(ROWS[5], list(expected_labels), 5))
    for label in ("x", "y"):
        expected = [number for number, one in expected_labels.items() if one == label]
        assert found(index, 4, index.with_label(label)) == set(nearest(ROWS[5], expected, 4))
        assert set(index.existing(range(60), label).tolist()) == set(expected)
    labelled = [number for number, one in expected_labels.items() if one is not None]
    assert found(index, 4, index.with_label(None)) == set(nearest(ROWS[5], labelled, 4))


def test_an_index_is_immutable(features: FeatureStore) -> None:
    before = CatalogueIndex.build(PLAIN, "experts", features.table, [1, 2, 3], ["x", "y", None])
    before.with_label("x")
    after = before.changed(CatalogueChange([AddedItem(4, "k4", "x", b"")], [(2, "x")], [1]), features.table)
    assert before.items() == ([1, 2, 3], ["x", "y", None])
    assert after.items() == ([2, 3, 4], ["x", None, "x"])
    assert found(before, 3, before.with_label("x")) == {1}
    assert found(after, 3, after.with_label("x")) == {2, 4}


def test_an_item_that_is_added_and_removed_in_one_change(features: FeatureStore) -> None:
    change = CatalogueChange([AddedItem(1, "k1", None, b""), AddedItem(2, "k1", "x", b"")], [], [1])
    index = CatalogueIndex.build(PLAIN, "experts", features.table, [], []).changed(change, features.table)
    assert index.items() == ([2], ["x"])


def test_an_added_item_that_is_already_purged_is_skipped(features: FeatureStore) -> None:
    index = CatalogueIndex.build(PLAIN, "experts", features.table, [1], [None])
    added, removed = (
        CatalogueChange([AddedItem(500, "k500", "x", b""), AddedItem(2, "k2", "x", b"")]),
        CatalogueChange(removed=[500]),
    )
    changed = index.changed(added, features.table).changed(removed, features.table)
    assert changed.items() == ([1, 2], [None, "x"])
    assert found(changed, 5) == {1, 2}


def test_removing_or_relabelling_a_missing_item_changes_nothing(features: FeatureStore) -> None:
    index = CatalogueIndex.build(PLAIN, "experts", features.table, [1], [None])
    changed = index.changed(CatalogueChange(relabelled=[(30, "x")], removed=[20, 500]), features.table)
    assert changed.items() == ([1], [None])


def test_a_search_can_be_restricted_to_some_items(features: FeatureStore) -> None:
    index = CatalogueIndex.build(PLAIN, "experts", features.table, list(range(1, 30)), [None] * 29)
    some = np.array([3, 8, 20, 21])
    assert found(index, 3, index.only(some)) == set(nearest(ROWS[5], some.tolist(), 3))


def test_labels_are_compared_exactly(features: FeatureStore) -> None:
    labels: list[str | None] = ["None", "", "x", "X", None]
    index = CatalogueIndex.build(PLAIN, "experts", features.table, [1, 2, 3, 4, 5], labels)
    assert [found(index, 5, index.with_label(label)) for label in ("None", "", "x", "X")] == [
        {1},
        {2},
        {3},
        {4},
    ]
    assert found(index, 5, index.with_label(None)) == {1, 2, 3, 4}


def test_the_filter_cache_is_limited(features: FeatureStore) -> None:
    index = CatalogueIndex.build(
        PLAIN, "experts", features.table, list(range(1, 60)), [str(n) for n in range(1, 60)]
    )
    for _ in range(2):
        for n in range(1, 200):
            expected = {n} if n < 60 else set()
            assert found(index, 5, index.with_label(str(n))) == expected
    assert len(index._filtered) <= 65
