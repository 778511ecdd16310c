"""CIFAR-10 in grey: 32 x 32 photographs of ten kinds of things, as in the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from oahu.evaluation.datasets.cifar import N_PIXELS, read_batches
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.grey import grey
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import Remote, Source
from oahu.exceptions import DatasetError

__all__ = ["SOURCE"]

_N_ITEMS, _N_TRAIN, _N_CLASSES = 60_000, 50_000, 10
_SHAPE: Final = (32, 32)
_PREPARED: Final = "cifar10-gray.npz"
_ARCHIVE: Final = "cifar10-gray/cifar-10-python.tar.gz"
_BATCHES: Final = tuple(
    f"cifar-10-batches-py/{name}" for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
)


def _read(home: Path) -> Dataset:
    return _from_prepared(home / _PREPARED) if (home / _PREPARED).is_file() else _from_archive(home / _ARCHIVE)


def _from_prepared(path: Path) -> Dataset:
    read = read_prepared(path, "cifar10-gray", "range", n_train=_N_TRAIN, n=_N_ITEMS)
    if read.X.dtype != np.uint8 or read.n_features != N_PIXELS:
        raise DatasetError(
            f"'X' in {path} must be grey images: uint8 of shape (n_items, {N_PIXELS}). "
            f"Got {read.X.dtype} of shape {read.X.shape}."
        )
    return Dataset(read.name, read.X, read.y, read.scaling, read.is_train, _SHAPE, read.keys)


def _from_archive(path: Path) -> Dataset:
    batches = read_batches(path, _BATCHES, "labels", _N_CLASSES)
    y = np.concatenate([labels for _, labels in batches])
    return Dataset(
        "cifar10-gray",
        np.concatenate([grey(images) for images, _ in batches]),
        y,
        scaling="range",
        is_train=np.arange(len(y)) < len(y) - len(batches[-1][1]),
        image_shape=_SHAPE,
    )


SOURCE: Final = Source(
    name="cifar10-gray",
    title="CIFAR-10, photographs in grey",
    n_items=_N_ITEMS,
    n_features=N_PIXELS,
    n_classes=_N_CLASSES,
    task="classification",
    licence="none stated",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    forms=((_ARCHIVE,), (_PREPARED,)),
    files=(
        Remote(
            _ARCHIVE,
            ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
            "md5:c58f30108f718f92721af3b95e74349a",
        ),
    ),
    read=_read,
)
