"""The table of items that constraints by id point into, from a file.

``.npy``: an array of shape (n_items, n_features), opened as a memory map. ``.npz``: the array ``X``, or the only
one of two dimensions, and, if there, ``ids`` or ``keys``. ``.csv``, ``.tsv``: a header, numbers, and, if there, a
column ``id`` or ``key``. Without ids, an item's id is its row, counted from 0.
"""

from __future__ import annotations

import csv
import os
import zipfile
import zlib
from array import array
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.arrays import as_array
from oahu.constraints.streams import as_id
from oahu.exceptions import InvalidInputError, StreamError

__all__ = ["Features", "read_features"]

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_KEYS: Final = ("id", "key")
_ID_ARRAYS: Final = ("ids", "keys")


@dataclass(frozen=True, eq=False)
class Features:
    """Features of items, and where each item's are.

    Attributes
    ----------
    table : ndarray of shape (n_items, n_features)
        May be a memory map larger than memory.
    rows : dict of the row of every id, or None
        None says that an id is its row. The id "7" is the same as 7, and is here as 7.

    Examples
    --------
    >>> features = Features(np.eye(2), {"tea": 0, 7: 1})
    >>> features.row("tea"), features.row("7")
    (0, 1)
    """

    table: NDArray[Any]
    rows: dict[int | str, int] | None = None

    def row(self, item: Any) -> int:
        """The row of an item's id."""
        key = as_id(item) if isinstance(item, str) else item
        if isinstance(key, int | str | np.integer) and not isinstance(key, bool):
            if self.rows is not None:
                row = self.rows.get(key)  # type: ignore[arg-type]  # NumPy's integers hash and compare as Python's
                if row is not None:
                    return row
            elif not isinstance(key, str) and 0 <= key < len(self.table):
                return int(key)
        raise InvalidInputError(f"There is no item {item!r} in the features, which have {self._known()}.")

    def _known(self) -> str:
        if self.rows is None:
            return f"rows 0 to {len(self.table) - 1}"
        some = ", ".join(repr(key) for key, _ in zip(self.rows, range(3), strict=False))
        return f"the ids {some}" if len(self.rows) <= 3 else f"{len(self.rows)} ids such as {some}"


def read_features(path: str | os.PathLike[str]) -> Features:
    """Open a table of features; what a file may hold is said at the top of this module.

    A missing file is a FileNotFoundError, anything wrong in it an InvalidInputError. Whether the values are finite
    is for the learner to say.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    table: NDArray[Any]
    try:
        if suffix == ".npy":
            table, ids = np.lib.format.open_memmap(path, mode="r"), None
        elif suffix == ".npz":
            table, ids = _from_npz(path)
        elif suffix in _DELIMITERS:
            table, ids = _from_csv(path, _DELIMITERS[suffix])
        else:
            raise InvalidInputError(f"Features must be in a .npy, .npz, .csv or .tsv file. Got {path} instead.")
    except InvalidInputError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # Pickled objects are among them: they are never loaded.
        raise InvalidInputError(f"{path} cannot be read as a {suffix} file of features ({error}).") from error
    if as_array(table, f"features in {path}").ndim != 2 or 0 in table.shape:
        raise InvalidInputError(
            f"The features in {path} must have shape (n_items, n_features), neither 0. Got {table.shape} instead."
        )
    return Features(table, None if ids is None else _index(ids, len(table), path))


def _from_npz(path: Path) -> tuple[NDArray[Any], list[Any] | None]:
    with path.open("rb") as file:  # NumPy leaves a path open when the archive is damaged
        arrays = np.load(file, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise InvalidInputError(f"{path} is not a .npz archive.")
        # A member that is no array comes as bytes.
        found: dict[str, Any] = {name: arrays[name] for name in arrays if isinstance(arrays[name], np.ndarray)}
        ids = next((found[name] for name in _ID_ARRAYS if name in found), None)
        if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iuU"):
            raise InvalidInputError(
                f"The ids in {path} must be integers or strings of shape (n_items,). "
                f"Got {ids.dtype} of shape {ids.shape} instead."
            )
        others = {name: table for name, table in found.items() if name not in _ID_ARRAYS}
        tables = [others["X"]] if "X" in others else [table for table in others.values() if table.ndim == 2]
    if len(tables) != 1:
        raise InvalidInputError(
            f"{path} must have an array 'X', or one array of two dimensions. Got {len(tables)} of those instead."
        )
    return tables[0], None if ids is None else ids.tolist()


def _from_csv(path: Path, delimiter: str) -> tuple[NDArray[Any], list[Any] | None]:
    values = array("d")
    ids: list[str] = []
    with path.open("rb") as file:
        # Decoded line by line, so that an error is on its line.
        decoded = (line.removeprefix(BOM_UTF8).decode() for line in file)
        lines = csv.reader(decoded, delimiter=delimiter, strict=True)
        try:
            names = [name.strip() for name in next(lines, [])]
            _check_header(names)
            key = next((column for column, name in enumerate(names) if name in _KEYS), None)
            if key is not None:
                names.pop(key)
            for cells in filter(None, lines):
                if len(cells) != len(names) + (key is not None):
                    raise InvalidInputError("the line must have as many columns as the header.")
                if key is not None:
                    ids.append(cells.pop(key))
                values.extend(_numbers(cells, names))
        except UnicodeDecodeError as error:
            raise StreamError(f"not UTF-8 text ({error}).", str(path), lines.line_num + 1) from error
        except (InvalidInputError, csv.Error) as error:
            raise StreamError(str(error), str(path), lines.line_num) from error
    height = len(values) // max(len(names), 1)
    return np.asarray(values).reshape(height, len(names)), None if key is None else ids


def _check_header(names: list[str]) -> None:
    """Refuse what is no header: a first item must not be lost, nor a column of row numbers be learned from."""
    if not all(names):
        raise InvalidInputError(f"every column needs a name: column {names.index('') + 1} has none.")
    try:
        numbers = list(map(float, names))
    except ValueError:
        return
    if numbers != list(range(len(names))):  # what pandas writes for columns without names is a header
        raise InvalidInputError(
            "the first line must be a header with the names of the columns. Got numbers instead."
        )


def _numbers(cells: list[str], names: list[str]) -> list[float]:
    try:
        return list(map(float, cells))
    except ValueError:
        for name, cell in zip(names, cells, strict=True):
            try:
                float(cell)
            except ValueError:
                raise InvalidInputError(f"column {name!r} must be a number. Got {cell!r} instead.") from None
        raise


def _index(ids: list[Any], n_items: int, path: Path) -> dict[int | str, int]:
    """The row of every id."""
    if len(ids) != n_items:
        raise InvalidInputError(f"{path} has {len(ids)} ids for {n_items} items: every item needs one.")
    rows: dict[int | str, int] = {}
    for row, item in enumerate(ids):
        key = as_id(item) if isinstance(item, str) else item
        if rows.setdefault(key, row) != row:
            raise InvalidInputError(f"{path} has the id {item!r} twice: for row {rows[key]} and for row {row}.")
        if key == "" or (isinstance(key, str) and key.isspace()):
            raise InvalidInputError(f"{path} has a blank id for row {row}.")
    return rows
