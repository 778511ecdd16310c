"""Registry of data sets: lookup, loading and download by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from oahu.evaluation.datasets import (
    cars196,
    cifar10,
    cifar100,
    clinc150,
    digits,
    emnist,
    fashion_mnist,
    hwu64,
    lfw,
    tiles,
    user_files,
)
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.downloads import DownloadProgress, data_home
from oahu.evaluation.datasets.source import DatasetSource
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["DATASETS", "fetch", "load", "source"]

_SOURCES: Final = {
    entry.name: entry
    for entry in (
        fashion_mnist.SOURCE,
        emnist.SOURCE,
        cifar10.SOURCE,
        lfw.SOURCE,
        lfw.SOFT_SOURCE,
        cars196.SOURCE,
        cifar100.SOURCE,
        clinc150.SOURCE,
        hwu64.SOURCE,
        digits.SOURCE,
        tiles.SOURCE,
        user_files.SOURCE,
    )
}

DATASETS: Final[tuple[str, ...]] = tuple(_SOURCES)
"""Names of all data sets. The last name is ``any``. It is not a data set, but the registry entry for user files."""


def source(name: str) -> DatasetSource:
    """Return the registry entry of a data set.

    Examples
    --------
    >>> source("digits").n_items
    1797
    """
    try:
        return _SOURCES[name]
    except (KeyError, TypeError):
        raise InvalidInputError(
            f"There is no data set {shorten(name)}. Use one of {', '.join(DATASETS[:-1])}, or the path of your own "
            f"file ({', '.join(user_files.FILE_TYPES)})."
        ) from None


def load(
    name: str | os.PathLike[str],
    home: str | os.PathLike[str] | None = None,
    *,
    labels: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Return a data set.

    Parameters
    ----------
    name : str or path
        Name of a data set, one of `DATASETS`, or path of your own file (.npz, .npy, .csv, .tsv or .parquet). If
        items can be alike in several ways, "name:labeling" chooses the labels, for example ``tiles:colour``.
    home : path, optional
        Data folder. By default, ``data_home()``.
    labels : path, optional
        Separate label file (.npy, .txt or .csv). Allowed only with your own file.

    Raises
    ------
    DatasetError
        If the data set is missing or one of its files is damaged.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.n_classes, digits.image_shape
    ((1797, 64), 10, (8, 8))
    """
    if isinstance(name, str) and name in _SOURCES:
        if labels is not None:
            raise InvalidInputError(
                f"The data set {name} has its own labels. Use the 'labels' parameter only with your own file."
            )
        return source(name).load(_folder(home))
    if isinstance(name, str) and name.partition(":")[0] in _SOURCES:
        return _load_labeling(name, home, labels)
    path = Path(name)
    if path.suffix.lower() in user_files.FILE_TYPES or path.is_file():
        return user_files.read_user_file(path, labels)
    return source(str(name)).load(_folder(home))


def fetch(name: str, home: str | os.PathLike[str] | None = None, progress: DownloadProgress | None = None) -> None:
    """Download the missing files of a data set.

    Parameters
    ----------
    name : str
        Name of a data set, one of `DATASETS`.
    home : path, optional
        Data folder. By default, ``data_home()``.
    progress : callable, optional
        Function that is called during the download, with the name of the file, the number of bytes received so
        far, and the total number of bytes (None if unknown).

    Raises
    ------
    DatasetError
        If a file cannot be downloaded. The error message contains the file name and the folder to copy the file
        to.
    """
    source(name).fetch(_folder(home), progress)


def _load_labeling(full_name: str, home: Any, labels: Any) -> Dataset:
    """Return a data set with one of its labelings as labels. The full name is "name:labeling"."""
    name, _, labeling = full_name.partition(":")
    known = source(name).labelings
    if labeling not in known:
        choice = f"Use {' or '.join(f'{name}:{each}' for each in known)}" if known else f"Use {name}"
        raise InvalidInputError(f"The data set {name} has no labeling {shorten(labeling)}. {choice}.")
    return load(name, home, labels=labels).with_labels(labeling)


def _folder(home: str | os.PathLike[str] | None) -> Path:
    return data_home() if home is None else Path(home)
