"""CIFAR-10: 32 x 32 photographs of ten classes, converted to greyscale as in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from oahu.evaluation.datasets.cifar import N_PIXELS, read_batches
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.grey import grey
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import DatasetSource, RemoteFile
from oahu.exceptions import DatasetError

__all__ = ["SOURCE"]

_N_ITEMS, _N_TRAIN, _N_CLASSES = 60_000, 50_000, 10
_SHAPE: Final = (32, 32)
_PREPARED: Final = "cifar10-gray.npz"
_ARCHIVE: Final = "cifar10-gray/cifar-10-binary.tar.gz"
_BATCHES: Final = tuple(
    f"cifar-10-batches-bin/{name}.bin" for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
)


def _read(home: Path) -> Dataset:
    return _from_prepared(home / _PREPARED) if (home / _PREPARED).is_file() else _from_archive(home / _ARCHIVE)


def _from_prepared(path: Path) -> Dataset:
    dataset = read_prepared(path, "cifar10-gray", "range", n_train=_N_TRAIN, n=_N_ITEMS)
    if dataset.X.dtype != np.uint8 or dataset.n_features != N_PIXELS:
        raise DatasetError(
            f"'X' in {path} must be greyscale images: uint8 of shape (n_items, {N_PIXELS}). "
            f"Got {dataset.X.dtype} of shape {dataset.X.shape} instead."
        )
    return Dataset(dataset.name, dataset.X, dataset.y, dataset.scaling, dataset.is_train, _SHAPE, dataset.keys)


def _from_archive(path: Path) -> Dataset:
    batches = read_batches(path, _BATCHES, 1, _N_CLASSES)
    y = np.concatenate([labels for _, labels in batches])
    return Dataset(
        "cifar10-gray",
        np.concatenate([grey(images) for images, _ in batches]),
        y,
        scaling="range",
        is_train=np.arange(len(y)) < len(y) - len(batches[-1][1]),
        image_shape=_SHAPE,
    )


SOURCE: Final = DatasetSource(
    name="cifar10-gray",
    title="CIFAR-10, greyscale photographs",
    n_items=_N_ITEMS,
    n_features=N_PIXELS,
    n_classes=_N_CLASSES,
    task="classification",
    licence="none stated",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    file_sets=((_ARCHIVE,), (_PREPARED,)),
    downloads=(
        RemoteFile(
            _ARCHIVE,
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    read=_read,
)
