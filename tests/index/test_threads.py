"""Parallel loops: every part runs once, errors are raised, thread limits are restored."""

from __future__ import annotations

import os
import threading
import time
import traceback
import warnings
from collections.abc import Callable

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import ThreadpoolController, threadpool_limits

from oahu.index.exact import ExactIndex
from oahu.index.threads import limit_threads, run_interleaved, run_parallel, run_row_slices

ROWS, MULTIPLES = st.integers(0, 200), st.integers(1, 9)


def parts_of(n_rows: int, multiple_of: int, n_threads: int) -> list[slice]:
    """The slices that the work receives, in order."""
    parts: list[slice] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba, "get_num_threads", lambda: n_threads)
        run_row_slices(parts.append, n_rows, multiple_of)
    return sorted(parts, key=lambda part: part.start)


@given(n_rows=ROWS, multiple_of=MULTIPLES, n_threads=st.integers(1, 70))
def test_every_row_is_in_one_slice(n_rows: int, multiple_of: int, n_threads: int) -> None:
    rows = [row for part in parts_of(n_rows, multiple_of, n_threads) for row in range(part.start, part.stop)]
    assert rows == list(range(n_rows))


@given(n_rows=ROWS, multiple_of=MULTIPLES, n_threads=st.integers(1, 70))
def test_all_slices_but_the_last_are_multiples(n_rows: int, multiple_of: int, n_threads: int) -> None:
    sizes = [part.stop - part.start for part in parts_of(n_rows, multiple_of, n_threads)]
    assert [size % multiple_of for size in sizes[:-1]] == [0] * len(sizes[:-1])


@given(n_rows=ROWS, multiple_of=MULTIPLES, n_threads=st.integers(1, 70))
def test_there_is_a_slice_for_each_thread_if_there_are_enough_rows(
    n_rows: int, multiple_of: int, n_threads: int
) -> None:
    n_groups = -(-n_rows // multiple_of)
    sizes = [part.stop - part.start for part in parts_of(n_rows, multiple_of, n_threads)]
    assert (len(sizes), all(sizes)) == (min(n_threads, n_groups), True)


@pytest.mark.parametrize("n_threads", range(1, numba.get_num_threads() + 1))
def test_the_number_of_threads_is_numbas(n_threads: int) -> None:
    before = numba.get_num_threads()
    parts: list[slice] = []
    numba.set_num_threads(n_threads)
    try:
        run_row_slices(parts.append, 1000)
    finally:
        numba.set_num_threads(before)
    assert len(parts) == n_threads


def test_parts_run_at_the_same_time() -> None:
    """Two parts wait for each other, which would deadlock if they ran one after the other."""
    meeting, turns = threading.Barrier(2, timeout=30), []

    def work(part: int) -> None:
        turns.append(meeting.wait())

    run_parallel(work, 2)
    assert sorted(turns) == [0, 1]


def test_the_first_part_runs_in_the_calling_thread() -> None:
    doing: dict[int, int] = {}
    run_parallel(lambda part: doing.update({part: threading.get_ident()}), 2)
    assert doing[0] == threading.get_ident() != doing[1]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_an_error_in_any_part_is_raised(wrong: int) -> None:
    def work(part: int) -> None:
        if part == wrong:
            raise ZeroDivisionError(part)

    with pytest.raises(ZeroDivisionError, match=str(wrong)):
        run_parallel(work, 3)


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_error_is_raised_after_all_parts_have_finished(wrong: int) -> None:
    """The other parts may still be writing to the caller's arrays."""
    done = []

    def work(part: int) -> None:
        if part == wrong:
            raise ZeroDivisionError
        time.sleep(0.1)
        done.append(part)

    with pytest.raises(ZeroDivisionError):
        run_parallel(work, 3)
    assert sorted(done) == [part for part in range(3) if part != wrong]


def test_the_pool_works_after_an_error() -> None:
    done: list[int] = []

    def work(part: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_parallel(work, 3)
    run_parallel(done.append, 3)
    assert sorted(done) == [0, 1, 2]


def succeeds_in_a_child(work: Callable[[], bool]) -> bool:
    """Return whether work in a forked process returns True within half a minute."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns about forks with threads, which this tests
        child = os.fork()
    if not child:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(2)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def test_a_child_process_starts_its_own_threads() -> None:
    run_parallel(lambda part: None, 3)  # starts the threads of the parent

    def work() -> bool:
        done: list[int] = []
        run_parallel(done.append, 3)
        return sorted(done) == [0, 1, 2]

    assert succeeds_in_a_child(work)


@pytest.mark.parametrize("n_queries", [2, 40])
def test_a_child_process_can_search(n_queries: int) -> None:
    vectors = np.random.default_rng(0).normal(size=(5000, 8))
    index = ExactIndex.empty(8).add(vectors)
    expected = index.search(vectors[:n_queries], 5)

    def work() -> bool:
        return bool((index.search(vectors[:n_queries], 5).positions == expected.positions).all())

    assert succeeds_in_a_child(work)


def threads_of_blas() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


@pytest.mark.parametrize("n_parts", [0, 1, 2, 7])
def test_every_part_runs_once(n_parts: int) -> None:
    done: list[int] = []
    run_interleaved(done.append, n_parts)
    assert sorted(done) == list(range(n_parts))


def test_blas_has_one_thread_while_parts_run() -> None:
    with threadpool_limits(2, user_api="blas"):
        seen: list[set[int]] = []
        run_interleaved(lambda part: seen.append(threads_of_blas()), 4)
        assert seen == [{1}] * 4
        assert threads_of_blas() == {2}


def test_blas_threads_are_restored_after_an_error() -> None:
    def fail(part: int) -> None:
        raise KeyError(part)

    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(KeyError):
            run_interleaved(fail, 4)
        assert threads_of_blas() == {2}


def test_blas_threads_are_restored_after_concurrent_calls() -> None:
    begun, leave = threading.Barrier(3), threading.Event()

    def work(part: int) -> None:
        if part == 0:
            begun.wait()
            leave.wait()

    before = threads_of_blas()
    slow = [threading.Thread(target=run_interleaved, args=(work, 2)) for _ in range(2)]
    for thread in slow:
        thread.start()
    begun.wait()
    run_interleaved(lambda part: None, 2)  # starts and ends during the other call
    within = threads_of_blas()
    leave.set()
    for thread in slow:
        thread.join()
    assert (within, threads_of_blas()) == ({1}, before)


def test_nested_calls_do_not_deadlock() -> None:
    done: list[tuple[int, int, int]] = []
    run_parallel(lambda a: run_parallel(lambda b: run_parallel(lambda c: done.append((a, b, c)), 3), 3), 3)
    assert sorted(done) == [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]


def test_the_thread_limit_is_restored() -> None:
    before = numba.get_num_threads()

    def fail() -> None:
        with limit_threads(1):
            raise ValueError("it failed")

    with limit_threads(1):
        assert numba.get_num_threads() == 1
        with limit_threads(before):
            assert numba.get_num_threads() == 1
    assert numba.get_num_threads() == before
    with pytest.raises(ValueError, match="it failed"):
        fail()
    assert numba.get_num_threads() == before
    with limit_threads(10**6):
        assert numba.get_num_threads() == before
