"""Training on a stream of constraints, one constraint per line. Training can continue after an interruption.

A model file stores the number of learned lines and a hash of these lines. When the same stream is read again, the
learned lines are compared with the hash and skipped. The final model is identical to the model of one uninterrupted
run, because a learner's result does not depend on how the lines are split into batches.
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

from oahu.constraints import Click, Clicks, ConstraintBatch, Pair, Pairs, Triplet, Triplets
from oahu.constraints.pair_joiner import PairJoiner, order_triplet
from oahu.constraints.single import check_click
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
    """Position in a stream: the number of learned lines, and a hash of the constraints on these lines."""

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
        """Return the position that is stored in a model file, or None if the model was not trained on a stream."""
        stored = model_files.read_notes(model).get("stream")
        return None if stored is None else cls(int(stored["lines"]), str(stored["digest"]))


class StreamMismatchError(InvalidInputError):
    """Raised if the first lines of a stream differ from the lines that the model has learned."""


class _Step(NamedTuple):
    """A constraint to learn, and its lines in the stream.

    ``lines`` ends with the line that completes the constraint. The lines before it are pairs that have not been
    joined yet, and clicks that are not used. They are included, because they count as learned together with the
    last line.
    """

    lines: list[StreamLine]
    constraint: Pair | Triplet | Click


class Trainer:
    """Train a learner on lines of a stream, and save the learner together with its position in the stream.

    A learner that needs triplets can be trained on pairs. A similar pair and a dissimilar pair that share an item
    are joined into a triplet, as in `Pairs.triplets`. The triplet is learned when its second pair arrives.

    Clicks with only positives or only negatives are not learned, unless the learner uses such clicks
    (`Learner.uses_one_sided_clicks`). Their ids must still be valid.

    Parameters
    ----------
    learner : Learner
        Learner to train.
    model : path
        Model file to write.
    source : str
        Name of the stream, for error messages.
    features : FeatureTable, optional
        Features of the items. Not needed if the constraints contain feature values instead of ids. If the learner
        has the parameter ``background``, the table is also the background.
    position : StreamPosition, optional
        Position of the learner in the stream: after the last line that the learner has learned. By default, the
        start of the stream.
    save_every : float
        Seconds between two saves of the model file.
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
        if features is not None and "background" in learner.get_params(deep=False):
            learner.set_params(background=features.table)
        self.position = self._saved = position or StreamPosition()
        self.save_every, self._saved_at = save_every, time.monotonic()
        self._n_unused_clicks = 0
        self._joins_pairs = isinstance(learner, TripletLearner)
        self._joiner = PairJoiner()
        self._waiting_pairs: dict[int, Pair] = {}  # by their number in the joiner
        self._waiting_lines: list[StreamLine] = []  # since the last line that was learned

    def skip_learned(self, lines: Iterable[StreamLine]) -> Iterator[StreamLine]:
        """Yield the lines after ``position``. Raise `StreamMismatchError` if the lines before it have changed."""
        target, skipped = self.position, StreamPosition()
        for line in lines:
            if skipped.lines == target.lines:
                yield line
                continue
            skipped = skipped.after(line)
            self._complete(line)
            if skipped.lines == target.lines and skipped != target:
                raise StreamMismatchError(
                    f"The first {target.lines:,} lines of {self.source} differ from the lines that the "
                    f"model has learned."
                )
        if skipped.lines < target.lines:
            raise StreamMismatchError(
                f"The model has learned {target.lines:,} lines, but {self.source} has only "
                f"{skipped.lines:,} lines. {self.source} is a different stream."
            )

    def learn(self, batch: list[StreamLine]) -> None:
        """Learn lines in order. Save the model if the last save is at least ``save_every`` seconds ago.

        If a line cannot be learned, raise `StreamError` with its line number. All earlier lines have then been
        learned.
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
        """Write the model and its position, if lines were learned since the last save."""
        if self.position != self._saved and self.learner.__sklearn_is_fitted__():
            stream = {"lines": self.position.lines, "digest": self.position.digest}
            model_files.save(self.learner, self.model, notes={"stream": stream})
            self._saved = self.position
        self._saved_at = time.monotonic()

    def describe_use(self) -> str:
        """Return sentences on pairs that were joined into triplets, and on pairs and clicks that were not used.

        The result is "" if every line was learned as it is. Raise `InvalidInputError` if nothing was learned,
        because no pairs could be joined and no clicks could be used.
        """
        n_pairs, n_joined, n_clicks = self._joiner.n_pairs, self._joiner.n_joined, self._n_unused_clicks
        if not n_pairs and not n_clicks:
            return ""
        name = type(self.learner).__name__
        fitted = self.learner.__sklearn_is_fitted__()
        sentences: list[str] = []
        if n_pairs and fitted:
            sentences.append(
                f"{name} learns from triplets: {n_joined:,} triplets were formed from {n_pairs:,} pairs. "
                f"{n_pairs - 2 * n_joined:,} pairs were not used."
            )
        elif n_pairs:
            sentences.append(
                f"{name} learns from triplets, but no two of the {n_pairs:,} pairs in {self.source} can be joined "
                "into a triplet. A similar pair and a dissimilar pair must share an item."
            )
        if n_clicks:
            sentences.append(
                f"{n_clicks:,} clicks in {self.source} were not used: {name} needs clicks with at least one "
                "positive and one negative."
            )
        kinds = " and ".join(
            ["pairs"] * bool(n_pairs) + ["clicks with only positives or negatives"] * bool(n_clicks)
        )
        text = " ".join([*sentences, f"These learners accept {kinds}: {', '.join(_pair_learners())}."])
        if not fitted:
            raise InvalidInputError(text)
        return text

    def _steps(self, batch: list[StreamLine]) -> tuple[list[_Step], StreamError | None]:
        """Return the constraints to learn, and the error of the first invalid line.

        The constraints are from the lines before the invalid line. If all lines are valid, the error is None.
        """
        steps: list[_Step] = []
        for line in batch:
            try:
                constraint = self._complete(line)
            except OAHUError as error:
                return steps, StreamError(str(error), self.source, line.number)
            self._waiting_lines.append(line)
            if constraint is not None:
                steps.append(_Step(self._waiting_lines, constraint))
                self._waiting_lines = []
        return steps, None

    def _complete(self, line: StreamLine) -> Pair | Triplet | Click | None:
        """Return the constraint that a line completes.

        Return None for a pair that is stored until a matching pair arrives, and for a click that is not used.
        """
        constraint = line.constraint
        if isinstance(constraint, Click):
            if self.learner.uses_one_sided_clicks or (constraint.positives and constraint.negatives):
                return constraint
            check_click(self._rows_of_click(constraint), "The click")  # an unknown id is an error
            self._n_unused_clicks += 1
            return None
        if not self._joins_pairs or isinstance(constraint, Triplet):
            return constraint
        return self._join(constraint)

    def _join(self, pair: Pair) -> Triplet | None:
        """Return the triplet of a pair and an earlier pair, or None if the pair is stored."""
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
        """Return identifiers of the two items of a pair: row numbers in the feature table, or feature values."""
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

    def _constraints(self, constraints: list[Any]) -> ConstraintBatch:
        """Return pairs as a `Pairs` object, triplets as a `Triplets` object, or clicks as a `Clicks` object."""
        if isinstance(constraints[0], Click):
            clicks = list(map(self._rows_of_click, constraints))
            return Clicks(clicks, preprocessor=None if self.features is None else self.features.table)
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

    def _rows_of_click(self, click: Click) -> Click:
        """Return a click with the row numbers of its items instead of ids. Feature values do not change."""

        def row(item: Any) -> Any:
            return item if isinstance(item, list) else self._require_features(item).row(item)

        positives, negatives, shown = (tuple(map(row, items)) for items in click[1:4])
        return Click(row(click.query), positives, negatives, shown, click.weight)

    def _require_features(self, item: Any) -> FeatureTable:
        if self.features is None:
            raise InvalidInputError(
                f"The item {shorten(item)} is given by id, but there is no feature table. Pass a feature "
                "table with the 'features' parameter, or use feature values in the constraints."
            )
        return self.features


def _kind(step: _Step) -> tuple[type, int]:
    """Return the type of a constraint and its number of features, or -1 for ids.

    All constraints of one call of the learner must agree in both values. The query of a click may differ.
    """
    constraint = step.constraint
    first = (*constraint.positives, *constraint.negatives)[0] if isinstance(constraint, Click) else constraint[0]
    return type(constraint), len(first) if isinstance(first, list) else -1


def _pair_learners() -> list[str]:
    import oahu

    return [name for name in oahu.LEARNERS if not issubclass(getattr(oahu, name), TripletLearner)]


def file_batches(lines: Iterator[StreamLine]) -> Iterator[list[StreamLine]]:
    """Yield the lines of a file in batches. If a line is invalid, first yield the lines before it."""
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
