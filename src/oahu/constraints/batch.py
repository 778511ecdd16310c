"""The base class of validated batches of constraints: `Pairs`, `Triplets` and `Clicks`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oahu.arrays import describe_non_finite
from oahu.exceptions import InvalidInputError

__all__ = [
    "BLOCK_SIZE",
    "ConstraintBatch",
    "first_non_finite",
    "non_finite_error",
    "row_error",
    "rows_outside",
]

BLOCK_SIZE: Final = 128  # constraints; at d = 784, a block of float32 triplets has 1.2 MB


class ConstraintBatch:
    """Base class of validated batches of constraints.

    Attributes
    ----------
    table : ndarray, or scipy.sparse CSR matrix, of shape (n_items, n_features)
        The feature table. If it was given as an array, it is not copied.
    by_value : bool
        Whether the constraints were given as feature values. If True, the table contains only the items of the
        constraints.
    """

    noun: ClassVar[str]

    table: Any
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
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        return int(self.table.shape[1])

    @property
    def is_sparse(self) -> bool:
        return hasattr(self.table, "tocsr")

    def __repr__(self) -> str:
        kind = "values" if self.by_value else f"rows of a table of {self.table.shape[0]:,}"
        return f"<{len(self):,} {self.noun}s of {self.n_features:,} features, {kind}>"

    def check_features(self, n_features: int | None, owner: str) -> None:
        """Raise `InvalidInputError` unless each item has ``n_features`` features. None turns the check off."""
        if n_features is not None and self.n_features != n_features:
            raise InvalidInputError(
                f"X has {self.n_features} features, but {owner} is expecting {n_features} features as input."
            )

    def _check_not_empty(self, shape: tuple[int, ...]) -> None:
        if shape[0] == 0:
            raise InvalidInputError(f"At least one {self.noun} is needed. Got shape {shape} instead.")

    @staticmethod
    def _check_width(shape: tuple[int, ...]) -> None:
        if shape[-1] == 0:
            raise InvalidInputError(
                f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required."
            )


def first_non_finite(items: Any) -> tuple[int, int] | None:
    """Return the row and the feature of the first value that is not finite, or None if all values are finite.

    ``items`` is an array of shape (n, d) or a CSR matrix.
    """
    is_sparse = hasattr(items, "tocsr")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite((items.data if is_sparse else items).sum()):
            return None  # a NaN or an infinity would make the sum not finite
    wrong = np.argwhere(~np.isfinite(items.toarray() if is_sparse else items))
    return (int(wrong[0, 0]), int(wrong[0, 1])) if len(wrong) else None


def non_finite_error(value: Any, dtype: np.dtype[Any], item: str, feature: int) -> InvalidInputError:
    """Return the error for a value of an item that is not finite after conversion to ``dtype``."""
    return InvalidInputError(
        f"Input contains {describe_non_finite(value, dtype)}: {item} at feature {feature}. Every value must be a "
        "finite number."
    )


def rows_outside(rows: NDArray[Any], table: Any) -> NDArray[np.bool_]:
    """Return which row numbers are not rows of the table."""
    outside: NDArray[np.bool_] = (rows < 0) | (rows >= table.shape[0])
    return outside


def row_error(item: str, row: Any, table: Any) -> InvalidInputError:
    """Return the error for a row number that is not a row of the table."""
    return InvalidInputError(f"The {item} is row {row}, but the preprocessor has rows 0 to {table.shape[0] - 1}.")
