"""Pairs to compare, from a stream of lines whose answers may be missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from oahu.cli.inputs import Items, Model
from oahu.constraints import Pair, Pairs, Triplet
from oahu.exceptions import InvalidInputError, StreamError
from oahu.io.streams import read_stream
from oahu.tasks.matches import Key

__all__ = ["Asked", "ask", "read_pairs"]


@dataclass(frozen=True, eq=False)
class Asked:
    """Pairs of items, and what is known of them.

    Attributes
    ----------
    names : the two ids of each pair; of pairs by value, where they are
    pairs : Pairs
        Their ``same`` means something where it is known.
    known : ndarray of bool, of shape (n,)
        Which pairs came with an answer.
    """

    names: list[tuple[Key, Key]]
    pairs: Pairs
    known: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.names)

    def answered(self, source: str) -> Asked:
        """The pairs whose answers are known; an error that names the ``source`` if there are none."""
        if not self.known.any():
            raise InvalidInputError(
                f"{source} must say which pairs are alike: true or false, as 'same'. It says so of none."
            )
        names = [name for name, known in zip(self.names, self.known, strict=True) if known]
        return Asked(names, self.pairs[self.known], self.known[self.known])


def ask(first: str, second: str, items: Items) -> Asked:
    """One pair by its ids."""
    try:
        rows = [items.features.row(name) for name in (first, second)]
    except InvalidInputError as error:
        raise InvalidInputError(f"{items.path}: {error}") from error
    pairs = Pairs([rows], [True], preprocessor=items.table)
    return Asked([(items.keys[rows[0]], items.keys[rows[1]])], pairs, np.zeros(1, bool))


def read_pairs(source: str, items: Items | None, model: Model) -> Asked:
    """The pairs of a stream: by id, which is in ``items``, or by value. A triplet is its two pairs."""
    names: list[tuple[Key, Key]] = []
    data: list[Any] = []
    same: list[bool] = []
    known: list[bool] = []
    with _opened(source) as (file, name):
        lines = _Answered(file, name)
        for line in read_stream(lines):  # type: ignore[arg-type]  # it needs readline and no more
            for pair in line.constraint.pairs if isinstance(line.constraint, Triplet) else (line.constraint,):
                try:
                    called, entry = _looked_up(pair, line.number, items, model)
                    if data and isinstance(entry[0], list) != isinstance(data[0][0], list):
                        raise InvalidInputError("pairs must all be by id, or all by value.")
                except InvalidInputError as error:
                    raise StreamError(str(error), name, line.number) from error
                names.append(called)
                data.append(entry)
                same.append(pair.same)
                known.append(line.number not in lines.unanswered)
    if not data:
        raise InvalidInputError(f"{name} has no pairs.")
    table = None if items is None else items.table
    return Asked(names, Pairs(np.array(data), same, preprocessor=table), np.array(known))


def _looked_up(pair: Pair, number: int, items: Items | None, model: Model) -> tuple[tuple[Key, Key], list[Any]]:
    """What a pair's items are called, and their rows or their values."""
    both = [pair.first, pair.second]
    if isinstance(pair.first, list):
        if len(pair.first) != model.metric.n_features:
            raise InvalidInputError(
                f"the items have {len(pair.first)} features, and {model.path} is for {model.metric.n_features}."
            )
        return (f"line {number}, first", f"line {number}, second"), both
    if items is None:
        raise InvalidInputError("the pair is by id: give the file that has the items of these ids (--features).")
    try:
        return (pair.first, pair.second), [items.features.row(item) for item in both]
    except InvalidInputError as error:
        raise InvalidInputError(f"{error} ({items.path})") from error


@contextmanager
def _opened(source: str) -> Iterator[tuple[IO[bytes], str]]:
    if source == "-":
        yield sys.stdin.buffer, "standard input"
    else:
        with Path(source).open("rb") as file:
            yield file, source


class _Answered:
    """A file of pairs for `read_stream`, which wants an answer in every line: where there is none, a made-up one.

    ``unanswered`` are the numbers of those lines.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self.unanswered: set[int] = set()
        self._file = file
        self._number = 0
        self._begun = False
        self._lacking: tuple[bytes, bytes] | None = None  # in CSV: what the header lacks, and then every line

    def readline(self, size: int) -> bytes:
        line = self._file.readline(size)
        self._number += 1
        text = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not text:
            return line
        if not self._begun:
            self._begun, self._lacking = True, _lacking(text)
            if self._lacking is not None:
                return line.rstrip(b"\r\n") + self._lacking[0] + b"\n"
        if self._lacking is None:
            return self._json(line)
        if self._lacking[1]:
            self.unanswered.add(self._number)
        return line.rstrip(b"\r\n") + self._lacking[1] + b"\n"

    def _json(self, line: bytes) -> bytes:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return line  # it will be refused
        if isinstance(value, dict) and value.keys() >= {"first", "second"} and value.get("same") is None:
            value["same"] = True
        elif isinstance(value, list) and len(value) == 2:
            value = [*value, True]
        else:
            return line
        self.unanswered.add(self._number)
        return json.dumps(value).encode() + b"\n"


def _lacking(first_line: bytes) -> tuple[bytes, bytes] | None:
    """What the lines of a CSV file lack, by its header; None if it is JSON."""
    if first_line.startswith((b"{", b"[")):
        return None
    delimiter = b"\t" if b"\t" in first_line and b"," not in first_line else b","
    names = {name.strip(b' "') for name in first_line.split(delimiter)}
    if b"same" in names or not names & {b"first", b"first.0"}:
        return b"", b""
    return delimiter + b"same", delimiter + b"true"
