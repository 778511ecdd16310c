"""The archives of CIFAR-10 and CIFAR-100 for Python: pickled batches in a .tar.gz."""

from __future__ import annotations

import gzip
import pickle
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.pickled import unpickle
from oahu.evaluation.datasets.source import damaged

__all__ = ["N_PIXELS", "read_batches"]

N_PIXELS: Final = 1024
_N_BYTES: Final = 3 * N_PIXELS
_LIMIT: Final = 1 << 29  # bytes in the archive; the official ones have less than 200 million
_LIMIT_OF_REST: Final = 1 << 20  # of zeros behind its end


def read_batches(
    path: Path, names: Sequence[str], labels: str, n_classes: int
) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Images and labels of the batches, in the order of their names.

    Nothing is written to disk, and no code of the pickles is run.

    Parameters
    ----------
    path : Path
        The archive.
    names : sequence of str
        Members, with their folder.
    labels : str
        The entry of a batch that holds its labels.
    n_classes : int

    Returns
    -------
    list of (images, labels)
        Images of shape (n_images, 3, 1024): planes of red, green and blue, row by row.
    """
    members = _members(path, names)
    return [_batch(members[name], f"{path}, {name}", labels, n_classes) for name in names]


def _members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The bytes of files in the archive, which is read to its end: there is the sum that gzip checks."""
    try:
        with gzip.open(path) as unpacked:
            found = _found(unpacked, path, names)
            if len(unpacked.read(_LIMIT_OF_REST)) == _LIMIT_OF_REST:
                raise damaged(path, "its archive does not end where it says")
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise damaged(path, f"its archive is broken or ends early ({error})") from error
    lacking = [name for name in names if name not in found]
    if lacking:
        raise damaged(path, f"{', '.join(lacking)} is not in the archive")
    return found


def _found(unpacked: gzip.GzipFile, path: Path, names: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    total = 0
    with tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            total += member.size
            if total > _LIMIT:
                raise damaged(path, f"it has {total:,} bytes up to {member.name}, far more than CIFAR")
            stream = archive.extractfile(member) if member.isfile() and member.name in names else None
            if stream is not None:
                found[member.name] = stream.read()
    return found


def _batch(content: bytes, file: str, labels: str, n_classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        batch = unpickle(content)
    except pickle.UnpicklingError as error:
        raise damaged(file, str(error)) from error
    images, classes = _entry(batch, "data", file), _entry(batch, labels, file)
    if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != _N_BYTES or not len(images):
        raise damaged(file, f"'data' must be an array of shape (n_images, {_N_BYTES})")
    if not isinstance(classes, list) or len(classes) != len(images):
        raise damaged(file, f"{labels!r} must be a list of {len(images):,} labels, one for each image")
    if not all(type(label) is int and 0 <= label < n_classes for label in classes):
        raise damaged(file, f"{labels!r} must be whole numbers from 0 to {n_classes - 1}")
    return images.reshape(-1, 3, N_PIXELS), np.array(classes, dtype=np.int64)


def _entry(batch: Any, name: str, file: str) -> Any:
    """An entry by its name, which Python 2 wrote as bytes."""
    if isinstance(batch, dict):
        for key in (name.encode(), name):
            if key in batch:
                return batch[key]
    raise damaged(file, f"it must be a dictionary with {name!r}")
