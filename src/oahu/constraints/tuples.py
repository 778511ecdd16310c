"""Validated arrays of constraints, which can be read in blocks of limited size.

A pair has t = 2 items, a triplet has t = 3 items. n constraints are given as feature values of shape ``(n, t, d)``,
or as row numbers of shape ``(n, t)``. Row numbers refer to a feature table of shape ``(n_items, d)``. A feature
table that is an array is not copied, so it may be a memory map that is larger than memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from oahu.arrays import as_array, as_table
from oahu.constraints.batch import (
    BLOCK_SIZE,
    ConstraintBatch,
    first_non_finite,
    non_finite_error,
    row_error,
    rows_outside,
)
from oahu.constraints.pair_joiner import PairJoiner, order_triplet
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["Pairs", "Triplets", "Tuples"]


class Tuples(ConstraintBatch):
    """Base class of `Pairs` and `Triplets`: n validated constraints with `size` items each.

    Attributes
    ----------
    indices : ndarray of shape (n, size)
        The row number of each item in the table.
    """

    size: ClassVar[int]
    names: ClassVar[tuple[str, ...]]

    indices: NDArray[np.intp]

    def __init__(
        self,
        data: ArrayLike,
        *,
        preprocessor: Any = None,
        n_features: int | None = None,
        owner: str = "the learner",
        accept_sparse: bool = True,
    ) -> None:
        """Validate shapes, types and indices. `check_finite` validates the values, block by block.

        Error messages use ``owner`` as the name of the object that expects ``n_features`` features.
        """
        array = as_array(data, f"{self.noun}s")
        if array.ndim == 3:
            self._set_values(array)
        elif array.ndim == 2 and preprocessor is not None:
            self._set_indices(array, as_table(preprocessor, "preprocessor", accept_sparse))
        elif array.ndim == 2:
            raise InvalidInputError(
                f"{self.noun.capitalize()}s of shape {array.shape} are row numbers of a feature table, but no "
                f"feature table was given. Pass the table as preprocessor=, or pass "
                f"features of shape (n, {self.size}, n_features)."
            )
        else:
            raise InvalidInputError(
                f"{self.noun.capitalize()}s must have shape (n, {self.size}, n_features), or (n, {self.size}) with "
                f"preprocessor=. Got shape {array.shape} instead."
            )
        self.check_features(n_features, owner)

    @classmethod
    def _trusted(cls, table: Any, indices: NDArray[np.intp], by_value: bool) -> Self:
        """Return constraints without validating them."""
        tuples = cls.__new__(cls)
        tuples.table, tuples.indices, tuples.by_value = table, indices, by_value
        return tuples

    def _set_values(self, values: NDArray[Any]) -> None:
        n, given, d = values.shape
        if given != self.size:
            raise InvalidInputError(
                f"A {self.noun} has {self.size} items: the shape must be (n, {self.size}, n_features). "
                f"Got {values.shape} instead.{self._hint(given)}"
            )
        self._check_not_empty(values.shape)
        self._check_width(values.shape)
        self.table, self.by_value = values.reshape(n * given, d), True
        self.indices = np.arange(n * given, dtype=np.intp).reshape(n, given)

    def _set_indices(self, indices: NDArray[Any], table: Any) -> None:
        if indices.dtype.kind not in "iu":
            raise InvalidInputError(
                f"Row numbers of the preprocessor must be integers. Got {indices.dtype} instead. "
                f"To pass features instead of row numbers, use an array of shape (n, {self.size}, n_features)."
            )
        if indices.shape[1] != self.size:
            raise InvalidInputError(
                f"A {self.noun} has {self.size} items: row numbers must have shape (n, {self.size}). "
                f"Got {indices.shape} instead.{self._hint(indices.shape[1])}"
            )
        self._check_not_empty(indices.shape)
        wrong = rows_outside(indices, table)
        if wrong.any():
            row, item = np.argwhere(wrong)[0]
            raise row_error(f"{self.names[item]} of {self.noun} {row}", indices[row, item], table)
        self.table, self.indices, self.by_value = table, indices.astype(np.intp, copy=False), False

    def _hint(self, given: int) -> str:
        """Return advice for input with ``given`` items per constraint instead of ``size`` items."""
        return ""

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Self:
        """Return the selected constraints. They use the same table as all constraints."""
        indices = self.indices[rows]
        if indices.ndim != 2:
            raise InvalidInputError(
                f"{type(self).__name__} can be indexed by a slice, a mask or an array of row numbers."
            )
        self._check_not_empty(indices.shape)
        return self._trusted(self.table, indices, self.by_value)

    def values(self) -> NDArray[Any]:
        """Return a copy of the features of all items, of shape (n, size, n_features)."""
        rows = self.table[self.indices.ravel()]
        dense: NDArray[Any] = rows.toarray() if self.is_sparse else rows
        return dense.reshape(*self.indices.shape, self.n_features)

    def blocks(self, dtype: DTypeLike) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield blocks of m constraints, as tuples of two elements.

        The elements are the index of the block's first constraint and the values, of shape (m, size, n_features).

        The values may be a view of the input, so do not write to them. Use `check_finite` to check the values for
        NaN and infinity.
        """
        for start in range(0, len(self), BLOCK_SIZE):
            indices = self.indices[start : start + BLOCK_SIZE]
            rows = np.require(self._rows(indices.ravel(), dtype), requirements=["C", "W"])
            yield start, rows.reshape(*indices.shape, self.n_features)

    def sparse_blocks(self, dtype: DTypeLike) -> Iterator[tuple[int, Any]]:
        """Yield blocks of constraints of a sparse table, as tuples of two elements.

        The elements are the index of the block's first constraint and a CSR matrix with one row per item.
        """
        for start in range(0, len(self), BLOCK_SIZE):
            rows = self.table[self.indices[start : start + BLOCK_SIZE].ravel()]
            with np.errstate(over="ignore", invalid="ignore"):
                rows = rows.astype(dtype)
            rows.sum_duplicates()
            yield start, rows

    def check_finite(self, start: int, block: Any) -> None:
        """Raise `InvalidInputError` if a value of a block is not finite or overflows in the block's dtype.

        ``start`` is the index of the block's first constraint.
        """
        wrong = first_non_finite(block if self.is_sparse else block.reshape(-1, block.shape[-1]))
        if wrong is not None:
            position, feature = wrong
            row = int(self.indices[start:].flat[position])
            raise non_finite_error(self.table[row, feature], block.dtype, self.describe_item(row), feature)

    def _rows(self, indices: NDArray[np.intp], dtype: DTypeLike) -> NDArray[Any]:
        """Return rows of the table, converted to ``dtype``. The result is a view of the table if possible."""
        consecutive = self.by_value and bool((np.diff(indices) == 1).all())
        chosen = self.table[indices[0] : indices[-1] + 1] if consecutive else self.table[indices]
        with np.errstate(over="ignore", invalid="ignore"):
            array: NDArray[Any] = chosen.astype(dtype, copy=False)
        return array

    def describe_item(self, row: int) -> str:
        """Return a description of the first item of the constraints that has the given row number."""
        where, item = (int(i[0]) for i in np.nonzero(self.indices == row))
        source = "" if self.by_value else f", row {row} of preprocessor,"
        return f"the {self.names[item]} of {self.noun} {where}{source}"

    def origin(self, position: int) -> tuple[str, int]:
        """Return the place of a constraint in the user's input: a noun and a row number.

        The noun is "pair", "triplet" or "item". It is "item" if the constraint was formed from labelled items.
        """
        return self.noun, position


class Triplets(Tuples):
    """n triplets: the anchor is similar to the positive and dissimilar to the negative.

    Parameters
    ----------
    data : array-like of shape (n, 3, n_features), or (n, 3) with ``preprocessor``
        The anchor, positive and negative of each triplet, as features or as row numbers of the feature table.
    preprocessor : array-like of shape (n_items, n_features), optional
        The feature table. An array or a memory map is not copied.

    Examples
    --------
    >>> table = np.arange(8.0).reshape(4, 2)
    >>> triplets = Triplets([[0, 1, 3], [2, 3, 0]], preprocessor=table)
    >>> triplets
    <2 triplets of 2 features, rows of a table of 4>
    >>> triplets.pairs().indices.tolist(), triplets.pairs().same.tolist()
    ([[0, 1], [0, 3], [2, 3], [2, 0]], [True, False, True, False])
    """

    size = 3
    noun = "triplet"
    names = ("anchor", "positive", "negative")

    def _hint(self, given: int) -> str:
        if given != 2:
            return ""
        return (
            " These look like pairs: pair learners accept them, and Pairs(...).triplets() joins a similar and a "
            "dissimilar pair that share an item."
        )

    def pairs(self) -> Pairs:
        """Return the similar and the dissimilar pair of each triplet: 2 n pairs of the same feature table."""
        indices = self.indices[:, [0, 1, 0, 2]].reshape(-1, 2)
        pairs = Pairs._trusted(self.table, indices, self.by_value)
        pairs.same = np.tile([True, False], len(self))
        pairs._triplets = self
        return pairs


class Pairs(Tuples):
    """n pairs of items that are similar or dissimilar.

    Parameters
    ----------
    data : array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        The two items of each pair, as features or as row numbers of the feature table.
    y : array-like of shape (n,)
        +1 or True for a similar pair, -1 or False for a dissimilar pair.
    preprocessor : array-like of shape (n_items, n_features), optional
        The feature table. An array or a memory map is not copied.

    Attributes
    ----------
    same : ndarray of bool, of shape (n,)
        True for similar pairs (same class), False for dissimilar pairs.

    Examples
    --------
    >>> pairs = Pairs([[0, 1], [0, 2], [3, 2]], [1, -1, 1], preprocessor=np.eye(4))
    >>> pairs.triplets().indices.tolist()
    [[0, 1, 2]]
    """

    size = 2
    noun = "pair"
    names = ("first item", "second item")

    same: NDArray[np.bool_]
    _triplets: Triplets | None = None  # the triplets that these pairs come from, if any, for error messages

    def __init__(
        self,
        data: ArrayLike,
        y: ArrayLike,
        *,
        preprocessor: Any = None,
        n_features: int | None = None,
        owner: str = "the learner",
        accept_sparse: bool = True,
    ) -> None:
        super().__init__(
            data, preprocessor=preprocessor, n_features=n_features, owner=owner, accept_sparse=accept_sparse
        )
        self.same = _as_same(y, len(self))

    def __getitem__(self, rows: slice | NDArray[Any]) -> Self:
        chosen = super().__getitem__(rows)
        chosen.same = self.same[rows]
        return chosen

    @property
    def y(self) -> NDArray[np.int64]:
        """+1 for similar pairs, -1 for dissimilar pairs."""
        return np.where(self.same, 1, -1)

    def triplets(self) -> Triplets:
        """Return triplets. Each triplet joins a similar pair and a dissimilar pair that share an item.

        Each pair is joined at most once. Its partner is the latest earlier pair that has the other label, shares an
        item and was not joined yet. The shared item is the anchor. If a triplet was split into its two pairs,
        joining these two pairs restores the triplet.
        """
        identify, joiner = self._identifier(), PairJoiner()
        rows = self.indices.tolist()
        triplets = []
        for pair, same in zip(rows, self.same.tolist(), strict=True):
            found = joiner.join(identify(pair[0]), identify(pair[1]), same)
            if found is not None:
                similar, dissimilar = (pair, rows[found]) if same else (rows[found], pair)
                both = [*similar, *dissimilar]
                order = order_triplet(list(map(identify, similar)), list(map(identify, dissimilar)))
                triplets.append([both[k] for k in order])
        if not triplets:
            raise InvalidInputError(
                f"No two of these {len(self)} pairs can be joined into a triplet: a similar and a dissimilar pair "
                "must share an item."
            )
        return Triplets._trusted(self.table, np.array(triplets, np.intp), self.by_value)

    def _identifier(self) -> Callable[[int], Hashable]:
        """Return a function that maps a row number to a hashable identifier: the row number or the features."""
        if not self.by_value:
            return lambda row: int(row)
        table = np.ascontiguousarray(self.table)
        return lambda row: table[row].tobytes()

    def describe_item(self, row: int) -> str:
        return super().describe_item(row) if self._triplets is None else self._triplets.describe_item(row)

    def origin(self, position: int) -> tuple[str, int]:
        return super().origin(position) if self._triplets is None else self._triplets.origin(position // 2)


def _as_same(y: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return the labels of pairs as booleans. The labels may be booleans, or +1 and -1."""
    try:
        labels = np.asarray(y)
        if labels.dtype.kind == "O":
            labels = np.array(labels.tolist())  # the objects may be Python numbers
    except ValueError as error:
        raise InvalidInputError(f"y is ragged: it does not form one array ({error}).") from error
    if labels.shape != (n,):
        raise InvalidInputError(
            f"y must have one label for each of the {n} pairs: shape ({n},). Got {labels.shape} instead."
        )
    if labels.dtype.kind == "b":
        return labels.copy()
    numbers = labels
    if labels.dtype.kind not in "iuf":
        numbers = np.array([label if isinstance(label, int | float) else math.nan for label in labels.tolist()])
    same: NDArray[np.bool_] = np.asarray(numbers == 1)
    wrong = ~same & (numbers != -1)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InvalidInputError(
            f"y must be +1 or True for similar pairs, and -1 or False for dissimilar pairs. "
            f"Got {shorten(np.asarray(y).tolist()[row])} for pair {row} instead."
        )
    return same
