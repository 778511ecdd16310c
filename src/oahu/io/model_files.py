"""Model files: safetensors files with a JSON header and a SHA-256 checksum.

A file contains arrays and plain JSON, but no code. It is written under a temporary name, flushed to disk and
renamed. A reader therefore sees either the complete old file or the complete new file.

The header is the entry ``oahu`` of the safetensors metadata. It contains the version of the file format
(``format``), the name of the class (``class``), the JSON data of the object (``state``), the package versions that
wrote the file, and a checksum of the header and all arrays (``sha256``). `oahu.io.class_registry` defines the
classes that a file may contain.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import DTypeLike, NDArray

from oahu.exceptions import ModelFileError
from oahu.io.atomic_files import write_atomically
from oahu.io.class_registry import REGISTRY, AllowedClass, storable
from oahu.messages import shorten
from oahu.version import __version__

__all__ = [
    "FORMAT",
    "Content",
    "Storable",
    "from_bytes",
    "nested_model",
    "read",
    "read_notes",
    "save",
    "storable",
    "to_bytes",
    "with_nested_model",
]

#: The version of the file format. It is increased when older versions of oahu cannot read new files.
FORMAT = 1

_KEY = "oahu"
_MAX_HEADER_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Content:
    """Content of a model file: plain JSON and named arrays.

    Attributes
    ----------
    state : dict
        JSON data of the object.
    arrays : dict of ndarray
        Arrays of the object, by name.
    allow : collection of str or type
        Classes outside oahu that the file and its nested models may contain.
    """

    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    allow: Collection[AllowedClass] = ()

    def array(self, name: str, shape: tuple[int | None, ...], dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Check the shape, type and values of the array ``name``, and return the array.

        If an entry of ``shape`` is None, this axis may have any length. If ``dtype`` is None, float32 and float64
        are allowed.
        """
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
            raise ModelFileError(f"its array {name!r} contains values that are not finite")
        return array

    def count(self, name: str) -> int:
        """Check that the entry ``name`` of the state is an integer of at least 0, and return the integer."""
        value = self.state[name]
        if type(value) is not int or value < 0:
            raise ModelFileError(f"its {name!r} must be an integer of at least 0, not {shorten(value)}")
        return value


class Storable(Protocol):
    """Interface of objects that can be written to model files."""

    def _to_content(self) -> Content: ...

    @classmethod
    def _from_content(cls, content: Content) -> Any: ...


def save(model: Storable, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> None:
    """Write ``model`` to ``path`` atomically. The file also contains ``notes``, which `read_notes` returns.

    If the process is killed, ``path`` is either the old file or the complete new file. A ``.tmp`` file may remain.
    """
    write_atomically(path, to_bytes(model, notes))


def to_bytes(model: Storable, notes: dict[str, Any] | None = None) -> bytes:
    """Return the bytes that `save` writes."""
    name = REGISTRY.name_of(type(model))
    content = model._to_content()
    arrays = {name: np.ascontiguousarray(array) for name, array in content.arrays.items()}
    for label, array in arrays.items():
        if not np.isfinite(array).all():
            raise ModelFileError(
                f"Cannot save: the array {label!r} of this {name} contains values that are not finite."
            )
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


def read(path: str | os.PathLike[str], allow: Collection[AllowedClass] = ()) -> Any:
    """Return the model in a file that `save` wrote. `oahu.load` is the public form of this function."""
    return from_bytes(Path(path).read_bytes(), path, allow)


def from_bytes(data: bytes, name: str | os.PathLike[str], allow: Collection[AllowedClass] = ()) -> Any:
    """Return the model in bytes that `to_bytes` returned. Error messages contain ``name``."""
    with _add_path_to_errors(name):
        header, arrays = _parse(data)
        cls = REGISTRY.find(header["class"], allow)
        try:
            return cls._from_content(Content(header["state"], arrays, allow))
        except ModelFileError:
            raise
        except Exception as error:  # invalid content can cause any exception
            raise ModelFileError(f"its content is not valid for class {header['class']}: {error!r}") from error


def with_nested_model(content: Content, name: str, model: Any) -> Content:
    """Return the content with an added model. `nested_model` with the same ``name`` returns the added model."""
    inner = model._to_content()
    arrays = {f"{name}/{label}": array for label, array in inner.arrays.items()}
    state = {name: {"class": REGISTRY.name_of(type(model)), "state": inner.state}}
    return Content(content.state | state, content.arrays | arrays)


def nested_model(content: Content, name: str) -> Any:
    """Return the nested model that `with_nested_model` added with this ``name``."""
    stored, prefix = content.state[name], f"{name}/"
    arrays = {label.removeprefix(prefix): a for label, a in content.arrays.items() if label.startswith(prefix)}
    cls = REGISTRY.find(stored["class"], content.allow)
    return cls._from_content(Content(stored["state"], arrays, content.allow))


def read_notes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the notes that were saved with a model, or an empty dict if there are no notes."""
    with _add_path_to_errors(path):
        header, _ = _parse(Path(path).read_bytes())
        notes = header.get("notes", {})
        if not isinstance(notes, dict):
            raise ModelFileError(f"its notes must be an object, not {shorten(notes)}")
        return notes


@contextmanager
def _add_path_to_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the path of a file to the messages of errors about its content."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}: {error}.") from error


def _parse(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Validate the length, header, format, arrays and checksum of a file. Return its header and its arrays."""
    if len(data) < 8:
        raise ModelFileError(f"it is truncated: it has {len(data)} bytes, which is too short for a header")
    length = int.from_bytes(data[:8], "little")
    if length > _MAX_HEADER_BYTES:
        raise ModelFileError(
            f"its header has a stated length of {length} bytes, but at most {_MAX_HEADER_BYTES} bytes are allowed: "
            "it is not an oahu model file, or it is damaged"
        )
    if length > len(data) - 8:
        raise ModelFileError(
            f"it is truncated: its header must have {length} bytes, but only {len(data) - 8} bytes are present"
        )
    header, end_of_arrays = _parse_header(data[8 : 8 + length])
    present = len(data) - 8 - length
    if present < end_of_arrays:
        raise ModelFileError(
            f"it is truncated: its arrays must have {end_of_arrays} bytes, but {present} bytes are present"
        )
    try:
        arrays = safetensors.numpy.load(data)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"it is damaged: {error}") from error
    found = header.pop("sha256", None)
    expected = _digest(header, arrays)
    if found != expected:
        raise ModelFileError(f"it is damaged: its SHA-256 checksum is {expected}, but its header contains {found}")
    return header, arrays


def _parse_header(text: bytes) -> tuple[dict[str, Any], int]:
    """Return oahu's part of the header, and the number of bytes of all arrays."""
    if not text.rstrip(b" ").endswith(b"}"):  # safetensors pads with spaces only
        raise ModelFileError("its header is not JSON: it is not an oahu model file, or it is damaged")
    try:
        tables = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"its header is not JSON: it is not an oahu model file, or it is damaged ({error})"
        ) from error
    try:
        encoded = tables["__metadata__"][_KEY]
        header = json.loads(encoded)
        version = header["format"]
        if type(version) is not int or version < 1 or not isinstance(header["class"], str):
            raise ValueError(f"format {version!r} or class {header['class']!r} is invalid")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"it is not an oahu model file: it has no oahu header ({error!r})") from error
    if version > FORMAT:
        raise ModelFileError(
            f"it has format {version} and was written by oahu {header.get('oahu')}, but oahu "
            f"{__version__} reads only formats up to {FORMAT}. Upgrade oahu"
        )
    if encoded != _canonical(header):
        raise ModelFileError("it is damaged: its header was not written by oahu")
    try:
        ends = [entry["data_offsets"][1] for name, entry in tables.items() if name != "__metadata__"]
        return header, max(map(int, ends), default=0)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ModelFileError(f"it is damaged: its list of arrays cannot be read ({error!r})") from error


def _canonical(header: Mapping[str, Any]) -> str:
    """Return a header as canonical JSON. Equal headers give equal text."""
    return json.dumps(header, sort_keys=True)


def _digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 checksum of the header, and of the names, types, shapes and bytes of all arrays."""
    digest = hashlib.sha256(_canonical(header).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
