"""Reader of user files: features and labels in a .npz, .npy, .csv, .tsv or .parquet file.

`oahu.io.features` documents the file formats. In addition, a .npz archive may contain features quantised to 8 bits
(``Q``, ``low``, ``step``), a split (``is_train``), and the keys of the items (``image``).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.prepared import ARRAYS, features_of, keys_of, labels_of, read_arrays, split_of
from oahu.evaluation.datasets.source import DatasetSource
from oahu.exceptions import InvalidInputError
from oahu.io.features import read_features, read_labels

__all__ = ["FILE_TYPES", "SOURCE", "read_user_file"]

FILE_TYPES: Final = (".npz", ".npy", ".csv", ".tsv", ".parquet")


def read_user_file(path: str | os.PathLike[str], labels: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a user's file as a data set. The name of the data set is the file name.

    Features of type uint8 are unchanged. Other features are converted to float32. The default scaling of the data
    set is "none".

    Parameters
    ----------
    path : path
        File with the features, and optionally the labels.
    labels : path, optional
        Separate label file (.npy, .txt or .csv). Its labels replace labels in the feature file.
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
            f"{path} has no labels. Store the labels as an array 'y' of a .npz archive or as a column 'label' of a "
            "table, or pass a label file with the 'labels' parameter."
        )
    X = features_of(parts, path)
    return Dataset(
        path.stem,
        X,
        labels_of(parts, path if labels is None else Path(labels), len(X)),
        scaling="none",
        is_train=split_of(parts, path, len(X)),
        keys=keys_of(parts, path, len(X)),
    )


def _from_table(path: Path) -> dict[str, NDArray[Any]]:
    """Return the contents of a feature file as arrays. The arrays are named as in a prepared archive."""
    features = read_features(path)
    parts: dict[str, NDArray[Any]] = {
        "X": np.array(features.table)
    }  # not a memory map, because workers receive a pickled copy
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


SOURCE: Final = DatasetSource(
    name="any",
    title="Your own file",
    n_items=None,
    n_features=None,
    n_classes=None,
    task="classification",
    licence="your own",
    homepage="",
    file_sets=(),
    read=read_user_file,
    note=f"'any' stands for your own file. Use its path ({', '.join(FILE_TYPES)}) instead of a data set's name.",
)
