"""Decorators that compile functions with numba: `kernel` for entry points, `helper` for what kernels call.

All kernels share one set of options, and mypy sees the original function's type. A compilation takes seconds, so
its start is announced in one line; later processes load the machine code from disk.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import event
from numba.extending import register_jitable

__all__ = ["ARITHMETIC", "compilable", "helper", "inlined", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE: Final = Path(__file__).parent
_LOGGER: Final = logging.getLogger("oahu")

#: numba's options for kernels and helpers. Sums may be reordered and multiply-adds fused, so that dot products
#: vectorise. Infinities, NaN and signed zeros keep their meaning. A division by 0 gives infinity or NaN: a test for
#: it would keep loops from vectorising.
ARITHMETIC: Final[dict[str, Any]] = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}, "nogil": True}

_titles: Final[dict[Any, str]] = {}  # the kernels' titles, by numba dispatcher
_announced: Final[set[str]] = set()


def kernel(title: str) -> Callable[[F], F]:
    """Compile a function on its first call, cache the machine code on disk, and run it without the GIL.

    The same machine code runs for every batch size. This is why a model does not depend, to the last bit, on how
    its stream is split into calls.

    numba recompiles a cached function when its own file changes, but not when a helper in another file does. So the
    name in the cache includes a hash of the code of all modules that the kernel may call.

    Parameters
    ----------
    title : str
        What the first compilation announces: "OAHU's update step".
    """

    def compile_on_first_call(function: F) -> F:
        function.__qualname__ += f"_{_fingerprint(Path(function.__code__.co_filename))}"
        dispatcher = numba.njit(cache=True, **ARITHMETIC)(function)
        _titles[dispatcher] = title
        return cast("F", dispatcher)

    return compile_on_first_call


def helper(function: F) -> F:
    """Let kernels call a function, compiled with their options. For Python callers it stays a Python function.

    A helper has no Python wrapper and no file in the cache, which saves a tenth of the compile time.

    LLVM inlines every helper. Otherwise the process that compiles a kernel could run another copy of a helper, with
    sums in another order, than the processes that load the kernel from disk, and the models would differ in bits.
    """
    return register_jitable(forceinline=True, **ARITHMETIC)(function)


def inlined(function: F) -> F:
    """Copy a function's body into the kernel that calls it.

    LLVM optimises every function again in each function that calls it. A long function with a single call is
    compiled in half the time as a part of its caller.
    """
    return cast("F", numba.njit(inline="always", **ARITHMETIC)(function))


def compilable(*functions: Callable[..., Any]) -> None:
    """Let kernels call functions from modules that must not import numba; they inherit the caller's options."""
    for function in functions:
        register_jitable(forceinline=True)(function)


class _Announcer(event.Listener):
    """Announces the compilation of kernels. numba sends no event when it loads a kernel from the cache."""

    def on_start(self, event: Any) -> None:
        title = _titles.get(event.data["dispatcher"])
        if title is None or title in _announced:
            return
        _announced.add(title)
        message = f"compiling {title} (once; cached on disk) ..."
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"oahu: {message}\n")
            sys.stderr.flush()
        else:
            _LOGGER.info(message)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]


def _fingerprint(file: Path) -> str:
    """Return a hash of the bytecode of this module, a kernel's module and its imports from its sub-package."""
    digest = hashlib.sha256()
    for module in [Path(__file__), *sorted(_modules_used(file))]:
        digest.update(_code_hash(module))
    return digest.hexdigest()[:12]


def _modules_used(file: Path) -> set[Path]:
    """Return a file and the files of its sub-package that it imports, directly or indirectly."""
    sub_package = _PACKAGE / file.relative_to(_PACKAGE).parts[0]
    found: set[Path] = set()
    remaining = [file]
    while remaining:
        module = remaining.pop()
        if module not in found:
            found.add(module)
            remaining += [one for one in _imports(module) if one.is_relative_to(sub_package)]
    return found


@cache
def _imports(file: Path) -> list[Path]:
    """Return the files of this package that a file imports from."""
    statements = ast.walk(ast.parse(file.read_bytes()))
    names = [one.module for one in statements if isinstance(one, ast.ImportFrom) and one.module]
    modules = [_PACKAGE.parent.joinpath(*name.split(".")) for name in names if name.startswith("oahu.")]
    files = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in modules]
    return [path for path in files if path.exists()]


@cache
def _code_hash(file: Path) -> bytes:
    """Hash a file's bytecode: comments, docstrings and line numbers are no part of it."""
    code = compile(file.read_bytes(), str(file), "exec", optimize=2)
    return hashlib.sha256("\n".join(_parts_of(code)).encode()).digest()


def _parts_of(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of(constant)
        else:  # the order of a set varies between processes
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
