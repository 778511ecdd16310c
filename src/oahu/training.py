"""Learning from a stream of lines, and going on where it stopped.

The model's file says how many lines it has learned, and holds a digest of them. When the same stream comes again,
those lines are read over, checked to be the same ones, and learning goes on behind them. As a learner does not
depend on how its stream is cut, the result is that of one run that was never stopped, bit for bit.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

from oahu.constraints import Pair, Pairs, Triplets, Tuples
from oahu.exceptions import InvalidInputError, OAHUError, StreamError
from oahu.io import model_files
from oahu.io.features import FeatureTable
from oahu.io.streams import StreamLine
from oahu.learners.base import Learner

__all__ = ["StreamPosition", "Trainer", "file_batches", "live_batches"]

_BATCH: Final = 1024  # lines learned at a time, if as many are there
_WAITING: Final = 4096  # lines that a live stream may be ahead of learning
_PATIENCE: Final = 0.1  # seconds between looks at whether to stop waiting


@dataclass(frozen=True)
class StreamPosition:
    """How far a stream was learned: how many lines, and a digest of what they said."""

    lines: int = 0
    digest: str = ""

    def after(self, line: StreamLine) -> StreamPosition:
        """One line further."""
        digest = hashlib.sha256(self.digest.encode())
        for part in (type(line.constraint).__name__, *line.constraint):
            digest.update(array("d", part).tobytes() if isinstance(part, list) else repr(part).encode())
        return StreamPosition(self.lines + 1, digest.hexdigest())

    @classmethod
    def of(cls, model: str | os.PathLike[str]) -> StreamPosition | None:
        """Where the model in a file stands; None if it was not trained on a stream."""
        kept = model_files.read_notes(model).get("stream")
        return None if kept is None else cls(int(kept["lines"]), str(kept["digest"]))

    def behind(self, lines: Iterable[StreamLine], source: str) -> Iterator[StreamLine]:
        """The lines after this position; `InvalidInputError` if those before it are not the ones learned."""
        passed = StreamPosition()
        for line in lines:
            if passed.lines == self.lines:
                yield line
                continue
            passed = passed.after(line)
            if passed.lines == self.lines and passed != self:
                raise InvalidInputError(
                    f"The first {self.lines:,} lines of {source} are not those that the model has learned: it is "
                    "another stream. If all of its lines are new, say so (--new-lines)."
                )
        if passed.lines < self.lines:
            raise InvalidInputError(
                f"The model has learned {self.lines:,} lines, and {source} has {passed.lines:,}: it is another "
                "stream. If all of its lines are new, say so (--new-lines)."
            )


class Trainer:
    """Teaches a learner lines, and keeps it in a file together with how far it got.

    Parameters
    ----------
    learner : Learner
    model : path
        The file to keep it in.
    source : str
        The stream's name, for errors.
    features : FeatureTable, optional
        What the ids of constraints point into. Constraints by value need none.
    position : StreamPosition
        How far the learner has learned the stream.
    save_every : float
        Seconds after which the model is written again.
    """

    def __init__(
        self,
        learner: Learner[Any],
        model: Path,
        source: str,
        features: FeatureTable | None = None,
        position: StreamPosition | None = None,
        save_every: float = 10.0,
    ) -> None:
        self.learner, self.model, self.source, self.features = learner, model, source, features
        self.position = self._saved = position or StreamPosition()
        self.save_every, self._saved_at = save_every, time.monotonic()

    def learn(self, batch: list[StreamLine]) -> None:
        """Learn some lines, in order, and save now and then.

        `StreamError` names the first that cannot be learned; those before it were, and none behind it.
        """
        for _, group in groupby(batch, _kind):
            lines = list(group)
            try:
                self._learn(lines)
            except OAHUError:
                for line in lines:  # one by one, to see which it is
                    try:
                        self._learn([line])
                    except OAHUError as error:
                        raise StreamError(str(error), self.source, line.number) from error
        if time.monotonic() - self._saved_at >= self.save_every:
            self.save()

    def save(self) -> None:
        """Write the model and its position, if there is anything new."""
        if self.position != self._saved:
            stream = {"lines": self.position.lines, "digest": self.position.digest}
            model_files.save(self.learner, self.model, notes={"stream": stream})
            self._saved = self.position
        self._saved_at = time.monotonic()

    def _learn(self, lines: list[StreamLine]) -> None:
        self.learner.partial_fit(self._constraints(lines))
        for line in lines:
            self.position = self.position.after(line)

    def _constraints(self, lines: list[StreamLine]) -> Tuples:
        """Lines of one kind, as constraints."""
        pairs = isinstance(lines[0].constraint, Pair)
        items = [list(line.constraint[: 2 if pairs else 3]) for line in lines]
        table = None
        if not isinstance(items[0][0], list):
            if self.features is None:
                raise InvalidInputError(
                    f"The item {items[0][0]!r} is an id, and there are no features for ids. Give them "
                    "(--features), or give items by value."
                )
            find, table = self.features.row, self.features.table
            items = [[find(item) for item in row] for row in items]
        if pairs:
            return Pairs(items, [line.constraint[2] for line in lines], preprocessor=table)
        return Triplets(items, preprocessor=table)


def _kind(line: StreamLine) -> tuple[int, int]:
    """What lines must have in common to be learned in one call: pairs or triplets, and how many features."""
    first = line.constraint[0]
    return int(isinstance(line.constraint, Pair)), len(first) if isinstance(first, list) else -1


def file_batches(lines: Iterator[StreamLine]) -> Iterator[list[StreamLine]]:
    """Lines of a file, some at a time. When one cannot be read, those before it come first."""
    while True:
        batch: list[StreamLine] = []
        try:
            for line in islice(lines, _BATCH):
                batch.append(line)  # one by one: what came before an error is to be kept
        except OAHUError:
            if batch:
                yield batch
            raise
        if not batch:
            return
        yield batch


def live_batches(lines: Iterator[StreamLine], stop: Callable[[], bool]) -> Iterator[list[StreamLine]]:
    """Lines of a live stream, as many as have arrived; ends also when ``stop`` says so while it waits."""
    arrived: queue.Queue[StreamLine | BaseException | None] = queue.Queue(_WAITING)

    def listen() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)

    threading.Thread(target=listen, daemon=True).start()
    while not stop():
        try:
            some = arrived.get(timeout=_PATIENCE)
        except queue.Empty:
            continue
        batch: list[StreamLine] = []
        while isinstance(some, StreamLine):
            batch.append(some)
            if len(batch) == _BATCH or arrived.empty():
                break
            some = arrived.get_nowait()
        if batch:
            yield batch
        if some is None:
            return
        if isinstance(some, BaseException):
            raise some
