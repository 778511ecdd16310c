"""Threads that are kept, for compiled passes that run without the GIL.

As many as numba's: ``NUMBA_NUM_THREADS`` and ``numba.set_num_threads`` say how many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numba

__all__ = ["at_once", "in_parts"]


def in_parts(work: Callable[[slice], None], n_rows: int, multiple_of: int = 1) -> None:
    """Do work on rows, each thread on its part of them; all parts but the last are a multiple of some number."""
    n_groups = -(-n_rows // multiple_of)
    n_parts = min(numba.get_num_threads(), n_groups)

    def edge(part: int) -> int:
        return min(n_rows, n_groups * part // n_parts * multiple_of)

    at_once(lambda part: work(slice(edge(part), edge(part + 1))), n_parts)


def at_once(work: Callable[[int], None], n_parts: int) -> None:
    """Do the parts of a work at the same time, the first of them here."""
    others = [_pool().submit(work, part) for part in range(1, n_parts)]
    try:
        if n_parts:
            work(0)
    finally:
        for other in others:
            other.exception()  # wait for all: they write to what the caller has
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="oahu")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has no threads but its own
