"""Data sets by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from oahu.evaluation.datasets import (
    cars196,
    cifar10,
    cifar100,
    digits,
    emnist,
    fashion_mnist,
    lfw,
    own,
)
from oahu.evaluation.datasets.cache import Progress, data_home
from oahu.evaluation.datasets.dataset import Dataset
from oahu.evaluation.datasets.source import Source
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
        digits.SOURCE,
        own.SOURCE,
    )
}

DATASETS: Final[tuple[str, ...]] = tuple(_SOURCES)
"""The names of all data sets; the last one, ``any``, stands for a user's own file."""


def source(name: str) -> Source:
    """What is known of a data set.

    Examples
    --------
    >>> source("digits").n_items
    1797
    """
    try:
        return _SOURCES[name]
    except (KeyError, TypeError):
        raise InvalidInputError(
            f"There is no data set {shorten(name)}. Those known are {', '.join(DATASETS[:-1])}; your own is the "
            f"path of a file ({', '.join(own.KINDS)})."
        ) from None


def load(
    name: str | os.PathLike[str],
    home: str | os.PathLike[str] | None = None,
    *,
    labels: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    name : str or path
        One of DATASETS, or the path of your own file: .npz, .npy, .csv, .tsv or .parquet.
    home : path, optional
        The folder of data sets; by default ``data_home()``.
    labels : path, optional
        Labels of your own file, if they are not in it: .npy, .txt or .csv.

    Raises
    ------
    DatasetError
        It is not here, or a file of it is damaged.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.n_classes, digits.image_shape
    ((1797, 64), 10, (8, 8))
    """
    if isinstance(name, str) and name in _SOURCES:
        if labels is not None:
            raise InvalidInputError(f"The data set {name} has its labels: 'labels' is for a file of yours.")
        return source(name).load(_folder(home))
    path = Path(name)
    if path.suffix.lower() in own.KINDS or path.is_file():
        return own.read_own(path, labels)
    return source(str(name)).load(_folder(home))


def fetch(name: str, home: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> None:
    """Download the files of a data set that are not here.

    Parameters
    ----------
    name : str
        One of DATASETS.
    home : path, optional
        The folder of data sets; by default ``data_home()``.
    progress : callable, optional
        Called with the name of a file, how many bytes of it are here, and how many there are, or None.

    Raises
    ------
    DatasetError
        A file cannot be had; the message says which file to put where.
    """
    source(name).fetch(_folder(home), progress)


def _folder(home: str | os.PathLike[str] | None) -> Path:
    return data_home() if home is None else Path(home)
