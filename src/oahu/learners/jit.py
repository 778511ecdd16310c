"""How oahu compiles: one place for numba's options, with types that mypy can follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

__all__ = ["inlined", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile on first use, keep on disk, run without the GIL.

    Sums may be reordered and multiply-adds fused, so that dot products vectorise; infinities, NaN and signed
    zeros keep their meaning. The same machine code runs whatever the size of a call, which is what makes
    learning independent of chunking to the last bit.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": {"reassoc", "contract"}}
    return cast("F", numba.njit(**options)(function))


def inlined(function: F) -> F:
    """Leave a plain Python function that kernels can also compile: one formula, two uses."""
    jitable: F = register_jitable(function)
    return jitable
