"""Training on a stream of lines, resumable after an interruption.

A model file stores the number of learned lines and their digest. When the same stream is read again, these lines
are skipped after a check that they are unchanged. The result of a learner does not depend on the batches, so it is
identical to that of an uninterrupted run.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from oahu.constraints import Pair, Pairs, Triplet, Triplets, Tuples
from oahu.constraints.pair_joiner import PairJoiner, order_triplet
from oahu.exceptions import InvalidInputError, OAHUError, StreamError
from oahu.io import model_files
from oahu.io.features import FeatureTable
from oahu.io.streams import StreamLine
from oahu.learners.base import Learner
from oahu.learners.kinds import TripletLearner
from oahu.messages import shorten

__all__ = ["StreamMismatchError", "StreamPosition", "Trainer", "file_batches", "live_batches"]

_BATCH_SIZE: Final = 1024
_MAX_QUEUED: Final = 4096  # lines of a live stream that are read ahead
_POLL_SECONDS: Final = 0.1  # between two checks of ``stop``


@dataclass(frozen=True)
class StreamPosition:
    """Position in a stream: the number of learned lines, and a digest of their constraints."""

    lines: int = 0
    digest: str = ""

    def after(self, line: StreamLine) -> StreamPosition:
        """Return the position after one more line."""
        digest = hashlib.sha256(self.digest.encode())
        for part in (type(line.constraint).__name__, *line.constraint):
            digest.update(array("d", part).tobytes() if isinstance(part, list) else repr(part).encode())
        return StreamPosition(self.lines + 1, digest.hexdigest())

    @classmethod
    def of(cls, model: str | os.PathLike[str]) -> StreamPosition | None:
        """Return the position in a model file; None if the model was not trained on a stream."""
        stored = model_files.read_notes(model).get("stream")
        return None if stored is None else cls(int(stored["lines"]), str(stored["digest"]))


class StreamMismatchError(InvalidInputError):
    """The first lines of a stream are not those that the model has learned."""


class _Step(NamedTuple):
    """A constraint to learn, with its line and the lines before it that gave no constraint."""

    lines: list[StreamLine]
    constraint: Pair | Triplet


class Trainer:
    """Train a learner on lines, and save it together with its position in the stream.

    A learner that needs triplets can be trained on pairs: a similar and a dissimilar pair that share an item are
    joined into a triplet, as `Pairs.triplets` does. The triplet is learned when its second pair arrives.

    Parameters
    ----------
    learner : Learner
    model : path
        The model file to write.
    source : str
        The stream's name in error messages.
    features : FeatureTable, optional
        The features of items that are named by id. Not needed for constraints with feature values.
    position : StreamPosition
        The lines that the learner has already learned.
    save_every : float
        Seconds between two saves.
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
        self._joins_pairs = isinstance(learner, TripletLearner)
        self._joiner = PairJoiner()
        self._waiting_pairs: dict[int, Pair] = {}  # by their number in the joiner
        self._waiting_lines: list[StreamLine] = []  # since the last line that was learned

    def skip_learned(self, lines: Iterable[StreamLine]) -> Iterator[StreamLine]:
        """Yield the lines after the position. Raise `StreamMismatchError` if the lines before it differ."""
        target, skipped = self.position, StreamPosition()
        for line in lines:
            if skipped.lines == target.lines:
                yield line
                continue
            skipped = skipped.after(line)
            self._join_pairs(line)
            if skipped.lines == target.lines and skipped != target:
                raise StreamMismatchError(
                    f"The first {target.lines:,} lines of {self.source} are not those that the model has learned."
                )
        if skipped.lines < target.lines:
            raise StreamMismatchError(
                f"The model has learned {target.lines:,} lines, but {self.source} has only {skipped.lines:,}. It "
                "is a different stream."
            )

    def learn(self, batch: list[StreamLine]) -> None:
        """Learn lines in order, and save if a save is due.

        Raise `StreamError` with the first line that cannot be learned. The lines before it have been learned.
        """
        steps, error = self._steps(batch)
        for _, group in groupby(steps, _kind):
            same_kind = list(group)
            try:
                self._learn(same_kind)
            except OAHUError:
                for step in same_kind:  # one by one, to find the line
                    try:
                        self._learn([step])
                    except OAHUError as problem:
                        raise StreamError(str(problem), self.source, step.lines[-1].number) from problem
        self._advance(self._waiting_lines)
        self._waiting_lines = []
        if error:
            raise error
        if time.monotonic() - self._saved_at >= self.save_every:
            self.save()

    def save(self) -> None:
        """Write the model and its position, if there is anything new."""
        if self.position != self._saved and self.learner.__sklearn_is_fitted__():
            stream = {"lines": self.position.lines, "digest": self.position.digest}
            model_files.save(self.learner, self.model, notes={"stream": stream})
            self._saved = self.position
        self._saved_at = time.monotonic()

    def describe_joined_pairs(self) -> str:
        """Return a sentence on how many pairs were joined into triplets; empty if there were no pairs to join.

        Raise `InvalidInputError` if the stream had only pairs, none of which could be joined.
        """
        n_pairs, n_joined = self._joiner.n_pairs, self._joiner.n_joined
        if not n_pairs:
            return ""
        name = type(self.learner).__name__
        advice = f"These learners accept pairs: {', '.join(_pair_learners())}."
        if not self.learner.__sklearn_is_fitted__():
            raise InvalidInputError(
                f"{name} learns from triplets, but no two of the {n_pairs:,} pairs in {self.source} can be joined "
                f"into one: a similar and a dissimilar pair must share an item. {advice}"
            )
        return (
            f"{name} learns from triplets: {n_joined:,} were formed from {n_pairs:,} pairs, of which "
            f"{n_pairs - 2 * n_joined:,} were not used. {advice}"
        )

    def _steps(self, batch: list[StreamLine]) -> tuple[list[_Step], StreamError | None]:
        """Return the constraints to learn, and the error of the first line with an unknown item."""
        steps: list[_Step] = []
        for line in batch:
            try:
                constraint = self._join_pairs(line)
            except OAHUError as error:
                return steps, StreamError(str(error), self.source, line.number)
            self._waiting_lines.append(line)
            if constraint is not None:
                steps.append(_Step(self._waiting_lines, constraint))
                self._waiting_lines = []
        return steps, None

    def _join_pairs(self, line: StreamLine) -> Pair | Triplet | None:
        """Return the constraint to learn from a line; None for a pair that waits for a matching pair."""
        pair = line.constraint
        if not self._joins_pairs or isinstance(pair, Triplet):
            return pair
        first, second = self._identify(pair)
        found = self._joiner.join(first, second, pair.same)
        if found is None:
            self._waiting_pairs[self._joiner.n_pairs - 1] = pair
            return None
        other = self._waiting_pairs.pop(found)
        similar, dissimilar = (pair, other) if pair.same else (other, pair)
        items = (*similar[:2], *dissimilar[:2])
        anchor, positive, negative = order_triplet(self._identify(similar), self._identify(dissimilar))
        return Triplet(items[anchor], items[positive], items[negative])

    def _identify(self, pair: Pair) -> tuple[Hashable, Hashable]:
        """Return identifiers of a pair's items: their rows in the feature table, or their values."""
        if isinstance(pair.first, list):
            return array("d", pair.first).tobytes(), array("d", pair.second).tobytes()
        features = self._require_features(pair.first)
        return features.row(pair.first), features.row(pair.second)

    def _learn(self, steps: list[_Step]) -> None:
        self.learner.partial_fit(self._constraints([step.constraint for step in steps]))
        for step in steps:
            self._advance(step.lines)

    def _advance(self, lines: list[StreamLine]) -> None:
        for line in lines:
            self.position = self.position.after(line)

    def _constraints(self, constraints: list[Pair | Triplet]) -> Tuples:
        """Return constraints of one kind as the learner accepts them."""
        are_pairs = isinstance(constraints[0], Pair)
        items = [list(constraint[: 2 if are_pairs else 3]) for constraint in constraints]
        table = None
        if not isinstance(items[0][0], list):
            features = self._require_features(items[0][0])
            table = features.table
            items = [[features.row(item) for item in row] for row in items]
        if are_pairs:
            return Pairs(items, [constraint[2] for constraint in constraints], preprocessor=table)
        return Triplets(items, preprocessor=table)

    def _require_features(self, item: Any) -> FeatureTable:
        if self.features is None:
            raise InvalidInputError(
                f"The item {shorten(item)} is an id, but there is no feature table. Pass one (features), or "
                "use feature values in the constraints."
            )
        return self.features


def _kind(step: _Step) -> tuple[bool, int]:
    """Return the properties that constraints of one call must share: pairs or triplets, number of features."""
    first = step.constraint[0]
    return isinstance(step.constraint, Pair), len(first) if isinstance(first, list) else -1


def _pair_learners() -> list[str]:
    import oahu

    return [name for name in oahu.LEARNERS if not issubclass(getattr(oahu, name), TripletLearner)]


def file_batches(lines: Iterator[StreamLine]) -> Iterator[list[StreamLine]]:
    """Yield the lines of a file in batches. The lines before an invalid line are yielded before its error."""
    while True:
        batch: list[StreamLine] = []
        try:
            for line in islice(lines, _BATCH_SIZE):
                batch.append(line)  # one by one: the lines before an error are needed
        except OAHUError:
            if batch:
                yield batch
            raise
        if not batch:
            return
        yield batch


def live_batches(lines: Iterator[StreamLine], stop: Callable[[], bool]) -> Iterator[list[StreamLine]]:
    """Yield batches of the lines that have arrived, until the stream ends or ``stop`` returns True."""
    arrived: queue.Queue[StreamLine | BaseException | None] = queue.Queue(_MAX_QUEUED)

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    while not stop():
        try:
            entry = arrived.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
        batch: list[StreamLine] = []
        while isinstance(entry, StreamLine):
            batch.append(entry)
            if len(batch) == _BATCH_SIZE or arrived.empty():
                break
            entry = arrived.get_nowait()
        if batch:
            yield batch
        if entry is None:
            return
        if isinstance(entry, BaseException):
            raise entry
