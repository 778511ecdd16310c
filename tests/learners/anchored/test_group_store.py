"""The group store: the newest groups within two limits, in the order in which they were accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oahu.learners.anchored import group_store
from oahu.learners.anchored.group_store import GroupStore
from oahu.learners.anchored.groups import Groups

LIMITS = group_store._MAX_GROUPS, group_store._MAX_NUMBERS

D = 2
MAX_GROUPS, MAX_VECTORS = 10, 15

#: The number of vectors of each group.
VECTORS = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_store, "_MAX_GROUPS", MAX_GROUPS)
        patch.setattr(group_store, "_MAX_NUMBERS", MAX_VECTORS * D + 1)
        yield


def numbered(n_vectors: Sequence[int], first: int = 0) -> Groups:
    """Return groups of at least two items. Group i contains row i, and vectors with the value i."""
    numbers = np.arange(first, first + len(n_vectors))
    rows = [[i, *[-1] * n] if n else [i, i] for i, n in zip(numbers.tolist(), n_vectors, strict=True)]
    vectors = np.repeat(numbers, n_vectors)[:, None] * np.ones(D)
    flat = np.array([row for group in rows for row in group], np.int64)
    return Groups.of(list(map(len, rows)), flat, vectors, np.ones(len(flat), np.float32), np.ones(len(rows)))


def numbers_of(parts: Sequence[Groups]) -> list[int]:
    """Return the numbers of the groups. Check that each group has its own vectors."""
    groups = [part.cut(i, i + 1) for part in parts for i in range(len(part))]
    numbers = [int(group.rows[0]) for group in groups]
    for number, group in zip(numbers, groups, strict=True):
        assert set(group.vectors.ravel().tolist()) <= {float(number)}
        assert len(group.vectors) == np.count_nonzero(group.rows < 0)
    return numbers


def add(store: GroupStore, *parts: Groups) -> None:
    """Add groups, and count them as learned."""
    store.pending.extend(parts)
    store.take_pending()


def stored(n_vectors: Sequence[int], chunk: int = 40) -> GroupStore:
    store = GroupStore()
    for start in range(0, len(n_vectors), chunk):
        add(store, numbered(n_vectors[start : start + chunk], start))
    return store


# -- limits --------------------------------------------------------------------------------------------------


@given(VECTORS, st.integers(1, 40))
def test_the_newest_groups_within_the_limits_are_stored_in_any_chunking(n_vectors: list[int], chunk: int) -> None:
    n = len(n_vectors)
    fitting = [k for k in range(1, min(n, MAX_GROUPS) + 1) if sum(n_vectors[n - k :]) <= MAX_VECTORS]
    expected = list(range(n - max(fitting), n))
    assert numbers_of(stored(n_vectors, chunk).batches()) == expected


@given(VECTORS, st.integers(1, 40))
def test_the_length_and_the_number_of_vectors_are_those_of_the_stored_groups(
    n_vectors: list[int], chunk: int
) -> None:
    store = stored(n_vectors, chunk)
    groups = Groups.joined(store.batches())
    assert len(store) == len(groups)
    assert store.n_vectors == len(groups.vectors)


def test_a_group_that_exceeds_the_limit_alone_is_stored_until_the_next_one() -> None:
    store = stored([1, 2, MAX_VECTORS + 1])
    assert numbers_of(store.batches()) == [2]
    add(store, numbered([0], first=3))
    assert numbers_of(store.batches()) == [3]


def test_the_limits_are_those_of_the_documentation() -> None:
    assert LIMITS == (10_000, 2**23)


# -- groups that wait ----------------------------------------------------------------------------------------


def test_groups_that_wait_are_not_learned_groups() -> None:
    store = stored([0, 1])
    store.pending.append(numbered([2], first=2))
    assert len(store) == 2
    assert numbers_of(store.batches()) == [0, 1]


def test_taken_groups_are_all_groups_that_waited_in_their_order() -> None:
    store = stored([0, 1])
    store.pending += [numbered([2, 0], first=2), numbered([1], first=4)]
    assert numbers_of([store.take_pending()]) == [2, 3, 4]


def test_taken_groups_are_learned_and_do_not_wait() -> None:
    store = stored([0, 1])
    add(store, numbered([2], first=2))
    assert store.pending == []
    assert numbers_of(store.batches()) == [0, 1, 2]


def test_all_taken_groups_are_returned_although_not_all_are_stored() -> None:
    store = GroupStore()
    store.pending.append(numbered([0] * (MAX_GROUPS + 3)))
    assert len(store.take_pending()) == MAX_GROUPS + 3
    assert len(store) == MAX_GROUPS


# -- reading -------------------------------------------------------------------------------------------------


def test_an_empty_store_has_no_groups() -> None:
    store = GroupStore()
    assert (len(store), store.n_vectors, store.batches(), store.latest(5)) == (0, 0, [], [])


@given(VECTORS, st.integers(1, 40))
def test_group_0_is_the_oldest_stored_group(n_vectors: list[int], chunk: int) -> None:
    store = stored(n_vectors, chunk)
    expected = numbers_of(store.batches())
    assert numbers_of(store.draw(range(len(store)))) == expected


def test_drawn_groups_are_in_the_order_of_the_numbers() -> None:
    assert numbers_of(stored([0, 2, 1, 0, 3], chunk=2).draw([3, 1, 1])) == [3, 1, 1]


def with_pending(n_vectors: Sequence[int], chunk: int, n_pending: int) -> GroupStore:
    store = stored(n_vectors, chunk)
    n = len(n_vectors)
    store.pending += [numbered([1], first) for first in range(n, n + n_pending)]
    return store


@given(VECTORS, st.integers(1, 40), st.integers(0, 3), st.integers(0, 80))
def test_the_latest_groups_are_the_last_ones_and_have_enough_items(
    n_vectors: list[int], chunk: int, n_pending: int, n_items: int
) -> None:
    store = with_pending(n_vectors, chunk, n_pending)
    everything = store.batches() + store.pending
    latest = store.latest(n_items)
    numbers = numbers_of(latest)
    assert numbers == numbers_of(everything)[len(numbers_of(everything)) - len(numbers) :]
    n_stored = sum(len(part.rows) for part in everything)
    assert sum(len(part.rows) for part in latest) >= min(n_items, n_stored)


def test_no_more_batches_are_read_than_are_needed_for_the_latest_items() -> None:
    store = with_pending([1, 1, 1, 1], chunk=1, n_pending=1)  # each group has two items
    assert [numbers_of(store.latest(n)) for n in (0, 1, 2, 3, 6)] == [[], [4], [4], [3, 4], [2, 3, 4]]


# -- copies --------------------------------------------------------------------------------------------------


def test_a_copy_has_the_same_groups() -> None:
    store = with_pending([2] * 9, chunk=4, n_pending=2)
    copy = store.copy()
    assert (len(copy), copy.n_vectors) == (len(store), store.n_vectors)
    assert numbers_of(copy.batches()) == numbers_of(store.batches())
    assert numbers_of(copy.pending) == numbers_of(store.pending)


@pytest.mark.parametrize("changed", ["copy", "original"])
def test_a_copy_is_independent(changed: str) -> None:
    stores = [with_pending([2] * 9, chunk=4, n_pending=2)]
    stores.append(stores[0].copy())
    writer, reader = stores if changed == "original" else stores[::-1]
    learned, pending = numbers_of(reader.batches()), numbers_of(reader.pending)
    add(writer, numbered([3] * 8, first=11))
    assert numbers_of(reader.batches()) == learned
    assert numbers_of(reader.draw(range(len(reader)))) == learned
    assert numbers_of(reader.pending) == pending


def test_a_store_that_starts_with_learned_groups_continues_like_the_original() -> None:
    store = stored([2, 0, 1] * 4, chunk=5)
    loaded = GroupStore(Groups.joined(store.batches()))
    for other in (store, loaded):
        add(other, numbered([1, 4], first=12))
    assert numbers_of(loaded.batches()) == numbers_of(store.batches())
    assert numbers_of(loaded.draw(range(len(loaded)))) == numbers_of(store.batches())
