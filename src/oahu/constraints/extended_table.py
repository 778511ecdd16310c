"""A feature table followed by more rows, without a copy of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExtendedTable", "extend_table"]


class ExtendedTable:
    """The rows of a feature table, followed by the rows of ``vectors``. Neither of them is copied.

    Rows are read as from an array: by an array of row numbers, or one number by its row and feature.
    """

    def __init__(self, table: NDArray[Any], vectors: NDArray[Any]) -> None:
        self.table, self.vectors = table, vectors
        self.shape = (len(table) + len(vectors), table.shape[1])
        self.dtype = np.result_type(table.dtype, vectors.dtype)

    def __getitem__(self, key: NDArray[np.integer] | tuple[int, int]) -> Any:
        n = len(self.table)
        if isinstance(key, tuple):
            row, feature = key
            return self.table[row, feature] if row < n else self.vectors[row - n, feature]
        in_table = key < n
        rows = np.empty((len(key), self.shape[1]), self.dtype)
        rows[in_table] = self.table[key[in_table]]
        rows[~in_table] = self.vectors[key[~in_table] - n]
        return rows


def extend_table(table: Any, vectors: NDArray[Any]) -> Any:
    """Return a table with the rows of ``vectors`` after its own rows. Only a sparse table is copied."""
    if not len(vectors):
        return table
    if hasattr(table, "tocsr"):
        from scipy import sparse

        return sparse.vstack([table, type(table)(vectors)], format="csr")
    return ExtendedTable(table, vectors)
