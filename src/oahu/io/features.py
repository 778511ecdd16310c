"""Reader of feature tables: the features of items, optionally with ids and labels.

- ``.npy``: an array of shape (n_items, n_features). It is opened as a memory map.
- ``.npz``: features in the array ``X``, or in the only two-dimensional array. Optional arrays are ``ids`` or
  ``keys`` for the ids, and ``y`` or ``labels`` for the labels.
- ``.csv``, ``.tsv``: a header, and one line per item. Optional columns are ``id`` or ``key``, and ``label``. All
  other columns are features.
- ``.parquet``: the same columns as ``.csv``. The features may also be one column of lists of equal length.

Without ids, the id of an item is its row number, counted from 0. Labels are integers or strings. Labels that are
whole floats or booleans become integers. Labels in text files become integers if every label is written as
Python writes integers (``7``, but not ``007``). Spaces around a label in a text file are removed.
"""

from __future__ import annotations

import csv
import os
import zipfile
import zlib
from array import array
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.arrays import as_array
from oahu.exceptions import InvalidInputError, StreamError
from oahu.io.parquet import feature_table, read_columns
from oahu.io.streams import as_id
from oahu.messages import shorten

__all__ = ["FeatureTable", "read_features", "read_labels"]

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_ID_COLUMNS: Final = ("id", "key")
_LABEL_COLUMN: Final = "label"
_ID_ARRAYS: Final = ("ids", "keys")
_LABEL_ARRAYS: Final = ("y", "labels")


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of items, with ids and labels.

    Attributes
    ----------
    table : ndarray of shape (n_items, n_features)
        Features of the items. The array may be a memory map that is larger than the memory.
    rows : dict, or None
        Row number of each id. None if the ids are the row numbers. The ids "7" and 7 are the same id, stored as the
        integer 7.
    labels : ndarray of shape (n_items,), or None
        Labels of the items: integers or strings.

    Examples
    --------
    >>> features = FeatureTable(np.eye(2), {"tea": 0, 7: 1})
    >>> features.row("tea"), features.row("7")
    (0, 1)
    >>> features.ids
    ['tea', 7]
    """

    table: NDArray[Any]
    rows: dict[int | str, int] | None = None
    labels: NDArray[Any] | None = None

    @property
    def ids(self) -> list[int | str]:
        """Ids of the items, in the order of the table."""
        if self.rows is None:
            return list(range(len(self.table)))
        return sorted(self.rows, key=self.rows.__getitem__)  # linear time if already in order, as from a file

    def row(self, item: Any) -> int:
        """Return the row number of the item with this id."""
        key = as_id(item) if isinstance(item, str) else item
        if isinstance(key, int | str | np.integer) and not isinstance(key, bool):
            if self.rows is not None:
                row = self.rows.get(key)  # type: ignore[arg-type]  # NumPy integers hash and compare like Python integers
                if row is not None:
                    return row
            elif not isinstance(key, str) and 0 <= key < len(self.table):
                return int(key)
        raise InvalidInputError(f"The feature table has no item {shorten(item)}. It has {self._describe_ids()}.")

    def _describe_ids(self) -> str:
        if self.rows is None:
            return f"rows 0 to {len(self.table) - 1}"
        some = ", ".join(shorten(key) for key, _ in zip(self.rows, range(3), strict=False))
        return f"the ids {some}" if len(self.rows) <= 3 else f"{len(self.rows)} ids such as {some}"


def read_features(path: str | os.PathLike[str]) -> FeatureTable:
    """Read a feature table from a file. The module `oahu.io.features` documents the file formats.

    A missing file raises FileNotFoundError. An invalid file raises InvalidInputError. This function does not check
    that the values are finite, because learners check their input.
    """
    path = Path(path)
    with _add_path_to_errors(path, "features"):
        table, ids, labels = _read_contents(path)
    if as_array(table, f"features in {path}").ndim != 2 or 0 in table.shape:
        raise InvalidInputError(
            f"The features in {path} must have shape (n_items, n_features) and not be empty. "
            f"Got shape {table.shape} instead."
        )
    rows = None if ids is None else _index_ids(ids, len(table), path)
    if labels is not None:
        labels = _validate_labels(labels, path)
        if len(labels) != len(table):
            raise InvalidInputError(
                f"{path} has {len(labels)} labels, but {len(table)} items. Each item needs one label."
            )
    return FeatureTable(table, rows, labels)


def read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read labels from a file. Return an array of shape (n_items,), in the order of the items.

    A ``.npy`` file contains an array of integers or strings. A ``.txt`` file contains one label per line. A
    ``.csv`` file contains one label per line, optionally in quotes, with an optional header ``label``. Blank lines
    are allowed only at the end. The module `oahu.io.features` documents which labels become integers.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with _add_path_to_errors(path, "labels"):
        if suffix == ".npy":
            with path.open("rb") as file:
                _check_no_objects(file, f"The labels in {path}", "labels.astype(str)")
                file.seek(0)
                labels = np.lib.format.read_array(file, allow_pickle=False)
        elif suffix in (".txt", ".csv"):
            labels = _labels_from_text(_label_lines(path, suffix == ".csv"))
        else:
            raise InvalidInputError(f"Labels must be in a .npy, .txt or .csv file. Got {path} instead.")
    if labels.size == 0:
        raise InvalidInputError(f"{path} contains no labels. Each item needs one label.")
    return _validate_labels(labels, path)


class _Contents(NamedTuple):
    """Contents of a feature file before validation."""

    table: NDArray[Any]
    ids: list[Any] | None = None
    labels: NDArray[Any] | None = None


@contextmanager
def _add_path_to_errors(path: Path, what: str) -> Iterator[None]:
    """Convert errors of NumPy and pyarrow to `InvalidInputError` with the path of the file in the message."""
    try:
        yield
    except InvalidInputError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # NumPy also raises ValueError for pickled objects, which are never loaded.
        raise InvalidInputError(f"Cannot read {what} from {path}: {error}.") from error


def _read_contents(path: Path) -> _Contents:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        with path.open("rb") as file:
            _check_no_objects(file, f"The array in {path}", "X.astype(float)")
        return _Contents(np.lib.format.open_memmap(path, mode="r"))
    if suffix == ".npz":
        return _read_npz(path)
    if suffix in _DELIMITERS:
        return _read_csv(path, _DELIMITERS[suffix])
    if suffix == ".parquet":
        return _read_parquet(path)
    raise InvalidInputError(f"Features must be in a .npy, .npz, .csv, .tsv or .parquet file. Got {path} instead.")


def _read_npz(path: Path) -> _Contents:
    with path.open("rb") as file:  # given a path, NumPy does not close a damaged archive
        arrays = np.load(file, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise InvalidInputError(f"{path} is not a .npz archive.")
        members: dict[str, Any] = {}
        for name in arrays:
            _check_npz_member(arrays, name, path)
            members[name] = arrays[name]
    found = {name: member for name, member in members.items() if isinstance(member, np.ndarray)}  # not raw bytes
    ids = next((found[name] for name in _ID_ARRAYS if name in found), None)
    if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iuU"):
        raise InvalidInputError(
            f"The ids in {path} must be integers or strings of shape (n_items,). "
            f"Got {ids.dtype} of shape {ids.shape} instead."
        )
    labels = next((found[name] for name in _LABEL_ARRAYS if name in found), None)
    others = {name: table for name, table in found.items() if name not in _ID_ARRAYS + _LABEL_ARRAYS}
    tables = [others["X"]] if "X" in others else [table for table in others.values() if table.ndim == 2]
    if len(tables) != 1:
        raise InvalidInputError(
            f"{path} must contain an array 'X', or exactly one two-dimensional array. Got {len(tables)} instead."
        )
    return _Contents(tables[0], None if ids is None else ids.tolist(), labels)


def _check_npz_member(archive: Any, name: str, path: Path) -> None:
    """Raise an error if the array ``name`` in a .npz archive contains Python objects.

    The error message shows how to convert the array to numbers or strings.
    """
    if f"{name}.npy" not in archive.zip.namelist():
        return  # not an array
    convert = f"{name}.astype({'str' if name in _ID_ARRAYS + _LABEL_ARRAYS else 'float'})"
    with archive.zip.open(f"{name}.npy") as file:
        _check_no_objects(file, f"The array {name!r} in {path}", convert)


def _check_no_objects(file: IO[bytes], what: str, convert: str) -> None:
    """Raise an error if an open .npy file contains Python objects.

    NumPy stores Python objects as a pickle, and loading a pickle could run code.
    """
    read_header = (
        np.lib.format.read_array_header_1_0
        if np.lib.format.read_magic(file) == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    if read_header(file)[2].hasobject:
        raise InvalidInputError(
            f"{what} contains Python objects (dtype object), which are not loaded. Convert the array with "
            f"{convert} before saving."
        )


def _read_parquet(path: Path) -> _Contents:
    columns = read_columns(path)
    id_column, label_column = _id_and_label([column.name for column in columns])
    return _Contents(
        feature_table([column for i, column in enumerate(columns) if i not in (id_column, label_column)]),
        None if id_column is None else columns[id_column].ids(),
        None if label_column is None else columns[label_column].labels(),
    )


def _read_csv(path: Path, delimiter: str) -> _Contents:
    values = array("d")
    ids: list[str] = []
    labels: list[str] = []
    with path.open("rb") as file:
        lines = csv.reader(_decode_lines(file, path), delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            _check_header(header)
            id_column, label_column = _id_and_label(header)
            is_feature = [i not in (id_column, label_column) for i in range(len(header))]
            names = list(compress(header, is_feature))
            for cells in filter(None, lines):
                if len(cells) != len(header):
                    raise InvalidInputError(
                        f"the line must have {len(header)} columns, like the header. Got {len(cells)}."
                    )
                if id_column is not None:
                    ids.append(cells[id_column])
                if label_column is not None:
                    labels.append(_strip_label(cells[label_column]))
                values.extend(_parse_numbers(list(compress(cells, is_feature)), names))
        except StreamError:
            raise
        except (InvalidInputError, csv.Error) as error:
            raise StreamError(str(error), str(path), lines.line_num) from error
    table = np.asarray(values).reshape(len(values) // max(len(names), 1), len(names))
    return _Contents(
        table,
        None if id_column is None else ids,
        None if label_column is None else _labels_from_text(labels),
    )


def _decode_lines(lines: Iterable[bytes], path: Path) -> Iterator[str]:
    """Decode the lines one by one, so that an error message can contain the line number."""
    for number, line in enumerate(lines, 1):
        try:
            text = line.removeprefix(BOM_UTF8).decode()
        except UnicodeDecodeError as error:
            raise StreamError(f"the line is not UTF-8 text ({error}).", str(path), number) from error
        yield text


def _id_and_label(names: list[str]) -> tuple[int | None, int | None]:
    """Return the index of the id column and the index of the label column. For a missing column, return None."""
    id_column = next((i for i, name in enumerate(names) if name in _ID_COLUMNS), None)
    return id_column, names.index(_LABEL_COLUMN) if _LABEL_COLUMN in names else None


def _check_header(names: list[str]) -> None:
    """Raise an error if the first line is not a valid header.

    If a file has no header, its first item would be read as a header. If a header has an unnamed column, the column
    may contain row numbers, which are not features.
    """
    if not all(names):
        raise InvalidInputError(f"each column needs a name. Column {names.index('') + 1} has none.")
    if names.count(_LABEL_COLUMN) > 1:
        raise InvalidInputError(
            f"there must be one column {_LABEL_COLUMN!r}. Got {names.count(_LABEL_COLUMN)} instead."
        )
    try:
        numbers = list(map(float, names))
    except ValueError:
        return
    if numbers != list(range(len(names))):  # pandas numbers columns without names
        raise InvalidInputError("the first line must be a header with column names. Got numbers instead.")


def _parse_numbers(cells: list[str], names: list[str]) -> list[float]:
    try:
        return list(map(float, cells))
    except ValueError:
        for name, cell in zip(names, cells, strict=True):
            try:
                float(cell)
            except ValueError:
                raise InvalidInputError(
                    f"column {name!r} must contain numbers. Got {shorten(cell)} instead."
                ) from None
        raise


def _index_ids(ids: list[Any], n_items: int, path: Path) -> dict[int | str, int]:
    """Return the row number of each id. Raise an error for blank or repeated ids."""
    if len(ids) != n_items:
        raise InvalidInputError(f"{path} has {len(ids)} ids, but {n_items} items. Each item needs one id.")
    rows: dict[int | str, int] = {}
    for row, item in enumerate(ids):
        key = as_id(item) if isinstance(item, str) else item
        if rows.setdefault(key, row) != row:
            raise InvalidInputError(f"{path} has the id {shorten(item)} twice, in rows {rows[key]} and {row}.")
        if key == "" or (isinstance(key, str) and key.isspace()):
            raise InvalidInputError(f"{path} has a blank id in row {row}.")
    return rows


# -- labels ----------------------------------------------------------------------------------------------


def _label_lines(path: Path, is_csv: bool) -> list[str]:
    """Return the label on each line, without the header of a CSV file."""
    labels: list[str] = []
    for number, line in enumerate(_decode_lines(path.read_bytes().rstrip().splitlines(), path), 1):
        try:
            cells = next(csv.reader([line], strict=True), []) if is_csv else [line]
            if len(cells) > 1:
                raise InvalidInputError(f"the line must contain one label. Got {len(cells)} columns instead.")
            labels.append(_strip_label("".join(cells)))
        except (InvalidInputError, csv.Error) as error:
            raise StreamError(str(error), str(path), number) from error
    return labels[1:] if is_csv and labels[:1] == [_LABEL_COLUMN] else labels


def _strip_label(text: str) -> str:
    label = text.strip()
    if not label:
        raise InvalidInputError("a label must not be blank.")
    return label


def _labels_from_text(labels: list[str]) -> NDArray[Any]:
    """Return labels as int64 if all labels are integers in the range of int64, otherwise as strings."""
    read = [as_id(label) for label in labels]
    if all(isinstance(label, int) for label in read):
        with suppress(OverflowError):
            return np.array(read, dtype=np.int64)
    return np.array(labels, dtype=np.str_)


def _validate_labels(labels: NDArray[Any], path: Path) -> NDArray[Any]:
    """Validate labels. Return them as an array of integers or strings."""
    kind = labels.dtype.kind
    if labels.ndim != 1 or kind not in "iuUbf":
        raise InvalidInputError(
            f"The labels in {path} must be integers or strings of shape (n_items,). "
            f"Got {labels.dtype} of shape {labels.shape} instead."
        )
    if kind == "U" and (blank := np.char.strip(labels) == "").any():
        raise InvalidInputError(f"{path} has a blank label in row {blank.argmax()}.")
    if kind == "f":
        wide = labels.astype(np.float64)
        broken = (wide != np.floor(wide)) | ~(np.abs(wide) < 2.0**63)  # the second condition includes NaN
        if broken.any():
            row = int(broken.argmax())
            raise InvalidInputError(
                f"The labels in {path} must be integers or strings. Got {labels[row]} in row {row} instead."
            )
    return labels.astype(np.int64) if kind in "bf" else labels
