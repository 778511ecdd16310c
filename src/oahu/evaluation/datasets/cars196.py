"""CARS-196: deep features of photographs of cars, computed by the user."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import Source

__all__ = ["SOURCE"]

_PREPARED: Final = "cars196-features.npz"


def _read(home: Path) -> Dataset:
    return read_prepared(home / _PREPARED, "cars196", "unit")


SOURCE: Final = Source(
    name="cars196",
    title="CARS-196, deep features of photographs of cars",
    n_items=16_185,
    n_features=None,
    n_classes=196,
    task="retrieval",
    licence="for research",
    homepage="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    forms=((_PREPARED,),),
    read=_read,
    note=(
        "The official form are images. Compute features of them by a network of your choice, and keep them as the "
        "arrays X (or Q, low, step), y and is_train of that archive."
    ),
)
