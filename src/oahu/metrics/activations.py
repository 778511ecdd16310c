"""Compiled functions that add a bias to a matrix product, and then apply a ReLU or a normalisation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel

__all__ = ["add_bias_and_relu", "write_unit_columns"]

Floats = NDArray[np.floating]

_ITEMS_PER_PASS = 64  # number of items per pass; the outputs of a unit then fill whole cache lines


@kernel("the encoder of OAHU's metric")
def add_bias_and_relu(rows: Floats, biases: Floats) -> None:
    """Replace ``rows`` by ``max(rows + biases, 0)``, in place. NaN stays NaN."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(len(row)):
            value = row[j] + biases[j]
            row[j] = 0 if value < 0 else value


@kernel("the encoder of OAHU's metric")
def write_unit_columns(rows: Floats, biases: Floats, columns: Floats, first: int) -> bool:
    """Scale each row of ``rows + biases`` to length 1. Write the scaled rows to columns of ``columns``.

    Row i is written to column ``first`` + i.

    Return False if the square of a length may overflow or underflow, or is NaN. The caller must then compute and
    write all columns again.
    """
    n_units, valid = rows.shape[1], True
    scales = np.empty(_ITEMS_PER_PASS, rows.dtype)
    for start in range(0, len(rows), _ITEMS_PER_PASS):
        size = min(_ITEMS_PER_PASS, len(rows) - start)
        scales[:] = 0
        for unit in range(n_units):
            line, bias = columns[unit, first + start : first + start + size], biases[unit]
            for i in range(size):
                value = rows[start + i, unit] + bias
                line[i] = value
                scales[i] += value * value
        for i in range(size):
            valid &= 1e-30 < scales[i] < 1e30
            scales[i] = 1 / np.sqrt(scales[i])
        for unit in range(n_units):
            line = columns[unit, first + start : first + start + size]
            for i in range(size):
                line[i] *= scales[i]
    return valid
