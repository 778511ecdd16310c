"""Pickles that hold plain values and arrays of bytes, read without running anything in them.

A pickle is a program: it may call whatever it can name. Here it can name five things, which are stand-ins for
those that NumPy's arrays are made of, and they call nothing but ``np.frombuffer``.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any, Final

import numpy as np

__all__ = ["UnsafePickleError", "unpickle"]


class UnsafePickleError(pickle.UnpicklingError):
    """A pickle names something that is no part of an array of bytes."""


def unpickle(content: bytes) -> Any:
    """The value in a pickle: containers, numbers, strings, and arrays of unsigned bytes.

    Strings of Python 2 become bytes. Whatever is wrong is a pickle.UnpicklingError.
    """
    try:
        return _settled(_Reader(io.BytesIO(content), encoding="bytes").load())
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged pickle may fail in any way
        raise pickle.UnpicklingError(str(error) or type(error).__name__) from error


class _Type:
    """What stands for ``numpy.dtype``: unsigned bytes only."""

    def __init__(self, name: str | bytes, align: int = 0, copy: int = 0) -> None:
        if name not in ("u1", b"u1"):
            raise UnsafePickleError(f"its arrays must be of unsigned bytes, and one is of {name!r}")

    def __setstate__(self, state: Any) -> None:
        """Order and alignment: a byte has none."""


class _Array:
    """What stands for ``numpy.ndarray``, until its content is known."""

    value: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, content = state
        self.value = _array(content, kind, shape, "F" if is_fortran else "C")


def _started(*_: Any) -> _Array:
    """What stands for ``_reconstruct``."""
    return _Array()


def _from_buffer(content: Any, kind: Any, shape: Any, order: str) -> _Array:
    """What stands for ``_frombuffer``, as arrays are since protocol 5."""
    made = _Array()
    made.value = _array(content, kind, shape, order)
    return made


def _array(content: Any, kind: Any, shape: Any, order: str) -> Any:
    if not (isinstance(kind, _Type) and isinstance(content, bytes | bytearray)):
        raise UnsafePickleError("an array of it is not made of bytes")
    if len(content) != math.prod(shape) or min(shape) < 0:
        raise pickle.UnpicklingError(f"an array of shape {shape} has {len(content):,} bytes")
    return np.frombuffer(bytes(content), dtype=np.uint8).reshape(shape, order="F" if order == "F" else "C")


def _encoded(text: str, encoding: str | bytes) -> bytes:
    """What stands for ``_codecs.encode``: how Python 3 writes bytes for Python 2."""
    if encoding not in ("latin1", b"latin1"):
        raise UnsafePickleError(f"it asks for the encoding {encoding!r}")
    return text.encode("latin1")


_KNOWN: Final[dict[tuple[str, str], Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _started for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}


class _Reader(pickle._Unpickler):
    """The unpickler in Python: the one in C takes memory for a memo as large as the pickle asks for."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise UnsafePickleError(f"it asks for {module}.{name}, which is no part of an array") from None


def _settled(value: Any) -> Any:
    """The value, with arrays in place of what stands for them, down to the entries of a dictionary."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        return {name: entry.value if isinstance(entry, _Array) else entry for name, entry in value.items()}
    return value
