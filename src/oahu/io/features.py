"""The table of items that constraints by id point into, with their ids and labels, from a file.

``.npy``: an array of shape (n_items, n_features), opened as a memory map. ``.npz``: the array ``X``, or the only
one of two dimensions, and, if there, ``ids`` or ``keys``, and ``y`` or ``labels``. ``.csv``, ``.tsv``: a header,
numbers, and, if there, a column ``id`` or ``key``, and a column ``label``. ``.parquet``: the same columns, or one
column of lists of numbers, all of one length, in place of the columns of numbers.

Without ids, an item's id is its row, counted from 0. Labels are integers or strings: whole floats, true and false
become integers. In text, labels are integers if all of them are, as Python writes them, and strings otherwise;
spaces around a label are not a part of it.
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
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oahu.arrays import as_array
from oahu.exceptions import InvalidInputError, StreamError
from oahu.io.parquet import read_columns, table_of
from oahu.io.streams import as_id

__all__ = ["FeatureTable", "read_features", "read_labels"]

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_KEYS: Final = ("id", "key")
_LABEL: Final = "label"
_ID_ARRAYS: Final = ("ids", "keys")
_LABEL_ARRAYS: Final = ("y", "labels")


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of items, where each item's are, and what is known of its class.

    Attributes
    ----------
    table : ndarray of shape (n_items, n_features)
        May be a memory map larger than memory.
    rows : dict of the row of every id, or None
        None says that an id is its row. The id "7" is the same as 7, and is here as 7.
    labels : ndarray of shape (n_items,), or None
        Integers or strings: the class of every item.

    Examples
    --------
    >>> features = FeatureTable(np.eye(2), {"tea": 0, 7: 1})
    >>> features.row("tea"), features.row("7")
    (0, 1)
    >>> features.keys
    ['tea', 7]
    """

    table: NDArray[Any]
    rows: dict[int | str, int] | None = None
    labels: NDArray[Any] | None = None

    @property
    def keys(self) -> list[int | str]:
        """The id of every item, in the order of the table."""
        if self.rows is None:
            return list(range(len(self.table)))
        return sorted(self.rows, key=self.rows.__getitem__)  # one pass if they are in order, as from a file

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


def read_features(path: str | os.PathLike[str]) -> FeatureTable:
    """Open a table of features; what a file may hold is said at the top of this module.

    A missing file is a FileNotFoundError, anything wrong in it an InvalidInputError. Whether the values are finite
    is for the learner to say.
    """
    path = Path(path)
    with _naming(path, "features"):
        table, ids, labels = _contents(path)
    if as_array(table, f"features in {path}").ndim != 2 or 0 in table.shape:
        raise InvalidInputError(
            f"The features in {path} must have shape (n_items, n_features), neither 0. Got {table.shape} instead."
        )
    rows = None if ids is None else _index(ids, len(table), path)
    if labels is not None:
        labels = _checked_labels(labels, path)
        if len(labels) != len(table):
            raise InvalidInputError(
                f"{path} has {len(labels)} labels for {len(table)} items: every item needs one."
            )
    return FeatureTable(table, rows, labels)


def read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Labels that are in a file of their own, in the order of the items: an array of shape (n_items,).

    ``.npy``: integers or strings. ``.txt``: a label a line, as it stands. ``.csv``: the same with CSV's quotes, and
    ``label`` in its first line is a header. Blank lines may be at the end only: elsewhere a label would be missing.
    What becomes an integer is said at the top of this module.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with _naming(path, "labels"):
        if suffix == ".npy":
            with path.open("rb") as file:
                labels = np.lib.format.read_array(file, allow_pickle=False)
        elif suffix in (".txt", ".csv"):
            labels = _from_text(_label_lines(path, suffix == ".csv"))
        else:
            raise InvalidInputError(f"Labels must be in a .npy, .txt or .csv file. Got {path} instead.")
    if labels.size == 0:
        raise InvalidInputError(f"{path} must have a label for every item. Got none instead.")
    return _checked_labels(labels, path)


class _Contents(NamedTuple):
    """What a file of features holds, as it is there."""

    table: NDArray[Any]
    ids: list[Any] | None = None
    labels: NDArray[Any] | None = None


@contextmanager
def _naming(path: Path, what: str) -> Iterator[None]:
    """Say which file it is that NumPy or pyarrow cannot read."""
    try:
        yield
    except InvalidInputError:
        raise
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # Pickled objects are among them: they are never loaded.
        kind = path.suffix.lower()
        raise InvalidInputError(f"{path} cannot be read as a {kind} file of {what} ({error}).") from error


def _contents(path: Path) -> _Contents:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _Contents(np.lib.format.open_memmap(path, mode="r"))
    if suffix == ".npz":
        return _from_npz(path)
    if suffix in _DELIMITERS:
        return _from_csv(path, _DELIMITERS[suffix])
    if suffix == ".parquet":
        return _from_parquet(path)
    raise InvalidInputError(f"Features must be in a .npy, .npz, .csv, .tsv or .parquet file. Got {path} instead.")


def _from_npz(path: Path) -> _Contents:
    with path.open("rb") as file:  # NumPy leaves a path open when the archive is damaged
        arrays = np.load(file, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise InvalidInputError(f"{path} is not a .npz archive.")
        members: dict[str, Any] = {name: arrays[name] for name in arrays}
    found = {name: member for name, member in members.items() if isinstance(member, np.ndarray)}  # others are bytes
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
            f"{path} must have an array 'X', or one array of two dimensions. Got {len(tables)} of those instead."
        )
    return _Contents(tables[0], None if ids is None else ids.tolist(), labels)


def _from_parquet(path: Path) -> _Contents:
    columns = read_columns(path)
    key, label = _places([column.name for column in columns])
    return _Contents(
        table_of([column for place, column in enumerate(columns) if place not in (key, label)]),
        None if key is None else columns[key].ids(),
        None if label is None else columns[label].labels(),
    )


def _from_csv(path: Path, delimiter: str) -> _Contents:
    values = array("d")
    ids: list[str] = []
    labels: list[str] = []
    with path.open("rb") as file:
        lines = csv.reader(_decoded(file, path), delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            _check_header(header)
            key, label = _places(header)
            numeric = [place not in (key, label) for place in range(len(header))]
            names = list(compress(header, numeric))
            for cells in filter(None, lines):
                if len(cells) != len(header):
                    raise InvalidInputError("the line must have as many columns as the header.")
                if key is not None:
                    ids.append(cells[key])
                if label is not None:
                    labels.append(_label(cells[label]))
                values.extend(_numbers(list(compress(cells, numeric)), names))
        except StreamError:
            raise
        except (InvalidInputError, csv.Error) as error:
            raise StreamError(str(error), str(path), lines.line_num) from error
    table = np.asarray(values).reshape(len(values) // max(len(names), 1), len(names))
    return _Contents(table, None if key is None else ids, None if label is None else _from_text(labels))


def _decoded(lines: Iterable[bytes], path: Path) -> Iterator[str]:
    """Decoded line by line, so that an error is on its line."""
    for number, line in enumerate(lines, 1):
        try:
            text = line.removeprefix(BOM_UTF8).decode()
        except UnicodeDecodeError as error:
            raise StreamError(f"not UTF-8 text ({error}).", str(path), number) from error
        yield text


def _places(names: list[str]) -> tuple[int | None, int | None]:
    """Which columns are no features: the one of ids, and the one of labels."""
    key = next((place for place, name in enumerate(names) if name in _KEYS), None)
    return key, names.index(_LABEL) if _LABEL in names else None


def _check_header(names: list[str]) -> None:
    """Refuse what is no header: a first item must not be lost, nor a column of row numbers be learned from."""
    if not all(names):
        raise InvalidInputError(f"every column needs a name: column {names.index('') + 1} has none.")
    if names.count(_LABEL) > 1:
        raise InvalidInputError(f"there must be one column {_LABEL!r}. Got {names.count(_LABEL)} instead.")
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


# -- labels ----------------------------------------------------------------------------------------------


def _label_lines(path: Path, is_csv: bool) -> list[str]:
    """The label of every line, without the header of CSV."""
    labels: list[str] = []
    for number, line in enumerate(_decoded(path.read_bytes().rstrip().splitlines(), path), 1):
        try:
            cells = next(csv.reader([line], strict=True), []) if is_csv else [line]
            if len(cells) > 1:
                raise InvalidInputError(f"the line must have one label. Got {len(cells)} columns instead.")
            labels.append(_label("".join(cells)))
        except (InvalidInputError, csv.Error) as error:
            raise StreamError(str(error), str(path), number) from error
    return labels[1:] if is_csv and labels[:1] == [_LABEL] else labels


def _label(text: str) -> str:
    label = text.strip()
    if not label:
        raise InvalidInputError("a label must not be blank.")
    return label


def _from_text(labels: list[str]) -> NDArray[Any]:
    """Labels as integers if all of them are, and are small enough for an array of those; else as they are."""
    read = [as_id(label) for label in labels]
    if all(isinstance(label, int) for label in read):
        with suppress(OverflowError):
            return np.array(read, dtype=np.int64)
    return np.array(labels, dtype=np.str_)


def _checked_labels(labels: NDArray[Any], path: Path) -> NDArray[Any]:
    """Labels as integers or strings, one an item."""
    kind = labels.dtype.kind
    if labels.ndim != 1 or kind not in "iuUbf":
        raise InvalidInputError(
            f"The labels in {path} must be integers or strings of shape (n_items,). "
            f"Got {labels.dtype} of shape {labels.shape} instead."
        )
    if kind == "U" and (blank := np.char.strip(labels) == "").any():
        raise InvalidInputError(f"{path} has a blank label for row {blank.argmax()}.")
    if kind == "f":
        wide = labels.astype(np.float64)
        broken = (wide != np.floor(wide)) | ~(np.abs(wide) < 2.0**63)  # the second also finds NaN
        if broken.any():
            row = int(broken.argmax())
            raise InvalidInputError(
                f"The labels in {path} must be integers or strings. Got {labels[row]} for row {row} instead."
            )
    return labels.astype(np.int64) if kind in "bf" else labels
