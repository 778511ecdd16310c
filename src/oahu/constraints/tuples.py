"""Constraints as they reach a learner: checked, and handed out in blocks of bounded size.

A pair has two items, a triplet three. Both come in two shapes: as values ``(n, t, d)``, or as indices ``(n, t)``
into a table of features ``(n_items, d)``. A table that is an array is never copied: it may be a memory map larger
than memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from oahu.arrays import as_array, as_table, describe_non_finite
from oahu.constraints.pair_joiner import PairJoiner, order_triplet
from oahu.exceptions import InvalidInputError
from oahu.messages import shorten

__all__ = ["Pairs", "Triplets", "Tuples"]

_BLOCK: Final = 128  # tuples handed out at a time: at d = 784, 1.2 MB of float32 triplets


class Tuples:
    """n checked constraints of `size` items each: what `Pairs` and `Triplets` share.

    Attributes
    ----------
    table : ndarray, or scipy.sparse CSR matrix, of shape (n_items, n_features)
        The features. Not a copy.
    indices : ndarray of shape (n, size)
        Which rows of the table a constraint is about.
    by_value : bool
        Whether the constraints came as values, so that the table is theirs alone.
    """

    size: ClassVar[int]
    noun: ClassVar[str]
    names: ClassVar[tuple[str, ...]]

    table: Any
    indices: NDArray[np.intp]
    by_value: bool

    def __init__(
        self,
        data: ArrayLike,
        *,
        preprocessor: Any = None,
        n_features: int | None = None,
        owner: str = "the learner",
        accept_sparse: bool = True,
    ) -> None:
        """Check shapes, types and indices; whether the values are finite, `check_finite` sees when they are walked.

        ``owner`` is who expects ``n_features``.
        """
        array = as_array(data, f"{self.noun}s")
        if array.ndim == 3:
            self._take_values(array)
        elif array.ndim == 2 and preprocessor is not None:
            self._take_indices(array, as_table(preprocessor, "preprocessor", accept_sparse))
        elif array.ndim == 2:
            raise InvalidInputError(
                f"{self.noun.capitalize()}s of shape {array.shape} are indices into a table of features, and "
                f"there is none. Give the table as preprocessor=, or give values of shape "
                f"(n, {self.size}, n_features)."
            )
        else:
            raise InvalidInputError(
                f"{self.noun.capitalize()}s must have shape (n, {self.size}, n_features), or (n, {self.size}) with "
                f"preprocessor=. Got an array of {array.ndim} dimension(s), shape {array.shape}, instead."
            )
        self.check_features(n_features, owner)

    @classmethod
    def _of(cls, table: Any, indices: NDArray[np.intp], by_value: bool) -> Self:
        """Constraints that are known to be right."""
        tuples = cls.__new__(cls)
        tuples.table, tuples.indices, tuples.by_value = table, indices, by_value
        return tuples

    def _take_values(self, values: NDArray[Any]) -> None:
        n, given, d = values.shape
        if given != self.size:
            raise InvalidInputError(
                f"A {self.noun} has {self.size} items: the shape must be (n, {self.size}, n_features). "
                f"Got {values.shape} instead.{self._hint(given)}"
            )
        self._check_not_empty(values.shape)
        if d == 0:
            raise InvalidInputError(
                f"Found array with 0 feature(s) (shape={values.shape}) while a minimum of 1 is required."
            )
        self.table, self.by_value = values.reshape(n * given, d), True
        self.indices = np.arange(n * given, dtype=np.intp).reshape(n, given)

    def _take_indices(self, indices: NDArray[Any], table: Any) -> None:
        if indices.dtype.kind not in "iu":
            raise InvalidInputError(
                f"Indices into preprocessor must be integers. Got {indices.dtype} instead; "
                f"values would have shape (n, {self.size}, n_features)."
            )
        if indices.shape[1] != self.size:
            raise InvalidInputError(
                f"A {self.noun} has {self.size} items: indices must have shape (n, {self.size}). "
                f"Got {indices.shape} instead.{self._hint(indices.shape[1])}"
            )
        self._check_not_empty(indices.shape)
        wrong = (indices < 0) | (indices >= table.shape[0])
        if wrong.any():
            row, item = np.argwhere(wrong)[0]
            raise InvalidInputError(
                f"The {self.names[item]} of {self.noun} {row} is row {indices[row, item]} of preprocessor, which "
                f"has rows 0 to {table.shape[0] - 1}."
            )
        self.table, self.indices, self.by_value = table, indices.astype(np.intp, copy=False), False

    def _hint(self, given: int) -> str:
        return ""

    def _check_not_empty(self, shape: tuple[int, ...]) -> None:
        if shape[0] == 0:
            raise InvalidInputError(f"There are no {self.noun}s: the shape is {shape}. At least one is needed.")

    def check_features(self, n_features: int | None, owner: str) -> None:
        """Refuse another number of features than ``owner`` expects, if it expects one."""
        if n_features is not None and self.n_features != n_features:
            raise InvalidInputError(
                f"X has {self.n_features} features, but {owner} is expecting {n_features} features as input."
            )

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Self:
        """Some of the constraints, over the same table."""
        indices = self.indices[rows]
        if indices.ndim != 2:
            raise InvalidInputError(f"{type(self).__name__} are cut by a slice, a mask or an array of rows.")
        self._check_not_empty(indices.shape)
        return self._of(self.table, indices, self.by_value)

    def __repr__(self) -> str:
        kind = "values" if self.by_value else f"rows of a table of {self.table.shape[0]:,}"
        return f"<{len(self):,} {self.noun}s of {self.n_features:,} features, {kind}>"

    @property
    def n_features(self) -> int:
        return int(self.table.shape[1])

    @property
    def is_sparse(self) -> bool:
        return hasattr(self.table, "tocsr")

    def values(self) -> NDArray[Any]:
        """The items themselves, (n, size, n_features): a copy, and all of them at once."""
        rows = self.table[self.indices.ravel()]
        dense: NDArray[Any] = rows.toarray() if self.is_sparse else rows
        return dense.reshape(*self.indices.shape, self.n_features)

    def blocks(self, dtype: DTypeLike) -> Iterator[tuple[int, NDArray[Any]]]:
        """Walk the constraints in order: (index of the first, values of shape (m, size, n_features)).

        The values may be a view of what was given: they are for reading. Whether they are finite is for the reader
        to see, with `check_finite` or on the way.
        """
        for start in range(0, len(self), _BLOCK):
            indices = self.indices[start : start + _BLOCK]
            rows = np.require(self._rows(indices.ravel(), dtype), requirements=["C", "W"])
            yield start, rows.reshape(*indices.shape, self.n_features)

    def sparse_blocks(self, dtype: DTypeLike) -> Iterator[tuple[int, Any]]:
        """Walk constraints over a sparse table: (index of the first, CSR matrix of m * size rows)."""
        for start in range(0, len(self), _BLOCK):
            rows = self.table[self.indices[start : start + _BLOCK].ravel()]
            with np.errstate(over="ignore", invalid="ignore"):
                rows = rows.astype(dtype)
            rows.sum_duplicates()
            yield start, rows

    def check_finite(self, start: int, block: Any) -> None:
        """Refuse a block with an item that is NaN or infinite, or became so in the block's type."""
        numbers = block.data if self.is_sparse else block
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(numbers.sum()):
                return  # a sum with NaN or infinity in it is not finite; one that overflows is looked at
        wrong = np.argwhere(~np.isfinite(block.toarray() if self.is_sparse else block.reshape(-1, block.shape[-1])))
        if len(wrong):
            place, feature = (int(i) for i in wrong[0])
            row = int(self.indices[start:].flat[place])
            problem = describe_non_finite(self.table[row, feature], block.dtype)
            raise InvalidInputError(
                f"Input contains {problem}: {self.describe_item(row)} at feature {feature}. Every value must be a "
                "finite number."
            )

    def _rows(self, indices: NDArray[np.intp], dtype: DTypeLike) -> NDArray[Any]:
        """Rows of the table as ``dtype``; may be a view of it."""
        in_line = self.by_value and bool((np.diff(indices) == 1).all())
        chosen = self.table[indices[0] : indices[-1] + 1] if in_line else self.table[indices]
        with np.errstate(over="ignore", invalid="ignore"):
            array: NDArray[Any] = chosen.astype(dtype, copy=False)
        return array

    def describe_item(self, row: int) -> str:
        """In words, where the table's ``row`` is first used."""
        where, item = (int(i[0]) for i in np.nonzero(self.indices == row))
        source = "" if self.by_value else f", row {row} of preprocessor,"
        return f"the {self.names[item]} of {self.noun} {where}{source}"

    def origin(self, position: int) -> tuple[str, int]:
        """What the constraint at ``position`` was when it was given, and its row there."""
        return self.noun, position


class Triplets(Tuples):
    """n triplets: an anchor is like its positive, and unlike its negative.

    Parameters
    ----------
    data : array-like of shape (n, 3, n_features), or (n, 3) with ``preprocessor``
        Anchor, positive and negative: their values, or their rows in the preprocessor's table.
    preprocessor : array-like of shape (n_items, n_features), optional
        The table that indices point into. An array or a memory map is not copied.

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
            " These look like pairs: learners of pairs take them, and Pairs(...).triplets() joins a similar and a "
            "dissimilar pair that share an item."
        )

    def pairs(self) -> Pairs:
        """Each triplet's similar pair and then its dissimilar one: 2 n pairs over the same table."""
        indices = self.indices[:, [0, 1, 0, 2]].reshape(-1, 2)
        pairs = Pairs._of(self.table, indices, self.by_value)
        pairs.same = np.tile([True, False], len(self))
        pairs._triplets = self
        return pairs


class Pairs(Tuples):
    """n pairs of items that are alike, or are not.

    Parameters
    ----------
    data : array-like of shape (n, 2, n_features), or (n, 2) with ``preprocessor``
        The two items: their values, or their rows in the preprocessor's table.
    y : array-like of shape (n,)
        +1 or True where the two are alike, -1 or False where they are not.
    preprocessor : array-like of shape (n_items, n_features), optional
        The table that indices point into. An array or a memory map is not copied.

    Attributes
    ----------
    same : ndarray of bool, of shape (n,)
        Which pairs are alike.

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
    _triplets: Triplets | None = None  # what they were split from: errors speak of what was given

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
        """+1 for a pair that is alike, -1 for one that is not."""
        return np.where(self.same, 1, -1)

    def triplets(self) -> Triplets:
        """Join a similar and a dissimilar pair that share an item, each pair at most once.

        Pairs are taken in order: each is joined with the latest pair of the other kind before it that shares an
        item and was not joined yet. The shared item is the anchor. A triplet's two pairs give the triplet back.
        """
        names, joiner = self._names_of_items(), PairJoiner()
        rows = self.indices.tolist()
        triplets = []
        for pair, same in zip(rows, self.same.tolist(), strict=True):
            found = joiner.join(names(pair[0]), names(pair[1]), same)
            if found is not None:
                similar, dissimilar = (pair, rows[found]) if same else (rows[found], pair)
                both = [*similar, *dissimilar]
                order = order_triplet(tuple(map(names, similar)), tuple(map(names, dissimilar)))
                triplets.append([both[k] for k in order])
        if not triplets:
            raise InvalidInputError(
                f"No two of these {len(self)} pairs can be joined into a triplet: a similar and a dissimilar pair "
                "must share an item."
            )
        return Triplets._of(self.table, np.array(triplets, np.intp), self.by_value)

    def _names_of_items(self) -> Any:
        """What tells a row's item: its number, or for values the values."""
        if not self.by_value:
            return lambda row: int(row)
        table = np.ascontiguousarray(self.table)
        return lambda row: table[row].tobytes()

    def describe_item(self, row: int) -> str:
        return super().describe_item(row) if self._triplets is None else self._triplets.describe_item(row)

    def origin(self, position: int) -> tuple[str, int]:
        return super().origin(position) if self._triplets is None else self._triplets.origin(position // 2)


def _as_same(y: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Which pairs are alike, from +1 and -1 or from truth values."""
    try:
        labels = np.asarray(y)
        if labels.dtype.kind == "O":
            labels = np.array(labels.tolist())  # Python's numbers, perhaps
    except ValueError as error:
        raise InvalidInputError(f"y is ragged: it does not form one array ({error}).") from error
    if labels.shape != (n,):
        raise InvalidInputError(
            f"y must say for each of the {n} pairs whether it is alike: shape ({n},). Got {labels.shape} instead."
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
            f"y must be +1 for a pair that is alike and -1 for one that is not (or True and False). "
            f"Got {shorten(np.asarray(y).tolist()[row])} for pair {row} instead."
        )
    return same
