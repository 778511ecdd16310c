"""What commands read: a model, items with their labels; and errors that say which file is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError, OAHUError
from oahu.io.features import FeatureTable, read_features, read_labels
from oahu.learners import load
from oahu.learners.base import Learner
from oahu.metrics import Metric
from oahu.tasks.matches import Key

__all__ = ["Items", "Model", "about", "blocks", "check_folder", "check_picture", "check_same_kind"]


@dataclass(frozen=True, eq=False)
class Model:
    """What a model file holds, and the metric in it."""

    path: Path
    loaded: Any
    metric: Metric

    @classmethod
    def read(cls, path: Path) -> Model:
        """A learner, a metric, or a task that was saved with its metric."""
        loaded = load(path)
        metric = loaded.metric() if isinstance(loaded, Learner) else getattr(loaded, "metric", loaded)
        return cls(path, loaded, metric)

    @property
    def name(self) -> str:
        """OAHU, or whatever it is."""
        return type(self.loaded).__name__

    def described(self) -> dict[str, Any]:
        """For JSON."""
        metric = self.metric
        return {"file": self.path, "class": self.name, "n_features": metric.n_features, "version": metric.version}


@dataclass(frozen=True, eq=False)
class Items:
    """Items of a file, with their labels if these are known."""

    path: Path
    features: FeatureTable
    labels: NDArray[Any] | None

    @classmethod
    def read(cls, path: Path, model: Model, labels: Path | None = None) -> Items:
        """Items for a model, which must be of its number of features."""
        features = read_features(path)
        width = features.table.shape[1]
        if width != model.metric.n_features:
            raise InvalidInputError(
                f"{path} has {width} features an item, and {model.path} is for {model.metric.n_features}."
            )
        given = features.labels if labels is None else read_labels(labels)
        if given is not None and len(given) != len(features.table):
            raise InvalidInputError(
                f"{labels} has {len(given)} labels, and {path} has {len(features.table)} items: every item needs "
                "one, in the same order."
            )
        return cls(path, features, given)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def table(self) -> NDArray[Any]:
        """The features, (n_items, n_features)."""
        return self.features.table

    @cached_property
    def keys(self) -> list[Key]:
        """The id of every item."""
        return self.features.keys

    def needed_labels(self, option: str) -> NDArray[Any]:
        """The labels; if there are none, an error that says how ``option`` gives them."""
        if self.labels is None:
            raise InvalidInputError(
                f"{self.path} has no labels. They are the array y of a .npz file, the column label of a .csv or "
                f".parquet file, or a file of their own: {option} FILE."
            )
        return self.labels


def check_same_kind(items: Items, queries: Items) -> None:
    """Refuse strings on one side and numbers on the other: no label would ever be right."""
    if items.labels is None or queries.labels is None:
        return
    both = (items.labels, queries.labels)
    kinds = ["strings" if labels.dtype.kind == "U" else "integers" for labels in both]
    if kinds[0] != kinds[1]:
        raise InvalidInputError(
            f"The labels of {items.path} are {kinds[0]}, and those of {queries.path} are {kinds[1]}: they must be "
            "of one kind."
        )


@contextmanager
def about(path: Path | str | None, hint: str = "") -> Iterator[None]:
    """Let the errors of the library begin with the file that they are about, and end with what can be done."""
    try:
        yield
    except OAHUError as error:
        if path is None:
            raise
        raise InvalidInputError(f"{path}: {error}{hint and f' {hint}'}") from error


def check_folder(path: Path | None) -> None:
    """Before the work: is there a folder for what will be written?"""
    if path is not None and not path.resolve().parent.is_dir():
        raise InvalidInputError(f"There is no folder {path.resolve().parent} for {path.name}.")


def check_picture(path: Path | None) -> None:
    """Before the work: can a picture be drawn there?"""
    check_folder(path)
    if path is not None:
        from oahu.plots import figure

        drawn, _ = figure()
        kinds = drawn.canvas.get_supported_filetypes()
        if path.suffix.lower().removeprefix(".") not in kinds:
            raise InvalidInputError(f"{path} cannot be drawn: a picture is a .png, .pdf or .svg file.")


def blocks(n: int, size: int) -> Iterator[slice]:
    """So many at a time."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
