"""Validated batches of clicks, which can be read in blocks of limited size.

Clicks have different numbers of items. The items of all clicks are stored in flat arrays, without padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Self

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
from oahu.constraints.extended_table import ExtendedTable, extend_table
from oahu.constraints.single import Click, Pair, Triplet, check_click, check_same, describe_part
from oahu.constraints.tuples import Pairs, Triplets, Tuples
from oahu.exceptions import InvalidInputError, InvalidTypeError
from oahu.messages import shorten
from oahu.parameters import check_integer

__all__ = ["Clicks", "are_constraint_objects"]

_BLOCK_ITEMS: Final = 3 * BLOCK_SIZE  # as many items as in a block of triplets
_QUERY, _POSITIVE, _NEGATIVE, _SHOWN = 1, 1, -1, 0  # marks
_NOUNS: Final = ("click", "triplet", "pair")


class Clicks(ConstraintBatch):
    """n clicks: for each query, some items are similar and some are dissimilar.

    Learners that learn from pairs or triplets learn from `pairs` or `triplets`. Items that were shown and not
    marked are not part of these pairs and triplets. Learners other than `AnchoredOAHU` ignore weights.

    Parameters
    ----------
    clicks : iterable of Click
        The items of the clicks are row numbers of the feature table, or feature vectors. All clicks must have items
        of the same kind, but a query may be a feature vector although the items are row numbers. `Triplet` and
        `Pair` objects are also accepted. A triplet is a click with one positive and one negative. A similar pair is
        a click with one positive, and a dissimilar pair is a click with one negative.
    preprocessor : array-like of shape (n_items, n_features), optional
        The feature table. An array or a memory map is not copied.
    n_features : int, optional
        The expected number of features.
    owner : str
        Name of the object that expects ``n_features`` features, for error messages.

    Attributes
    ----------
    table : ndarray, or scipy.sparse CSR matrix, of shape (n_items, n_features)
        The feature table. If the clicks were given by feature vectors, the table contains these vectors.
    vectors : ndarray of shape (n_vectors, n_features)
        The query vectors that are not rows of the table.
    refs : ndarray of int64
        The items of all clicks. The items of a click are in the order query, positives, negatives, shown. A value
        v >= 0 is a row of ``table``. A value v < 0 is row -1 - v of ``vectors``.
    marks : ndarray of int8
        The mark of each item in ``refs``: 1 for queries and positives, -1 for negatives, 0 for shown items.
    offsets : ndarray of int64, of shape (n + 1,)
        The items of click i are ``refs[offsets[i]:offsets[i + 1]]``.
    weights : ndarray of float64, of shape (n,)
    by_value : bool
        Whether the clicks were given by feature vectors.

    Examples
    --------
    >>> table = np.arange(8.0).reshape(4, 2)
    >>> clicks = Clicks([Click(0, [1], [2, 3]), Click([5.0, 6.0], negatives=[0])], preprocessor=table)
    >>> clicks
    <2 clicks of 2 features, rows of a table of 4, 1 query vector>
    >>> clicks.refs.tolist(), clicks.marks.tolist(), clicks.offsets.tolist()
    ([0, 1, 2, 3, -1, 0], [1, 1, -1, -1, 1, -1], [0, 4, 6])
    >>> clicks.triplets().indices.tolist()
    [[0, 1, 2], [0, 1, 3]]
    """

    noun = "click"

    vectors: NDArray[Any]
    refs: NDArray[np.int64]
    marks: NDArray[np.int8]
    offsets: NDArray[np.int64]
    weights: NDArray[np.float64]
    _kinds: NDArray[np.int8]  # for error messages: the number of the noun of each click in _NOUNS

    def __init__(
        self,
        clicks: Iterable[Click | Triplet | Pair],
        *,
        preprocessor: Any = None,
        n_features: int | None = None,
        owner: str = "the learner",
        accept_sparse: bool = True,
    ) -> None:
        """Validate clicks, shapes, types and row numbers. `check_finite` validates the values, block by block."""
        items = self._set_structure(_as_list(clicks))
        is_vector = np.array([isinstance(item, list | tuple | np.ndarray) for item in items])
        is_query = self._is_query()
        self.by_value = bool(is_vector[np.argmin(is_query)])  # the kind of the first item that is not a query
        if self.by_value:
            self._check_kinds(items, ~is_vector, "a feature vector, like the other items")
            self.table = self._stack(items, np.arange(len(items)))
            self.vectors = self.table[:0]
            self.refs = np.arange(len(items), dtype=np.int64)
        else:
            self._check_kinds(items, is_vector & ~is_query, "a row number, like the other items")
            self._check_kinds(items, ~(is_vector | self._are_rows(items)), "a row number or a feature vector")
            self._set_rows(items, is_vector, preprocessor, accept_sparse)
        self.check_features(n_features, owner)

    def _set_structure(self, clicks: list[Any]) -> list[Any]:
        """Set everything except the items. Return the items of all clicks: row numbers and feature vectors."""
        self._check_not_empty((len(clicks),))
        parts = [_take_apart(click, position) for position, click in enumerate(clicks)]
        counts = [(1, *part.counts) for part in parts]
        marks = np.tile(np.array([_QUERY, _POSITIVE, _NEGATIVE, _SHOWN], np.int8), len(clicks))
        self.marks = np.repeat(marks, np.ravel(counts))
        self.offsets = _offsets(np.sum(counts, axis=1))
        self.weights = np.array([part.weight for part in parts], np.float64)
        self._kinds = np.array([_NOUNS.index(part.noun) for part in parts], np.int8)
        return [item for part in parts for item in part.items]

    @staticmethod
    def _are_rows(items: list[Any]) -> NDArray[np.bool_]:
        return np.array([isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items])

    def _check_kinds(self, items: list[Any], wrong: NDArray[np.bool_], expected: str) -> None:
        """Raise `InvalidTypeError` for the first item that is ``wrong``."""
        if not wrong.any():
            return
        position = int(np.argmax(wrong))
        item = items[position]
        hint = " Replace ids by the row numbers of the feature table." if isinstance(item, str) else ""
        raise InvalidTypeError(
            f"The {self._describe(position)} must be {expected}. Got {shorten(item)} instead.{hint}"
        )

    def _set_rows(
        self, items: list[Any], is_vector: NDArray[np.bool_], preprocessor: Any, accept_sparse: bool
    ) -> None:
        if preprocessor is None:
            raise InvalidInputError(
                "The items of the clicks are row numbers of a feature table, but no feature table was given. Pass "
                "the table as preprocessor=, or pass feature vectors."
            )
        table = as_table(preprocessor, "preprocessor", accept_sparse)
        where = np.flatnonzero(~is_vector)
        given = np.array([items[position] for position in where], object)  # Python integers have no limit
        wrong = rows_outside(given, table).astype(bool)
        if wrong.any():
            position = int(where[np.argmax(wrong)])
            raise row_error(self._describe(position), shorten(items[position]), table)
        self.table = table
        queries = np.flatnonzero(is_vector)
        self.refs = np.empty(len(items), np.int64)
        self.refs[where] = given
        self.refs[queries] = -1 - np.arange(len(queries))
        self.vectors = np.empty((0, table.shape[1]), table.dtype)
        if len(queries):
            self.vectors = self._stack(items, queries)
            if self.vectors.shape[1] != table.shape[1]:
                raise InvalidInputError(
                    f"The {self._describe(int(queries[0]))} has {self.vectors.shape[1]} features, but the "
                    f"preprocessor has {table.shape[1]}."
                )

    def _stack(self, items: list[Any], positions: NDArray[np.intp]) -> NDArray[Any]:
        """Return the feature vectors at these positions, as one array with a row for each vector."""
        vectors = [items[position] for position in positions]
        try:
            array = as_array(vectors, "feature vectors of clicks")
        except InvalidInputError:
            self._check_vectors(vectors, positions)
            raise
        if array.ndim != 2:
            self._check_vectors(vectors, positions)
        self._check_width(array.shape)
        return array

    def _check_vectors(self, vectors: list[Any], positions: NDArray[np.intp]) -> None:
        """Raise `InvalidInputError` for the first vector that is invalid or has another length than the first."""
        first = None
        for vector, position in zip(vectors, positions.tolist(), strict=True):
            place = self._describe(position)
            try:
                array = as_array(vector, "features")
            except InvalidInputError as error:
                raise InvalidInputError(f"The {place} is not a feature vector: {error}") from error
            if array.ndim != 1:
                raise InvalidInputError(
                    f"The {place} must be a feature vector of shape (n_features,). Got shape {array.shape} instead."
                )
            first = len(array) if first is None else first
            if len(array) != first:
                raise InvalidInputError(
                    f"The {place} has {len(array)} features, but the {self._describe(int(positions[0]))} has "
                    f"{first}."
                )

    @classmethod
    def _trusted(cls, table: Any, by_value: bool, vectors: NDArray[Any], structure: dict[str, Any]) -> Self:
        """Return clicks without validating them. ``structure`` contains the other attributes."""
        clicks = cls.__new__(cls)
        clicks.table, clicks.by_value, clicks.vectors = table, by_value, vectors
        clicks.__dict__.update(structure)
        return clicks

    # -- conversion ------------------------------------------------------------------------------------------

    @classmethod
    def from_triplets(cls, triplets: Triplets, weights: ArrayLike | None = None) -> Self:
        """Return triplets as clicks with one positive and one negative. They use the same feature table.

        Parameters
        ----------
        triplets : Triplets
        weights : array-like of shape (n,), optional
            The weight of each click, in (0, 1]. By default, all weights are 1.
        """
        marks = np.tile(np.array([_QUERY, _POSITIVE, _NEGATIVE], np.int8), (len(triplets), 1))
        return cls._from_tuples(triplets, marks, weights)

    @classmethod
    def from_pairs(cls, pairs: Pairs, weights: ArrayLike | None = None) -> Self:
        """Return pairs as clicks: a similar pair with one positive, a dissimilar pair with one negative.

        The query is the first item of the pair. The clicks use the same feature table as the pairs.

        Parameters
        ----------
        pairs : Pairs
        weights : array-like of shape (n,), optional
            The weight of each click, in (0, 1]. By default, all weights are 1.
        """
        marks = np.full((len(pairs), 2), _QUERY, np.int8)
        marks[:, 1] = np.where(pairs.same, _POSITIVE, _NEGATIVE)
        return cls._from_tuples(pairs, marks, weights)

    @classmethod
    def _from_tuples(cls, tuples: Tuples, marks: NDArray[np.int8], weights: ArrayLike | None) -> Self:
        n, size = tuples.indices.shape
        refs = tuples.indices.ravel().astype(np.int64)
        table: Any = tuples.table
        vectors: NDArray[Any] = np.empty((0, table.shape[1]), table.dtype)
        if isinstance(table, ExtendedTable):
            table, vectors = table.table, table.vectors
            outside = refs >= len(table)
            refs[outside] = len(table) - 1 - refs[outside]
        structure = {
            "refs": refs,
            "marks": marks.ravel(),
            "offsets": size * np.arange(n + 1),
            "weights": np.ones(n) if weights is None else _as_weights(weights, n),
            "_kinds": np.full(n, _NOUNS.index(tuples.noun), np.int8),
        }
        return cls._trusted(table, tuples.by_value, vectors, structure)

    def triplets(self, limit: int | None = None) -> Triplets:
        """Return triplets: combinations of the query, a positive and a negative of a click.

        A click without positives or without negatives gives no triplets. Triplet k of a click has positive k mod p
        and negative (k + floor(k / lcm(p, q))) mod q, where p and q are the numbers of positives and negatives. The
        positives of a click therefore occur equally often, up to one time, and so do the negatives.

        Parameters
        ----------
        limit : int, optional
            Largest number of triplets of one click. By default, a click gives max(p, q) triplets, so that each
            positive and each negative occurs at least once. With ``limit`` of at least p * q, a click gives all
            combinations.
        """
        if limit is not None:
            check_integer(self, "limit", limit, least=1)
        n_positives, n_negatives = self._counts()
        products = n_positives * n_negatives
        most = np.maximum(n_positives, n_negatives) if limit is None else np.int64(min(limit, 2**62))
        sizes = np.minimum(products, most)
        if not sizes.any():
            raise InvalidInputError(
                f"None of the {len(self)} clicks has both a positive and a negative, so they give no triplets."
            )
        clicks = np.repeat(np.arange(len(self)), sizes)
        k = np.arange(len(clicks)) - np.repeat(_offsets(sizes)[:-1], sizes)
        p, q = n_positives[clicks], n_negatives[clicks]
        starts = self.offsets[clicks]
        positives, negatives = k % p, (k + k // np.lcm(p, q)) % q
        table, rows = self._joined()
        indices = rows[np.stack([starts, starts + 1 + positives, starts + 1 + p + negatives], axis=1)]
        triplets = _ClickTriplets._trusted(table, indices, self.by_value)
        triplets._clicks, triplets._numbers = self, clicks
        return triplets

    def pairs(self) -> Pairs:
        """Return a similar pair of the query and each positive, and a dissimilar pair for each negative.

        The pairs of a click are in the order of its positives and negatives.
        """
        marked = (self.marks != _SHOWN) & ~self._is_query()
        clicks = np.repeat(np.arange(len(self)), np.diff(self.offsets))[marked]
        table, rows = self._joined()
        indices = np.stack([rows[self.offsets[clicks]], rows[marked]], axis=1)
        pairs = _ClickPairs._trusted(table, indices, self.by_value)
        pairs.same = self.marks[marked] == _POSITIVE
        pairs._clicks, pairs._numbers = self, clicks
        return pairs

    @property
    def two_sided(self) -> NDArray[np.bool_]:
        """Whether each click has at least one positive and at least one negative."""
        n_positives, n_negatives = self._counts()
        return (n_positives > 0) & (n_negatives > 0)

    def _counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of positives and the number of negatives of each click."""
        positives, negatives = (_offsets(self.marks == mark)[self.offsets] for mark in (_POSITIVE, _NEGATIVE))
        return np.diff(positives) - 1, np.diff(negatives)

    def _is_query(self) -> NDArray[np.bool_]:
        is_query = np.zeros(self.offsets[-1], np.bool_)
        is_query[self.offsets[:-1]] = True
        return is_query

    def _joined(self) -> tuple[Any, NDArray[np.intp]]:
        """Return one table with all items and query vectors, and the row of each item in this table."""
        rows = np.where(self.refs < 0, self.table.shape[0] - 1 - self.refs, self.refs)
        return extend_table(self.table, self.vectors), rows.astype(np.intp, copy=False)

    # -- reading ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | NDArray[Any]) -> Self:
        """Return the selected clicks. They use the same table as all clicks."""
        chosen = np.arange(len(self))[rows]
        if chosen.ndim != 1:
            raise InvalidInputError("Clicks can be indexed by a slice, a mask or an array of row numbers.")
        self._check_not_empty(chosen.shape)
        sizes = np.diff(self.offsets)[chosen]
        offsets = _offsets(sizes)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        structure = {
            "refs": self.refs[places],
            "marks": self.marks[places],
            "offsets": offsets,
            "weights": self.weights[chosen],
            "_kinds": self._kinds[chosen],
        }
        return self._trusted(self.table, self.by_value, self.vectors, structure)

    def __repr__(self) -> str:
        n = len(self.vectors)
        vectors = f", {n:,} query vector{'s' * (n > 1)}" if n else ""
        return f"{super().__repr__()[:-1]}{vectors}>"

    def values(self, number: int | None = None) -> NDArray[Any]:
        """Return a copy of the features of one click, or of all clicks, with one row for each item in ``refs``."""
        start, stop = 0, len(self.refs)
        if number is not None:
            start, stop = (int(offset) for offset in self.offsets[[number, number + 1]])
        return self._read(start, stop)

    def with_values(self, values: ArrayLike) -> Self:
        """Return clicks with the same marks and weights, but with other features of the items.

        Parameters
        ----------
        values : array-like of shape (n_items, n_features)
            The features of the items, in the order of ``refs``.
        """
        table = as_table(values, "feature vectors of clicks")
        if len(table) != len(self.refs):
            raise InvalidInputError(
                f"The clicks have {len(self.refs)} items, so the values must have {len(self.refs)} rows. Got "
                f"{len(table)} instead."
            )
        structure = {
            "refs": np.arange(len(table), dtype=np.int64),
            "marks": self.marks,
            "offsets": self.offsets,
            "weights": self.weights,
            "_kinds": self._kinds,
        }
        return self._trusted(table, True, table[:0], structure)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the features of the items ``refs[start:stop]``."""
        refs = self.refs[start:stop]
        in_table = refs >= 0
        rows = self.table[refs[in_table]]
        dense: NDArray[Any] = rows.toarray() if self.is_sparse else rows
        if in_table.all():
            return dense
        values = np.empty((len(refs), self.n_features), np.result_type(dense, self.vectors))
        values[in_table], values[~in_table] = dense, self.vectors[-1 - refs[~in_table]]
        return values

    def blocks(self, dtype: DTypeLike) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yield blocks of clicks, as tuples of three elements.

        The elements are the number of the block's first click, the number of the first click after the block, and
        the features of the block's items, of shape (m, n_features), in the order of ``refs``. A block has at least
        one click, and at most 384 items unless its only click has more.

        Use `check_finite` to check the values for NaN and infinity.
        """
        start = 0
        while start < len(self):
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + _BLOCK_ITEMS, side="right")) - 1
            stop = max(stop, start + 1)
            with np.errstate(over="ignore", invalid="ignore"):
                rows = self._read(int(self.offsets[start]), int(self.offsets[stop])).astype(dtype, copy=False)
            yield start, stop, np.require(rows, requirements=["C", "W"])
            start = stop

    def check_finite(self, start: int, block: NDArray[Any]) -> None:
        """Raise `InvalidInputError` if a value of a block is not finite or overflows in the block's dtype.

        ``start`` is the number of the block's first click.
        """
        wrong = first_non_finite(block)
        if wrong is not None:
            row, feature = wrong
            position = int(self.offsets[start]) + row
            value = self._read(position, position + 1)[0, feature]
            raise non_finite_error(value, block.dtype, self.describe_item(position), feature)

    def describe_item(self, position: int) -> str:
        """Return a description of the item at a position in ``refs``, such as "the 2nd negative of click 17"."""
        ref = int(self.refs[position])
        source = "" if self.by_value or ref < 0 else f", row {ref} of preprocessor,"
        return f"the {self._describe(position)}{source}"

    def _describe(self, position: int) -> str:
        number = int(np.searchsorted(self.offsets, position, side="right")) - 1
        start, stop = (int(offset) for offset in self.offsets[[number, number + 1]])
        noun, place = _NOUNS[self._kinds[number]], position - start
        if noun == "triplet":
            return f"{Triplets.names[place]} of triplet {number}"
        if noun == "pair":
            return f"{Pairs.names[place]} of pair {number}"
        marks = self.marks[start + 1 : stop]
        n_positives, n_negatives = (int(np.count_nonzero(marks == mark)) for mark in (_POSITIVE, _NEGATIVE))
        return f"{describe_part(place, n_positives, n_negatives)} of click {number}"

    def origin(self, number: int) -> tuple[str, int]:
        """Return the place of a click in the user's input: a noun ("click", "triplet" or "pair") and a number."""
        return _NOUNS[self._kinds[number]], number


class _FromClicks(Tuples):
    """Mixin for pairs and triplets of clicks. Error messages name the clicks."""

    _clicks: Clicks
    _numbers: NDArray[np.intp]  # the number of each constraint's click

    def __getitem__(self, rows: slice | NDArray[Any]) -> Self:
        chosen = super().__getitem__(rows)
        chosen._clicks, chosen._numbers = self._clicks, self._numbers[rows]
        return chosen

    def describe_item(self, row: int) -> str:
        clicks = self._clicks
        used = np.isin(np.arange(len(clicks)), self._numbers).repeat(np.diff(clicks.offsets))
        here = used & (clicks.marks != _SHOWN) & (clicks._joined()[1] == row)
        return clicks.describe_item(int(np.argmax(here)))

    def origin(self, position: int) -> tuple[str, int]:
        return self._clicks.origin(int(self._numbers[position]))


class _ClickTriplets(_FromClicks, Triplets):
    pass


class _ClickPairs(_FromClicks, Pairs):
    pass


def are_constraint_objects(data: Any) -> bool:
    """Return whether ``data`` contains Click or Pair objects, or is a single constraint object.

    A list of only Triplet objects is an array-like of shape (n, 3).
    """
    if isinstance(data, Click | Pair | Triplet):
        return True  # `Clicks` raises an error: it needs a list
    return isinstance(data, list | tuple) and any(isinstance(entry, Click | Pair) for entry in data)


def _as_list(clicks: Any) -> list[Any]:
    if isinstance(clicks, Click | Pair | Triplet):
        name = type(clicks).__name__
        raise InvalidTypeError(f"Clicks must be a list. Got one {name} instead: write [{name}(...)].")
    try:
        return list(clicks)
    except TypeError as error:
        raise InvalidTypeError(
            f"Clicks must be a list of Click, Triplet or Pair objects. Got {shorten(clicks)} instead."
        ) from error


class _Parts(NamedTuple):
    """The items of one click, the numbers of its positives, negatives and shown items, its weight and its noun."""

    items: tuple[Any, ...]
    counts: tuple[int, int, int]
    weight: float
    noun: str


def _take_apart(click: Any, position: int) -> _Parts:
    """Return the parts of a click, triplet or pair. ``position`` is its position in the list of clicks."""
    if isinstance(click, Click):
        check_click(click, f"Click {position}")
        counts = len(click.positives), len(click.negatives), len(click.shown)
        items = (click.query, *click.positives, *click.negatives, *click.shown)
        return _Parts(items, counts, float(click.weight), "click")
    if isinstance(click, Triplet):
        return _Parts(tuple(click), (1, 1, 0), 1.0, "triplet")
    if isinstance(click, Pair):
        check_same(click)
        return _Parts(click[:2], (1, 0, 0) if click.same else (0, 1, 0), 1.0, "pair")
    raise InvalidTypeError(
        f"Clicks must be a list of Click, Triplet or Pair objects. Got {shorten(click)} at position {position} "
        "instead."
    )


def _offsets(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the start of each part in a flat array, and the end of the last part."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _as_weights(weights: ArrayLike, n: int) -> NDArray[np.float64]:
    array = as_array(weights, "weights")
    if array.shape != (n,):
        raise InvalidInputError(
            f"'weights' must have one number for each of the {n} clicks: shape ({n},). Got {array.shape} instead."
        )
    wrong = ~((array > 0) & (array <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(f"'weights' must be in (0, 1]. Got {array[row]} for click {row} instead.")
    return array.astype(np.float64)
