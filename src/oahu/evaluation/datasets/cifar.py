"""Reader of the binary archives of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.source import damaged_file

__all__ = ["N_PIXELS", "read_batches"]

N_PIXELS: Final = 1024
_N_VALUES: Final = 3 * N_PIXELS
_MAX_BYTES: Final = 1 << 29  # in the archive; the official archives have less than 200 million
_MAX_PADDING: Final = 1 << 20  # zeros after the end of the archive


def read_batches(
    path: Path, names: Sequence[str], n_label_bytes: int, n_classes: int
) -> list[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Return the images and the labels in batch files.

    A batch file stores the label bytes of an image, followed by its 3,072 pixel bytes. The last label byte is the
    class.
    The archive is not unpacked to disk.

    Parameters
    ----------
    path : Path
        Path of the .tar.gz archive.
    names : sequence of str
        Names of the batch files in the archive, with their folder.
    n_label_bytes : int
        Number of label bytes of an image: 1 for CIFAR-10, 2 for CIFAR-100 (a coarse and a fine label).
    n_classes : int
        Number of classes.

    Returns
    -------
    list of (images, labels)
        One tuple per batch file, in the order of ``names``. Images have shape (n_images, 3, 1024). The second axis
        is the colour: red, green, blue.
    """
    members = _read_members(path, names)
    return [_parse_batch(members[name], f"{path}, {name}", n_label_bytes, n_classes) for name in names]


def _read_members(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of the files ``names`` in the archive.

    The archive is read to its end, because gzip verifies the checksum only at the end.
    """
    try:
        with gzip.open(path) as unpacked:
            found = _extract(unpacked, path, names)
            if len(unpacked.read(_MAX_PADDING)) == _MAX_PADDING:
                raise damaged_file(path, "data follows the end of the archive")
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise damaged_file(path, f"the archive is damaged or incomplete ({error})") from error
    missing = [name for name in names if name not in found]
    if missing:
        raise damaged_file(path, f"the archive does not contain {', '.join(missing)}")
    return found


def _extract(unpacked: gzip.GzipFile, path: Path, names: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    total = 0
    with tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            total += member.size
            if total > _MAX_BYTES:
                raise damaged_file(
                    path,
                    f"its files up to {member.name} have {total:,} bytes, but CIFAR has fewer than {_MAX_BYTES:,}",
                )
            stream = archive.extractfile(member) if member.isfile() and member.name in names else None
            if stream is not None:
                found[member.name] = stream.read()
    return found


def _parse_batch(
    content: bytes, file: str, n_label_bytes: int, n_classes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    size = n_label_bytes + _N_VALUES
    if not content or len(content) % size:
        raise damaged_file(
            file, f"its size must be a multiple of {size:,} bytes, but it has {len(content):,} bytes"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, size)
    labels = records[:, n_label_bytes - 1].astype(np.int64)
    if labels.max() >= n_classes:
        row = int(labels.argmax())
        raise damaged_file(file, f"labels must be 0 to {n_classes - 1}, but image {row} has label {labels[row]}")
    return records[:, n_label_bytes:].reshape(-1, 3, N_PIXELS), labels
