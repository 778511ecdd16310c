"""CARS-196: photographs of cars, as deep features that the user computes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import DatasetSource

__all__ = ["SOURCE"]

_PREPARED: Final = "cars196-features.npz"


def _read(home: Path) -> Dataset:
    return read_prepared(home / _PREPARED, "cars196", "unit")


SOURCE: Final = DatasetSource(
    name="cars196",
    title="CARS-196, deep features of photographs of cars",
    n_items=16_185,
    n_features=None,
    n_classes=196,
    task="retrieval",
    licence="for research",
    homepage="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    file_sets=((_PREPARED,),),
    read=_read,
    note=(
        "The official data set consists of images. Compute features of the images with a network of your choice. "
        "Store the features in this archive as arrays 'X' (or 'Q', 'low' and 'step'), 'y' and 'is_train'."
    ),
)
