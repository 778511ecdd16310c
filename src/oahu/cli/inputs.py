"""Input files of commands: model files and item files. Error messages contain the path of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

import oahu

if TYPE_CHECKING:
    from oahu.io.features import FeatureTable
    from oahu.metrics import Metric
    from oahu.tasks.matches import Key

__all__ = [
    "LoadedItems",
    "LoadedModel",
    "add_path_to_errors",
    "check_folder",
    "check_label_types",
    "check_picture",
    "row_blocks",
]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The object in a model file, and the metric of that object."""

    path: Path
    content: Any
    metric: Metric

    @classmethod
    def read(cls, path: Path) -> LoadedModel:
        """Load a learner, a metric, or a task such as a comparator or a saved index."""
        from oahu.learners.base import Learner

        content: Any = oahu.load(path)
        metric = content.metric() if isinstance(content, Learner) else getattr(content, "metric", content)
        return cls(path, content, metric)

    @property
    def class_name(self) -> str:
        """Class name of the object in the file, such as AnchoredOAHU."""
        return type(self.content).__name__

    def as_json(self) -> dict[str, Any]:
        """Return the properties of the model for JSON output."""
        return {
            "file": self.path,
            "class": self.class_name,
            "n_features": self.metric.n_features,
            "version": self.metric.version,
        }


@dataclass(frozen=True, eq=False)
class LoadedItems:
    """Items of a file, with or without labels."""

    path: Path
    features: FeatureTable
    labels: NDArray[Any] | None

    @classmethod
    def read(cls, path: Path, model: LoadedModel, labels: Path | None = None) -> LoadedItems:
        """Load items, and check that the items have the number of features that the model expects."""
        features = oahu.read_features(path)
        width = features.table.shape[1]
        if width != model.metric.n_features:
            raise oahu.InvalidInputError(
                f"{path} has {width} features per item, but the model {model.path} expects "
                f"{model.metric.n_features}."
            )
        item_labels = features.labels if labels is None else oahu.read_labels(labels)
        if item_labels is not None and len(item_labels) != len(features.table):
            raise oahu.InvalidInputError(
                f"{labels} has {len(item_labels)} labels, but {path} has {len(features.table)} items. Give one "
                "label per item, in the same order."
            )
        return cls(path, features, item_labels)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def table(self) -> NDArray[Any]:
        """Features of the items, of shape (n_items, n_features)."""
        return self.features.table

    @cached_property
    def keys(self) -> list[Key]:
        """Id of each item."""
        return self.features.ids

    def require_labels(self, option: str) -> NDArray[Any]:
        """Return the labels. If the items have no labels, raise an error with advice to use ``option``."""
        if self.labels is None:
            raise oahu.InvalidInputError(
                f"{self.path} has no labels. Add labels as an array 'y' of a .npz file or as a column 'label' of a "
                f".csv, .tsv or .parquet file, or give a label file: {option} FILE."
            )
        return self.labels


def check_label_types(items: LoadedItems, queries: LoadedItems) -> None:
    """Raise an error if one file has string labels and the other file has integer labels."""
    if items.labels is None or queries.labels is None:
        return
    types = ["strings" if labels.dtype.kind == "U" else "integers" for labels in (items.labels, queries.labels)]
    if types[0] != types[1]:
        raise oahu.InvalidInputError(
            f"The labels in {items.path} are {types[0]}, but the labels in {queries.path} are {types[1]}. Use the "
            "same type of labels in both files."
        )


@contextmanager
def add_path_to_errors(path: Path | str | None, hint: str = "") -> Iterator[None]:
    """Put ``path`` before and ``hint`` after the message of an error of the library.

    If ``path`` is None, messages do not change.
    """
    try:
        yield
    except oahu.OAHUError as error:
        if path is None:
            raise
        raise oahu.InvalidInputError(f"{path}: {error}{hint and f' {hint}'}") from error


def check_folder(path: Path | None) -> None:
    """Raise an error if the folder of an output file is missing. Commands call this function before other work."""
    if path is not None and not path.resolve().parent.is_dir():
        raise oahu.InvalidInputError(
            f"Cannot write {path.name}: the folder {path.resolve().parent} does not exist."
        )


def check_picture(path: Path | None) -> None:
    """Raise an error if the folder of a picture file is missing, or if the picture format is not supported."""
    check_folder(path)
    if path is not None:
        from oahu.plots import figure

        canvas = figure()[0].canvas
        if path.suffix.lower().removeprefix(".") not in canvas.get_supported_filetypes():
            raise oahu.InvalidInputError(
                f"Cannot write {path}: the file format is not supported. Use .png, .pdf or .svg."
            )


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` rows. Together, the slices cover ``n`` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
