"""What follows a layer's matrix product, in one pass while it is still near."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel

__all__ = ["rectify", "to_unit_sphere"]

Floats = NDArray[np.floating]

_TOGETHER = 64  # items at a time: what is written of a unit fills cache lines


@kernel
def rectify(rows: Floats, biases: Floats) -> None:
    """``max(rows + biases, 0)``, in place; NaN stays."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(len(row)):
            value = row[j] + biases[j]
            row[j] = 0 if value < 0 else value


@kernel
def to_unit_sphere(rows: Floats, biases: Floats, columns: Floats, first: int) -> bool:
    """Scale ``rows + biases`` to length 1; they become the columns from ``first`` on, as an index has them.

    Returns False if the square of one over- or underflows or is not a number. All are to be written again then.
    """
    n_units, usual = rows.shape[1], True
    scales = np.empty(_TOGETHER, rows.dtype)
    for start in range(0, len(rows), _TOGETHER):
        size = min(_TOGETHER, len(rows) - start)
        scales[:] = 0
        for unit in range(n_units):
            line, bias = columns[unit, first + start : first + start + size], biases[unit]
            for i in range(size):
                value = rows[start + i, unit] + bias
                line[i] = value
                scales[i] += value * value
        for i in range(size):
            usual &= 1e-30 < scales[i] < 1e30
            scales[i] = 1 / np.sqrt(scales[i])
        for unit in range(n_units):
            line = columns[unit, first + start : first + start + size]
            for i in range(size):
                line[i] *= scales[i]
    return usual
