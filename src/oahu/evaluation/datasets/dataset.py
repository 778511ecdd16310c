"""`Dataset`: the class that every reader returns."""

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
        Row numbers in the data set.
    same : ndarray of shape (n_pairs,)
        True for similar pairs.
    n_missing : int
        Number of official pairs that are skipped because an item has no features.
    """

    pairs: NDArray[np.intp]
    same: NDArray[np.bool_]
    n_missing: int = 0

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class Views:
    """The pairs of a verification protocol such as LFW: View 1 for development, View 2 for the result.

    Attributes
    ----------
    development : tuple of Fold
        View 1: training pairs and test pairs.
    folds : tuple of Fold
        View 2: ten folds; no person occurs in two of them.
    """

    development: tuple[Fold, Fold]
    folds: tuple[Fold, ...]

    @property
    def pairs(self) -> NDArray[np.intp]:
        """All pairs of both views, of shape (n, 2): no constraint may contain them."""
        return np.concatenate([fold.pairs for fold in (*self.development, *self.folds)])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Items with their labels and further information.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n_items, n_features)
        As stored in the files: uint8 for pixels, float32 for features.
    y : ndarray of shape (n_items,)
        Labels: integers or strings.
    scaling : str
        The default input scaling: see `oahu.evaluation.protocols.SCALINGS`.
    is_train : ndarray of shape (n_items,), optional
        The official split.
    image_shape : tuple of int, optional
        The shape of an item as an image.
    keys : ndarray of shape (n_items,), optional
        The items' keys.
    views : Views, optional
        The official pairs to verify.
    image_folder : Path, optional
        Folder of image files named by the items' keys, for features that are not pixels.
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
                f"The data set {self.name!r} must have X of shape (n_items, n_features) and one label for each "
                f"item. Got X of shape {self.X.shape} and y of shape {self.y.shape} instead."
            )

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def digest(self) -> str:
        """A digest of the contents."""
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
