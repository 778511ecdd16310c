"""Threads that are kept, for compiled passes that run without the GIL.

As many as numba's: ``NUMBA_NUM_THREADS`` and ``numba.set_num_threads`` say how many.
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

__all__ = ["at_most", "at_once", "by_turns", "in_parts"]

_LIMITING = Lock()
_NAME = "oahu-parts"


def in_parts(work: Callable[[slice], None], n_rows: int, multiple_of: int = 1) -> None:
    """Do work on rows, each thread on its part of them; all parts but the last are a multiple of some number."""
    if 0 < n_rows <= multiple_of:
        work(slice(0, n_rows))
        return
    n_groups = -(-n_rows // multiple_of)
    n_parts = min(numba.get_num_threads(), n_groups)

    def edge(part: int) -> int:
        return min(n_rows, n_groups * part // n_parts * multiple_of)

    at_once(lambda part: work(slice(edge(part), edge(part + 1))), n_parts)


def by_turns(work: Callable[[int], None], n_parts: int) -> None:
    """Do the parts of a work that multiplies matrices, each thread every n-th of them and its own products.

    BLAS would use threads of its own, who wait for each other after every product: on a busy machine, for long.
    """
    n_threads = min(numba.get_num_threads(), n_parts)

    def turn(thread: int) -> None:
        for part in range(thread, n_parts, n_threads):
            work(part)

    if n_threads == 1:
        turn(0)
        return
    with _products_in_one_thread():
        at_once(turn, n_threads)


def at_once(work: Callable[[int], None], n_parts: int) -> None:
    """Do the parts of a work at the same time, the first of them here; all of them if this is such a thread."""
    if current_thread().name.startswith(_NAME):  # it would wait for those that wait for it
        for part in range(n_parts):
            work(part)
        return
    others = [_pool().submit(work, part) for part in range(1, n_parts)]
    try:
        if n_parts:
            work(0)
    finally:
        for other in others:
            other.exception()  # wait for all: they write to what the caller has
    for other in others:
        other.result()


@contextmanager
def at_most(n_threads: int) -> Iterator[None]:
    """Let who calls use so many threads for a while, or as few as before."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, n_threads))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has no threads but its own


@contextmanager
def _products_in_one_thread() -> Iterator[None]:
    """Let BLAS use one thread for a while. The limit is the process's: who comes while it holds leaves it alone."""
    if not _LIMITING.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=1):
            yield
    finally:
        _LIMITING.release()


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
