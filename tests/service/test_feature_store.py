"""The feature store: every added row can be read, also while other rows are added."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oahu.service.feature_store as module
from oahu.service.feature_store import FeatureStore

FLOAT = np.dtype(np.float32)


def row(number: int, dimension: int = 3) -> Any:
    return (number + np.arange(dimension) / 8).astype(np.float32)


def filled_store(numbers: list[int]) -> FeatureStore:
    made = FeatureStore(3, FLOAT)
    if numbers:
        made.add(numbers, [f"k{n}" for n in numbers], np.stack([row(n) for n in numbers]).tobytes())
    return made


BATCHES = st.lists(st.integers(1, 5000), min_size=1, max_size=60, unique=True).flatmap(
    lambda numbers: st.lists(st.integers(1, 10), min_size=len(numbers), max_size=len(numbers)).map(
        lambda sizes: (numbers, sizes)
    )
)


@given(BATCHES)
def test_all_added_rows_can_be_read(case: tuple[list[int], list[int]]) -> None:
    numbers, sizes = case
    vectors, left = FeatureStore(3, FLOAT), list(numbers)
    for size in sizes:
        some, left = left[:size], left[size:]
        if some:
            vectors.add(some, [f"k{n}" for n in some], np.stack([row(n) for n in some]).tobytes())
    np.testing.assert_array_equal(vectors.take(numbers), np.stack([row(n) for n in numbers]))
    assert [vectors.key(n) for n in numbers] == [f"k{n}" for n in numbers]
    assert len(vectors) == len(numbers)


def test_numbers_may_have_any_shape() -> None:
    vectors = filled_store([1, 2, 3, 4])
    found = vectors.take([[1, 2, 3], [4, 1, 1]])
    assert found.shape == (2, 3, 3)
    np.testing.assert_array_equal(found[1, 0], row(4))


def test_no_numbers_give_no_features() -> None:
    assert filled_store([1]).take([]).shape == (0, 3)


@pytest.mark.parametrize("number", [2, 100, 5000])
def test_a_missing_number_is_an_error(number: int) -> None:
    with pytest.raises(IndexError):
        filled_store([1, 4]).take([1, number])


def test_a_result_is_independent_of_the_store() -> None:
    vectors = filled_store([1])
    taken = vectors.take([1])
    vectors.add([2], ["k2"], row(2).tobytes())
    taken[:] = 0
    np.testing.assert_array_equal(vectors.take([1, 2]), [row(1), row(2)])


def test_adding_a_number_again_replaces_its_features() -> None:
    vectors = filled_store([1, 2])
    vectors.add([2], ["other"], row(7).tobytes())
    np.testing.assert_array_equal(vectors.take([1, 2]), [row(1), row(7)])
    assert vectors.key(2) == "other"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_stored_exactly(dtype: Any) -> None:
    vectors = FeatureStore(2, np.dtype(dtype))
    values = np.array([[0.1, -0.0], [np.finfo(dtype).tiny / 8, np.finfo(dtype).max]], dtype)
    vectors.add([1, 2], ["a", "b"], values.tobytes())
    assert vectors.take([1, 2]).tobytes() == values.tobytes()


# -- drop ------------------------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.sampled_from(["add", "again", "drop"]), st.integers(1, 20)), max_size=40)


@given(STEPS, st.randoms(use_true_random=False))
def test_unused_rows_take_little_memory(steps: list[tuple[str, int]], rng: Any) -> None:
    min_rows = 8
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MIN_ROWS", min_rows)
        vectors, used = FeatureStore(3, FLOAT), dict[int, int]()  # seed of the features, by number
        for at, (step, n) in enumerate(steps):
            some = rng.sample(list(used), min(n, len(used)))
            if step == "drop":
                vectors.drop(some)
                used = {number: of for number, of in used.items() if number not in some}
                assert len(vectors) <= max(min_rows, 2 * len(used))
            else:
                new = {1000 * at + i: at + i for i in range(n)} if step == "add" else dict.fromkeys(some, 500 + at)
                if new:
                    features = np.stack([row(of) for of in new.values()])
                    vectors.add(list(new), [f"k{number}" for number in new], features.tobytes())
                used |= new
        if used:
            np.testing.assert_array_equal(vectors.take(list(used)), np.stack([row(of) for of in used.values()]))
        assert [vectors.key(number) for number in used] == [f"k{number}" for number in used]


def test_an_old_table_still_has_dropped_rows() -> None:
    numbers = list(range(1, 3001))
    vectors = filled_store(numbers)
    old_table = vectors.table
    vectors.drop(numbers[10:])
    assert len(vectors) == 10
    np.testing.assert_array_equal(old_table.take([11, 3000]), [row(11), row(3000)])
    assert old_table.key(3000) == "k3000"
    with pytest.raises(IndexError, match="item with number 11 has no features"):
        vectors.take([1, 11])


def test_dropping_missing_numbers_changes_nothing() -> None:
    vectors = filled_store([1, 2])
    vectors.drop([7, 5000])
    np.testing.assert_array_equal(vectors.take([1, 2]), [row(1), row(2)])


def test_reads_are_consistent_while_rows_are_added() -> None:
    vectors, stop, wrong = filled_store([1]), Event(), []

    def read() -> None:
        while not stop.is_set():
            n = len(vectors)
            found = vectors.take(np.arange(1, n + 1))
            if not (found[:, 0] == np.arange(1, n + 1)).all():
                wrong.append(n)

    readers = [Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(2, 4000):
        vectors.add([number], [f"k{number}"], row(number).tobytes())
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
