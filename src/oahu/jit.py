"""How oahu compiles: one place for numba's options, with types that mypy can follow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

__all__ = ["compilable", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_HOUSE = Path(__file__).parent


def kernel(function: F) -> F:
    """Compile on first use, keep on disk, run without the GIL.

    Sums may be reordered and multiply-adds fused, so that dot products vectorise; infinities, NaN and signed
    zeros keep their meaning, and a division by 0 gives one of them: looking out for it would keep loops scalar. The
    same machine code runs whatever the size of a call, which is what makes learning independent of chunking to the
    last bit.

    numba renews its code on disk when the function's own file changes, but not when a formula that it calls does.
    So the name under which it is kept tells all the sources of its room apart.
    """
    function.__qualname__ += f"_{_fingerprint(_room(Path(function.__code__.co_filename)))}"
    options: dict[str, Any] = {"cache": True, "nogil": True}
    arithmetic: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}
    return cast("F", numba.njit(**options, **arithmetic)(function))


def compilable(*functions: Callable[..., Any]) -> None:
    """Let kernels compile plain Python functions, which stay what they are: one formula, two uses."""
    for function in functions:
        register_jitable(function)


def _room(file: Path) -> Path:
    """The folder of the house that a file is in."""
    return _HOUSE / file.relative_to(_HOUSE).parts[0]


@cache
def _fingerprint(room: Path) -> str:
    sources = sorted(room.rglob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
