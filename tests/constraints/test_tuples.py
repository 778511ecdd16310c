"""Constraints are validated, not copied, and read in blocks."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from oahu import InvalidInputError, Pairs, Triplets
from oahu.constraints import Tuples

NAMES = {2: ["first item", "second item"], 3: ["anchor", "positive", "negative"]}
NOUNS = {2: "pair", 3: "triplet"}
SIZES = st.sampled_from([2, 3])


def tuples_of(data: Any, *, size: int, **options: Any) -> Tuples:
    """Return triplets, or pairs that are all similar."""
    return Triplets(data, **options) if size == 3 else Pairs(data, np.ones(len(data)), **options)


def table_of(n_items: int, n_features: int = 4) -> NDArray[np.float64]:
    return np.random.default_rng(n_items).normal(size=(n_items, n_features))


def check_all_blocks(tuples: Tuples, dtype: str) -> None:
    """Read all blocks and check that they are finite."""
    for start, block in tuples.blocks(dtype):
        tuples.check_finite(start, block)


# -- blocks ----------------------------------------------------------------------------------------------


@given(
    size=SIZES, n=st.integers(1, 400), n_features=st.integers(1, 5), dtype=st.sampled_from(["float32", "float64"])
)
@settings(max_examples=30)
def test_the_blocks_of_values_are_the_values_in_order(size: int, n: int, n_features: int, dtype: str) -> None:
    values = np.random.default_rng(n).normal(size=(n, size, n_features))
    blocks = [block for _, block in tuples_of(values, size=size).blocks(dtype)]
    np.testing.assert_array_equal(np.concatenate(blocks), values.astype(dtype))


@given(size=SIZES, n=st.integers(1, 400), n_items=st.integers(1, 50), dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=30)
def test_the_blocks_of_indices_are_the_rows_they_name_in_order(size: int, n: int, n_items: int, dtype: str) -> None:
    table = table_of(n_items)
    indices = np.random.default_rng(n).integers(0, n_items, (n, size))
    blocks = [block for _, block in tuples_of(indices, size=size, preprocessor=table).blocks(dtype)]
    expected = [[table[i].astype(dtype) for i in row] for row in indices.tolist()]
    np.testing.assert_array_equal(np.concatenate(blocks), expected)


@given(n=st.integers(1, 700))
@settings(max_examples=40)
def test_blocks_start_where_the_previous_one_ends(n: int) -> None:
    values = np.arange(n, dtype=float)[:, None, None].repeat(3, axis=1)
    for start, block in tuples_of(values, size=3).blocks("float64"):
        assert block[0, 0, 0] == start


@pytest.mark.parametrize("by_value", [True, False], ids=["values", "indices"])
def test_blocks_have_a_bounded_size(by_value: bool) -> None:
    table, indices = table_of(10), np.zeros((5000, 3), int)
    tuples = tuples_of(table[indices] if by_value else indices, size=3, preprocessor=table)
    assert max(len(block) for _, block in tuples.blocks("float32")) <= 1024


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("by_value", [True, False], ids=["values", "indices"])
def test_blocks_are_contiguous_and_of_the_requested_type(by_value: bool, dtype: str) -> None:
    table, indices = np.asfortranarray(table_of(10)), np.arange(9).reshape(3, 3)
    tuples = tuples_of(table[indices] if by_value else indices, size=3, preprocessor=table)
    for _, block in tuples.blocks(dtype):
        assert (block.dtype, block.flags.c_contiguous) == (np.dtype(dtype), True)


# -- copies ----------------------------------------------------------------------------------------------


def test_the_table_is_not_copied() -> None:
    table = table_of(10)
    assert np.shares_memory(tuples_of([[0, 1, 2]], size=3, preprocessor=table).table, table)


def test_a_memory_map_is_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", table_of(10))
    mapped = np.load(tmp_path / "table.npy", mmap_mode="r")
    assert np.shares_memory(tuples_of([[0, 1, 2]], size=3, preprocessor=mapped).table, mapped)


def test_values_are_not_copied() -> None:
    values = table_of(12).reshape(4, 3, 4)
    assert np.shares_memory(tuples_of(values, size=3).table, values)


def test_indices_are_not_copied() -> None:
    indices = np.arange(9, dtype=np.intp).reshape(3, 3)
    assert np.shares_memory(tuples_of(indices, size=3, preprocessor=table_of(10)).indices, indices)


# -- properties ------------------------------------------------------------------------------------------


@given(size=SIZES, n=st.integers(1, 20), n_features=st.integers(1, 6), by_value=st.booleans())
def test_length_and_number_of_features(size: int, n: int, n_features: int, by_value: bool) -> None:
    table, indices = table_of(7, n_features), np.random.default_rng(n).integers(0, 7, (n, size))
    tuples = tuples_of(table[indices] if by_value else indices, size=size, preprocessor=table)
    assert (len(tuples), tuples.size, tuples.n_features) == (n, size, n_features)


def test_values_are_accepted_with_a_preprocessor() -> None:
    assert tuples_of(np.zeros((2, 3, 4)), size=3, preprocessor=table_of(10)).by_value


def test_booleans_are_numbers() -> None:
    ((_, block),) = tuples_of(np.ones((1, 3, 2), bool), size=3).blocks("float32")
    np.testing.assert_array_equal(block, np.ones((1, 3, 2)))


@pytest.mark.parametrize("n_features", [3, 5])
@pytest.mark.parametrize("by_value", [True, False], ids=["values", "indices"])
def test_another_number_of_features_is_rejected_with_both_numbers(by_value: bool, n_features: int) -> None:
    data: Any = np.zeros((2, 3, 4)) if by_value else [[0, 1, 2]]
    with pytest.raises(InvalidInputError, match=f"4 features, but .* expecting {n_features} features"):
        tuples_of(data, size=3, preprocessor=table_of(10), n_features=n_features)


# -- invalid values --------------------------------------------------------------------------------------


@given(size=SIZES, n=st.integers(1, 300), bad=st.sampled_from([np.nan, np.inf, -np.inf, 1e39]), data=st.data())
@settings(max_examples=30)
def test_an_invalid_value_is_located(size: int, n: int, bad: float, data: st.DataObject) -> None:
    row, item = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, size - 1))
    feature = data.draw(st.integers(0, 3))
    values = np.zeros((n, size, 4))
    values[row, item, feature] = bad
    place = rf"the {NAMES[size][item]} of {NOUNS[size]} {row} at feature {feature}\."
    with pytest.raises(InvalidInputError, match=place):
        check_all_blocks(tuples_of(values, size=size), "float32")


@given(size=SIZES, n=st.integers(1, 300), bad=st.sampled_from([np.nan, np.inf, -np.inf, 1e39]), data=st.data())
@settings(max_examples=30)
def test_an_invalid_item_of_the_table_is_located_by_its_first_constraint(
    size: int, n: int, bad: float, data: st.DataObject
) -> None:
    table = table_of(30)
    indices = np.random.default_rng(n).integers(0, 30, (n, size))
    spoilt = int(data.draw(st.sampled_from(indices.ravel().tolist())))
    table[spoilt, 2] = bad
    row, item = next((r, k) for r in range(n) for k in range(size) if indices[r, k] == spoilt)
    place = rf"the {NAMES[size][item]} of {NOUNS[size]} {row}, row {spoilt} of preprocessor, at feature 2\."
    with pytest.raises(InvalidInputError, match=place):
        check_all_blocks(tuples_of(indices, size=size, preprocessor=table), "float32")


@given(size=SIZES, indices=st.lists(st.lists(st.integers(-3, 12), min_size=3, max_size=3), min_size=1, max_size=40))
@settings(max_examples=50)
def test_the_first_index_out_of_range_is_named(size: int, indices: list[list[int]]) -> None:
    rows = [row[:size] for row in indices]
    wrong = [(r, k, row[k]) for r, row in enumerate(rows) for k in range(size) if not 0 <= row[k] <= 9]
    if wrong:
        r, k, index = wrong[0]
        place = f"The {NAMES[size][k]} of {NOUNS[size]} {r} is row {index}, but the preprocessor has rows 0 to 9"
        with pytest.raises(InvalidInputError, match=place):
            tuples_of(rows, size=size, preprocessor=table_of(10))
    else:
        assert len(tuples_of(rows, size=size, preprocessor=table_of(10))) == len(rows)


@given(value=st.floats(3.4028e38, 3.4029e38) | st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=50)
def test_values_that_overflow_float32_are_rejected(value: float) -> None:
    tuples = tuples_of(np.full((1, 2, 1), value), size=2)
    try:
        struct.pack("<f", value)
    except OverflowError:
        with pytest.raises(InvalidInputError, match="too large for float32"):
            check_all_blocks(tuples, "float32")
    else:
        check_all_blocks(tuples, "float32")


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_accepted_in_float64(value: float) -> None:
    tuples = tuples_of(np.full((1, 2, 1), value), size=2)
    check_all_blocks(tuples, "float64")
    ((_, block),) = tuples.blocks("float64")
    np.testing.assert_array_equal(block, np.full((1, 2, 1), value))


def test_items_in_no_constraint_are_not_validated() -> None:
    table = table_of(10)
    table[9] = np.nan
    tuples = tuples_of([[0, 1, 8]], size=3, preprocessor=table)
    check_all_blocks(tuples, "float32")
    ((_, block),) = tuples.blocks("float64")
    np.testing.assert_array_equal(block, [table[[0, 1, 8]]])


def test_masked_values_are_rejected() -> None:
    masked = np.ma.masked_greater(np.arange(6.0).reshape(1, 3, 2), 4)
    with pytest.raises(InvalidInputError, match="masked values"):
        tuples_of(masked, size=3)


def test_object_arrays_of_integers_are_indices() -> None:
    indices = np.array([[0, 1, 2]], dtype=object)
    checked = tuples_of(indices, size=3, preprocessor=np.eye(3))
    np.testing.assert_array_equal(checked.indices, [[0, 1, 2]])


def test_an_integer_beyond_the_largest_float_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="triplets must be numbers"):
        tuples_of(np.full((1, 3, 2), 10**400, dtype=object), size=3)


# -- indexing --------------------------------------------------------------------------------------------


@given(size=SIZES, by_value=st.booleans(), rows=st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_indexing_selects_constraints(size: int, by_value: bool, rows: list[int]) -> None:
    table, indices = table_of(7), np.random.default_rng(0).integers(0, 7, (10, size))
    tuples = tuples_of(table[indices] if by_value else indices, size=size, preprocessor=table)
    np.testing.assert_array_equal(tuples[np.array(rows)].values(), table[indices[rows]])
    ((_, block),) = tuples[np.array(rows)].blocks("float64")
    np.testing.assert_array_equal(block, table[indices[rows]])


def test_indexing_pairs_selects_their_labels() -> None:
    pairs = Pairs([[0, 1], [1, 2], [2, 3], [3, 4]], [1, -1, -1, 1], preprocessor=table_of(5))
    assert pairs[1:].y.tolist() == [-1, -1, 1]
    assert pairs[pairs.same].indices.tolist() == [[0, 1], [3, 4]]


def test_an_empty_selection_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="At least one triplet is needed"):
        Triplets([[0, 1, 2]], preprocessor=table_of(5))[:0]


@pytest.mark.parametrize(
    ("tuples", "text"),
    [
        (
            Triplets([[0, 1, 2]], preprocessor=table_of(1234)),
            "<1 triplets of 4 features, rows of a table of 1,234>",
        ),
        (Pairs(np.zeros((3, 2, 5)), [1, 1, -1]), "<3 pairs of 5 features, values>"),
    ],
)
def test_repr(tuples: Tuples, text: str) -> None:
    assert repr(tuples) == text


# -- from triplets to pairs and back ---------------------------------------------------------------------

TRIPLES = st.lists(st.lists(st.integers(0, 7), min_size=3, max_size=3, unique=True), min_size=1, max_size=30)


@given(indices=TRIPLES, by_value=st.booleans())
def test_a_triplet_gives_its_similar_and_then_its_dissimilar_pair(indices: list[list[int]], by_value: bool) -> None:
    table = table_of(8)
    pairs = Triplets(table[indices] if by_value else indices, preprocessor=table).pairs()
    expected = [pair for a, p, n in indices for pair in ((a, p), (a, n))]
    np.testing.assert_array_equal(pairs.values(), table[expected])
    assert pairs.y.tolist() == [1, -1] * len(indices)


@given(indices=TRIPLES, by_value=st.booleans())
def test_the_pairs_of_triplets_give_the_triplets_back(indices: list[list[int]], by_value: bool) -> None:
    table = table_of(8)
    triplets = Triplets(table[indices] if by_value else indices, preprocessor=table)
    np.testing.assert_array_equal(triplets.pairs().triplets().values(), triplets.values())


def joinable(one: tuple[int, int, bool], other: tuple[int, int, bool]) -> bool:
    mine, theirs = set(one[:2]), set(other[:2])
    return one[2] != other[2] and bool(mine & theirs) and mine != theirs


LABELLED_PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


@given(pairs=LABELLED_PAIRS)
def test_a_joined_triplet_consists_of_two_of_the_pairs(pairs: list[tuple[int, int, bool]]) -> None:
    known = {(frozenset((a, b)), same) for a, b, same in pairs}
    held = Pairs([pair[:2] for pair in pairs], [pair[2] for pair in pairs], preprocessor=table_of(6))
    assume(any(joinable(one, other) for one in pairs for other in pairs))
    triplets = held.triplets()
    for a, p, n in triplets.indices.tolist():
        assert (frozenset((a, p)), True) in known
        assert (frozenset((a, n)), False) in known
        assert p != n
    assert 2 * len(triplets) <= len(pairs)


@given(pairs=LABELLED_PAIRS)
def test_pairs_that_cannot_be_joined_are_rejected(pairs: list[tuple[int, int, bool]]) -> None:
    assume(not any(joinable(one, other) for one in pairs for other in pairs))
    held = Pairs([pair[:2] for pair in pairs], [pair[2] for pair in pairs], preprocessor=table_of(6))
    with pytest.raises(InvalidInputError, match="must share an item"):
        held.triplets()


def test_pairs_without_a_common_item_are_rejected() -> None:
    with pytest.raises(InvalidInputError, match="No two of these 2 pairs can be joined"):
        Pairs([[0, 1], [2, 3]], [1, -1], preprocessor=table_of(5)).triplets()


@pytest.mark.parametrize(
    "same",
    [
        [True, False],
        [1, -1],
        [1.0, -1.0],
        np.array([True, False], object),
        np.array([np.int64(1), np.int64(-1)], object),
        np.array([1, -1], np.int8),
    ],
    ids=repr,
)
def test_labels_may_be_booleans_or_signs(same: Any) -> None:
    assert Pairs([[0, 1], [1, 2]], same, preprocessor=table_of(5)).same.tolist() == [True, False]


def test_joining_many_contradicting_pairs_takes_linear_time() -> None:
    """A search through all waiting pairs would take minutes here."""
    pairs = np.array([[0, 1]] * 40_000 + [[0, 2]])
    same = np.arange(40_001) % 2 == 0
    same[-1] = False
    assert len(Pairs(pairs, same, preprocessor=table_of(5)).triplets()) == 1


def test_a_pair_is_joined_with_the_latest_waiting_pair() -> None:
    pairs = Pairs([[0, 1], [0, 2], [0, 3], [4, 3]], [1, 1, -1, -1], preprocessor=table_of(5))
    assert pairs.triplets().indices.tolist() == [[0, 2, 3]]


def test_an_invalid_item_of_split_triplets_is_located_in_the_triplets() -> None:
    values = np.zeros((4, 3, 2))
    values[3, 2, 1] = np.nan
    with pytest.raises(InvalidInputError, match="the negative of triplet 3 at feature 1"):
        check_all_blocks(Triplets(values).pairs(), "float32")


# -- sparse tables ---------------------------------------------------------------------------------------


@given(size=SIZES, n=st.integers(1, 300), dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=30)
def test_sparse_blocks_are_the_rows_in_order(size: int, n: int, dtype: str) -> None:
    table = sparse.csr_array(sparse.random(20, 6, density=0.3, random_state=np.random.default_rng(n)))
    indices = np.random.default_rng(n).integers(0, 20, (n, size))
    tuples = tuples_of(indices, size=size, preprocessor=table, accept_sparse=True)
    rows = sparse.vstack([block for _, block in tuples.sparse_blocks(dtype)])
    np.testing.assert_array_equal(rows.toarray(), table.toarray()[indices.ravel()].astype(dtype))
    np.testing.assert_array_equal(tuples.values(), table.toarray()[indices])


def test_an_invalid_item_of_a_sparse_table_is_located() -> None:
    table = sparse.csr_array(np.array([[0.0, 1.0], [np.inf, 0.0], [2.0, 3.0]]))
    triplets = Triplets([[0, 2, 0], [0, 1, 2]], preprocessor=table, accept_sparse=True)
    ((start, block),) = triplets.sparse_blocks("float32")
    with pytest.raises(
        InvalidInputError, match="infinity: the positive of triplet 1, row 1 of preprocessor, at feature 0"
    ):
        triplets.check_finite(start, block)
