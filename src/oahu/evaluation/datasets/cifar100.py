"""CIFAR-100: photographs of 100 classes, as deep features if available, otherwise as pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from oahu.evaluation.datasets.cifar import N_PIXELS, read_batches
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import DatasetSource, RemoteFile

__all__ = ["SOURCE"]

_N_ITEMS, _N_TRAIN, _N_CLASSES = 60_000, 50_000, 100
_PREPARED: Final = "cifar100-features.npz"
_ARCHIVE: Final = "cifar100/cifar-100-binary.tar.gz"
_BATCHES: Final = ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin")


def _read(home: Path) -> Dataset:
    if (home / _PREPARED).is_file():
        return read_prepared(home / _PREPARED, "cifar100", "unit", n_train=_N_TRAIN, n=_N_ITEMS)
    return _read_pixels(home / _ARCHIVE)


def _read_pixels(path: Path) -> Dataset:
    """Return the data set with pixels as features. Each row is a flattened image of shape (32, 32, 3)."""
    (train, train_labels), (test, test_labels) = read_batches(path, _BATCHES, 2, _N_CLASSES)
    images = np.concatenate([train, test]).swapaxes(1, 2)
    return Dataset(
        "cifar100",
        images.reshape(len(images), 3 * N_PIXELS),
        np.concatenate([train_labels, test_labels]),
        scaling="range",
        is_train=np.arange(len(images)) < len(train),
        image_shape=(32, 32, 3),
    )


SOURCE: Final = DatasetSource(
    name="cifar100",
    title="CIFAR-100, deep features of photographs, or their pixels",
    n_items=_N_ITEMS,
    n_features=3 * N_PIXELS,
    n_classes=_N_CLASSES,
    task="retrieval",
    licence="none stated",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    file_sets=((_ARCHIVE,), (_PREPARED,)),
    downloads=(
        RemoteFile(
            _ARCHIVE,
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            "md5:03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
    read=_read,
    note=(
        "The download contains pixels (3,072 features). The paper used deep features. To use deep "
        "features, compute "
        f"them and store them in {_PREPARED} as arrays 'X' (or 'Q', 'low' and 'step') and 'y', training images "
        "first."
    ),
)
