"""The class `Dataset`. Every reader returns an object of this class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

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
    images : ndarray of uint8, of shape (n_items, height, width, 3), optional
        Pictures of the items, if the features are not pixels and the pictures fit in memory.
    labelings : mapping of str to ndarray of shape (n_items,)
        Labels of the items by the name of the labeling, if items can be alike in several ways. One of them is
        ``y``. `with_labels` returns the data set with another labeling.
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
    images: NDArray[np.uint8] | None = None
    labelings: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise InvalidInputError(
                f"The data set {self.name!r} must have 'X' of shape (n_items, n_features) and 'y' of shape "
                f"(n_items,). Got 'X' of shape {self.X.shape} and 'y' of shape {self.y.shape} instead."
            )
        for name, labels in self.labelings.items():
            if labels.shape != self.y.shape:
                raise InvalidInputError(
                    f"The labeling {name!r} of the data set {self.name!r} must have shape {self.y.shape}, one "
                    f"label per item. Got shape {labels.shape} instead."
                )

    def __len__(self) -> int:
        return len(self.y)

    def with_labels(self, name: str) -> Self:
        """Return the data set with the labeling ``name`` as its labels ``y``, under the name "data set:labeling".

        Examples
        --------
        >>> data = Dataset("pets", np.eye(2), np.array(["cat", "dog"]), labelings={"age": np.array([3, 4])})
        >>> data.with_labels("age").name, data.with_labels("age").y.tolist()
        ('pets:age', [3, 4])
        """
        if name not in self.labelings:
            known = (
                f"Its labelings are {', '.join(self.labelings)}." if self.labelings else "It has only one labeling."
            )
            raise InvalidInputError(f"The data set {self.name!r} has no labeling {shorten(name)}. {known}")
        return replace(self, name=f"{self.name}:{name}", y=self.labelings[name])

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
