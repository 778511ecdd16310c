"""Constraints as lines of text: JSON Lines and CSV, read one line at a time.

JSON Lines, one constraint a line::

    {"anchor": "tea", "positive": "green tea", "negative": "coffee"}
    {"first": 17, "second": 4, "same": false}
    ["tea", "green tea", "coffee"]
    [17, 4, false]
    {"anchor": [0.1, 2.0], "positive": [0.2, 1.9], "negative": [7.0, -1.0]}

An item is an id (a string or an integer) or a list of numbers, its features; all items of a line are of one kind.
``same`` is true or false, or 1 or -1. A list whose third entry is true or false is a pair, any other a triplet.
Other keys of an object are ignored; one that has the keys of both is a triplet.

CSV (or TSV, with tabs), with a header, in any order of columns; other columns are ignored::

    anchor,positive,negative            first.0,first.1,second.0,second.1,same
    tea,green tea,coffee                0.1,2.0,0.2,1.9,true

Text in CSV that is an integer as Python writes it is an integer: ``7`` is 7, and ``007`` is a string. Spaces are a
part of an id. Blank lines are skipped, and counted.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final, Literal, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np

from oahu.constraints.single import Pair, Triplet
from oahu.exceptions import InvalidInputError, StreamError

__all__ = ["PathOrFile", "StreamFormat", "StreamLine", "as_id", "read_stream", "write_stream"]

StreamFormat: TypeAlias = Literal["jsonl", "csv", "tsv"]
PathOrFile: TypeAlias = str | os.PathLike[str] | IO[bytes] | IO[str]

_LONGEST: Final = 64 * 2**20  # bytes of a line
_NUMBERS: Final = {int, float}
_SUFFIXES: Final[dict[str, StreamFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
}
_DELIMITERS: Final[dict[StreamFormat, str]] = {"csv": ",", "tsv": "\t"}
_WORDS: Final[dict[str, bool | int]] = {"true": True, "1": 1, "+1": 1, "false": False, "-1": -1, "0": 0}
_NEEDED: Final = "'anchor', 'positive' and 'negative' for a triplet, or 'first', 'second' and 'same' for a pair"


class StreamLine(NamedTuple):
    """A line of a stream: its number, counted from 1, what it says, and its bytes.

    The bytes are without the line's end, and without a byte order mark.
    """

    number: int
    constraint: Pair | Triplet
    text: bytes


def read_stream(source: PathOrFile, *, format: StreamFormat | None = None) -> Iterator[StreamLine]:  # noqa: A002
    """Read constraints line by line, each as soon as it has arrived, and never hold more than one.

    Parameters
    ----------
    source : path, "-" for standard input, or an open file of text or bytes
        A path is opened when the first line is asked for, and closed after the last. A file stays open.
    format : "jsonl", "csv" or "tsv"
        None goes by the file's suffix, and where that says nothing, by the first line.

    Examples
    --------
    >>> import io
    >>> for line in read_stream(io.StringIO('["tea", "green tea", "coffee"]\\n\\n[17, 4, false]')):
    ...     print(line.number, line.constraint)
    1 Triplet(anchor='tea', positive='green tea', negative='coffee')
    3 Pair(first=17, second=4, same=False)
    """
    return _read(source, _format(source, format, "readline"))


def write_stream(
    target: PathOrFile,
    constraints: Iterable[Pair | Triplet],
    *,
    format: StreamFormat | None = None,  # noqa: A002
) -> int:
    """Write constraints line by line; the number of constraints written.

    A constraint is checked before it is written. When one is refused, those before it have been written. In CSV all
    must be alike: triplets or pairs, of ids or of as many features as the first.

    Parameters
    ----------
    target : path, "-" for standard output, or an open file of text or bytes
        A file that exists is replaced.
    constraints : iterable of Pair and Triplet
        Items may be NumPy's scalars and arrays. Floats are written so that they are read as the same bits.
    format : "jsonl", "csv" or "tsv"
        None goes by the file's suffix, and where that says nothing, is "jsonl".

    Examples
    --------
    >>> write_stream("-", [Pair(17, 4, same=False)])
    {"first": 17, "second": 4, "same": false}
    1
    """
    chosen = _format(target, format, "write") or "jsonl"
    as_line = _to_json if chosen == "jsonl" else _CsvWriter(_DELIMITERS[chosen])
    written = 0
    with _opened(target, "wb") as (file, _):
        is_text = hasattr(file, "encoding")
        for written, constraint in enumerate(constraints, 1):
            try:
                line = as_line(_plain(constraint))
                file.write(line if is_text else line.encode())
            except (InvalidInputError, UnicodeEncodeError) as error:
                raise InvalidInputError(f"Constraint {written}, counted from 1: {error}") from error
    return written


def as_id(text: str) -> int | str:
    """The id that a text names: an integer if the text is how Python writes one, else the text.

    >>> as_id("7"), as_id("007"), as_id("tea")
    (7, '007', 'tea')
    """
    return int(text) if _is_integer(text) else text


_is_integer = re.compile(r"0|-?[1-9][0-9]{0,4000}").fullmatch  # int() refuses more than 4300 digits


# -- files -----------------------------------------------------------------------------------------------


def _format(place: PathOrFile, given: StreamFormat | None, method: str) -> StreamFormat | None:
    """The format that was given or that the suffix says; None if neither does."""
    if not isinstance(place, str | os.PathLike) and not hasattr(place, method):
        raise InvalidInputError(f"A stream must be a path, '-' or an open file. Got {_shown(place)} instead.")
    if given is None:
        return _SUFFIXES.get(Path(place).suffix.lower()) if isinstance(place, str | os.PathLike) else None
    if given not in get_args(StreamFormat):
        raise InvalidInputError(f"The format must be 'jsonl', 'csv' or 'tsv'. Got {given!r} instead.")
    return given


@contextmanager
def _opened(place: PathOrFile, mode: Literal["rb", "wb"]) -> Iterator[tuple[IO[Any], str]]:
    """The file to read or write, and its name in errors; closed afterwards if it was opened here."""
    if isinstance(place, str) and place == "-":
        if mode == "rb":
            yield getattr(sys.stdin, "buffer", sys.stdin), "standard input"
        else:
            sys.stdout.flush()  # what was printed before comes before
            file = getattr(sys.stdout, "buffer", sys.stdout)
            yield file, "standard output"
            file.flush()
    elif isinstance(place, str | os.PathLike):
        with Path(place).open(mode) as file:
            yield file, os.fspath(place)
    else:
        name = getattr(place, "name", None)
        yield place, name if isinstance(name, str) else "the stream"


def _lines(file: IO[Any], source: str) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers; ``readline`` returns as soon as a line is there."""
    for number in count(1):
        try:
            raw = file.readline(_LONGEST + 1)
            line: bytes = raw.encode() if isinstance(raw, str) else raw
        except UnicodeError as error:  # of a text file
            raise StreamError(f"not UTF-8 text ({error}).", source, number) from error
        if len(line) > _LONGEST:
            raise StreamError(f"a line must not be longer than {_LONGEST} bytes.", source, number)
        if not line:
            return
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if line.strip():
            yield number, line.rstrip(b"\r\n")


# -- reading ---------------------------------------------------------------------------------------------


def _read(source: PathOrFile, chosen: StreamFormat | None) -> Iterator[StreamLine]:
    parse: Callable[[str], Pair | Triplet] | None = None
    with _opened(source, "rb") as (file, name):
        for number, raw in _lines(file, name):
            try:
                text = raw.decode()
                if parse is None:
                    chosen = chosen or _guessed(text)
                    parse = _from_json if chosen == "jsonl" else _CsvReader(text, _DELIMITERS[chosen])
                    if chosen != "jsonl":
                        continue  # the line was the header
                constraint = parse(text)
            except UnicodeDecodeError as error:
                problem = f"not UTF-8 text (byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line)."
                raise StreamError(problem, name, number) from error
            except InvalidInputError as error:
                raise StreamError(str(error), name, number) from None
            yield StreamLine(number, constraint, raw)


def _guessed(line: str) -> StreamFormat:
    if line.lstrip().startswith(("{", "[")):
        return "jsonl"
    return "tsv" if "\t" in line and "," not in line else "csv"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


_decode: Final = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _from_json(text: str) -> Pair | Triplet:
    try:
        value = _decode(text)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error.msg}, column {error.colno}); a line holds one whole constraint."
        raise InvalidInputError(problem) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"not JSON that can be read ({error}).") from error
    if isinstance(value, dict):
        if "anchor" in value and "positive" in value and "negative" in value:
            return _triplet((value["anchor"], value["positive"], value["negative"]))
        if "first" in value and "second" in value and "same" in value:
            return _pair((value["first"], value["second"]), value["same"])
        raise InvalidInputError(f"an object needs the keys {_NEEDED}. Got {_shown(list(value))} instead.")
    if isinstance(value, list) and len(value) == 3:
        return _pair(value[:2], value[2]) if isinstance(value[2], bool) else _triplet(value)
    raise InvalidInputError(
        "a constraint must be an object, or a list [anchor, positive, negative] or [first, second, true or false]. "
        f"Got {_shown(value)} instead."
    )


class _CsvReader:
    """Lines of CSV under a header."""

    def __init__(self, header: str, delimiter: str) -> None:
        self._delimiter = delimiter
        self._header = [name.strip() for name in self._cells(header)]
        items, others = _layout(self._header)
        counts = Counter(self._header)
        for name in [*(name for item in items for name in item), *others]:
            if counts[name] != 1:
                raise InvalidInputError(
                    f"the header must have the column {name!r} once. Got it {counts[name]} times."
                )
        place = {name: column for column, name in enumerate(self._header)}
        self._items = [[place[name] for name in item] for item in items]
        self._by_value = "." in items[0][0]
        self._same = place["same"] if others else None

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            problem = f"not valid CSV ({error}); a field must end on its line: for line breaks use JSON Lines."
            raise InvalidInputError(problem) from error

    def __call__(self, line: str) -> Pair | Triplet:
        cells = self._cells(line)
        if len(cells) != len(self._header):
            raise InvalidInputError(f"the header has {len(self._header)} column(s). Got {len(cells)} instead.")
        items: list[Any]
        if self._by_value:
            items = [[self._number(cells, column) for column in item] for item in self._items]
        else:
            items = [as_id(cells[column]) for (column,) in self._items]
        if self._same is None:
            return _triplet(items)
        same = cells[self._same]
        return _pair(items, _WORDS.get(same.strip().lower(), same))

    def _number(self, cells: list[str], column: int) -> float:
        try:
            return float(cells[column])
        except ValueError:
            problem = f"{self._header[column]!r} must be a number. Got {_shown(cells[column])} instead."
            raise InvalidInputError(problem) from None


def _layout(header: list[str]) -> tuple[list[list[str]], list[str]]:
    """The columns of each item, and the other columns that are needed."""
    for names, others in ((Triplet._fields, []), (Pair._fields[:2], ["same"])):
        if {*names, *others} <= set(header):
            return [[name] for name in names], others
        if {*(f"{name}.0" for name in names), *others} <= set(header):
            parts = [column.partition(".") for column in header]
            counts = Counter(name for name, _, place in parts if place.isdecimal())
            width = max(counts[name] for name in names)
            return [[f"{name}.{place}" for place in range(width)] for name in names], others
    raise InvalidInputError(
        f"the first line must be a header with the columns {_NEEDED}; by value, 'anchor.0', 'anchor.1' and so on. "
        f"Got {_shown(header)} instead."
    )


# -- checking --------------------------------------------------------------------------------------------


def _triplet(items: Sequence[Any]) -> Triplet:
    return Triplet(*_checked(items, Triplet._fields))


def _pair(items: Sequence[Any], same: Any) -> Pair:
    first, second = _checked(items, Pair._fields)
    if same is not True and same is not False:
        number = same if type(same) in _NUMBERS else None
        if number not in (1, -1):
            why = " 0 is ambiguous: write -1 or false." if number == 0 else ""
            raise InvalidInputError(f"'same' must be true or false, or 1 or -1. Got {_shown(same)} instead.{why}")
        same = number == 1
    return Pair(first, second, same)


def _checked(items: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    """All items as ids, or all as lists of as many floats. Of the names, those of the items come first."""
    if type(items[0]) is list:
        return [_features(item, name, len(items[0])) for item, name in zip(items, names, strict=False)]
    for position, item in enumerate(items):
        kind = type(item)
        if kind is not int and (kind is not str or not item or item.isspace()):
            raise InvalidInputError(
                f"{names[position]!r} must be an id (an integer, or a string that is not blank)"
                f"{' as the first item is' if position else ' or a list of numbers'}. Got {_shown(item)} instead."
            )
    return items


def _features(item: Any, name: str, width: int) -> list[float]:
    if type(item) is not list:
        problem = f"{name!r} must be a list of numbers as the first item is. Got {_shown(item)} instead."
        raise InvalidInputError(problem)
    if len(item) != width or not item:
        expected = f"{width} features as the first item has" if width else "at least 1 feature"
        raise InvalidInputError(f"{name!r} must have {expected}. Got {len(item)} instead.")
    try:
        if set(map(type, item)) <= _NUMBERS and all(map(isfinite, item)):
            return list(map(float, item))
        place = next(i for i, value in enumerate(item) if type(value) not in _NUMBERS or not isfinite(value))
    except OverflowError:  # an integer beyond the largest float
        place = next(i for i, value in enumerate(item) if type(value) is int and abs(value) > sys.float_info.max)
    raise InvalidInputError(f"{name!r} has {_shown(item[place])} at feature {place}: it must be a finite number.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- writing ---------------------------------------------------------------------------------------------


def _plain(constraint: Pair | Triplet) -> Pair | Triplet:
    """The constraint in Python's own types, checked as if it had been read."""
    if not isinstance(constraint, Pair | Triplet):
        raise InvalidInputError(f"must be a Pair or a Triplet. Got {_shown(constraint)} instead.")
    first, second, third = map(_plain_value, constraint)
    return _triplet((first, second, third)) if isinstance(constraint, Triplet) else _pair((first, second), third)


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        # A long double is no type of Python's.
        return (value.astype(np.float64) if value.dtype.kind == "f" else value).tolist()
    return [_plain_value(entry) for entry in value] if isinstance(value, list | tuple) else value


def _to_json(constraint: Pair | Triplet) -> str:
    return json.dumps(constraint._asdict()) + "\n"


class _CsvWriter:
    """Lines of CSV; before the first, the header that follows from it."""

    def __init__(self, delimiter: str) -> None:
        # A file whose write hands back what it is given: writerow returns the line.
        self._line = csv.writer(SimpleNamespace(write=str), delimiter=delimiter, lineterminator="\n").writerow
        self._header: list[str] = []

    def __call__(self, constraint: Pair | Triplet) -> str:
        header: list[str] = []
        cells: list[Any] = []
        for name, value in zip(constraint._fields, constraint, strict=True):
            by_value = isinstance(value, list)
            header += [f"{name}.{place}" for place in range(len(value))] if by_value else [name]
            cells += value if by_value else [str(value).lower() if isinstance(value, bool) else value]
            if isinstance(value, str) and ("\n" in value or "\r" in value):
                raise InvalidInputError(f"CSV has no line breaks in an id. Got {_shown(value)}: use JSON Lines.")
        if not self._header:
            self._header = header
            return f"{self._line(header)}{self._line(cells)}"
        if header != self._header:
            raise InvalidInputError(
                f"CSV has the columns of its first constraint, {_shown(self._header)}. "
                f"Got {_shown(header)} instead: use JSON Lines."
            )
        return str(self._line(cells))
