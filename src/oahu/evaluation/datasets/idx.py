"""Reader of the idx file format of MNIST: a magic number, the shape of the array, then the bytes of the array."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.source import damaged_file

__all__ = ["read_idx", "read_labelled", "train_and_test"]

_UNSIGNED_BYTE: Final = 0x08
_MAX_BYTES: Final = 1 << 30  # ten times the size of EMNIST's largest array


def read_idx(packed: IO[bytes], file: object, n_axes: int) -> NDArray[np.uint8]:
    """Return the array in a gzipped idx file of unsigned bytes.

    The header states the size of the array. No more bytes than this size are unpacked, so that a damaged file
    cannot fill the memory.

    Parameters
    ----------
    packed : binary file
        File with the gzipped bytes.
    file : object
        Name of the file, for error messages.
    n_axes : int
        Number of axes of the array: 3 for images, 1 for labels.
    """
    try:
        with gzip.GzipFile(fileobj=packed) as unpacked:
            shape = _shape(unpacked, file, n_axes)
            content = unpacked.read(math.prod(shape))
            beyond = unpacked.read(1)  # also verifies the checksum of gzip
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise damaged_file(file, f"its gzip data are damaged or incomplete ({error})") from error
    if beyond or len(content) < math.prod(shape):
        actual = "more" if beyond else f"{len(content):,}"
        raise damaged_file(
            file, f"its header states {math.prod(shape):,} bytes for shape {shape}, but it has {actual}"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _shape(unpacked: gzip.GzipFile, file: object, n_axes: int) -> tuple[int, ...]:
    length = 4 + 4 * n_axes
    header = unpacked.read(length)
    expected = bytes([0, 0, _UNSIGNED_BYTE, n_axes])
    if header[:4] != expected:
        raise damaged_file(
            file,
            f"an idx file of {n_axes} axes must begin with {expected.hex()}, but it begins with {header[:4].hex()}",
        )
    if len(header) < length:
        raise damaged_file(file, f"its header must have {length} bytes, but it has {len(header)}")
    shape = struct.unpack(f">{n_axes}I", header[4:])
    if 0 in shape or math.prod(shape) > _MAX_BYTES:
        raise damaged_file(file, f"its header states the invalid shape {shape}")
    return shape


def read_labelled(
    images: tuple[IO[bytes], object], labels: tuple[IO[bytes], object], n_classes: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images and their labels from two files.

    ``images`` and ``labels`` are tuples of an open file and the name of the file for error messages.
    """
    pixels, classes = read_idx(*images, n_axes=3), read_idx(*labels, n_axes=1)
    if len(pixels) != len(classes):
        raise damaged_file(labels[1], f"it has {len(classes):,} labels, but there are {len(pixels):,} images")
    if classes.max() >= n_classes:
        raise damaged_file(labels[1], f"labels must be 0 to {n_classes - 1}, but the largest is {classes.max()}")
    return pixels, classes


def train_and_test(
    name: str,
    train: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    test: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    test_file: object,
) -> Dataset:
    """Return training images and test images as one data set. Training images come first."""
    shape = train[0].shape[1:]
    if test[0].shape[1:] != shape:
        raise damaged_file(
            test_file, f"its images have shape {test[0].shape[1:]}, but the training images have {shape}"
        )
    images, labels = (np.concatenate(halves) for halves in zip(train, test, strict=True))
    return Dataset(
        name,
        images.reshape(len(images), -1),
        labels.astype(np.int64),
        scaling="range",
        is_train=np.arange(len(images)) < len(train[0]),
        image_shape=shape,
    )
