"""Model files: safetensors, with a JSON header and a SHA-256 over all of it.

A file holds arrays and plain JSON, never code. It is written beside its target, flushed to disk and renamed, so
that whoever looks sees the old file or the new one, whole.

The header is the one entry ``oahu`` of the safetensors metadata: ``format``, ``class``, whatever the class
keeps in JSON (``state``), the versions that wrote it, and ``sha256`` over the header and every array.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import DTypeLike, NDArray

from oahu.exceptions import InvalidTypeError, ModelFileError
from oahu.io.atomic_files import write_atomically
from oahu.messages import shorten
from oahu.version import __version__

__all__ = [
    "FORMAT",
    "Content",
    "Storable",
    "from_bytes",
    "homes",
    "load",
    "part",
    "read_notes",
    "save",
    "storable",
    "to_bytes",
    "with_part",
]

#: Raised by one when older versions of oahu could no longer read what is written.
FORMAT = 1

_KEY = "oahu"
_LONGEST_HEADER = 16 * 2**20


@dataclass(frozen=True)
class Content:
    """What a class puts into its file and gets back: plain JSON and named arrays."""

    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def array(self, name: str, shape: tuple[int | None, ...], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """The array ``name``, checked to be finite; None stands for any length, and for either float type."""
        if name not in self.arrays:
            raise ModelFileError(f"it has no array {name!r}")
        array = self.arrays[name]
        types = (np.dtype(np.float32), np.dtype(np.float64)) if dtype is None else (np.dtype(dtype),)
        sizes_fit = len(array.shape) == len(shape) and all(
            want is None or want == got for want, got in zip(shape, array.shape, strict=True)
        )
        if not sizes_fit or array.dtype not in types:
            wanted = " or ".join(map(str, types))
            raise ModelFileError(
                f"its array {name!r} is {array.dtype} of shape {array.shape}, not {wanted} of shape {shape}"
            )
        if not np.isfinite(array).all():
            raise ModelFileError(f"its array {name!r} has values that are not finite")
        return array

    def count(self, name: str) -> int:
        """The whole number ``name`` of the state, at least 0."""
        value = self.state[name]
        if type(value) is not int or value < 0:
            raise ModelFileError(f"its {name!r} cannot be {shorten(value)}")
        return value


class Storable(Protocol):
    """A class whose objects can live in a model file."""

    def _to_content(self) -> Content: ...

    @classmethod
    def _from_content(cls, content: Content) -> Any: ...


S = TypeVar("S", bound=type[Storable])

_classes: dict[str, type[Storable]] = {}

#: Where classes live that are only imported when a file holds one: the module of each name.
homes: dict[str, str] = {"Comparator": "oahu.tasks", "Retriever": "oahu.tasks"}


def storable(cls: S) -> S:
    """Class decorator: let `load` make objects of this class. Nothing else can come out of a file."""
    _classes[cls.__name__] = cls
    return cls


def save(thing: Storable, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> None:
    """Write ``thing`` to ``path``, durably and all or nothing; `read_notes` gives the notes back.

    A process killed at any moment leaves the old file or the new one; at worst also a ``.tmp`` file beside it.
    """
    write_atomically(path, to_bytes(thing, notes))


def to_bytes(thing: Storable, notes: dict[str, Any] | None = None) -> bytes:
    """What `save` writes."""
    name = type(thing).__name__
    if _classes.get(name) is not type(thing):
        raise InvalidTypeError(f"{name} cannot be saved: it is not registered, so oahu.load could not load it.")
    content = thing._to_content()
    arrays = {name: np.ascontiguousarray(array) for name, array in content.arrays.items()}
    for label, array in arrays.items():
        if not np.isfinite(array).all():
            raise ModelFileError(f"Cannot save: the {label!r} of this {name} has values that are not finite.")
    header: dict[str, Any] = {
        "format": FORMAT,
        "class": name,
        "oahu": __version__,
        "numpy": np.__version__,
        "state": content.state,
    }
    if notes is not None:
        header["notes"] = notes
    header["sha256"] = _digest(header, arrays)
    return bytes(safetensors.numpy.save(arrays, metadata={_KEY: _canonical(header)}))


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote: a learner, a metric or a task, ready to go on.

    Runs no code from the file. A file that is truncated, damaged, foreign or newer than this oahu raises
    `ModelFileError`, which says which of these it is.
    """
    return from_bytes(Path(path).read_bytes(), path)


def from_bytes(data: bytes, name: str | os.PathLike[str]) -> Any:
    """What `load` reads; ``name`` is what errors call it by."""
    with _naming(name):
        header, arrays = _parse(data)
        cls = _class_of(header["class"])
        try:
            return cls._from_content(Content(header["state"], arrays))
        except ModelFileError:
            raise
        except Exception as error:  # whatever a made-up content leads to, it is the file's fault
            raise ModelFileError(f"its content is not valid for class {header['class']}: {error!r}") from error


def with_part(content: Content, name: str, thing: Any) -> Content:
    """A content that also holds another thing that can be saved, which `part` gives back."""
    inner = thing._to_content()
    arrays = {f"{name}/{label}": array for label, array in inner.arrays.items()}
    state = {name: {"class": type(thing).__name__, "state": inner.state}}
    return Content(content.state | state, content.arrays | arrays)


def part(content: Content, name: str) -> Any:
    """A thing within a content: what `with_part` put there."""
    held, prefix = content.state[name], f"{name}/"
    arrays = {label.removeprefix(prefix): a for label, a in content.arrays.items() if label.startswith(prefix)}
    return _class_of(held["class"])._from_content(Content(held["state"], arrays))


def _class_of(name: str) -> type[Storable]:
    if name in homes:
        import_module(homes[name])
    if name not in _classes:
        known = ", ".join(sorted(_classes.keys() | homes.keys()))
        raise ModelFileError(f"it contains the unknown class {name!r}; known classes are {known}")
    return _classes[name]


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What was written beside the model; empty if nothing was."""
    with _naming(path):
        header, _ = _parse(Path(path).read_bytes())
        notes = header.get("notes", {})
        if not isinstance(notes, dict):
            raise ModelFileError(f"its notes cannot be {shorten(notes)}")
        return notes


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors about a file's content begin with its name."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}: {error}.") from error


def _parse(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Check a file from the outside in: length, header, format, arrays, digest."""
    if len(data) < 8:
        raise ModelFileError(f"it is truncated: {len(data)} bytes cannot hold a header")
    length = int.from_bytes(data[:8], "little")
    if length > _LONGEST_HEADER:
        raise ModelFileError(
            f"its header claims {length} bytes, more than the {_LONGEST_HEADER} allowed: "
            "it is not an oahu model file, or it is damaged"
        )
    if length > len(data) - 8:
        raise ModelFileError(f"it is truncated: its header claims {length} bytes, {len(data) - 8} follow")
    header, end_of_arrays = _parse_header(data[8 : 8 + length])
    present = len(data) - 8 - length
    if present < end_of_arrays:
        raise ModelFileError(f"it is truncated: {end_of_arrays} bytes of arrays expected, {present} found")
    try:
        arrays = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"it is damaged: {error}") from error
    found = header.pop("sha256", None)
    expected = _digest(header, arrays)
    if found != expected:
        raise ModelFileError(f"it is damaged: its SHA-256 is {expected}, and it says {found}")
    return header, arrays


def _parse_header(text: bytes) -> tuple[dict[str, Any], int]:
    """The oahu header, and where the last array ends."""
    if not text.rstrip(b" ").endswith(b"}"):  # safetensors fills up with spaces, and with nothing else
        raise ModelFileError("its header is not JSON: it is not an oahu model file, or it is damaged")
    try:
        tables = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"its header is not JSON: it is not an oahu model file, or it is damaged ({error})"
        ) from error
    try:
        written = tables["__metadata__"][_KEY]
        header = json.loads(written)
        version = header["format"]
        if type(version) is not int or version < 1 or not isinstance(header["class"], str):
            raise ValueError(f"format {version!r}, class {header['class']!r}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"it is not an oahu model file: no oahu header ({error!r})") from error
    if version > FORMAT:
        raise ModelFileError(
            f"it is of format {version}, written by oahu {header.get('oahu')}; "
            f"this is oahu {__version__}, which reads formats up to {FORMAT}: upgrade oahu"
        )
    if written != _canonical(header):
        raise ModelFileError("it is damaged: its header is not as oahu writes it")
    try:
        ends = [entry["data_offsets"][1] for name, entry in tables.items() if name != "__metadata__"]
        return header, max(map(int, ends), default=0)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ModelFileError(f"it is damaged: its table of arrays is not readable ({error!r})") from error


def _canonical(header: Mapping[str, Any]) -> str:
    """The one way to write a header."""
    return json.dumps(header, sort_keys=True)


def _digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over the header and, by name, every array's name, type, shape and bytes."""
    digest = hashlib.sha256(_canonical(header).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
