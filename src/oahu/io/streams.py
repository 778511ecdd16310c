"""Streams of constraints in JSON Lines and CSV, read and written line by line.

JSON Lines, one constraint per line::

    {"anchor": "tea", "positive": "green tea", "negative": "coffee"}
    {"first": 17, "second": 4, "same": false}
    ["tea", "green tea", "coffee"]
    [17, 4, false]
    {"anchor": [0.1, 2.0], "positive": [0.2, 1.9], "negative": [7.0, -1.0]}
    {"query": "tea", "positives": ["green tea"], "negatives": ["coffee", "cocoa"], "shown": ["milk"], "weight": 0.5}

An item is either an id (a string or an integer) or a list of numbers (its features). All items of a line must be of
the same kind. ``same`` is true or false, or 1 or -1. A list with true or false as its third entry is a pair. Any
other list is a triplet. An object with the fields of a pair and of a triplet is a triplet. Unknown fields of an
object are ignored. A click needs ``query`` and at least one of ``positives`` and ``negatives``. ``shown`` and
``weight`` are optional. The query of a click may be a list of numbers although the other items are ids.

CSV with commas, or TSV with tabs. The first line is a header with the column names, in any order. Unknown columns
are ignored::

    anchor,positive,negative            first.0,first.1,second.0,second.1,same
    tea,green tea,coffee                0.1,2.0,0.2,1.9,true

    query,positives,negatives,shown,weight
    17,4 8,15,16 23,0.5
    tea,green tea|oolong,coffee,,

The ids in a cell of a click are separated by spaces. If the cell contains "|", they are separated by "|" instead,
so that ids may contain spaces. A "|" at the end of the cell is ignored: "green tea|" is one id. Clicks with feature
values need JSON Lines.

An id in CSV is an integer if it is written as Python writes integers: ``7`` is the integer 7, but ``007`` is a
string. Spaces are part of an id. Blank lines are skipped, but they count in line numbers.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final, Literal, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np

from oahu.constraints.single import Click, Pair, Triplet, check_click, describe_part
from oahu.exceptions import InvalidInputError, StreamError
from oahu.messages import shorten

__all__ = ["PathOrFile", "StreamFormat", "StreamLine", "as_id", "read_stream", "write_stream"]

StreamFormat: TypeAlias = Literal["jsonl", "csv", "tsv"]
Constraint: TypeAlias = Pair | Triplet | Click
PathOrFile: TypeAlias = str | os.PathLike[str] | IO[bytes] | IO[str]

_MAX_LINE: Final = 64 * 2**20  # bytes
_NUMBER_TYPES: Final = {int, float}
_SUFFIXES: Final[dict[str, StreamFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
}
_DELIMITERS: Final[dict[StreamFormat, str]] = {"csv": ",", "tsv": "\t"}
_LABELS: Final[dict[str, bool | int]] = {"true": True, "1": 1, "+1": 1, "false": False, "-1": -1, "0": 0}
_REQUIRED: Final = (
    "'anchor', 'positive' and 'negative' for a triplet, 'first', 'second' and 'same' for a pair, or 'query' and "
    "'positives' or 'negatives' for a click"
)
_LISTS: Final = ("positives", "negatives", "shown")  # fields of a click
_NO_VALUES: Final = "a click with feature values cannot be written to CSV. Use JSON Lines."
_SEPARATOR: Final = "|"  # between ids that contain spaces


class StreamLine(NamedTuple):
    """A line of a stream.

    Attributes
    ----------
    number : int
        Line number, counted from 1.
    constraint : Pair, Triplet or Click
        Constraint on the line.
    text : bytes
        Text of the line, without the line break and without a byte order mark.
    """

    number: int
    constraint: Constraint
    text: bytes


def read_stream(source: PathOrFile, *, format: StreamFormat | None = None) -> Iterator[StreamLine]:  # noqa: A002
    """Yield each line of a stream with its constraint, as soon as the line has arrived.

    Parameters
    ----------
    source : path, "-" for standard input, or an open file of text or bytes
        Stream to read. A path is opened when the first line is read, and closed after the last line. An open file
        is not closed.
    format : {"jsonl", "csv", "tsv"}, optional
        Format of the stream. By default, the format follows from the file suffix, or else from the first line.

    Examples
    --------
    >>> import io
    >>> for line in read_stream(io.StringIO('["tea", "green tea", "coffee"]\\n\\n[17, 4, false]')):
    ...     print(line.number, line.constraint)
    1 Triplet(anchor='tea', positive='green tea', negative='coffee')
    3 Pair(first=17, second=4, same=False)
    """
    return _read(source, _choose_format(source, format, "readline"))


def write_stream(
    target: PathOrFile,
    constraints: Iterable[Constraint],
    *,
    format: StreamFormat | None = None,  # noqa: A002
) -> int:
    """Write constraints line by line. Return the number of constraints.

    Each constraint is validated before it is written. If a constraint is invalid, an error is raised. The earlier
    constraints have then been written. In CSV, all constraints must have the same columns.

    Parameters
    ----------
    target : path, "-" for standard output, or an open file of text or bytes
        Stream to write. An existing file is overwritten.
    constraints : iterable of Pair, Triplet and Click
        Constraints to write. Items may be NumPy scalars and arrays. Floats are written with all digits, so that
        reading returns the same values.
    format : {"jsonl", "csv", "tsv"}, optional
        Format of the stream. By default, the format follows from the file suffix, or else is "jsonl".

    Examples
    --------
    >>> write_stream("-", [Pair(17, 4, same=False)])
    {"first": 17, "second": 4, "same": false}
    1
    """
    chosen = _choose_format(target, format, "write") or "jsonl"
    as_line = _to_json if chosen == "jsonl" else _CsvWriter(_DELIMITERS[chosen])
    written = 0
    with _open(target, "wb") as (file, _):
        is_text = hasattr(file, "encoding")
        for written, constraint in enumerate(constraints, 1):
            try:
                line = as_line(_validate(constraint))
                file.write(line if is_text else line.encode())
            except (InvalidInputError, UnicodeEncodeError) as error:
                raise InvalidInputError(f"Constraint {written} (counted from 1): {error}") from error
    return written


def as_id(text: str) -> int | str:
    """Return the id in a text. If Python would write an integer as this text, the id is the integer, else the text.

    >>> as_id("7"), as_id("007"), as_id("tea")
    (7, '007', 'tea')
    """
    return int(text) if _is_integer(text) else text


_is_integer = re.compile(r"0|-?[1-9][0-9]{0,4000}").fullmatch  # int() rejects more than 4300 digits


# -- files -----------------------------------------------------------------------------------------------


def _choose_format(file: PathOrFile, given: StreamFormat | None, method: str) -> StreamFormat | None:
    """Return the format ``given``, or else the format of the file suffix, or None if both are missing.

    Raise an error if an open file does not have the method ``method``.
    """
    if not isinstance(file, str | os.PathLike) and not hasattr(file, method):
        raise InvalidInputError(f"A stream must be a path, '-' or an open file. Got {shorten(file)} instead.")
    if given is None:
        return _SUFFIXES.get(Path(file).suffix.lower()) if isinstance(file, str | os.PathLike) else None
    if given not in get_args(StreamFormat):
        raise InvalidInputError(
            f"The 'format' parameter must be 'jsonl', 'csv' or 'tsv'. Got {shorten(given)} instead."
        )
    return given


@contextmanager
def _open(target: PathOrFile, mode: Literal["rb", "wb"]) -> Iterator[tuple[IO[Any], str]]:
    """Yield the file to read or write, and its name for error messages. Afterwards, close a file opened here."""
    if isinstance(target, str) and target == "-":
        if mode == "rb":
            yield getattr(sys.stdin, "buffer", sys.stdin), "standard input"
        else:
            sys.stdout.flush()  # keeps the order with earlier prints
            file = getattr(sys.stdout, "buffer", sys.stdout)
            yield file, "standard output"
            file.flush()
    elif isinstance(target, str | os.PathLike):
        with Path(target).open(mode) as file:
            yield file, os.fspath(target)
    else:
        name = getattr(target, "name", None)
        yield target, name if isinstance(name, str) else "the stream"


def _number_lines(file: IO[Any], source: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the text of each line that is not blank, as soon as the line has arrived."""
    for number in count(1):
        try:
            raw = file.readline(_MAX_LINE + 1)
            line: bytes = raw.encode() if isinstance(raw, str) else raw
        except UnicodeError as error:  # the file was opened as text
            raise StreamError(f"the line is not UTF-8 text ({error}).", source, number) from error
        if len(line) > _MAX_LINE:
            raise StreamError(f"the line is longer than {_MAX_LINE:,} bytes.", source, number)
        if not line:
            return
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if line.strip():
            yield number, line.rstrip(b"\r\n")


# -- reading ---------------------------------------------------------------------------------------------


def _read(source: PathOrFile, chosen: StreamFormat | None) -> Iterator[StreamLine]:
    parse: Callable[[str], Constraint] | None = None
    with _open(source, "rb") as (file, name):
        for number, raw in _number_lines(file, name):
            try:
                text = raw.decode()
                if parse is None:
                    chosen = chosen or _guess_format(text)
                    parse = _from_json if chosen == "jsonl" else _csv_reader(text, _DELIMITERS[chosen])
                    if chosen != "jsonl":
                        continue  # this line is the header
                constraint = parse(text)
            except UnicodeDecodeError as error:
                byte = f"0x{raw[error.start]:02x} at byte {error.start + 1}"
                raise StreamError(f"the line is not UTF-8 text ({byte}).", name, number) from error
            except InvalidInputError as error:
                raise StreamError(str(error), name, number) from None
            yield StreamLine(number, constraint, raw)


def _guess_format(line: str) -> StreamFormat:
    if line.lstrip().startswith(("{", "[")):
        return "jsonl"
    return "tsv" if "\t" in line and "," not in line else "csv"


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


_decode: Final = json.JSONDecoder(parse_constant=_reject_constant).decode


def _from_json(text: str) -> Constraint:
    try:
        value = _decode(text)
    except json.JSONDecodeError as error:
        problem = f"invalid JSON ({error.msg}, column {error.colno}). Each line must contain one constraint."
        raise InvalidInputError(problem) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"invalid JSON ({error}).") from error
    if isinstance(value, dict):
        if "anchor" in value and "positive" in value and "negative" in value:
            return _triplet((value["anchor"], value["positive"], value["negative"]))
        if "first" in value and "second" in value and "same" in value:
            return _pair((value["first"], value["second"]), value["same"])
        if "query" in value and ("positives" in value or "negatives" in value):
            return _click(Click(**{name: value[name] for name in Click._fields if name in value}))
        raise InvalidInputError(f"an object must have the fields {_REQUIRED}. Got {shorten(list(value))} instead.")
    if isinstance(value, list) and len(value) == 3:
        return _pair(value[:2], value[2]) if isinstance(value[2], bool) else _triplet(value)
    raise InvalidInputError(
        "a constraint must be an object, or a list [anchor, positive, negative] or [first, second, true or false]. "
        f"Got {shorten(value)} instead."
    )


def _csv_reader(header: str, delimiter: str) -> _CsvReader:
    """Return the parser of the lines of a CSV file with a given header."""
    names = {name.strip() for name in _split_cells(header, delimiter)}
    are_clicks = "query" in names and (names & {"positives", "negatives"})
    # A header with the columns of several kinds of constraints is read as in JSON Lines.
    others = [{*Triplet._fields}, {*Pair._fields}]
    kind = _CsvClickReader if are_clicks and not any(other <= names for other in others) else _CsvTupleReader
    return kind(header, delimiter)


def _split_cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        problem = f"invalid CSV ({error}). A field must not contain a line break. Use JSON Lines instead."
        raise InvalidInputError(problem) from error


class _CsvReader(ABC):
    """Parser of the lines of a CSV file with a given header."""

    def __init__(self, header: str, delimiter: str) -> None:
        self._delimiter = delimiter
        self._header = [name.strip() for name in _split_cells(header, delimiter)]

    def _find(self, names: Iterable[str]) -> dict[str, int]:
        """Return the column number of each name. Raise an error unless each name occurs once in the header."""
        counts = Counter(self._header)
        for name in names:
            if counts[name] != 1:
                raise InvalidInputError(
                    f"the header must contain the column {name!r} once. Got {counts[name]} such columns instead."
                )
        return {name: self._header.index(name) for name in names}

    def __call__(self, line: str) -> Constraint:
        cells = _split_cells(line, self._delimiter)
        if len(cells) != len(self._header):
            raise InvalidInputError(
                f"the line must have {len(self._header)} columns, like the header. Got {len(cells)}."
            )
        return self._parse(cells)

    @abstractmethod
    def _parse(self, cells: list[str]) -> Constraint:
        """Return the constraint in the cells of a line."""


class _CsvTupleReader(_CsvReader):
    """Parser of lines with pairs or triplets."""

    def __init__(self, header: str, delimiter: str) -> None:
        super().__init__(header, delimiter)
        items, others = _find_columns(self._header)
        column_of = self._find([*(name for item in items for name in item), *others])
        self._items = [[column_of[name] for name in item] for item in items]
        self._by_value = "." in items[0][0]
        self._same = column_of["same"] if others else None

    def _parse(self, cells: list[str]) -> Constraint:
        items: list[Any]
        if self._by_value:
            items = [[self._number(cells, column) for column in item] for item in self._items]
        else:
            items = [as_id(cells[column]) for (column,) in self._items]
        if self._same is None:
            return _triplet(items)
        same = cells[self._same]
        return _pair(items, _LABELS.get(same.strip().lower(), same))

    def _number(self, cells: list[str], column: int) -> float:
        try:
            return float(cells[column])
        except ValueError:
            problem = f"{self._header[column]!r} must be a number. Got {shorten(cells[column])} instead."
            raise InvalidInputError(problem) from None


class _CsvClickReader(_CsvReader):
    """Parser of lines with clicks."""

    def __init__(self, header: str, delimiter: str) -> None:
        super().__init__(header, delimiter)
        self._columns = self._find([name for name in Click._fields if name in self._header])

    def _parse(self, cells: list[str]) -> Click:
        fields: dict[str, Any] = {"query": as_id(cells[self._columns["query"]])}
        for name in _LISTS:
            if name in self._columns:
                fields[name] = _split_ids(cells[self._columns[name]])
        weight = cells[self._columns["weight"]].strip() if "weight" in self._columns else ""
        if weight:
            try:
                fields["weight"] = float(weight)
            except ValueError:
                raise InvalidInputError(f"'weight' must be a number. Got {shorten(weight)} instead.") from None
        return _click(Click(**fields))


def _split_ids(cell: str) -> list[int | str]:
    """Return the ids in a cell of a click. `_join_ids` is the inverse.

    >>> _split_ids("4 8"), _split_ids("green tea|milk"), _split_ids("green tea|"), _split_ids("")
    ([4, 8], ['green tea', 'milk'], ['green tea'], [])
    """
    if _SEPARATOR in cell:
        return [as_id(text) for text in cell.removesuffix(_SEPARATOR).split(_SEPARATOR)]
    return [as_id(text) for text in cell.split(" ") if text]


def _join_ids(ids: Sequence[Any], name: str) -> str:
    """Return ids as the text of a cell of a click."""
    if any(isinstance(item, list) for item in ids):
        raise InvalidInputError(_NO_VALUES)
    texts = [str(item) for item in ids]
    for text in texts:
        if _SEPARATOR in text:
            raise InvalidInputError(
                f"an id in {name!r} of a click in CSV must not contain {_SEPARATOR!r}. Got {shorten(text)} "
                "instead. Use JSON Lines."
            )
    if not any(" " in text for text in texts):
        return " ".join(texts)
    return _SEPARATOR.join(texts) + (_SEPARATOR if len(texts) == 1 else "")


def _find_columns(header: list[str]) -> tuple[list[list[str]], list[str]]:
    """Return the column names of each item, and the names of the other required columns."""
    for names, others in ((Triplet._fields, []), (Pair._fields[:2], ["same"])):
        if {*names, *others} <= set(header):
            return [[name] for name in names], others
        if {*(f"{name}.0" for name in names), *others} <= set(header):
            parts = [column.partition(".") for column in header]
            counts = Counter(name for name, _, index in parts if index.isdecimal())
            width = max(counts[name] for name in names)
            return [[f"{name}.{index}" for index in range(width)] for name in names], others
    raise InvalidInputError(
        f"the first line must be a header with the columns {_REQUIRED}. If items are given by feature values, the "
        f"columns of an item are 'anchor.0', 'anchor.1' and so on. Got {shorten(header)} instead."
    )


# -- validation ------------------------------------------------------------------------------------------


def _triplet(items: Sequence[Any]) -> Triplet:
    return Triplet(*_validate_items(items, Triplet._fields.__getitem__))


def _pair(items: Sequence[Any], same: Any) -> Pair:
    first, second = _validate_items(items, Pair._fields.__getitem__)
    if same is not True and same is not False:
        number = same if type(same) in _NUMBER_TYPES else None
        if number not in (1, -1):
            hint = " The value 0 is ambiguous. Write -1 or false." if number == 0 else ""
            raise InvalidInputError(f"'same' must be true or false, or 1 or -1. Got {shorten(same)} instead.{hint}")
        same = number == 1
    return Pair(first, second, same)


def _click(click: Click) -> Click:
    """Return a click with tuples of validated items."""
    lists: list[Sequence[Any]] = []
    for name in _LISTS:
        items: Any = getattr(click, name)
        if not isinstance(items, list | tuple):
            raise InvalidInputError(f"{name!r} must be a list of items. Got {shorten(items)} instead.")
        lists.append(items)

    def name_of(place: int) -> str:
        return describe_part(place, len(lists[0]), len(lists[1]))

    query, rest = click.query, [item for part in lists for item in part]
    if type(query) is list and (not rest or type(rest[0]) is not list):  # only the query is a list of numbers
        query = _features(query, "query", len(query))
        rest = [*_validate_items(rest, lambda position: name_of(position + 1))]
    else:
        query, *rest = _validate_items([query, *rest], name_of)
    remaining = iter(rest)
    positives, negatives, shown = (tuple(islice(remaining, len(part))) for part in lists)
    click = Click(query, positives, negatives, shown, click.weight)
    check_click(click, "the click")
    return click._replace(weight=float(click.weight))


def _validate_items(items: Sequence[Any], name_of: Callable[[int], str]) -> Sequence[Any]:
    """Return the items. Raise an error unless all items are ids, or all items are lists of equal length.

    ``name_of`` returns the name of the item at a position, for error messages.
    """
    if items and type(items[0]) is list:
        return [_features(item, name_of(position), len(items[0])) for position, item in enumerate(items)]
    for position, item in enumerate(items):
        kind = type(item)
        if kind is not int and (kind is not str or not item or item.isspace()):
            raise InvalidInputError(
                f"{name_of(position)!r} must be an id (an integer or a string that is not blank)"
                f"{', like the first item' if position else ' or a list of numbers'}. Got {shorten(item)} instead."
            )
    return items


def _features(item: Any, name: str, width: int) -> list[float]:
    if type(item) is not list:
        problem = f"{name!r} must be a list of numbers, like the first item. Got {shorten(item)} instead."
        raise InvalidInputError(problem)
    if len(item) != width or not item:
        expected = f"{width} features, like the first item" if width else "at least 1 feature"
        raise InvalidInputError(f"{name!r} must have {expected}. Got {len(item)} instead.")
    try:
        if set(map(type, item)) <= _NUMBER_TYPES and all(map(isfinite, item)):
            return list(map(float, item))
        feature = next(i for i, value in enumerate(item) if type(value) not in _NUMBER_TYPES or not isfinite(value))
    except OverflowError:  # an integer beyond the largest float
        feature = next(i for i, value in enumerate(item) if type(value) is int and abs(value) > sys.float_info.max)
    raise InvalidInputError(
        f"feature {feature} of {name!r} must be a finite number. Got {shorten(item[feature])} instead."
    )


# -- writing ---------------------------------------------------------------------------------------------


def _validate(constraint: Constraint) -> Constraint:
    """Convert a constraint to Python types. Validate it by the same rules as a constraint in a file."""
    if isinstance(constraint, Click):
        return _click(Click(*map(_as_python, constraint)))
    if not isinstance(constraint, Pair | Triplet):
        raise InvalidInputError(
            f"the constraint must be a Pair, a Triplet or a Click. Got {shorten(constraint)} instead."
        )
    first, second, third = map(_as_python, constraint)
    return _triplet((first, second, third)) if isinstance(constraint, Triplet) else _pair((first, second), third)


def _as_python(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        # tolist() does not convert a long double.
        return (value.astype(np.float64) if value.dtype.kind == "f" else value).tolist()
    return [_as_python(entry) for entry in value] if isinstance(value, list | tuple) else value


def _to_json(constraint: Constraint) -> str:
    fields = constraint._asdict()
    if isinstance(constraint, Click):
        fields = {name: value for name, value in fields.items() if value != Click._field_defaults.get(name)}
    return json.dumps(fields) + "\n"


def _to_cells(click: Click) -> dict[str, Any]:
    """Return the cells of a click in CSV, by column."""
    cells = click._asdict()
    for name in _LISTS:
        cells[name] = _join_ids(cells[name], name)
    return cells


class _CsvWriter:
    """Writer of constraints as lines of CSV. The header is written before the first constraint."""

    def __init__(self, delimiter: str) -> None:
        # writerow returns the result of the file's write method: here, the line itself.
        self._line = csv.writer(SimpleNamespace(write=str), delimiter=delimiter, lineterminator="\n").writerow
        self._header: list[str] = []

    def __call__(self, constraint: Constraint) -> str:
        header: list[str] = []
        cells: list[Any] = []
        fields = _to_cells(constraint) if isinstance(constraint, Click) else constraint._asdict()
        for name, value in fields.items():
            by_value = isinstance(value, list)
            if by_value and isinstance(constraint, Click):
                raise InvalidInputError(_NO_VALUES)
            header += [f"{name}.{index}" for index in range(len(value))] if by_value else [name]
            cells += value if by_value else [str(value).lower() if isinstance(value, bool) else value]
            if isinstance(value, str) and ("\n" in value or "\r" in value):
                raise InvalidInputError(
                    f"an id in CSV must not contain a line break. Got {shorten(value)} instead. Use JSON Lines."
                )
        if not self._header:
            self._header = header
            return f"{self._line(header)}{self._line(cells)}"
        if header != self._header:
            raise InvalidInputError(
                f"all constraints in a CSV file must have the same columns, {shorten(self._header)}. "
                f"Got {shorten(header)} instead. Use JSON Lines."
            )
        return str(self._line(cells))
