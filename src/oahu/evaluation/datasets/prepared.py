"""Reader of data sets that the user has prepared as .npz archives.

The array ``X`` contains the features. The arrays ``Q``, ``low`` and ``step`` can replace ``X``. Then ``Q`` contains
the features quantised to 8 bits, and the features are low + Q * step. The array ``y`` contains the labels. Optional
arrays are ``is_train`` (the official split), and one of ``image``, ``keys`` and ``ids`` (the keys of the items). A
data set in which items can be alike in several ways has further arrays with labels.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.evaluation.datasets.dataset import Dataset
from oahu.exceptions import DatasetError

__all__ = [
    "ARRAYS",
    "dataset_of",
    "features_of",
    "image_folder_of",
    "keys_of",
    "labels_of",
    "read_arrays",
    "read_prepared",
    "split_of",
]

_KEY_NAMES: Final = ("image", "keys", "ids")
_READ_ERRORS: Final = (ValueError, EOFError, MemoryError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)
ARRAYS: Final = ("X", "Q", "low", "step", "y", "is_train", *_KEY_NAMES)


def read_prepared(
    path: Path,
    name: str,
    scaling: str,
    *,
    n_train: int | None = None,
    n: int = 0,
    labelings: Mapping[str, str] | None = None,
) -> Dataset:
    """Return the data set in an archive.

    If the archive has no array ``is_train`` but contains exactly ``n`` items, its first ``n_train`` items are the
    training items. ``labelings`` gives the array with the labels of each labeling. Arrays other than ``y`` may be
    missing; then the data set does not have these labelings.
    """
    arrays_of = labelings or {}
    arrays = read_arrays(path, dict.fromkeys((*ARRAYS, *arrays_of.values())))
    dataset = dataset_of(arrays, path, name, scaling)
    found = {
        each: labels_of(arrays, path, len(dataset), array) for each, array in arrays_of.items() if array in arrays
    }
    dataset = replace(dataset, image_folder=image_folder_of(path.parent, name), labelings=found)
    if dataset.is_train is None and n_train is not None and len(dataset) == n:
        return replace(dataset, is_train=np.arange(n) < n_train)
    return dataset


def image_folder_of(home: Path, name: str) -> Path | None:
    """Return the folder with the image files of a data set, or None if the folder is missing."""
    folder = home / name / "images"
    return folder if folder.is_dir() else None


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays ``names`` of the archive, without missing arrays. Raise an error for pickled objects."""
    with path.open("rb") as file:  # given a path, NumPy does not close a damaged archive
        try:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise ValueError("it is not an archive")
            return {name: arrays[name] for name in names if name in arrays}
        except _READ_ERRORS as error:
            raise DatasetError(
                f"{path} cannot be read as a .npz archive of arrays ({error}). Create it again with numpy.savez."
            ) from error


def dataset_of(arrays: dict[str, NDArray[Any]], path: Path, name: str, scaling: str) -> Dataset:
    """Validate the arrays and return them as a data set."""
    X = features_of(arrays, path)
    return Dataset(
        name,
        X,
        labels_of(arrays, path, len(X)),
        scaling,
        is_train=split_of(arrays, path, len(X)),
        keys=keys_of(arrays, path, len(X)),
    )


def features_of(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """Return the features. uint8 features are unchanged. Other features must be finite and become float32."""
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
            raise DatasetError(
                f"'X' in {path} must be a numeric array of shape (n_items, n_features) that is not empty. "
                f"Got {X.dtype} of shape {X.shape} instead."
            )
    else:
        X = _dequantise(arrays, path)
    if X.dtype == np.uint8:
        return X
    with np.errstate(over="ignore"):
        X = X.astype(np.float32, copy=False)
    if not np.isfinite(X).all():
        row = int(np.argmin(np.isfinite(X).all(axis=1)))
        raise DatasetError(
            f"The features in {path} must be finite float32 numbers. Row {row} contains NaN, infinity or "
            "a number beyond the range of float32."
        )
    return X


def _dequantise(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    if not {"Q", "low", "step"} <= arrays.keys():
        raise DatasetError(
            f"{path} must contain the features as an array 'X', or as arrays 'Q', 'low' and 'step'. "
            f"It contains {_list_names(arrays)}."
        )
    Q, low, step = arrays["Q"], arrays["low"], arrays["step"]
    if Q.ndim != 2 or 0 in Q.shape or Q.dtype != np.uint8:
        raise DatasetError(
            f"'Q' in {path} must be a uint8 array of shape (n_items, n_features) that is not empty. "
            f"Got {Q.dtype} of shape {Q.shape} instead."
        )
    for name, array in (("low", low), ("step", step)):
        if array.shape != Q.shape[1:] or array.dtype.kind != "f":
            raise DatasetError(
                f"{name!r} in {path} must be a float array of shape ({Q.shape[1]},), one value per feature. "
                f"Got {array.dtype} of shape {array.shape} instead."
            )
    X = Q.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite values are detected afterwards
        X *= step.astype(np.float32)
        X += low.astype(np.float32)
    return X


def labels_of(arrays: dict[str, NDArray[Any]], path: Path, n_items: int, name: str = "y") -> NDArray[Any]:
    """Return the labels in the array ``name``: strings, or integers of type int64."""
    if name not in arrays:
        raise DatasetError(
            f"{path} must contain the labels as an array {name!r}. It contains {_list_names(arrays)}."
        )
    y = arrays[name]
    if y.shape != (n_items,) or y.dtype.kind not in "iuU":
        raise _array_error(path, name, "integers or strings", n_items, y)
    return y if y.dtype.kind == "U" else y.astype(np.int64)


def split_of(arrays: dict[str, NDArray[Any]], path: Path, n_items: int) -> NDArray[np.bool_] | None:
    """Return the official split, or None if the archive does not contain a split."""
    split = arrays.get("is_train")
    if split is not None and (split.shape != (n_items,) or split.dtype.kind != "b"):
        raise _array_error(path, "is_train", "true or false", n_items, split)
    return split


def keys_of(arrays: dict[str, NDArray[Any]], path: Path, n_items: int) -> NDArray[np.str_] | None:
    """Return the keys of the items, or None if the archive does not contain keys."""
    found = next((name for name in _KEY_NAMES if name in arrays), None)
    if found is None:
        return None
    names = arrays[found]
    if names.shape != (n_items,) or names.dtype.kind not in "iuU":
        raise _array_error(path, found, "strings or integers", n_items, names)
    return names.astype(np.str_)


def _array_error(path: Path, name: str, what: str, n: int, got: NDArray[Any]) -> DatasetError:
    return DatasetError(
        f"{name!r} in {path} must be {what}, one for each of the {n:,} items. "
        f"Got {got.dtype} of shape {got.shape} instead."
    )


def _list_names(arrays: dict[str, NDArray[Any]]) -> str:
    return ", ".join(map(repr, arrays)) or "no array with a known name"
