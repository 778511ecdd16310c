"""Reading of pairs from files. Labels of pairs are optional."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import oahu
from oahu.cli.inputs import LoadedItems, LoadedModel, add_path_to_errors

if TYPE_CHECKING:
    from oahu.tasks.matches import Key

__all__ = ["LoadedPairs", "pair_of_ids", "read_pairs"]


@dataclass(frozen=True, eq=False)
class LoadedPairs:
    """Pairs of items, some of them labelled.

    Attributes
    ----------
    names : list of (first, second)
        Ids of the two items of each pair. For items given by feature values, the line number in the file
        replaces the id.
    pairs : Pairs
        All pairs. ``pairs.same`` is meaningful only for labelled pairs.
    labelled : ndarray of bool, of shape (n_pairs,)
        True for labelled pairs.
    """

    names: list[tuple[Key, Key]]
    pairs: oahu.Pairs
    labelled: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.names)

    def only_labelled(self, source: str) -> LoadedPairs:
        """Return the labelled pairs. If no pair is labelled, raise an error with the file name ``source``."""
        if not self.labelled.any():
            raise oahu.InvalidInputError(
                f"{source} has no labelled pairs. Add the field 'same' with the value true or false to each pair."
            )
        names = [name for name, labelled in zip(self.names, self.labelled, strict=True) if labelled]
        return LoadedPairs(names, self.pairs[self.labelled], self.labelled[self.labelled])


def pair_of_ids(first: str, second: str, items: LoadedItems) -> LoadedPairs:
    """Return two items, given by their ids, as one unlabelled pair."""
    with add_path_to_errors(items.path):
        rows = [items.features.row(name) for name in (first, second)]
    pairs = oahu.Pairs([rows], [True], preprocessor=items.table)
    return LoadedPairs([(items.keys[rows[0]], items.keys[rows[1]])], pairs, np.zeros(1, bool))


def read_pairs(source: str, items: LoadedItems | None, model: LoadedModel) -> LoadedPairs:
    """Read pairs of ids, or pairs of feature values, from a file. Triplets and clicks count as pairs."""
    names: list[tuple[Key, Key]] = []
    data: list[Any] = []
    same: list[bool] = []
    labelled: list[bool] = []
    with _open_source(source) as (file, name):
        filler = _LabelFiller(file, name)
        for line in oahu.read_stream(filler):  # type: ignore[arg-type]  # it calls only readline
            constraint = line.constraint
            for pair in constraint.pairs if isinstance(constraint, oahu.Triplet | oahu.Click) else (constraint,):
                try:
                    pair_names, entry = _look_up(pair, line.number, items, model)
                    if data and isinstance(entry[0], list) != isinstance(data[0][0], list):
                        raise oahu.InvalidInputError(
                            "All pairs of a file must consist of ids, or all must consist of feature "
                            "values. Got both kinds."
                        )
                except oahu.InvalidInputError as error:
                    raise oahu.StreamError(str(error), name, line.number) from error
                names.append(pair_names)
                data.append(entry)
                same.append(pair.same)
                labelled.append(line.number not in filler.unlabelled)
    if not data:
        raise oahu.InvalidInputError(f"{name} has no pairs.")
    table = None if items is None else items.table
    return LoadedPairs(names, oahu.Pairs(np.array(data), same, preprocessor=table), np.array(labelled))


def _look_up(
    pair: oahu.Pair, line: int, items: LoadedItems | None, model: LoadedModel
) -> tuple[tuple[Key, Key], list[Any]]:
    """Return the names of the two items of a pair, and the two items as row numbers or as feature values."""
    both = [pair.first, pair.second]
    if isinstance(pair.first, list) != isinstance(pair.second, list):
        raise oahu.InvalidInputError(
            "The query of the click has feature values, but the other items are given by id. Both items of a pair "
            "must be given by id, or both by feature values."
        )
    if isinstance(pair.first, list):
        expected = model.metric.n_features
        if len(pair.first) != expected:
            raise oahu.InvalidInputError(
                f"The items have {len(pair.first)} features, but the model {model.path} expects {expected}."
            )
        return (f"line {line}, first", f"line {line}, second"), both
    if items is None:
        raise oahu.InvalidInputError(
            "The items of the pair are given by id. Give a feature table with --features FILE."
        )
    try:
        return (pair.first, pair.second), [items.features.row(item) for item in both]
    except oahu.InvalidInputError as error:
        raise oahu.InvalidInputError(f"{error} ({items.path})") from error


@contextmanager
def _open_source(source: str) -> Iterator[tuple[IO[bytes], str]]:
    if source == "-":
        yield sys.stdin.buffer, "standard input"
    else:
        with Path(source).open("rb") as file:
            yield file, source


class _LabelFiller:
    """File object that adds the label true to pairs without a label, because `read_stream` requires labels.

    ``unlabelled`` contains the line numbers of the pairs without a label.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self.unlabelled: set[int] = set()
        self._file = file
        self._number = 0
        self._started = False
        self._csv_columns: tuple[bytes, bytes] | None = None  # appended to the header and to each line

    def readline(self, size: int) -> bytes:
        line = self._file.readline(size)
        self._number += 1
        text = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            return line
        if not self._started:
            self._started, self._csv_columns = True, _missing_columns(text)
            if self._csv_columns is not None:
                return line.rstrip(b"\r\n") + self._csv_columns[0] + b"\n"
        if self._csv_columns is None:
            return self._fill_json(line)
        if self._csv_columns[1]:
            self.unlabelled.add(self._number)
        return line.rstrip(b"\r\n") + self._csv_columns[1] + b"\n"

    def _fill_json(self, line: bytes) -> bytes:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return line  # read_stream reports the error
        if isinstance(value, dict) and value.keys() >= {"first", "second"} and value.get("same") is None:
            value["same"] = True
        elif isinstance(value, list) and len(value) == 2:
            value = [*value, True]
        else:
            return line
        self.unlabelled.add(self._number)
        return json.dumps(value).encode() + b"\n"


def _missing_columns(first_line: bytes) -> tuple[bytes, bytes] | None:
    """Return two texts that add a label column to a CSV file. Return None for JSON Lines.

    The first text is appended to the header, and the second text to each other line. Both texts are empty if the
    file has a label column.
    """
    if first_line.startswith((b"{", b"[")):
        return None
    delimiter = b"\t" if b"\t" in first_line and b"," not in first_line else b","
    names = {name.strip(b' "') for name in first_line.split(delimiter)}
    if b"same" in names or not names & {b"first", b"first.0"}:
        return b"", b""
    return delimiter + b"same", delimiter + b"true"
