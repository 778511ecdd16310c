"""Decorators that compile functions with numba: `kernel` for entry points, `helper` for functions they call.

All kernels have the same compiler options. For mypy, a decorated function keeps its type. Compilation takes
seconds, so a message announces each compilation. The machine code is stored on disk, and later processes load it.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import logging
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import event
from numba.extending import register_jitable

__all__ = ["ARITHMETIC", "compilable", "helper", "inlined", "inlined_copy", "kernel"]

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

    The same machine code runs for every batch size. Therefore, a model is identical to the last bit, no matter how
    its training data is split into calls.

    numba recompiles a cached function if the file of the function changes. numba does not recompile the function if
    a helper in another file changes. Therefore, the name of a kernel in the cache includes a hash of the code of
    all modules that the kernel may call.

    Parameters
    ----------
    title : str
        Name of the kernel in the message about its compilation, such as "OAHU's update step".
    """

    def compile_on_first_call(function: F) -> F:
        function.__qualname__ += f"_{_fingerprint(Path(function.__code__.co_filename))}"
        dispatcher = numba.njit(cache=True, **ARITHMETIC)(function)
        _titles[dispatcher] = title
        return cast("F", dispatcher)

    return compile_on_first_call


def helper(function: F) -> F:
    """Allow kernels to call a function. In a kernel, the function is compiled with the options of the kernel.

    Python code that calls the function runs the original Python function. Therefore, a helper needs no compiled
    Python wrapper and no file in the cache. This saves a tenth of the compile time.

    LLVM inlines every helper. Without inlining, a process that compiles a kernel and a process that loads the
    kernel from disk could run different machine code for the helper. Their models could then differ in the last
    bits.
    """
    return register_jitable(forceinline=True, **ARITHMETIC)(function)


def inlined(function: F) -> F:
    """Copy the body of a function into the kernel that calls the function.

    Without the copy, LLVM optimises the function on its own and again in its caller. For a long function with a
    single caller, copying the body halves the compile time.
    """
    return cast("F", numba.njit(inline="always", **ARITHMETIC)(function))


def compilable(*functions: Callable[..., Any]) -> None:
    """Allow kernels to call functions of modules that must not import numba."""
    for function in functions:
        register_jitable(forceinline=True)(function)


def inlined_copy(function: F) -> F:
    """Return an `inlined` copy of a function of a module that must not import numba.

    The functions that it calls are copied too.
    """
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        if isinstance(names.get(name), FunctionType):
            names[name] = inlined_copy(names[name])
    return inlined(cast("F", FunctionType(function.__code__, names, function.__name__)))


class _Announcer(event.Listener):
    """Listener that prints or logs a message when numba compiles a kernel.

    Kernels loaded from the cache are not announced, because numba sends no event for them.
    """

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


class _CollectorPause(event.Listener):
    """Listener that stops Python's garbage collector while numba compiles a kernel.

    numba creates millions of objects. The search for reference cycles takes a sixth of the compile time.
    """

    def __init__(self) -> None:
        self.enabled: list[bool] = []

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] in _titles:
            self.enabled.append(gc.isenabled())
            gc.disable()

    def on_end(self, event: Any) -> None:
        if event.data["dispatcher"] in _titles and self.enabled.pop():
            gc.enable()


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]
event.register("numba:compile", _CollectorPause())  # type: ignore[no-untyped-call]


def _fingerprint(file: Path) -> str:
    """Return a hash of the bytecode of all modules that determine the machine code of a kernel.

    These are this module, the kernel's module ``file``, and the modules that ``file`` imports, directly or
    indirectly, from its own sub-package.
    """
    digest = hashlib.sha256()
    for module in [Path(__file__), *sorted(_modules_used(file))]:
        digest.update(_code_hash(module))
    return digest.hexdigest()[:12]


def _modules_used(file: Path) -> set[Path]:
    """Return ``file``, and the files of the same sub-package that it imports directly or indirectly."""
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
    """Return the files of oahu that ``file`` imports directly."""
    statements = ast.walk(ast.parse(file.read_bytes()))
    names = [one.module for one in statements if isinstance(one, ast.ImportFrom) and one.module]
    modules = [_PACKAGE.parent.joinpath(*name.split(".")) for name in names if name.startswith("oahu.")]
    files = [path / "__init__.py" if path.is_dir() else path.with_suffix(".py") for path in modules]
    return [path for path in files if path.exists()]


@cache
def _code_hash(file: Path) -> bytes:
    """Return a hash of a file's bytecode. Comments, docstrings and line numbers do not change the hash."""
    code = compile(file.read_bytes(), str(file), "exec", optimize=2)
    return hashlib.sha256("\n".join(_parts_of(code)).encode()).digest()


def _parts_of(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of(constant)
        else:  # the order of a set varies between processes
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
