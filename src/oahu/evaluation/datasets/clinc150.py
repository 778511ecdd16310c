"""CLINC150: short questions to an assistant, as text embeddings that the user computes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import read_prepared
from oahu.evaluation.datasets.source import DatasetSource

__all__ = ["SOURCE"]

_PREPARED: Final = "clinc150-features.npz"
_LABELINGS: Final = {"intent": "y", "domain": "domain"}


def _read(home: Path) -> Dataset:
    return read_prepared(home / _PREPARED, "clinc150", "unit", labelings=_LABELINGS)


SOURCE: Final = DatasetSource(
    name="clinc150",
    title="CLINC150, text embeddings of questions with 150 intents in 10 domains",
    n_items=22_500,
    n_features=None,
    n_classes=150,
    task="retrieval",
    licence="CC BY 3.0",
    homepage="https://github.com/clinc/oos-eval",
    file_sets=((_PREPARED,),),
    read=_read,
    note=(
        "The official data set consists of texts. Compute features of the texts with a sentence encoder of "
        "your choice. Store the features in this archive as arrays 'X' (or 'Q', 'low' and 'step'), 'y' (the "
        "intents) and 'domain'."
    ),
    labelings=tuple(_LABELINGS),
)
