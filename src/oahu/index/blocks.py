"""The memory of an exact index: the original vectors of the items, and blocks of items for fast scans."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from oahu.index.projection import Projection
from oahu.index.quantized import QuantizedItems
from oahu.index.scan_kernels import STRIP, TILE, squared_lengths, write_columns

__all__ = ["ItemBlocks"]

Rows = NDArray[np.float32]

_WIDTH = 4096  # largest number of items in a block
_MAX_SPARE = 2**18  # items
_LONG = 128  # dimensions; longer vectors are multiplied by BLAS
_UNDERFLOW = 1e-40  # upper bound on the error of a square from float32 underflow
_CLAIM_LOCK = Lock()


class ItemBlocks:
    """Append-only memory for items. Stored items never change.

    Attributes
    ----------
    blocks : ndarray of shape (n_blocks, scanned_dimensions, width)
        The vectors that a scan reads, with one item per column. The columns are the projected items, or the
        original items if there is no projection. The array is empty if the items are quantized.
    quantized : QuantizedItems or None
        The quantized items, which a scan reads instead of ``blocks``. Only used for long vectors without a
        projection, otherwise None.
    exact : ndarray of shape (n_blocks, dimensions, width)
        The original items. This is either the same array as ``blocks``, or an array of blocks of width 1, that is,
        with one item per block.
    halves : ndarray of shape (n_blocks, width), or None
        Half the squared norm of every item (0 for inner products). None if the vectors are too short to benefit
        from BLAS.
    n_filled : int
        The number of positions that are in use or reserved.
    """

    def __init__(self, dimensions: int, capacity: int, projection: Projection | None, euclidean: bool) -> None:
        self.projection, self.euclidean = projection, euclidean
        step = STRIP if capacity <= TILE else TILE
        self.width = min(_WIDTH, max(1, -(-capacity // step)) * step)
        self.n_blocks = -(-capacity // self.width)
        self.n_filled = 0
        quantize = projection is None and QuantizedItems.suits(dimensions, capacity)
        self.quantized = QuantizedItems(self.n_blocks, dimensions, self.width) if quantize else None
        scanned = dimensions if projection is None else projection.dimensions
        self.blocks = np.zeros((0 if quantize else self.n_blocks, scanned, self.width), np.float32)
        long = scanned > _LONG or projection is not None or quantize
        self.halves = np.zeros((self.n_blocks, self.width), np.float32) if long else None
        self.in_rows = projection is not None or quantize
        n_places = self.n_blocks * self.width  # zeros, because products of uninitialised memory could overflow
        self.exact = np.zeros((n_places, dimensions, 1), np.float32) if self.in_rows else self.blocks

    @classmethod
    def with_capacity(cls, dimensions: int, count: int, sample: Rows, euclidean: bool) -> ItemBlocks:
        """Return blocks with ``count`` reserved positions and ``count / 2`` spare positions.

        If a projection is useful, it is fitted to ``sample``, a sample of the items.
        """
        spare = min(count // 2, _MAX_SPARE)
        blocks = cls(dimensions, count + spare, Projection.fit(sample, euclidean), euclidean)
        blocks.n_filled = count
        return blocks

    def claim(self, count: int, begin: int) -> bool:
        """Reserve ``count`` positions from ``begin`` on.

        Return whether this succeeded. Return False if ``begin`` is not the next free position, or if there is not
        enough memory.
        """
        with _CLAIM_LOCK:
            fits = begin == self.n_filled and begin + count <= self.n_blocks * self.width
            self.n_filled += count * fits
        return fits

    def write(self, vectors: Rows, begin: int) -> float:
        """Write vectors to the reserved positions from ``begin`` on.

        Return an upper bound of the norms of the vectors, after the projection if there is one.
        """
        end = begin + len(vectors)
        scanned = self.as_scanned(vectors)
        row_major = scanned.flags.c_contiguous
        squares = np.einsum("ij,ij->i", scanned, scanned) if row_major else squared_lengths(scanned.T)
        if self.quantized is not None:
            self.quantized.write(vectors, begin)
        elif row_major:
            write_columns(scanned, self.blocks, begin)
        else:
            self._copy_columns(scanned.T, begin)
        if self.in_rows:
            self.exact[begin:end, :, 0] = vectors
        if self.halves is not None and self.euclidean:
            self.halves.ravel()[begin:end] = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64) / 2
        longest = float(squares.max(initial=0)) + _UNDERFLOW
        return float(np.sqrt(longest) * (1 + 1e-6 * scanned.shape[1]))

    def _copy_columns(self, columns: Rows, begin: int) -> None:
        end = begin + columns.shape[1]
        for block in range(begin // self.width, -(-end // self.width)):
            first, last = max(block * self.width, begin), min((block + 1) * self.width, end)
            target = slice(first - block * self.width, last - block * self.width)
            self.blocks[block, :, target] = columns[:, first - begin : last - begin]

    def as_scanned(self, vectors: Rows) -> Rows:
        """Return the vectors that a scan reads.

        These are the projected vectors, or the given vectors if there is no projection.
        """
        return vectors if self.projection is None else self.projection.apply(vectors)

    def columns(self, block: int) -> Rows:
        """Return the original items of a block as an array with one item per column."""
        if not self.in_rows:
            return np.asarray(self.blocks[block])
        return self.exact[block * self.width : (block + 1) * self.width, :, 0].T

    def first_rows(self, count: int) -> Rows:
        """Return the first ``count`` original items as an array with one item per row."""
        n_blocks = -(-count // self.exact.shape[2])
        rows = self.exact[:n_blocks].transpose(0, 2, 1).reshape(-1, self.exact.shape[1])
        return np.ascontiguousarray(rows[:count])
