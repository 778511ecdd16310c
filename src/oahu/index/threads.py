"""Thread pools for compiled kernels that release the GIL.

The pools use as many threads as numba. To change the number of threads, set ``NUMBA_NUM_THREADS`` or call
``numba.set_num_threads``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, current_thread
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

__all__ = ["limit_threads", "run_interleaved", "run_parallel", "run_row_slices"]

_BLAS_LIMIT = Lock()
_THREAD_NAME = "oahu-parts"


def run_row_slices(work: Callable[[slice], None], n_rows: int, multiple_of: int = 1) -> None:
    """Split rows into one slice per thread and run ``work`` on each slice.

    The length of every slice except the last slice is a multiple of ``multiple_of``.
    """
    if 0 < n_rows <= multiple_of:
        work(slice(0, n_rows))
        return
    n_groups = -(-n_rows // multiple_of)
    n_parts = min(numba.get_num_threads(), n_groups)

    def edge(part: int) -> int:
        return min(n_rows, n_groups * part // n_parts * multiple_of)

    run_parallel(lambda part: work(slice(edge(part), edge(part + 1))), n_parts)


def run_interleaved(work: Callable[[int], None], n_parts: int) -> None:
    """Run ``work`` on the parts 0 ... n_parts - 1 in n threads, with single-threaded BLAS.

    Thread i runs the parts i, i + n, i + 2 n, ... Use this function for work that multiplies matrices. With
    multi-threaded BLAS, the BLAS threads would wait for each other after every product, which is slow on a busy
    machine.
    """
    n_threads = min(numba.get_num_threads(), n_parts)

    def run_parts(thread: int) -> None:
        for part in range(thread, n_parts, n_threads):
            work(part)

    if n_threads == 1:
        run_parts(0)
        return
    with _single_threaded_blas():
        run_parallel(run_parts, n_threads)


def run_parallel(work: Callable[[int], None], n_parts: int) -> None:
    """Run ``work`` on the parts 0 ... n_parts - 1 in parallel.

    Part 0 runs in the calling thread, and all other parts run in a thread pool. If the calling thread itself
    belongs to the pool, it runs all parts, because it could deadlock if it waited for other threads of the pool.
    """
    if current_thread().name.startswith(_THREAD_NAME):
        for part in range(n_parts):
            work(part)
        return
    others = [_pool().submit(work, part) for part in range(1, n_parts)]
    try:
        if n_parts:
            work(0)
    finally:
        for other in others:
            other.exception()  # waits: the parts write to the caller's arrays
    for other in others:
        other.result()


@contextmanager
def limit_threads(n_threads: int) -> Iterator[None]:
    """Limit parallel functions that are called inside the ``with`` block to ``n_threads`` threads."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, n_threads))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=_THREAD_NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process does not inherit the threads


@contextmanager
def _single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread inside the ``with`` block.

    The limit applies to the whole process. If another caller has already set the limit, do nothing.
    """
    if not _BLAS_LIMIT.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _BLAS_LIMIT.release()


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
