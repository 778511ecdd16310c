"""Constraints are checked once, never copied whole, and handed out in order."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oahu import InvalidInputError
from oahu.constraints import Tuples

NAMES = {2: ["first item", "second item"], 3: ["anchor", "positive", "negative"]}
NOUNS = {2: "pair", 3: "triplet"}
SIZES = st.sampled_from([2, 3])


def table_of(n_items: int, n_features: int = 4) -> NDArray[np.float64]:
    return np.random.default_rng(n_items).normal(size=(n_items, n_features))


def walk(tuples: Tuples, dtype: str) -> None:
    """Walk the constraints as a careful reader does."""
    for start, block in tuples.blocks(dtype):
        tuples.check_finite(start, block)


# -- what is handed out ----------------------------------------------------------------------------------


@given(
    size=SIZES, n=st.integers(1, 400), n_features=st.integers(1, 5), dtype=st.sampled_from(["float32", "float64"])
)
@settings(max_examples=60)
def test_the_blocks_of_values_are_the_values_in_order(size: int, n: int, n_features: int, dtype: str) -> None:
    values = np.random.default_rng(n).normal(size=(n, size, n_features))
    blocks = [block for _, block in Tuples.check(values, size=size).blocks(dtype)]
    np.testing.assert_array_equal(np.concatenate(blocks), values.astype(dtype))


@given(size=SIZES, n=st.integers(1, 400), n_items=st.integers(1, 50), dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=60)
def test_the_blocks_of_indices_are_the_rows_they_name_in_order(size: int, n: int, n_items: int, dtype: str) -> None:
    table = table_of(n_items)
    indices = np.random.default_rng(n).integers(0, n_items, (n, size))
    blocks = [block for _, block in Tuples.check(indices, size=size, preprocessor=table).blocks(dtype)]
    expected = [[table[i].astype(dtype) for i in row] for row in indices.tolist()]
    np.testing.assert_array_equal(np.concatenate(blocks), expected)


@given(n=st.integers(1, 700))
@settings(max_examples=40)
def test_every_block_says_where_it_begins(n: int) -> None:
    values = np.arange(n, dtype=float)[:, None, None].repeat(3, axis=1)
    for start, block in Tuples.check(values, size=3).blocks("float64"):
        assert block[0, 0, 0] == start


@pytest.mark.parametrize("by_value", [True, False], ids=["values", "indices"])
def test_a_block_is_bounded_however_many_constraints_there_are(by_value: bool) -> None:
    table, indices = table_of(10), np.zeros((5000, 3), int)
    tuples = Tuples.check(table[indices] if by_value else indices, size=3, preprocessor=table)
    assert max(len(block) for _, block in tuples.blocks("float32")) <= 1024


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("by_value", [True, False], ids=["values", "indices"])
def test_a_block_is_contiguous_and_of_the_type_asked_for(by_value: bool, dtype: str) -> None:
    table, indices = np.asfortranarray(table_of(10)), np.arange(9).reshape(3, 3)
    tuples = Tuples.check(table[indices] if by_value else indices, size=3, preprocessor=table)
    for _, block in tuples.blocks(dtype):
        assert (block.dtype, block.flags.c_contiguous) == (np.dtype(dtype), True)


# -- nothing is copied -----------------------------------------------------------------------------------


def test_the_table_is_not_copied() -> None:
    table = table_of(10)
    assert np.shares_memory(Tuples.check([[0, 1, 2]], size=3, preprocessor=table).table, table)


def test_a_memory_map_stays_on_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", table_of(10))
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    assert np.shares_memory(Tuples.check([[0, 1, 2]], size=3, preprocessor=mapped).table, mapped)


def test_values_are_not_copied() -> None:
    values = table_of(12).reshape(4, 3, 4)
    assert np.shares_memory(Tuples.check(values, size=3).table, values)


def test_indices_are_not_copied() -> None:
    indices = np.arange(9, dtype=np.intp).reshape(3, 3)
    assert np.shares_memory(Tuples.check(indices, size=3, preprocessor=table_of(10)).indices, indices)


def test_checked_constraints_cannot_be_exchanged() -> None:
    tuples = Tuples.check([[0, 1, 2]], size=3, preprocessor=table_of(10))
    with pytest.raises(dataclasses.FrozenInstanceError):
        tuples.table = table_of(3)  # type: ignore[misc]


# -- what they are ---------------------------------------------------------------------------------------


@given(size=SIZES, n=st.integers(1, 20), n_features=st.integers(1, 6), by_value=st.booleans())
def test_constraints_know_how_many_they_are_and_of_what(size: int, n: int, n_features: int, by_value: bool) -> None:
    table, indices = table_of(7, n_features), np.random.default_rng(n).integers(0, 7, (n, size))
    tuples = Tuples.check(table[indices] if by_value else indices, size=size, preprocessor=table)
    assert (len(tuples), tuples.size, tuples.n_features) == (n, size, n_features)


def test_values_are_values_even_where_there_is_a_table() -> None:
    assert Tuples.check(np.zeros((2, 3, 4)), size=3, preprocessor=table_of(10)).by_value


def test_truth_values_count_as_numbers() -> None:
    ((_, block),) = Tuples.check(np.ones((1, 3, 2), bool), size=3).blocks("float32")
    np.testing.assert_array_equal(block, np.ones((1, 3, 2)))


@pytest.mark.parametrize("n_features", [3, 5])
@pytest.mark.parametrize("by_value", [True, False], ids=["values", "indices"])
def test_another_number_of_features_is_refused_with_both_numbers(by_value: bool, n_features: int) -> None:
    data: Any = np.zeros((2, 3, 4)) if by_value else [[0, 1, 2]]
    with pytest.raises(InvalidInputError, match=f"4 features, but .* expecting {n_features} features"):
        Tuples.check(data, size=3, preprocessor=table_of(10), n_features=n_features)


# -- what is refused, and where --------------------------------------------------------------------------


@given(size=SIZES, n=st.integers(1, 300), bad=st.sampled_from([np.nan, np.inf, -np.inf, 1e39]), data=st.data())
@settings(max_examples=60)
def test_a_bad_value_is_named_wherever_it_is(size: int, n: int, bad: float, data: st.DataObject) -> None:
    row, item = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, size - 1))
    feature = data.draw(st.integers(0, 3))
    values = np.zeros((n, size, 4))
    values[row, item, feature] = bad
    place = rf"the {NAMES[size][item]} of {NOUNS[size]} {row} at feature {feature}\."
    with pytest.raises(InvalidInputError, match=place):
        walk(Tuples.check(values, size=size), "float32")


@given(size=SIZES, n=st.integers(1, 300), bad=st.sampled_from([np.nan, np.inf, -np.inf, 1e39]), data=st.data())
@settings(max_examples=60)
def test_a_bad_item_of_the_table_is_named_by_the_first_constraint_about_it(
    size: int, n: int, bad: float, data: st.DataObject
) -> None:
    table = table_of(30)
    indices = np.random.default_rng(n).integers(0, 30, (n, size))
    spoilt = int(data.draw(st.sampled_from(indices.ravel().tolist())))
    table[spoilt, 2] = bad
    row, item = next((r, k) for r in range(n) for k in range(size) if indices[r, k] == spoilt)
    place = rf"the {NAMES[size][item]} of {NOUNS[size]} {row}, row {spoilt} of preprocessor, at feature 2\."
    with pytest.raises(InvalidInputError, match=place):
        walk(Tuples.check(indices, size=size, preprocessor=table), "float32")


@given(size=SIZES, indices=st.lists(st.lists(st.integers(-3, 12), min_size=3, max_size=3), min_size=1, max_size=40))
@settings(max_examples=100)
def test_indices_are_refused_by_the_first_that_is_out_of_range(size: int, indices: list[list[int]]) -> None:
    rows = [row[:size] for row in indices]
    wrong = [(r, k, row[k]) for r, row in enumerate(rows) for k in range(size) if not 0 <= row[k] <= 9]
    if wrong:
        r, k, index = wrong[0]
        place = f"The {NAMES[size][k]} of {NOUNS[size]} {r} is row {index} of preprocessor, which has rows 0 to 9"
        with pytest.raises(InvalidInputError, match=place):
            Tuples.check(rows, size=size, preprocessor=table_of(10))
    else:
        assert len(Tuples.check(rows, size=size, preprocessor=table_of(10))) == len(rows)


@given(value=st.floats(3.4028e38, 3.4029e38) | st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200)
def test_what_float32_can_hold_is_what_is_accepted(value: float) -> None:
    tuples = Tuples.check(np.full((1, 2, 1), value), size=2)
    try:
        struct.pack("<f", value)
    except OverflowError:
        with pytest.raises(InvalidInputError, match="too large for float32"):
            walk(tuples, "float32")
    else:
        walk(tuples, "float32")


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_accepted_in_float64(value: float) -> None:
    tuples = Tuples.check(np.full((1, 2, 1), value), size=2)
    walk(tuples, "float64")
    ((_, block),) = tuples.blocks("float64")
    np.testing.assert_array_equal(block, np.full((1, 2, 1), value))


def test_items_that_no_constraint_is_about_are_not_looked_at() -> None:
    table = table_of(10)
    table[9] = np.nan
    tuples = Tuples.check([[0, 1, 8]], size=3, preprocessor=table)
    walk(tuples, "float32")
    ((_, block),) = tuples.blocks("float64")
    np.testing.assert_array_equal(block, [table[[0, 1, 8]]])


def test_masked_values_are_refused() -> None:
    masked = np.ma.masked_greater(np.arange(6.0).reshape(1, 3, 2), 4)
    with pytest.raises(InvalidInputError, match="masked values"):
        Tuples.check(masked, size=3)


def test_whole_numbers_as_objects_are_indices() -> None:
    indices = np.array([[0, 1, 2]], dtype=object)
    checked = Tuples.check(indices, size=3, preprocessor=np.eye(3))
    np.testing.assert_array_equal(checked.indices, [[0, 1, 2]])


def test_a_number_beyond_every_float_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="triplets must be numbers"):
        Tuples.check(np.full((1, 3, 2), 10**400, dtype=object), size=3)
