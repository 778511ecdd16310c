"""The class `Dataset`. Every reader returns an object of this class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError

__all__ = ["Dataset", "Fold", "Views"]


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold of labelled pairs.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Row numbers of the two items of each pair.
    same : ndarray of shape (n_pairs,)
        True for similar pairs, False for dissimilar pairs.
    n_missing : int
        Number of official pairs that are not in ``pairs``, because an item has no features.
    """

    pairs: NDArray[np.intp]
    same: NDArray[np.bool_]
    n_missing: int = 0

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class Views:
    """The two sets of pairs of LFW's verification protocol. LFW calls these sets View 1 and View 2.

    Attributes
    ----------
    development : tuple of Fold
        View 1, used for development: one fold of training pairs and one fold of test pairs.
    folds : tuple of Fold
        View 2, used for the results: ten folds. No person occurs in two folds.
    """

    development: tuple[Fold, Fold]
    folds: tuple[Fold, ...]

    @property
    def pairs(self) -> NDArray[np.intp]:
        """All pairs of both views, of shape (n_pairs, 2). These pairs must not be used as constraints."""
        return np.concatenate([fold.pairs for fold in (*self.development, *self.folds)])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data set of labelled items.

    Attributes
    ----------
    name : str
        Name of the data set.
    X : ndarray of shape (n_items, n_features)
        Features of the items: pixels as uint8, other features as float32.
    y : ndarray of shape (n_items,)
        Labels of the items: integers or strings.
    scaling : str
        Default input scaling, one of `oahu.evaluation.protocols.SCALINGS`.
    is_train : ndarray of shape (n_items,), optional
        Official split: True for training items.
    image_shape : tuple of int, optional
        Shape of the images, if the features are pixels.
    keys : ndarray of shape (n_items,), optional
        Keys of the items.
    views : Views, optional
        Official pairs for verification.
    image_folder : Path, optional
        Folder with an image file for each item, if the features are not pixels. The keys are the file names.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    scaling: str = "none"
    is_train: NDArray[np.bool_] | None = None
    image_shape: tuple[int, ...] | None = None
    keys: NDArray[np.str_] | None = None
    views: Views | None = None
    image_folder: Path | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise InvalidInputError(
                f"The data set {self.name!r} must have 'X' of shape (n_items, n_features) and 'y' of shape "
                f"(n_items,). Got 'X' of shape {self.X.shape} and 'y' of shape {self.y.shape} instead."
            )

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def digest(self) -> str:
        """Hash of the features, labels and other contents."""
        parts = [self.X, self.y, self.is_train, self.keys]
        if self.views is not None:
            parts += [self.views.pairs, *(fold.same for fold in (*self.views.development, *self.views.folds))]
        return str(joblib.hash(parts))[:16]

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y))
