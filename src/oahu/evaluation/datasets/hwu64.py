"""HWU64: short commands to a home assistant, as text embeddings that the user computes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import DatasetSource

__all__ = ["SOURCE"]

_PREPARED: Final = "hwu64-features.npz"


def _read(home: Path) -> Dataset:
    return read_prepared(home / _PREPARED, "hwu64", "unit")


SOURCE: Final = DatasetSource(
    name="hwu64",
    title="HWU64, text embeddings of commands with 64 intents",
    n_items=11_036,
    n_features=None,
    n_classes=64,
    task="retrieval",
    licence="CC BY 4.0",
    homepage="https://github.com/xliuhw/NLU-Evaluation-Data",
    file_sets=((_PREPARED,),),
    read=_read,
    note=(
        "The official data set consists of texts. Compute features of the texts with a sentence encoder of "
        "your choice. Store the features in this archive as arrays 'X' (or 'Q', 'low' and 'step') and 'y'."
    ),
)
