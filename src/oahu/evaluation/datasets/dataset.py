"""What a data set is, whatever files it came from."""

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
    """Pairs to verify.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Rows of the data set.
    same : ndarray of shape (n_pairs,)
        Whether each pair is alike.
    n_missing : int
        Pairs of the official list that are left out, as an item of theirs has no features.
    """

    pairs: NDArray[np.intp]
    same: NDArray[np.bool_]
    n_missing: int = 0

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class Views:
    """A protocol of verification, as LFW has it: View 1 to develop with, View 2 to report.

    Attributes
    ----------
    development : tuple of Fold
        View 1: its training pairs and its test pairs.
    folds : tuple of Fold
        View 2: ten folds, no person in two of them.
    """

    development: tuple[Fold, Fold]
    folds: tuple[Fold, ...]

    @property
    def pairs(self) -> NDArray[np.intp]:
        """Every pair of both views, (n, 2): what may not be learned from."""
        return np.concatenate([fold.pairs for fold in (*self.development, *self.folds)])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Items, their labels, and what is known about them.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n_items, n_features)
        As they are in the files: uint8 for pixels, float32 for features.
    y : ndarray of shape (n_items,)
        Labels: whole numbers or strings.
    scaling : str
        The input scaling that is used where none is chosen.
    is_train : ndarray of shape (n_items,), optional
        The official split.
    image_shape : tuple of int, optional
        The shape of an item as an image, upright.
    keys : ndarray of shape (n_items,), optional
        The items' names.
    views : Views, optional
        The official pairs to verify.
    pictures : Path, optional
        A folder of image files, each named by its item's key, for features that are no pixels.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    scaling: str = "range"
    is_train: NDArray[np.bool_] | None = None
    image_shape: tuple[int, ...] | None = None
    keys: NDArray[np.str_] | None = None
    views: Views | None = None
    pictures: Path | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise InvalidInputError(
                f"The data set {self.name!r} must have X of shape (n_items, n_features) and one label for each "
                f"item. Got X of shape {self.X.shape} and y of shape {self.y.shape}."
            )

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def digest(self) -> str:
        """Tells its contents from others of its name."""
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
