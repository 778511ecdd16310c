"""Where the items of an exact index are: in blocks for the pass, and whole for what it leaves."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from oahu.index.coarse import Coarse
from oahu.index.scan import STRIP, TILE, put, squares_of
from oahu.index.shadow import Shadow

__all__ = ["Blocks"]

Rows = NDArray[np.float32]

_WIDTH = 4096  # items in a block, once there are so many
_MOST_SPARE = 2**18  # items
_LONG = 128  # dimensions: longer vectors are multiplied by BLAS
_TINY = 1e-40  # more than float32 loses of a square
_CLAIMING = Lock()


class Blocks:
    """Items, to which more can be added behind the last; those that are there never change.

    Attributes
    ----------
    blocks : ndarray of shape (n_blocks, n_passed, width)
        What is passed over: an item is a column. Its shadow, or itself; empty if there is a coarse one.
    coarse : Coarse or None
        Or this is passed over, for one query at a time: where vectors are long and have no shadow.
    whole : ndarray of the same kind
        The items themselves: the blocks, or rows as blocks of width 1.
    halves : ndarray of shape (n_blocks, width), or None
        Half the squared length of every item, or 0 for inner products: only where vectors are so long that a
        pass may multiply them.
    n_filled : int
        How many there are, or are about to be.
    """

    def __init__(self, dimensions: int, capacity: int, shadow: Shadow | None, euclidean: bool) -> None:
        self.shadow, self.euclidean = shadow, euclidean
        step = STRIP if capacity <= TILE else TILE
        self.width = min(_WIDTH, max(1, -(-capacity // step)) * step)
        self.n_blocks = -(-capacity // self.width)
        self.n_filled = 0
        rounded = shadow is None and Coarse.suits(dimensions, capacity)
        self.coarse = Coarse(self.n_blocks, dimensions, self.width) if rounded else None
        n_passed = dimensions if shadow is None else shadow.n_passed
        self.blocks = np.zeros((0 if rounded else self.n_blocks, n_passed, self.width), np.float32)
        long = n_passed > _LONG or shadow is not None or rounded
        self.halves = np.zeros((self.n_blocks, self.width), np.float32) if long else None
        self.in_rows = shadow is not None or rounded
        room = self.n_blocks * self.width  # zeros where there is no item: products of anything else might warn
        self.whole = np.zeros((room, dimensions, 1), np.float32) if self.in_rows else self.blocks

    @classmethod
    def with_room(cls, dimensions: int, count: int, like: Rows, euclidean: bool) -> Blocks:
        """Blocks for so many items like some, who are about to be written, and for half as many more."""
        spare = min(count // 2, _MOST_SPARE)
        made = cls(dimensions, count + spare, Shadow.worth_having(like, euclidean), euclidean)
        made.n_filled = count
        return made

    def claim(self, count: int, behind: int) -> bool:
        """Take the room for so many behind that position, if they fit in and nobody else has taken it."""
        with _CLAIMING:
            fits = behind == self.n_filled and behind + count <= self.n_blocks * self.width
            self.n_filled += count * fits
        return fits

    def write(self, vectors: Rows, begin: int) -> float:
        """Put vectors where there is room for them; returns how long the longest is at most, as passed over."""
        end = begin + len(vectors)
        passed = self.as_passed(vectors)
        in_order = passed.flags.c_contiguous
        squares = np.einsum("ij,ij->i", passed, passed) if in_order else squares_of(passed.T)
        if self.coarse is not None:
            self.coarse.write(vectors, begin)
        elif in_order:
            put(passed, self.blocks, begin)
        else:
            self._put_columns(passed.T, begin)
        if self.in_rows:
            self.whole[begin:end, :, 0] = vectors
        if self.halves is not None and self.euclidean:
            self.halves.ravel()[begin:end] = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64) / 2
        longest = float(squares.max(initial=0)) + _TINY
        return float(np.sqrt(longest) * (1 + 1e-6 * passed.shape[1]))

    def _put_columns(self, columns: Rows, begin: int) -> None:
        end = begin + columns.shape[1]
        for block in range(begin // self.width, -(-end // self.width)):
            first, last = max(block * self.width, begin), min((block + 1) * self.width, end)
            here = slice(first - block * self.width, last - block * self.width)
            self.blocks[block, :, here] = columns[:, first - begin : last - begin]

    def as_passed(self, vectors: Rows) -> Rows:
        """What vectors are for the pass."""
        return vectors if self.shadow is None else self.shadow.cast(vectors)

    def columns(self, block: int) -> Rows:
        """The items of a block, themselves: an item is a column."""
        if not self.in_rows:
            return np.asarray(self.blocks[block])
        return self.whole[block * self.width : (block + 1) * self.width, :, 0].T

    def first_rows(self, count: int) -> Rows:
        """The first items, themselves, as rows again."""
        n_blocks = -(-count // self.whole.shape[2])
        rows = self.whole[:n_blocks].transpose(0, 2, 1).reshape(-1, self.whole.shape[1])
        return np.ascontiguousarray(rows[:count])
