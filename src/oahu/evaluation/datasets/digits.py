"""Handwritten digits of scikit-learn: 8 x 8 images with values 0 to 16."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.source import DatasetSource

__all__ = ["SOURCE"]


def _read(home: Path) -> Dataset:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Dataset("digits", X.astype(np.uint8), y.astype(np.int64), scaling="range", image_shape=(8, 8))


SOURCE: Final = DatasetSource(
    name="digits",
    title="Handwritten digits of scikit-learn",
    n_items=1_797,
    n_features=64,
    n_classes=10,
    task="classification",
    licence="CC BY 4.0",
    homepage="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    file_sets=((),),
    read=_read,
)
