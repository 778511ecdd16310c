"""A catalogue is a frozen value: what was changed is a new one, and it finds what brute force finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oahu import EuclideanMetric
from oahu.service.catalogue_index import CatalogueIndex
from oahu.service.feature_store import FeatureStore
from oahu.service.records import CatalogueChange, PublishedMetric
from oahu.tasks import indexed_items

D = 3
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, D)).astype(np.float32)  # by number; number 0 is nobody's
PLAIN = PublishedMetric(EuclideanMetric(D), 0, 0, None, 0.0)


@pytest.fixture(scope="module")
def vectors() -> FeatureStore:
    made = FeatureStore(D, np.dtype(np.float32))
    made.add(list(range(1, 60)), [f"k{n}" for n in range(1, 60)], ROWS[1:].tobytes())
    return made


def nearest(query: Any, numbers: list[int], n: int) -> list[int]:
    """By brute force, in the order of distance."""
    return sorted(numbers, key=lambda number: float(np.square(ROWS[number] - query).sum()))[:n]


def found(catalogue: CatalogueIndex, n: int, gallery: Any = None, without: int | None = None) -> set[int]:
    asked = catalogue.gallery if gallery is None else gallery
    return set(catalogue.candidates(ROWS[5][None], n, asked, without).tolist())


def test_an_empty_catalogue_has_no_candidates(vectors: FeatureStore) -> None:
    assert found(CatalogueIndex.of(PLAIN, "experts", vectors.table, [], []), 5) == set()


def test_candidates_are_the_nearest(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, list(range(1, 40)), [None] * 39)
    for n in (1, 3, 10, 39, 500):
        assert found(catalogue, n) == set(nearest(ROWS[5], list(range(1, 40)), n))


def test_one_can_be_left_out_and_another_takes_its_place(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, list(range(1, 40)), [None] * 39)
    others = [n for n in range(1, 40) if n != 5]
    assert found(catalogue, 7, without=5) == set(nearest(ROWS[5], others, 7))


def test_one_that_is_not_there_can_be_left_out(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, [1, 2, 3], [None] * 3)
    assert found(catalogue, 3, without=50) == {1, 2, 3}


def test_candidates_come_from_every_space(vectors: FeatureStore, trained: Any) -> None:
    published = trained("OAHU", 40, dimension=D)
    catalogue = CatalogueIndex.of(published, "experts", vectors.table, list(range(1, 60)), [None] * 59)
    expected: set[int] = set()
    for space in published.metric.spaces:
        here = space.encode(ROWS)
        apart = np.square(here[1:] - here[5]).sum(axis=1)
        expected |= set((1 + np.argsort(apart, kind="stable")[:6]).tolist())
    assert found(catalogue, 6) == expected
    assert len(expected) > 6


def test_items_are_embedded_in_small_blocks_with_rests_between(
    vectors: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = CatalogueIndex.of(PLAIN, "experts", vectors.table, list(range(1, 60)), [None] * 59)
    monkeypatch.setattr(indexed_items, "_SMALL_BLOCK", 7)
    rests: list[float] = []
    parts = CatalogueIndex.of(PLAIN, "experts", vectors.table, list(range(1, 60)), [None] * 59, rests.append)
    assert found(parts, 11) == found(whole, 11)
    assert len(rests) == 9


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
def test_after_any_changes_what_is_there_is_what_was_left(changes: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = FeatureStore(D, np.dtype(np.float32))
    vectors.add(list(range(1, 60)), [""] * 59, ROWS[1:].tobytes())
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, [], [])
    there: dict[int, str | None] = {}
    unused = list(range(59, 0, -1))
    for what, n in changes:
        some = rng.permutation(list(there)).tolist()[:n]
        new = [unused.pop() for _ in range(min(n, len(unused)))] if what in ("add", "replace") else []
        labels = {number: rng.choice(["x", "y", None]) for number in [*new, *some]}
        change = CatalogueChange(
            [(number, "", labels[number], b"") for number in new],
            [(number, labels[number]) for number in some] if what == "label" else [],
            some if what in ("remove", "replace") else [],
        )
        for number in change.removed:
            del there[number]
        there.update({number: labels[number] for number in new})
        there.update(dict(change.labelled))
        catalogue = catalogue.changed(change, vectors.table)
    assert dict(zip(*catalogue.present(), strict=True)) == there
    assert catalogue.n_items == len(there)
    assert found(catalogue, 5) == set(nearest(ROWS[5], list(there), 5))
    for label in ("x", "y"):
        expected = [number for number, one in there.items() if one == label]
        assert found(catalogue, 4, catalogue.with_label(label)) == set(nearest(ROWS[5], expected, 4))
        assert set(catalogue.there(range(60), label).tolist()) == set(expected)
    labelled = [number for number, one in there.items() if one is not None]
    assert found(catalogue, 4, catalogue.with_label(None)) == set(nearest(ROWS[5], labelled, 4))


def test_a_catalogue_does_not_change(vectors: FeatureStore) -> None:
    before = CatalogueIndex.of(PLAIN, "experts", vectors.table, [1, 2, 3], ["x", "y", None])
    before.with_label("x")
    after = before.changed(CatalogueChange([(4, "k4", "x", b"")], [(2, "x")], [1]), vectors.table)
    assert before.present() == ([1, 2, 3], ["x", "y", None])
    assert after.present() == ([2, 3, 4], ["x", None, "x"])
    assert found(before, 3, before.with_label("x")) == {1}
    assert found(after, 3, after.with_label("x")) == {2, 4}


def test_an_item_that_came_and_went_in_one_change_is_not_there(vectors: FeatureStore) -> None:
    change = CatalogueChange([(1, "k1", None, b""), (2, "k1", "x", b"")], [], [1])
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, [], []).changed(change, vectors.table)
    assert catalogue.present() == ([2], ["x"])


def test_what_came_and_went_while_the_table_was_made_anew_is_not_there(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, [1], [None])
    come, gone = CatalogueChange([(500, "k500", "x", b""), (2, "k2", "x", b"")]), CatalogueChange(removed=[500])
    changed = catalogue.changed(come, vectors.table).changed(gone, vectors.table)
    assert changed.present() == ([1, 2], [None, "x"])
    assert found(changed, 5) == {1, 2}


def test_what_is_not_there_can_be_removed_and_labelled_without_harm(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, [1], [None])
    changed = catalogue.changed(CatalogueChange(labelled=[(30, "x")], removed=[20, 500]), vectors.table)
    assert changed.present() == ([1], [None])


def test_only_some_of_the_items_can_be_asked_for(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, list(range(1, 30)), [None] * 29)
    some = np.array([3, 8, 20, 21])
    assert found(catalogue, 3, catalogue.only(some)) == set(nearest(ROWS[5], some.tolist(), 3))


def test_labels_are_told_apart_by_all_of_them(vectors: FeatureStore) -> None:
    labels: list[str | None] = ["None", "", "x", "X", None]
    catalogue = CatalogueIndex.of(PLAIN, "experts", vectors.table, [1, 2, 3, 4, 5], labels)
    assert [found(catalogue, 5, catalogue.with_label(label)) for label in ("None", "", "x", "X")] == [
        {1},
        {2},
        {3},
        {4},
    ]
    assert found(catalogue, 5, catalogue.with_label(None)) == {1, 2, 3, 4}


def test_as_many_labels_as_there_are_can_be_asked_for(vectors: FeatureStore) -> None:
    catalogue = CatalogueIndex.of(
        PLAIN, "experts", vectors.table, list(range(1, 60)), [str(n) for n in range(1, 60)]
    )
    for _ in range(2):
        for n in range(1, 200):
            expected = {n} if n < 60 else set()
            assert found(catalogue, 5, catalogue.with_label(str(n))) == expected
    assert len(catalogue._filtered) <= 65
