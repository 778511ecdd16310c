"""Reader of items from a CSV or Parquet file with any columns. The user names the columns."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oahu.exceptions import InvalidInputError
from oahu.io.parquet import ParquetColumn, feature_table, read_columns
from oahu.messages import shorten

__all__ = ["ItemTable", "read_item_table"]


@dataclass(frozen=True, eq=False)
class ItemTable:
    """The items of a table. Either ``vectors`` or ``texts`` is None.

    Attributes
    ----------
    keys : list of str
    vectors : ndarray of shape (n_items, n_features), or None
    texts : list of str, or None
    labels : list of str or None, or None
        The label of each item. None if no column contains labels.
    payloads : list of dict
        The payload of each item. Empty cells are left out.
    """

    keys: list[str]
    vectors: NDArray[np.float64] | None
    texts: list[str] | None
    labels: list[str | None] | None
    payloads: list[dict[str, Any]]


def read_item_table(
    path: str | Path,
    *,
    key: str,
    vector: str | None = None,
    text: str | None = None,
    label: str | None = None,
    payload: Sequence[str] = (),
) -> ItemTable:
    """Read items from a .csv, .tsv or .parquet file.

    Parameters
    ----------
    path : path
        The file. The first line of a CSV file contains the names of the columns.
    key : str
        Column of the keys.
    vector : str, optional
        Column that contains a list of numbers (in a CSV file as JSON), or a pattern for columns of numbers, such as
        ``emb_*``. The columns are used in the order of the file.
    text : str, optional
        Column of texts, instead of vectors.
    label : str, optional
        Column of labels. An empty cell is no label.
    payload : sequence of str
        Columns or patterns of columns for the payload. In a CSV file, a column in which every cell is a number
        gives numbers, other columns give texts.
    """
    file = Path(path)
    if (vector is None) == (text is None):
        raise InvalidInputError("Exactly one of 'vector' and 'text' is needed: the column of the features.")
    columns = _parquet_columns(file) if file.suffix == ".parquet" else _csv_columns(file)
    names = list(columns)
    for wanted in [key, *(name for name in (text, label) if name is not None)]:
        if wanted not in columns:
            raise InvalidInputError(f"{file} has no column {wanted!r}. The columns are {shorten(names)}.")
    keys = [_text(file, key, row, cell) for row, cell in enumerate(columns[key].cells())]
    for repeated, times in Counter(keys).items():
        if times > 1:
            rows = [row for row, one in enumerate(keys) if one == repeated]
            raise InvalidInputError(
                f"{file}, column {key!r}: the key {repeated!r} occurs in rows {rows[0]} and {rows[1]}."
            )
    selected = [name for pattern in payload for name in _matching(file, names, pattern)]
    cells = {name: columns[name].values() for name in dict.fromkeys(selected)}
    return ItemTable(
        keys,
        None if vector is None else _vectors(file, columns, _matching(file, names, vector)),
        None if text is None else [_text(file, text, row, cell) for row, cell in enumerate(columns[text].cells())],
        None if label is None else [None if _is_empty(cell) else str(cell) for cell in columns[label].cells()],
        [
            {name: values[row] for name, values in cells.items() if not _is_empty(values[row])}
            for row in range(len(keys))
        ],
    )


@dataclass(frozen=True)
class _CsvColumn:
    texts: list[str]

    def cells(self) -> list[Any]:
        return self.texts

    def values(self) -> list[Any]:
        """Return numbers if every cell with content is a number, otherwise texts."""
        numbers = [None if cell == "" else _number(cell) for cell in self.texts]
        if all(number is not None or cell == "" for number, cell in zip(numbers, self.texts, strict=True)):
            return numbers
        return self.texts


@dataclass(frozen=True)
class _ParquetCells:
    column: ParquetColumn

    def cells(self) -> list[Any]:
        return list(self.column.values.to_pylist())

    def values(self) -> list[Any]:
        """Return values that JSON can represent. Other values, such as dates, become texts."""
        return [
            cell if isinstance(cell, str | int | float | bool | None) else _as_json(cell) for cell in self.cells()
        ]


_Column = _CsvColumn | _ParquetCells


def _csv_columns(path: Path) -> dict[str, _Column]:
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            rows = []
            for cells in filter(None, lines):
                if len(cells) != len(header):
                    raise InvalidInputError(
                        f"{path}, line {lines.line_num}: the line must have {len(header)} columns, like the "
                        f"header. Got {len(cells)} instead."
                    )
                rows.append([cell.strip() for cell in cells])
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{path}, line {lines.line_num + 1}: {error}.") from error
    for name, times in Counter(header).items():
        if times > 1 or not name:
            raise InvalidInputError(f"{path}: each column needs its own name. Got {name!r} {times} times.")
    return {name: _CsvColumn([row[at] for row in rows]) for at, name in enumerate(header)}


def _parquet_columns(path: Path) -> dict[str, _Column]:
    try:
        return {column.name: _ParquetCells(column) for column in read_columns(path)}
    except ValueError as error:
        raise InvalidInputError(f"{path} is not a valid Parquet file: {error}.") from error


def _matching(path: Path, names: list[str], pattern: str) -> list[str]:
    found = [name for name in names if name == pattern or fnmatchcase(name, pattern)]
    if not found:
        raise InvalidInputError(f"{path} has no column {pattern!r}. The columns are {shorten(names)}.")
    return found


def _vectors(path: Path, columns: dict[str, _Column], names: list[str]) -> NDArray[np.float64]:
    selected = [columns[name] for name in names]
    parquet = [column.column for column in selected if isinstance(column, _ParquetCells)]
    if parquet:
        table = feature_table(parquet).astype(np.float64)
    elif len(names) == 1 and any(cell.startswith("[") for cell in columns[names[0]].cells()[:1]):
        table = _stack(
            path, names[0], [_list(path, names[0], row, cell) for row, cell in _cells(columns, names[0])]
        )
    else:
        table = np.array(
            [[_feature(path, name, row, cell) for row, cell in _cells(columns, name)] for name in names], np.float64
        ).T
    if not (finite := np.isfinite(table).all(axis=1)).all():
        raise InvalidInputError(f"{path}: the vector in row {int(np.argmin(finite))} must be finite.")
    return table


def _cells(columns: dict[str, _Column], name: str) -> list[tuple[int, Any]]:
    return list(enumerate(columns[name].cells()))


def _stack(path: Path, name: str, rows: list[list[float]]) -> NDArray[np.float64]:
    for row, numbers in enumerate(rows):
        if len(numbers) != len(rows[0]):
            raise InvalidInputError(
                f"{path}, column {name!r}: all lists must have the same length. Row 0 has {len(rows[0])} numbers "
                f"and row {row} has {len(numbers)}."
            )
    return np.array(rows, np.float64)


def _list(path: Path, name: str, row: int, cell: str) -> list[float]:
    try:
        return [float(number) for number in json.loads(cell)]
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{path}, column {name!r}, row {row}: the cell must be a JSON list of numbers. Got {shorten(cell)} "
            "instead."
        ) from error


def _feature(path: Path, name: str, row: int, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InvalidInputError(
            f"{path}, column {name!r}, row {row}: the cell must be a number. Got {shorten(cell)} instead."
        ) from None


def _text(path: Path, name: str, row: int, cell: Any) -> str:
    if _is_empty(cell):
        raise InvalidInputError(f"{path}, column {name!r}, row {row}: the cell must not be empty.")
    return str(cell)


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell))


def _number(cell: str) -> float | int | None:
    """Return a number in JSON form, or None. Texts such as 007 are not numbers."""
    try:
        found = json.loads(cell)
    except ValueError:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return found if is_number else None


def _as_json(cell: Any) -> Any:
    try:
        json.dumps(cell, allow_nan=False)
    except (TypeError, ValueError):
        return str(cell)
    return cell
