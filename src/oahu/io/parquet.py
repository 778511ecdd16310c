"""Columns of a Parquet file as arrays, or an error that says which column it is.

Needs pyarrow, the extra ``parquet``. It is imported when a file is opened: all else does without it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError

__all__ = ["Column", "read_columns", "table_of"]

_TEXT: Final = {"string", "large_string", "string_view"}  # by name: an older pyarrow lacks the last one
_PANDAS_INDEX: Final = "__index_level_"


@dataclass(frozen=True, eq=False)
class Column:
    """A column, and where it is from, for errors.

    Attributes
    ----------
    path : Path
    name : str
    values : pyarrow.ChunkedArray
    """

    path: Path
    name: str
    values: Any

    def ids(self) -> list[Any]:
        """Integers or strings, as Python's own."""
        from pyarrow import types

        if not self._is_text and not types.is_integer(self.values.type):
            raise self._refused("integers or strings")
        self._check_complete("an id")
        return list(self.values.to_pylist())

    def labels(self) -> NDArray[Any]:
        """Numbers or strings, of shape (n_items,)."""
        if not self._is_text and not self._is_numeric:
            raise self._refused("integers or strings")
        self._check_complete("a label")
        if self._is_text:
            return np.array(self.values.to_pylist(), dtype=np.str_)
        return self._as_numpy().copy()  # pyarrow's own memory is not for writing

    def numbers(self) -> NDArray[Any]:
        """One feature of every item, of shape (n_items,)."""
        if not self._is_numeric:
            raise self._refused("numbers or lists of numbers (text may be in 'id', 'key' and 'label' only)")
        self._check_complete("a number")
        return self._as_numpy()

    @property
    def has_lists(self) -> bool:
        """Whether it holds all features of an item."""
        from pyarrow import types

        kind = self.values.type
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    def rows(self) -> NDArray[Any]:
        """A list of every item, of shape (n_items, length of each)."""
        from pyarrow import compute

        self._check_complete("a list of numbers")
        lengths = compute.list_value_length(self.values).to_numpy()
        width = int(lengths[0]) if len(lengths) else 0
        if (ragged := _first(lengths != width)) is not None:
            raise InvalidInputError(
                f"{self.path}, column {self.name!r}: all lists must have the same length. "
                f"Row 0 has {width} numbers and row {ragged} has {lengths[ragged]}."
            )
        entries = Column(self.path, self.name, compute.list_flatten(self.values))
        if not entries._is_numeric:
            raise self._refused("lists of numbers")
        if (missing := entries._first_null()) is not None:
            raise InvalidInputError(
                f"{self.path}, column {self.name!r}: row {missing // width} has a null at place {missing % width}. "
                "Every entry of a list must be a number."
            )
        return entries._as_numpy().reshape(len(lengths), width)

    @property
    def _is_text(self) -> bool:
        return str(self.values.type) in _TEXT

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
        """NaN is none: whether numbers are finite is for the learner to say."""
        return _first(self.values.is_null().to_numpy()) if self.values.null_count else None

    def _check_complete(self, needed: str) -> None:
        if (row := self._first_null()) is not None:
            raise InvalidInputError(
                f"{self.path}, column {self.name!r}: row {row} is null. Every item needs {needed}."
            )

    def _refused(self, expected: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.path}, column {self.name!r} must hold {expected}. Got {self.values.type} instead."
        )


def read_columns(path: Path) -> list[Column]:
    """The columns in their order, categories as what they stand for; ValueError if it is no Parquet file."""
    try:
        from pyarrow import ArrowException, parquet, types
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'oahu[parquet]'") from error
    with path.open("rb") as file:
        try:
            read = parquet.ParquetFile(file).read()
        except (ArrowException, OSError) as error:  # damaged pages are an OSError
            raise ValueError(str(error)) from error
    _check_names(read.column_names, path)
    return [
        Column(path, name, values.cast(values.type.value_type) if types.is_dictionary(values.type) else values)
        for name, values in zip(read.column_names, read.columns, strict=True)
    ]


def table_of(columns: list[Column]) -> NDArray[Any]:
    """The features of all items: the one column of lists, or the columns of numbers side by side."""
    with_lists = next((column for column in columns if column.has_lists), None)
    if with_lists is None:
        return np.column_stack([column.numbers() for column in columns]) if columns else np.empty((0, 0))
    others = [column.name for column in columns if column is not with_lists]
    if others:
        raise InvalidInputError(
            f"{with_lists.path}, column {with_lists.name!r} has lists, so it must hold all features: next to it "
            f"may be 'id' or 'key', and 'label'. Got {', '.join(map(repr, others[:3]))} too."
        )
    return with_lists.rows()


def _check_names(names: list[str], path: Path) -> None:
    """Refuse what cannot be told apart, and row numbers that pandas has added: they must not be learned from."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInputError(f"{path} has {times} columns {name!r}: every column needs a name of its own.")
        if name.startswith(_PANDAS_INDEX):
            raise InvalidInputError(
                f"{path}, column {name!r} is the index of a pandas table, not a feature. Name the index 'id', or "
                "write the file with index=False."
            )


def _first(wrong: NDArray[np.bool_]) -> int | None:
    """Where the first True is."""
    return int(wrong.argmax()) if wrong.any() else None
