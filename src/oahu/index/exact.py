"""Nearest neighbours, exactly: a float32 pass over all items, and float64 for those that could be the nearest.

The pass has a known bound on its rounding. Its best few are measured again in float64; where the bound does not
rule out that a better one was missed, or one that ties, all that might be are collected and measured. So what comes
out is what brute force in float64 over the same float32 vectors gives, ties by who was added first. Long vectors
are passed over by their shadows (`oahu.index.shadow`) where those rule out enough; if there are many queries, the
first of them tell. Where not, many are multiplied by BLAS, and a few are looked for among rounded items
(`oahu.index.coarse`).

Rounded items take a quarter of the room that the items themselves take. Beside these, a search needs at most 16
MiB and the answers, however many items and queries there are. Only a query to which very many items are about as
near as the k-th needs more: a number for each of them. With k beyond a hundred, a query needs a number for every
item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError, OverflowedItemError
from oahu.index.blocks import Blocks
from oahu.index.exact_search import CoarseSearch, Hits, Search, lengths_of, run
from oahu.index.scan import STRIP, squares_of
from oahu.index.shadow import Shadow
from oahu.messages import shorten

__all__ = ["Adding", "ExactIndex", "Hits", "Index", "Measure", "search_all"]

Floats = NDArray[np.floating]
Rows = NDArray[np.float32]
Measure = Literal["l2", "ip"]

_QUERIES = 4096  # queries answered together
_LIKE = 4096  # of the items that are there, to tell what all will be like
_LARGEST = 1e18  # longer vectors have squares beyond float32


class Index(Protocol):
    """Vectors to search among. What `add` and `remove` return is to be used from then on."""

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...

    def add(self, vectors: Floats) -> Index:
        """More items, at the positions behind those that were ever added."""
        ...

    def remove(self, positions: NDArray[np.int64]) -> Index:
        """Without the items at these positions, which are not given away again."""
        ...

    def search(self, queries: Floats, k: int) -> Hits:
        """The k nearest items of each query."""
        ...


@dataclass(frozen=True, eq=False)
class ExactIndex:
    """An `Index` that misses nothing, and a frozen value: searches go on while others add or remove.

    Values share their items' memory; only the newest of them adds to it without a copy.

    Examples
    --------
    >>> index = ExactIndex.empty(2).add(np.array([[0.0, 1.0], [3.0, 4.0], [0.0, 1.0]]))
    >>> index.search(np.zeros((1, 2)), k=2)
    Hits(positions=array([[0, 2]]), distances=array([[1., 1.]]))
    """

    measure: Measure
    n_added: int
    _items: Blocks
    _hidden: Rows  # 0, or infinity for what is not to be found: (n_blocks, width)
    _longest: float  # of what is passed over

    @classmethod
    def empty(cls, dimensions: int, measure: Measure = "l2") -> ExactIndex:
        """An index of nothing yet; the measure is "l2", Euclidean distance, or "ip", inner product."""
        if measure not in ("l2", "ip"):
            raise InvalidInputError(f"The measure must be 'l2' or 'ip'. Got {shorten(measure)} instead.")
        return cls(measure, 0, Blocks(dimensions, 0, None, measure == "l2"), np.empty((0, STRIP), np.float32), 0.0)

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        return int(self._items.whole.shape[1])

    @property
    def _euclidean(self) -> bool:
        return self.measure == "l2"

    def add(self, vectors: Floats) -> ExactIndex:
        new = checked(vectors, self.dimensions, "vector")
        adding = self.adding(len(new), lambda: new)
        adding.write(0, new)
        return adding.done()

    def adding(self, count: int, like: Callable[[], Floats]) -> Adding:
        """Make room for so many items ``like`` some, if anyone asks, to be put there part by part."""
        items = self._items
        if items.claim(count, behind=self.n_added):
            return Adding(self, items, count, self._longest)
        held = sample = items.first_rows(self.n_added)
        if Shadow.suits(self.dimensions, self.n_added + count):
            some = np.linspace(0, self.n_added, min(self.n_added, _LIKE), endpoint=False, dtype=int)
            sample = np.concatenate([held[some], np.asarray(like(), np.float32)])
        items = Blocks.with_room(self.dimensions, self.n_added + count, sample, self._euclidean)
        return Adding(self, items, count, items.write(held, 0))

    def remove(self, positions: NDArray[np.int64]) -> ExactIndex:
        check_positions(positions, self.n_added)
        hidden = self._hidden.copy()
        hidden.ravel()[positions] = np.inf
        return replace(self, _hidden=hidden)

    def searching(self, queries: Rows, k: int) -> Search:
        """A search of this value, ready to run."""
        n_blocks = -(-self.n_added // self._items.width)
        kind = Search if self._items.coarse is None else CoarseSearch
        return kind(self._items, self._hidden[:n_blocks], self._longest, self._euclidean, queries, k)

    def search(self, queries: Floats, k: int) -> Hits:
        return search_all([self], [queries], k)[0]


class Adding:
    """Items on their way into an index, which is `done` when all parts of them have been put there.

    Parts may be put there by several threads.
    """

    def __init__(self, index: ExactIndex, items: Blocks, count: int, longest: float) -> None:
        self._index, self._items, self._count, self._longest = index, items, count, [longest]

    def put(self, first: int, vectors: Floats) -> None:
        """Put vectors there as the items from ``first`` on, counted among those that are added."""
        self.write(first, checked(vectors, self._index.dimensions, "vector"))

    def write(self, first: int, vectors: Rows) -> None:
        """`put` vectors there that were checked."""
        self._longest.append(self._items.write(vectors, self._index.n_added + first))

    def columns(self, first: int, count: int) -> tuple[Rows, int] | None:
        """Where some of the items are to be written: an array of columns, and the first of them there.

        None if they are to be `put` there. Who writes answers for them: finite, and no longer than 1.
        """
        width, begin = self._items.width, self._index.n_added + first
        if self._items.shadow is not None or self._items.halves is not None or begin % width + count > width:
            return None
        self._longest.append(1.001)
        return self._items.blocks[begin // width], begin % width

    def done(self) -> ExactIndex:
        """The index with these items."""
        before, items = self._index, self._items
        n_added = before.n_added + self._count
        hidden = before._hidden.copy()
        if hidden.shape != (items.n_blocks, items.width):
            hidden = np.full((items.n_blocks, items.width), np.inf, np.float32)
            hidden.ravel()[: before.n_added] = before._hidden.ravel()[: before.n_added]
        hidden.ravel()[before.n_added : n_added] = 0
        return ExactIndex(before.measure, n_added, items, hidden, max(self._longest))


def search_all(indexes: Sequence[Index], queries: Sequence[Floats], k: int) -> list[Hits]:
    """Search several indexes, each for what the same queries are there.

    Few queries are looked for in all exact indexes together: threads wait for each other once.
    """
    exact = [index for index in indexes if isinstance(index, ExactIndex)]
    if len(exact) < len(indexes):
        return [index.search(asked, k) for index, asked in zip(indexes, queries, strict=True)]
    asked = [
        np.ascontiguousarray(checked(vectors, index.dimensions, "query"))
        for index, vectors in zip(exact, queries, strict=True)
    ]
    check_count(k)
    n_queries = len(asked[0]) if asked else 0
    if not n_queries or not k:
        return [Hits(np.empty((n_queries, k), np.int64), np.empty((n_queries, k))) for _ in exact]
    parts = [
        run(
            [
                index.searching(vectors[start : start + _QUERIES], k)
                for index, vectors in zip(exact, asked, strict=True)
            ]
        )
        for start in range(0, n_queries, _QUERIES)
    ]
    if len(parts) == 1:
        return parts[0]
    return [Hits(*map(np.concatenate, zip(*hits, strict=True))) for hits in zip(*parts, strict=True)]


def checked(vectors: Floats, dimensions: int, what: str) -> Rows:
    """Vectors in float32; an error for one that is not finite, or whose square would not be."""
    if np.ndim(vectors) != 2 or np.shape(vectors)[1] != dimensions:
        raise InvalidInputError(
            f"Search needs a row of {dimensions} numbers for each {what}. Got shape {np.shape(vectors)} instead."
        )
    with np.errstate(over="ignore"):
        rows = in_form(vectors)
        squares = np.einsum("ij,ij->i", rows, rows) if rows.flags.c_contiguous else squares_of(rows.T)
    if len(squares) and not squares.max() < _LARGEST**2:  # nor if it is NaN
        row = int(np.argmax(~(squares < _LARGEST**2)))
        (length,) = lengths_of(rows[row : row + 1])
        raise OverflowedItemError(
            f"Item {row} is too long a {what} for search: it has length {length:.3g}, and {_LARGEST:.0e} is too "
            "much. Scale the features to a usual range.",
            row,
        )
    return rows


def in_form(vectors: Floats) -> Rows:
    """Vectors in float32, and as passes are compiled for: row by row, or column by column if given so."""
    array = np.asarray(vectors)
    if array.dtype == np.float32 and array.flags.carray:
        return array
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return np.require(array.T, np.float32, ["C", "A", "W", "E"]).T
    return np.require(array, np.float32, ["C", "A", "W", "E"])


def check_positions(positions: NDArray[np.int64], n_added: int) -> None:
    """Raise an error for a position at which no item was ever added."""
    places = np.asarray(positions)
    wrong = places[(places < 0) | (places >= n_added)]
    if len(wrong):
        raise InvalidInputError(f"There was never an item at position {wrong[0]}: {n_added} were added.")


def check_count(k: int) -> None:
    """Raise an error for a number of neighbours that is none."""
    if k < 0:
        raise InvalidInputError(f"The number of neighbours k must be at least 0. Got {k} instead.")
