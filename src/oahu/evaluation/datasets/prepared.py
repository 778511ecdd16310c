"""Arrays that somebody has made from a data set and kept in a .npz archive.

``X``, or ``Q``, ``low`` and ``step`` of features in 8 bits: X = low + Q * step. ``y``: the labels. If there:
``is_train``, the official split, and ``image``, ``keys`` or ``ids``, the items' names.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
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
    "labels_of",
    "names_of",
    "pictures_in",
    "read_arrays",
    "read_prepared",
    "split_of",
]

_NAMES: Final = ("image", "keys", "ids")
_DAMAGE: Final = (ValueError, EOFError, MemoryError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)
ARRAYS: Final = ("X", "Q", "low", "step", "y", "is_train", *_NAMES)


def read_prepared(path: Path, name: str, scaling: str, *, n_train: int | None = None, n: int = 0) -> Dataset:
    """A data set from a prepared archive.

    An archive that has ``n`` items and no ``is_train`` has ``n_train`` items to train with, and they come first.
    """
    made = dataset_of(read_arrays(path, ARRAYS), path, name, scaling)
    made = replace(made, pictures=pictures_in(path.parent, name))
    if made.is_train is None and n_train is not None and len(made) == n:
        return replace(made, is_train=np.arange(n) < n_train)
    return made


def pictures_in(home: Path, name: str) -> Path | None:
    """The folder of a set's image files, if it is there: they are named as the items are."""
    folder = home / name / "images"
    return folder if folder.is_dir() else None


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Those of the arrays that are in the archive. Pickled objects are refused."""
    with path.open("rb") as file:  # NumPy leaves a path open when the archive is damaged
        try:
            arrays = np.load(file, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise ValueError("it is no archive")
            return {name: arrays[name] for name in names if name in arrays}
        except _DAMAGE as error:
            raise DatasetError(
                f"{path} cannot be read as a .npz archive of arrays ({error}). Make it anew, by numpy.savez."
            ) from error


def dataset_of(arrays: dict[str, NDArray[Any]], path: Path, name: str, scaling: str) -> Dataset:
    """The arrays as a data set, if they fit together."""
    X = features_of(arrays, path)
    return Dataset(
        name,
        X,
        labels_of(arrays, path, len(X)),
        scaling,
        is_train=split_of(arrays, path, len(X)),
        keys=names_of(arrays, path, len(X)),
    )


def features_of(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    """The features: bytes as they are, others as finite float32."""
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
            raise DatasetError(
                f"'X' in {path} must be numbers of shape (n_items, n_features), neither 0. "
                f"Got {X.dtype} of shape {X.shape}."
            )
    else:
        X = _dequantised(arrays, path)
    if X.dtype == np.uint8:
        return X
    with np.errstate(over="ignore"):
        X = X.astype(np.float32, copy=False)
    if not np.isfinite(X).all():
        row = int(np.argmin(np.isfinite(X).all(axis=1)))
        raise DatasetError(f"The features in {path} must be finite in float32. Those of row {row} are not.")
    return X


def _dequantised(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    if not {"Q", "low", "step"} <= arrays.keys():
        raise DatasetError(
            f"{path} must have the features as an array 'X', or as 'Q', 'low' and 'step'. It has {_listed(arrays)}."
        )
    Q, low, step = arrays["Q"], arrays["low"], arrays["step"]
    if Q.ndim != 2 or 0 in Q.shape or Q.dtype != np.uint8:
        raise DatasetError(
            f"'Q' in {path} must be uint8 of shape (n_items, n_features), neither 0. "
            f"Got {Q.dtype} of shape {Q.shape}."
        )
    for name, array in (("low", low), ("step", step)):
        if array.shape != Q.shape[1:] or array.dtype.kind != "f":
            raise DatasetError(
                f"{name!r} in {path} must be a number for each of the {Q.shape[1]} features. "
                f"Got {array.dtype} of shape {array.shape}."
            )
    X = Q.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found afterwards
        X *= step.astype(np.float32)
        X += low.astype(np.float32)
    return X


def labels_of(arrays: dict[str, NDArray[Any]], path: Path, n_items: int) -> NDArray[Any]:
    """The labels: strings, or whole numbers as int64."""
    if "y" not in arrays:
        raise DatasetError(f"{path} must have the labels as an array 'y'. It has {_listed(arrays)}.")
    y = arrays["y"]
    if y.shape != (n_items,) or y.dtype.kind not in "iuU":
        raise _wrong(path, "y", "whole numbers or strings", n_items, y)
    return y if y.dtype.kind == "U" else y.astype(np.int64)


def split_of(arrays: dict[str, NDArray[Any]], path: Path, n_items: int) -> NDArray[np.bool_] | None:
    """The official split, if the archive has it."""
    split = arrays.get("is_train")
    if split is not None and (split.shape != (n_items,) or split.dtype.kind != "b"):
        raise _wrong(path, "is_train", "true or false", n_items, split)
    return split


def names_of(arrays: dict[str, NDArray[Any]], path: Path, n_items: int) -> NDArray[np.str_] | None:
    """The items' names, if the archive has them."""
    found = next((name for name in _NAMES if name in arrays), None)
    if found is None:
        return None
    names = arrays[found]
    if names.shape != (n_items,) or names.dtype.kind not in "iuU":
        raise _wrong(path, found, "strings or whole numbers", n_items, names)
    return names.astype(np.str_)


def _wrong(path: Path, name: str, what: str, n: int, got: NDArray[Any]) -> DatasetError:
    return DatasetError(
        f"{name!r} in {path} must be {what}, one for each of the {n:,} items. Got {got.dtype} of shape {got.shape}."
    )


def _listed(arrays: dict[str, NDArray[Any]]) -> str:
    return ", ".join(map(repr, arrays)) or "no array of a known name"
