"""The learner loop: reads the feedback log, trains the learner, and publishes metrics.

The model depends only on the log. The loop can therefore always rebuild the model: it loads a snapshot or an
untrained learner, and learns the later log entries. To undo feedback, the loop loads a snapshot from before the
feedback and learns the later entries again, without the undone feedback.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import TIMEOUT_MAX, Condition, Event, Lock, Thread
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from oahu.constraints import Click
from oahu.exceptions import ModelFileError, OverflowedItemError, RejectedConstraintError
from oahu.io import model_files
from oahu.learners.base import Learner
from oahu.metrics import Metric
from oahu.service.errors import LearnerFailedError, ServiceError
from oahu.service.feature_store import FeatureStore
from oahu.service.learner_factory import example_kind, new_learner
from oahu.service.records import (
    CollectionConfig,
    HistoryPoint,
    PublishedMetric,
    TrainingEntry,
    UndoEntry,
    active_undo_ranges,
    active_undos,
    first_changed_seq,
    undone_between,
)
from oahu.service.store import Store
from oahu.service.training_examples import Examples, decode_examples

__all__ = ["LearnerLoop"]

_BATCH: Final = 64  # log entries per published metric
_LARGE_BATCH: Final = 1_024  # log entries per published metric if many are waiting
_BATCH_DELAY: Final = 0.01  # seconds to wait for more feedback if no query waits for the metric
_FULL_BATCH: Final = 16  # number of waiting log entries that are learned without delay
_SAMPLE: Final = 16  # triplets per batch on which the metric is evaluated before training
_DECAY: Final = 0.98  # decay of the running error rate per triplet
_DENSE_HISTORY: Final = 200  # constraints; the history has every version up to here, and fewer later versions

log = logging.getLogger("oahu.service")


class LearnerLoop:
    """A background thread that trains the learner on the log of a collection and publishes metrics.

    Parameters
    ----------
    on_publish : callable
        A function that the background thread calls with every published metric.
    snapshot_every : int
        Number of constraints between two snapshots.
    keep_snapshots : int
        Number of snapshots to keep.
    before_learning : callable, optional
        A function that the background thread calls before it learns log entries, also again in a replay, with the
        sequence number before them, their number, the undone sequence numbers, and the newest metric.

    Attributes
    ----------
    published : PublishedMetric
        The newest metric.
    n_rejected : int
        Number of constraints since the start of the service that were skipped, because training on them would
        overflow the model.
    error : Exception or None
        The error that stopped the loop. None if the loop has not failed.
    """

    def __init__(
        self,
        store: Store,
        collection: int,
        config: CollectionConfig,
        features: FeatureStore,
        on_publish: Callable[[PublishedMetric], None],
        snapshot_every: int = 5_000,
        keep_snapshots: int = 12,
        before_learning: Callable[[int, int, set[int], Metric], None] | None = None,
    ) -> None:
        self._store, self._collection, self._config, self._features = store, collection, config, features
        self._on_publish, self._snapshot_every, self._keep_snapshots = on_publish, snapshot_every, keep_snapshots
        self._before_learning = before_learning
        self._kind = example_kind(config)
        self._changed, self._stop, self._training = Condition(), Event(), Lock()
        self._head = 0  # last known sequence number of the log
        self._requested = 0  # a query waits until this log entry is learned
        self._undos = store.undos(collection)
        self._undone = active_undo_ranges(self._undos)
        last = store.last_seq(collection)
        # Snapshots beyond the end of the log belong to another log. This happens after a backup was restored.
        store.drop_snapshots(collection, [seq for seq in store.snapshots(collection) if seq > last])
        self._learner, self._seq = self._load_snapshot(last)
        self._snapshot = self._seq, self._learner.n_seen_  # position of the last snapshot
        self._last_point = max((point.constraints for point in store.history(collection)), default=-1)
        self._error_rate: float | None = None
        self.n_rejected = 0
        self.error: Exception | None = None
        self.published = self._frozen_metric()
        self._thread = Thread(target=self._run, name=f"oahu-learner-{collection}", daemon=True)

    # -- for other threads -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def notify(self, head: int) -> None:
        """Notify the loop of new log entries. ``head`` is the last sequence number of the log."""
        with self._changed:
            self._head = max(self._head, head)
            self._changed.notify_all()

    def request(self, seq: int) -> None:
        """Make the loop learn the log up to ``seq`` immediately, without the usual wait for a larger batch."""
        if self.published.version < seq:
            with self._changed:
                self._requested = max(self._requested, seq)
                self._changed.notify_all()

    def wait_for(self, seq: int, timeout: float) -> PublishedMetric:
        """Wait up to ``timeout`` seconds until the log is learned up to ``seq``. Return the newest metric."""
        if self.published.version < seq and timeout > 0:
            self.request(seq)
            with self._changed:
                self._changed.wait_for(
                    lambda: self.published.version >= seq or self.error is not None, min(timeout, TIMEOUT_MAX)
                )
        return self.published

    def model_file(self) -> bytes:
        """Return the learner as the content of a model file."""
        with self._training:
            return model_files.to_bytes(self._learner)

    def history(self) -> list[HistoryPoint]:
        """Return the history of the weights of the metric."""
        return [*self._store.history(self._collection)] or [self.published.history_point]

    def raise_if_failed(self) -> None:
        """Raise `LearnerFailedError` if the loop has stopped with an error."""
        if self.error is not None:
            raise LearnerFailedError(
                f"The learner of {self._config.name!r} has failed ({self.error!r}). All accepted feedback is "
                "stored. Restart the service to continue learning."
            )

    def stop(self) -> None:
        """Stop the background thread. The remaining log entries are learned after the next start."""
        self._stop.set()
        self.notify(self._head)
        if self._thread.ident is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop the background thread and save a snapshot."""
        self.stop()
        if self.error is None and self._seq != self._snapshot[0]:
            self._save_snapshot()

    # -- the background thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._compile()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._head > self._seq or self._stop.is_set())
                    self._changed.wait_for(self._is_urgent, _BATCH_DELAY)
                if self._stop.is_set():
                    return
                with self._training:
                    self._advance()
        except Exception as error:
            log.exception("the learner of %r has failed", self._config.name)
            self.error = error
            with self._changed:
                self._changed.notify_all()

    def _is_urgent(self) -> bool:
        """Return whether to learn immediately.

        Normally, the loop waits a short time for more feedback, because a large batch takes less time per
        constraint than a small batch.
        """
        return self._requested > self._seq or self._head - self._seq >= _FULL_BATCH or self._stop.is_set()

    def _compile(self) -> None:
        """Compile the learner in advance, so that the first query does not wait for the compilation."""
        rows = np.random.default_rng(0).normal(size=(2, 3, self._config.dimension)).astype(self._features.dtype)
        new_learner(self._config).partial_fit(rows).metric().scores_to_first(rows.reshape(6, -1), 3)

    def _advance(self) -> None:
        """Learn the next log entries and publish a metric.

        New undos are applied first, even if other entries precede the undos in the log. An undo can change the
        training examples of later records. After an undo, the entries are therefore read again.
        """
        replay_until = 0  # no metric is published before this entry is learned again
        while not self._stop.is_set():
            replaying = self._seq < replay_until
            limit = _LARGE_BATCH if self._head - self._seq >= _LARGE_BATCH else _BATCH
            if replaying:
                limit = min(_LARGE_BATCH, replay_until - self._seq)
            entries = self._store.training_log(self._collection, self._seq, limit)
            if undos := self._store.undos(self._collection, self._undos[-1].seq if self._undos else 0):
                self._roll_back(undos)
                replay_until = undos[-1].seq
                continue
            self._learn(entries, None if replaying else self.published.metric)
            if self._seq >= replay_until:
                self._publish()
                self._save_snapshot_if_due()
                return
            self._save_snapshot_if_due()

    def _learn(self, entries: Sequence[TrainingEntry], metric: Any) -> None:
        """Evaluate ``metric`` on a sample of the entries, then learn the entries.

        If the entries contain a model replacement, learning stops after the replacement. If ``metric`` is None,
        there is no evaluation.
        """
        undone = undone_between(self._undone, self._seq, self._seq + len(entries))
        effective = [entry for entry in entries if entry.seq not in undone]
        replacement = next((entry.seq for entry in effective if entry.replaces_model), None)
        if replacement is not None:
            effective = [entry for entry in effective if entry.seq < replacement]
        if self._before_learning is not None and entries:  # a replay may contain entries that were never learned
            n = len(entries) if replacement is None else replacement - self._seq
            self._before_learning(self._seq, n, undone, self.published.metric)
        encoded = [entry.examples for entry in effective if entry.examples is not None]
        given, examples = decode_examples(encoded, self._kind)
        if metric is not None and len(given):
            self._evaluate(metric, self._features.take(given[:: -(-len(given) // _SAMPLE)]))
        n_rejected = self._train(*self._with_features(examples)) if len(examples) else 0
        if metric is not None:  # do not count again in a replay
            self.n_rejected += n_rejected
        if replacement is not None:
            data = self._store.model(self._collection, replacement)
            self._learner = model_files.from_bytes(data, f"model {replacement}")
        if entries:
            self._seq = entries[-1].seq if replacement is None else replacement

    def _evaluate(self, metric: Any, triplets: NDArray[Any]) -> None:
        """Update the error rate with the metric's errors on triplets.

        Call this method before the learner learns these triplets.
        """
        with suppress(OverflowedItemError):
            positive, negative = metric.scores_to_first(triplets.reshape(-1, triplets.shape[2]), 3)
            for wrong in (positive <= negative).astype(float).tolist():
                before = self._error_rate
                self._error_rate = wrong if before is None else _DECAY * before + (1 - _DECAY) * wrong

    def _with_features(self, examples: Examples) -> tuple[Any, NDArray[Any] | None]:
        """Return the arguments of `partial_fit` for training examples: the features, and the labels of pairs."""
        if isinstance(examples, list):
            numbers = [n for one in examples for n in (one.query, *one.positives, *one.negatives, *one.shown)]
            rows = iter(self._features.take(numbers))
            clicks = []
            for one in examples:
                query = next(rows)
                positives, negatives, shown = ([next(rows) for _ in part] for part in one[1:4])
                clicks.append(Click(query, positives, negatives, shown, one.weight))
            return clicks, None
        if self._kind == "pairs":
            return self._features.take(examples[:, :2]), examples[:, 2].astype(bool)
        return self._features.take(examples), None

    def _train(self, values: Any, same: NDArray[Any] | None) -> int:
        """Train on constraints, and return the number of skipped constraints.

        ``values`` is an array or a list with one entry for each constraint. Constraints that would overflow the
        model are skipped.
        """
        n_rejected = 0
        while len(values):
            try:
                self._learner.partial_fit(values, same)
                break
            except (RejectedConstraintError, OverflowedItemError) as error:
                at = error.row
                n_rejected += 1
                if at:
                    self._learner.partial_fit(values[:at], None if same is None else same[:at])
                values, same = values[at + 1 :], None if same is None else same[at + 1 :]
        return n_rejected

    def _roll_back(self, undos: Sequence[UndoEntry]) -> None:
        """Load the newest snapshot from before the first log entry that the undos activate or deactivate.

        If the learner has not learned this log entry yet, keep the learner, unless its settings have changed.
        """
        changed = undos[0].seq
        for undo in undos:
            changed = min(changed, first_changed_seq(self._undos, undo))
            self._undos = [*self._undos, undo]
        self._undone = active_undo_ranges(self._undos)
        revision = self._config.revision
        self._config = self._store.config(self._collection)  # the undos may include a change of settings
        if changed > self._seq and self._config.revision == revision:
            return  # the entries that the undos change are not learned yet
        outdated = [seq for seq in self._store.snapshots(self._collection) if seq >= changed]
        self._store.drop_snapshots(self._collection, outdated)
        self._learner, self._seq = self._load_snapshot(changed - 1)
        self._snapshot = self._seq, self._learner.n_seen_
        self._last_point = -1
        with suppress(ServiceError):
            self._store.commit(lambda t: t.delete_history(self._collection, changed), weight=0)

    # -- metrics and history -----------------------------------------------------------------------------

    def _frozen_metric(self) -> PublishedMetric:
        learner = self._learner
        return PublishedMetric(learner.metric(), self._seq, learner.n_seen_, self._error_rate, time.time())

    def _publish(self) -> None:
        published = self._frozen_metric()
        with self._changed:
            self.published = published
            self._changed.notify_all()
        self._store_history(published.history_point)
        self._on_publish(published)

    def _store_history(self, point: HistoryPoint) -> None:
        """Store the weights of the metric for every early version and for some of the later versions."""
        if point.constraints - self._last_point >= max(1, self._last_point / _DENSE_HISTORY):
            self._last_point = point.constraints
            with suppress(ServiceError):  # the history may have gaps
                self._store.commit(lambda t: t.store_history(self._collection, [point]), weight=0)

    # -- snapshots ---------------------------------------------------------------------------------------

    def _load_snapshot(self, before: int) -> tuple[Learner[Any], int]:
        """Return the learner and the sequence number of the newest valid snapshot up to ``before``.

        If there is no such snapshot, return an untrained learner and 0.
        """
        for seq in self._store.snapshots(self._collection):
            if seq > before:
                continue
            try:
                learner, notes = self._store.snapshot(self._collection, seq)
            except (ModelFileError, OSError) as error:
                log.warning("skipping snapshot %d of %r: %s", seq, self._config.name, error)
                continue
            if notes == self._snapshot_notes(seq):  # otherwise an undo outdated it, or another log
                return learner, seq
        return new_learner(self._config), 0

    def _snapshot_notes(self, seq: int) -> dict[str, Any]:
        """Return the metadata of a snapshot, which show later whether the snapshot still matches the log.

        The metadata are the sequence number and the time of the last learned log entry, the undone ranges, the
        changes of the weights of sources, and the last change of settings.
        """
        times = [entry.time for entry in self._store.log(self._collection, seq - 1, 1)]
        undone = sorted([first, min(last, seq)] for first, last in self._undone if first <= min(last, seq))
        notes: dict[str, Any] = {"seq": seq, "time": times[:1], "undone": undone}
        again = [undo.seq for undo in active_undos(self._undos) if undo.last < undo.first <= seq]
        if again or self._config.revision:  # snapshots of oahu 0.1.0 have neither
            notes |= {"learned_again": again, "revision": self._config.revision}
        return notes

    def _save_snapshot_if_due(self) -> None:
        if self._learner.n_seen_ - self._snapshot[1] >= self._snapshot_every:
            self._save_snapshot()

    def _save_snapshot(self) -> None:
        try:
            self._store.save_snapshot(self._collection, self._seq, self._learner, self._snapshot_notes(self._seq))
            stored = self._store.snapshots(self._collection)
            dropped = set(stored) - set(_select_snapshots(stored, self._keep_snapshots))
            self._store.drop_snapshots(self._collection, dropped)
        except OSError as error:
            log.warning("cannot save a snapshot of %r: %s", self._config.name, error)
        self._snapshot = self._seq, self._learner.n_seen_  # also after a failure: do not retry with every batch


def _select_snapshots(seqs: Sequence[int], limit: int) -> list[int]:
    """Return the snapshots to keep. ``seqs`` contains the sequence numbers of all snapshots, newest first.

    The two newest snapshots and the oldest snapshot are always kept. The other snapshots are removed one by one,
    until ``limit`` snapshots are left. Each step removes the snapshot with the smallest gap between its two
    neighbours, relative to the distance of the gap from the newest snapshot. As a result, recent snapshots are
    closer together than old snapshots.

    >>> _select_snapshots([100, 90, 80, 70, 60, 50, 40, 30, 20, 10], 6)
    [100, 90, 80, 70, 50, 10]
    """
    kept = list(seqs)
    while len(kept) > max(limit, 3):
        gaps = [(kept[at - 1] - kept[at + 1]) / (kept[0] - kept[at + 1]) for at in range(2, len(kept) - 1)]
        del kept[2 + gaps.index(min(gaps))]
    return kept
