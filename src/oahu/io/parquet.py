"""Reader of the columns of a Parquet file. Error messages contain the name of the column.

This module needs pyarrow (the extra ``parquet``). pyarrow is imported when a file is opened.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError

__all__ = ["ParquetColumn", "feature_table", "read_columns"]

_TEXT_TYPES: Final = {
    "string",
    "large_string",
    "string_view",
}  # names of types, because older versions of pyarrow do not have the last type
_PANDAS_INDEX: Final = "__index_level_"


@dataclass(frozen=True, eq=False)
class ParquetColumn:
    """A column of a Parquet file.

    Attributes
    ----------
    path : Path
        Path of the file, for error messages.
    name : str
        Name of the column.
    values : pyarrow.ChunkedArray
        Values of the column.
    """

    path: Path
    name: str
    values: Any

    def ids(self) -> list[Any]:
        """Return the values as a list of Python integers or strings."""
        from pyarrow import types

        if not self._is_text and not types.is_integer(self.values.type):
            raise self._type_error("integers or strings")
        self._check_no_nulls("an id")
        return list(self.values.to_pylist())

    def labels(self) -> NDArray[Any]:
        """Return the values as an array of numbers or strings, of shape (n_items,)."""
        if not self._is_text and not self._is_numeric:
            raise self._type_error("integers or strings")
        self._check_no_nulls("a label")
        if self._is_text:
            return np.array(self.values.to_pylist(), dtype=np.str_)
        return self._as_numpy().copy()  # because pyarrow's memory is read-only

    def numbers(self) -> NDArray[Any]:
        """Return the values as a numeric array of shape (n_items,): one feature of each item."""
        if not self._is_numeric:
            raise self._type_error("numbers or lists of numbers (only 'id', 'key' and 'label' may be text)")
        self._check_no_nulls("a number")
        return self._as_numpy()

    @property
    def has_lists(self) -> bool:
        """Whether the values are lists. Such a column contains all features of each item."""
        from pyarrow import types

        kind = self.values.type
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def rows(self) -> NDArray[Any]:
        """Return the lists as an array of shape (n_items, length of a list)."""
        from pyarrow import compute

        self._check_no_nulls("a list of numbers")
        lengths = compute.list_value_length(self.values).to_numpy()
        width = int(lengths[0]) if len(lengths) else 0
        if (ragged := _first(lengths != width)) is not None:
            raise InvalidInputError(
                f"{self.path}, column {self.name!r}: all lists must have the same length. "
                f"Row 0 has {width} entries and row {ragged} has {lengths[ragged]}."
            )
        entries = ParquetColumn(self.path, self.name, compute.list_flatten(self.values))
        if not entries._is_numeric:
            raise self._type_error("lists of numbers")
        if (missing := entries._first_null()) is not None:
            row, position = divmod(missing, width)
            raise InvalidInputError(
                f"{self.path}, column {self.name!r}: row {row} has a null at position {position}. "
                "Each entry of a list must be a number."
            )
        return entries._as_numpy().reshape(len(lengths), width)

    @property
    def _is_text(self) -> bool:
        return str(self.values.type) in _TEXT_TYPES

    @property
    def _is_numeric(self) -> bool:
        from pyarrow import types

        kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        return any(is_kind(self.values.type) for is_kind in kinds)

    def _as_numpy(self) -> NDArray[Any]:
        from pyarrow import float64, types

        numbers = self.values.cast(float64()) if types.is_decimal(self.values.type) else self.values
        return np.asarray(numbers.to_numpy())

    def _first_null(self) -> int | None:
        """Return the first row with a null value, or None. NaN is not null. Learners check for NaN."""
        return _first(self.values.is_null().to_numpy()) if self.values.null_count else None

    def _check_no_nulls(self, needed: str) -> None:
        if (row := self._first_null()) is not None:
            raise InvalidInputError(
                f"{self.path}, column {self.name!r}: row {row} is null. Each item needs {needed}."
            )

    def _type_error(self, expected: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.path}, column {self.name!r} must contain {expected}. Got {self.values.type} instead."
        )


def read_columns(path: Path) -> list[ParquetColumn]:
    """Return the columns of a file, in the order of the file. Categorical columns contain their decoded values.

    Raise ValueError for an invalid file.
    """
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow. Install it with: pip install 'oahu[parquet]'") from error
    with path.open("rb") as file:
        try:
            read = parquet.ParquetFile(file).read()
        except (ArrowException, OSError) as error:  # damaged pages raise OSError
            raise ValueError(str(error)) from error
    _check_names(read.column_names, path)
    return [
        ParquetColumn(
            path, name, values.cast(values.type.value_type) if types.is_dictionary(values.type) else values
        )
        for name, values in zip(read.column_names, read.columns, strict=True)
    ]


def feature_table(columns: list[ParquetColumn]) -> NDArray[Any]:
    """Return the features of all items, from one column of lists or from columns of numbers."""
    with_lists = next((column for column in columns if column.has_lists), None)
    if with_lists is None:
        return np.column_stack([column.numbers() for column in columns]) if columns else np.empty((0, 0))
    others = [column.name for column in columns if column is not with_lists]
    if others:
        raise InvalidInputError(
            f"{with_lists.path}, column {with_lists.name!r} contains lists, so it must be the only column of "
            f"features, besides 'id' or 'key' and 'label'. Got {', '.join(map(repr, others[:3]))} in addition."
        )
    return with_lists.rows()


def _check_names(names: list[str], path: Path) -> None:
    """Raise an error for duplicate column names, and for an index column of pandas, which is not a feature."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInputError(f"{path} has {times} columns named {name!r}. Column names must be unique.")
        if name.startswith(_PANDAS_INDEX):
            raise InvalidInputError(
                f"{path}, column {name!r} is the index of a pandas table, not a feature. Name the index 'id', or "
                "write the file with index=False."
            )


def _first(wrong: NDArray[np.bool_]) -> int | None:
    """Return the position of the first True value, or None if no value is True."""
    return int(wrong.argmax()) if wrong.any() else None
