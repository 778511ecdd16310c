"""What follows a layer's matrix product, in one pass while it is still near."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oahu.jit import kernel

__all__ = ["rectify", "to_unit_sphere"]

Floats = NDArray[np.floating]


@kernel
def rectify(rows: Floats, biases: Floats) -> None:
    """``max(row + biases, 0)``, in place; NaN stays."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(len(row)):
            value = row[j] + biases[j]
            row[j] = 0 if value < 0 else value


@kernel
def to_unit_sphere(rows: Floats, biases: Floats, units: Floats) -> bool:
    """``row + biases`` at length 1 into ``units``; False if one's square over- or underflows or is not a number."""
    usual = True
    for i in range(rows.shape[0]):
        row, unit = rows[i], units[i]
        square = row[0] * 0
        for j in range(len(row)):
            unit[j] = row[j] + biases[j]
            square += unit[j] * unit[j]
        length = np.sqrt(square)
        usual &= 1e-30 < square < 1e30
        for j in range(len(unit)):
            unit[j] /= length
    return usual
