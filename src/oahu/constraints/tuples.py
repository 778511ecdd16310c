"""Constraints as they reach a learner: checked, and handed out in blocks of bounded size.

A tuple constraint is t items: a pair has two, a triplet three. It comes in two shapes, as values ``(n, t, d)`` or
as indices ``(n, t)`` into a table of features ``(n_items, d)``. A table that is an array is never copied: it may be
a memory map larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from oahu.arrays import as_array, not_finite
from oahu.exceptions import InvalidInputError

__all__ = ["Tuples"]

_BLOCK: Final = 128  # tuples handed out at a time: at d = 784, 1.2 MB of float32 triplets
_NAMES: Final = {2: ("first item", "second item"), 3: ("anchor", "positive", "negative")}
_NOUNS: Final = {2: "pair", 3: "triplet"}


@dataclass(frozen=True, eq=False)
class Tuples:
    """n checked constraints of t items each.

    Attributes
    ----------
    table : ndarray of shape (n_items, n_features)
        The features. Not a copy.
    indices : ndarray of shape (n, t)
        Which rows of the table a constraint is about.
    by_value : bool
        Whether the constraints came as values, so that row ``t * i + k`` is item k of constraint i.

    Examples
    --------
    >>> table = np.arange(8.0).reshape(4, 2)
    >>> triplets = Tuples.check([[0, 1, 3], [2, 3, 0]], size=3, preprocessor=table)
    >>> len(triplets), triplets.n_features
    (2, 2)
    """

    table: NDArray[Any]
    indices: NDArray[np.intp]
    by_value: bool

    @classmethod
    def check(
        cls,
        data: ArrayLike,
        *,
        size: int,
        preprocessor: ArrayLike | None = None,
        n_features: int | None = None,
        owner: str = "the learner",
    ) -> Tuples:
        """Make constraints of ``size`` items from values, or from indices into ``preprocessor``.

        Shapes, types and indices are checked here; whether the values are finite, by `check_finite` when they are
        walked. ``owner`` is who expects ``n_features``.
        """
        noun = _NOUNS[size]
        array = as_array(data, f"{noun}s")
        if array.ndim == 3:
            tuples = cls._from_values(array, size)
        elif array.ndim == 2 and preprocessor is not None:
            tuples = cls._from_indices(array, size, _as_table(preprocessor))
        elif array.ndim == 2:
            raise InvalidInputError(
                f"{noun.capitalize()}s of shape {array.shape} are indices into a table of features, and "
                f"there is none. Give the table as preprocessor=, or give values of shape "
                f"(n, {size}, n_features)."
            )
        else:
            raise InvalidInputError(
                f"{noun.capitalize()}s must have shape (n, {size}, n_features), or (n, {size}) with "
                f"preprocessor=. Got an array of {array.ndim} dimension(s), shape {array.shape}, instead."
            )
        if n_features is not None and tuples.n_features != n_features:
            raise InvalidInputError(
                f"X has {tuples.n_features} features, but {owner} is expecting {n_features} features as input."
            )
        return tuples

    @classmethod
    def _from_values(cls, values: NDArray[Any], size: int) -> Tuples:
        noun = _NOUNS[size]
        n, given, d = values.shape
        if given != size:
            raise InvalidInputError(
                f"A {noun} has {size} items: the shape must be (n, {size}, n_features). Got {values.shape} instead."
            )
        _check_not_empty(n, noun, values.shape)
        if d == 0:
            raise InvalidInputError(
                f"Found array with 0 feature(s) (shape={values.shape}) while a minimum of 1 is required."
            )
        indices = np.arange(n * size, dtype=np.intp).reshape(n, size)
        return cls(values.reshape(n * size, d), indices, by_value=True)

    @classmethod
    def _from_indices(cls, indices: NDArray[Any], size: int, table: NDArray[Any]) -> Tuples:
        noun = _NOUNS[size]
        if indices.dtype.kind not in "iu":
            raise InvalidInputError(
                f"Indices into preprocessor must be integers. Got {indices.dtype} instead; "
                f"values would have shape (n, {size}, n_features)."
            )
        if indices.shape[1] != size:
            raise InvalidInputError(
                f"A {noun} has {size} items: indices must have shape (n, {size}). Got {indices.shape} instead."
            )
        _check_not_empty(len(indices), noun, indices.shape)
        wrong = (indices < 0) | (indices >= len(table))
        if wrong.any():
            row, item = np.argwhere(wrong)[0]
            raise InvalidInputError(
                f"The {_NAMES[size][item]} of {noun} {row} is row {indices[row, item]} of preprocessor, which "
                f"has rows 0 to {len(table) - 1}."
            )
        return cls(table, indices.astype(np.intp, copy=False), by_value=False)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def size(self) -> int:
        return int(self.indices.shape[1])

    @property
    def n_features(self) -> int:
        return int(self.table.shape[1])

    def blocks(self, dtype: DTypeLike) -> Iterator[tuple[int, NDArray[Any]]]:
        """Walk the constraints in order: (index of the first, values of shape (m, t, n_features)).

        The values may be a view of what was given: they are for reading. Whether they are finite is for the reader
        to see, with `check_finite` or on the way.
        """
        for start in range(0, len(self), _BLOCK):
            indices = self.indices[start : start + _BLOCK]
            rows = np.require(self._rows(indices.ravel(), dtype), requirements=["C", "W"])
            yield start, rows.reshape(*indices.shape, self.n_features)

    def check_finite(self, start: int, block: NDArray[Any]) -> None:
        """Refuse a block with an item that is NaN or infinite, or became so in the block's type."""
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                return  # a sum with NaN or infinity in it is not finite; one that overflows is looked at
        wrong = np.argwhere(~np.isfinite(block))
        if len(wrong):
            where, item, feature = (int(i) for i in wrong[0])
            row = int(self.indices[start + where, item])
            raise InvalidInputError(
                f"Input contains {not_finite(self.table[row, feature], block.dtype)}: {self.place(row)} at feature "
                f"{feature}. Every value must be a finite number."
            )

    def _rows(self, indices: NDArray[np.intp], dtype: DTypeLike) -> NDArray[Any]:
        """Rows of the table as ``dtype``; may be a view of it."""
        chosen = self.table[indices[0] : indices[-1] + 1] if self.by_value else self.table[indices]
        with np.errstate(over="ignore", invalid="ignore"):
            return chosen.astype(dtype, copy=False)

    def place(self, row: int) -> str:
        """In words, where the table's ``row`` is first used."""
        where, item = (int(i[0]) for i in np.nonzero(self.indices == row))
        source = "" if self.by_value else f", row {row} of preprocessor,"
        return f"the {_NAMES[self.size][item]} of {_NOUNS[self.size]} {where}{source}"


def _as_table(preprocessor: ArrayLike) -> NDArray[Any]:
    table = as_array(preprocessor, "features of preprocessor")
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInputError(
            f"The preprocessor must be a table of shape (n_items, n_features), neither 0. "
            f"Got shape {table.shape} instead."
        )
    return table


def _check_not_empty(n: int, noun: str, shape: tuple[int, ...]) -> None:
    if n == 0:
        raise InvalidInputError(f"There are no {noun}s: the shape is {shape}. At least one is needed.")
