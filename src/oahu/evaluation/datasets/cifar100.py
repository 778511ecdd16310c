"""CIFAR-100: deep features if they are there, as the paper used, and otherwise the pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from oahu.evaluation.datasets.cifar import N_PIXELS, read_batches
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import Remote, Source

__all__ = ["SOURCE"]

_N_ITEMS, _N_TRAIN, _N_CLASSES = 60_000, 50_000, 100
_PREPARED: Final = "cifar100-features.npz"
_ARCHIVE: Final = "cifar100/cifar-100-python.tar.gz"
_BATCHES: Final = ("cifar-100-python/train", "cifar-100-python/test")


def _read(home: Path) -> Dataset:
    if (home / _PREPARED).is_file():
        return read_prepared(home / _PREPARED, "cifar100", "unit", n_train=_N_TRAIN, n=_N_ITEMS)
    return _pixels(home / _ARCHIVE)


def _pixels(path: Path) -> Dataset:
    """Pixels in rows of red, green, blue: each item is an image of shape (32, 32, 3)."""
    (train, train_labels), (test, test_labels) = read_batches(path, _BATCHES, "fine_labels", _N_CLASSES)
    images = np.concatenate([train, test]).swapaxes(1, 2)
    return Dataset(
        "cifar100",
        images.reshape(len(images), 3 * N_PIXELS),
        np.concatenate([train_labels, test_labels]),
        scaling="range",
        is_train=np.arange(len(images)) < len(train),
        image_shape=(32, 32, 3),
    )


SOURCE: Final = Source(
    name="cifar100",
    title="CIFAR-100, deep features of photographs, or their pixels",
    n_items=_N_ITEMS,
    n_features=3 * N_PIXELS,
    n_classes=_N_CLASSES,
    task="retrieval",
    licence="none stated",
    homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    forms=((_ARCHIVE,), (_PREPARED,)),
    files=(
        Remote(
            _ARCHIVE,
            ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",),
            "md5:eb9058c3a382ffc7106e4002c42a8d85",
        ),
    ),
    read=_read,
    note=(
        "What is downloaded are pixels, 3,072 features. The paper used deep features: those that you compute go "
        f"into {_PREPARED} as arrays X (or Q, low, step) and y, training images first, and are preferred."
    ),
)
