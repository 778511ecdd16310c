"""Groups: clicks are divided, padded and stored without loss."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
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
    Groups,
    groups_from_arrays,
    groups_of,
    groups_to_arrays,
)

Rows = NDArray[np.float64]

TABLE = np.random.default_rng(0).normal(size=(200, 3))
QUERY = np.array([7.0, 8.0, 9.0])
NAMES = [attribute.name for attribute in fields(Groups)]


def groups_of_list(clicks: list[Any], by_row: bool = True) -> Groups:
    batch = Clicks(clicks, preprocessor=TABLE)
    return groups_of(batch, batch.values(), 0, len(batch), by_row)


def singles(groups: Groups) -> list[Groups]:
    """Return batches of one group."""
    return [groups.cut(number, number + 1) for number in range(len(groups))]


def items_of(groups: Groups) -> Rows:
    """Return the features of the items."""
    vectors = iter(groups.vectors)
    return np.array([next(vectors) if row < 0 else TABLE[row] for row in groups.rows])


def assert_equal(first: Groups, second: Groups) -> None:
    for name in NAMES:
        mine, theirs = getattr(first, name), getattr(second, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


@st.composite
def batches(draw: st.DrawFn, most: int = 12) -> Groups:
    """Return groups of at most 5 items. Some items are no rows of the table."""
    largest = draw(st.integers(2, 5))
    sizes = draw(st.lists(st.integers(2, largest), min_size=1, max_size=most))
    rows = [draw(st.integers(-1, 99)) for _ in range(sum(sizes))]
    numbers = np.random.default_rng(draw(st.integers(0, 99)))
    marks = numbers.choice(np.array([1, -1, 0.3, -0.3], np.float32), len(rows))
    vectors = numbers.normal(size=(rows.count(-1), 3))
    return Groups.of(sizes, np.array(rows, np.int64), vectors, marks, numbers.uniform(0.1, 1, len(sizes)))


# -- clicks --------------------------------------------------------------------------------------------------


def test_a_small_click_is_one_group_in_the_order_of_the_click() -> None:
    groups = groups_of_list([Click(5, [1, 2], [9], weight=0.25)])
    assert groups.offsets.tolist() == [0, 4]
    assert groups.rows.tolist() == [5, 1, 2, 9]
    assert groups.marks.tolist() == [1, 1, 1, -1]
    assert groups.weights.tolist() == [0.25]
    assert groups.vectors.shape == (0, 3)


def test_triplets_and_pairs_are_groups() -> None:
    groups = groups_of_list([Triplet(0, 1, 2), Pair(3, 4, True), Pair(5, 6, False)])
    assert [group.marks.tolist() for group in singles(groups)] == [[1, 1, -1], [1, 1], [1, -1]]
    assert [group.rows.tolist() for group in singles(groups)] == [[0, 1, 2], [3, 4], [5, 6]]
    assert groups.weights.tolist() == [1, 1, 1]


def test_shown_items_of_a_click_with_positives_are_weak_negatives() -> None:
    groups = groups_of_list([Click(0, [1], [2], [3])])
    assert groups.marks[:3].tolist() == [1, 1, -1]
    assert -1 < groups.marks[3] < 0


def test_shown_items_of_a_click_without_positives_are_weak_positives() -> None:
    groups = groups_of_list([Click(0, [], [2], [3])])
    assert groups.marks[:2].tolist() == [1, -1]
    assert 0 < groups.marks[2] < 1


Parts = tuple[int, int, int]

#: The numbers of positives, negatives and shown items of a click.
PARTS = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 60)).filter(lambda n: n[0] + n[1] > 0)


def long_click(parts: Parts, weight: float = 1.0) -> Click:
    """Return a click on different rows of the table."""
    query, *rows = np.random.default_rng(0).permutation(200)[: 1 + sum(parts)].tolist()
    positives, negatives, shown = (part.tolist() for part in np.split(rows, np.cumsum(parts)[:2]))
    return Click(query, positives, negatives, shown, weight=weight)


@given(PARTS)
def test_a_click_is_divided_into_as_few_groups_as_possible(parts: Parts) -> None:
    groups = groups_of_list([long_click(parts)])
    assert groups.sizes.min() >= 2
    assert groups.sizes.max() <= MAX_ITEMS
    assert len(groups) == int(np.ceil(sum(parts) / (MAX_ITEMS - 1)))


@given(PARTS)
def test_each_group_of_a_divided_click_has_the_query_and_the_weight(parts: Parts) -> None:
    click = long_click(parts, weight=0.5)
    groups = groups_of_list([click])
    assert {(int(group.rows[0]), float(group.marks[0])) for group in singles(groups)} == {(click.query, 1.0)}
    assert set(groups.weights.tolist()) == {0.5}


@given(PARTS, st.booleans())
def test_each_item_of_a_divided_click_is_in_one_group(parts: Parts, by_row: bool) -> None:
    click = long_click(parts)
    found = Counter(
        (tuple(item), int(mark) if abs(mark) == 1 else 0)
        for group in singles(groups_of_list([click], by_row))
        for item, mark in zip(items_of(group)[1:].tolist(), group.marks[1:], strict=True)
    )
    expected = [(row, 1) for row in click.positives] + [(row, -1) for row in click.negatives]
    expected += [(row, 0) for row in click.shown]
    assert found == Counter((tuple(TABLE[row].tolist()), label) for row, label in expected)


@given(PARTS)
def test_a_click_is_divided_evenly(parts: Parts) -> None:
    groups = singles(groups_of_list([long_click(parts)]))
    for mark in (1, -1):
        shares = [np.count_nonzero(group.marks[1:] == mark) for group in groups]
        assert max(shares) - min(shares) <= 1


def test_clicks_before_and_after_a_divided_click_are_whole() -> None:
    clicks = [Click(150, [151], weight=0.25), long_click((20, 0, 0), weight=0.5), Click(152, [], [153])]
    groups = groups_of_list(clicks)
    first, *_, last = singles(groups)
    assert (first.rows.tolist(), last.rows.tolist()) == ([150, 151], [152, 153])
    assert groups.weights.tolist() == [0.25, 0.5, 0.5, 1]


@pytest.mark.parametrize("by_row", [False, True])
def test_rows_are_stored_as_numbers_or_as_features(by_row: bool) -> None:
    groups = groups_of_list([Click(5, [1], [9])], by_row)
    assert groups.rows.tolist() == ([5, 1, 9] if by_row else [-1, -1, -1])
    assert groups.vectors.tolist() == TABLE[[] if by_row else [5, 1, 9]].tolist()


def test_a_query_that_is_no_row_is_stored_in_each_group() -> None:
    groups = groups_of_list([Click(QUERY, list(range(20)), [30])])
    assert len(groups) == 2
    for group in singles(groups):
        assert group.rows[0] == -1
        assert (group.rows[1:] >= 0).all()
        assert group.vectors.tolist() == [QUERY.tolist()]


def test_queries_that_are_no_rows_have_the_row_number_minus_1() -> None:
    groups = groups_of_list([Click(QUERY, [1]), Click(2 * QUERY, [2]), Click(3 * QUERY, [3])])
    assert groups.rows.tolist() == [-1, 1, -1, 2, -1, 3]
    assert groups.vectors.tolist() == [QUERY.tolist(), (2 * QUERY).tolist(), (3 * QUERY).tolist()]


@pytest.mark.parametrize("by_row", [False, True])
def test_groups_from_the_middle_of_a_batch_have_their_own_values(by_row: bool) -> None:
    clicks = [Click(0, [1], [2]), Click(QUERY, [3], [4]), Click(5, [6, 7], weight=0.5), Click(8, [], [9])]
    batch = Clicks(clicks, preprocessor=TABLE)
    values = batch.values()[int(batch.offsets[1]) : int(batch.offsets[3])]
    groups = groups_of(batch, values, 1, 3, by_row)
    assert items_of(groups).tolist() == [QUERY.tolist(), *TABLE[[3, 4, 5, 6, 7]].tolist()]
    assert groups.marks.tolist() == [1, 1, -1, 1, 1, 1]
    assert groups.weights.tolist() == [1, 0.5]


def test_groups_do_not_share_memory_with_the_clicks() -> None:
    batch = Clicks([Click(0, [1], [2])], preprocessor=TABLE)
    values = batch.values()
    groups = groups_of(batch, values, 0, 1, False)
    for array in (values, batch.refs, batch.marks, batch.offsets, batch.weights):
        assert not any(np.shares_memory(array, getattr(groups, name)) for name in NAMES)


# -- batches -------------------------------------------------------------------------------------------------


@given(batches())
def test_single_groups_that_are_joined_are_the_batch(groups: Groups) -> None:
    assert_equal(Groups.joined(singles(groups)), groups)


@given(st.lists(batches(4), min_size=1, max_size=4))
def test_the_parts_of_a_joined_batch_can_be_cut_out(parts: list[Groups]) -> None:
    joined, start = Groups.joined(parts), 0
    for part in parts:
        assert_equal(joined.cut(start, start + len(part)), part)
        start += len(part)
    assert start == len(joined)


@given(batches(), st.data())
def test_a_cut_has_the_items_of_its_groups(groups: Groups, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(groups) - 1))
    stop = data.draw(st.integers(start + 1, len(groups)))
    cut = groups.cut(start, stop)
    first, last = groups.sizes[:start].sum(), groups.sizes[:stop].sum()
    before = np.count_nonzero(groups.rows[:first] == -1)
    assert cut.rows.tolist() == groups.rows[first:last].tolist()
    assert cut.vectors.tolist() == groups.vectors[before:][: np.count_nonzero(cut.rows == -1)].tolist()
    assert cut.weights.tolist() == groups.weights[start:stop].tolist()


@given(batches())
def test_vector_offsets_count_the_items_that_are_no_rows(groups: Groups) -> None:
    for number, group in enumerate(singles(groups)):
        start, stop = groups.vector_offsets[number : number + 2]
        assert groups.vectors[start:stop].tolist() == group.vectors.tolist()
        assert stop - start == np.count_nonzero(group.rows == -1)


@given(batches())
def test_a_copy_is_equal_and_shares_no_memory(groups: Groups) -> None:
    copy = groups.copy()
    assert_equal(copy, groups)
    assert not any(np.shares_memory(getattr(copy, name), getattr(groups, name)) for name in NAMES)


@given(batches())
def test_padding_comes_after_the_items_of_each_group(groups: Groups) -> None:
    items = np.arange(1, 2 * len(groups.rows) + 1).reshape(-1, 2)
    array = groups.pad(items)
    assert array.shape == (len(groups), groups.sizes.max(), 2)
    assert array.dtype == items.dtype
    for row, start, stop in zip(array, groups.offsets, groups.offsets[1:], strict=False):
        assert row[: stop - start].tolist() == items[start:stop].tolist()
        assert not row[stop - start :].any()


def test_padded_marks() -> None:
    groups = groups_of_list([Click(0, [1], [2, 3]), Pair(4, 5, True), Triplet(6, 7, 8)])
    assert groups.padded_marks().tolist() == [[1, 1, -1, -1], [1, 1, 0, 0], [1, 1, -1, 0]]


# -- files ---------------------------------------------------------------------------------------------------

STORED = [Click(0, [1], [2, 3]), Click(QUERY, [4], [5], [6]), Click(7, [], [8], weight=0.5), Pair(9, 10, True)]


def stored_arrays() -> dict[str, NDArray[Any]]:
    return groups_to_arrays(groups_of_list(STORED), 3, TABLE.dtype)


def read(arrays: dict[str, NDArray[Any]]) -> Groups | None:
    return groups_from_arrays(Content({}, arrays), 3, TABLE.dtype)


@given(batches())
def test_stored_groups_are_read_unchanged(groups: Groups) -> None:
    loaded = read(groups_to_arrays(groups, 3, TABLE.dtype))
    assert loaded is not None
    assert_equal(loaded, groups)


def test_no_groups_are_stored_as_empty_arrays() -> None:
    arrays = groups_to_arrays(None, 3, TABLE.dtype)
    assert {array.size for array in arrays.values()} == {0}
    assert read(arrays) is None


def changed(name: str, place: int, value: float) -> dict[str, NDArray[Any]]:
    arrays = stored_arrays()
    arrays[name] = arrays[name].copy()
    arrays[name][place] = value
    return arrays


def test_the_stored_groups_of_the_damage_tests_are_valid() -> None:
    assert read(stored_arrays()) is not None


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


@pytest.mark.parametrize(("sizes", "n_items"), [([1, 3], 4), ([MAX_ITEMS + 1], MAX_ITEMS + 1)])
def test_groups_that_are_too_small_or_too_large_raise(sizes: list[int], n_items: int) -> None:
    """Their sum is the number of items."""
    groups = Groups.of(
        sizes, np.arange(n_items), np.zeros((0, 3)), np.ones(n_items, np.float32), np.ones(len(sizes))
    )
    with pytest.raises(ValueError, match="sizes"):
        read(groups_to_arrays(groups, 3, TABLE.dtype))


@pytest.mark.parametrize("name", ["group_sizes", "group_rows", "group_marks", "group_weights", "group_vectors"])
def test_short_arrays_raise(name: str) -> None:
    arrays = stored_arrays()
    with pytest.raises((ValueError, ModelFileError)):
        read(arrays | {name: arrays[name][:-1]})


@pytest.mark.parametrize("name", ["group_sizes", "group_rows", "group_marks", "group_weights", "group_vectors"])
def test_missing_arrays_raise(name: str) -> None:
    with pytest.raises(ModelFileError, match=f"no array '{name}'"):
        read({label: array for label, array in stored_arrays().items() if label != name})
