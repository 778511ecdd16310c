"""Groups: clicks are divided, padded and stored without loss."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import Click, Clicks, ModelFileError, Pair, Triplet
from oahu.io.model_files import Content
from oahu.learners.anchored.groups import (
    MAX_ITEMS,
    Group,
    groups_from_arrays,
    groups_of,
    groups_to_arrays,
    padded,
)

Rows = NDArray[np.float64]

TABLE = np.random.default_rng(0).normal(size=(200, 3))
QUERY = np.array([7.0, 8.0, 9.0])


def groups_of_list(clicks: list[Any], by_row: bool = True) -> list[list[Group]]:
    """Return the groups of each click."""
    batch = Clicks(clicks, preprocessor=TABLE)
    return list(groups_of(batch, batch.values(), 0, len(batch), by_row))


def items_of(group: Group) -> Rows:
    """Return the features of the items of a group."""
    vectors = iter(group.vectors)
    return np.array([next(vectors) if row < 0 else TABLE[row] for row in group.rows])


def test_a_small_click_is_one_group_in_the_order_of_the_click() -> None:
    ((group,),) = groups_of_list([Click(5, [1, 2], [9], weight=0.25)])
    assert group.rows.tolist() == [5, 1, 2, 9]
    assert group.marks.tolist() == [1, 1, 1, -1]
    assert group.weight == 0.25
    assert group.vectors.shape == (0, 3)


def test_triplets_and_pairs_are_groups() -> None:
    groups = [group for (group,) in groups_of_list([Triplet(0, 1, 2), Pair(3, 4, True), Pair(5, 6, False)])]
    assert [group.marks.tolist() for group in groups] == [[1, 1, -1], [1, 1], [1, -1]]
    assert [group.rows.tolist() for group in groups] == [[0, 1, 2], [3, 4], [5, 6]]
    assert [group.weight for group in groups] == [1, 1, 1]


def test_shown_items_are_weak_negatives_of_clicks_with_positives_and_otherwise_weak_positives() -> None:
    with_positives, without = (
        group for (group,) in groups_of_list([Click(0, [1], [2], [3]), Click(0, [], [2], [3])])
    )
    assert with_positives.marks[:3].tolist() == [1, 1, -1]
    assert -1 < with_positives.marks[3] < 0
    assert without.marks[:2].tolist() == [1, -1]
    assert 0 < without.marks[2] < 1


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 60), st.booleans())
def test_a_long_click_is_divided_evenly(n_positives: int, n_negatives: int, n_shown: int, by_row: bool) -> None:
    n_negatives += not n_positives + n_negatives
    rows = np.random.default_rng(0).permutation(200)[: 1 + n_positives + n_negatives + n_shown].tolist()
    parts = np.split(rows[1:], [n_positives, n_positives + n_negatives])
    (groups,) = groups_of_list([Click(rows[0], *(part.tolist() for part in parts), weight=0.5)], by_row)
    assert all(2 <= len(group.rows) <= MAX_ITEMS for group in groups)
    assert len(groups) == int(np.ceil((len(rows) - 1) / (MAX_ITEMS - 1)))
    assert {group.weight for group in groups} == {0.5}
    for group in groups:
        np.testing.assert_array_equal(items_of(group)[0], TABLE[rows[0]])
        assert group.marks[0] == 1
        assert (group.rows >= 0).all() == by_row
    found = Counter(
        (tuple(item), float(np.sign(mark)) if abs(mark) == 1 else "shown")
        for group in groups
        for item, mark in zip(items_of(group)[1:], group.marks[1:], strict=True)
    )
    labels = [1.0] * n_positives + [-1.0] * n_negatives + ["shown"] * n_shown
    assert found == Counter((tuple(TABLE[row]), label) for row, label in zip(rows[1:], labels, strict=True))
    for mark in (1, -1):
        shares = [np.count_nonzero(group.marks[1:] == mark) for group in groups]
        assert max(shares) - min(shares) <= 1


def test_a_query_that_is_no_row_is_stored_in_each_group() -> None:
    (groups,) = groups_of_list([Click(QUERY, list(range(20)), [30])])
    assert len(groups) == 2
    for group in groups:
        assert group.rows[0] == -1
        assert (group.rows[1:] >= 0).all()
        assert group.vectors.tolist() == [QUERY.tolist()]


def test_groups_from_the_middle_of_a_batch_have_their_own_values() -> None:
    clicks = [Click(0, [1], [2]), Click(QUERY, [3], [4]), Click(5, [6, 7]), Click(8, [], [9])]
    batch = Clicks(clicks, preprocessor=TABLE)
    values = batch.values()[int(batch.offsets[1]) : int(batch.offsets[3])]
    for by_row in (False, True):
        groups = [group for (group,) in groups_of(batch, values, 1, 3, by_row)]
        assert items_of(groups[0]).tolist() == [QUERY.tolist(), *TABLE[[3, 4]].tolist()]
        assert items_of(groups[1]).tolist() == TABLE[[5, 6, 7]].tolist()


def test_groups_do_not_share_memory_with_the_values_of_the_clicks() -> None:
    batch = Clicks([Click(0, [1], [2])], preprocessor=TABLE)
    values = batch.values()
    ((group,),) = groups_of(batch, values, 0, 1, False)
    before = group.vectors.copy()
    values[...] = 0
    np.testing.assert_array_equal(group.vectors, before)


# -- padding -------------------------------------------------------------------------------------------------


def test_padding() -> None:
    groups = [group for (group,) in groups_of_list([Click(0, [1], [2, 3]), Pair(4, 5, True), Triplet(6, 7, 8)])]
    part = padded(groups)
    assert part.sizes.tolist() == [4, 2, 3]
    assert part.marks.tolist() == [[1, 1, -1, -1], [1, 1, 0, 0], [1, 1, -1, 0]]
    assert part.weights.tolist() == [1, 1, 1]
    items = np.arange(1, 19).reshape(9, 2)
    array = part.pad(items)
    assert array.dtype == items.dtype
    assert array[0].tolist() == items[:4].tolist()
    assert array[1].tolist() == [*items[4:6].tolist(), [0, 0], [0, 0]]
    assert array[2].tolist() == [*items[6:].tolist(), [0, 0]]


# -- files ---------------------------------------------------------------------------------------------------

STORED = [Click(0, [1], [2, 3]), Click(QUERY, [4], [5], [6]), Click(7, [], [8], weight=0.5), Pair(9, 10, True)]


def stored_arrays(by_row: bool = True) -> dict[str, NDArray[Any]]:
    groups = [group for (group,) in groups_of_list(STORED, by_row)]
    return groups_to_arrays(groups, 3, TABLE.dtype)


def read(arrays: dict[str, NDArray[Any]]) -> list[Group]:
    return groups_from_arrays(Content({}, arrays), 3, TABLE.dtype)


@pytest.mark.parametrize("by_row", [False, True])
def test_stored_groups_are_read_unchanged(by_row: bool) -> None:
    groups = [group for (group,) in groups_of_list(STORED, by_row)]
    loaded = read(groups_to_arrays(groups, 3, TABLE.dtype))
    assert len(loaded) == len(groups)
    for group, other in zip(groups, loaded, strict=True):
        assert group.weight == other.weight
        for mine, theirs in zip(group[:3], other[:3], strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)


def test_no_groups_are_stored_as_empty_arrays() -> None:
    assert read(groups_to_arrays([], 3, TABLE.dtype)) == []


def changed(name: str, place: int, value: float) -> dict[str, NDArray[Any]]:
    arrays = stored_arrays()
    arrays[name] = arrays[name].copy()
    arrays[name][place] = value
    return arrays


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("group_sizes", 0, 5, "sizes"),
        ("group_sizes", 3, 1, "sizes"),
        ("group_sizes", 0, MAX_ITEMS + 1, "sizes"),
        ("group_sizes", 0, -4, "sizes"),
        ("group_rows", 1, -2, "vectors"),
        ("group_rows", 1, -1, "vectors"),
        ("group_rows", 4, 11, "vectors"),
        ("group_weights", 2, 0, "weights"),
        ("group_weights", 2, 1.5, "weights"),
        ("group_marks", 2, 0, "marks"),
        ("group_marks", 2, -1.5, "marks"),
        ("group_marks", 2, np.nan, "not finite"),
    ],
)
def test_arrays_that_do_not_fit_together_raise(name: str, place: int, value: float, message: str) -> None:
    with pytest.raises((ValueError, ModelFileError), match=message):
        read(changed(name, place, value))


@pytest.mark.parametrize("name", ["group_sizes", "group_rows", "group_marks", "group_weights", "group_vectors"])
def test_missing_or_short_arrays_raise(name: str) -> None:
    arrays = stored_arrays()
    with pytest.raises((ValueError, ModelFileError)):
        read(arrays | {name: arrays[name][:-1]})
    with pytest.raises(ModelFileError, match=f"no array '{name}'"):
        read({label: array for label, array in arrays.items() if label != name})
