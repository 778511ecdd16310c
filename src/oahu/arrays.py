"""Validation of arrays of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.exceptions import InvalidInputError, InvalidTypeError

__all__ = ["as_array", "as_table", "check_items", "describe_non_finite"]

_BLOCK_ROWS = 4096  # number of rows checked at a time, to limit memory


def as_array(data: ArrayLike, what: str) -> NDArray[Any]:
    """Return ``data`` as an array of real numbers, without a copy if possible.

    ``what`` is a noun for the data in error messages.
    """
    if hasattr(data, "tocsr"):
        raise InvalidTypeError(f"The {what} must be a dense array. Got a sparse matrix instead: use toarray().")
    if np.ma.is_masked(data):
        raise InvalidInputError(f"The {what} must be numbers. Got masked values instead.")
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InvalidInputError(f"The {what} are ragged: they do not form one array ({error}).") from error
    if array.dtype.kind == "O":
        array = _convert_objects(array, what)
    if array.dtype.kind not in "fiub":
        kind = {"U": "strings", "S": "bytes", "c": "Complex data not supported: complex numbers"}
        raise InvalidInputError(
            f"The {what} must be real numbers. Got {kind.get(array.dtype.kind, str(array.dtype))} instead."
        )
    return array


def as_table(data: Any, what: str, accept_sparse: bool = False) -> Any:
    """Return ``data`` as a feature table of shape (n_items, n_features).

    The result is an array. With ``accept_sparse=True``, sparse data is returned as a CSR matrix.
    """
    if accept_sparse and hasattr(data, "tocsr"):
        table = data.tocsr()
        as_array(table.data, f"features of {what}")
    else:
        table = as_array(data, f"features of {what}")
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidInputError(
            f"The {what} must have shape (n_items, n_features) and not be empty. Got shape {table.shape} instead."
        )
    return table


def check_items(items: Any, dtype: np.dtype[Any]) -> None:
    """Raise `InvalidInputError` if a row of ``items`` has a value that is not finite or overflows in ``dtype``."""
    if hasattr(items, "tocsr"):
        _check_sparse_items(items, dtype)
        return
    for start in range(0, len(items), _BLOCK_ROWS):
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = np.argwhere(~np.isfinite(items[start : start + _BLOCK_ROWS].astype(dtype, copy=False)))
        if len(wrong):
            row, feature = int(wrong[0, 0]) + start, int(wrong[0, 1])
            raise InvalidInputError(
                f"Input X contains {describe_non_finite(items[row, feature], dtype)}: row {row}, "
                f"feature {feature}. Every value must be a finite number."
            )


def _check_sparse_items(items: Any, dtype: np.dtype[Any]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.flatnonzero(~np.isfinite(items.data.astype(dtype, copy=False)))
    if len(wrong):
        row, feature = np.searchsorted(items.indptr, wrong[0], side="right") - 1, items.indices[wrong[0]]
        raise InvalidInputError(
            f"Input X contains {describe_non_finite(items.data[wrong[0]], dtype)}: row {row}, feature {feature}. "
            "Every value must be a finite number."
        )


def describe_non_finite(value: Any, dtype: np.dtype[Any]) -> str:
    """Return a description of a value that is not finite after conversion to ``dtype``."""
    if np.isnan(value):
        return "NaN"
    return "infinity" if np.isinf(value) else f"{value!s}, too large for {dtype}"


def _convert_objects(array: NDArray[Any], what: str) -> NDArray[Any]:
    """Return an array of Python numbers as a numeric array."""
    try:
        inferred = np.array(array.tolist())
        return inferred if inferred.dtype.kind in "fiub" else array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"The {what} must be numbers ({error}).") from error
