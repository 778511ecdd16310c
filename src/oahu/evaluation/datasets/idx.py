"""The idx format of MNIST and its relatives: a magic number, the lengths of the axes, then the bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.source import damaged

__all__ = ["read_idx", "read_labelled", "train_and_test"]

_UNSIGNED_BYTE: Final = 0x08
_LIMIT: Final = 1 << 30  # bytes; EMNIST's largest array has a tenth of that


def read_idx(packed: IO[bytes], file: object, n_axes: int) -> NDArray[np.uint8]:
    """The array in a gzipped idx file of unsigned bytes.

    No more is unpacked than the lengths in the header announce, so a file cannot fill the memory.

    Parameters
    ----------
    packed : binary file
        The gzipped bytes.
    file : object
        What errors call it.
    n_axes : int
        3 for images, 1 for labels.
    """
    try:
        with gzip.GzipFile(fileobj=packed) as unpacked:
            shape = _shape(unpacked, file, n_axes)
            content = unpacked.read(math.prod(shape))
            beyond = unpacked.read(1)  # and the sum at the end of gzip is checked
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged(file, f"its gzip data are broken or end early ({error})") from error
    if beyond or len(content) < math.prod(shape):
        some = "more" if beyond else f"{len(content):,}"
        raise damaged(file, f"its header announces {math.prod(shape):,} bytes for shape {shape}, and it has {some}")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _shape(unpacked: gzip.GzipFile, file: object, n_axes: int) -> tuple[int, ...]:
    length = 4 + 4 * n_axes
    header = unpacked.read(length)
    expected = bytes([0, 0, _UNSIGNED_BYTE, n_axes])
    if header[:4] != expected:
        raise damaged(file, f"an idx file of {n_axes} axes begins with {expected.hex()}, not {header[:4].hex()}")
    if len(header) < length:
        raise damaged(file, f"its header must have {length} bytes, and it has {len(header)}")
    shape = struct.unpack(f">{n_axes}I", header[4:])
    if 0 in shape or math.prod(shape) > _LIMIT:
        raise damaged(file, f"its header announces the shape {shape}")
    return shape


def read_labelled(
    images: tuple[IO[bytes], object], labels: tuple[IO[bytes], object], n_classes: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images and the labels that belong to them, from two files, each with what errors call it."""
    pictures, classes = read_idx(*images, n_axes=3), read_idx(*labels, n_axes=1)
    if len(pictures) != len(classes):
        raise damaged(labels[1], f"it has {len(classes):,} labels for {len(pictures):,} images")
    if classes.max() >= n_classes:
        raise damaged(labels[1], f"its labels must be 0 to {n_classes - 1}, and there is {classes.max()}")
    return pictures, classes


def train_and_test(
    name: str,
    train: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    test: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    test_file: object,
) -> Dataset:
    """Both halves of the official split, the one to train with first."""
    shape = train[0].shape[1:]
    if test[0].shape[1:] != shape:
        raise damaged(test_file, f"its images have shape {test[0].shape[1:]}, and those to train with {shape}")
    images, labels = (np.concatenate(halves) for halves in zip(train, test, strict=True))
    return Dataset(
        name,
        images.reshape(len(images), -1),
        labels.astype(np.int64),
        scaling="range",
        is_train=np.arange(len(images)) < len(train[0]),
        image_shape=shape,
    )
