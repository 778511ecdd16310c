"""A user's own data: features and labels in a .npz, .npy, .csv, .tsv or .parquet file.

What such a file holds is said in ``oahu.io.features``. Beside it, a .npz archive may have features in
8 bits as ``Q``, ``low`` and ``step``, a split ``is_train``, and the items' names as ``image``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import ARRAYS, features_of, labels_of, names_of, read_arrays, split_of
from oahu.evaluation.datasets.source import Source
from oahu.exceptions import InvalidInputError
from oahu.io.features import read_features, read_labels

__all__ = ["KINDS", "SOURCE", "read_own"]

KINDS: Final = (".npz", ".npy", ".csv", ".tsv", ".parquet")


def read_own(path: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None) -> Dataset:
    """A data set from a file of the user, named by the file.

    Features are uint8 if they are in the file, and float32 otherwise.

    Parameters
    ----------
    path : path
        The features.
    labels : path, optional
        The labels, if they are in a file of their own (.npy, .txt, .csv); they replace those beside the features.
    """
    path = Path(path)
    for file in (path, labels):
        if file is not None and not Path(file).is_file():
            raise FileNotFoundError(f"There is no file {file}.")
    parts = _from_npz(path) if path.suffix.lower() == ".npz" else _from_table(path)
    if labels is not None:
        parts["y"] = read_labels(labels)
    if "y" not in parts:
        raise InvalidInputError(
            f"{path} has no labels. They belong into an array 'y' of a .npz archive, a column 'label' of a table, "
            "or a file of their own (labels)."
        )
    X = features_of(parts, path)
    return Dataset(
        path.stem,
        X,
        labels_of(parts, path if labels is None else Path(labels), len(X)),
        scaling="standard",
        is_train=split_of(parts, path, len(X)),
        keys=names_of(parts, path, len(X)),
    )


def _from_table(path: Path) -> dict[str, NDArray[Any]]:
    """What the file of features has, by the names of a prepared archive."""
    features = read_features(path)
    parts: dict[str, NDArray[Any]] = {"X": np.array(features.table)}  # no memory map: it is to be pickled
    if features.labels is not None:
        parts["y"] = features.labels
    if features.rows is not None:
        parts["keys"] = np.array([str(key) for key in features.ids])
    return parts


def _from_npz(path: Path) -> dict[str, NDArray[Any]]:
    arrays = read_arrays(path, [name for name in ARRAYS if name != "X"])
    if "Q" in arrays:
        return arrays
    return _from_table(path) | {name: arrays[name] for name in ("is_train", "image") if name in arrays}


SOURCE: Final = Source(
    name="any",
    title="A file of yours",
    n_items=None,
    n_features=None,
    n_classes=None,
    task="classification",
    licence="yours",
    homepage="",
    forms=(),
    read=read_own,
    note=f"'any' stands for a file of yours: give its path ({', '.join(KINDS)}) in place of a data set's name.",
)
